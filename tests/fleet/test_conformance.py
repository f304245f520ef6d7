"""The scheduling contract over EKS, OKE and Talos: every pool of every stack takes its own pods and no others.

Each mutation takes away one toleration, taint, label or selector: the check must notice it.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fleet.charts.argo_cd import ARGO_CD
from fleet.charts.chart import Chart, mirrored
from fleet.charts.cluster_autoscaler import AUTOSCALER
from fleet.charts.sweeps import NAMESPACE as SWEEPS
from fleet.facts.scheduling import (
    CPU_TAINT,
    EKS_EFFECT,
    GPU_PRESENT_LABEL,
    GPU_RESOURCE,
    GPU_TAINT_KEY,
    MPS_LABEL,
    OKE_NO_PLUGIN_LABEL,
    PLUGIN_CONFIG_LABEL,
    POOL_LABEL,
    SYSTEM_POOL,
    TEMPLATE,
    Toleration,
    system_labels,
    term,
)
from fleet.loading.config import load
from fleet.providers.eks.cluster import EksPools
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import DEVICE_PLUGIN, GPU_OPERATOR, GPU_PLUGIN_ADDON
from fleet.settings.runner import PodRunner
from fleet.settings.workloads import CoralWorkload
from gpu_ci.offline.recording import Recording, Resource, joined
from tests import plans
from tests.builders import (
    ROOT,
    cluster,
    config,
    host,
    oke_cluster,
    oke_pool,
    oke_runner,
    place,
    pool,
    read_stack,
    runner,
    talos_cluster,
    talos_pool,
    vm,
    vm_per_job,
)
from tests.cases import cases
from tests.components.recorded import APPLICATION, RELEASE, runner_sets, stack_config
from tests.fleet.conformance import (
    STACKS,
    Contract,
    Node,
    Pods,
    addon_tolerations,
    called,
    cluster_charts,
    contract,
    faults,
    node_labels,
    our_taints,
    pods_of,
    provided,
    stack_contracts,
    sweep_pod,
    table,
    taint,
)
from tests.fleet.queue_configs import OKE_POOLS, POOLS, of


def _eks(enablement: str, **pools: dict[str, Any]) -> Contract:
    sets = {f"gpu-{name}": runner(pool=name) for name in pools}
    fleet = load(config(clusters={"usw2": cluster(enablement=enablement, pools=pools, runners=sets)}))
    return contract(fleet, "usw2")


def _oke(enablement: str) -> Contract:
    """V100 on demand and preemptible; the operator installs the driver where it is asked to advertise."""
    shape = {"instanceTypes": ["VM.GPU3.1"]} | ({"image": "ubuntu"} if enablement == GPU_OPERATOR else {})
    pools = {"v100": oke_pool(**shape), "v100-spot": oke_pool(**shape, capacity="spot")}
    sets = {f"gpu-{name}": oke_runner(pool=name) for name in pools} | {"fixed": vm(), "boots": vm_per_job()}
    operator = {"operator": {"driver": {"version": "580.173.02"}}} if enablement == GPU_OPERATOR else {}
    fleet = load(config(clusters={"sjc": oke_cluster(enablement=enablement, pools=pools, runners=sets, **operator)}))
    return contract(fleet, "sjc")


def _talos(enablement: str, **pools: dict[str, Any]) -> Contract:
    """Pools of a machine each, and no way to rent another."""
    held = {name: each | {"nodes": {"hosts": {name: host(20 + at)}}} for at, (name, each) in enumerate(pools.items())}
    sets = {f"gpu-{name}": runner(pool=name) for name in pools}
    fleet = load(config(clusters={"home": talos_cluster(enablement=enablement, pools=held, runners=sets)}))
    return contract(fleet, "home")


def _queued(pools: dict[str, dict[str, Any]]) -> Contract:
    """One team with a unit of each pool, and no runners."""
    quotas = [{"pool": name, "nominal": 1} for name in pools]
    return contract(of({"teams": {"research": {"namespaces": ["research"], "quotas": quotas}}}, pools), "usw2")


SPOT = pool(capacity="spot")
SLICED = {"strategy": "time-slicing", "replicas": 4}
SIDE_BY_SIDE = {"strategy": "mps", "replicas": 8}
CONTRACTS = stack_contracts() | {
    "eks device-plugin": _eks(DEVICE_PLUGIN, t4=pool(), t4s=SPOT, cdi=pool(cdi=True)),
    "eks device-plugin, shared": _eks(
        DEVICE_PLUGIN,
        t4=pool(),
        sliced=pool(sharing=SLICED),
        unrenamed=pool(sharing=SLICED | {"rename": False, "allowSeveral": True}, cdi=True),
        mps=pool(sharing=SIDE_BY_SIDE),
    ),
    "eks gpu-operator, shared": _eks(
        GPU_OPERATOR,
        t4=pool(),
        sliced=pool(sharing=SLICED),
        mig=pool(instanceTypes=["p4d.24xlarge"], sharing={"strategy": "mig", "profile": "1g.5gb"}),
    ),
    "eks gpu-operator": _eks(GPU_OPERATOR, t4=pool(), t4s=SPOT),
    "oke gpu-plugin-addon": _oke(GPU_PLUGIN_ADDON),
    "oke device-plugin": _oke(DEVICE_PLUGIN),
    "oke gpu-operator": _oke(GPU_OPERATOR),
    "talos device-plugin": _talos(DEVICE_PLUGIN, gpu=talos_pool(), cdi=talos_pool(cdi=True)),
    "talos device-plugin, shared": _talos(
        DEVICE_PLUGIN,
        gpu=talos_pool(),
        sliced=talos_pool(sharing=SLICED),
        unrenamed=talos_pool(sharing=SLICED | {"rename": False, "allowSeveral": True}, cdi=True),
        mps=talos_pool(sharing=SIDE_BY_SIDE),
    ),
    "talos gpu-operator": _talos(GPU_OPERATOR, gpu=talos_pool(), more=talos_pool(instanceTypes=["single"])),
    "talos gpu-operator, shared": _talos(
        GPU_OPERATOR, gpu=talos_pool(), sliced=talos_pool(sharing=SLICED), mps=talos_pool(sharing=SIDE_BY_SIDE)
    ),
    "eks with queues": _queued(POOLS),
    "oke with queues": _queued(OKE_POOLS),
}


def test_every_stack_file_and_example_is_held() -> None:
    assert {"staging", "prod", "homelab", "right-size", "oci-machines", "gitops", "reserved"} <= set(STACKS)
    pools = {node.name for held in CONTRACTS.values() for node in held.nodes if node.pool != SYSTEM_POOL}
    assert {"use1/a100-reserved", "sjc/a10", "iad/v100-spot", "usw2/t4-spot", "home/gpu"} <= pools


@cases("name", CONTRACTS)
def test_every_pool_takes_its_own_pods_and_no_others(name: str) -> None:
    assert faults(CONTRACTS[name]) == []


def test_what_is_held_has_the_autoscaler_of_rented_nodes_the_launchers_and_their_sweeps() -> None:
    for name, held in CONTRACTS.items():
        controllers = {pods.name for pods in held.pods} & {"autoscaler", "ARC's controller"}
        # The examples of existing clusters have an autoscaler of their own, or own machines.
        without = held.cluster == "home" or name.startswith("existing-")
        assert controllers == {"ARC's controller"} | (set() if without else {"autoscaler"}), name
    assert {"launcher fixed", "sweep of fixed", "launcher boots", "sweep of boots"} <= {
        pods.name for pods in CONTRACTS["oke device-plugin"].pods
    }


def test_argo_cd_is_held_where_the_program_installs_it() -> None:
    with_it = {name for name, held in CONTRACTS.items() if "ArgoCD" in {pods.name for pods in held.pods}}
    assert with_it == {"gitops/use1", "gitops/sjc"}, "an owner of machines has an ArgoCD of his own"


def test_a_queued_job_of_which_nothing_is_known_lands_on_the_pool_of_its_flavor() -> None:
    """What Kueue adds is enough, on the nodes that exist and on those that the autoscaler only imagines."""
    for name, pools in (("eks with queues", POOLS), ("oke with queues", OKE_POOLS)):
        assert {f"queued Jobs of {pool_name}" for pool_name in pools} | {"Kueue"} <= {pods.name for pods in CONTRACTS[name].pods}


def test_cncfs_launchers_make_machines_in_the_machines_compartment_and_have_no_sweep_of_ours() -> None:
    theirs = vm_per_job(launcher="cncf", places=[place() | {"subnet": "ocid1.subnet.oc1.sjc.examplepublic"}])
    theirs.pop("image")
    apart = oke_cluster(machineCompartment="ocid1.compartment.oc1..examplemachines", runners={"theirs": theirs})
    fleet = load(config(clusters={"sjc": apart}))
    chart = cluster_charts(fleet, "sjc")["theirs"]
    assert "--compartment-id=ocid1.compartment.oc1..examplemachines" in chart.values["template"]["spec"]["containers"][0]["args"]
    assert sweep_pod(chart) is None
    assert faults(contract(fleet, "sjc")) == []


# -- mutations ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mutation:
    """A contract with one thing taken away. `matters` says whether the contract depends on it."""

    what: str
    matters: bool
    contract: Contract


def _mutations(held: Contract) -> Iterator[Mutation]:
    for at, node in enumerate(held.nodes):
        for changed, what, matters in (*_without_taints(node), *_without_labels(held, node)):
            nodes = (*held.nodes[:at], changed, *held.nodes[at + 1 :])
            yield Mutation(f"{node.name} without {what}", matters, replace(held, nodes=nodes))
    for at, pods in enumerate(held.pods):
        for other, what, matters in (*_without_tolerations(held, pods), *_without_choice(pods)):
            yield Mutation(
                f"{pods.name} without {what}", matters, replace(held, pods=(*held.pods[:at], other, *held.pods[at + 1 :]))
            )


def _without_taints(node: Node) -> Iterator[tuple[Node, str, bool]]:
    for gone in node.taints:
        left = tuple(each for each in node.taints if each != gone)
        # The taint of preemptible nodes keeps no pod off that the GPU taint admits: our pods choose their pool.
        yield replace(node, taints=left), f"taint {gone}", gone.key in (GPU_TAINT_KEY, CPU_TAINT.key)


def _without_labels(held: Contract, node: Node) -> Iterator[tuple[Node, str, bool]]:
    for gone in node.labels:
        left = {key: value for key, value in node.labels.items() if key != gone}
        yield replace(node, labels=left), f"label {gone}", gone in _needed_labels(held, node)


def _needed_labels(held: Contract, node: Node) -> set[str]:
    """Labels that somebody looks for; the others are for people, and for the manifests of the source guides."""
    if node.pool == SYSTEM_POOL:
        return {key for pods in held.pods if SYSTEM_POOL in pods.pools and not pods.elsewhere for key in pods.selector}
    needed = {held.booting_label} if node.resource == GPU_RESOURCE else set()
    # A pool of queues alone has no pods of our own.
    needed |= {POOL_LABEL} if any(POOL_LABEL in pods.selector and node.pool in pods.pools for pods in held.pods) else set()
    # The labels of nodes that exist already are those of the settings.
    runners = [
        pods for pods in held.pods if node.pool in pods.pools and pods.name.startswith(("runner ", "job.json ", "step.json "))
    ]
    needed |= {key for pods in runners for key in (*pods.selector, *(each["key"] for each in pods.expressions))}
    # Kueue adds all labels of a flavor to the selector of a Job.
    needed |= {key for pods in held.pods if node.pool in pods.pools and pods.name.startswith("queued") for key in pods.selector}
    plugin = {pods.name: pods for pods in held.pods}.get("provider's own plugin")
    if plugin is not None and not plugin.advertises:
        needed.add(OKE_NO_PLUGIN_LABEL)
    if held.plugin_configs is not None:
        needed |= {PLUGIN_CONFIG_LABEL} if node.config else set()
    if any(pods.name in ("device plugin", "DCGM exporter") for pods in held.pods):
        needed.add(GPU_PRESENT_LABEL)
    if any(pods.name == "MPS control daemon" and node.pool in pods.pools for pods in held.pods):
        needed.add(MPS_LABEL)
    return needed


def _without_tolerations(held: Contract, pods: Pods) -> Iterator[tuple[Pods, str, bool]]:
    met = {each.key for node in held.nodes if node.pool in pods.pools for each in node.taints}
    for gone in pods.tolerations:
        left = tuple(each for each in pods.tolerations if each != gone)
        # A cluster without preemptible nodes meets their taint nowhere; CriticalAddonsOnly is the chart's own habit.
        matters = gone.key in met if gone.key else bool(met)
        yield replace(pods, tolerations=left), f"toleration of {gone.key or 'everything'}", matters


def _without_choice(pods: Pods) -> Iterator[tuple[Pods, str, bool]]:
    for key in pods.selector:
        selector = {other: value for other, value in pods.selector.items() if other != key}
        # A pod that tolerates no taint lands on the system pool anyway: no other is untainted.
        # Of the labels that a queued Job is given others distinguish the pools, too.
        yield replace(pods, selector=selector), f"selector {key}", bool(pods.tolerations) and not selector
    for gone in pods.expressions:
        left = tuple(each for each in pods.expressions if each != gone)
        # OKE's plugin may run where it likes as long as it is the one that advertises.
        yield replace(pods, expressions=left), f"affinity to {gone['key']}", not (pods.elsewhere or pods.selector)


MUTATIONS = [(name, mutation) for name, held in CONTRACTS.items() for mutation in _mutations(held)]


def test_what_the_contract_rests_on_is_missed_when_it_is_gone() -> None:
    needed = [(name, mutation) for name, mutation in MUTATIONS if mutation.matters]
    assert [f"{name}: {mutation.what}" for name, mutation in needed if not faults(mutation.contract)] == []


@cases("name", CONTRACTS)
def test_what_nothing_rests_on_may_go(name: str) -> None:
    """So that the check asks for no more than Kubernetes and the autoscalers do."""
    spare = [mutation for of, mutation in MUTATIONS if of == name and not mutation.matters]
    assert spare, "labels for people, at least"
    assert [mutation.what for mutation in spare if faults(mutation.contract)] == []


def test_mutations_reach_every_kind_of_thing_of_every_provider() -> None:
    whats = {
        (name.partition(" ")[0], mutation.what.partition(" without ")[2]) for name, mutation in MUTATIONS if mutation.matters
    }
    assert whats >= {
        ("eks", "taint nvidia.com/gpu=true:NoSchedule"),
        ("eks", "label gpu-ci/pool"),
        ("eks", "label nvidia.com/gpu.present"),
        ("eks", "label nvidia.com/device-plugin.config"),
        ("eks", "label k8s.amazonaws.com/accelerator"),
        ("eks", "label nvidia.com/mps.capable"),
        ("eks", "selector nvidia.com/mps.capable"),
        ("eks", "toleration of nvidia.com/gpu"),
        ("eks", "selector gpu-ci/pool"),
        ("eks", "affinity to nvidia.com/gpu.present"),
        ("oke", "taint nvidia.com/gpu=present:NoSchedule"),
        ("oke", "taint nvidia.com/gpu=:NoSchedule"),
        ("oke", "label gpu-ci/pool"),
        ("oke", "label oci.oraclecloud.com/disable-gpu-device-plugin"),
        ("oke", "toleration of nvidia.com/gpu"),
        ("oke", "toleration of oci.oraclecloud.com/oke-is-preemptible"),
        ("oke", "selector gpu-ci/pool"),
        ("talos", "taint nvidia.com/gpu=true:NoSchedule"),
        ("talos", "label gpu-ci/pool"),
        ("talos", "label nvidia.com/gpu.present"),
        ("talos", "label nvidia.com/device-plugin.config"),
        ("talos", "label nvidia.com/mps.capable"),
        ("talos", "selector nvidia.com/mps.capable"),
        ("talos", "toleration of nvidia.com/gpu"),
        ("talos", "selector gpu-ci/pool"),
        ("talos", "affinity to nvidia.com/gpu.present"),
    }


# -- faults that people make -------------------------------------------------------------------------------------------


def _with(held: Contract, name: str, *tolerations: Toleration) -> Contract:
    """The same with other tolerations of the pods of that name."""
    assert name in {pods.name for pods in held.pods}
    changed = tuple(replace(pods, tolerations=tolerations) if pods.name == name else pods for pods in held.pods)
    return replace(held, pods=changed)


def test_the_guides_toleration_of_the_value_true_fits_eks_and_talos_and_no_node_of_oke() -> None:
    guides = Toleration(GPU_TAINT_KEY, "Equal", "true")
    assert faults(_with(CONTRACTS["talos gpu-operator"], "runner gpu-gpu", guides)) == []
    assert faults(_with(CONTRACTS["eks device-plugin"], "runner gpu-t4", guides)) == []
    assert faults(_with(CONTRACTS["oke gpu-plugin-addon"], "runner gpu-v100", guides)) == [
        "sjc/v100: runner gpu-v100 does not tolerate nvidia.com/gpu=present:NoSchedule",
        "sjc/v100, not there yet: runner gpu-v100 does not tolerate nvidia.com/gpu=:NoSchedule",
    ]


def test_a_toleration_of_okes_own_value_would_never_start_the_first_node() -> None:
    oracles = Toleration(GPU_TAINT_KEY, "Equal", "present")
    assert faults(_with(CONTRACTS["oke gpu-plugin-addon"], "runner gpu-v100", oracles)) == [
        "sjc/v100, not there yet: runner gpu-v100 does not tolerate nvidia.com/gpu=:NoSchedule"
    ]


def test_a_second_advertiser_is_found() -> None:
    held = CONTRACTS["oke device-plugin"]
    nodes = tuple(replace(node, labels={**node.labels, OKE_NO_PLUGIN_LABEL: "false"}) for node in held.nodes)
    found = faults(replace(held, nodes=nodes))
    assert "sjc/v100: provider's own plugin could land there" in found


def test_a_pool_whose_gpus_nobody_advertises_is_found() -> None:
    held = CONTRACTS["eks device-plugin"]
    alone = replace(held, pods=tuple(pods for pods in held.pods if not pods.advertises))
    assert "usw2/t4: nothing advertises its GPUs" in faults(alone)


def test_a_runner_of_two_pools_labels_is_found() -> None:
    held = CONTRACTS["eks gpu-operator"]
    nodes = tuple(replace(node, labels={**node.labels, POOL_LABEL: "t4"}) if node.pool == "t4s" else node for node in held.nodes)
    assert "usw2/t4s: runner gpu-t4 could land there" in faults(replace(held, nodes=nodes))


def _renamed(held: Contract, pool_name: str, resource: str) -> Contract:
    nodes = tuple(replace(node, resource=resource) if node.pool == pool_name else node for node in held.nodes)
    return replace(held, nodes=nodes)


def test_a_runner_that_asks_for_another_name_than_its_nodes_advertise_is_found() -> None:
    found = faults(_renamed(CONTRACTS["eks device-plugin, shared"], "sliced", "nvidia.com/gpu"))
    assert "usw2/sliced: runner gpu-sliced asks for nvidia.com/gpu.shared, and its GPUs are called nvidia.com/gpu" in found


def test_shares_of_another_name_with_the_autoscalers_gpu_label_are_found() -> None:
    held = CONTRACTS["eks gpu-operator, shared"]
    key = held.booting_label
    nodes = tuple(
        replace(node, labels={**node.labels, key: node.accelerator}) if node.pool == "mig" else node for node in held.nodes
    )
    assert f"usw2/mig: with {key} the autoscaler waits for nvidia.com/gpu, and forever" in faults(replace(held, nodes=nodes))


def test_each_way_of_sharing_has_its_name_for_a_gpu() -> None:
    held = {node.pool: node.resource for of in CONTRACTS if of.endswith("shared") for node in CONTRACTS[of].nodes}
    assert held == {
        "system": "nvidia.com/gpu",
        "t4": "nvidia.com/gpu",
        "gpu": "nvidia.com/gpu",
        "sliced": "nvidia.com/gpu.shared",
        "unrenamed": "nvidia.com/gpu",
        "mps": "nvidia.com/gpu.shared",
        "mig": "nvidia.com/mig-1g.5gb",
    }


# -- the data ------------------------------------------------------------------------------------------------------------


@cases("provider", PROVIDERS)
def test_the_profile_says_what_the_provider_sets(provider: str) -> None:
    facts, profile = provided()[provider], PROVIDERS[provider].profile
    assert facts["resource"] == GPU_RESOURCE
    assert ("template" in facts) is profile.from_zero, "no autoscaler, no first node"
    assert facts.get("template", {}).get("booting-label", "") == profile.accelerator_label
    assert [str(taint(text)) for text in facts["gpu-taints"]] in ([], [str(profile.gpu_taint)])
    assert [str(taint(text)) for text in facts["spot-taints"]] == ([str(profile.spot_taint)] if profile.spot_taint else [])
    assert facts.get("plugin", {}).get("off-label") in (None, f"{OKE_NO_PLUGIN_LABEL}=true")


@cases("provider", PROVIDERS)
def test_every_fact_about_a_provider_has_a_source_and_a_date(provider: str) -> None:
    facts = provided()[provider]
    for held in (facts, *(part for part in facts.values() if isinstance(part, dict))):
        assert held["source"].strip()
        assert datetime.date.fromisoformat(held["date"]).isoformat() == held["date"]


def test_what_a_provider_sets_is_none_of_what_a_pool_may_set() -> None:
    for name, facts in provided().items():
        keys = [*facts["labels"], *(text.partition("=")[0] for text in facts["spot-labels"])]
        profile = PROVIDERS[name].profile
        assert [key for key in keys if not profile.reserves(key)] == [], "a user's label of that key would contradict the node"


def test_every_taint_of_a_provider_is_in_the_vocabulary() -> None:
    texts = [text for facts in provided().values() for text in (*facts["gpu-taints"], *facts["spot-taints"])]
    assert texts
    assert [text for text in texts if term("taint", taint(text).key) is None] == []


# -- the program ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=sorted(STACKS))
def built(request: pytest.FixtureRequest) -> tuple[Fleet, Recording]:
    """A stack's fleet, and what results from it: by the program, by Git, or by both."""
    path = STACKS[request.param]
    stack = stack_config(request.param)
    fleet = load(read_stack(path))
    return fleet, joined(*plans.declared(ROOT, stack, fleet))


