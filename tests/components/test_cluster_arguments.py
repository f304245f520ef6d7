"""Clusters of programs that use nothing else of gpu-ci: their arguments, what is wrong with them, and their outputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as kubernetes
import pulumi_oci as oci
import pytest
from pulumi.provider.experimental.component import ComponentProvider
from pydantic.alias_generators import to_camel

from components.eks.eks_gpu_cluster import EksGpuCluster
from components.oci.oke_gpu_cluster import OkeGpuCluster
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording
from tests.analyzed import alias_urns
from tests.cases import cases
from tests.components.oke import ANSWERS, CLUSTER, GROUP, NODE_POOL, RULE, SUBNET, the
from tests.components.recorded import ROOT, before, build_alone, named, of_type

EKS: Any = {
    "region": "us-west-2",
    "zones": ["us-west-2a", "us-west-2b"],
    "kubernetes_version": "1.34",
    "endpoint": {"public_cidrs": ["203.0.113.0/24"]},
}
OKE: Any = {
    "region": "us-sanjose-1",
    "zones": ["abcd:US-SANJOSE-1-AD-1"],
    "compartment_id": "ocid1.compartment.oc1..exampleci",
    "kubernetes_version": "1.34",
    "system_image_id": "ocid1.image.oc1.sjc.examplesystem",
    "endpoint": {"public_cidrs": ["203.0.113.0/24"]},
}
TENANCY = "ocid1.tenancy.oc1..example"
BUDGET = {"monthly_usd": 500, "emails": ["ops@gpu-ci.dev"]}
EKS_PLANE = "eks:index:Cluster"


def output(value: Any) -> pulumi.Output[Any]:
    return pulumi.Output.from_input(value)


def _eks(name: str, changes: Callable[[], dict[str, Any]]) -> None:
    cloud = [aws.Provider("aws", region="us-west-2"), eks.Provider("eks")]
    first = aws.iam.Role("first", assume_role_policy="{}", opts=pulumi.ResourceOptions(provider=cloud[0]))
    cluster = EksGpuCluster(name, EKS | changes(), pulumi.ResourceOptions(providers=cloud, depends_on=[first]))
    for output_name in EksGpuCluster.__annotations__:
        pulumi.export(output_name, getattr(cluster, output_name))


def _oke(name: str, changes: Callable[[], dict[str, Any]]) -> None:
    cloud = oci.Provider("oci", region="us-sanjose-1")
    first = oci.identity.DynamicGroup(
        "first", compartment_id=TENANCY, description="first", matching_rule="any", opts=pulumi.ResourceOptions(provider=cloud)
    )
    cluster = OkeGpuCluster(name, OKE | changes(), pulumi.ResourceOptions(providers=[cloud], depends_on=[first]))
    for output_name in OkeGpuCluster.__annotations__:
        pulumi.export(output_name, getattr(cluster, output_name))


PROGRAMS: dict[type, Callable[[str, Callable[[], dict[str, Any]]], None]] = {EksGpuCluster: _eks, OkeGpuCluster: _oke}


def built(kind: type, changes: Callable[[], dict[str, Any]] = dict, *, name: str = "gpu", preview: bool = True) -> Recording:
    """A program with this cluster alone. `changes` are arguments, made inside of the program."""
    program = partial(PROGRAMS[kind], name, changes)
    if preview:
        return build_alone(program)
    return record(
        program, StackConfig("gpu-ci", "test", ROOT / "Pulumi.test.yaml", {}, frozenset(), {}), preview=False, answers=ANSWERS
    )


def labels(resource: Any) -> dict[str, str]:
    held = resource.inputs.get("labels") or {each["key"]: each["value"] for each in resource.inputs["initialNodeLabels"]}
    return dict(held)


# -- defaults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "token", "tags", "pool"),
    [
        (EksGpuCluster, EKS_PLANE, "tags", "aws:eks/nodeGroup:NodeGroup"),
        (OkeGpuCluster, CLUSTER, "freeformTags", NODE_POOL),
    ],
)
def test_a_cluster_needs_only_its_required_arguments(kind, token, tags, pool):
    recording = built(kind)
    plane, (provider,) = the(recording, token), of_type(recording, "pulumi:providers:kubernetes")
    assert plane.inputs["name"] == provider.inputs["clusterIdentifier"] == "gpu", "the component's name"
    assert plane.inputs[tags] == {"gpu-ci/stack": "test"}, "the name of the stack"
    assert not plane.protect
    assert labels(the(recording, pool)) == {"gpu-ci/cluster": "gpu", "gpu-ci/pool": "system", "gpu-ci/role": "system"}
    governance = ("aws:budgets/budget:Budget", "aws:servicequotas/serviceQuota:ServiceQuota", "oci:Budget/budget:Budget")
    assert not [each.name for each in recording.resources if each.type in (*governance, "oci:Limits/quota:Quota")]


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_state_shows_the_arguments_of_a_cluster(kind):
    recording = built(kind, lambda: {"tags": {"Team-Name": "ml"}, "protect": True})
    inputs = the(recording, f"gpu-ci:index:{kind.__name__}").inputs
    given = EKS if kind is EksGpuCluster else OKE
    assert inputs["kubernetesVersion"] == "1.34"
    assert inputs["endpoint"] == {"publicCidrs": ["203.0.113.0/24"]}
    assert inputs["tags"] == {"Team-Name": "ml"}, "keys of a mapping keep their spelling"
    assert len(inputs) == len(given) + 2


def test_name_tags_and_stack_of_a_cluster_are_arguments():
    args = {"cluster_name": "mine", "tags": {"team": "ml"}, "stack_tag": "blue", "budget": BUDGET, "quotas": {"L-DB2E81BA": 16.0}}
    recording = built(EksGpuCluster, lambda: args)
    assert the(recording, EKS_PLANE).inputs["name"] == "mine"
    assert the(recording, EKS_PLANE).inputs["tags"] == {"gpu-ci/stack": "blue", "team": "ml"}
    (filters,) = the(recording, "aws:budgets/budget:Budget").inputs["costFilters"]
    assert filters["values"] == ["user:gpu-ci/stack$blue"]
    assert the(recording, "aws:servicequotas/serviceQuota:ServiceQuota").inputs["value"] == 16
    rights = named(recording, "gpu-autoscaler-rights", "aws:iam/rolePolicy:RolePolicy").inputs["policy"]
    assert "aws:ResourceTag/k8s.io/cluster-autoscaler/mine" in json.loads(rights)["Statement"][1]["Condition"]["StringEquals"]


@pytest.mark.parametrize(("install", "charts"), [(True, ["gpu-autoscaler-chart"]), (False, [])])
def test_another_tool_can_install_the_autoscaler(install, charts):
    recording = built(EksGpuCluster, lambda: {"install_autoscaler": install})
    assert [each.name for each in of_type(recording, "kubernetes:helm.sh/v3:Release")] == charts
    assert named(recording, "gpu-autoscaler-rights", "aws:iam/rolePolicy:RolePolicy"), "its rights exist either way"


def test_okes_plugin_is_as_the_arguments_say():
    addon = "oci:ContainerEngine/addon:Addon"
    assert not of_type(built(OkeGpuCluster, lambda: {"gpu_plugin": False}), addon)
    changes = {"gpu_plugin_version": "v0.18.1", "gpu_plugin_tolerations": [{"key": "spot"}]}
    found = the(built(OkeGpuCluster, lambda: changes), addon).inputs
    assert found["version"] == "v0.18.1"
    (pair,) = found["configurations"]
    assert json.loads(pair["value"]) == [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]


def test_machines_get_a_security_group_on_request():
    assert "gpu-security-machines" not in {each.name for each in of_type(built(OkeGpuCluster), GROUP)}
    recording = built(OkeGpuCluster, lambda: {"machine_security_group": True}, preview=False)
    assert named(recording, "gpu-security-machines", GROUP)
    assert recording.outputs["machine_security_group_id"] == "ocid1.networksecuritygroup.oc1..gpu-security-machines-id"


# -- outputs as arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [output, lambda held: {key: output(value) for key, value in held.items()}])
def test_an_eks_cluster_takes_the_outputs_of_a_network(whole):
    subnets = {zone: f"subnet-0123456789abcde{index}" for index, zone in enumerate(EKS["zones"])}

    def network() -> dict[str, Any]:
        return {"vpc_id": output("vpc-01234567"), "private_subnet_ids": whole(subnets)}

    recording = built(EksGpuCluster, network)
    assert not of_type(recording, "aws:ec2/vpc:Vpc")
    inputs = the(recording, EKS_PLANE).inputs
    assert (inputs["vpcId"], inputs["privateSubnetIds"]) == ("vpc-01234567", list(subnets.values()))
    assert recording.outputs["vpc_id"] == "vpc-01234567"
    assert recording.outputs["private_subnet_ids"] == subnets
    assert the(recording, "gpu-ci:index:EksGpuCluster").inputs["vpcId"] == "vpc-01234567"


def test_an_oke_cluster_takes_outputs_for_its_ocids():
    ids = {
        "compartment_id": "ocid1.compartment.oc1..other",
        "system_image_id": "ocid1.image.oc1.sjc.other",
        "tenancy_id": "ocid1.tenancy.oc1..other",
    }
    network = {
        "vcn_id": "ocid1.vcn.oc1.sjc.a",
        "endpoint_subnet_id": "ocid1.subnet.oc1.sjc.b",
        "node_subnet_id": "ocid1.subnet.oc1.sjc.c",
    }
    watched = "ocid1.compartment.oc1..watched"

    def changes() -> dict[str, Any]:
        return {
            **{key: output(value) for key, value in (ids | network).items()},
            "budget": BUDGET,
            "budget_compartment_id": output(watched),
        }

    recording = built(OkeGpuCluster, changes, preview=False)
    plane, pool = the(recording, CLUSTER).inputs, the(recording, NODE_POOL).inputs
    assert not of_type(recording, SUBNET)
    assert (plane["compartmentId"], plane["vcnId"]) == (ids["compartment_id"], network["vcn_id"])
    assert plane["endpointConfig"]["subnetId"] == network["endpoint_subnet_id"]
    assert pool["compartmentId"] == ids["compartment_id"]
    assert pool["nodeSourceDetails"]["imageId"] == ids["system_image_id"]
    assert {each.inputs["compartmentId"] for each in of_type(recording, GROUP)} == {ids["compartment_id"]}
    counted = the(recording, "oci:Budget/budget:Budget").inputs
    assert (counted["compartmentId"], counted["targets"]) == (ids["tenancy_id"], [watched])
    assert "example" not in str([each.inputs for each in recording.resources if each.type.startswith("oci:ContainerEngine")])


def test_a_budget_of_oci_counts_the_clusters_compartment_by_default():
    recording = built(OkeGpuCluster, lambda: {"tenancy_id": TENANCY, "budget": BUDGET})
    assert the(recording, "oci:Budget/budget:Budget").inputs["targets"] == [OKE["compartment_id"]]


# -- what is wrong -----------------------------------------------------------------------------------------------------

VPC: dict[str, Any] = {
    "vpc_id": "vpc-01234567",
    "private_subnet_ids": {"us-west-2a": "subnet-01234567", "us-west-2b": "subnet-01234568"},
}
VCN = {
    "vcn_id": "ocid1.vcn.oc1.sjc.a",
    "endpoint_subnet_id": "ocid1.subnet.oc1.sjc.b",
    "node_subnet_id": "ocid1.subnet.oc1.sjc.c",
}
WRONG: list[tuple[type, Callable[[], dict[str, Any]], str]] = [
    (EksGpuCluster, lambda: {"pools": {}}, "pools: unknown argument; known are region, zones"),
    (EksGpuCluster, lambda: {"region": None}, "region: required argument is missing; add it"),
    (EksGpuCluster, lambda: {"region": "mars"}, 'region: not a commercial AWS region; write for example us-west-2; got "mars"'),
    (EksGpuCluster, lambda: {"zones": ["us-west-2a"]}, "zones: an EKS control plane needs at least two different zones"),
    (EksGpuCluster, lambda: {"zones": "us-west-2a"}, 'zones: must be a list; got "us-west-2a"'),
    (EksGpuCluster, lambda: {"kubernetes_version": 1.34}, "kubernetesVersion: must be a text; got 1.34"),
    (EksGpuCluster, lambda: {"kubernetes_version": "1.2"}, "kubernetesVersion: no node image is known for this version"),
    (EksGpuCluster, lambda: {"endpoint": {}}, "endpoint: give either publicCidrs with your networks or private: true"),
    (
        EksGpuCluster,
        lambda: {"endpoint": {"public_cidrs": ["0.0.0.0/0"]}},
        "endpoint.publicCidrs[0]: the API server would be open",
    ),
    (EksGpuCluster, lambda: {"system": {"nodes": {"min": 0, "max": 2}}}, "system.nodes.min: the autoscaler runs in the system"),
    (
        EksGpuCluster,
        lambda: {"system": {"disks": "1Gi"}},
        "system.disks: unknown argument; known are instance_types, nodes, disk",
    ),
    (EksGpuCluster, lambda: {"vpc_id": "vpc-01234567"}, "privateSubnetIds: an existing network needs both vpcId and private"),
    (EksGpuCluster, lambda: VPC | {"vpc_cidr": "10.0.0.0/16"}, "vpcCidr: cidr and natGateways belong to a new VPC; remove them"),
    (EksGpuCluster, lambda: {"vpc_cidr": "10.0.0.0/8"}, "vpcCidr: a new VPC is an IPv4 network from /16 to /22"),
    (EksGpuCluster, lambda: VPC | {"vpc_id": "vpc"}, "vpcId: not a VPC id; write vpc-… as AWS shows it; got"),
    (EksGpuCluster, lambda: VPC | {"vpc_id": output("vpc")}, 'vpcId: not a VPC id; write vpc-… as AWS shows it; got "vpc"'),
    (
        EksGpuCluster,
        lambda: VPC | {"private_subnet_ids": VPC["private_subnet_ids"] | {"us-west-2b": output("b")}},
        'privateSubnetIds.us-west-2b: not a subnet id; write subnet-…; got "b"',
    ),
    (
        EksGpuCluster,
        lambda: VPC | {"private_subnet_ids": output({"us-west-2a": "subnet-01234567"})},
        'privateSubnetIds.us-west-2b: not a subnet id; write subnet-…; got ""',
    ),
    (EksGpuCluster, lambda: VPC | {"private_subnet_ids": {}}, "privateSubnetIds: an existing network needs both vpcId and priv"),
    (EksGpuCluster, lambda: {"admins": ["arn:aws:sts::1:role/x"]}, "admins[0]: not an IAM principal"),
    (EksGpuCluster, lambda: {"viewers": ["arn:aws:sts::1:role/x"]}, "viewers[0]: not an IAM principal"),
    (EksGpuCluster, lambda: {"upgrade_policy": "standard"}, "upgradePolicy: must be 'STANDARD' or 'EXTENDED'"),
    (EksGpuCluster, lambda: {"log_retention_days": 45}, "logRetentionDays: must be 1, 3, 5, 7, 14"),
    (EksGpuCluster, lambda: {"admins": [output("arn:aws:iam::123456789012:role/ops")]}, "admins[0]: must be known when the"),
    (EksGpuCluster, lambda: {"quotas": {"L-1": 8}}, "quotas.L-1: not an EC2 quota that a pool counts against; use one of: "),
    (EksGpuCluster, lambda: {"tags": {"aws:x": "y"}}, "tags.aws:x: a tag's key has 1 to 128 letters"),
    (EksGpuCluster, lambda: {"cluster_name": "-"}, "clusterName: not a name of an EKS cluster; write 1 to 100 letters"),
    (OkeGpuCluster, lambda: {"zones": ["abcd:PHX-AD-1"]}, "zones[0]: not an availability domain of us-sanjose-1; use its own"),
    (OkeGpuCluster, lambda: {"compartment_id": "ci"}, "compartmentId: not an OCID of kind compartment"),
    (OkeGpuCluster, lambda: {"compartment_id": output("ci")}, "compartmentId: not an OCID of kind compartment"),
    (
        OkeGpuCluster,
        lambda: {"system_image_id": "ocid1.image.oc1.iad.a"},
        "systemImageId: this OCID belongs to region us-ashburn-1",
    ),
    (
        OkeGpuCluster,
        lambda: {"system_image_id": output("ocid1.image.oc1.iad.a")},
        "systemImageId: this OCID belongs to region us-ash",
    ),
    (OkeGpuCluster, lambda: {"region": output("us-sanjose-1")}, "region: must be known when the program runs"),
    (OkeGpuCluster, lambda: {"vcn_id": output("ocid1.vcn.oc1.sjc.a")}, "endpointSubnetId: an existing network needs vcn, endp"),
    (
        OkeGpuCluster,
        lambda: VCN | {"vcn_id": output("ocid1.vcn.oc1.iad.a")},
        "vcnId: this OCID belongs to region us-ashburn-1; use one",
    ),
    (
        OkeGpuCluster,
        lambda: VCN | {"vcn_id": "ocid1.vcn.oc1.iad.a"},
        "vcnId: this OCID belongs to region us-ashburn-1; use one of",
    ),
    (OkeGpuCluster, lambda: {"budget_compartment_id": "x"}, "budgetCompartmentId: not an OCID of kind compartment"),
    (OkeGpuCluster, lambda: {"budget": BUDGET}, "tenancyId: budgets and quotas are created in the tenancy's root compartment"),
    (
        OkeGpuCluster,
        lambda: {"quotas": ["set compute-core quota"]},
        "tenancyId: budgets and quotas are created in the tenancy's root",
    ),
    (OkeGpuCluster, lambda: {"system": {"nodes": 2.5}}, "system.nodes: must be a whole number; got 2.5"),
    (OkeGpuCluster, lambda: {"system": {"memory": "1000Gi"}}, "system.memory: VM.Standard.E5.Flex with ocpus 2 has 2Gi to 128Gi"),
    (OkeGpuCluster, lambda: {"tags": {"a b": "c"}}, "tags.a b: OCI has tags with keys of 1 to 100 ASCII characters"),
    (OkeGpuCluster, lambda: {"iam": "x"}, "iam: unknown argument; known are region, zones, compartment_id"),
]


@cases(("kind", "changes", "message"), WRONG)
def test_a_wrong_argument_gives_one_line_with_its_path(kind, changes, message):
    with pytest.raises(pulumi.InputPropertyError) as caught:
        built(kind, changes, preview=False)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert caught.value.property_path == message.partition(":")[0] or message.startswith(f"{caught.value.property_path}:")


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_name_that_is_no_label_is_refused(kind):
    with pytest.raises(pulumi.InputPropertyError, match="name: a cluster's name is a label of its nodes"):
        built(kind, name="a/b")


# -- what others get ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "plane"), [(EksGpuCluster, EKS_PLANE), (OkeGpuCluster, CLUSTER)])
def test_a_cluster_waits_for_what_its_caller_names(kind, plane):
    recording = built(kind, preview=False)
    (first,) = [each for each in recording.resources if each.name == "first"]
    network = [*of_type(recording, "aws:ec2/vpc:Vpc"), *of_type(recording, "oci:Core/vcn:Vcn")]
    for resource in (the(recording, plane), *network):
        assert first.urn in resource.dependencies, resource.name


@pytest.mark.parametrize("kind", PROGRAMS)
def test_every_output_of_the_schema_is_one_that_the_cluster_has(kind):
    schema = json.loads(ComponentProvider([kind], "gpu-ci", "acme", "0.1.0").schema or "")
    found = schema["resources"][f"gpu-ci:index:{kind.__name__}"]
    # In an update the recorder leaves out what it does not know.
    outputs = built(kind, lambda: {"machine_security_group": True} if kind is OkeGpuCluster else {}).outputs
    assert {to_camel(name) for name in outputs} == found["properties"].keys()
    assert all(each.get("description") for each in (*found["properties"].values(), *found["inputProperties"].values()))


def test_the_provider_of_the_home_region_belongs_to_the_cluster_and_replaces_nothing():
    recording = built(OkeGpuCluster, lambda: {"tenancy_id": TENANCY, "home_region": "us-ashburn-1", "budget": BUDGET})
    home = named(recording, "gpu-oci-home", "pulumi:providers:oci")
    assert home.inputs["region"] == "us-ashburn-1"
    assert recording.by_urn[home.parent].type == "gpu-ci:index:OkeGpuCluster"
    assert alias_urns(home) == ("urn:pulumi:test::gpu-ci::pulumi:providers:oci::gpu-oci-home",), "where older versions created it"
    assert the(recording, "oci:Budget/budget:Budget").provider_urn == home.urn


def test_a_cluster_in_the_home_region_uses_its_own_provider():
    recording = built(OkeGpuCluster, lambda: {"tenancy_id": TENANCY, "home_region": "us-sanjose-1", "budget": BUDGET})
    (cloud,) = of_type(recording, "pulumi:providers:oci")
    assert the(recording, "oci:Budget/budget:Budget").provider_urn == cloud.urn


def test_charts_can_wait_for_a_cluster():
    def program() -> None:
        cloud = oci.Provider("oci", region="us-sanjose-1")
        cluster = OkeGpuCluster("gpu", OKE, pulumi.ResourceOptions(providers=[cloud]))
        opts = pulumi.ResourceOptions(provider=cluster.kubernetes_provider, depends_on=list(cluster.ready))
        kubernetes.core.v1.ConfigMap("later", opts=opts)

    recording = build_alone(program)
    (later,) = [each for each in recording.resources if each.name == "later"]
    assert {named(recording, "gpu-system-nodes", NODE_POOL).urn, of_type(recording, RULE)[0].urn} <= before(recording, later)
