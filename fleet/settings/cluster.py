"""What clusters of every provider have."""

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from fleet.facts.hardware import SPOT
from fleet.facts.lifecycle import Use
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.pods import Level
from fleet.facts.remark import CANNOT_WORK, Remark, below, said, todo
from fleet.facts.scheduling import FALLBACK, JOB_PRIORITIES, PLACEHOLDER_PRIORITIES, SYSTEM_POOL, SYSTEM_SELECTOR, Priority
from fleet.settings import workloads as rules
from fleet.settings.alerts import require_objectives
from fleet.settings.budget import Budget, PoolBudget
from fleet.settings.caches import Cache, Volumes, class_name
from fleet.settings.container_jobs import MAX_SET_NAME
from fleet.settings.egress import closed_networks, may_open
from fleet.settings.enablement import EnabledPool, require_enablement
from fleet.settings.existing import ENABLEMENTS, NODE_AGENT, Existing
from fleet.settings.github import DEFAULT_SCOPE
from fleet.settings.gitops import ByProgram, GitOps, GitSecrets, Sops
from fleet.settings.health import Health
from fleet.settings.jobs import StackJob, require_jobs
from fleet.settings.model import Cidr, DnsLabel, Model, QuotedText
from fleet.settings.monitoring import Monitoring
from fleet.settings.namespaces import JOBS, PLACEHOLDER_NAMESPACE, jobs_namespace, levels, reserved
from fleet.settings.operator import OperatorSettings
from fleet.settings.pool import Pool, require_no_shm, require_one_share, require_own_pool, require_pool
from fleet.settings.queues import Queues, require_queues, units
from fleet.settings.refusals import problem, refusal, refuse, refuse_if, require_once
from fleet.settings.registry import Mirror
from fleet.settings.runner import GPU_LABELS, PodRunner, Runner, RunnerQuota, SetName
from fleet.settings.sharing import Mig
from fleet.settings.workloads import AnyWorkload, BuildkitWorkload, PoolWorkload, WorkloadName

RENAMED = ("pools", "runners", "caches")
"""Keys of a cluster whose entries may have an earlier name, in `was`."""


def physical_name(project: str, stack: str, cluster: str) -> str:
    """The cluster's name in its cloud. Tags, IAM conditions, kubeconfigs and Git folders need it before the cluster exists."""
    return f"{project}-{stack}-{cluster}"


ReplaceNodes = Literal["wait", "evict"]
"""Whether an edit that needs other nodes waits for the jobs on the old ones."""


