"""Sweeps: small programs that watch a cluster's objects and repair them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from fleet.charts.sweeps import NAMESPACE
from fleet.facts.manifest import Manifest
from fleet.render.sweeps.sweep import Sweep, home, sweep_objects

_AFTER = {"ClusterRoleBinding": ["ClusterRole"], "RoleBinding": ["Role"], "Deployment": ["ServiceAccount", "ConfigMap"]}
"""What an object of a sweep needs of the same sweep, by kind. A pod that starts before it has rights tries again."""


@dataclass(frozen=True, slots=True)
class SweepsArgs:
    """`sweeps` run on the nodes of `selector`. `ready` must exist before any object.

    `spaces` create the namespaces in which sweeps have rights, by the name of the namespace. In Git, waves order them.
    """

    sweeps: Sequence[Sweep]
    selector: Mapping[str, str]
    ready: Sequence[pulumi.Resource]
    spaces: Mapping[str, pulumi.Resource] = field(default_factory=dict)


class Sweeps(Component[SweepsArgs]):
    """The namespace of all sweeps, and for each its account, rights, program and pod."""

    def declare(self, name: str, args: SweepsArgs) -> None:
        space, wall = home()
        namespace = self._object(name, space, args.ready)
        walled = [namespace, self._object(name, wall, [namespace])]
        for sweep in args.sweeps:
            declared: dict[tuple[str, str], pulumi.Resource] = {}
            for manifest in sweep_objects(sweep, args.selector):
                kind, where = manifest["kind"], manifest["metadata"].get("namespace", "")
                before = [declared[needed, where] for needed in _AFTER.get(kind, ())]
                if where not in ("", NAMESPACE):
                    # Only its own: with those of all sets a plan would take time by the square of their number.
                    before += [args.spaces[where]] if where in args.spaces else []
                elif where:
                    before += walled if kind == "Deployment" else [namespace]
                declared[kind, where] = self._object(name, manifest, [*args.ready, *before])

    def _object(self, name: str, manifest: Manifest, before: Sequence[pulumi.Resource]) -> pulumi.Resource:
        metadata = manifest["metadata"]
        where = metadata.get("namespace", NAMESPACE)
        # A sweep has a role in each of several namespaces.
        suffix = "" if where == NAMESPACE else f".{where}"
        return custom(f"{name}.{metadata['name']}{suffix}", manifest, parent=self, depends_on=before)
