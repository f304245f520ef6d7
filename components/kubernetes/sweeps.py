"""Sweeps: small programs that repair a cluster's objects every few seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from fleet.charts.sweeps import NAMESPACE
from fleet.render.manifest import Manifest
from fleet.render.sweeps.sweep import Sweep, home, sweep_objects


@dataclass(frozen=True, slots=True)
class SweepsArgs:
    """`sweeps` run on the nodes of `selector`. `ready` must exist before: the namespaces in which they have rights."""

    sweeps: Sequence[Sweep]
    selector: Mapping[str, str]
    ready: Sequence[pulumi.Resource]


class Sweeps(Component[SweepsArgs]):
    """The namespace of all sweeps, and for each its account, rights, program and pod."""

    def declare(self, name: str, args: SweepsArgs) -> None:
        before = list(args.ready)
        for each in home():
            before.append(self._object(name, each, before))
        for sweep in args.sweeps:
            made = [*before]
            for each in sweep_objects(sweep, args.selector):
                made.append(self._object(name, each, made))

    def _object(self, name: str, manifest: Manifest, before: Sequence[pulumi.Resource]) -> pulumi.Resource:
        metadata = manifest["metadata"]
        where = metadata.get("namespace", NAMESPACE)
        # A sweep has a role in each of several namespaces.
        suffix = "" if where == NAMESPACE else f".{where}"
        return custom(f"{name}.{metadata['name']}{suffix}", manifest, parent=self, depends_on=before)
