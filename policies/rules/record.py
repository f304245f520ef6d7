"""A resource as rules see it: plain data, with marks for values that are unknown, secret or a file.

`plain` reads properties in wire form, `wired` writes them. Facts: pulumi/pulumi, sdk/go/common/resource/properties.go has the
signatures, and pulumi_policy/proxy.py of the SDK the texts that stand for an unknown value.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet.facts.record import Record
from fleet.facts.tables import beside

Step = str | int
Data = Any
"""A value of a resource's properties, or any part of it: whatever the program wrote."""

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a public constant of the wire format
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
UNKNOWNS: dict[str, str] = beside(__file__, "unknowns.toml")
"""The texts that stand for an unknown value on the wire, with the kind of each."""

_STEP = re.compile(r"[^.\[\]]+|\[([0-9]+)\]")


class Unknown(Record):
    """A value that a preview does not know: its path in the properties, and the text that stands for it on the wire."""

    path: tuple[Step, ...]
    sentinel: str = UNKNOWN


class Secret(Record):
    """A secret value. Only a remedy sees this mark; a check sees the value."""

    value: Any


class File(Record):
    """An asset or an archive in wire form. No rule looks into one."""

    wire: Mapping[str, Any]


class UnknownError(Exception):
    """A rule read an unknown value. `message` says where it is, in the same spelling as violations: .containers[0].image."""

    def __init__(self, value: Unknown) -> None:
        super().__init__()
        self.value = value
        self.place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in value.path)
        self.message = f"{UNKNOWNS[value.sentinel]} value at {self.place} can't be known during preview"


class Options(Record):
    """The resource options that rules read."""

    protect: bool = False
    ignore_changes: Sequence[str] = ()


class Provider(Record, eq=False):
    """The provider of a resource. Without arguments it is a default provider, of which a program shows nothing."""

    props: Mapping[str, Any] = field(default_factory=dict)
    urn: str = ""
    name: str = ""


@dataclass(slots=True, eq=False)
class Resource:
    """A resource. Only stack rules get its parent and its dependencies."""

    type: str
    props: Mapping[str, Any]
    urn: str
    name: str
    opts: Options = Options()
    provider: Provider = Provider()
    parent: "Resource | None" = None
    dependencies: "Sequence[Resource]" = ()
    property_dependencies: "Mapping[str, Sequence[Resource]]" = field(default_factory=dict)


def plain(value: Any, path: tuple[Step, ...] = (), *, secrets: bool = False) -> Any:
    """A value in wire form as plain data. With `secrets` a secret stays marked."""
    if isinstance(value, str):
        return Unknown(path, value) if value in UNKNOWNS else value
    if isinstance(value, list):
        return [plain(item, (*path, index), secrets=secrets) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    signature = value.get(SIGNATURE)
    if signature is None:
        # Most values are plain texts, and their path is not needed.
        return {
            key: item if type(item) is str and item not in UNKNOWNS else plain(item, (*path, key), secrets=secrets)
            for key, item in value.items()
        }
    if signature != SECRET:
        return File(value)
    inner = plain(value.get("value"), path, secrets=secrets)
    return Secret(inner) if secrets else inner


def changed(value: Any, change: Callable[[Any, tuple[Step, ...]], Any], path: tuple[Step, ...] = ()) -> Any:
    """A copy of plain data in which `change` has replaced each value at its path. It leaves objects and lists alone."""
    if isinstance(value, dict):
        return {key: changed(item, change, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [changed(item, change, (*path, index)) for index, item in enumerate(value)]
    return change(value, path)


def wired(value: Any, _: tuple[Step, ...] = ()) -> Any:
    """Plain data in wire form."""
    if isinstance(value, (dict, list)):
        return changed(value, wired)
    if isinstance(value, Secret):
        return {SIGNATURE: SECRET, "value": wired(value.value)}
    if isinstance(value, Unknown):
        return value.sentinel
    return dict(value.wire) if isinstance(value, File) else value


def bare(value: Any) -> Any:
    """A copy of plain data with the values of secrets in place of their marks."""
    return changed(value, lambda leaf, _: bare(leaf.value) if isinstance(leaf, Secret) else leaf)


def steps(path: str) -> tuple[Step, ...]:
    """The object keys and list indices of a path such as "items[0].spec.containers[1]"."""
    return tuple(int(match[1]) if match[1] else match[0] for match in _STEP.finditer(path))
