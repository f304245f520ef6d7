"""Our own stack files, `Pulumi.<stack>.yaml`: pools and runner classes as the plan has them, without Pulumi."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleet.facts.offer import allocatable, least
from fleet.facts.scheduling import GPU_RESOURCE, JOB_TEMPLATE, STORAGE_TAG, resource_tags
from fleet.facts.tables import toml
from gpu_ci.audit.formats import arc
from gpu_ci.audit.model import Keys, Pool, RunnerClass, Seen

if TYPE_CHECKING:
    from fleet.providers.fleet import Fleet
    from fleet.settings.cluster import Cluster

_FILE = re.compile(r"Pulumi\.(?P<stack>.+)\.yaml")
_CLUSTERS = ("config", "gpu-ci:clusters")


def read(keys: Keys, seen: Seen) -> bool:
    """Read a stack file. Raises InputError with a line for each problem in it."""
    if (name := _FILE.fullmatch(keys.file.path.name)) is None or not keys.get(*_CLUSTERS).entries():
        return False
    # Only a stack file needs the settings, and loading them takes longer than an audit of other files.
    from fleet.loading.config import read_fleet  # noqa: PLC0415
    from fleet.providers.registry import provider_of  # noqa: PLC0415

    fleet = read_fleet(name["stack"], keys.file.path)
    keys.whole()
    for cluster, settings in fleet.clusters_by_name():
        at, profile = keys.get(*_CLUSTERS, cluster), provider_of(settings).profile
        seen.pools += [_pool(at.get("pools", pool), cluster, settings, pool, profile) for pool in settings.pools]
        seen.classes += [_class(at, fleet, cluster, settings, one) for one in settings.runners]
    return True


def _pool(at: Keys, cluster: str, settings: "Cluster", name: str, profile: Any) -> Pool:
    pool = settings.pools[name]
    scaler = toml("nodes.toml")["providers"][settings.provider].get("scaler", "none")
    return Pool(
        at=at,
        name=name,
        scaler=scaler,
        types=tuple(machine.name for machine in pool.machines),
        gpus_possible=pool.has_gpus,
        labels=pool.node_labels(cluster, name, profile, settings.flavor_of(name)),
        taints=pool.node_taints(profile),
        minimum=pool.nodes.min,
        maximum=pool.nodes.max,
        capacities=(pool.capacity,),
        region=settings.region,
        zones=settings.zones_with_nodes(pool),
        group=cluster,
        disk=pool.disk // 1024,
        image=pool.image,
        # Of shared GPUs the table of machines knows nothing.
        allocatable=_offer(pool) if pool.has_gpus and pool.resource != GPU_RESOURCE else {},
        # As components/eks and components/oci tag their groups for the autoscaler.
        tags=resource_tags(_offer(pool)) | {STORAGE_TAG: _offer(pool)["ephemeral-storage"]} if scaler != "none" else {},
    )


def _offer(pool: Any) -> dict[str, str]:
    """What each node of a pool offers at least, as quantities."""
    from fleet.settings.pool import offered  # noqa: PLC0415 - as above

    offer = least(allocatable(machine, pool.disk) for machine in pool.machines)
    units = {GPU_RESOURCE: 0, pool.resource: min(map(pool.units, pool.machines))} if pool.has_gpus else {}
    return offered(offer, units) | ({"pods": str(offer.pods)} if offer.pods else {})


def _class(at: Keys, fleet: "Fleet", cluster: str, settings: "Cluster", name: str) -> RunnerClass:
    runner = settings.runners[name]
    below = at.get("runners", name)
    if (whole := runner.whole_machine) is not None:
        types = tuple(machine.name for machine in whole.types)
        made = RunnerClass(
            at=below, name=name, values=below, machines=types, capacities=(whole.capacity,), disk=whole.disk // 1024
        )
    else:
        from fleet.providers.installed import pod_set_of  # noqa: PLC0415 - as above

        pods = pod_set_of(settings, name, settings.pod_runners[name], fleet.github)
        made = arc.scale_set(below.instead(pods.chart.values), pods.chart.version, name, below)
        job = pods.templates[JOB_TEMPLATE]["spec"] if pods.in_containers else None
        made = replace(made, job=job, pod_at=None)
    return replace(
        made,
        by="gpu-ci",
        labels=frozenset(runner.labels),
        group=fleet.group_of(cluster, runner),
        runs_containers=runner.runs_containers,
        needs_container=runner.needs_container,
        minimum=runner.span.min,
        maximum=runner.span.max,
        region=settings.region,
        cluster=cluster,
        values=below,
    )
