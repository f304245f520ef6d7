"""cloud-limits: every value is one that the cloud, Kubernetes or the node accepts.

`fleet/facts/data/cloud_limits.csv` has the bounds: lengths, patterns, words and numbers of the AWS APIs, whole numbers of
Kubernetes and of kubelet, names with the eight characters that Pulumi adds, networks, zones, tags, bucket names and cron lines.
The rule checks what a program registers, so settings, components and the component package are checked alike. It opens documents
inside a value: the NodeConfig in user data, and containerd's TOML in it.

A plan of a stack file finds the key that has the value, and ends with status 2 and its line.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from fleet.facts.cloud_limits import SUFFIX, limits
from fleet.facts.record import Record
from fleet.facts.yaml_text import helm_values

from .read import Data, Faults, Later, known, line, parsed, places, shown, text
from .record import changed
from .rule import Args, Rule, facts
from .userdata import decoded


class Fault(Record):
    """A value that a cloud refuses: its path in the resource, the value as plain data, and the rule with the fix."""

    path: str
    value: Data
    rule: str

    def __str__(self) -> str:
        return f"{self.path}: {self.rule} (got {shown(self.value)})"


def faults(token: str, name: str, props: Data, later: Later) -> Iterator[Fault]:
    """The faults of a resource with this type and logical name, or of a document inside one."""
    for limit in limits().get(token, ()):
        for path, content in places(props, limit.path, later):
            with later:
                if limit.kind == "document":
                    yield from (
                        Fault(f"{path}: {inner.path}", inner.value, inner.rule)
                        for document in _OPENED[limit.values](content)
                        for inner in faults(limit.values, name, document, later)
                    )
                    continue
                value = _plain(content, later)
                if limit.kind == "name" and value is None:
                    value = f"{name}-{'x' * (SUFFIX - 1)}"
                if (fault := limit.fault(value)) is not None:
                    yield Fault(path, value, fault)


def _plain(value: Data, later: Later) -> Data:
    """The value with None for its unknown parts, which `later` collects."""
    return changed(value, lambda leaf, _: later.get(partial(known, leaf), None))


def _node_configs(user_data: Data) -> Iterator[Data]:
    for part in re.split(r"^--.*$", decoded(text(user_data)) or text(user_data), flags=re.MULTILINE):
        # User data has at most 16 KiB (EC2 user guide).
        if "NodeConfig" in part and len(part) <= 65536:
            yield helm_values(part)


_OPENED: Mapping[str, Callable[[Data], Iterator[Data]]] = {
    "NodeConfig": _node_configs,
    "KubeletConfiguration": lambda content: iter((content,)),
    "containerd": lambda content: iter((parsed(text(content), tomllib.loads),)),
    "DefaultTags": lambda content: iter((parsed(content) if isinstance(content, str) else content,)),
}
"""What is inside a value, by the type of the document."""


def _check(args: Args, later: Later) -> Faults:
    yield from (line(str(fault), most=400) for fault in faults(args.type, args.name, args.props, later))


RULE = Rule(**facts(__name__), types=frozenset(token for token in limits() if ":" in token), check=_check)