def _named(recording: Recording, name: str) -> Resource:
    (found,) = [resource for resource in recording.resources if resource.name == name]
    return found


def _plain(value: object) -> Any:
    """A value as JSON holds it: lists for tuples, objects for mappings, numbers equal to their floats."""
    if isinstance(value, Mapping):
        return {key: _plain(held) for key, held in value.items()}
    return [_plain(held) for held in value] if isinstance(value, list | tuple) else value


def test_the_program_gives_nodes_the_labels_and_taints_that_are_held_here(built: tuple[Fleet, Recording]) -> None:
    fleet, recording = built
    for cluster_name, settings in fleet.clusters_by_name():
        # The settings of machines of one's own are in tests/fleet/talos.
        if PROVIDERS[settings.provider].deployable and settings.found is None:
            system = _plain(_named(recording, f"{cluster_name}-system-nodes").inputs)
            assert _labels(system) == system_labels(cluster_name)
            assert "taints" not in system
        for name, of_pool in settings.pools.items() if settings.provider != "kubernetes" else ():
            labels = node_labels(cluster_name, settings, name, of_pool)
            found = _declared(recording, cluster_name, settings, name)
            assert found
            assert {json.dumps(each, sort_keys=True) for each in found} == {
                json.dumps((labels, list(map(str, our_taints(settings, of_pool)))), sort_keys=True)
            }
            if provided()[settings.provider].get("template", {}).get("from") == "node-group":
                name_of_gpus = called(of_pool, settings)
                units = str(of_pool.machines[0].gpus * of_pool.shares)
                whole = {f"{TEMPLATE}resources/{GPU_RESOURCE}": "0"}
                for group in _groups(recording, cluster_name, settings, name):
                    offered = {key: each for key, each in group["tags"].items() if f"{TEMPLATE}resources/nvidia.com/" in key}
                    wanted = whole | {f"{TEMPLATE}resources/{name_of_gpus}": units} if of_pool.machines[0].gpus else {}
                    assert offered == wanted, "as many as the plugin will advertise"


