"""Which generation of a node group, a launch template, a node pool or a runner set the program declares.

Some edits need another one, and the old one stays until its jobs have ended. So both need a name. The first one of a name has no
suffix. A later one has a digest of what it is made of: an edit that is taken back finds the first one again.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, cast

import pulumi
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import get_monitor

from fleet.facts.record import Record

OUTPUT = "generations"
"""The stack output that has the digest of the first generation, by logical name."""
_NAME = re.compile(r"(.+-(?:nodes|launch)(?:-[0-9a-f]{6})?)-[0-9a-f]{7}")
"""A name in the cloud: the logical name, perhaps with the digits of a generation, and the digits that Pulumi appends."""


Suffix = Callable[[str, Mapping[str, Any]], str]
"""What follows a logical name, from the name and from what the resource is made of."""


class Generations(Record):
    """`recorded` are the digests of the last complete update. A name that is not in it adopts what it meets first.

    `first` are those of the names that the program declares.
    """

    recorded: Mapping[str, str] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls) -> "Generations":
        """Those of the stack itself; none before its first update. Raises RunError if the backend refuses."""
        name = _stack()
        try:
            answer = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": name}).value or {}
        except Exception as error:
            raise pulumi.RunError(f"{name}: the backend does not return the stack's own outputs: {error}") from error
        return cls((answer.get("outputs") or {}).get(OUTPUT) or {})

    def suffix(self, name: str, made_of: Mapping[str, Any]) -> str:
        """What follows the name in the names of this generation: "", or "-" and six hexadecimal digits.

        `made_of` are the inputs whose change needs another generation. Outputs in it count as equal: their values come later.
        """
        text = json.dumps(made_of, sort_keys=True, default=lambda value: None if isinstance(value, pulumi.Output) else str(value))
        digest = hashlib.sha256(text.encode()).hexdigest()[:6]
        self.first[name] = first = self.recorded.get(name, digest)
        return "" if first == digest else f"-{digest}"

    def keep(self, name: str) -> None:
        """Record again what a group, pool or set is made of that leaves. It may come back, made of something else."""
        self.first.update({at: what for at, what in self.recorded.items() if at == name or at.startswith(f"{name}.")})

    def before(self, name: str, now: str) -> str | None:
        """What the last complete update recorded under a name, of which it is now `now`; None if nothing."""
        self.first[name] = now
        return self.recorded.get(name)


def _stack() -> str:
    """The full name of the stack, as the engine's functions take it."""
    return f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"


def resources() -> Mapping[str, Any]:
    """All resources in the state, as {URN: {"type", "outputs"}}.

    Only for a stack that `Generations.read` could read, and that has outputs: without any state the engine itself fails.
    """
    # The SDK's own invoke would look up the resources in the outputs, which the program has not declared yet.
    asked = json_format.ParseDict({"stackName": _stack()}, struct_pb2.Struct())
    request = resource_pb2.ResourceInvokeRequest(tok="pulumi:pulumi:readStackResourceOutputs", args=asked)
    answer = cast("Any", get_monitor()).Invoke(request)
    return cast("Mapping[str, Any]", json_format.MessageToDict(getattr(answer, "return"))["outputs"])


def logical_name(name: str) -> str:
    """The logical name of the resource with this name in the cloud, "" if Pulumi did not name it so."""
    match = _NAME.fullmatch(name)
    return match[1] if match else ""


def counted_nodes(count: int) -> str:
    """The number with its noun."""
    return f"{count} {'node' if count == 1 else 'nodes'}"


def warn_leaving(name: str, nodes: int) -> None:
    """Say of the group or pool with this logical name that it leaves, how many nodes it has, and when it goes."""
    later = "no node ends now; a later pulumi up deletes it once it is empty" if nodes else "the next pulumi up deletes it"
    pulumi.log.warn(f"{name} is leaving and has {counted_nodes(nodes)}: {later}")
