"""The charts of a cluster, and the settings that a pod needs to run in a pool.

Launcher capacity and placement count the pods of these charts, GitOps writes them to Git, and the components install them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from fleet.charts.arc import arc_controller, installs_controller, runner_pod
from fleet.charts.argo_cd import argo_cd
from fleet.charts.chart import Chart, Pod
from fleet.charts.cloudwatch import CLOUDWATCH_PODS
from fleet.charts.dcgm_exporter import DCGM_EXPORTER, ENGINE_PORT, dcgm_exporter
from fleet.charts.enablement import Access, DevicePlugin
from fleet.charts.every import PLAIN
from fleet.charts.gpu_operator import GpuOperatorSettings, runtime_class as operator_runtime_class
from fleet.charts.kube_prometheus import kube_prometheus
from fleet.charts.kueue import kueue
from fleet.charts.runner_sets import PodSet, of_cluster
from fleet.facts.hardware import Machine
from fleet.facts.manifest import filled, service_account
from fleet.facts.node_image import NODE_IMAGES, NodeImage
from fleet.facts.pricing import Money, range_text
from fleet.facts.record import Record
from fleet.facts.requests import requests_of
from fleet.facts.scheduling import RUNTIME_CLASS, STARTUP_GATE, Toleration
from fleet.providers.phases import prepare_timeout
from fleet.providers.registry import PROVIDERS, provider_of
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import DEVICE_PLUGIN, GPU_OPERATOR
from fleet.settings.github import GitHub
from fleet.settings.namespaces import runner_namespace
from fleet.settings.operator import OperatorSettings
from fleet.settings.pool import Pool
from fleet.settings.queues import Queues
from fleet.settings.runner import PodRunner, RunnerPod
from fleet.settings.sharing import Mig, config_name


def installed(cluster: Cluster, physical_name: str, github: GitHub) -> tuple[Chart, ...]:
    """Every chart of a cluster. `physical_name` is its name in its cloud, `github` the scope of its runners."""
    return (
        *shared_charts(cluster),
        *monitoring_charts(cluster, physical_name),
        *PROVIDERS[cluster.provider].charts(cluster, physical_name, github),
        *(pod_set(cluster, name, runner, github) for name, runner in cluster.pod_runners.items()),
    )


def monitoring_charts(cluster: Cluster, physical_name: str) -> Iterator[Chart]:
    """Prometheus, if the program installs it, and the DCGM exporter, unless the cluster or the GPU operator has one."""
    if (monitoring := cluster.monitoring) is None:
        return
    if monitoring.installs:
        name = physical_name if cluster.found is None else cluster.found.identity
        yield kube_prometheus(cluster, monitoring, name, receives=provider_of(cluster).gateway(cluster) is not None)
    image = image_of(cluster)
    if image is not None and cluster.enablement != GPU_OPERATOR and DCGM_EXPORTER not in cluster.provided:
        runtime_class = RUNTIME_CLASS if image.handler else ""
        yield dcgm_exporter(tolerations_of(cluster), engine_on_nodes=cluster.engine_on_nodes, runtime_class=runtime_class)


def monitoring_pods(cluster: Cluster) -> tuple[Pod, ...]:
    """The pods of those charts, and those that no chart has."""
    # No pod depends on the cluster's physical name.
    pods = tuple(pod for chart in monitoring_charts(cluster, "") for pod in chart.pods)
    return (*pods, *added_pods(cluster))


def added_pods(cluster: Cluster) -> tuple[Pod, ...]:
    """The pods of monitoring that no chart has: those of CloudWatch's add-on, and the gateway of machines."""
    of_addon = CLOUDWATCH_PODS if cluster.monitoring is not None and cluster.monitoring.cloudwatch else ()
    return of_addon if (receiver := provider_of(cluster).gateway(cluster)) is None else (*of_addon, receiver.pod)


def shared_charts(cluster: Cluster) -> Iterator[Chart]:
    """The charts that clusters of every provider can have, except runner sets."""
    if (controller := controller_chart(cluster)) is not None:
        yield controller
    if (enablement := enablement_of(cluster)) is not None:
        yield enablement.chart
    if cluster.queues is not None:
        yield kueue_chart(cluster, cluster.queues)
    if cluster.gitops is not None and PROVIDERS[cluster.provider].deployable:
        yield argo_cd(cluster.gitops.namespace)
    yield from plain_charts(cluster)


