"""Chooses the cheapest pool of a stack that can hold a job, or reports why no pool can, and makes the manifest of the job.

A pool holds a job if the job fits a fresh node of each instance type of the pool, because the autoscaler may buy any of them. A
queued job also needs enough quota: its team's own, or quota that the team may borrow.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleet.charts.chart import amounts, manifests, part
from fleet.facts import hardware, scheduling
from fleet.facts.errors import shown
from fleet.facts.pods import CONFINED, CONFINED_POD, Mount, claimed, shared_memory
from fleet.facts.pricing import Money
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.record import Record
from fleet.facts.scheduling import FALLBACK, FLAVOR_LABEL
from fleet.jobs.ask import GpuAsk
from fleet.jobs.errors import JobError, JobProblem, JobRefusedError, refused
from fleet.jobs.profiles import PROFILES, gpu_type
from fleet.jobs.spec import GpuJobSpec
from fleet.prove.placement import Fit, Host, doubts, fit, node_price, pool_host, pool_hosts, unfit
from fleet.prove.quota import barred, queue_of
from fleet.providers.fleet import Fleet
from fleet.providers.installed import Target, pool_target
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.model import is_label_value
from fleet.settings.pool import Pool
from fleet.settings.refusals import words

Manifest = dict[str, Any]
REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


def manifest(job: GpuJobSpec, target: Target | None = None) -> Manifest:
    """The `batch/v1` Job: bound to a pool, or without a target to nodes with the right GPU.

    Raises JobError for several shares without a target: only a pool can allow them.
    """
    if target is None:
        target = _anywhere(job.ask)
    arguments = job.given
    # A label too, by which people find the Job, if the task is a valid label value. The annotation always has it.
    tags = {scheduling.TASK: arguments.task_id} if is_label_value(arguments.task_id) else {}
    queue = {scheduling.QUEUE_LABEL: arguments.queue} if arguments.queue else {}
    labels, annotations = arguments.labels | tags, arguments.annotations | {scheduling.TASK: arguments.task_id}
    own = {"name": job.name, "namespace": arguments.namespace, "labels": labels | queue, "annotations": annotations}
    # SAFE_TO_EVICT, because the job ends if the autoscaler removes its node.
    of_pod = _filled({"labels": labels, "annotations": annotations | {scheduling.SAFE_TO_EVICT: "false"}})
    policy = _NO_FAILURE if job.restart_policy == "Never" else None
    most = {"backoff_limit": arguments.backoff_limit, "deadline": arguments.deadline, "ttl": arguments.ttl}
    given = {"suspend": bool(arguments.queue) or None, "policy": policy, "of_pod": of_pod, "pod": _pod(job, target)}
    spec = part(__file__, "job", **most, **given)
    # A copy, because parts of it are the arguments'.
    return copy.deepcopy({"apiVersion": "batch/v1", "kind": "Job", "metadata": _filled(own), "spec": spec})


def _filled(fields: Manifest) -> Manifest:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, ())}


_NO_FAILURE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
"""A pod that lost its node or was preempted does not count as a try (Kubernetes, "Pod failure policy"; only with Never)."""


def _anywhere(ask: GpuAsk) -> Target:
    """The target of a pod without a pool. Raises JobError for several shares, because only a pool can allow them."""
    if ask.shared and ask.gpus > 1 and not ask.unplaced_resource.startswith(scheduling.MIG_RESOURCE):
        raise JobError((refused("several_shares__job", "gpu_count", ask.gpus),))
    capacity = "spot" if ask.spot else "on-demand"
    tolerations = dict.fromkeys(toleration for row in PROVIDERS.values() for toleration in row.profile.pod_tolerations(capacity))
    return Target([], tuple(tolerations), "", ask.unplaced_resource, mounts_shm=True)


def _pod(job: GpuJobSpec, target: Target) -> Manifest:
    arguments = job.given
    user = {"runAsUser": arguments.user, "runAsGroup": arguments.group, "fsGroup": arguments.group}
    of_job = {"restart": job.restart_policy, "priority": job.priority_class, "runtime_class": target.runtime_class}
    lists = {
        "secrets": [{"name": name} for name in arguments.pull_secrets],
        "tolerations": manifests(target.tolerations),
        "containers": [_container(job, target)],
        "volumes": [mount.volume for mount in mounts(job, own_shm=target.mounts_shm)],
    }
    # A model cache has many files: do not change each of them at every start.
    security = CONFINED_POD | user | {"fsGroupChangePolicy": "OnRootMismatch"}
    return _filled(part(__file__, "pod", **of_job, **lists, **_nodes(job.ask, target), security=security))


def _container(job: GpuJobSpec, target: Target) -> Manifest:
    ask, arguments = job.ask, job.given
    words = {"command": list(arguments.command), "args": list(arguments.args), "env": list(_variables(job))}
    sizes = amounts(ask.cpu, ask.memory, ask.scratch, {target.resource: str(ask.gpus)})
    mounted = [mount.mount for mount in mounts(job, own_shm=target.mounts_shm)]
    return _filled(part(__file__, "worker", **words, image=arguments.image, sizes=sizes, confined=CONFINED, mounts=mounted))


def mounts(job: GpuJobSpec, *, own_shm: bool = True) -> Iterator[Mount]:
    """The job's mounts. Without `own_shm` the device plugin mounts /dev/shm itself, and the pod must not."""
    arguments = job.given
    if arguments.workspace:
        yield claimed("workspace", arguments.workspace_path, arguments.workspace)
    if arguments.cache:
        yield claimed("models", arguments.cache_path, arguments.cache, arguments.cache_read_only)
    if job.ask.shm and own_shm:
        yield shared_memory(memory_text(job.ask.shm))


