"""What a recording of a Pulumi program has. Importing this module needs no SDK; `offline.record` makes recordings with it."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_ci.offline import wire

if TYPE_CHECKING:
    from google.protobuf import struct_pb2

STACK_TYPE = "pulumi:pulumi:Stack"
Answer = Callable[[Mapping[str, object]], Mapping[str, object]]
"""Answers one invoke: takes its arguments, returns its result, both with wire (camelCase) names."""
Cloud = Mapping[str, Answer] | None
"""What a cloud answers, by the token of the invoke."""


class ProgramError(Exception):
    """The program does something that the engine would refuse, or that a recording cannot know. The text says how to fix it."""


@dataclass(frozen=True, eq=False)
class Resource:
    """One resource as the program declared it.

    `parent`, `dependencies` and `property_dependencies` are URNs; `provider` is "<urn>::<id>" or "". `wire` is the Struct of the
    inputs, or the answer of `wire.as_sent` for a manifest: do not change it. `read` marks a resource that is looked up, and not
    created. `id` is "" if only the cloud decides it. `aliases` are messages of the SDK, serialized.
    """

    urn: str
    type: str
    name: str
    parent: str
    custom: bool
    remote: bool
    read: bool
    id: str
    wire: "struct_pb2.Struct | dict[str, Any]" = field(repr=False)
    provider: str = ""
    providers: Mapping[str, str] = field(default_factory=dict)
    provider_resource: "Resource | None" = field(default=None, repr=False)
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ignore_changes: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    replacement_trigger: object = None
    additional_secret_outputs: tuple[str, ...] = ()
    aliases: tuple[bytes, ...] = ()
    protect: bool = False
    retain_on_delete: bool = False
    delete_before_replace: bool | None = None

    @functools.cached_property
    def inputs(self) -> Mapping[str, Any]:
        """The inputs for reading and printing: UNKNOWN and Secret markers, whole numbers as ints. Do not change it."""
        return wire.view(wire.raw(self.wire))

    @property
    def provider_urn(self) -> str:
        """The URN of the provider resource; "" for a default provider."""
        return self.provider.rpartition("::")[0]


class Message(NamedTuple):
    """A log message of the program; severity is "info", "warning" or "error"."""

    severity: str
    text: str
    urn: str = ""


@dataclass(frozen=True, eq=False)
class Recording:
    """All resources in the order of their registration: the stack first, a parent before its children."""

    project: str
    stack: str
    preview: bool
    resources: tuple[Resource, ...]
    outputs: Mapping[str, object]
    messages: tuple[Message, ...] = ()

    @functools.cached_property
    def by_urn(self) -> Mapping[str, Resource]:
        """URN to resource."""
        return MappingProxyType({resource.urn: resource for resource in self.resources})

    def lineage(self, urn: str) -> Iterator[str]:
        """Logical names of a resource and its parents, the resource first."""
        while (resource := self.by_urn.get(urn)) is not None and resource.type != STACK_TYPE:
            yield resource.name
            urn = resource.parent


def joined(*recordings: Recording | None) -> Recording:
    """Merge recordings of one stack: the stack and outputs of the first, the resources and messages of all.

    Raises ProgramError if two recordings have a resource with the same URN.
    """
    first, *others = (each for each in recordings if each is not None)
    resources = (*first.resources, *(resource for other in others for resource in other.resources[1:]))
    found = replace(first, resources=resources, messages=tuple(message for each in (first, *others) for message in each.messages))
    if len(found.by_urn) < len(found.resources):
        twice = next(resource.urn for other in others for resource in other.resources[1:] if resource.urn in first.by_urn)
        raise ProgramError(f"duplicate URN {twice}: the program and Git form one stack; rename one of the two")
    return found