def controller_chart(cluster: Cluster) -> Chart | None:
    """The controller of runner sets; None if an existing cluster has it or needs none."""
    metrics = cluster.monitoring is not None
    return arc_controller(cluster.system_selector, metrics=metrics) if installs_controller(cluster) else None


def enablement_of(cluster: Cluster) -> DevicePlugin | GpuOperatorSettings | None:
    """What the chart that makes GPUs schedulable is made of, for all pools of a cluster.

    None if something else makes them so, and for an operator without pools.
    """
    if cluster.found is not None and cluster.enablement in cluster.found.installed:
        return None
    tolerations, image, pools = tolerations_of(cluster), image_of(cluster), cluster.gpu_pools.values()
    git = cluster.gitops.model_copy(update={"secrets": None}) if cluster.gitops is not None else None
    kinds = {name: pool for pool in pools if (name := config_name(pool))}
    access = tuple(Access.model_construct(**filled(pool.set_fields(Access))) for pool in kinds.values())
    if cluster.enablement == DEVICE_PLUGIN:
        handler = image.handler if image is not None else None
        return DevicePlugin.model_construct(tolerations=tolerations, access=access, runtime_handler=handler, gitops=git)
    if cluster.enablement != GPU_OPERATOR or image is None:
        return None
    operator, monitored = cluster.operator or OperatorSettings(), cluster.monitoring is not None
    return GpuOperatorSettings.model_construct(
        # With monitoring the program scrapes the exporter by its own monitor.
        **operator.set_fields(OperatorSettings) | ({"service_monitor": False} if monitored else {}),
        tolerations=tolerations,
        access=access,
        gitops=git,
        # With the operator all pools have equivalent images and one setting of CDI.
        install_driver=not image.driver,
        install_toolkit=not image.toolkit,
        device_plugin=not image.advertises,
        driver_root=image.driver_root,
        cdi=any(pool.cdi for pool in pools),
        # All pools with MIG name their slices in the same way.
        mig_strategy=next((pool.sharing.naming for pool in pools if isinstance(pool.sharing, Mig)), "none"),
        controller_node_selector=dict(cluster.system_selector),
        counters=monitored,
        # Empty if the operator's exporter starts an engine of its own.
        dcgm_engine=f"localhost:{ENGINE_PORT}" if monitored and cluster.engine_on_nodes else "",
    )


def tolerations_of(cluster: Cluster) -> tuple[Toleration, ...]:
    """The tolerations of pods on all nodes with GPUs, each once: those of the provider's taints and of the pools' taints."""
    profile = PROVIDERS[cluster.provider].profile
    # Without it the GPUs of a new node are never registered, and its startup gate never opens.
    gate = (Toleration(STARTUP_GATE.key),) if cluster.health is not None and cluster.health.startup_gate else ()
    of_pools = (toleration for pool in cluster.gpu_pools.values() for toleration in pool.tolerations(profile))
    return tuple(dict.fromkeys((*profile.tolerations, *of_pools, *gate)))


def image_of(cluster: Cluster) -> NodeImage | None:
    """The node image of the first pool with GPUs; None without one. With the operator all pools have equivalent images."""
    return next((NODE_IMAGES[pool.image] for pool in cluster.gpu_pools.values()), None)


def kueue_chart(cluster: Cluster, queues: Queues) -> Chart:
    """Kueue for the queues of a cluster."""
    selector, metrics = cluster.system_selector, cluster.monitoring is not None
    return kueue(queues.namespaces, fair_sharing=queues.fair_sharing, selector=selector, metrics=metrics)


def plain_charts(cluster: Cluster) -> Iterator[Chart]:
    """Charts of every cluster, except those that an add-on of the provider replaces."""
    yield from (chart for make in PLAIN if (chart := make(cluster)).name not in cluster.provided)


def pod_set(cluster: Cluster, name: str, runner: PodRunner, github: GitHub, per_node: int = 1) -> Chart:
    """The scale set of a runner class whose runners are pods of pools. A node holds `per_node` that wait."""
    return pod_set_of(cluster, name, runner, github, per_node).chart