def _variables(job: GpuJobSpec) -> Iterator[Manifest]:
    yield from ({"name": name, "value": value} for name, value in job.env.items() if name not in job.given.secret_env)
    for name, (secret, key) in job.given.secret_env.items():
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _nodes(ask: GpuAsk, target: Target) -> Manifest:
    """The node selector and the affinity: the labels of the pools or of the GPU, and of the machine types that the job names."""
    bound = bool(target.selectors)
    choice = scheduling.node_choice(target.selectors)
    gpu = {scheduling.ACCELERATOR_LABEL: PROFILES[ask.gpu_type].accelerator} if not bound and len(ask.gpu_types) == 1 else {}
    machine = {scheduling.INSTANCE_TYPE_LABEL: ask.instance_types[0]} if len(ask.instance_types) == 1 else {}
    affinity: Manifest = choice.get("affinity", {}).get("nodeAffinity", {})
    if required := list(_required(ask, bound=bound)):
        # A node must fit one whole term, so each term has what the job requires of every node.
        for term in affinity.setdefault(REQUIRED, {"nodeSelectorTerms": [{"matchExpressions": []}]})["nodeSelectorTerms"]:
            term["matchExpressions"] += required
    if not bound and ask.prefer:
        affinity[PREFERRED] = [
            {"weight": weight, "preference": {"matchExpressions": [_accelerators(name)]}}
            for name, weight in ask.gpu_types.items()
        ]
    selector = choice.get("nodeSelector", {}) | gpu | machine
    return {"nodeSelector": selector, "affinity": {"nodeAffinity": affinity} if affinity else {}}


def _required(ask: GpuAsk, *, bound: bool) -> Iterator[Manifest]:
    """The requirements that a node selector cannot express: one of several values, and values to avoid."""
    if len(ask.instance_types) > 1:
        yield _one_of(scheduling.INSTANCE_TYPE_LABEL, list(ask.instance_types))
    if not bound and len(ask.gpu_types) > 1:
        yield _accelerators(*ask.gpu_types)
    if not bound and not ask.spot:
        # A node without the label is not in one of our pools, so its capacity type is not known.
        yield {"key": scheduling.CAPACITY_LABEL, "operator": "NotIn", "values": ["spot"]}


def _accelerators(*gpu_types: str) -> Manifest:
    return _one_of(scheduling.ACCELERATOR_LABEL, [PROFILES[name].accelerator for name in gpu_types])


def _one_of(label: str, values: list[str]) -> Manifest:
    return {"key": label, "operator": "In", "values": values}


