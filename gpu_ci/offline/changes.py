"""What `pulumi up` does because of each edited entry of a stack file, the most harmful first, and which running jobs it ends."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Generic, NamedTuple, TypeVar, cast

from fleet.charts.runner_sets import moves_beside
from fleet.facts.record import Record
from fleet.facts.scheduling import has_generations
from fleet.facts.tables import beside
from fleet.render.arc import another_minor
from fleet.settings.runner import PodRunner
from gpu_ci.offline.effects import Effect, causes, inputs, touch
from gpu_ci.offline.entries import NEW_NAME, Entry, entries, owners
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.recording import Resource
from gpu_ci.offline.wire import differing
from gpu_ci.offline.words import counted, listed
from policies.rules.kinds import APPLICATION, NAT_GATEWAY, RELEASE

T = TypeVar("T")
DATA, CLUSTER, PROTECT, CLOUD = "data-lost", "cluster-replaced", "refused-by-protect", "refused-by-cloud"
POOL, SET, JOB, SHARED, ROLLED = "pool-replaced", "set-replaced", "job-replaced", "connections-broken", "nodes-rolled"
LEAVES, SPACE = "pool-leaves", "namespace-deleted"
BESIDE, DRAINS = "set-beside", "set-leaves"
NO_EFFECT = "no-effect"
CLASSES: Mapping[str, str] = beside(__file__, "classes.toml")
"""Every class in words, the most harmful first."""
_TABLE = beside(__file__, "sentences.toml")
_SENTENCES: dict[str, str] = _TABLE["sentences"]
_WHYS: dict[str, str] = _TABLE["why"]
_OF_POOLS = (POOL, ROLLED, LEAVES)

_GROUPS = {"aws:eks/nodeGroup:NodeGroup": "node group", "oci:ContainerEngine/nodePool:NodePool": "node pool"}
"""Resources with the nodes of a pool."""
_PLACE = ("clusterId", "clusterName", "compartmentId", "nodeRoleArn")
"""Inputs of these whose change makes no generation: the engine replaces the group at once."""
_INSTALLED = (RELEASE, APPLICATION)
"""Resources that install a runner set, if their parent is one."""
_CONTROL_PLANES = ("eks:index:Cluster", "oci:ContainerEngine/cluster:Cluster")
_JOB = "kubernetes:batch/v1:Job"
_NAMESPACE = "kubernetes:core/v1:Namespace"
_CLASS = "kubernetes:storage.k8s.io/v1:StorageClass"
_FILES = "oci:FileStorage/mountTarget:MountTarget"
_SHARED = {NAT_GATEWAY: "-network", _FILES: "-caches"}
"""Resources that all jobs of a cluster share, and how the name of their parent ends after that of the cluster."""
_VERBS = {"removed": "deletes", "replaced": "replaces", "rolled": "rolls"}
_GOES = ("removed", "replaced")
_REGISTERED, _SECRET = ("values.githubConfigUrl", "values.scaleSetLabels"), "values.githubConfigSecret"
_FEW = 4
"""Settings and names that a line has."""


class Pair(NamedTuple, Generic[T]):
    """One thing before and after; None on the side that does not have it."""

    before: T | None
    after: T | None

    @property
    def changed(self) -> bool:
        """Whether the sides differ."""
        return self.before != self.after

    @property
    def held(self) -> T:
        """The side after the change, or the side before it if the thing is gone."""
        return cast("T", self.after if self.after is not None else self.before)

    @property
    def state(self) -> str:
        """added, removed, changed or same."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed" if self.changed else "same"


class Edit(Record):
    """An entry of the stack file, or a policy, that is added, removed or changed.

    `values` has its changed settings by dotted path, or all if it is new or gone.
    """

    kind: str
    name: str
    state: str
    values: Mapping[str, Pair[str]] = field(default_factory=dict, hash=False)


