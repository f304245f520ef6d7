"""Writes `docs/inventory-<stack>.md`: the GPU pools of a stack, the users of their GPUs, and what these need from the nodes.

The page shows what `make plan` leaves out: the resources that the nodes of each pool advertise, workloads and jobs, images,
volumes, Pod Security levels and drivers. The plan shows prices, policies and resources.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from fleet.charts.chart import Chart
from fleet.charts.container_jobs import own_runner
from fleet.facts.hardware import Machine
from fleet.facts.lifecycle import numbers
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.record import Record
from fleet.facts.scheduling import JOB_TEMPLATE, QUEUE_LABEL
from fleet.facts.versions import IMAGES, Image
from fleet.jobs.stack import place_stack_job
from fleet.prove.image_fit import node_driver
from fleet.prove.pod import PodAsk, pod_of
from fleet.prove.runner_pods import runner_ask
from fleet.prove.topology import Ask
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set, pod_set_of
from fleet.providers.registry import provider_of
from fleet.render.placeholders import placeholders
from fleet.render.workloads.catalogue import workload_objects
from fleet.settings.caches import class_name
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import advertisers
from fleet.settings.queues import units
from fleet.settings.runner import PodRunner
from fleet.settings.workloads import CoralWorkload, PoolWorkload
from gpu_ci.offline.gfm import code, table, text
from gpu_ci.offline.words import span

MACHINES = "runner set of machines"
"""The kind of a runner set whose runners are machines: its pods are launchers, which take no GPU."""
JOBS, OWN_PODS = "jobs in containers of a runner set", "runners of jobs in containers"
"""The two kinds of pods of a runner set whose jobs run in containers."""


class User(Record):
    """One runner set, workload or job: `least` to `most` pods with the pod spec `spec`, as the program deploys them.

    `level` is the Pod Security Standard of the namespace. `pools` are the pools of the pods, the first choice first, empty if
    they are bound to none. `ask` is what one pod requests; launchers have none. `lasts` is "always" or "once", "" for runners.
    `queue` is the Kueue queue of a job, "" if it has none. `claims` has the size, class and access mode of the volume claims that
    the pods may mount, by name.
    """

    name: str
    kind: str
    namespace: str
    level: str
    spec: Mapping[str, Any]
    least: int
    most: int
    pools: tuple[str, ...] = ()
    ask: Ask | None = None
    lasts: str = ""
    queue: str = ""
    claims: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """Units of the pool's resource that one pod takes."""
        return self.ask.gpus if self.ask is not None else 0

    @property
    def container(self) -> Mapping[str, Any]:
        """The container of the pod that uses the GPUs: the first."""
        return self.containers[0]

    @property
    def containers(self) -> list[Mapping[str, Any]]:
        """All containers: the pod's own first, then the sidecars, then the init containers."""
        return [*self.spec["containers"], *self.spec.get("initContainers", ())]


def users(fleet: Fleet, cluster: str) -> Iterator[User]:
    """All users of a cluster, in the order of the settings. Raises JobError for a job that fits in no pool."""
    settings: Cluster = fleet.clusters[cluster]
    sets = _runner_sets(fleet, settings, set_charts(fleet, cluster))
    yield from (*sets, *_workloads(settings), *_placeholders(settings), *_jobs(fleet, cluster))


def set_charts(fleet: Fleet, cluster: str) -> dict[str, Chart]:
    """The chart of each runner scale set of a cluster, by the set's name."""
    settings: Cluster = fleet.clusters[cluster]
    own = {chart.name: chart for chart in provider_of(settings).charts(settings, cluster, fleet.github)}
    return {
        name: pod_set(settings, name, runner, fleet.github) if isinstance(runner, PodRunner) else own[name]
        for name, runner in settings.runners.items()
    }


def _runner_sets(fleet: Fleet, settings: Cluster, charts: Mapping[str, Chart]) -> Iterator[User]:
    for name, runner in settings.runners.items():
        spec, span = charts[name].values["template"]["spec"], runner.span
        where = (charts[name].namespace, charts[name].pod_security, spec, span.min, span.max)
        if isinstance(runner, PodRunner) and runner.in_containers:
            pods = pod_set_of(settings, name, runner, fleet.github)
            job = pods.templates[JOB_TEMPLATE]["spec"]
            yield User(name, JOBS, pods.jobs_home, pods.pod_security, job, 0, span.max, runner.ordered, runner_ask(runner))
            yield User(name, OWN_PODS, *where, runner.waiting_pools, own_runner(runner))
        elif isinstance(runner, PodRunner):
            yield User(name, "runner set", *where, runner.ordered, runner_ask(runner))
        else:
            yield User(name, MACHINES, *where)


