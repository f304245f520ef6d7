"""Node groups of eksctl, kops, the AWS CLI and Terraform become pools."""

import json

import pytest

from tests.audit.reading import seen, unread

EKSCTL = """\
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata: {name: ci, region: us-west-2}
vpc: {cidr: 10.0.0.0/16}
%s:
- name: gpu
  minSize: 0
  maxSize: 4
  labels: {team: ml}
  %s
"""


RESERVED = "capacityReservation: {capacityReservationTarget: {capacityReservationID: cr-1}}"
SHARE = "onDemandPercentageAboveBaseCapacity"
FOUR_GPUS = ("g4dn.12xlarge", "g6.12xlarge", "g5.12xlarge", "g6e.12xlarge")


def group(folder, more: str, kind: str = "managedNodeGroups"):
    (found,) = seen(folder, cluster=EKSCTL % (kind, more)).pools
    return found


def test_a_group_of_eksctl_is_a_pool(tmp_path):
    found = group(tmp_path, "instanceTypes: [g4dn.xlarge, g5.xlarge]")
    assert (found.name, found.scaler, found.group, found.region) == ("gpu", "managed group", "ci", "us-west-2")
    assert (found.types, found.minimum, found.maximum, found.disk) == (("g4dn.xlarge", "g5.xlarge"), 0, 4, 80)
    assert found.labels == {"team": "ml", "alpha.eksctl.io/nodegroup-name": "gpu"}
    assert found.at.place.endswith("cluster.yaml:6")


@pytest.mark.parametrize(
    ("kind", "more", "field", "value"),
    [
        ("managedNodeGroups", "spot: true", "capacities", ("spot",)),
        ("managedNodeGroups", "instanceMarketOptions: {marketType: capacity-block}", "capacities", ("capacity-block",)),
        ("managedNodeGroups", RESERVED, "reservations", ("cr-1",)),
        ("managedNodeGroups", RESERVED, "capacities", ("reserved",)),
        ("managedNodeGroups", "volumeSize: 300", "disk", 300),
        ("managedNodeGroups", "nodeRepairConfig: {enabled: true}", "repairs", True),
        ("managedNodeGroups", "availabilityZones: [us-west-2a]", "zones", ("us-west-2a",)),
        ("managedNodeGroups", "releaseVersion: 1.34.1-20260101", "image", "1.34.1-20260101"),
        ("managedNodeGroups", "ami: ami-1", "image", "ami-1"),
        ("managedNodeGroups", "volumeType: gp3", "types", ("m5.large",)),
        ("managedNodeGroups", "instanceSelector: {gpus: 4, vCPUs: 48}", "types", FOUR_GPUS),
        ("managedNodeGroups", "tags: {a: b}", "tags", {"a": "b"}),
        ("nodeGroups", "instanceType: mixed\n  instancesDistribution: {instanceTypes: [g5.xlarge]}", "types", ("g5.xlarge",)),
        ("nodeGroups", "instancesDistribution: {onDemandPercentageAboveBaseCapacity: 0}", "capacities", ("spot",)),
        ("nodeGroups", "instancesDistribution: {onDemandPercentageAboveBaseCapacity: 30}", "capacities", ("spot", "on-demand")),
        ("nodeGroups", f"instancesDistribution: {{{SHARE}: 0, onDemandBaseCapacity: 1}}", "capacities", ("on-demand", "spot")),
        ("nodeGroups", "instancesDistribution: {onDemandPercentageAboveBaseCapacity: 100}", "capacities", ("on-demand",)),
        ("nodeGroups", "kubeletExtraConfig: {maxPods: 9}", "kubelet", {"maxPods": 9}),
        ("nodeGroups", "propagateASGTags: true", "tags", {"k8s.io/cluster-autoscaler/node-template/label/team": "ml"}),
    ],
)  # fmt: skip
def test_keys_of_eksctl(tmp_path, kind, more, field, value):
    assert getattr(group(tmp_path, more, kind), field) == value