class Candidate(Record):
    """A pool and the `reasons` why it cannot hold a job; none if it can.

    `price` is the price per hour of its most expensive machine, at the pool's capacity type. `weight` is the job's preference for
    its GPU.
    """

    cluster: str
    pool: str
    settings: Pool
    host: Host
    fits: tuple[Fit, ...]
    price: Money
    weight: int
    reasons: tuple[str, ...]

    @property
    def name(self) -> str:
        """Cluster and pool."""
        return f"{self.cluster}/{self.pool}"

    @property
    def rank(self) -> tuple[object, ...]:
        """Sort key, best first: preferred GPU, burst pools, low price, spot, name.

        A reservation or capacity block adds no cost: it is paid whether a job runs there or not.
        """
        capacity = self.settings.capacity
        usd = 0 if capacity in hardware.PREPAID else float("inf") if self.price.unknown else self.price.usd
        return -self.weight, self.settings.role != "burst", usd, capacity != hardware.SPOT, self.name

    @property
    def problem(self) -> JobProblem:
        """The error line of a pool that cannot hold the job."""
        return JobProblem(self.name, "placement", "; ".join(self.reasons))

    @property
    def most(self) -> int:
        """How many of these jobs the whole pool runs at the same time, on its smallest instance type."""
        return min(node.count for node in self.fits) * self.host.count


