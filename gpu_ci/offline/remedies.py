"""Runs the pack's remediations on each resource when it is registered, as the engine does, and records the changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_ci.offline import wire
from gpu_ci.offline.entries import plain as shown
from gpu_ci.offline.judge import Configured, record_of
from gpu_ci.offline.recording import Resource
from policies.rules import Rule
from policies.rules.record import plain, wired
from policies.rules.rule import Level, args_of

if TYPE_CHECKING:
    from google.protobuf import struct_pb2


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
        for configured in policies:
            able = isinstance(configured.policy, Rule) and configured.policy.remedy is not None
            if able and configured.level is Level.REMEDIATE:
                for token in configured.types:
                    self._by_type.setdefault(token, []).append(configured)

    def __call__(self, resource: Resource) -> struct_pb2.Struct | None:
        before = wire.remediable(wire.raw(resource.wire)) if resource.type in self._by_type else {}
        fixed: struct_pb2.Struct | None = None
        for configured in self._by_type.get(resource.type, ()):
            # Secrets stay marked, so that the new inputs are as secret as the old ones.
            record = record_of(resource, plain(before, secrets=True))
            policy = configured.policy
            if isinstance(policy, Rule) and (after := policy.remedied(args_of(record, configured.config), configured.as_of)):
                from google.protobuf import struct_pb2  # noqa: PLC0415 - a plan without Pulumi's SDK lacks it

                fixed = struct_pb2.Struct()
                fixed.update(wired(after))
                now = wire.raw(fixed)
                self.done.append(Remediation(policy.id, resource.urn, tuple(_changes(wire.view(before), wire.view(now)))))
                before = now
        return fixed


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    for path, old, new in wire.differing(before, after, lists=True):
        yield f"{path}: {shown(old, _scalar)} → {shown(new, _scalar)}"


def _scalar(value: object) -> str:
    if value is wire.ABSENT:
        return "not set"
    return f'"{value}"' if type(value) is str else str(value)
