"""The scheduling contract as a check: it compares the nodes of the providers with the pods of the charts and lists the faults.

`python -m tests.fleet.conformance` prints the table of every stack.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from components.oci.autoscaler import addon_values
from components.oci.launchers import sweep_spec
from fleet.charts.arc import CONTROLLER, arc_controller, controller_of
from fleet.charts.argo_cd import ARGO_CD, argo_cd
from fleet.charts.chart import Chart, Pod
from fleet.charts.cluster_autoscaler import AUTOSCALER, cluster_autoscaler
from fleet.charts.dcgm_exporter import DCGM_EXPORTER
from fleet.charts.device_plugin import device_plugin, plugin_configs as plugin_configs_chart
from fleet.charts.gpu_operator import OPERATOR
from fleet.charts.kube_prometheus import STACK
from fleet.charts.kueue import KUEUE, kueue
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.pricing import range_text
from fleet.facts.scheduling import (
    CPU_TAINT,
    GPU_PRESENT_LABEL,
    GPU_RESOURCE,
    GPU_TAINT_KEY,
    OKE_NO_PLUGIN_LABEL,
    PLUGIN_CONFIG_LABEL,
    RUNNER_PRIORITY,
    SYSTEM_POOL,
    Effect,
    Taint,
    Toleration,
    is_gpu_resource,
    system_labels,
)
from fleet.loading.config import load
from fleet.providers import installed
from fleet.providers.fleet import Fleet
from fleet.providers.installed import monitoring_charts, plain_charts, pod_set, pod_set_of, runner_prices
from fleet.providers.kubernetes.cluster import DescribedPool, KubernetesCluster
from fleet.providers.oke.launcher_set import LAUNCHER
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.providers.registry import PROVIDERS
from fleet.render.queues import queue_objects
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import DEVICE_PLUGIN, GPU_OPERATOR, GPU_PLUGIN_ADDON
from fleet.settings.operator import OperatorSettings
from fleet.settings.pool import Pool
from fleet.settings.queues import Queues
from fleet.settings.runner import PodRunner
from fleet.settings.sharing import Mig, Mps, Replicated
from tests import yaml12
from tests.builders import ROOT, read_stack
from tests.charts import gpu_operator, launcher_set, runner_set

STACKS = {path.name.split(".")[1]: path for path in (*sorted(ROOT.glob("Pulumi.*.yaml")), *sorted(ROOT.glob("examples/*.yaml")))}
"""Every stack file and example by the stack's name."""

_EVERYTHING = Toleration("", effect="")


@cache
def provided() -> dict[str, Any]:
    """The labels and taints that each provider sets: the tables `providers` of fleet/facts/data/nodes.toml."""
    with (ROOT / "fleet" / "facts" / "data" / "nodes.toml").open("rb") as file:
        return dict(tomllib.load(file)["providers"])


@dataclass(frozen=True, slots=True)
class Node:
    """A node of one pool, or the autoscaler's template of a node that does not exist yet (`template`).

    `config` is the device plugin's config that its pool needs. `resource` is the name of its GPUs with that config; empty for a
    node without GPUs.
    """

    name: str
    pool: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    template: bool = False
    accelerator: str = ""
    config: str = ""
    resource: str = GPU_RESOURCE


