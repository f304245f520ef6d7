"""pytorch/ci-infra (OSDC): definitions of node pools and runners, and `clusters.yaml`, which says what each cluster has.

A definition that several clusters have is one pool or one class: its regions are theirs, and a class has the labels of all.
`osdc.toml` has what the project's generators add.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from fleet.facts.hardware import ON_DEMAND, find, price
from fleet.facts.scheduling import GPU_RESOURCE, Effect, Taint
from fleet.facts.tables import beside, entry
from gpu_ci.audit.formats.arc import filled
from gpu_ci.audit.model import Keys, Overhead, Pool, RunnerClass, Seen

_TABLE = beside(__file__, "osdc.toml")
_POOLS, _RUNNERS, _CLUSTERS = "OSDC node pool", "OSDC runner", "OSDC clusters"
_FORMS = {
    "fleet": (_POOLS, ("instances", "release")),
    "fleets": (_POOLS, ()),
    "nodepool": (_POOLS, ("instance_type",)),
    "runner": (_RUNNERS, ("vcpu",)),
}
"""The top key of a definition and keys of which it has one."""
_FLEET, _TYPE, _CLASS = "node-fleet", "instance-type", "osdc.io/runner-class"


class _Cluster(NamedTuple):
    name: str
    keys: Keys
    modules: tuple[str, ...]
    defaults: Keys

    def get(self, *path: str) -> Keys:
        """A value of the cluster, or the default of the file."""
        return self.keys.get(*path) or self.defaults.get(*path)


class _Machine(NamedTuple):
    """An entry of a fleet, or a definition of the old form. `of` has what its fleet says."""

    keys: Keys
    type: str
    fleet: str
    of: Keys
    name: str
    release: bool
    regions: tuple[str, ...]
    clusters: tuple[_Cluster, ...]


def read(keys: Keys, seen: Seen) -> bool:
    """Read a definition, or `clusters.yaml`; `finish` joins them."""
    for key, (kind, inner) in _FORMS.items():
        if any(one in keys.get(key) for one in inner) or (key == "fleets" and keys.items(key)):
            seen.add(kind, keys)
            return True
    if "defaults" in keys and any("modules" in one for one in keys.entries("clusters").values()):
        seen.add(_CLUSTERS, keys)
        return True
    return False


def finish(seen: Seen) -> None:
    """Make pools of the definitions of machines, and classes of those of runners."""
    clusters = [cluster for keys in seen.of_kind(_CLUSTERS) for cluster in _clusters(keys)]
    machines = [one for keys in seen.of_kind(_POOLS) for one in _machines(keys, clusters)]
    seen.pools += map(_pool, machines)
    seen.classes += [_class(keys.get("runner"), _holding(keys, clusters), machines) for keys in seen.of_kind(_RUNNERS)]


def _clusters(keys: Keys) -> Iterator[_Cluster]:
    defaults = keys.get("defaults")
    for name, one in keys.entries("clusters").items():
        for of in (one, defaults):
            of.pass_over(*_TABLE["clusters"]["skip"])
        yield _Cluster(name, one, one.texts("modules"), defaults)


def _holding(keys: Keys, clusters: list[_Cluster]) -> tuple[_Cluster, ...]:
    """The clusters that have the module of a definition: modules/<module>/defs/<name>.yaml."""
    module = keys.file.path.parent.parent.name
    return tuple(one for one in clusters if module in one.modules)


def _machines(keys: Keys, clusters: list[_Cluster]) -> Iterator[_Machine]:
    holding = _holding(keys, clusters)
    if old := keys.get("nodepool"):
        type_ = old.text("instance_type")
        old.skip("instance_type")
        yield _machine(old, type_, type_.partition(".")[0], old, old.text("name"), False, holding)
    for fleet in [keys.get("fleet"), *keys.items("fleets")]:
        name = fleet.text("name")
        for section in ("instances", "release"):
            found = [(one, *one.text("type").partition(".")[::2]) for one in fleet.items(section)]
            for one, family, size in found:
                # The generator's rule: the family is in the name if the fleet has another name, and two families the same size.
                twice = len({other for _, other, its in found if its == size}) > 1
                between = [family] if name != family and twice else []
                release = section == "release"
                full = "-".join([name, *between, size.replace(".", "-"), *["release"] * release])
                yield _machine(one, one.text("type"), name, fleet, full, release, holding)


def _machine(keys: Keys, type_: str, fleet: str, of: Keys, name: str, release: bool, holding: tuple[_Cluster, ...]) -> _Machine:
    excluded = of.texts("exclude_regions")
    kept = tuple(one for one in holding if one.get("region").text() not in excluded)
    regions = dict.fromkeys(one.get("region").text() for one in kept)
    # Prices are known for some regions only: the first that has one comes first.
    ordered = sorted(regions, key=lambda region: not (find(type_) and price(type_, region, ON_DEMAND)))
    return _Machine(keys, type_, fleet, of, name, release, tuple(ordered), kept)


def _pool(one: _Machine) -> Pool:
    keys, gpu, module = one.keys, one.of.flag("gpu") is True, one.keys.file.path.parent.parent.name
    extra = {key: str(value) for key, value in keys.mapping("extra_labels").items()}
    labels = {"workload-type": _TABLE["workload"], _TYPE: one.type, _FLEET: one.fleet, "kubernetes.io/arch": one.of.text("arch")}
    labels |= ({GPU_RESOURCE: "true"} if gpu else {}) | extra | ({_CLASS: "release"} if one.release else {})
    taints = {_FLEET: one.fleet, _TYPE: one.type, **({GPU_RESOURCE: "true"} if gpu else {})}
    modules = {name for cluster in one.clusters for name in cluster.modules} | {""}
    starting = [key for key, needed in _TABLE["startup-taints"].items() if needed in modules]
    if labels.get(_CLASS) == "release":
        starting = [key for key in starting if "cache-enforcer" not in key]
    reserved = [text for cluster in one.clusters for text in cluster.keys.texts(module, "capacity_reservation_ids")]
    if (compactor := keys.flag("node_compactor")) is None:
        compactor = any(cluster.get("node_compactor", "enabled").flag() for cluster in one.clusters)
    kind = "baremetal" if keys.flag("baremetal") else "gpu" if gpu else "cpu"
    waits = [cluster.get("nodepools", f"{kind}_consolidate_after").text() for cluster in one.clusters]
    budgets = [cluster.get("nodepools", f"{'gpu' if gpu else 'cpu'}_disruption_budget").text() for cluster in one.clusters]
    tiers, machine = _TABLE["hf-cache"]["memory"], find(one.type)
    cache = tiers.get(str(machine.gpus if machine else 0), tiers["0"])
    topology = keys.text("topology_manager_policy") or "best-effort"
    scope = keys.text("topology_manager_scope") or "container"
    return Pool(
        at=keys,
        name=one.name,
        scaler="karpenter",
        types=(one.type,),
        gpus_possible=gpu,
        labels=labels,
        taints=tuple(Taint(key, value, Effect.NO_SCHEDULE) for key, value in taints.items()),
        startup_taints=tuple(Taint(key, "true", Effect.NO_SCHEDULE) for key in starting),
        capacities=(keys.text("capacity_type") or ON_DEMAND,),
        weight=keys.count("weight") or 0,
        region=next(iter(one.regions), ""),
        regions=one.regions,
        disk=keys.count("node_disk_size") or 0,
        instance_store=keys.flag("has_nvme") is True,
        used=_TABLE["hf-cache"] | {"memory": cache} if "hf-cache" in modules else {},
        topology=topology,
        kubelet={"cpuManagerPolicy": "static", "topologyManagerPolicy": topology, "topologyManagerScope": scope},
        reservations=tuple(dict.fromkeys(reserved)) or keys.texts("capacity_reservation_ids"),
        image=_TABLE["image" if gpu else "cpu-image"],
        consolidates=not compactor,
        disruption={"consolidateAfter": _most_common(waits), "budgets": [{"nodes": _most_common(budgets)}]},
        kubernetes=_most_common([cluster.get("eks_version").text() for cluster in one.clusters]),
    )


def _most_common(texts: list[str]) -> str:
    return max(texts, key=texts.count, default="")


def _class(runner: Keys, holding: tuple[_Cluster, ...], machines: list[_Machine]) -> RunnerClass:
    name, type_ = runner.text("name"), runner.text("instance_type")
    fleet = runner.text("node_fleet") or type_.partition(".")[0]
    # Where the class's own machine is left out, the generator sets the maximum to 0.
    listed = [one for one in machines if one.type == type_]
    offered = {cluster.name for one in listed for cluster in one.clusters}
    serving = tuple(one for one in holding if one.name in offered or not listed)
    of_cluster = {one.name: f"{one.keys.text('arc-runners', 'runner_name_prefix')}{name}" for one in serving}
    # A prefix distinguishes clusters that try changes from those that serve: the shortest name is the class's.
    serving = tuple(sorted(serving, key=lambda one: len(of_cluster[one.name])))
    names = list(dict.fromkeys(of_cluster[one.name] for one in serving)) or [name]
    regions = tuple(dict.fromkeys(one.get("region").text() for one in serving))
    known = next((one.regions for one in machines if one.fleet == fleet and one.regions), ())
    first, release = next(iter(serving), None), runner.text("runner_class")
    group = first.keys.text("arc-runners", "runner_group") if first else ""
    group = group or runner.text("runner_group") or "Default"
    kept = runner.count("proactive_capacity") or 0
    ceilings = [one.keys.count("proactive_capacity_max") for one in serving]
    return RunnerClass(
        at=runner,
        name=names[0],
        values=runner,
        labels=frozenset(names[1:]),
        group=f"{group}-release-runners" if release == "release" else group,
        version=first.get("arc", "chart_version").text() if first else "",
        image="",
        mode="kubernetes-novolume",
        runs_containers=True,
        needs_container=True,
        minimum=sum(kept if most is None else min(kept, most) for most in ceilings),
        maximum=_most(runner, serving),
        url=first.keys.text("arc-runners", "github_config_url") if first else "",
        pod=_TABLE["runner"],
        job=_job_pod(runner, fleet, first),
        hook_template=_TABLE["hook-template"],
        region=next((region for region in known if region in regions), next(iter(regions), "")),
        regions=regions,
        cluster=", ".join(one.name for one in serving),
        overheads=tuple(entry(Overhead, row) for row in _TABLE["overhead"]),
    )


def _most(runner: Keys, serving: tuple[_Cluster, ...]) -> int | None:
    """The maximum of all clusters together; None if one has no limit."""
    of_each, every = runner.mapping("max_runners"), runner.count("max_runners")
    counts = [of_each.get(one.name, of_each.get("default", every)) for one in serving]
    numbers = [count for count in counts if isinstance(count, int)]
    return sum(numbers) if numbers and len(numbers) == len(counts) else None


def _job_pod(runner: Keys, fleet: str, cluster: _Cluster | None) -> dict[str, Any]:
    """The pod of a job as the template of the project has it: the class's size, on the nodes of its fleet."""
    gpus, release = runner.count("gpu") or 0, runner.text("runner_class")
    disk = f"{gib}Gi" if (gib := runner.count("disk_size")) is not None else _TABLE["disk"]
    spec: dict[str, Any] = filled(_TABLE["job"], {"fleet": fleet})
    size = {"cpu": runner.text("vcpu"), "memory": runner.text("memory"), "ephemeral-storage": disk}
    size |= {GPU_RESOURCE: str(gpus)} if gpus else {}
    spec["containers"] = [{"name": "$job", "resources": {"requests": size, "limits": size}}]
    spec["tolerations"] += [{"key": GPU_RESOURCE, "operator": "Equal", "value": "true", "effect": "NoSchedule"}] if gpus else []
    isolated = {"operator": "In", "values": [release]} if release else {"operator": "DoesNotExist"}
    terms = [{"matchExpressions": [{"key": _CLASS, **isolated}]}]
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    scheduler = runner.text("scheduler_name") or (cluster.keys.text("arc-runners", "scheduler_name") if cluster else "")
    return spec | ({"schedulerName": scheduler} if cluster and scheduler in cluster.modules else {})
