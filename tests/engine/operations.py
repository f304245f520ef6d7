"""What the engine does to each resource in a preview of an edit, against what the plan says of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpu_ci.offline.effects import effects
from gpu_ci.offline.recording import Resource
from policies.rules.kinds import RELEASE
from tests.engine.cli import Outcome
from tests.engine.verdicts import events

COMPONENT, CONTROL_PLANE = "eks:index:Cluster", "$aws:eks/cluster:Cluster::"
ROLLS = ("launchTemplate.version", "releaseVersion", "version")
"""EKS replaces the nodes of a group for these: UpdateNodegroupVersion (botocore 1.44.5 eks)."""
COMPOSED = ("-autoscaler-addon", "-launcher")
"""Resources whose texts the program composes of ids and settings. A plan does not know these texts, and the pages say so."""
IDLE_DELAY = "autoscaling-options/scaledownunneededtime"
"""A tag that a group which leaves does not keep: the autoscaler then has its own delay."""
EXPECTED = {
    "added": "create",
    "removed": "delete",
    "replaced": "replace",
    "refused": "update",
    "rolled": "roll",
    "new-nodes": "update",
    "updated": "update",
    "": "same",
}
"""Operation by state. A preview does not ask the cloud whether it refuses an update."""


@dataclass(frozen=True)
class Seen:
    """A preview: the operation by URN, and whether the engine refused it because of protection."""

    operations: Mapping[str, str]
    is_protected: bool

    @property
    def has_new_plane(self) -> bool:
        """Whether a control plane is replaced. A preview then has no kubeconfig, and calls all in the cluster an update."""
        return any(CONTROL_PLANE in urn and name == "replace" for urn, name in self.operations.items())

    def of(self, resource: Resource) -> str:
        """The operation on a resource. That on a control plane is on the child of its component."""
        if resource.type != COMPONENT:
            return self.operations.get(resource.urn, "same")
        child = f"{resource.urn.rpartition('::')[0]}{CONTROL_PLANE}{resource.name}-"
        inside = (name for urn, name in self.operations.items() if urn.startswith(child))
        return next(inside, "same")


def seen(preview: Outcome) -> Seen:
    """What a streamed preview says. Raises AssertionError for one that fails, but for protection."""
    is_protected = "protect" in preview.text and preview.status != 0
    assert preview.status == 0 or is_protected, preview
    operations: dict[str, str] = {}
    for event in events(preview, "resourcePreEvent"):
        step = event["metadata"]
        name = {"create-replacement": "replace", "delete-replaced": "replace"}.get(step["op"], step["op"])
        paths = {path.partition("[")[0] for path in step.get("detailedDiff") or {}}
        if name == "update" and "nodeGroup:NodeGroup" in step["urn"] and paths & set(ROLLS):
            name = "roll"
        if name not in ("refresh", "read") and operations.get(step["urn"]) != "replace":
            operations[step["urn"]] = name
    return Seen(operations, is_protected)


def mismatches(
    before: Iterable[Resource], after: Iterable[Resource], preview: Seen, left: Collection[str] = ()
) -> dict[str, tuple[str, str]]:
    """By URN what the plan says of a resource and what the engine does, where they differ. Components are left out.

    `left` are the URNs of the node groups and the sets of which the plan says that they leave.
    """
    sides = [*before], [*after]
    resources = {resource.urn: resource for side in sides for resource in side}
    said = effects(*sides)
    expected = {urn: EXPECTED[effect.state] for urn, effect in said.items()}
    for urn in left:
        expected |= dict(_staying(resources, urn))
        new = [other for other, name in preview.operations.items() if name == "create" and other.startswith(f"{urn}-")]
        if len(new) != (said[urn].state != "removed"):
            return {urn: (said[urn].state, f"{len(new)} new groups")}
    return {
        urn: (said[urn].state, preview.of(resource))
        for urn, resource in resources.items()
        if (resource.custom or resource.type == COMPONENT)
        and _differs(resource, said[urn].state, expected[urn], preview.of(resource))
        and not (preview.has_new_plane and resource.type.startswith("kubernetes:") and preview.of(resource) == "update")
    }


def _staying(resources: Mapping[str, Resource], group: str) -> Iterator[tuple[str, str]]:
    """The operations on a group that gets the taint, and on what it needs as long as it has nodes. Or on a runner set."""
    if resources[group].type == RELEASE:
        of_set = [urn for urn, resource in resources.items() if resource.parent == resources[group].parent]
        yield from {**dict.fromkeys(of_set, "same"), group: "update"}.items()
        return
    stem, needed = resources[group].name.removesuffix("nodes"), resources[group].property_dependencies
    zones = [zone for urn in needed.get("subnetIds", ()) if (zone := resources[urn].inputs.get("availabilityZone"))]
    yield group, "update"
    for urn in needed.get("launchTemplate", ()):
        yield urn, "same"
    for urn, resource in resources.items():
        # The endpoint has the route tables of all zones.
        if "-network-" in resource.name and resource.name.endswith((*zones, "-s3")):
            yield urn, "same"
        if resource.name.startswith(f"{stem}tag-"):
            yield urn, "delete" if resource.name.endswith(IDLE_DELAY) else "same"


def _differs(resource: Resource, state: str, expected: str, operation: str) -> bool:
    # Some inputs of the component are of its other children.
    is_other = resource.type == COMPONENT and (state, operation) == ("updated", "same")
    return expected != operation and not is_other and not resource.name.endswith(COMPOSED)
