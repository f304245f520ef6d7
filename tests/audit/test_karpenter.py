"""NodePools and node classes of Karpenter become pools: which types, what order, which limits."""

import json

import pytest

from fleet.facts.hardware import machine, machines
from tests.audit.reading import seen, unread

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu, annotations: {a: b}}
spec:
  weight: 7
  limits: {nvidia.com/gpu: "8", memory: 100Gi}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m, budgets: [{nodes: "20%%"}]}
  template:
    metadata: {labels: {team: ml}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      expireAfter: 720h
      taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
      startupTaints: [{key: init, effect: NoExecute}]
      requirements: %s
"""
CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20260101}]
  capacityReservationSelectorTerms: [{id: cr-1}]
  instanceStorePolicy: RAID0
  blockDeviceMappings:
  - {deviceName: /dev/xvda, ebs: {volumeSize: 300Gi}}
  - {deviceName: /dev/sdb, ebs: {volumeSize: 900Gi}}
  kubelet: {maxPods: 40, topologyManagerPolicy: single-numa-node}
  userData: "echo"
"""
AWS = "karpenter.k8s.aws/instance"
T4 = ["g4dn.xlarge", "g4dn.2xlarge", "g4dn.4xlarge", "g4dn.8xlarge", "g4dn.12xlarge", "g4dn.16xlarge", "g4dn.metal"]


def need(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values)}


def pool(folder, *requirements, **files):
    (found,) = seen(folder, pool=POOL % json.dumps(requirements), **files).pools
    return found


@pytest.mark.parametrize(
    ("requirements", "types"),
    [
        ([need(f"{AWS}-family", "In", "g4dn")], set(T4)),
        ([need(f"{AWS}-gpu-name", "In", "t4"), need(f"{AWS}-gpu-count", "Lte", "1")], {*T4} - {"g4dn.12xlarge", "g4dn.metal"}),
        ([need(f"{AWS}-gpu-name", "In", "t4"), need(f"{AWS}-cpu", "Gt", "48")], {"g4dn.16xlarge", "g4dn.metal"}),
        (
            [need(f"{AWS}-gpu-name", "In", "t4"), need(f"{AWS}-cpu", "Gte", "48"), need(f"{AWS}-cpu", "Lt", "96")],
            {"g4dn.12xlarge", "g4dn.16xlarge"},
        ),
        ([need(f"{AWS}-gpu-name", "In", "t4"), need(f"{AWS}-memory", "Lt", "32768")], {"g4dn.xlarge"}),
        (
            [need(f"{AWS}-family", "In", "g4dn"), need(f"{AWS}-size", "NotIn", "metal", "xlarge")],
            {*T4} - {"g4dn.metal", "g4dn.xlarge"},
        ),
        (
            [need("eks.amazonaws.com/instance-gpu-name", "In", "rtx-pro-server-6000"), need(f"{AWS}-gpu-count", "In", "2")],
            {"g7e.12xlarge"},
        ),
        ([need("node.kubernetes.io/instance-type", "In", "g4dn.metal", "g99.large")], {"g4dn.metal", "g99.large"}),
        ([need("node.kubernetes.io/instance-type", "In", "m7i.large", "c7i.large")], {"m7i.large", "c7i.large"}),
        ([need(f"{AWS}-category", "In", "p"), need(f"{AWS}-generation", "Gt", "5")], {"p6-b200.48xlarge", "p6-b300.48xlarge"}),
        ([need(f"{AWS}-gpu-manufacturer", "Exists"), need("kubernetes.io/arch", "In", "arm64")], set()),
        ([need(f"{AWS}-gpu-name", "DoesNotExist")], set()),
        ([need(f"{AWS}-gpu-count", "Gt", "many")], set()),
        ([need(f"{AWS}-gpu-count", "Gt")], set()),
        ([], {one.name for one in machines("aws") if one.gpus}),
    ],
)
def test_requirements_are_a_set_of_types(tmp_path, requirements, types):
    assert set(pool(tmp_path, *requirements).types) == types