def _workloads(settings: Cluster) -> Iterator[User]:
    for name, workload in settings.workloads.items():
        objects = workload_objects(settings, name)
        (creator,) = (manifest for manifest in objects if manifest["kind"] in ("Deployment", "Job"))
        claimed = [manifest for manifest in objects if manifest["kind"] == "PersistentVolumeClaim"]
        claims = {manifest["metadata"]["name"]: _claim(manifest["spec"]) for manifest in claimed}
        pools = (workload.pool,) if isinstance(workload, PoolWorkload | CoralWorkload) and workload.pool else ()
        gpus = workload.units if isinstance(workload, PoolWorkload) else 0
        ask = PodAsk(gpus, workload.cpu, workload.memory, workload.scratch)
        yield _created(settings, name, workload.kind, creator, pools=pools, ask=ask, claims=claims)


def _created(settings: Cluster, name: str, kind: str, creator: Mapping[str, Any], **about: Any) -> User:
    """The user whose pods a Deployment or a Job creates; `about` has its other fields."""
    namespace, spec = creator["metadata"]["namespace"], creator["spec"]
    level, pods = settings.team_namespaces.get(namespace, ""), spec.get("replicas", 1)
    lasts = "always" if creator["kind"] == "Deployment" else "once"
    return User(name, kind, namespace, level, spec["template"]["spec"], pods, pods, lasts=lasts, **about)


def _placeholders(settings: Cluster) -> Iterator[User]:
    for name, manifest in placeholders(settings).items():
        pod = pod_of(name, manifest)
        ask = pod.ask(settings.pools[name].resource) if pod is not None else None
        yield _created(settings, f"{name}-placeholders", "placeholders", manifest, pools=(name,), ask=ask)


def _claim(spec: Mapping[str, Any]) -> str:
    of_class = f"class {code(spec['storageClassName'])}" if "storageClassName" in spec else "the default class"
    return f"{spec['resources']['requests']['storage']}, {of_class}, {spec['accessModes'][0]}"


def _jobs(fleet: Fleet, cluster: str) -> Iterator[User]:
    settings: Cluster = fleet.clusters[cluster]
    caches = {
        name: f"{memory_text(cache.size)}, class {code(class_name(name))}, {cache.access_mode}"
        for name, cache in settings.caches.items()
    }
    for name in settings.jobs:
        placed = place_stack_job(fleet, cluster, name)
        manifest = placed.manifest()
        pools = tuple(place.pool for place in (placed.chosen, *placed.behind))
        queue = manifest["metadata"].get("labels", {}).get(QUEUE_LABEL, "")
        yield _created(settings, name, "job", manifest, pools=pools, ask=placed.job.ask, queue=queue, claims=caches)


Row = Sequence[str]
_NONE = "-"
_IMAGES = {image.reference: image for image in IMAGES.values()}


def document(stack: str, fleet: Fleet) -> str:
    """The page. Raises JobError for a job that fits in no pool (`fleet.jobs.stack.refusals` finds it first)."""
    pieces = [f"# Inventory of stack {code(stack)}", _HEAD.replace("NAME", stack)]
    for name, settings in fleet.clusters_by_name():
        pieces += _cluster(fleet, name, settings)
    return "\n\n".join(pieces) + "\n"


_HEAD = Path(__file__).with_name("inventory_head.md").read_text(encoding="utf-8").rstrip()


