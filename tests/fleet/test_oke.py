"""Settings of an OKE cluster beyond what the broken files show: defaults, remarks, and what may differ from them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from fleet.facts import versions
from fleet.facts.errors import FleetError
from fleet.facts.node_image import NODE_IMAGES
from fleet.loading.config import load
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.network import node_subnet, of_node
from fleet.providers.oke.nodes import OKE_OWNED, _node_image, kubelet_flags
from fleet.providers.oke.vm_runner import VmPerJobRunner
from fleet.settings.kubelet import KubeletFlags
from fleet.settings.refusals import refuses
from tests.builders import NODE_CONFIG, SAN_JOSE, config, oke_cluster, oke_pool, oke_runner, vm, vm_per_job
from tests.cases import cases

REGION = "us-sanjose-1"
IMAGE = f"ocid1.image.oc1.{REGION}.aaaa"
PLACE = {"region": REGION, "availabilityDomains": [SAN_JOSE]}
ELSEWHERE = {
    "region": "us-ashburn-1",
    "availabilityDomains": ["abcd:US-ASHBURN-AD-2"],
    "subnet": "ocid1.subnet.oc1.iad.aaaa",
    "securityGroup": "ocid1.networksecuritygroup.oc1.iad.aaaa",
    "image": "ocid1.image.oc1.iad.aaaa",
}


def read(**changes: Any) -> OkeCluster:
    """The cluster as a model; `changes` replace keys."""
    held = load(config(clusters={"sjc": oke_cluster(**changes)})).clusters["sjc"]
    assert isinstance(held, OkeCluster)
    return held


def told(**changes: Any) -> list[str]:
    """Path and message of each problem of a cluster."""
    with pytest.raises(FleetError) as caught:
        read(**changes)
    return [f"{problem.where.removeprefix('gpu-ci:clusters.sjc.')}: {problem.message}" for problem in caught.value.problems]


def test_what_is_not_said_of_a_cluster() -> None:
    cluster = read()
    assert cluster.enablement == "gpu-plugin-addon", "the pair of image and plugin that NVIDIA qualifies"
    assert (cluster.gpu_plugin_addon, cluster.operator, cluster.delivery, cluster.idle_delay) == (None, None, "helm", 600)
    assert cluster.network.new_cidr == "10.0.0.0/16"
    system = cluster.system
    assert (system.ocpus, system.memory, system.nodes, system.disk) == (2, 16 * 1024, 2, 100 * 1024)
    pool = cluster.pools["a10"]
    assert (pool.disk, pool.image, pool.cdi) == (400 * 1024, "oke-gpu", False)


def test_kubernetes_is_spelled_as_oke_does() -> None:
    assert read().kubernetes == versions.OKE_KUBERNETES["1.34"].version == "v1.34.10"


@pytest.mark.parametrize("version", ["v1.34.3", "v1.35.0", "v1.36.1"])
def test_the_autoscaler_may_be_as_old_as_oracles_for_the_minor(version: str) -> None:
    held = read(kubernetesVersion="1.36", addonVersions={"ClusterAutoscaler": version})
    assert held.addon_versions == {"ClusterAutoscaler": version}


@pytest.mark.parametrize("version", ["v1.33.9", "v1.37.0"])
def test_an_autoscaler_older_than_oracles_or_newer_than_the_cluster_is_refused(version: str) -> None:
    assert told(kubernetesVersion="1.36", addonVersions={"ClusterAutoscaler": version}) == [
        "addonVersions.ClusterAutoscaler: Kubernetes 1.36 needs ClusterAutoscaler 1.34 to 1.36; write v1.34.3"
    ]


def test_sets_of_machines_come_in_the_files_order_and_pods_are_none() -> None:
    sets = {"second": vm_per_job(), "pods": oke_runner(), "first": vm()}
    assert [name for name, _ in read(runners=sets).machine_runners()] == ["second", "first"]


def test_a_cluster_of_machines_needs_no_pool_and_no_gpu_image() -> None:
    held = oke_cluster(runners={"a10": vm()}, nodeImages={"system": {"id": IMAGE}})
    del held["pools"]
    cluster = load(config(clusters={"sjc": held})).clusters["sjc"]
    assert cluster.pools == {}


@cases(
    ("enablement", "addon"),
    [("gpu-plugin-addon", True), ("device-plugin", False), ("gpu-operator", False), ("device-plugin", None)],
)
def test_the_add_on_may_be_said_as_it_is(enablement: str, addon: bool | None) -> None:
    assert read(enablement=enablement, gpuPluginAddon=addon).gpu_plugin_addon is addon


@pytest.mark.parametrize(("enablement", "addon"), [("gpu-plugin-addon", False), ("device-plugin", True), ("gpu-operator", True)])
def test_the_add_on_may_not_be_said_otherwise(enablement: str, addon: bool) -> None:
    (line,) = told(enablement=enablement, gpuPluginAddon=addon)
    assert line.startswith("gpuPluginAddon: ")


def test_kinds_of_node_images_are_those_of_its_cloud() -> None:
    for kind, image in NODE_IMAGES.items():
        if "oci" in image.clouds:
            assert TypeAdapter(Annotated[str, refuses(_node_image)]).validate_python(kind) == kind
        else:
            assert told(pools={"a10": oke_pool(image=kind)}) == [
                "pools.a10.image: OKE nodes have an image of kind oke-gpu or ubuntu; write one"
            ]


def test_problems_of_all_pools_and_sets_are_told_at_once() -> None:
    pools = {"a": oke_pool(capacity="spot"), "b": oke_pool(image="talos"), "c": oke_pool(disk="40Gi")}
    lines = told(pools=pools, runners={"one": vm(count=0), "two": vm_per_job(lifetime="1m")})
    assert [line.partition(":")[0] for line in lines] == [
        "pools.a.instanceTypes",
        "pools.b.image",
        "pools.c.disk",
        "runners.one.count",
        "runners.two.lifetime",
    ]


# -- regions -----------------------------------------------------------------------------------------------------------


def test_ids_of_the_clusters_own_region_are_taken() -> None:
    reserved = oke_pool(
        capacity="reserved",
        reservation={"id": f"ocid1.capacityreservation.oc1.{REGION}.aaaa", "zone": SAN_JOSE, "count": 2},
    )
    cluster = read(
        network={"vcn": f"ocid1.vcn.oc1.{REGION}.aaaa"}
        | dict.fromkeys(("endpointSubnet", "nodeSubnet"), f"ocid1.subnet.oc1.{REGION}.aaaa"),
        nodeImages={kind: {"id": IMAGE} for kind in ("system", "oke-gpu")},
        pools={"a10": reserved},
        runners={"one": vm(image={"id": IMAGE, "driver": "580.159.03"}), "two": vm_per_job(places=[PLACE, ELSEWHERE])},
    )
    assert cluster.pools["a10"].paid_nodes == (2, 2)


@cases(
    ("where", "changes"),
    [
        ("network.vcn", {"network": {"vcn": "ocid1.vcn.oc1.iad.a", "endpointSubnet": IMAGE, "nodeSubnet": IMAGE}}),
        ("nodeImages.system.id", {"nodeImages": {"system": {"id": "ocid1.image.oc1.iad.a"}, "oke-gpu": {"id": IMAGE}}}),
        (
            "pools.a10.reservation.id",
            {
                "pools": {
                    "a10": oke_pool(
                        capacity="reserved",
                        reservation={"id": "ocid1.capacityreservation.oc1.iad.a", "zone": SAN_JOSE, "count": 2},
                    )
                }
            },
        ),
        ("runners.a10.image.id", {"runners": {"a10": vm(image={"id": "ocid1.image.oc1.iad.a", "driver": "580.159.03"})}}),
        ("runners.a10.image.id", {"runners": {"a10": vm_per_job(image={"id": "ocid1.image.oc1.iad.a", "driver": "580.159.03"})}}),
    ],
)
def test_ids_of_another_region_are_refused_where_they_stand(where: str, changes: dict[str, Any]) -> None:
    for key in ("endpointSubnet", "nodeSubnet"):
        if "network" in changes:
            changes["network"][key] = f"ocid1.subnet.oc1.{REGION}.a"
    assert told(**changes) == [f"{where}: this OCID belongs to region us-ashburn-1; use one of {REGION}"]


def test_an_image_that_no_place_of_the_clusters_region_boots_may_be_of_another() -> None:
    image = {"id": ELSEWHERE["image"], "driver": "580.159.03"}
    ((_, held),) = read(runners={"a10": vm_per_job(image=image, places=[ELSEWHERE])}).machine_runners()
    assert held.image is not None
    assert held.image.id == ELSEWHERE["image"]


@pytest.mark.parametrize("missing", ["subnet", "securityGroup", "image"])
def test_a_place_elsewhere_is_told_what_it_lacks(missing: str) -> None:
    place = {key: value for key, value in ELSEWHERE.items() if key != missing}
    assert told(runners={"a10": vm_per_job(places=[PLACE, place])}) == [
        f"runners.a10.places.1: a place outside of the cluster's region needs its own network and image; add {missing}"
    ]


def test_cncfs_launcher_needs_no_more_than_a_subnet_elsewhere() -> None:
    place = {key: ELSEWHERE[key] for key in ("region", "availabilityDomains", "subnet")}
    settings = {key: value for key, value in vm_per_job(launcher="cncf", places=[place]).items() if key != "image"}
    held = read(runners={"a10": settings}).runners["a10"]
    assert isinstance(held, VmPerJobRunner)
    assert (held.places[0].region, held.places[0].image) == ("us-ashburn-1", None)


# -- the system pool ---------------------------------------------------------------------------------------------------


@cases(("ocpus", "memory"), [(1, "1Gi"), (1, "64Gi"), (16, "16Gi"), (17, "1049Gi"), (94, "94Gi")])
def test_the_system_shape_has_1_to_64_gib_a_core_and_1049_at_most(ocpus: int, memory: str) -> None:
    assert read(system={"ocpus": ocpus, "memory": memory}).system.ocpus == ocpus


@cases(
    ("ocpus", "memory", "most"), [(1, "65Gi", 64), (4, "3Gi", 256), (94, "1050Gi", 1049), (2, "16383Mi", 128), (20, None, 1049)]
)
def test_other_memory_is_refused_with_what_the_shape_has(ocpus: int, memory: str | None, most: int) -> None:
    system = {"ocpus": ocpus} | ({"memory": memory} if memory else {})
    assert told(system=system) == [
        f"system.memory: VM.Standard.E5.Flex with ocpus {ocpus} has {ocpus}Gi to {most}Gi, whole Gi; write one between"
    ]


# -- remarks -----------------------------------------------------------------------------------------------------------

_REAL = {
    "compartment": "ocid1.compartment.oc1..aaaa",
    "machineCompartment": "ocid1.compartment.oc1..bbbb",
    "nodeImages": {"system": {"id": IMAGE}, "oke-gpu": {"id": IMAGE, "driver": "580.159.03"}},
    "endpoint": {"publicCidrs": ["52.94.76.0/22"]},
}


def besides(cluster: OkeCluster) -> tuple[str, ...]:
    """The remarks on a cluster, but for the network policies of its pods (test_isolation.py)."""
    return tuple(remark for remark in cluster.remarks if not remark.startswith("network policies: "))


def test_a_cluster_of_real_ids_has_no_remark() -> None:
    sets = {"standing": vm(image={"id": IMAGE, "driver": "580.159.03"}), "pods": oke_runner()}
    assert besides(read(**_REAL, runners=sets)) == ()


def test_a_gpu_image_whose_driver_nobody_gave_is_undeterminable_for_a_gpu_that_has_no_known_limit() -> None:
    images = {kind: {"id": IMAGE} for kind in ("system", "oke-gpu")}
    assert besides(read(**(_REAL | {"nodeImages": images}))) == (
        "pool a10: compatibility of driver, GPU and CUDA images is undeterminable: no source names the NVIDIA driver of its node "
        "image; run nvidia-smi on a node, then write nodeImages.oke-gpu.driver",
    )


def test_a_version_without_a_known_gpu_image_says_so() -> None:
    assert besides(read(**_REAL, kubernetesVersion="1.35")) == (
        "kubernetesVersion: no source names a GPU node image of OKE v1.35.2; check that "
        "`oci ce node-pool-options get --node-pool-option-id all` lists one",
    )


def test_an_unqualified_plugin_is_told() -> None:
    (plugin,) = besides(read(**_REAL, enablement="device-plugin"))
    assert plugin == (
        "enablement device-plugin on Oracle's GPU image: NVIDIA qualifies that image only with OKE's add-on; "
        "test it, or use gpu-plugin-addon"
    )


def test_remarks_of_machines_name_their_set() -> None:
    machine = vm(image={"id": IMAGE, "driver": "580.159.03"}, launcherImage="registry.example.com/launcher:1")
    assert besides(read(**_REAL, pools={}, runners={"a10": machine})) == (
        "runner set a10: launcher image registry.example.com/launcher:1 is a tag, which can change; "
        "set launcherImage with a digest",
    )


def _cncf() -> dict[str, Any]:
    """A set of CNCF's launcher in the cluster's region: it has no image."""
    held = vm_per_job(launcher="cncf", places=[PLACE | {"subnet": "ocid1.subnet.oc1..aaaa"}])
    return {key: value for key, value in held.items() if key != "image"}


@pytest.mark.parametrize("compartment", [None, _REAL["compartment"]])
def test_nodes_that_launchers_reach_are_told_with_the_sets(compartment: str | None) -> None:
    image = {"id": IMAGE, "driver": "580.159.03"}
    sets = {"pods": oke_runner(), "standing": vm(image=image), "per-job": vm_per_job(image=image)}
    told = (
        "machineCompartment: machines of {} share the cluster's compartment, so their launchers can also terminate its "
        "nodes; set it to a separate compartment"
    )
    shared = _REAL | {"machineCompartment": compartment}
    assert besides(read(**shared, runners=sets)) == (told.format("standing, per-job"),)
    cncf = sets | {"per-job": _cncf()}
    assert besides(read(**shared, runners=cncf))[0] == told.format("standing")
    del cncf["standing"]
    # Its launcher has an OCI key of its own, and the program gives it no rights.
    assert not [remark for remark in besides(read(**shared, runners=cncf)) if "machineCompartment" in remark]


@pytest.mark.parametrize("pools", [{}, {"a10": oke_pool()}])
def test_a_cluster_without_runner_sets_is_told_once(pools: dict[str, Any]) -> None:
    assert besides(read(**_REAL, pools=pools, runners={})) == ("runners: the cluster has none, so it runs no job; add one",)


def test_a_pool_that_no_set_names_is_told() -> None:
    pools = {"a10": oke_pool(), "a10-more": oke_pool()}
    assert besides(read(**_REAL, pools=pools)) == (
        "pool a10-more: no runner set uses it, so it gets no jobs; use it in one, or remove it",
    )


# -- addresses ---------------------------------------------------------------------------------------------------------


@cases(("pods", "addresses"), [(1, 3), (31, 33), (32, 35), (62, 65), (93, 97), (110, 115)])
def test_a_node_takes_an_address_for_itself_each_pod_and_each_card_of_31_pods(pods: int, addresses: int) -> None:
    assert of_node(pods) == addresses


@pytest.mark.parametrize(
    ("cidr", "subnet", "room"),
    [
        ("10.0.0.0/16", "10.0.0.0/17", 32_765),
        ("10.20.32.0/20", "10.20.32.0/21", 2045),
    ],
)
def test_nodes_have_half_a_new_vcn_less_what_oci_keeps(cidr: str, subnet: str, room: int) -> None:
    assert node_subnet(cidr) == (subnet, room)


def _in_a_small_vcn(**changes: Any) -> OkeCluster:
    """A cluster in a /20, whose node subnet has 2045 addresses, of which two system nodes of 31 pods take 66."""
    return read(**_REAL, network={"cidr": "10.0.0.0/20"}, **changes)


def _a10(least: int, most: int) -> dict[str, Any]:
    return {"a10": oke_pool(nodes={"min": least, "max": most})}


IMAGES = {"id": IMAGE, "driver": "580.159.03"}


def test_what_always_stands_must_have_addresses() -> None:
    # 66 for the system nodes, 115 for each GPU node, one for each machine.
    assert 66 + 17 * 115 + 24 == 2045
    sets = {"pods": oke_runner(), "standing": vm(count=24, image=IMAGES)}
    assert not besides(_in_a_small_vcn(pools=_a10(17, 17), runners=sets))
    assert told(network={"cidr": "10.0.0.0/20"}, pools=_a10(17, 17), runners=sets | {"standing": vm(count=25)}) == [
        "network.cidr: permanent nodes and standing machines take 2046 addresses of the node subnet, 10.0.0.0/21 has 2045; "
        "set a larger cidr, or lower nodes.min"
    ]
    kept = {"a10": oke_pool(nodes={"min": 0, "max": 20}, placeholders=18)}
    (found,) = told(network={"cidr": "10.0.0.0/20"}, pools=kept)
    assert "take 2136 addresses" in found, "a placeholder keeps a node"


def test_what_may_come_and_finds_no_address_is_told() -> None:
    line = (
        "network.cidr: full pools and machine sets need {} addresses of the node subnet, 10.0.0.0/21 has 2045: "
        "nodes and machines "
        "beyond that never start; set a larger cidr, or lower nodes.max and scale.max"
    )
    sets = {"pods": oke_runner()}
    assert not besides(_in_a_small_vcn(pools=_a10(0, 17), runners=sets))
    assert besides(_in_a_small_vcn(pools=_a10(0, 18), runners=sets)) == (line.format(66 + 18 * 115),)
    per_job = vm_per_job(image=IMAGES, scale={"max": 25}, places=[ELSEWHERE, PLACE])
    assert besides(_in_a_small_vcn(pools=_a10(0, 17), runners=sets | {"job": per_job})) == (line.format(2046),)


def test_machines_elsewhere_and_pods_of_a_given_network_take_none_of_these_addresses() -> None:
    own = PLACE | {"subnet": f"ocid1.subnet.oc1.{REGION}.aaaa"}
    sets = {"pods": oke_runner(), "job": vm_per_job(image=IMAGES, scale={"max": 5000}, places=[ELSEWHERE, own])}
    assert not besides(_in_a_small_vcn(pools=_a10(0, 17), runners=sets))
    given = {"vcn": "ocid1.vcn.oc1..a", "endpointSubnet": "ocid1.subnet.oc1..a", "nodeSubnet": "ocid1.subnet.oc1..b"}
    assert not besides(read(**_REAL, network=given, pools=_a10(1000, 1000)))


def test_a_larger_system_pool_takes_more_for_its_pods() -> None:
    # Four cores have four cards, three of them for 93 pods: 97 addresses a node.
    changes = {"system": {"ocpus": 4, "nodes": 2}, "runners": {"pods": oke_runner()}}
    assert not besides(_in_a_small_vcn(pools=_a10(16, 16), **changes))
    assert besides(_in_a_small_vcn(pools=_a10(16, 17), **changes))[0].startswith(
        "network.cidr: full pools and machine sets need 2149 addresses"
    )


# -- settings of nodes -------------------------------------------------------------------------------------------------


def test_every_setting_of_kubelet_is_a_flag_of_it() -> None:
    settings = {key: value for key, value in NODE_CONFIG["kubelet"]["config"].items() if key not in OKE_OWNED}
    held = TypeAdapter(KubeletFlags).validate_json(json.dumps(settings))
    assert len(kubelet_flags(held)) == len(KubeletFlags.model_fields) == len(settings)
    assert kubelet_flags(held)[:2] == ("--pod-max-pids=4096", "--cpu-manager-policy=static")
    assert "--serialize-image-pulls=false" in kubelet_flags(held)
    assert "--container-log-max-size=50Mi" in kubelet_flags(held)
    assert kubelet_flags(None) == ()


def test_a_plan_says_whether_images_are_on_the_local_disks_of_bare_metal() -> None:
    def said(**changes: Any) -> list[str]:
        found = load(config(clusters={"sjc": oke_cluster(pools={"a10": oke_pool(**changes)}, runners={})})).clusters["sjc"]
        return [remark for remark in found.remarks if "local NVMe" in remark]

    assert said() == [], "VM.GPU.A10.1 has none"
    assert said(instanceTypes=["BM.GPU.A10.4"]) == [
        "pool a10: 7680 GB of local NVMe on BM.GPU.A10.4 are unused; localStorage RAID0 puts images there at no charge "
        "(no source says how many seconds that saves)"
    ]
    assert said(instanceTypes=["BM.GPU.A10.4"], localStorage={"strategy": "RAID0"}) == [], "the setting is on"