def test_the_cheapest_type_of_the_region_is_first(tmp_path):
    zones = need("topology.kubernetes.io/zone", "In", "eu-west-1a", "eu-west-1b")
    found = pool(tmp_path, need(f"{AWS}-family", "In", "g4dn"), zones)
    assert (found.region, found.zones, found.types[0], found.types[-1]) == (
        "eu-west-1",
        ("eu-west-1a", "eu-west-1b"),
        T4[0],
        T4[-1],
    )


@pytest.mark.parametrize(
    ("requirements", "open_types", "gpus_possible"),
    [
        ([need(f"{AWS}-family", "In", "g4dn")], False, True),
        ([need(f"{AWS}-category", "In", "c", "m")], True, False),
        ([need(f"{AWS}-family", "In", "c7i")], True, False),
        ([need(f"{AWS}-family", "In", "g99")], True, True),
        ([need("node.kubernetes.io/instance-type", "In", "c7i.large")], False, False),
        ([], True, True),
    ],
)
def test_a_pool_says_whether_a_gpu_is_possible_and_whether_its_types_are_all(tmp_path, requirements, open_types, gpus_possible):
    found = pool(tmp_path, *requirements)
    assert (found.open_types, found.gpus_possible) == (open_types, gpus_possible)


@pytest.mark.parametrize(
    ("requirements", "capacities"),
    [
        ([], ("reserved", "spot", "on-demand")),
        ([need("karpenter.sh/capacity-type", "In", "on-demand", "spot")], ("spot", "on-demand")),
        ([need("karpenter.sh/capacity-type", "NotIn", "spot")], ("reserved", "on-demand")),
        ([need("karpenter.sh/capacity-type", "In", "reserved")], ("reserved",)),
    ],
)
def test_capacity_types_come_in_the_order_of_purchase(tmp_path, requirements, capacities):
    assert pool(tmp_path, *requirements, node=CLASS).capacities == capacities
    (tmp_path / "node.yaml").unlink()
    # Without a reservation nothing is reserved.
    assert pool(tmp_path, *requirements).capacities == (tuple(one for one in capacities if one != "reserved") or capacities)


def test_a_pool_has_what_its_object_and_its_class_say(tmp_path):
    own = [need("acme.io/disk", "In", "nvme"), need("acme.io/team", "Exists"), need("acme.io/zone", "In", "a", "b")]
    found = pool(tmp_path, need(f"{AWS}-family", "In", "g4dn"), *own, node=CLASS)
    assert (found.name, found.weight, found.most_gpus, found.maximum, found.expires) == ("gpu", 7, 8, None, "720h")
    assert found.labels == {"team": "ml", "acme.io/disk": "nvme", "karpenter.sh/nodepool": "gpu"}
    assert found.choices == {"acme.io/team": (), "acme.io/zone": ("a", "b")}
    assert [str(taint) for taint in (*found.taints, *found.startup_taints)] == [
        "nvidia.com/gpu=true:NoSchedule",
        "init=:NoExecute",
    ]
    assert (found.image, found.disk, found.instance_store, found.reservations) == ("al2023@v20260101", 300, True, ("cr-1",))
    assert (found.topology, found.kubelet["maxPods"], found.consolidates) == ("single-numa-node", 40, False)
    assert found.disruption["consolidateAfter"] == "10m"
    assert found.from_zero