def pod_set_of(cluster: Cluster, name: str, runner: PodRunner, github: GitHub, per_node: int = 1) -> PodSet:
    """What that chart is made of."""
    target = pool_target(cluster, *runner.ordered)
    several = len(target.selectors) > 1
    account = runner.service_account if not runner.in_containers else None
    return PodSet.model_construct(
        **cluster.with_image(runner).set_fields(RunnerPod) | of_cluster(cluster, name, runner, github),
        gpu_resource=target.resource,
        mounts_shm=target.mounts_shm,
        node_selector={} if several else target.selector,
        node_selectors=tuple(target.selectors) if several else (),
        tolerations=tuple(target.tolerations),
        runtime_class=target.runtime_class,
        usd_per_hour=range_text(runner_prices(cluster, runner)),
        per_node=per_node,
        open_networks=(*sorted(cluster.private_egress), *runner.opens),
        builders=cluster.builders_of(name),
        manifests=(service_account(account, runner_namespace(name)),) if account is not None else (),
        declare_min_runners=runner.schedules is None,
        **(_own_pods(cluster, runner) if runner.in_containers else {}),
    )


def _own_pods(cluster: Cluster, runner: PodRunner) -> dict[str, Any]:
    """Where the runners' own pods run, and how long they wait for those of their jobs."""
    own = pool_target(cluster, runner.runner_pool) if runner.runner_pool is not None else None
    return {
        "runner_node_selector": dict(cluster.system_selector) if own is None else own.selector,
        "runner_tolerations": () if own is None else tuple(own.tolerations),
        "prepare_timeout": prepare_timeout(cluster, runner),
        "job_deadline": runner.max_lifetime,
    }


def runner_prices(cluster: Cluster, runner: PodRunner) -> Iterator[Money]:
    """USD per hour of a runner's part of a node, by what it requests: for each type of each of its pools."""
    for pool in (cluster.pools[name] for name in runner.ordered):
        for machine in pool.machines:
            part = runner.gpus / pool.units(machine) if runner.gpus else cpu_part(runner, machine)
            yield pool.price(machine.name, cluster.region).times(part)


def cpu_part(runner: RunnerPod, machine: Machine) -> float:
    """The part of a node's CPUs that a runner's pod requests, with its sidecars: what a runner without GPUs pays of the node."""
    return float(requests_of(runner_pod(runner))["cpu"] / machine.vcpus)


def gpu_node_pods(cluster: Cluster) -> tuple[Pod, ...]:
    """The charts' pods on each GPU node. A pod with a strategy runs only on nodes that share GPUs that way."""
    pods = (*(pod for chart in shared_charts(cluster) for pod in chart.pods), *monitoring_pods(cluster))
    return tuple(pod for pod in pods if pod.on != "system pool")


class Target(Record):
    """The node labels, tolerations and resource of pods of one pool, or of several in order.

    `selectors` has the node selector of each pool, the first choice first. The nodes advertise `resource`. `runtime_class` is
    empty if a pod needs none. `mounts_shm`: whether a pod may mount its own /dev/shm.
    """

    selectors: Sequence[dict[str, str]]
    tolerations: Sequence[Toleration]
    runtime_class: str
    resource: str
    mounts_shm: bool

    @property
    def selector(self) -> dict[str, str]:
        """The node selector of pods that have one pool."""
        (selector,) = self.selectors
        return selector


def pool_target(cluster: Cluster, *names: str) -> Target:
    """The target for pods of these pools, the first choice first. The settings refuse pools that share GPUs differently."""
    pools: list[Pool] = [cluster.pools[name] for name in names]
    profile = PROVIDERS[cluster.provider].profile
    return Target(
        [pool.node_selector(name) for name, pool in zip(names, pools, strict=True)],
        tuple(dict.fromkeys(toleration for pool in pools for toleration in pool.tolerations(profile))),
        runtime_class(cluster) if pools[0].has_gpus else "",
        pools[0].resource,
        pools[0].mounts_shm,
    )


def runtime_class(cluster: Cluster) -> str:
    """The RuntimeClass that GPU pods of a cluster need, or an empty string."""
    first = next(iter(cluster.gpu_pools.values()), None)
    if cluster.enablement != GPU_OPERATOR or first is None:
        return ""
    cdi = any(pool.cdi for pool in cluster.pools.values())
    return operator_runtime_class(NODE_IMAGES[first.image], cluster.operator or OperatorSettings(), cdi=cdi)