@pytest.mark.parametrize(
    ("taints", "found"),
    [
        ('[{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]', ["nvidia.com/gpu=true:NoSchedule"]),
        ('{nvidia.com/gpu: "true:NoExecute"}', ["nvidia.com/gpu=true:NoExecute"]),
        ("[{key: a, effect: NO_SCHEDULE}]", ["a=:NoSchedule"]),
        ("[{key: a, effect: Never}]", []),
    ],
)
def test_taints_in_every_spelling(tmp_path, taints, found):
    pool = group(tmp_path, f"taints: {taints}\n  propagateASGTags: true", "nodeGroups")
    assert [str(taint) for taint in pool.taints] == found
    assert len(pool.tags) == 1 + len(found)


@pytest.mark.parametrize(
    ("sizes", "least", "most"),
    [("", 2, 2), ("desiredCapacity: 3", 3, 3), ("minSize: 1", 1, 1), ("minSize: 0\n  maxSize: 9\n  desiredCapacity: 1", 0, 9)],
)
def test_sizes_that_a_file_leaves_out_are_those_of_eksctl(tmp_path, sizes, least, most):
    text = EKSCTL.replace("minSize: 0\n  maxSize: 4", sizes or "spot: false") % ("managedNodeGroups", "")
    (found,) = seen(tmp_path, cluster=text).pools
    assert (found.minimum, found.maximum) == (least, most)


KOPS = """\
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: gpu, labels: {kops.k8s.io/cluster: ci.acme.io}}
spec:
  role: Node
  image: ubuntu-24.04
  machineType: g4dn.xlarge
  minSize: 0
  maxSize: 3
  nodeLabels: {team: ml}
  taints: ["nvidia.com/gpu=true:NoSchedule", broken]
  mixedInstancesPolicy: {instances: [g4dn.xlarge, g4dn.2xlarge], onDemandAboveBase: 0}
  rootVolume: {size: 120}
  containerd: {nvidiaGPU: {enabled: true}}
"""


def test_a_group_of_kops_is_a_pool_with_tags_for_the_autoscaler(tmp_path):
    found = seen(tmp_path, ig=KOPS)
    (pool,) = found.pools
    assert (pool.name, pool.group, pool.types, pool.capacities) == (
        "gpu",
        "ci.acme.io",
        ("g4dn.xlarge", "g4dn.2xlarge"),
        ("spot",),
    )
    assert (pool.minimum, pool.maximum, pool.disk, pool.image) == (0, 3, 120, "ubuntu-24.04")
    prefix = "k8s.io/cluster-autoscaler/node-template/"
    assert pool.tags == {f"{prefix}label/team": "ml", f"{prefix}taint/nvidia.com/gpu": "true:NoSchedule"}
    assert unread(found) == ["spec.containerd"]


NODEGROUP = {
    "nodegroup": {
        "nodegroupName": "gpu",
        "nodegroupArn": "arn:aws:eks:eu-west-1:1:nodegroup/ci/gpu/x",
        "clusterName": "ci",
        "capacityType": "SPOT",
        "scalingConfig": {"minSize": 0, "maxSize": 5, "desiredSize": 1},
        "instanceTypes": ["g5.xlarge"],
        "amiType": "AL2023_x86_64_NVIDIA",
        "labels": {"team": "ml"},
        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
        "diskSize": 60,
        "news": 1,
    }
}


def test_an_answer_of_eks_is_a_pool(tmp_path):
    found = seen(tmp_path, group_json=json.dumps(NODEGROUP))
    (pool,) = found.pools
    assert (pool.name, pool.region, pool.group, pool.capacities) == ("gpu", "eu-west-1", "ci", ("spot",))
    assert (pool.types, pool.minimum, pool.maximum, pool.disk) == (("g5.xlarge",), 0, 5, 60)
    assert pool.labels == {"team": "ml", "eks.amazonaws.com/nodegroup": "gpu", "eks.amazonaws.com/capacityType": "SPOT"}
    assert [str(taint) for taint in pool.taints] == ["nvidia.com/gpu=true:NoSchedule"]
    assert unread(found) == ["nodegroup.news"]


PREFIX = "k8s.io/cluster-autoscaler/node-template/"
TAGS = {
    f"{PREFIX}label/team": "ml",
    f"{PREFIX}taint/nvidia.com/gpu": "true:NoSchedule",
    f"{PREFIX}resources/ephemeral-storage": "90Gi",
}


