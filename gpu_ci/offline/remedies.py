"""Runs the pack's remediations on each resource when it is registered, as the engine does, and records the changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from google.protobuf import struct_pb2
from pulumi_policy import EnforcementLevel, ResourceValidationPolicy
from pulumi_policy.deserialize import deserialize_properties, serialize_properties
from pulumi_policy.proxy import UnknownValueError

from gpu_ci.offline import wire
from gpu_ci.offline.entries import plain
from gpu_ci.offline.judge import Configured, Providers, arguments_of, finished
from gpu_ci.offline.record import Resource


@dataclass(frozen=True)
class Remediation:
    """The changes of one policy in one resource, one line each: "path: before → after". Secret values are never shown."""

    rule: str
    urn: str
    changes: tuple[str, ...]


class Remedies:
    """The policies with level remediate. A call with a resource returns its new inputs, or None if no policy changes it."""

    def __init__(self, policies: Iterable[Configured]) -> None:
        self.done: list[Remediation] = []
        self._by_type: dict[str, list[Configured]] = {}
        self._providers = Providers()
        for configured in policies:
            able = isinstance(configured.policy, ResourceValidationPolicy) and configured.policy.has_remediation()
            if able and configured.level is EnforcementLevel.REMEDIATE:
                for token in configured.types:
                    self._by_type.setdefault(token, []).append(configured)

    def __call__(self, resource: Resource) -> struct_pb2.Struct | None:
        policies_of_type = self._by_type.get(resource.type)
        if not policies_of_type:
            return None
        before = wire.remediable(wire.raw(resource.wire))
        # Secrets stay marked, so that the new inputs are as secret as the old ones.
        props: Mapping[str, object] = deserialize_properties(before, True)
        fixed: struct_pb2.Struct | None = None
        for configured in policies_of_type:
            if after := self._ask(configured, resource, props):
                fixed = struct_pb2.Struct()
                fixed.update(serialize_properties(after))
                now = wire.raw(fixed)
                changes = tuple(_changes(wire.view(before), wire.view(now)))
                self.done.append(Remediation(configured.policy.name, resource.urn, changes))
                before, props = now, after
        return fixed

    def _ask(self, configured: Configured, resource: Resource, props: Mapping[str, object]) -> Mapping[str, object] | None:
        policy: Any = configured.policy
        try:
            arguments = arguments_of(self._providers.fields(resource, props), configured.config)
            inputs: Mapping[str, object] | None = finished(policy.remediate(arguments))
        except UnknownValueError:
            # The policy's check then reports the resource as undeterminable.
            return None
        return inputs


def _changes(before: object, after: object, path: str = "") -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from _changes(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{path}.{key}" if path else key)
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        for index, (old, new) in enumerate(zip_longest(before, after, fillvalue=_ABSENT)):
            yield from _changes(old, new, f"{path}[{index}]")
    elif isinstance(before, wire.Secret) and isinstance(after, wire.Secret):
        if before.reveal() != after.reveal():
            yield f"{path}: [secret] → [secret]"
    elif before != after:
        yield f"{path}: {plain(before, _scalar)} → {plain(after, _scalar)}"


_ABSENT = object()


def _scalar(value: object) -> str:
    if value is _ABSENT:
        return "not set"
    return f'"{value}"' if type(value) is str else str(value)