@dataclass(frozen=True, slots=True)
class Pods:
    """Equal pods: the pools whose nodes they must run on, and how they select nodes.

    `expressions` are those of a required node affinity with one term. `elsewhere`: they may also run on other nodes.
    `resources` are the GPU resources that they request.
    """

    name: str
    pools: frozenset[str]
    tolerations: tuple[Toleration, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[Mapping[str, Any], ...] = ()
    elsewhere: bool = False
    advertises: bool = False
    resources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Contract:
    """One cluster: its nodes, its pods, and the node labels that its autoscaler and its device plugin search for."""

    cluster: str
    nodes: tuple[Node, ...]
    pods: tuple[Pods, ...]
    booting_label: str
    plugin_configs: frozenset[str] | None = None


# -- the check ---------------------------------------------------------------------------------------------------------


def faults(contract: Contract) -> list[str]:
    """Every fault: a pod that cannot run on a node that it needs, one that can run on a forbidden node, and a hidden GPU."""
    everyone = (*contract.pods, _outsider(contract))
    found = [fault for node in contract.nodes for pods in everyone for fault in _between(pods, node)]
    for node in contract.nodes:
        if node.pool == SYSTEM_POOL:
            continue
        if not node.resource:
            found += [f"{node.name}: label {key} says that it has GPUs" for key in node.labels if key in _OF_GPUS]
            continue
        found += _labels_of(contract, node)
        if not any(pods.advertises and node.pool in pods.pools for pods in contract.pods):
            found.append(f"{node.name}: nothing advertises its GPUs")
    return found


_OF_GPUS = (GPU_PRESENT_LABEL, GPU_RESOURCE, "gpu", "role", "accelerator", "node-type")
_REPELS = {GPU_TAINT_KEY, CPU_TAINT.key}
"""Keys of the taints of pools: each node of a pool has one of them."""


def _outsider(contract: Contract) -> Pods:
    """A pod of neither. The pools' own taint alone must repel it, because it may tolerate every other taint of the nodes."""
    others = {each.key for node in contract.nodes for each in node.taints} - _REPELS
    return Pods("a pod that asks for no GPU", frozenset({SYSTEM_POOL}), tuple(map(Toleration, sorted(others))))


def _between(pods: Pods, node: Node) -> Iterator[str]:
    if pods.elsewhere and node.pool not in pods.pools:
        return
    refused = [taint for taint in node.taints if not any(each.covers(taint) for each in pods.tolerations)]
    if node.pool in pods.pools:
        yield from (f"{node.name}: {pods.name} does not tolerate {taint}" for taint in refused)
        if not chooses(pods, node):
            yield f"{node.name}: {pods.name} does not choose it"
        for asked in sorted(pods.resources - {node.resource}):
            yield f"{node.name}: {pods.name} asks for {asked}, and its GPUs are called {node.resource}"
    elif not refused and chooses(pods, node):
        yield f"{node.name}: {pods.name} could land there"


def chooses(pods: Pods, node: Node) -> bool:
    """Whether selector and required affinity match a node's labels (Kubernetes' rules for In, NotIn, Exists)."""
    if any(node.labels.get(key) != value for key, value in pods.selector.items()):
        return False
    return all(_matches(expression, node.labels) for expression in pods.expressions)


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    held = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return held in expression["values"]
        case "NotIn":
            return held not in expression["values"]
        case "Exists":
            return held is not None
        case operator:
            raise KeyError(operator)


def _labels_of(contract: Contract, node: Node) -> Iterator[str]:
    """The labels of a GPU node that programs, not pods, search for."""
    wanted = contract.booting_label
    if wanted and node.resource != GPU_RESOURCE and wanted in node.labels:
        yield f"{node.name}: with {wanted} the autoscaler waits for {GPU_RESOURCE}, and forever"
    elif wanted and node.resource == GPU_RESOURCE and node.labels.get(wanted) != node.accelerator:
        yield f"{node.name}: without {wanted} the autoscaler takes a booting node for a ready one without GPU, and buys another"
    if contract.plugin_configs is not None:
        config = node.labels.get(PLUGIN_CONFIG_LABEL)
        if node.config != (config or ""):
            yield f"{node.name}: the device plugin's config is {config}, and its pool needs {node.config or 'the default'}"
        if config is not None and config not in contract.plugin_configs:
            yield f"{node.name}: the device plugin has no config {config}"


# -- nodes, as the provider creates them ---------------------------------------------------------------------------------


def taint(text: str) -> Taint:
    """A taint from "key=value:Effect"."""
    match = re.fullmatch(r"([^=]+)=([^:]*):(\w+)", text)
    assert match, text
    return Taint(match[1], match[2], Effect(match[3]))


def node_labels(cluster: str, settings: Cluster, name: str, pool: Pool) -> dict[str, str]:
    """Labels that the program gives the nodes of a pool."""
    if isinstance(pool, DescribedPool):
        return dict(pool.selector)
    profile = PROVIDERS[settings.provider].profile
    labels = pool.node_labels(cluster, name, profile, settings.flavor_of(name))
    if "plugin" in provided()[settings.provider]:
        labels[OKE_NO_PLUGIN_LABEL] = "false" if settings.enablement == GPU_PLUGIN_ADDON else "true"
    return labels


def _config(pool: Pool) -> str:
    """The label's value that a pool needs: what shares its GPUs, then how they are handed over."""
    sharing = pool.sharing
    told: list[str] = []
    if isinstance(sharing, Replicated):
        told += [f"{sharing.strategy}-{sharing.replicas}"]
        told += ["unrenamed"] if not sharing.rename else []
        told += ["several"] if sharing.allow_several else []
    return "-".join([*told, *(["cdi"] if pool.cdi else [])])


def called(pool: Pool, settings: Cluster) -> str:
    """The resource name of a pool's GPUs, from the device plugin's config or the operator's MIG strategy."""
    configs = plugin_configs_chart(settings.pools.values(), by_operator=settings.enablement == GPU_OPERATOR)
    name = pool.node_labels("c", "p", PROVIDERS[settings.provider].profile).get(PLUGIN_CONFIG_LABEL, "")
    told = yaml12.read(configs.files[name]) if configs and name else {}
    shared = told.get("sharing", {})
    # MPS wins over time-slicing (api/config/v1/sharing.go).
    if (shared.get("mps") or shared.get("timeSlicing") or {}).get("renameByDefault"):
        return "nvidia.com/gpu.shared"
    if isinstance(pool.sharing, Mig) and pool.sharing.naming == "mixed":
        return f"nvidia.com/mig-{pool.sharing.profile}"
    return GPU_RESOURCE


def our_taints(settings: Cluster, pool: Pool) -> tuple[Taint, ...]:
    """Taints that the program gives the nodes of a pool; none for GPU nodes if the provider sets its own."""
    if not pool.machines[0].gpus:
        return (CPU_TAINT,)
    described = isinstance(settings, KubernetesCluster)
    return () if described or provided()[settings.provider]["gpu-taints"] else (PROVIDERS[settings.provider].profile.gpu_taint,)


def _pool_nodes(cluster: str, settings: Cluster, name: str, pool: Pool) -> Iterator[Node]:
    facts, labels = provided()[settings.provider], node_labels(cluster, settings, name, pool)
    spot = pool.capacity == "spot"
    by_provider = tuple(map(taint, (*facts["gpu-taints"], *(facts["spot-taints"] if spot else ()))))
    if isinstance(pool, DescribedPool):
        by_provider = tuple(Taint(each.key, each.value, Effect(each.effect)) for each in pool.taints)
    theirs = dict.fromkeys(facts["labels"], "?") | dict(text.split("=") for text in (facts["spot-labels"] if spot else ()))
    resource = called(pool, settings) if pool.machines[0].gpus else ""
    place, of_pool = f"{cluster}/{name}", (pool.accelerator, _config(pool), resource)
    yield Node(place, name, theirs | labels, (*by_provider, *our_taints(settings, pool)), False, *of_pool)
    believed = facts.get("template")
    if believed is None:
        return
    described = dict.fromkeys(believed["labels"], "?") | labels
    taints = (*map(taint, believed["gpu-taints"]), *our_taints(settings, pool))
    if isinstance(pool, DescribedPool):
        taints = by_provider
    yield Node(f"{place}, not there yet", name, described, taints, True, *of_pool)


# -- pods, as the charts create them ---------------------------------------------------------------------------------------


def _tolerations(held: list[dict[str, str]]) -> tuple[Toleration, ...]:
    """Tolerations of a manifest: what it leaves out has Kubernetes' defaults."""
    return tuple(
        Toleration(one.get("key", ""), one.get("operator", "Equal"), one.get("value", ""), one.get("effect", "")) for one in held
    )


def pods_of(name: str, pools: frozenset[str], spec: Mapping[str, Any]) -> Pods:
    """Pods of a spec, which belong on the nodes of these pools."""
    asked = {
        name
        for container in spec.get("containers", [])
        for name in container.get("resources", {}).get("limits", {})
        if is_gpu_resource(name)
    }
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    expressions: tuple[Mapping[str, Any], ...] = ()
    if required is not None:
        (term,) = required["nodeSelectorTerms"]
        expressions = tuple(term["matchExpressions"])
    tolerations, selector = _tolerations(spec.get("tolerations", [])), spec.get("nodeSelector", {})
    return Pods(name, pools, tolerations, selector, expressions, resources=frozenset(asked))


def physical(stack: str, cluster: str) -> str:
    """The name of a cluster in its cloud."""
    return f"gpu-ci-{stack}-{cluster}"


def cluster_charts(fleet: Fleet, cluster: str, stack: str = "test") -> dict[str, Chart]:
    """The charts of one cluster by release name, as the program makes them."""
    settings = fleet.clusters[cluster]
    profile = PROVIDERS[settings.provider].profile
    more: dict[str, Any] = {}
    cdi = any(pool.cdi for pool in settings.pools.values())
    configs = plugin_configs_chart(settings.pools.values(), by_operator=settings.enablement == GPU_OPERATOR)
    mig = next((pool.sharing.naming for pool in settings.pools.values() if isinstance(pool.sharing, Mig)), "none")
    there, system = has_already(settings), settings.system_selector
    scraped = settings.monitoring is not None
    found = [arc_controller(system, metrics=scraped)] if "arc-controller" not in there else []
    if settings.gitops is not None and PROVIDERS[settings.provider].deployable:
        found.append(argo_cd(settings.gitops.namespace))
    if _our_autoscaler(settings):
        called = physical(stack, cluster) if settings.found is None else settings.found.identity
        ordered = bool(settings.pool_orders)
        found.append(cluster_autoscaler(called, settings.region, settings.kubernetes_version, system, by_priority=ordered))
    if settings.enablement == DEVICE_PLUGIN and DEVICE_PLUGIN not in there:
        found.append(device_plugin(profile.tolerations, configs))
    if settings.enablement == GPU_OPERATOR and settings.pools and GPU_OPERATOR not in there:
        image = NODE_IMAGES[next(iter(settings.pools.values())).image]
        operator = settings.operator or OperatorSettings()
        more = {"counters": True, "dcgm_engine": "localhost:5555" if settings.provider == "eks" else ""} if scraped else {}
        common = {
            "cdi": cdi,
            "tolerations": profile.tolerations,
            "mig_strategy": mig,
            "access": settings.pools.values(),
            "selector": system,
        }
        found.append(gpu_operator(image, operator, **common, **more))
    if settings.queues is not None:
        shared = settings.queues.fair_sharing
        found.append(kueue(settings.queues.namespaces, fair_sharing=shared, selector=system, metrics=scraped))
    found += (*plain_charts(settings), *monitoring_charts(settings, physical(stack, cluster)))
    for name, runner in settings.runners.items():
        group, url = fleet.group_of(cluster, runner), fleet.scope_of(cluster, runner).url
        if isinstance(runner, PodRunner):
            pools = [settings.pools[each] for each in runner.ordered]
            pool, selectors = pools[0], [held.node_selector(each) for each, held in zip(runner.ordered, pools, strict=True)]
            tolerations = tuple(dict.fromkeys(each for held in pools for each in held.tolerations(profile)))
            more = {"resource": pool.resource, "mounts_shm": pool.mounts_shm, "place": _place(settings, runner)}
            more |= {"runtime_class": installed.runtime_class(settings) if runner.gpus else "", "selectors": selectors}
            more["usd_per_hour"] = range_text(runner_prices(settings, runner))
            # The runner's own pod is not that of its job (test_container_jobs.py).
            made = pod_set(settings, name, runner, fleet.github) if runner.in_containers else None
            found.append(made or runner_set(name, runner, url, group, tolerations, **more))
        elif isinstance(runner, MachineRunner):
            found.append(_launchers(settings, name, runner, url, group))
    return {chart.name: chart for chart in found}


def _place(settings: Cluster, runner: PodRunner) -> dict[str, Any]:
    """What a set finds in its cluster. Only Git gives the Secret of a named scope the name of the default scope's."""
    controller, scope = controller_of(settings), settings.scope_of(runner)
    place = {"listener_node_selector": settings.system_selector, "priority_class": RUNNER_PRIORITY.name}
    place |= {"controller_namespace": controller.namespace, "controller_service_account": controller.service_account}
    return place if scope == "default" or settings.by_git else place | {"github_secret": f"github-app-{scope}"}


def _chosen(pod: Pod, settings: Cluster, system: frozenset[str]) -> frozenset[str]:
    """The pools whose nodes a plain chart's pod runs on."""
    if pod.on == "system pool":
        return system
    pools = settings.pools.items()
    chosen = (
        name
        for name, pool in pools
        if (pool.has_gpus or pod.on == "all nodes") and pod.strategy in ("", pool.sharing and pool.sharing.strategy)
    )
    return frozenset(chosen) | (system if pod.on == "all nodes" else frozenset())


def _our_autoscaler(settings: Cluster) -> bool:
    """Whether the program installs the autoscaler, which reads the node groups. Otherwise it is the provider's add-on."""
    reads_groups = bool(provided()[settings.provider].get("template", {}).get("from") == "node-group")
    return reads_groups and AUTOSCALER not in has_already(settings)


def has_already(settings: Cluster) -> frozenset[str]:
    """What an existing cluster has, as its settings say; nothing for a cluster that the program creates."""
    return frozenset() if settings.found is None else frozenset(settings.found.installed)


def _launchers(settings: Any, name: str, runner: MachineRunner, url: str, group: str) -> Chart:
    home = settings.machine_compartment or settings.compartment
    return launcher_set(name, runner, url, group, region=settings.region, compartment=home)


def sweep_pod(chart: Chart) -> dict[str, Any] | None:
    """The pod that removes machines of a set's lost launchers; None for CNCF's launcher."""
    spec = chart.values["template"]["spec"]
    ours = spec.get("serviceAccountName") == LAUNCHER
    return dict(sweep_spec(chart)["jobTemplate"]["spec"]["template"]["spec"]) if ours else None


def _advertised_already(settings: Cluster) -> Iterator[Pods]:
    """What an existing cluster has to advertise GPUs. How it chooses nodes is not known: it may run where it likes."""
    if settings.enablement in has_already(settings):
        known = (each for pool in settings.pools.values() for each in pool.tolerations(PROVIDERS[settings.provider].profile))
        own, pools = tuple(dict.fromkeys(known)), frozenset(settings.pools)
        yield Pods(f"{settings.enablement} of the cluster", pools, own, elsewhere=True, advertises=True)


def _jobs_of(fleet: Fleet, cluster: str, name: str) -> Iterator[Pods]:
    """The pods that the hooks of a set make for its jobs, if these run in containers."""
    settings = fleet.clusters[cluster]
    runner = settings.pod_runners.get(name)
    if runner is None or not runner.in_containers:
        return
    for file, template in pod_set_of(settings, name, runner, fleet.github).templates.items():
        yield pods_of(f"{file} of {name}", frozenset(runner.ordered), template["spec"])


def _pods(fleet: Fleet, cluster: str) -> Iterator[Pods]:
    settings, made = fleet.clusters[cluster], cluster_charts(fleet, cluster)
    gpu_pools, system = frozenset(settings.gpu_pools), frozenset({SYSTEM_POOL})
    if CONTROLLER in made:
        yield pods_of("ARC's controller", system, made[CONTROLLER].values)
    for chart in plain_charts(settings):
        yield pods_of(chart.name, _chosen(chart.pods[0], settings, system), chart.values)
    if ARGO_CD in made:
        yield pods_of("ArgoCD", system, made[ARGO_CD].values["global"])
    if _our_autoscaler(settings):
        yield pods_of("autoscaler", system, made[AUTOSCALER].values)
    elif "template" in provided()[settings.provider] and settings.found is None:
        yield pods_of("autoscaler", system, _addon_spec(settings))
    for name, runner in settings.runners.items():
        values = made[name].values
        pools = frozenset(runner.waiting_pools) or system if isinstance(runner, PodRunner) else system
        what = "runner" if isinstance(runner, PodRunner) else "launcher"
        yield from _jobs_of(fleet, cluster, name)
        yield pods_of(f"{what} {name}", pools, values["template"]["spec"])
        yield pods_of(f"listener of {name}", system, values["listenerTemplate"]["spec"])
        if isinstance(runner, MachineRunner) and (sweep := sweep_pod(made[name])):
            yield pods_of(f"sweep of {name}", system, sweep)
    yield from _advertised_already(settings)
    if "nvidia-device-plugin" in made:
        mps = frozenset(name for name, pool in settings.pools.items() if isinstance(pool.sharing, Mps))
        yield from _device_plugin(made["nvidia-device-plugin"].values, gpu_pools, mps)
    if OPERATOR in made:
        yield from _operator(made[OPERATOR].values, gpu_pools)
    if "plugin" in provided()[settings.provider]:
        yield _provider_plugin(settings, gpu_pools)
    yield from _monitoring(made, gpu_pools, frozenset(settings.pools) | system, system)
    if settings.queues is not None:
        yield pods_of("Kueue", system, made[KUEUE].values["controllerManager"])
        for flavor in queue_objects(cluster, settings, settings.queues).flavors:
            yield _queued(flavor, settings.queues)


def _monitoring(
    made: Mapping[str, Chart], gpu_pools: frozenset[str], everywhere: frozenset[str], system: frozenset[str]
) -> Iterator[Pods]:
    """The DCGM exporter on GPU nodes, Prometheus and its parts on the system pool, and node-exporter on every node."""
    if DCGM_EXPORTER in made:
        yield pods_of("DCGM exporter", gpu_pools, made[DCGM_EXPORTER].values)
    if STACK not in made:
        return
    values = made[STACK].values
    yield pods_of("Prometheus", system, values["prometheus"]["prometheusSpec"])
    yield pods_of("Alertmanager", system, values["alertmanager"]["alertmanagerSpec"])
    yield pods_of("Prometheus's operator", system, values["prometheusOperator"])
    yield pods_of("kube-state-metrics", system, values["kube-state-metrics"])
    yield pods_of("node-exporter", everywhere, values["prometheus-node-exporter"])


def _queued(flavor: Mapping[str, Any], queues: Queues) -> Pods:
    """A Job of which nothing is known but its flavor: Kueue adds the flavor's labels to its selector, and the tolerations."""
    spec, name = flavor["spec"], flavor["metadata"]["name"]
    return Pods(f"queued Jobs of {name}", frozenset(queues.pools_of(name)), _tolerations(spec["tolerations"]), spec["nodeLabels"])


def _addon_spec(settings: Any) -> dict[str, Any]:
    """The program's settings for the pods of the provider's autoscaler."""
    return {
        "nodeSelector": json.loads(
            addon_values(settings.idle_delay, settings.system_selector, by_priority=False)["nodeSelectors"]
        )
    }


def _device_plugin(values: Mapping[str, Any], pools: frozenset[str], mps: frozenset[str]) -> Iterator[Pods]:
    (term,) = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    tolerations = _tolerations(values["tolerations"])
    expressions = tuple(term["matchExpressions"])
    yield Pods("device plugin", pools, tolerations, {}, expressions, advertises=True)
    # The chart's own selector (templates/daemonset-mps-control-daemon.yml), beside the affinity that we give both.
    if mps:
        yield Pods("MPS control daemon", mps, tolerations, {"nvidia.com/mps.capable": "true"}, expressions)


def _operator(values: Mapping[str, Any], pools: frozenset[str]) -> Iterator[Pods]:
    """Feature discovery labels any node; the operator starts its operands where that found a GPU."""
    discovery, system = values["node-feature-discovery"], frozenset({SYSTEM_POOL})
    yield pods_of("GPU operator", system, values["operator"])
    for part in ("master", "gc"):
        yield pods_of(f"feature discovery's {part}", system, discovery[part])
    worker = _tolerations(discovery["worker"]["tolerations"])
    yield Pods("feature discovery", pools | system, worker)
    operands = _tolerations(values["daemonsets"]["tolerations"])
    yield Pods("operator's operands", pools, operands, {}, elsewhere=True, advertises=values["devicePlugin"]["enabled"])


def addon_tolerations(settings: Cluster) -> list[dict[str, str]] | None:
    """The tolerations that the program sets for the provider's own plugin; None keeps the provider's."""
    if not any(pool.capacity == "spot" for pool in settings.pools.values()):
        return None
    return [toleration.manifest() for toleration in PROVIDERS[settings.provider].profile.tolerations]


def _provider_plugin(settings: Cluster, pools: frozenset[str]) -> Pods:
    """The provider's own plugin. Where it must stay away, it is taken to tolerate everything: its manifest is not known."""
    facts = provided()[settings.provider]["plugin"]
    key, _, value = facts["off-label"].partition("=")
    off = ({"key": key, "operator": "NotIn", "values": [value]},)
    if settings.enablement != GPU_PLUGIN_ADDON:
        # It looks for GPUs, so nodes without are not its concern.
        return Pods("provider's own plugin", frozenset({SYSTEM_POOL}), (_EVERYTHING,), {}, off)
    told = addon_tolerations(settings)
    tolerations = _tolerations(told) if told is not None else tuple(map(Toleration, facts["tolerates"]))
    return Pods("provider's own plugin", pools, tolerations, {}, off, elsewhere=True, advertises=True)


# -- contracts -----------------------------------------------------------------------------------------------------------


def contract(fleet: Fleet, cluster: str) -> Contract:
    """One cluster of a fleet as nodes and pods."""
    settings = fleet.clusters[cluster]
    system = Node(
        f"{cluster}/{SYSTEM_POOL}",
        SYSTEM_POOL,
        system_labels(cluster) if settings.found is None else settings.system_selector,
        (),
    )
    nodes = [node for name, pool in settings.pools.items() for node in _pool_nodes(cluster, settings, name, pool)]
    configs = None
    told = plugin_configs_chart(settings.pools.values(), by_operator=settings.enablement == GPU_OPERATOR)
    if settings.enablement == DEVICE_PLUGIN or told:
        configs = frozenset(told.files if told else ())
    booting = provided()[settings.provider].get("template", {}).get("booting-label", "")
    return Contract(cluster, (system, *nodes), tuple(_pods(fleet, cluster)), booting, configs)


def stack_contracts() -> dict[str, Contract]:
    """Every cluster of every stack file and example, by "stack/cluster"."""
    fleets = {name: load(read_stack(path)) for name, path in STACKS.items()}
    return {f"{name}/{cluster}": contract(fleet, cluster) for name, fleet in fleets.items() for cluster in fleet.clusters}


# -- the table -----------------------------------------------------------------------------------------------------------


def table(contracts: Mapping[str, Contract]) -> str:
    """Each GPU pool in Markdown: taints of its nodes and of their template, who tolerates them, which labels are chosen by."""
    lines = [
        "| pool | taints of a node | taints the autoscaler believes in | tolerated by | chosen by | faults |",
        "|---|---|---|---|---|---|",
    ]
    for name, held in contracts.items():
        for real in (node for node in held.nodes if node.pool != SYSTEM_POOL and not node.template):
            believed = [node for node in held.nodes if node.pool == real.pool and node.template]
            served = [pods for pods in held.pods if real.pool in pods.pools]
            wrong = [fault for fault in faults(held) if fault.startswith(tuple(f"{node.name}:" for node in (real, *believed)))]
            cells = (
                f"{name}/{real.pool}",
                _code(real.taints),
                "; ".join(_code(node.taints) for node in believed) or "no autoscaler",
                "; ".join(f"{pods.name} ({', '.join(map(_written, pods.tolerations))})" for pods in served),
                "; ".join(filter(None, (_choice(pods) for pods in served))),
                "; ".join(wrong) or "none",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _code(taints: tuple[Taint, ...]) -> str:
    return ", ".join(f"`{each}`" for each in taints)


def _written(toleration: Toleration) -> str:
    return f"`{toleration.key} {toleration.operator}`" if toleration.key else "everything"


def _choice(pods: Pods) -> str:
    chosen = [f"{key}={value}" for key, value in pods.selector.items()]
    chosen += [f"{each['key']} {each['operator']} {'/'.join(each.get('values', []))}".strip() for each in pods.expressions]
    return f"{pods.name}: {', '.join(f'`{each}`' for each in chosen)}" if chosen else ""


if __name__ == "__main__":
    sys.stdout.write(f"{table(stack_contracts())}\n")