def test_an_auto_scaling_group_has_the_labels_and_taints_of_its_tags(tmp_path):
    one = {
        "AutoScalingGroupName": "gpu",
        "AutoScalingGroupARN": "arn:aws:autoscaling:us-east-1:1:autoScalingGroup:x:autoScalingGroupName/gpu",
        "MinSize": 0,
        "MaxSize": 2,
        "AvailabilityZones": ["us-east-1a"],
        "MixedInstancesPolicy": {"LaunchTemplate": {"Overrides": [{"InstanceType": "g4dn.xlarge"}]}},
        "Instances": [{"InstanceType": "g4dn.xlarge"}],
        "Tags": [{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in TAGS.items()],
    }
    found = seen(tmp_path, groups_json=json.dumps({"AutoScalingGroups": [one]}))
    (pool,) = found.pools
    assert (pool.scaler, pool.types, pool.nodes, pool.tags) == ("group", ("g4dn.xlarge",), 1, TAGS)
    assert (pool.labels, [str(taint) for taint in pool.taints]) == ({"team": "ml"}, ["nvidia.com/gpu=true:NoSchedule"])
    assert unread(found) == []


@pytest.mark.parametrize(("key", "kind"), [("CapacityReservations", "CapacityReservation"), ("Images", "Image")])
def test_other_answers_of_the_aws_cli_are_kept(tmp_path, key, kind):
    found = seen(tmp_path, answer_json=json.dumps({key: [{"Id": "a", "Deep": {"x": [1]}}, {"Id": "b"}]}))
    assert [keys.text("Id") for keys in found.of_kind(kind)] == ["a", "b"]
    assert unread(found) == []


PAIR = {"key": "x", "value": "y"}


def resource(type_: str, **values: object) -> dict[str, object]:
    return {"address": f"{type_}.gpu", "mode": "managed", "type": type_, "name": "gpu", "values": values}


@pytest.mark.parametrize("top", ["planned_values", "values"])
def test_groups_of_terraform_are_pools(tmp_path, top):
    size = {"min_size": 1, "max_size": 6, "desired_size": 1}
    taint = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
    named = {"node_group_name": "a", "cluster_name": "ci", "instance_types": ["g6.xlarge"], "scaling_config": [size]}
    nodes = resource(
        "aws_eks_node_group", **named, taint=taint, labels={"x": "y"}, capacity_type="ON_DEMAND", disk_size=50, odd=1
    )
    override = {"launch_template": [{"override": [{"instance_type": "g5.xlarge"}]}]}
    auto = resource("aws_autoscaling_group", name="b", min_size=0, max_size=2, mixed_instances_policy=[override], tag=[])
    tags = [
        resource("aws_autoscaling_group_tag", autoscaling_group_name="b", tag=[{"key": k, "value": v}]) for k, v in TAGS.items()
    ]
    oke = resource("oci_containerengine_node_pool", name="c", node_shape="VM.GPU.A10.1", initial_node_labels=[PAIR],
                   node_config_details=[{"size": 2, "placement_configs": [{"availability_domain": "AD-1"}]}])  # fmt: skip
    module = {
        "resources": [nodes, resource("aws_vpc", cidr="x")],
        "child_modules": [{"address": "m", "resources": [auto, *tags, oke]}],
    }
    document = {
        "format_version": "1.2",
        "terraform_version": "1.13.0",
        top: {"root_module": module, "outputs": {"a": {"value": 1}}},
    }
    found = seen(tmp_path, plan_json=json.dumps(document))
    a, b, c = found.pools
    assert (a.name, a.types, a.minimum, a.maximum, a.disk, a.group) == ("a", ("g6.xlarge",), 1, 6, 50, "ci")
    assert (b.name, b.types, b.tags, b.labels, len(b.taints)) == ("b", ("g5.xlarge",), TAGS, {"team": "ml"}, 1)
    assert (c.name, c.types, c.minimum, c.labels, c.zones) == ("c", ("VM.GPU.A10.1",), 2, {"x": "y"}, ("AD-1",))
    assert unread(found) == [f"{top}.root_module.resources[0].values.odd"]