class Change(NamedTuple):
    """What one edit does to some resources. `effect` is one of CLASSES, `what` says it in a sentence.

    `pools` and `sets` are those whose running jobs it ends, if it `ends_jobs`. `urns` are the resources; those of a cluster that
    goes are its control plane, or all its protected resources.
    """

    effect: str
    cluster: str
    edit: Edit
    what: str
    urns: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    ends_jobs: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether `pulumi up` fails."""
        return self.effect in (PROTECT, CLOUD)

    @property
    def is_loud(self) -> bool:
        """Whether a reviewer has to know it."""
        return self.ends_jobs or self.is_refused or self.effect == DATA

    @property
    def is_told(self) -> bool:
        """Whether its sentence has a line of its own: it is loud, or `pulumi up` has to run again."""
        return self.is_loud or self.effect in (LEAVES, BESIDE, DRAINS)


def counts(changes: Iterable[Change]) -> dict[str, int]:
    """How many resources each class has, the most harmful class first; entries, for the class without an effect."""
    numbers = Counter(change.effect for change in changes for _ in change.urns or ("",))
    return {effect: numbers[effect] for effect in CLASSES if numbers[effect]}


def headline(changes: Sequence[Change]) -> str:
    """Whether jobs end, data is lost, or the update fails."""
    if any(change.ends_jobs for change in changes):
        return "`pulumi up` ends running jobs"
    if any(change.effect == DATA for change in changes):
        return "`pulumi up` deletes data"
    return "`pulumi up` fails" if any(change.is_refused for change in changes) else "no running job ends"


def counts_line(changes: Sequence[Change]) -> str:
    """The counts in words."""
    numbers = {effect: str(number) for effect, number in counts(changes).items()}
    if NO_EFFECT in numbers:
        numbers[NO_EFFECT] = counted(int(numbers[NO_EFFECT]), "edit", "edits")
    return ", ".join(f"{CLASSES[effect]}: {number}" for effect, number in numbers.items())


Owner = tuple[str, str]
"""Kind and name of an entry."""


@dataclass(frozen=True)
class Classified:
    """The changes from one plan to another. `effects` are those on each resource by URN, `edits` the edited entries."""

    before: Plan
    after: Plan
    effects: Mapping[str, Effect]
    edits: Sequence[Edit]

    def changes(self) -> tuple[Change, ...]:
        """Every change, the most harmful first."""
        groups: dict[tuple[str, Owner, str], list[Resource]] = {}
        quiet: dict[tuple[str, Edit, str], list[Resource]] = {}
        for resource in self._affected:
            state, owner = self.effects[resource.urn].state, self._owner(resource)
            effect, cluster = next(self._classes(resource, state, owner)), _cluster(owner)
            if effect in (PROTECT, CLUSTER) and cluster in self._gone:
                state = "replaced" if cluster in self.after.fleet.clusters else "removed"
                groups.setdefault((effect, ("cluster", cluster), state), []).append(resource)
            elif effect in (*_SENTENCES, *_OF_POOLS):
                edit = self._cause(owner, resource.name)
                if effect in (DATA, PROTECT) and _cluster((edit.kind, edit.name)) == cluster:
                    owner = edit.kind, edit.name
                groups.setdefault((effect, owner, state), []).append(resource)
            elif resource.custom or resource.type in _CONTROL_PLANES:
                quiet.setdefault((effect, self._cause(owner, resource.name), cluster), []).append(resource)
        changes = [self._change(*key, resources) for key, resources in groups.items()]
        changes += [self._quiet(*key, [resource.urn for resource in resources]) for key, resources in quiet.items()]
        causing = {change.edit for change in changes}
        idle = (edit for edit in self.edits if edit not in causing)
        changes += [self._quiet(NO_EFFECT, edit, _cluster((edit.kind, edit.name)), []) for edit in idle]
        return tuple(sorted(changes, key=lambda change: [*CLASSES].index(change.effect)))

    @property
    def _affected(self) -> Iterator[Resource]:
        yield from (resource for resource in self.after.resources if self.effects[resource.urn].state)
        yield from (resource for resource in self.before.resources if self.effects[resource.urn].state == "removed")

    @cached_property
    def _old(self) -> Mapping[str, Resource]:
        return self.before.recording.by_urn if self.before.recording is not None else {}

    # -- classes --

    def _classes(self, resource: Resource, state: str, owner: Owner) -> Iterator[str]:
        """The classes that fit a resource, the most harmful first."""
        if state not in _GOES:
            leaves = state == "rolled" and self._leaves(resource, owner)
            yield LEAVES if leaves else {"refused": CLOUD, "rolled": ROLLED}.get(state, state)
            return
        if self._old[resource.urn].protect and (state == "removed" or resource.protect):
            yield PROTECT
        if inputs(resource.type, "data") and not self._is_kept(resource):
            yield DATA
        harm = next(self._harms(resource, owner), "")
        if (cluster := _cluster(owner)) in self._gone:
            yield state if cluster in self._protected or not (harm or resource.type in _CONTROL_PLANES) else CLUSTER
        yield harm or state

    def _harms(self, resource: Resource, owner: Owner) -> Iterator[str]:
        """The class of a resource that jobs use, if its cluster stays."""
        if resource.type in _GROUPS and owner[0] == "pool":
            yield LEAVES if self._leaves(resource, owner) else POOL
        parent = resource.parent.rpartition("::")[2]
        installs = (_logical(owner), f"{_cluster(owner)}-tree")  # the second one by Argo CD
        if resource.type in _INSTALLED and owner[0] == "runner set" and parent.removesuffix("-set") in installs:
            yield self._of_set(resource, owner)
        if resource.type == _NAMESPACE and self._is_of_team(resource, _cluster(owner)):
            yield SPACE
        if resource.type == _JOB:
            yield JOB
        is_shared = resource.type in _SHARED and parent == f"{_cluster(owner)}{_SHARED[resource.type]}"
        if is_shared and not self._outlives(resource, _cluster(owner)):
            yield SHARED

    def _of_set(self, release: Resource, owner: Owner) -> str:
        """What the program does to the release of a set that goes or changes (components.kubernetes.scale_set)."""
        old, (cluster, _, name) = self._old[release.urn], owner[1].partition("/")
        paths = self.effects[release.urn].paths
        if self.effects[release.urn].state == "removed" and self._drains(release, cluster, name):
            return DRAINS
        if self.effects[release.urn].state == "removed" or release.type != RELEASE:
            return SET
        if another_minor(old.inputs["version"], release.inputs["version"]):
            return SET
        if not touch(paths, (*_REGISTERED, _SECRET)):
            return "updated"
        moves = not touch(paths, (_SECRET,))
        for side, of in ((self.before, old), (self.after, release)):
            runner, url = side.fleet.clusters[cluster].runners.get(name), of.inputs["values"]["githubConfigUrl"]
            moves = moves and isinstance(runner, PodRunner) and moves_beside(url, name, runner)
        return BESIDE if moves else DRAINS

    def _drains(self, release: Resource, cluster: str, name: str) -> bool:
        """Whether the program keeps a removed set until it has no runner (components.kubernetes.leaving)."""
        after = self.after.fleet.clusters.get(cluster)
        return after is not None and not after.by_git and name not in after.runners and release.type == RELEASE

    def _leaves(self, group: Resource, owner: Owner) -> bool:
        """Whether the program keeps a pool's group, as it is, until it has no nodes (components.eks.leaving).

        A generation is not made of outputs, such as the id of a new subnet. Templates are generations, too.
        """
        written = {path for path, *_ in differing(self._old.get(group.urn, group).inputs, group.inputs, lists=False)}
        made_of = all(path in written or path.startswith("launchTemplate.") for path in self._harmful(group))
        waits = getattr(self.after.fleet.clusters.get(_cluster(owner)), "replace_nodes", "") == "wait"
        waits = waits and (_GROUPS[group.type] != "node group" or has_generations(group.name))
        return waits and owner[0] == "pool" and made_of and not touch(self._harmful(group), _PLACE)

    def _outlives(self, gateway: Resource, cluster: str) -> bool:
        """Whether a NAT gateway stays with the node groups that leave a zone, because no other one takes its place."""
        zone, settings = gateway.name.partition("-network-nat-")[2], self.after.fleet.clusters.get(cluster)
        groups = ((group, self._owner(group)) for group in self._going if group.type in _GROUPS)
        of_zone = (pair for pair in groups if _cluster(pair[1]) == cluster and zone and _zone(*pair) == zone)
        return zone not in getattr(settings, "network_zones", ()) and any(self._leaves(*pair) for pair in of_zone)

    def _harmful(self, group: Resource) -> list[str]:
        """The inputs that differ and whose change replaces a group or its nodes."""
        names = (*causes(group), *inputs(group.type, "rolls"))
        return [path for path in self.effects[group.urn].paths if touch((path,), names)]

    def _is_of_team(self, namespace: Resource, cluster: str) -> bool:
        """Whether Jobs of people run in a namespace."""
        settings = self.before.fleet.clusters.get(cluster)
        return settings is not None and namespace.name.removeprefix(f"{cluster}-namespaces.") in settings.team_namespaces

    def _is_kept(self, resource: Resource) -> bool:
        """Whether the data outlives the resource: it stays in the cloud, or its volumes do."""
        old = self._old[resource.urn]
        name = dict(old.inputs.get("spec") or {}).get("storageClassName")
        classes = (other.inputs for other in self.before.resources if name and other.type == _CLASS)
        named = (values for values in classes if values["metadata"].get("name") == name)
        return old.retain_on_delete or any(values.get("reclaimPolicy") == "Retain" for values in named)

    @cached_property
    def _gone(self) -> frozenset[str]:
        """The clusters that are removed or get another control plane."""
        removed = set(self.before.fleet.clusters) - set(self.after.fleet.clusters)
        return frozenset(removed | {_cluster(self._owner(each)) for each in self._going if each.type in _CONTROL_PLANES})

    @cached_property
    def _protected(self) -> frozenset[str]:
        """The clusters from which something goes that is protected."""
        return frozenset(_cluster(self._owner(resource)) for resource in self._going if self._old[resource.urn].protect)

    @property
    def _going(self) -> Iterator[Resource]:
        return (resource for resource in self._affected if self.effects[resource.urn].state in _GOES)

    # -- owners and edits --

    @cached_property
    def _entries(self) -> Sequence[Entry]:
        both = (*entries(self.after.config), *entries(self.before.config))
        return [*{(entry.kind, entry.name): entry for entry in both if entry.name}.values()]

    def _owner(self, resource: Resource) -> Owner:
        """The entry that a resource was made for."""
        side = self.before if self.effects[resource.urn].state == "removed" else self.after
        names = () if side.recording is None else side.recording.lineage(resource.urn)
        wanted = "pool" if resource.type in _GROUPS else "runner set" if resource.type in _INSTALLED else ""
        found = sorted(owners(self._entries, [*names]), key=lambda entry: entry.kind != wanted)
        return (found[0].kind, found[0].name) if found else ("stack", "")

    def _cause(self, owner: Owner, resource: str) -> Edit:
        """The edit of an entry, else of its cluster, of the stack, or of an entry there whose name the resource's name has.

        A resource of a cluster with a dot in its name, as `usw2-caches.models-files`, may be made for the entry after the dot.
        """
        edits = {(edit.kind, edit.name): edit for edit in self.edits if edit.kind != "policy"}
        near = [edit for key, edit in edits.items() if _cluster(key) == _cluster(owner)]
        near.sort(key=lambda edit: -len(edit.name))
        if owner[0] == "cluster":
            part = f"{resource.partition('.')[2]}-"
            for edit in near:
                if "/" in edit.name and part.startswith(f"{_inner(edit.name)}-"):
                    return edit
        for key in (owner, ("cluster", _cluster(owner)), ("stack", "")):
            if key in edits:
                return edits[key]
        return min(near or [*edits.values(), Edit("", "", "")], key=lambda edit: _inner(edit.name) not in resource)

    # -- sentences --

    def _change(self, effect: str, owner: Owner, state: str, resources: Sequence[Resource]) -> Change:
        cluster, name, edit = _cluster(owner), _inner(owner[1]), self._cause(owner, resources[0].name)
        urns = tuple(resource.urn for resource in resources)
        pools, sets = self._jobs(effect, owner)
        ends = effect in (CLUSTER, POOL, SET, SPACE, JOB, SHARED) or (effect == ROLLED and bool(pools))
        write = self._pool if effect in _OF_POOLS else partial(self._sentence, effect)
        text = write(_said(edit), state, name or cluster, resources)
        return Change(effect, cluster, edit, f"{cluster}: {text}", urns, pools, sets, ends)

    def _jobs(self, effect: str, owner: Owner) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The pools and runner sets of the jobs that a change of an entry ends."""
        kind, (cluster, _, name) = owner[0], owner[1].partition("/")
        if effect not in (CLUSTER, POOL, SET, SHARED, ROLLED) or (effect == ROLLED and kind != "pool"):
            return (), ()
        here = ((each.host.name, each.runner_set) for each in self.before.placements if each.cluster == cluster)
        placed = [both for both in here if kind == "cluster" or name == (both[0] if kind == "pool" else both[1])]
        real = self.before.fleet.clusters[cluster].pools if placed else ()  # machines per job are in none
        pools = {pool: None for pool, _ in placed if pool in real} | ({name: None} if kind == "pool" else {})
        return tuple(pools), tuple(dict.fromkeys(runner_set for _, runner_set in placed))

    def _pool(self, edit: str, state: str, pool: str, groups: Sequence[Resource]) -> str:
        kind, owner = _GROUPS[groups[0].type], self._owner(groups[0])
        many = counted(len(groups), kind, f"{kind}s")
        whys = ([_zone(group, owner)] if state == "removed" else self._harmful(group) for group in groups)
        why = [text for texts in whys for text in texts]
        reason = f" ({listed(dict.fromkeys(why), _FEW)})" if any(why) else ""
        if owner[0] != "pool":
            return f"{edit} {_VERBS[state]} the {kind} of the system pool{reason}: its pods start again elsewhere"
        sets = self._jobs(POOL, owner)[1]
        of = f" of {listed(sets, _FEW)}" if sets else ""
        first = "; on demand, EKS starts the first of these types that it has"
        reordered = first if state == "replaced" and any(map(self._reordered, groups)) else ""
        if not self._leaves(groups[0], owner):
            return f"{edit} {_VERBS[state]} {many}{reason}: running jobs{of} on {pool} end{reordered}"
        verb, later = _VERBS["removed" if state == "removed" else "replaced"], f"the old {kind}s go with a later `pulumi up`"
        go_on = f"running jobs{of} on {pool} go on, and {later}, once they have no node"
        return f"{edit} {verb} {many}{reason} once idle: {go_on}{reordered}"

    def _reordered(self, group: Resource) -> bool:
        """Whether a group has the same types in another order: one on demand, because the order of others replaces none."""
        types = [side.inputs.get("instanceTypes") or () for side in (self._old.get(group.urn, group), group)]
        return types[0] != types[1] and sorted(types[0]) == sorted(types[1])

    def _host(self, release: Resource, name: str) -> str:
        cluster = _cluster(self._owner(release))
        return self.after.fleet.scope_of(cluster, self.after.fleet.clusters[cluster].runners[name]).host

    def _sentence(self, effect: str, edit: str, state: str, name: str, resources: Sequence[Resource]) -> str:
        first, names = resources[0], [resource.name for resource in resources]
        row = f"{effect}-{'files' if first.type == _FILES else state}"
        spaces = "namespace" if len(names) == 1 else "namespaces"
        return _SENTENCES[row if row in _SENTENCES else effect].format(
            edit=edit,
            verb=_VERBS.get(state),
            name=name,
            names=listed(names, _FEW),
            its="its" if len(names) == 1 else "their",
            cluster=_cluster(self._owner(first)),
            why=self._refusal(first) if effect == CLOUD else "",
            host=self._host(first, name) if effect in (SET, DRAINS) and state != "removed" else "",
            removes="" if edit == f"removal of runner set {name}" else f" removes runner set {name}",
            spaces=f"{spaces} {listed((each.rpartition('.')[2] for each in names), _FEW)}",
            zones=listed((each.partition("-network-nat-")[2] for each in names), _FEW),
        )

    def _refusal(self, resource: Resource) -> str:
        """Why the cloud refuses a change."""
        paths = self.effects[resource.urn].paths
        rules = {"vpcId": ("vpcId",), **{effect: inputs(resource.type, effect) for effect in ("zones", "minor")}}
        return next((_WHYS[rule] for rule, names in rules.items() if touch(paths, names)), _WHYS["lower"])

    def _quiet(self, effect: str, edit: Edit, cluster: str, urns: Sequence[str]) -> Change:
        where = f"{cluster}: " if cluster else ""
        many = f"{counted(len(urns), 'resource', 'resources')} " if urns else ""
        return Change(effect, cluster, edit, f"{where}{_said(edit)}: {many}{CLASSES[effect]}", tuple(urns))


