"""What a change does to resources that exist, and which running jobs that ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from fleet.facts.tables import rows
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.recording import Resource
from gpu_ci.offline.wire import ABSENT, Secret, differing, hidden
from gpu_ci.offline.words import counted, listed

_GROUPS = {"aws:eks/nodeGroup:NodeGroup": "node group", "oci:ContainerEngine/nodePool:NodePool": "node pool"}
"""Resources with the nodes of a pool."""
_INSTALLED = ("kubernetes:helm.sh/v3:Release", "kubernetes:argoproj.io/v1alpha1:Application")
"""Resources that install a runner set, if their parent is one."""
_VERBS = {"removed": "deletes", "replaced": "replaces", "rolled": "rolls"}
_NAT, _VPC = "aws:ec2/natGateway:NatGateway", "aws:ec2/vpc:Vpc"
_FILES = "oci:FileStorage/mountTarget:MountTarget"
_SHARED = {_NAT: "-network", _VPC: "-network", _FILES: "-caches"}
"""Resources that all jobs of a cluster share, and how the name of their parent ends after that of the cluster."""
_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_FEW = 4
"""Settings and sets that a line names."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What `pulumi up` does: "added", "removed", "replaced", "rolled" (its nodes are), "updated", or "" for nothing.

    `paths` are the inputs that differ or will differ. A list counts as one input. No value is in it.
    """

    state: str
    paths: tuple[str, ...] = ()


@cache
def _inputs(token: str, effect: str) -> tuple[str, ...]:
    """The inputs of a type whose change has this effect: replaces, rolls, or quiet (it moves no output that others read)."""
    return tuple(row["input"] for row in rows("effects.csv") if (row["type"], row["effect"]) == (token, effect))


def effects(before: Iterable[Resource], after: Iterable[Resource]) -> dict[str, Effect]:
    """The effect on each resource, by URN.

    An unknown input stays equal if the resource that gives it stays. It changes if that resource is added or replaced, or if
    another one gives it. An update moves one output that others read: the latest version of a launch template.
    """
    old, new = ({resource.urn: resource for resource in side} for side in (before, after))
    effect_of = {urn: Effect("removed") for urn in old if urn not in new}
    for urn, resource in new.items():  # a resource is registered after those whose outputs it reads
        effect_of[urn] = _effect(old[urn], resource, effect_of) if urn in old else Effect("added")
    return effect_of


def _effect(before: Resource, after: Resource, effects_so_far: Mapping[str, Effect]) -> Effect:
    unknown = dict.fromkeys(path.partition("[")[0] for path, value in hidden(after.inputs) if not isinstance(value, Secret))
    moved = (path for path in unknown if _moved(before, after, path, effects_so_far))
    unset = (None, ABSENT)
    differences = differing(before.inputs, after.inputs, lists=False)
    triggers = (before.replacement_trigger, after.replacement_trigger)
    is_triggered = None not in triggers and triggers[0] != triggers[1]
    kept = () if is_triggered else after.ignore_changes
    edited = (path for path, old, new in differences if not (old in unset and new in unset) and not _within(path, kept))
    paths = tuple(sorted({*edited, *moved}))
    if is_triggered or _touch(paths, _replacing(after)):
        return Effect("replaced", paths)
    return Effect("rolled" if _touch(paths, _inputs(after.type, "rolls")) else "updated" if paths else "", paths)


def _replacing(resource: Resource) -> tuple[str, ...]:
    """The inputs whose change replaces a resource: by its provider, and by the program."""
    return (*_inputs(resource.type, "replaces"), *resource.replace_on_changes)


def _moved(before: Resource, after: Resource, path: str, effects_so_far: Mapping[str, Effect]) -> bool:
    """Whether an unknown input gets another value."""
    givers, earlier = (set(side.property_dependencies.get(path.partition(".")[0], ())) for side in (before, after))
    if givers != earlier or any(effects_so_far[urn].state in ("added", "replaced") for urn in givers if urn in effects_so_far):
        return True
    versions = (effects_so_far[urn].paths for urn in givers if urn in effects_so_far and f"${_TEMPLATE}::" in urn)
    quiet = _inputs(_TEMPLATE, "quiet")
    return path in _inputs(after.type, "rolls") and any(not _touch((part,), quiet) for paths in versions for part in paths)


def _within(path: str, inputs: Iterable[str]) -> bool:
    """Whether a path is one of the inputs or a part of it."""
    return any(f"{path}.".startswith(f"{name}.") for name in inputs)


def _touch(paths: Iterable[str], inputs: Collection[str]) -> bool:
    """Whether one of the paths is one of the inputs, a part of it, or contains it."""
    return any(_within(path, inputs) or any(_within(name, [path]) for name in inputs) for path in paths)


# -- the jobs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ending:
    """The running jobs that a change ends. `edits` are the changed settings by (kind, name) of their entry in the stack file."""

    before: Plan
    after: Plan
    effects: Mapping[str, Effect]
    edits: Mapping[tuple[str, str], Sequence[str]]

    def lines(self) -> Iterator[str]:
        """A line for each edit that ends running jobs or breaks their connections: pools first, then the others."""
        names = {
            (kind, f"{cluster}-{name}"): (cluster, name)
            for plan in (self.before, self.after)
            for cluster, settings in plan.fleet.clusters.items()
            for kind, entries in (("pool", settings.pools), ("set", settings.runners))
            for name in entries
        }
        groups: dict[tuple[str, str, str], list[Resource]] = {}
        lines: dict[str, None] = {}
        for resource in (
            *self.after.resources,
            *(resource for resource in self.before.resources if self.effects[resource.urn].state == "removed"),
        ):
            state, owner = self.effects[resource.urn].state, resource.parent.rpartition("::")[2]
            if state not in _VERBS:
                continue
            if resource.type in _GROUPS and (pool := names.get(("pool", owner))):
                groups.setdefault((*pool, state), []).append(resource)
            elif resource.type in _INSTALLED and (of := names.get(("set", owner.removesuffix("-set")))):
                lines[self._set(*of, state)] = None
            elif (
                resource.type in _SHARED and (cluster := owner.removesuffix(_SHARED[resource.type])) in self.after.fleet.clusters
            ):
                lines[self._shared(cluster, resource)] = None
        yield from (self._pool(*key, resources) for key, resources in groups.items())
        yield from lines

    def _edit(self, cluster: str, name: str, kind: str) -> str:
        """The settings that were changed: of the entry, else of its cluster, else of the stack."""
        for prefix, key in ((f"{name}.", (kind, f"{cluster}/{name}")), ("", ("cluster", cluster)), ("", ("stack", ""))):
            if key in self.edits:
                where = prefix if self.edits[key] else prefix.rstrip(".")
                return f"edit of {listed([f'{where}{setting}' for setting in self.edits[key]] or [where], _FEW)}"
        return "this change"

    def _pool(self, cluster: str, pool: str, state: str, groups: Sequence[Resource]) -> str:
        sets = dict.fromkeys(
            placement.runner_set
            for placement in self.before.placements
            if (placement.cluster, placement.host.name) == (cluster, pool)
        )
        many = counted(len(groups), _GROUPS[groups[0].type], f"{_GROUPS[groups[0].type]}s")
        if state == "removed":
            why = [group.name.removeprefix(f"{cluster}-{pool}").removesuffix("-nodes").strip("-") for group in groups]
        else:
            causes = (*_replacing(groups[0]), *_inputs(groups[0].type, "rolls"))
            why = [path for group in groups for path in self.effects[group.urn].paths if _touch((path,), causes)]
        settings = self.after.fleet.clusters.get(cluster)
        is_removed = settings is None or pool not in settings.pools
        edit = f"removal of {pool}" if is_removed else self._edit(cluster, pool, "pool")
        of = f" of {listed(sets, _FEW)}" if sets else ""
        reason = f" ({listed(dict.fromkeys(why), _FEW)})" if any(why) else ""
        first = "; on demand, EKS starts the first of these types that it has"
        reordered = first if state == "replaced" and any(map(self._reordered, groups)) else ""
        return f"{cluster}: {edit} {_VERBS[state]} {many}{reason}: running jobs{of} on {pool} end{reordered}"

    def _reordered(self, group: Resource) -> bool:
        """Whether a group has the same types in another order: one on demand, because the order of others replaces none."""
        earlier = next((resource.inputs for resource in self.before.resources if resource.urn == group.urn), group.inputs)
        types = [side.get("instanceTypes") or () for side in (earlier, group.inputs)]
        return types[0] != types[1] and sorted(types[0]) == sorted(types[1])

    def _set(self, cluster: str, name: str, state: str) -> str:
        if state == "removed":
            return f"{cluster}: removal of runner set {name}: its running jobs end"
        edit = self._edit(cluster, name, "runner set")
        waits = "`pulumi up` waits 10 minutes for its running jobs, and fails if one still runs"
        return f"{cluster}: {edit} replaces runner set {name}: {waits}"

    def _shared(self, cluster: str, resource: Resource) -> str:
        edit = self._edit(cluster, "", "cluster")
        if resource.type == _VPC:
            return f"{cluster}: {edit} replaces the VPC, and EKS moves no control plane to another VPC: create another cluster"
        if resource.type == _FILES:
            verb = _VERBS[self.effects[resource.urn].state]
            lost = "running jobs lose the files of those caches, and claims that exist cannot be mounted again"
            return f"{cluster}: {edit} {verb} the mount target of caches and its exports: {lost}"
        removes = f"removes the NAT gateway of {resource.name.partition('-network-nat-')[2]}"
        return f"{cluster}: {edit} {removes}: open connections of running jobs break, and jobs have another public address"
