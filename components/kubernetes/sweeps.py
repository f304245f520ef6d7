"""Sweeps: small programs that watch a cluster's objects and repair them."""

from collections.abc import Mapping, Sequence

import pulumi

from components.component import Component, Resources
from components.kubernetes.custom import custom
from components.kubernetes.in_cluster import Inside
from fleet.charts.sweeps import NAMESPACE
from fleet.facts.manifest import Manifest
from fleet.render.sweeps.sweep import Sweep, home, sweep_objects

_AFTER = {"ClusterRoleBinding": ["ClusterRole"], "RoleBinding": ["Role"], "Deployment": ["ServiceAccount", "ConfigMap"]}
"""What an object of a sweep needs of the same sweep, by kind. A pod that starts before it has rights tries again."""


class Sweeps(Component[Inside, Sequence[Sweep], Mapping[str, pulumi.Resource]]):
    """The namespace of all sweeps, and for each its account, rights, program and pod.

    `spaces` create the namespaces in which sweeps have rights, by the name of the namespace. In Git, waves order them.
    """

    def declare(self, name: str, inside: Inside, programs: Sequence[Sweep], spaces: Mapping[str, pulumi.Resource]) -> None:
        space, wall = home()
        namespace = self._object(name, space, inside.ready)
        walled = [namespace, self._object(name, wall, [namespace])]
        for sweep in programs:
            declared: dict[tuple[str, str], pulumi.Resource] = {}
            for manifest in sweep_objects(sweep, inside.settings.system_selector):
                kind, where = manifest["kind"], manifest["metadata"].get("namespace", "")
                before = [declared[needed, where] for needed in _AFTER.get(kind, ())]
                if where not in ("", NAMESPACE):
                    # Only its own: with those of all sets a plan would take time by the square of their number.
                    before += [spaces[where]] if where in spaces else []
                elif where:
                    before += walled if kind == "Deployment" else [namespace]
                declared[kind, where] = self._object(name, manifest, [*inside.ready, *before])

    def _object(self, name: str, manifest: Manifest, before: Resources) -> pulumi.Resource:
        metadata = manifest["metadata"]
        where = metadata.get("namespace", NAMESPACE)
        # A sweep has a role in each of several namespaces.
        suffix = "" if where == NAMESPACE else f".{where}"
        return custom(f"{name}.{metadata['name']}{suffix}", manifest, parent=self, depends_on=before)