def _declared(recording: Recording, cluster_name: str, settings: Any, name: str) -> list[tuple[dict[str, str], list[str]]]:
    """Labels and taints that a pool's nodes are declared with: once for all, or each machine by itself."""
    if not PROVIDERS[settings.provider].deployable:
        machines = [_plain(_named(recording, f"{cluster_name}.{each}").inputs) for each in settings.pools[name].nodes.hosts]
        return [(each["nodeLabels"], [f"{key}={told}" for key, told in each["nodeTaints"].items()]) for each in machines]
    effects = {told: effect for effect, told in EKS_EFFECT.items()}
    found = []
    for inputs in _groups(recording, cluster_name, settings, name):
        assert "register-with-taints" not in json.dumps(inputs), "no taint but those"
        taints = [f"{each['key']}={each['value']}:{effects[each['effect']]}" for each in inputs.get("taints", [])]
        found.append((_labels(inputs), taints))
    return found


def _groups(recording: Recording, cluster_name: str, settings: Any, name: str) -> list[dict[str, Any]]:
    """Inputs of the node groups of a pool: one per zone on EKS."""
    zones = settings.groups_of(settings.pools[name]) if isinstance(settings, EksPools) else [""]
    return [_plain(_named(recording, "-".join(filter(None, (cluster_name, name, zone, "nodes")))).inputs) for zone in zones]