class Cluster(Model):
    """One Kubernetes cluster with GPU pools and runner sets. A provider's model adds its cloud's settings."""

    provider: str
    """The provider: `eks` for AWS, `oke` for Oracle, `talos` for machines of your own, `kubernetes` for any cluster by its
    kubeconfig context."""
    region: Annotated[str, Field(min_length=1)]
    """Region of the cloud in which the cluster is."""
    kubernetes_version: QuotedText
    """Kubernetes minor version, in quotes, because YAML reads 1.30 as 1.3. The versions of node images and add-ons follow from
    it."""
    enablement: str
    """What advertises the GPUs of the nodes to Kubernetes: NVIDIA's device plugin, NVIDIA's GPU operator, or OKE's add-on
    (docs/layers.md). Mark: first."""
    github: DnsLabel | None = None
    """The scope of `gpu-ci:github.scopes` whose jobs the runner classes take, if they name none (docs/organizations.md). Default:
    `default`, the organization or repository of `gpu-ci:github` itself. Example: `research`"""
    delivery: Literal["helm", "argocd"] = "helm"
    """Who installs the charts: `helm` means `pulumi up`, `argocd` means ArgoCD from a Git repository (docs/gitops.md)."""
    gitops: GitOps | None = None
    """The Git repository that ArgoCD reads. Required with `delivery: argocd`, and only allowed there."""
    operator: OperatorSettings | None = None
    """Settings of NVIDIA's GPU operator. Only allowed with `enablement: gpu-operator`."""
    monitoring: Monitoring | None = None
    """Metrics, alerts and dashboards (docs/monitoring.md). Default: none."""
    health: Health | None = None
    """Quarantine of sick GPU nodes (docs/node-health.md). Default: none. `{}` turns it on with its defaults. Mark: first."""
    private_egress: tuple[Cidr, ...] = ()
    """Private networks that jobs in pods may reach, such as a cache, a package mirror or the endpoints of a VPC. Pods reach no
    other private network (docs/isolation.md). Example: `[10.20.0.0/24]`"""
    budget: Budget | None = None
    """A monthly budget with alarms by email. It stops nothing. Default: none. Mark: first."""
    declare_quotas: bool = False
    """Whether the program declares the largest number of GPUs of the fleet: on AWS as a request for quotas that
    `accountQuotas` shows to be too small, on OCI as an upper limit. Mark: first."""
    admission: bool = False
    """Whether the API server itself refuses what a person with kubectl could break, by the rules of the policies
    (docs/admission.md)."""
    protect: bool = False
    """Whether Pulumi refuses to delete the control plane, and to destroy any part of the stack by `pulumi destroy`
    (docs/operate.md#protection). Set it to false before you destroy the stack. Mark: first."""
    was: DnsLabel | None = None
    """First name of a cluster that was renamed. Clouds, Kubernetes and Pulumi's state keep it, so the rename replaces nothing
    (docs/renaming.md). Default: the cluster has its first name. Example: `usw2`"""
    DEFAULT_CLASS: ClassVar[bool] = False
    """Whether the provider's clusters have a default storage class."""

    HAS_CLOUDWATCH: ClassVar[bool] = False
    """Whether the program can install CloudWatch's add-on there."""

    SETS_TAINTS: ClassVar[bool] = False
    """Whether the program sets taints of new nodes."""

    SELLS_VOLUMES: ClassVar[bool] = True
    """Whether the provider has volumes for caches."""

    SIGNED_KUBELETS: ClassVar[bool] = True
    """Whether the cluster's certificate authority signs the certificates that kubelets serve with."""

    SECRETS_BY: ClassVar[GitSecrets] = ByProgram(by="program")
    """How the GitHub App's secret is created, unless `gitops.secrets` is set."""

    queues: Queues | None = None
    """Queues for the GPU Jobs of teams, by Kueue (docs/queues.md). Default: none."""
    workloads: dict[WorkloadName, AnyWorkload] = Field(default_factory=dict)
    """GPU workloads other than CI jobs, by name. `kind` selects the keys (docs/workloads.md)."""
    caches: Mapping[DnsLabel, Cache] = Field(default_factory=dict)
    """Volumes for models and data sets that outlive jobs, by name (docs/storage.md)."""
    jobs: dict[DnsLabel, StackJob] = Field(default_factory=dict)
    """GPU Jobs that run once, when they are new or changed, by name (docs/storage.md)."""
    pools: Mapping[DnsLabel, Pool] = Field(default_factory=dict)
    """GPU pools, by a name of your choice. Machines that run one job each need no pool. On EKS a pool may have no GPUs, for
    classes with `gpus: 0` (docs/cpu-classes.md). Mark: first."""
    runners: Mapping[SetName, Runner]
    """Runner classes by name. The name is what a workflow writes in `runs-on`, at most 45 characters. Mark: first."""
    runner_quotas: Mapping[DnsLabel, RunnerQuota] = Field(default_factory=dict)
    """The most GPUs of several runner classes together, for example those of a team (docs/waiting.md). Example:
    `{vision: {gpus: 4, runners: [gpu-t4, gpu-t4-x4]}}`"""

    @property
    def gpu_pools(self) -> dict[str, Any]:
        """The pools with GPUs, by name."""
        return {name: pool for name, pool in self.pools.items() if pool.has_gpus}

    @property
    def accounts(self) -> frozenset[str]:
        """The accounts of the cloud that settings name. A cluster has one."""
        return frozenset()

    @property
    def node_zones(self) -> tuple[str, ...]:
        """The zones in which nodes of pools may start. Empty if the settings do not show that."""
        return ()

    @property
    def own_cidr(self) -> str | None:
        """Address range of the network that the program creates; None if the cluster uses an existing network."""
        return None

    @property
    def group_suffix(self) -> int:
        """Characters that the names of a pool's node groups have besides cluster and pool."""
        return 0

    @property
    def found(self) -> Existing | None:
        """The facts of a cluster that exists already; None for a cluster that the program creates."""
        return cast("Existing | None", getattr(self, "existing", None))

    @property
    def system_selector(self) -> Mapping[str, str]:
        """Node labels of the nodes for controllers and listeners. Empty for any node whose taints they tolerate."""
        return SYSTEM_SELECTOR if self.found is None else self.found.system_selector

    @property
    def mirror(self) -> Mirror | None:
        """From where the nodes pull images: the cluster's registry. None for each image's own registry."""
        registry: Any = getattr(self, "registry", None)
        return None if registry is None else cast("Mirror", registry.mirror(self.region))

    def with_image(self, runner: PodRunner) -> PodRunner:
        """A runner class without an image gets that of the cluster's registry, if one is set."""
        image = self.mirror.runner_image if runner.image is None and self.mirror is not None else ""
        return runner.model_copy(update={"image": image}) if image else runner

    @property
    def by_git(self) -> bool:
        """Whether ArgoCD installs the objects of the cluster."""
        return self.delivery == "argocd"

    @property
    def secrets_by(self) -> GitSecrets:
        """How the GitHub App's secret of each runner set is created."""
        return (self.gitops.secrets if self.gitops is not None else None) or self.SECRETS_BY

    def secrets_of(self, scope: str) -> GitSecrets:
        """How the secret of the App of a GitHub scope is created."""
        return self.gitops.scope_secrets.get(scope, self.secrets_by) if self.gitops is not None else self.secrets_by

    def scope_of(self, runner: Runner) -> str:
        """The name of a class's GitHub scope."""
        return runner.github or self.github or DEFAULT_SCOPE

    @property
    def scopes(self) -> tuple[str, ...]:
        """The names of the GitHub scopes of its classes; without a class that of its default."""
        return tuple(dict.fromkeys(map(self.scope_of, self.runners.values()))) or (self.github or DEFAULT_SCOPE,)

    @property
    def closed_networks(self) -> tuple[str, ...]:
        """Networks that jobs in pods cannot reach, except those in `private_egress`."""
        return closed_networks(self.own_cidr)

    @property
    def drivers(self) -> tuple[str, ...]:
        """Storage drivers for the caches of the cluster, by their names in `fleet.facts.versions`."""
        return ()

    @property
    def node_features(self) -> tuple[str, ...]:
        """Features that add DaemonSets to every node (`fleet.facts.versions.daemonsets`)."""
        return self.drivers

    @property
    def makes_class(self) -> bool:
        """Whether the program creates the storage class of Prometheus."""
        wants_volume = self.monitoring is not None and self.monitoring.installs and self.monitoring.storage_class is None
        return wants_volume and self.SELLS_VOLUMES

    def disk_class(self, tags: Mapping[str, str]) -> Volumes:
        """Settings of that storage class. Its driver puts `tags` on volumes. Only for providers that sell volumes."""
        raise NotImplementedError

    def disk_parts(self, gib: int) -> Mapping[str, float]:
        """The hourly price of a disk that the cloud sells, by units of the price table; empty if the provider sells none."""
        return {}

    def node_disk(self, pool: Any) -> Mapping[str, float]:
        """The hourly price of the root disk of a pool's node, as `disk_parts` has it."""
        return self.disk_parts(pool.disk // 1024)

    def idle_delay_of(self, pool: str) -> int:
        """Seconds that a node of a pool stays unneeded before the autoscaler removes it."""
        return self.pools[pool].idle_delay

    @property
    def gpu_node_labels(self) -> Mapping[str, str]:
        """The labels of all GPU nodes beside those of their pools."""
        return {}

    @property
    def engine_on_nodes(self) -> bool:
        """Whether the nodes run a DCGM engine: the node monitoring agent of EKS starts one on each GPU node."""
        return NODE_AGENT in self.provided

    @property
    def provided(self) -> frozenset[str]:
        """Names of the charts that an add-on of the provider replaces, or that an existing cluster has already."""
        return frozenset() if self.found is None else self.found.releases

    @property
    def node_repair(self) -> str:
        """What repairs or replaces a sick node, as a clause."""
        return "no node repair: the autoscaler or a person removes it"

    def image_driver(self, pool: str) -> str | None:
        """Version of NVIDIA's driver in the node image of a pool; None if unknown."""
        return None

    def zones_with_nodes(self, pool: Any) -> tuple[str, ...]:
        """The zones in which nodes of a pool start, as their zone label has them. Empty if the settings do not show that."""
        return ()

    def waiting_machines(self, pool: Any) -> str:
        """The state of the machines that wait outside of the cluster in every zone of a pool; empty if some zone has none."""
        return ""

    @property
    def pod_runners(self) -> dict[str, PodRunner]:
        """The runner sets of pods."""
        return {name: runner for name, runner in self.runners.items() if isinstance(runner, PodRunner)}

    @property
    def runner_pools(self) -> frozenset[str]:
        """Pools that a runner set of pods uses."""
        return frozenset(pool for runner in self.pod_runners.values() for pool in runner.used_pools)

    def _pool_lists(self) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
        """(path, settings, pools) of each runner class, queue flavor and job that names pools, the first choice first."""
        yield from ((f"runners.{name}", runner, runner.ordered) for name, runner in self.pod_runners.items())
        flavors = self.queues.flavors if self.queues is not None else {}
        yield from ((f"queues.flavors.{name}", flavor, flavor.pools) for name, flavor in flavors.items())
        yield from ((f"jobs.{name}", job, job.ordered) for name, job in self.jobs.items())

    @property
    def pool_orders(self) -> dict[str, tuple[str, ...]]:
        """The pools of each runner class, queue flavor and job that names several, the first choice first, by its path."""
        return {path: pools for path, _, pools in self._pool_lists() if len(pools) > 1}

    @property
    def largest_job(self) -> int:
        """The most GPUs that a container of a runner class, workload or job asks for; with queues as many as a node has."""
        works = (work.units for work in self.workloads.values() if isinstance(work, PoolWorkload))
        nodes = (pool.units(machine) for pool in self.gpu_pools.values() for machine in pool.machines) if self.queues else ()
        jobs = (job.gpus for job in self.jobs.values())
        return max((*(runner.gpus for runner in self.pod_runners.values()), *jobs, *works, *nodes), default=0)

    def pod_sets(self, pool: str) -> dict[str, PodRunner]:
        """The runner sets of pods that name a pool, at any place of their order."""
        return {name: runner for name, runner in self.pod_runners.items() if pool in runner.ordered}

    def builders_of(self, runner_set: str) -> tuple[str, ...]:
        """The namespaces of BuildKit that the jobs of a runner set reach."""
        builders = (workload for workload in self.workloads.values() if isinstance(workload, BuildkitWorkload))
        return tuple(dict.fromkeys(builder.namespace for builder in builders if runner_set in builder.runners))

    def flavor_of(self, pool: str) -> str:
        """The queue flavor of several pools that has this one; empty if none has it."""
        return self.queues.flavor_of(pool) if self.queues is not None else ""

    @property
    def has_placeholders(self) -> bool:
        """Whether a pool has placeholder pods."""
        return any(pool.placeholders for pool in self.pools.values())

    @property
    def priorities(self) -> tuple[Priority, ...]:
        """The priority classes of the cluster beside that of runners: those of Jobs and those of placeholders."""
        jobs = JOB_PRIORITIES if self.queues is not None or self.workloads or self.jobs else ()
        return (*jobs, *(PLACEHOLDER_PRIORITIES if self.has_placeholders else ()))

    @property
    def team_namespaces(self) -> dict[str, Level]:
        """Namespaces that the settings need, with the Pod Security Standard of each."""
        confined: dict[str, Level] = dict.fromkeys(self._confined(), "restricted")
        return levels([*confined.items(), *((workload.namespace, workload.level) for workload in self.workloads.values())])

    def _confined(self) -> Iterator[str]:
        """Namespaces with the strictest Pod Security Standard: those of teams, caches, jobs and placeholders."""
        yield from self.queues.namespaces if self.queues is not None else ()
        for cache in self.caches.values():
            yield from cache.namespaces
        yield from (job.namespace for job in self.jobs.values())
        if self.has_placeholders:
            yield PLACEHOLDER_NAMESPACE

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about valid settings."""
        return tuple(self._remarks())

    def remarks_on(self, day: date) -> Iterator[str]:
        """Warnings that depend on the date, such as the end of support and holidays that are past."""
        for name, pool in self.pools.items():
            if pool.schedules is not None:
                yield from (below(f"pool {name}: schedules", remark) for remark in pool.schedules.remarks_on(day))

    def uses(self) -> Iterator[Use]:
        """What the settings pin, with its last good day: a minor, node images, reservations. Charts and images are elsewhere."""
        yield from ()

    @property
    def watched(self) -> str:
        """What the cluster's budget counts, in words. Two budgets of one text would count the same."""
        return ""

    @property
    def budgets_of_pools(self) -> Mapping[str, PoolBudget]:
        """Budgets of some of its pools, by name."""
        return {}

    @property
    def quota_scopes(self) -> tuple[str, ...]:
        """The regions or compartments whose quotas the cluster declares."""
        return ()

    @property
    def pools_of_others(self) -> frozenset[str]:
        """The pools that queues, workloads and jobs may use. A job with gpuType may use any pool with that GPU."""
        if any(job.gpu_type is not None for job in self.jobs.values()):
            return frozenset(self.gpu_pools)
        queued = self.queues.pools if self.queues is not None else frozenset()
        pools = {workload.pool for workload in self.workloads.values() if isinstance(workload, PoolWorkload)}
        return queued | pools | {pool for job in self.jobs.values() for pool in job.ordered}

    def _without_operator(self) -> Iterator[Remark]:
        """Objects of a Prometheus operator that the first `pulumi up` of a new cluster cannot create.

        With ArgoCD another Application may install the operator, and ArgoCD tries again until it has.
        """
        if self.found is not None or self.by_git:
            return
        if self.monitoring is not None and not (self.monitoring.installs or self.monitoring.operator_installed):
            yield Remark(said("no_operator"), CANNOT_WORK, parts=("",))
        if self.monitoring is None and self.operator is not None and self.operator.service_monitor:
            yield Remark(said("no_operator_for_exporter"), CANNOT_WORK, parts=("",))

    def _remarks(self) -> Iterator[str]:
        """Warnings about unused pools, unknown storage classes and MIG naming."""
        if self.monitoring is not None and self.found is not None and self.found.controller is not None:
            yield said("arc_metrics", namespace=self.found.controller.namespace)
        yield from self._without_operator()
        if self.health is not None and self.gpu_pools:
            yield f"health: {self.health.timing}; {self.node_repair} (docs/node-health.md)"
        queued = self.queues.pools if self.queues is not None else frozenset()
        if not (self.runners or queued or self.workloads or self.jobs):
            yield todo("runners: the cluster has none, so it runs no job; add one")
            return
        others = self.pools_of_others
        used = self.runner_pools | others
        for name in self.pools:
            if name not in used:
                yield todo(f"pool {name}: no runner set uses it, so it gets no jobs; use it in one, or remove it")
            if self.pools[name].placeholders and name in others:
                yield said("placeholders", name=name, most=self.pools[name].nodes.max - self.pools[name].placeholders)
        yield from self._shared_with_queues()
        for name, workload in self.workloads.items():
            storage = workload.storage_asked if isinstance(workload, PoolWorkload) else None
            if storage is not None and storage.storage_class not in (None, *map(class_name, self.caches)):
                yield said("storage_class", name=name, storage_class=storage.storage_class)
        for name, pool in self.pools.items():
            if isinstance(pool.sharing, Mig) and pool.sharing.naming == "single":
                yield said("mig_single", name=name)

    def _shared_with_queues(self) -> Iterator[str]:
        """Warnings about pools that are too small for runner sets and queues together. Runners are not in any queue."""
        if (queues := self.queues) is None:
            return
        for name in queues.flavor_names(self.pools):
            members, handed = queues.pools_of(name), queues.nominal(name)
            runners = [runner for runner in self.pod_runners.values() if not set(members).isdisjoint(runner.ordered)]
            works = [work for work in self.workloads.values() if isinstance(work, PoolWorkload) and work.stands]
            asked = {
                "runner sets may ask for": sum(runner.gpus * runner.span.max for runner in runners),
                "workloads keep": sum(work.units for work in works if work.pool in members),
            }
            others = sum(asked.values())
            most, resource = sum(units(self.pools[pool]) for pool in members), self.pools[members[0]].resource
            title = f"{'pool' if name in self.pools else 'flavor'} {name}"
            if handed and others and handed + others > most:
                users = " and ".join(f"{use} {number}" for use, number in asked.items() if number)
                yield said("pool_and_queues", title=title, most=most, resource=resource, users=users, handed=handed)

    def holdings(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """(path, description) of each thing that only one cluster of a stack may have."""
        if self.gitops is not None:
            yield ("gitops", "path"), f"folder {self.gitops.path} of {self.gitops.repository}"
        if self.found is not None:
            yield ("existing", self.found.KEY), self.found.CALLED.format(identity=self.found.identity, region=self.region)

    def tenancies(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """(path, account) of each value that contains the cloud account, such as "abcd:" in OCI's availability domains."""
        yield from ()

    @refusal
    def _cluster_rules(self) -> None:
        """Refuse a pool with the system pool's name, a runner of an unknown pool, and private egress that cannot be opened."""
        refuse_if("pool_name", SYSTEM_POOL in self.pools, at=("pools", SYSTEM_POOL), value=SYSTEM_POOL)
        for name, runner in self.pod_runners.items():
            refuse_if("cpu_name", not runner.gpus and name in GPU_LABELS, at=("runners", name), value=name)
            for index, pool_name in enumerate(runner.ordered):
                require_pool("runner_pool", pool_name, self.pools, at=("runners", name, *runner.pool_at(index)), gpus=runner.gpus)
            if runner.runner_pool is not None:
                require_own_pool(runner.runner_pool, self.pools, at=("runners", name, "runnerPool"))
            if runner.in_containers and len(name) > MAX_SET_NAME:
                raise problem("jobs_set_name", at=("runners", name), value=name, most=MAX_SET_NAME, length=len(name))
            if runner.in_containers and f"{name}{JOBS}" in self.runners:
                raise problem("jobs_namespace", at=("runners", name), value=name, namespace=jobs_namespace(name), jobs=JOBS)
        of_runners = self.runner_pools
        for name, pool in self.pools.items():
            refuse("pools", name, "placeholders", placeholder_runner=pool.placeholders and name not in of_runners)
        require_once("private_egress__twice", self.private_egress, at=("privateEgress",))
        for index, cidr in enumerate(self.private_egress):
            refuse_if("private_egress", not may_open(cidr, self.closed_networks), at=("privateEgress", str(index)), value=cidr)

    @refusal
    def _delivery_rules(self) -> None:
        """Refuse delivery by ArgoCD without a repository, the reverse, and a namespace or secrets that do not fit."""
        refuse_if("gitops", self.by_git != (self.gitops is not None), at=("delivery",) if self.gitops is None else ("gitops",))
        if self.gitops is not None and (reserved(self.gitops.namespace) or self.gitops.namespace in self.team_namespaces):
            raise problem("git_namespace", at=("gitops", "namespace"), value=self.gitops.namespace)
        if isinstance(self.secrets_by, Sops) and isinstance(self.SECRETS_BY, ByProgram):
            raise problem("program_sops", at=("gitops", "secrets", "by"))
        for name, secrets in (self.gitops.scope_secrets if self.gitops is not None else {}).items():
            if secrets.by != self.secrets_by.by or isinstance(secrets, ByProgram):
                at = ("gitops", "scopeSecrets", name, "by")
                refuse_if("scope_secrets__program", isinstance(self.secrets_by, ByProgram), at=at, value=secrets.by)
                raise problem("scope_secrets", at=at, value=secrets.by, way=self.secrets_by.by)

    @refusal
    def _monitoring_rules(self) -> None:
        """Refuse what the program cannot set up: a startup gate or CloudWatch elsewhere than on EKS, and a Prometheus.

        A Prometheus needs a namespace without another owner, and a class for its volume.
        """
        refuse("health", "startupGate", startup_gate=self.health and self.health.startup_gate and not self.SETS_TAINTS)
        if (monitoring := self.monitoring) is None:
            return
        refuse("monitoring", "cloudwatch", monitoring_cloudwatch=monitoring.cloudwatch and not self.HAS_CLOUDWATCH)
        if not monitoring.installs:
            return
        owned = self.gitops is not None and monitoring.namespace == self.gitops.namespace
        if owned or reserved(monitoring.namespace) or monitoring.namespace in self.team_namespaces:
            raise problem("monitoring_namespace", at=("monitoring", "namespace"), value=monitoring.namespace)
        refuse("monitoring", monitoring_class=monitoring.storage_class is None and not (self.SELLS_VOLUMES or self.DEFAULT_CLASS))

    @refusal
    def _shared_rules(self) -> None:
        """Refuse runners that ask for more than a pool with shared GPUs gives, and pools of one class that share differently."""
        for name, runner in self.pod_runners.items():
            first = self.pools[runner.ordered[0]]
            for index, pool_name in enumerate(runner.ordered):
                pool = self.pools[pool_name]
                require_one_share("several_shares", pool_name, pool, runner.gpus, at=("runners", name, "gpus"))
                require_no_shm("mps_shm", pool_name, pool, runner, at=("runners", name))
                if not pool.mounts_shm and runner.template is not None and "shm" in runner.template.mounted():
                    raise problem("mps_mount", at=("runners", name, "template"), value="shm", pool_name=pool_name)
                if pool.sharing != first.sharing:
                    raise problem("pools_sharing", at=("runners", name, *runner.pool_at(index)), first=runner.ordered[0])

    @refusal
    def _fallback_rules(self) -> None:
        """Refuse a fallback pool that no runner class names, and one that is not after a spot pool in a list."""
        for path, settings, pools in self._pool_lists():
            for place, name in enumerate(pools):
                fallback = name in self.pools and self.pools[name].role == FALLBACK
                before = (self.pools[earlier] for earlier in pools[:place] if earlier in self.pools)
                if fallback and not any(pool.capacity == SPOT for pool in before):
                    alone = getattr(settings, "pool", None) is not None
                    raise problem("fallback_first", at=(*path.split("."), *(("pool",) if alone else ("pools", str(place)))))
        for name, pool in self.pools.items():
            refuse("pools", name, "role", fallback_unused=pool.role == FALLBACK and name not in self.runner_pools)

    def _require_enablement(self, *, driver_at: Callable[[str, Any], tuple[str, ...]] = lambda *_: (), fix: str = "") -> None:
        """Refuse pools and an enablement that do not fit each other.

        `driver_at` gives the path of the setting that has the driver's version of a pool. `fix` is what to do about a wrong one.
        """
        pools = {
            name: EnabledPool(pool, NODE_IMAGES[pool.image], self.image_driver(name), driver_at(name, pool), fix)
            for name, pool in self.gpu_pools.items()
        }
        require_enablement(self.enablement, self.operator, pools)

    def _require_existing(self, existing: Existing) -> None:
        """Refuse settings that do not fit a cluster which exists already. Raises a settings problem."""
        refuse("protect", existing_protect=self.protect)
        for name in sorted({*ENABLEMENTS} & {*existing.installed} - {self.enablement}):
            raise problem("existing_enablement", at=("enablement",), value=self.enablement, name=name)
        for name, pool in self.pools.items():
            key = "sharing" if pool.sharing is not None else "cdi" if pool.cdi else ""
            if key and self.enablement in existing.installed:
                raise problem("existing_sharing", at=("pools", name, key), enablement=self.enablement, key=key)

    @refusal
    def _use_rules(self) -> None:
        """Refuse workloads, jobs, team quotas and objectives that do not fit the pools, the caches or each other."""
        rules.require_workloads(self.workloads, self.pools, tuple(self._confined()))
        rules.require_builders(self.workloads, self.runners)
        rules.require_storage(self.workloads, self.caches, default_class=self.DEFAULT_CLASS, sells_volumes=self.SELLS_VOLUMES)
        teams = self.queues.teams if self.queues is not None else {}
        rules.require_unqueued(self.workloads, {each: team for team, settings in teams.items() for each in settings.namespaces})
        require_jobs(self.jobs, self.pools, self.caches, self.queues, self.workloads)
        if self.queues is not None:
            require_queues(self.queues, self.pools)
        if self.monitoring is not None:
            require_objectives(self.monitoring.alerts, self.runners, at=("monitoring", "alerts", "objectives"))