def _cluster(owner: Owner) -> str:
    return "" if owner[0] in ("stack", "policy") else owner[1].partition("/")[0]


def _inner(name: str) -> str:
    """The name of an entry in its cluster, such as t4-spot of usw2/t4-spot; "" of a cluster."""
    return name.partition("/")[2]


def _logical(owner: Owner) -> str:
    return owner[1].replace("/", "-")


def _zone(group: Resource, owner: Owner) -> str:
    """The zone in the name of a node group; "" if it has none."""
    return group.name.removeprefix(_logical(owner)).removesuffix("-nodes").strip("-")


def _said(edit: Edit) -> str:
    """An edit in words. A setting of a cluster and of the stack has no prefix."""
    name = _inner(edit.name) or edit.name
    if edit.state in ("added", "removed"):
        kind = "" if edit.kind == "pool" else f"{edit.kind} "
        return f"{'addition' if edit.state == 'added' else 'removal'} of {kind}{name}"
    if not edit.state:
        return "this change"
    if NEW_NAME in edit.values and edit.kind != "policy":
        before, after = (side or name for side in (edit.values[NEW_NAME].before, edit.values[NEW_NAME].after))
        more = [setting for setting in edit.values if setting != NEW_NAME]
        return f"rename of {edit.kind} {before} to {after}" + (f" and edit of {listed(more, _FEW)}" if more else "")
    prefix = f"{name}." if edit.kind not in ("cluster", "stack") else ""
    return f"edit of {listed((f'{prefix}{setting}' for setting in edit.values), _FEW)}"