def _labels(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Labels of a node group or of a node pool."""
    if "labels" in inputs:
        return dict(inputs["labels"])
    return {label["key"]: label["value"] for label in inputs["initialNodeLabels"]}


def test_the_program_installs_the_charts_that_are_held_here(built: tuple[Fleet, Recording]) -> None:
    fleet, recording = built
    for cluster_name, settings in fleet.clusters_by_name():
        releases = dict(_releases(recording, cluster_name))
        held = cluster_charts(fleet, cluster_name, recording.stack)
        if not settings.pools:
            held.pop(AUTOSCALER, None)
        for name, chart in held.items():
            by = APPLICATION if settings.by_git and name != ARGO_CD else RELEASE
            assert releases.pop(name) == (by, chart.namespace, chart.version, _plain(_pulled(settings, chart))), name
        assert releases == {}, "a chart whose pods no test holds to the contract"


def _pulled(settings: Cluster, chart: Chart) -> Mapping[str, Any]:
    """The values of a chart, whose images come from the cluster's registry if it has one."""
    if settings.mirror is None:
        return chart.values
    found: Mapping[str, Any] = mirrored(settings.mirror, {"chart": chart.chart, "values": chart.values})["values"]
    return found


def _releases(recording: Recording, cluster_name: str) -> Iterator[tuple[str, tuple[str, str, str, Any]]]:
    """(name, (who makes it, namespace, version, values)) of each release of a cluster's."""
    for resource in recording.resources:
        if not resource.name.startswith(f"{cluster_name}-"):
            continue
        inputs = _plain(resource.inputs)
        if resource.type == RELEASE:
            yield inputs["name"], (RELEASE, inputs["namespace"], inputs["version"], inputs["values"])
        elif resource.type == APPLICATION and "chart" in inputs["spec"]["source"]:
            source, namespace = inputs["spec"]["source"], inputs["spec"]["destination"]["namespace"]
            helm = source["helm"]
            yield helm["releaseName"], (APPLICATION, namespace, source["targetRevision"], helm["valuesObject"])


def test_the_pods_that_the_program_declares_itself_are_those_held_here(built: tuple[Fleet, Recording]) -> None:
    fleet, recording = built
    pods = {
        resource.name: _plain(resource.inputs["spec"]["jobTemplate"]["spec"]["template"]["spec"])
        for resource in recording.resources
        if resource.type == "kubernetes:batch/v1:CronJob"
    }
    for cluster_name in fleet.clusters:
        for name, chart in cluster_charts(fleet, cluster_name, recording.stack).items():
            if name in fleet.clusters[cluster_name].runners and (sweep := sweep_pod(chart)) is not None:
                assert pods.pop(f"{cluster_name}-{name}-sweep") == _plain(sweep)
    assert pods == {}
    with_pods = ("apps/", "batch/", "core/v1:Pod:", "core/v1:PodTemplate", "core/v1:ReplicationController")
    others = {
        each.type for each in recording.resources if each.type.startswith(tuple(f"kubernetes:{kind}" for kind in with_pods))
    }
    assert others <= {"kubernetes:batch/v1:CronJob", *OF_PEOPLE}, "pods that no test holds to the contract"


OF_PEOPLE = ("kubernetes:batch/v1:Job", "kubernetes:apps/v1:Deployment")
"""Kinds of a stack's own jobs and workloads."""


def test_jobs_and_workloads_land_on_their_pool_and_nowhere_else(built: tuple[Fleet, Recording]) -> None:
    fleet, recording = built
    for resource in recording.resources:
        if resource.type not in OF_PEOPLE:
            continue
        cluster_name = next(name for name in fleet.clusters if resource.name.startswith(f"{name}-"))
        spec = _plain(resource.inputs["spec"]["template"]["spec"])
        if resource.inputs["metadata"]["namespace"] == SWEEPS:
            assert (spec["nodeSelector"], spec.get("tolerations")) == (dict(fleet.clusters[cluster_name].system_selector), None)
            continue
        held, by_pool = contract(fleet, cluster_name), POOL_LABEL in spec["nodeSelector"]
        where = spec["nodeSelector"][POOL_LABEL] if by_pool else _stick(fleet, cluster_name, resource)
        pods = pods_of(resource.name, frozenset({where}), spec)
        assert bool(pods.resources) is (by_pool and where != SYSTEM_POOL), (
            f"{resource.name} asks for a GPU, or for another part of the node"
        )
        assert faults(replace(held, pods=(*held.pods, pods))) == []


def _stick(fleet: Fleet, cluster_name: str, resource: Resource) -> str:
    """The pool of the node that a Coral is at."""
    workload = fleet.clusters[cluster_name].workloads[resource.name.removeprefix(f"{cluster_name}-").removesuffix("-deployment")]
    assert isinstance(workload, CoralWorkload)
    return workload.pool or SYSTEM_POOL


def test_every_launcher_and_no_other_runner_is_kept_from_eviction(built: tuple[Fleet, Recording]) -> None:
    """ARC puts the label on every runner pod, and each set has a namespace of its own."""
    fleet, recording = built
    budgets = [each for each in recording.resources if each.type == "kubernetes:policy/v1:PodDisruptionBudget"]
    assert sorted(each.name for each in budgets) == sorted(
        f"{cluster_name}-{name}-keep" for cluster_name, name, asked in fleet.runner_sets() if not isinstance(asked, PodRunner)
    )
    for budget in budgets:
        (held,) = [each for each in runner_sets(recording) if budget.name.endswith(f"-{each.name}-keep")]
        assert budget.inputs["metadata"]["namespace"] == held.namespace
        assert _plain(budget.inputs["spec"]) == {
            "maxUnavailable": 0,
            "selector": {"matchLabels": {"actions-ephemeral-runner": "True"}},
        }


def test_the_program_tells_the_providers_plugin_what_is_held_here(built: tuple[Fleet, Recording]) -> None:
    fleet, recording = built
    for cluster_name, settings in fleet.clusters_by_name():
        addons = [
            _plain(resource.inputs)
            for resource in recording.resources
            if resource.name.startswith(f"{cluster_name}-") and resource.inputs.get("addonName") == "NvidiaGpuPlugin"
        ]
        assert len(addons) == (settings.enablement == GPU_PLUGIN_ADDON)
        for addon in addons:
            told = {one["key"]: one["value"] for one in addon.get("configurations", [])}
            tolerations = addon_tolerations(settings)
            assert json.loads(told.get("tolerations", "null")) == tolerations


# -- the table -----------------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_pool_and_shows_faults() -> None:
    held = CONTRACTS["oke gpu-plugin-addon"]
    head, _, *rows = table({"oke": held}).splitlines()
    assert head.count("|") == 7
    assert [row.split(" | ")[0] for row in rows] == ["| oke/v100", "| oke/v100-spot"]
    assert all(row.endswith("| none |") for row in rows)
    assert [row.split(" | ")[2] for row in table({"talos": CONTRACTS["talos gpu-operator"]}).splitlines()[2:]] == [
        "no autoscaler",
        "no autoscaler",
    ]
    broken = table({"oke": _with(held, "runner gpu-v100")}).splitlines()
    assert "sjc/v100: runner gpu-v100 does not tolerate nvidia.com/gpu=present:NoSchedule" in broken[2]