def _cluster(fleet: Fleet, name: str, settings: Cluster) -> Iterator[str]:
    cluster_users = tuple(users(fleet, name))
    yield f"## Cluster {code(name)}"
    yield (
        f"Provider {code(settings.provider)}, region {code(settings.region)}, Kubernetes {code(settings.kubernetes_version)}, "
        f"delivered by {code(settings.delivery)}. GPUs are advertised by {_advertised(settings)}."
    )
    if settings.gpu_pools:
        yield f"### Pools of {code(name)}"
        yield table(_POOL, (_pool(settings, pool, cluster_users) for pool in settings.gpu_pools))
        yield f"### Nodes of {code(name)}"
        yield table(_NODES, (_nodes(settings, pool, cluster_users) for pool in settings.gpu_pools))
    of_cpus = [user for user in cluster_users if user.pools and user.pools[0] not in settings.gpu_pools]
    tables = {"GPU users": [user for user in cluster_users if user not in of_cpus], "Users of pools without GPUs": of_cpus}
    for heading, rows in tables.items():
        if rows:
            yield f"### {heading} of {code(name)}"
            yield table(_USER, [_user(settings, user) for user in rows])
    if cluster_users:
        yield f"### Pods of {code(name)}"
        yield table(_POD, map(_pod, cluster_users))


def _advertised(settings: Cluster) -> str:
    """The programs that make the GPUs of the nodes schedulable."""
    images = (NODE_IMAGES[pool.image] for pool in settings.gpu_pools.values())
    programs = dict.fromkeys(program for image in images for program in advertisers(settings.enablement, image))
    return text(" and ".join(programs)) or "nothing: the cluster has no GPU pool"


# -- pools and their nodes ---------------------------------------------------------------------------------------------

_POOL = ("pool", "a node is", "GPUs of a node", "shared", "a node advertises", ">nodes", ">at most", ">the pool has", ">always")


def _pool(settings: Cluster, name: str, cluster_users: Iterable[User]) -> Row:
    pool: Any = settings.pools[name]
    here = [user for user in cluster_users if name in user.pools]
    most = sum(user.most * user.gpus for user in here if not user.queue)
    if settings.queues is not None:
        most += settings.queues.nominal(settings.queues.flavor_of(name) or name)
    capacity = units(pool)
    return (
        code(name),
        _codes(pool.instance_types, "<br>"),
        _gpus(pool.machines[0]),
        text(f"{pool.sharing.strategy}, {pool.sharing.unit} each") if pool.sharing else "no, whole GPUs",
        "<br>".join(dict.fromkeys(_units(pool.units(machine), pool.resource) for machine in pool.machines)),
        span(pool.nodes.min, pool.nodes.max),
        f"**{most}**" if most > capacity else str(most),
        str(capacity),
        str(sum(user.least * user.gpus for user in here if user.lasts != "once" and user.pools[0] == name)),
    )


_NODES = ("pool", "used by", "driver", "container toolkit", "driver needed", "compute capability needed", "processor needed")


def _nodes(settings: Cluster, name: str, cluster_users: Iterable[User]) -> Row:
    """Driver and toolkit of a pool's nodes, and the needs of the pinned images and the GPU; "not known" if there is no source."""
    kind = NODE_IMAGES[settings.pools[name].image]
    origin = {True: f"in image {code(kind.name)}", False: f"by the GPU operator, on image {code(kind.name)}"}
    driver = node_driver(settings, name)
    here = [user for user in cluster_users if name in user.pools]
    images = [image for user in here if user.gpus and (image := _IMAGES.get(_image_of(user.container)))]
    capability = max((image.least_capability for image in images), key=numbers, default="")
    gpu = settings.pools[name].machines[0].gpu
    has = f" (the GPU has {gpu.compute_capability})" if gpu else ""
    builds = [image.architectures for image in images if image.architectures]
    processors = [processor for processor in builds[0] if all(processor in build for build in builds)] if builds else []
    return (
        code(name),
        _codes(user.name for user in here),
        f"{code(driver) if driver else 'version not known,'} {origin[kind.driver]}",
        origin[kind.toolkit],
        ", ".join(_driver_limits(settings, name, images)) or "not known",
        f"{capability} at least{has}" if capability else "not known",
        " or ".join(map(code, processors)) or "not known",
    )


def _driver_limits(settings: Cluster, name: str, images: Iterable[Image]) -> Iterator[str]:
    """The branches of NVIDIA's driver that the images and the GPUs of a pool support together."""
    gpus = [machine.gpu for machine in settings.pools[name].machines if machine.gpu is not None]
    oldest = (*(image.least_driver for image in images), *(gpu.min_driver_branch for gpu in gpus))
    if branches := [branch for branch in oldest if branch is not None]:
        yield f"R{max(branches)} at least"
    if branches := [gpu.max_driver_branch for gpu in gpus if gpu.max_driver_branch is not None]:
        yield f"R{min(branches)} at most"