class JobPlacement(Record):
    """A job and the pool that runs it. `others` are the other pools, the best first, those that cannot hold the job last.

    `behind` are pools that run it too, in their order: those that the job names after the first, or those of its queue's flavor.
    In a team's namespace the job is in the team's queue, even if it names none.
    """

    job: GpuJobSpec
    chosen: Candidate
    target: Target
    others: tuple[Candidate, ...]
    behind: tuple[Candidate, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings to the job's owner."""
        return tuple(dict.fromkeys(remark for pool in (self.chosen, *self.behind) for remark in remarks(self.job.ask, pool)))

    @property
    def place(self) -> str:
        """Its pools in words, with the price of a node of each."""
        return ", then ".join(f"{pool.name}, {pool.price} USD/h a node" for pool in (self.chosen, *self.behind))

    def manifest(self) -> Manifest:
        """The Job, bound to the pool."""
        return manifest(self.job, self.target)


Pools = str | Sequence[str] | None
"""The pool of a job, or several in order. None or no pool for any."""
Name = str | None
"""The name of a cluster, a queue or a namespace, if a job names one."""


def place_job(fleet: Fleet, job: GpuJobSpec, *, cluster: str | None = None, pool: Pools = None) -> JobPlacement:
    """Place a job in the best pool of the stack that holds it, or of one `cluster` or `pool`.

    With several pools the job runs in the first of them that has a node for it, and each must hold it. Raises JobRefusedError
    with a reason for each pool that cannot hold the job, and JobError for a cluster or pool that does not exist.
    """
    queue, namespace = job.given.queue, job.given.namespace
    cluster, pool = _first_names(fleet, cluster, pool)
    ranked = candidates(fleet, job.ask, cluster=cluster, pool=pool, queue=queue, namespace=namespace)
    label = f"{job.name} ({job.ask})"
    chosen = tuple(_together(ranked, names, label)) if len(names := _names(pool)) > 1 else (choose(ranked, label),)
    settings: Cluster = fleet.clusters[chosen[0].cluster]
    # A Job without a queue in a team's namespace gets the LocalQueue `default`, so the job names it.
    queue = queue_of(queue, namespace, settings.queues)
    queued = replace(job, given=job.given.model_copy(update={"queue": queue}))
    flavor = settings.flavor_of(chosen[0].pool) if queued.given.queue else ""
    members = settings.queues.pools_of(flavor) if settings.queues is not None and flavor else ()
    if queued.given.queue and len(chosen) > 1 and {*names} != {*members}:
        raise JobError((JobProblem("pool", "queue_pools", words("queue_pools"), ", ".join(names)),))
    behind = chosen[1:]
    if members:
        target = replace(pool_target(settings, *members), selectors=[{FLAVOR_LABEL: flavor}])
        of = {candidate.pool: candidate for candidate in candidates(fleet, job.ask, cluster=chosen[0].cluster, pool=members)}
        behind = tuple(of[name] for name in members if name != chosen[0].pool)
    else:
        target = pool_target(settings, *(candidate.pool for candidate in chosen))
    others = tuple(candidate for candidate in ranked if candidate not in (chosen[0], *behind))
    return JobPlacement(queued, chosen[0], target, others, behind)


def _first_names(fleet: Fleet, cluster: str | None, pool: Pools) -> tuple[str | None, tuple[str, ...]]:
    """A cluster and pools by their names in the fleet, where the stack file calls them otherwise."""
    names = tuple(fleet.first_name("pools", name) for name in _names(pool))
    return None if cluster is None else fleet.first_name("clusters", cluster), names


def _names(pool: Pools) -> tuple[str, ...]:
    return (pool,) if isinstance(pool, str) else tuple(pool or ())


def _together(ranked: tuple[Candidate, ...], names: Sequence[str], label: str) -> Iterator[Candidate]:
    """The candidates of these pools in one cluster, in this order. Raises JobRefusedError if no cluster has all for the job."""
    problems = []
    for cluster in dict.fromkeys(candidate.cluster for candidate in ranked):
        here = {candidate.pool: candidate for candidate in ranked if candidate.cluster == cluster}
        wrong = [candidate.problem for candidate in here.values() if candidate.reasons]
        wrong += [JobProblem(cluster, "placement", f"has no pool {name}; name another") for name in names if name not in here]
        if not wrong:
            yield from (here[name] for name in names)
            return
        problems += wrong
    raise JobRefusedError(tuple(problems), f"not every pool of the list can hold {label}:")


def choose(ranked: tuple[Candidate, ...], label: str) -> Candidate:
    """The first candidate, if it can hold the job. Otherwise raises JobRefusedError, whose message names the job as `label`."""
    if ranked and not ranked[0].reasons:
        return ranked[0]
    none = JobProblem("pools", "placement", "there is no GPU pool; add one")
    raise JobRefusedError(tuple(candidate.problem for candidate in ranked) or (none,), f"no pool can hold {label}:")


def candidates(
    fleet: Fleet, ask: GpuAsk, *, cluster: Name = None, pool: Pools = None, queue: Name = None, namespace: Name = None
) -> tuple[Candidate, ...]:
    """Every pool of the stack, of one `cluster`, or named in `pool`: the best first, those that cannot hold the job last.

    A job of a `queue` or of a team's `namespace` needs a pool for which that team has enough quota. Raises JobError for a cluster
    or pool that does not exist.
    """
    names = _names(pool)
    _require(fleet, cluster, names)
    judged = [
        _candidate(ask, name, settings, host, queue, namespace)
        for name, settings in fleet.clusters_by_name(cluster)
        for pool_name, host in pool_hosts(settings).items()
        if not names or pool_name in names
    ]
    able = sorted((candidate for candidate in judged if not candidate.reasons), key=lambda candidate: candidate.rank)
    return (*able, *(candidate for candidate in judged if candidate.reasons))


def _require(fleet: Fleet, cluster: str | None, names: Iterable[str]) -> None:
    if cluster is not None and cluster not in fleet.clusters:
        raise JobError((refused("cluster", "cluster", cluster, names=", ".join(fleet.clusters)),))
    pools = dict.fromkeys(name for _, settings in fleet.clusters_by_name(cluster) for name in settings.pools)
    message = f"no pool has that name; name one of: {', '.join(pools)}" if pools else "there is no pool; add one to the stack"
    if (unknown := next((name for name in names if name not in pools), None)) is not None:
        raise JobError((JobProblem("pool", "pool", message, shown(unknown)),))


def _candidate(ask: GpuAsk, cluster: str, settings: Cluster, host: Host, queue: str | None, namespace: str | None) -> Candidate:
    pool: Pool = settings.pools[host.name]
    fits = tuple(fit(ask, machine, host) for machine in host.machines)
    gpu = options_of(pool)["gpu_type"]
    weight = ask.gpu_types.get(gpu, 0)
    has, types = pool.machines[0].gpu, " or ".join(PROFILES[name].gpu for name in ask.gpu_types)
    reasons: tuple[str, ...] = (f"has {has.name if has else 'no GPU'}, the job asks for {types}",)
    if gpu in ask.gpu_types:
        of_flavor = _of_flavor(ask, settings, host.name, queue_of(queue, namespace, settings.queues))
        no_quota = barred(ask, queue, namespace, settings, host)
        reasons = tuple(filter(None, (*_reasons(ask, pool, host, fits), no_quota, *of_flavor)))
    return Candidate(cluster, host.name, pool, host, fits, node_price(settings, host), weight, reasons)


def _of_flavor(ask: GpuAsk, settings: Cluster, pool: str, queue: str | None) -> Iterator[str]:
    """Why the other pools of a pool's flavor cannot hold a queued job: Kueue may admit it to any of them."""
    if queue is None or settings.queues is None or not (flavor := settings.flavor_of(pool)):
        return
    for name in (name for name in settings.queues.pools_of(flavor) if name != pool):
        host = pool_host(settings, name)
        reasons = _reasons(ask, settings.pools[name], host, tuple(fit(ask, machine, host) for machine in host.machines))
        yield from (f"pool {name} of the same flavor {flavor}: {reason}" for reason in reasons)


def pool_options(fleet: Fleet, cluster: str | None, pool: Pools) -> dict[str, Any]:
    """The options that a job gets from the `pool` or pools that it names: `gpu_type`, `spot` and `shared`.

    Without `cluster` these are the options on which all pools of that name agree. Empty if no pool has such a name.
    """
    cluster, pool = _first_names(fleet, cluster, pool)
    pools = [settings.pools for _, settings in fleet.clusters_by_name(cluster)]
    return agreed([_common([options_of(own[name]) for own in pools if name in own]) for name in _names(pool)])


def agreed(options: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The options of a job over several pools, from those of each: what they agree on, and spot if one pool is spot."""
    return _common(options) | ({"spot": True} if any(option.get("spot") for option in options) else {})


def _common(options: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The options that are the same in all."""
    first = options[0] if options else {}
    return {name: value for name, value in first.items() if all(option.get(name) == value for option in options)}


def options_of(pool: Pool) -> dict[str, Any]:
    """The options of a job that runs in this pool: its GPU type, and `spot` and `shared` as the pool has them."""
    gpu = pool.machines[0].gpu
    spot, shared = pool.capacity == hardware.SPOT, pool.sharing is not None
    return {"gpu_type": gpu_type(gpu.name) if gpu else "", "spot": spot, "shared": shared}


def _reasons(ask: GpuAsk, pool: Pool, host: Host, fits: tuple[Fit, ...]) -> Iterator[str]:
    """Why a pool with the right GPU cannot hold the job."""
    if pool.capacity == hardware.SPOT and not ask.spot:
        yield "has spot machines, which the cloud can interrupt, and the job does not allow spot; set spot"
    if pool.sharing is None and ask.shared:
        yield "has whole GPUs, and the job asks for a share; remove shared and resource"
        return
    if pool.sharing is not None and not ask.shared:
        yield f"shares its GPUs ({pool.sharing.unit} each), and the job asks for whole ones; set shared"
        return
    if ask.resource not in (None, pool.resource):
        yield f"advertises {pool.resource}, the job asks for {ask.resource}"
    if ask.gpus > 1 and not pool.several:
        yield f"shares its GPUs, and several shares do not add up to a larger one; ask for 1, not {ask.gpus}"
    if ask.shm_given and not pool.mounts_shm:
        yield f"its device plugin mounts /dev/shm itself (MPS), the job asks for {memory_text(ask.shm)}; remove shm"
    if (types := ask.instance_types) and (foreign := [name for name in pool.instance_types if name not in types]):
        yield f"may also buy {' or '.join(foreign)}, the job allows only {' or '.join(types)}; name all of the pool's types"
    if lacking := unfit(ask, host, fits):
        yield lacking


def remarks(ask: GpuAsk, chosen: Candidate) -> Iterator[str]:
    """Warnings to the owner of a job in a pool."""
    worst = min(chosen.fits, key=lambda node: node.offer.memory)
    offer, machine = worst.offer, worst.machine.name
    memory, cpu = memory_text(ask.memory.limit), cpu_text(ask.cpu.limit)
    if ask.memory.limit > offer.memory:
        yield f"memory limit {memory} is above the {offer.memory}Mi of {machine}: the job may be evicted before it"
    if ask.cpu.limit > offer.cpu:
        yield f"CPU limit {cpu} is above the {cpu_text(offer.cpu)} of {machine}: the job never gets all of it"
    yield from doubts(ask, chosen.host, chosen.fits)
    if chosen.settings.capacity == hardware.SPOT:
        yield "on spot: it may be interrupted at any time and then restarts, so keep its state in the workspace"
    if chosen.settings.role == "release":
        yield "in a pool for releases, so a release may have to wait for this job"
    if chosen.settings.role == FALLBACK:
        yield "in a fallback pool, so runners that find no spot capacity may have to wait for this job"
