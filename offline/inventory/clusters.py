"""A cluster and its pools as tables: what is there before any pod comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet.facts import versions
from fleet.facts.hardware import Machine
from fleet.facts.node_image import NODE_IMAGES, NodeImage
from fleet.facts.offer import Offer, for_runners, least
from fleet.facts.scheduling import SchedulingProfile, flavor_labels
from fleet.prove.placement import Host, pool_host
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import DEVICE_PLUGIN, GPU_OPERATOR, advertisers
from fleet.settings.operator import OperatorSettings
from fleet.settings.pool import Pool
from offline.gfm import code, table, text
from offline.inventory import cells

_CHARTS = {DEVICE_PLUGIN: "nvidia-device-plugin", GPU_OPERATOR: "gpu-operator"}
"""Enablement → the chart that makes it."""


def about(settings: Cluster) -> str:
    """What the cluster is."""
    rows = [
        ("provider", code(settings.provider)),
        ("region", code(settings.region)),
        ("Kubernetes", code(settings.kubernetes_version)),
        ("advertises GPUs", _enablement(settings)),
        ("delivered by", _delivery(settings)),
    ]
    return table(("", ""), rows)


def _enablement(settings: Cluster) -> str:
    """What makes GPUs schedulable, with its chart where it is one."""
    if not settings.pools:
        return "nothing, there is no pool"
    images = [NODE_IMAGES[pool.image] for pool in settings.pools.values()]
    found = dict.fromkeys(each for image in images for each in advertisers(settings.enablement, image))
    told = f"{code(settings.enablement)}: {text(' and '.join(found))}"
    chart = _CHARTS.get(settings.enablement)
    return f"{told} (chart {code(chart)} {versions.CHARTS[chart].version})" if chart else told


def _delivery(settings: Cluster) -> str:
    if settings.gitops is None:
        return f"{code(settings.delivery)}: `pulumi up` installs charts and objects"
    git = settings.gitops
    return (
        f"{code(settings.delivery)}: ArgoCD installs what {code(git.path)} of {code(git.repository)} has at {code(git.revision)}"
    )


def pools(settings: Cluster) -> str:
    """What nodes of each pool are and advertise."""
    columns = ("pool", "a node is", "GPUs of a node", "shared", "a node advertises", ">nodes", "capacity", "role")
    return table(columns, (_pool(settings, name) for name in settings.pools))


def _pool(settings: Cluster, name: str) -> tuple[str, ...]:
    pool: Pool = settings.pools[name]
    return (
        code(name),
        cells.codes(pool.instance_types, "<br>"),
        gpus(pool.machines[0]),
        text(f"{pool.sharing.strategy}, {pool.sharing.unit} each") if pool.sharing else "no, whole GPUs",
        "<br>".join(dict.fromkeys(cells.taken(pool.units(machine), pool.resource) for machine in pool.machines)),
        cells.count(pool.nodes.min, pool.nodes.max),
        pool.capacity,
        pool.role,
    )


def gpus(machine: Machine) -> str:
    """1 x T4, 16 GiB each."""
    each = f", {machine.gpu_memory_mib / 1024:.0f} GiB each" if machine.gpu_memory_mib else ""
    return text(f"{machine.gpus} x {machine.gpu.name}{each}") if machine.gpu else "none"


def nodes(name: str, settings: Cluster) -> str:
    """How a pod finds the nodes of each pool, and what they have for it."""
    columns = ("pool", "labels that tell it from others", "taints", "driver and toolkit", "root disk", "a node leaves pods")
    return table(columns, (_node(name, settings, pool) for pool in settings.pools))


def _node(cluster: str, settings: Cluster, name: str) -> tuple[str, ...]:
    pool: Pool = settings.pools[name]
    profile = PROVIDERS[settings.provider].profile
    host = pool_host(settings, name)
    return (
        code(name),
        cells.labels(flavor_labels(pool.node_labels(cluster, name, profile), profile) | pool.labels, "<br>"),
        cells.codes((str(taint) for taint in _taints(pool, profile)), "<br>"),
        software(settings, name),
        cells.size(pool.disk),
        "<br>".join(f"{code(machine.name)}: {_offer(_left(machine, host))}" for machine in host.machines),
    )


def _taints(pool: Pool, profile: SchedulingProfile) -> Iterator[object]:
    yield profile.gpu_taint
    if profile.spot_taint is not None and pool.capacity == "spot":
        yield profile.spot_taint


def common_labels(name: str, settings: Cluster) -> str:
    """Labels that the nodes of all pools of a cluster have alike, and that tell none of them."""
    profile = PROVIDERS[settings.provider].profile
    of_pools: list[Mapping[str, str]] = [pool.node_labels(name, key, profile) for key, pool in settings.pools.items()]
    own = {key for pool in settings.pools.values() for key in pool.labels}
    told = own.union(*(flavor_labels(each, profile) for each in of_pools))
    alike = set.intersection(*(set(each.items()) for each in of_pools))
    return cells.labels({key: value for key, value in of_pools[0].items() if (key, value) in alike and key not in told})


def software(settings: Cluster, name: str) -> str:
    """Where driver and container toolkit of a pool's nodes come from."""
    image: NodeImage = NODE_IMAGES[settings.pools[name].image]
    version = driver(settings, name)
    sides = [
        ("driver" + (f" {code(version)}" if version else ""), image.driver),
        ("toolkit", image.toolkit),
    ]
    by_image = " and ".join(what for what, brought in sides if brought)
    by_operator = " and ".join(what for what, brought in sides if not brought)
    told = [f"{by_image} in image {code(image.name)}"] * bool(by_image)
    told += [f"{by_operator} by the operator, on image {code(image.name)}"] * bool(by_operator)
    return "; ".join(told)


def driver(settings: Cluster, name: str) -> str:
    """Version of the driver on a pool's nodes, as far as the settings or the pinned versions say it."""
    pool = settings.pools[name]
    if NODE_IMAGES[pool.image].driver:
        return settings.image_driver(name) or ""
    return (settings.operator or OperatorSettings()).driver.version


def room(settings: Cluster, name: str) -> Offer:
    """What a node of a pool has for pods at least, whichever of its types it is."""
    host = pool_host(settings, name)
    return least(_left(machine, host) for machine in host.machines)


def _left(machine: Machine, host: Host) -> Offer:
    return for_runners(machine, host.disk, host.daemonsets)


def _offer(left: Offer) -> str:
    return f"{cells.cores(left.cpu)} CPU, {cells.size(left.memory)}, {cells.size(left.storage)} of disk"