# -- users -------------------------------------------------------------------------------------------------------------

_USER = ("what", "kind", "namespace", "pool", "takes", ">how many", "CPU", "memory", "disk")


def _user(settings: Cluster, user: User) -> Row:
    ask = user.ask
    return (
        code(user.name),
        user.kind,
        code(user.namespace),
        ", then ".join(map(code, user.pools)) or _NONE,
        _takes(settings, user),
        span(user.least, user.most)
        + (f", {user.lasts}" if user.lasts else "")
        + (f", in queue {code(user.queue)}" if user.queue else ""),
        cpu_text(ask.cpu.request) if ask else _NONE,
        memory_text(ask.memory.request) if ask else _NONE,
        memory_text(ask.scratch) if ask else _NONE,
    )


def _takes(settings: Cluster, user: User) -> str:
    if user.kind == MACHINES:
        whole = settings.runners[user.name].whole_machine
        return "<br>".join(f"{_gpus(machine)}, a whole {code(machine.name)}" for machine in (whole.types if whole else ()))
    if user.gpus:
        return _units(user.gpus, settings.pools[user.pools[0]].resource)
    devices = _codes(volume["hostPath"]["path"] for volume in user.spec.get("volumes", ()) if "hostPath" in volume)
    node = _codes(f"{key}={value}" for key, value in user.spec["nodeSelector"].items())
    return f"no GPU, but the device {devices} of a node with {node}" if devices != _NONE else "no GPU"


_POD = ("pod of", "image", "Pod Security", "host paths, claims and secrets")


def _pod(user: User) -> Row:
    return (
        code(user.name) + {MACHINES: ", its launcher", OWN_PODS: ", its runner"}.get(user.kind, ""),
        "<br>".join(_image(reference) for reference in dict.fromkeys(map(_image_of, user.containers))),
        f"**{user.level}**" if user.level == "privileged" else user.level,
        "<br>".join(dict.fromkeys(_mounts(user))) or _NONE,
    )


def _mounts(user: User) -> Iterator[str]:
    """Host paths, Secrets and volume claims. ConfigMaps and folders that are deleted with the pod are left out."""
    volumes: Mapping[str, Any] = {volume["name"]: volume for volume in user.spec.get("volumes", ())}
    for mount in (mount for container in user.containers for mount in container.get("volumeMounts", ())):
        at = f" at {code(mount['mountPath'])}{', read only' if mount.get('readOnly') else ''}"
        match volumes.get(mount["name"]):
            case {"hostPath": {"path": path}}:
                yield f"**host path** {code(path)}{at}"
            case {"secret": {"secretName": secret}}:
                yield f"Secret {code(secret)}{at}"
            case {"persistentVolumeClaim": {"claimName": claim}}:
                yield f"claim {code(claim)}{at}{f' ({user.claims[claim]})' if claim in user.claims else ''}"


# -- cells -------------------------------------------------------------------------------------------------------------


def _codes(names: Iterable[str], between: str = ", ") -> str:
    return between.join(map(code, names)) or _NONE


def _units(count: int, resource: str) -> str:
    """2 x `nvidia.com/gpu`."""
    return f"{count} x {code(resource)}"


def _gpus(machine: Machine) -> str:
    """1 x T4, 16 GiB each."""
    memory = f", {machine.gpu_memory_mib / 1024:.0f} GiB each" if machine.gpu_memory_mib else ""
    return text(f"{machine.gpus} x {machine.gpu.name}{memory}") if machine.gpu else "none"


def _image_of(container: Mapping[str, Any]) -> str:
    """The image of a container; empty if the workflow of a job names it."""
    return str(container.get("image", ""))


def _image(reference: str) -> str:
    """Name and version of an image, and the first characters of its digest."""
    if not reference:
        return "named by the workflow"
    name, at, digest = reference.partition("@")
    return code(name) + (f", {code(digest[: digest.index(':') + 13] + '…')}" if at else "")