@pytest.mark.parametrize(
    ("limits", "most", "nodes"),
    [
        ('{cpu: "100"}', 8 * (100 // 96), None),
        ('{cpu: "100", nvidia.com/gpu: 3}', 3, None),
        ("{nodes: 5}", None, 5),
        ("{}", None, None),
    ],
)
def test_limits_stop_a_pool(tmp_path, limits, most, nodes):
    text = POOL.replace('{nvidia.com/gpu: "8", memory: 100Gi}', limits)
    (found,) = seen(tmp_path, pool=text % json.dumps([need("node.kubernetes.io/instance-type", "In", "g4dn.metal")])).pools
    assert (found.most_gpus, found.maximum, machine("g4dn.metal").vcpus) == (most, nodes, 96)


def test_replicas_are_nodes_that_are_always_there(tmp_path):
    (found,) = seen(tmp_path, pool=POOL.replace("weight: 7", "replicas: 2") % "[]").pools
    assert (found.minimum, found.maximum, found.from_zero) == (2, 2, False)


@pytest.mark.parametrize(
    ("volumes", "image", "gib"),
    [
        ("[]", "al2023@latest", 20),
        (
            "[{deviceName: /dev/xvda, ebs: {volumeSize: 4Gi}}, {deviceName: /dev/xvdb, ebs: {volumeSize: 90Gi}}]",
            "bottlerocket@latest",
            90,
        ),
        (
            "[{deviceName: /dev/xvda, ebs: {volumeSize: 4Gi}}, {deviceName: /dev/xvdb, ebs: {volumeSize: 90Gi}}]",
            "al2023@latest",
            4,
        ),
        (
            "[{deviceName: /dev/a, rootVolume: true, ebs: {volumeSize: 50Gi}}, {deviceName: /dev/xvda, ebs: {volumeSize: 9Gi}}]",
            "al2023@x",
            50,
        ),
    ],
)
def test_the_disk_of_pods_is_the_root_volume(tmp_path, volumes, image, gib):
    before, _, after = CLASS.partition("  blockDeviceMappings:\n")
    text = f"{before}  blockDeviceMappings: {volumes}\n  kubelet{after.partition('kubelet')[2]}".replace(
        "al2023@v20260101", image
    )
    assert pool(tmp_path, node=text).disk == gib


def test_the_class_of_the_nearest_folder_is_the_pools(tmp_path):
    other = CLASS.replace("300Gi", "500Gi")
    found = seen(tmp_path, a__pool=POOL % "[]", a__node=CLASS, b__pool=POOL % "[]", b__node=other).pools
    assert [one.disk for one in found] == [300, 500]


def test_keys_that_no_reader_takes_are_listed(tmp_path):
    requirements = json.dumps([need(f"{AWS}-network-bandwidth", "Gt", "1"), need(f"{AWS}-family", "In", "g4dn")])
    found = seen(tmp_path, pool=POOL % requirements + "  news: 1\n", node=CLASS)
    assert unread(found) == ["spec.limits.memory", "spec.news", "spec.template.spec.requirements[0]", "spec.userData"]


def test_a_list_of_kubectl_is_its_items(tmp_path):
    item = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": {"template": {"spec": {}}}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [item, item | {"metadata": {"name": "b"}}]})
    found = seen(tmp_path, pools_json=text)
    assert [one.name for one in found.pools] == ["a", "b"]
    assert unread(found) == []


OCI = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a10}
spec:
  template:
    spec:
      nodeClassRef: {group: oci.oraclecloud.com, kind: OCINodeClass, name: a10}
      requirements:
      - {key: oci.oraclecloud.com/gpu-shape, operator: In, values: ["true"]}
      - {key: %s, operator: In, values: [%s]}
---
apiVersion: oci.oraclecloud.com/v1beta1
kind: OCINodeClass
metadata: {name: a10}
spec:
  volumeConfig:
    bootVolumeConfig: {sizeInGBs: 200, vpusPerGB: 20, imageConfig: {imageType: OKEImage, imageId: ocid1.image.x}}
  networkConfig: {primaryVnicConfig: {subnetConfig: {subnetId: ocid1.subnet.x}}}
  capacityReservationConfigs: [{capacityReservationId: ocid1.capacityreservation.x}]
  kubeletConfig: {maxPods: 31}
  postBootstrapInitScript: ZWNobw==
"""


@pytest.mark.parametrize("key", ["node.kubernetes.io/instance-type", "oci.oraclecloud.com/instance-shape"])
def test_shapes_of_oci_are_types(tmp_path, key):
    found = seen(tmp_path, oci=OCI % (key, "VM.GPU.A10.1, VM.GPU.A10.2"))
    (pool_,) = found.pools
    assert (pool_.types, pool_.disk, pool_.image) == (("VM.GPU.A10.1", "VM.GPU.A10.2"), 200, "ocid1.image.x")
    assert (pool_.reservations, pool_.kubelet) == (("ocid1.capacityreservation.x",), {"maxPods": 31})
    assert unread(found) == ["spec.postBootstrapInitScript"]
