"""Network, security groups, control plane, system pool, add-ons and the autoscaler's rights on OKE."""

from __future__ import annotations

import ipaddress
import json

import pytest

from components.oci.security import everything_but
from fleet.facts.scheduling import OKE_PROFILE
from fleet.providers.oke.network import endpoint_subnet, node_subnet
from fleet.settings.egress import CLOSED
from gpu_ci.offline.record import made_id
from tests.builders import oke_pool, vm, vm_per_job
from tests.cases import cases
from tests.components.oke import (
    ADDON,
    CLUSTER,
    GROUP,
    NODE_POOL,
    POLICY,
    RULE,
    SERVICES_LABEL,
    SUBNET,
    TAGS,
    answered,
    made,
    planned,
    the,
)
from tests.components.recorded import before, named, of_type

GIVEN = {
    "vcn": "ocid1.vcn.oc1.sjc.example",
    "endpointSubnet": "ocid1.subnet.oc1.sjc.exampleendpoint",
    "nodeSubnet": "ocid1.subnet.oc1.sjc.examplenodes",
}
PRIVATE_ENDPOINT = {"private": True, "reachableFrom": "vpn"}


@pytest.fixture(scope="module")
def preview():
    return planned(runners={"vm": vm(), "job": vm_per_job()})


@pytest.fixture(scope="module")
def update():
    return made(runners={"vm": vm(), "job": vm_per_job()})


def addon(recording, name):
    (found,) = [each for each in of_type(recording, ADDON) if each.inputs["addonName"] == name]
    return found


def values(resource):
    return {pair["key"]: pair["value"] for pair in resource.inputs["configurations"]}


def rules_of(recording, role, direction):
    return [
        rule.inputs
        for rule in of_type(recording, RULE)
        if rule.inputs["networkSecurityGroupId"] == made_id(GROUP, f"sjc-security-{role}")
        and rule.inputs["direction"] == direction
    ]


# -- control plane -----------------------------------------------------------------------------------------------------


def test_control_plane_is_enhanced_and_gives_pods_addresses_of_the_vcn(preview):
    inputs = the(preview, CLUSTER).inputs
    assert inputs["type"] == "ENHANCED_CLUSTER", "add-ons and workload identity need it"
    assert inputs["clusterPodNetworkOptions"] == [{"cniType": "OCI_VCN_IP_NATIVE"}]
    assert inputs["kubernetesVersion"] == "v1.34.10"
    assert inputs["name"] == "gpu-ci-test-sjc"
    assert inputs["options"]["addOns"] == {"isKubernetesDashboardEnabled": False, "isTillerEnabled": False}


def test_a_public_endpoint_admits_only_the_networks_named(update):
    assert the(update, CLUSTER).inputs["endpointConfig"] == {
        "isPublicIpEnabled": True,
        "nsgIds": ["ocid1.networksecuritygroup.oc1..sjc-security-api-id"],
        "subnetId": "ocid1.subnet.oc1..sjc-network-endpoint-id",
    }
    from_networks = [rule for rule in rules_of(update, "api", "INGRESS") if rule["sourceType"] == "CIDR_BLOCK"]
    assert [(rule["source"], rule["protocol"], rule["tcpOptions"]["destinationPortRange"]) for rule in from_networks] == [
        ("203.0.113.0/24", "6", {"min": 6443, "max": 6443})
    ]


@pytest.mark.parametrize(
    ("changes", "sources"),
    [
        ({}, ["10.0.0.0/16"]),
        ({"endpoint": PRIVATE_ENDPOINT | {"privateCidrs": ["10.9.0.0/16"]}}, ["10.9.0.0/16"]),
        ({"network": GIVEN}, []),
    ],
)
def test_a_private_endpoint_is_off_the_internet_and_has_a_door_for_those_who_deploy(changes, sources):
    recording = made(**({"endpoint": PRIVATE_ENDPOINT} | changes))
    assert the(recording, CLUSTER).inputs["endpointConfig"]["isPublicIpEnabled"] is False
    assert [rule["source"] for rule in rules_of(recording, "api", "INGRESS") if rule["sourceType"] == "CIDR_BLOCK"] == sources
    assert not of_type(recording, "oci:Core/internetGateway:InternetGateway"), "nothing private has a way to the internet but NAT"
    assert all(subnet.inputs["prohibitPublicIpOnVnic"] for subnet in of_type(recording, SUBNET))


@pytest.mark.parametrize(("endpoint", "asked"), [({}, "PUBLIC_ENDPOINT"), ({"endpoint": PRIVATE_ENDPOINT}, "PRIVATE_ENDPOINT")])
def test_the_kubeconfig_is_asked_of_oke_for_the_endpoint_in_use(endpoint, asked):
    token = "oci:ContainerEngine/getClusterKubeConfig:getClusterKubeConfig"  # noqa: S105 - a type token
    seen = []

    def answer(arguments):
        seen.append(dict(arguments))
        return {"content": "the kubeconfig"}

    recording = answered({token: answer}, **endpoint)
    assert seen == [{"clusterId": "ocid1.cluster.oc1..sjc-control-plane-id", "endpoint": asked, "tokenVersion": "2.0.0"}]
    provider = the(recording, "pulumi:providers:kubernetes")
    assert provider.inputs["kubeconfig"] == "the kubeconfig"
    assert provider.inputs["clusterIdentifier"] == "gpu-ci-test-sjc", "a new kubeconfig must not replace all that is inside"
    assert the(recording, CLUSTER).urn in provider.dependencies


@pytest.mark.parametrize(
    ("cidr", "services"), [("10.0.0.0/16", "10.96.0.0/16"), ("10.96.0.0/16", "10.97.0.0/16"), ("10.96.0.0/20", "10.97.0.0/16")]
)
def test_services_and_the_vcn_never_overlap(cidr, services):
    inputs = the(planned(network={"cidr": cidr}), CLUSTER).inputs
    assert inputs["options"]["kubernetesNetworkConfig"]["servicesCidr"] == services


# -- network -----------------------------------------------------------------------------------------------------------


def test_nodes_are_private_and_leave_by_nat_and_service_gateway(update):
    nodes = named(update, "sjc-network-nodes", SUBNET).inputs
    assert nodes["prohibitPublicIpOnVnic"] is True
    assert "availabilityDomain" not in nodes, "pools and machines of every domain are in it"
    assert nodes["routeTableId"] == "ocid1.routetable.oc1..sjc-network-private-id"
    table = named(update, "sjc-network-private", "oci:Core/routeTable:RouteTable").inputs
    assert [(rule["destination"], rule["networkEntityId"]) for rule in table["routeRules"]] == [
        ("0.0.0.0/0", "ocid1.natgateway.oc1..sjc-network-nat-id"),
        (SERVICES_LABEL, "ocid1.servicegateway.oc1..sjc-network-services-id"),
    ]
    (service,) = the(update, "oci:Core/serviceGateway:ServiceGateway").inputs["services"]
    assert service == {"serviceId": "ocid1.service.oc1.sjc.example"}


def test_only_the_endpoint_of_a_public_cluster_stands_in_a_public_subnet(update):
    public = [subnet.name for subnet in of_type(update, SUBNET) if not subnet.inputs["prohibitPublicIpOnVnic"]]
    assert public == ["sjc-network-endpoint"]
    table = named(update, "sjc-network-public", "oci:Core/routeTable:RouteTable").inputs
    assert [rule["networkEntityId"] for rule in table["routeRules"]] == ["ocid1.internetgateway.oc1..sjc-network-internet-id"], (
        "OCI refuses the service gateway beside an internet gateway"
    )


def test_the_default_security_list_lets_nothing_in_or_out_before_anything_starts(preview):
    closed = the(preview, "oci:Core/defaultSecurityList:DefaultSecurityList")
    assert closed.inputs["ingressSecurityRules"] == []
    assert closed.inputs["egressSecurityRules"] == []
    assert not of_type(preview, "oci:Core/securityList:SecurityList")
    for subnet in of_type(preview, SUBNET):
        assert "securityListIds" not in subnet.inputs
        assert closed.urn in subnet.dependencies, "OCI's own default admits SSH from anywhere"


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "192.168.16.0/20", "10.1.2.0/24"])
def test_subnets_are_inside_the_vcn_and_apart(cidr):
    nodes, endpoint = map(ipaddress.IPv4Network, (node_subnet(cidr)[0], endpoint_subnet(cidr)))
    vcn = ipaddress.IPv4Network(cidr)
    assert nodes.subnet_of(vcn)
    assert endpoint.subnet_of(vcn)
    assert not nodes.overlaps(endpoint)
    assert nodes.num_addresses == vcn.num_addresses // 2
    assert endpoint.num_addresses == 16


def test_another_domain_moves_no_subnet():
    one = planned(region="us-ashburn-1", zones=["abcd:US-ASHBURN-AD-1"], nodeImages=IAD_IMAGES)
    three = planned(region="us-ashburn-1", zones=[f"abcd:US-ASHBURN-AD-{n}" for n in (1, 2, 3)], nodeImages=IAD_IMAGES)
    ranges = [[subnet.inputs["cidrBlock"] for subnet in of_type(recording, SUBNET)] for recording in (one, three)]
    assert ranges[0] == ranges[1] != [], "a moved subnet replaces everything in it"


IAD_IMAGES = {kind: {"id": f"ocid1.image.oc1.iad.example{kind[-3:]}"} for kind in ("system", "oke-gpu", "ubuntu")}


def test_given_subnets_are_used_as_they_are():
    recording = made(network=GIVEN, runners={"vm": vm()})
    for token in ("oci:Core/vcn:Vcn", SUBNET, "oci:Core/natGateway:NatGateway"):
        assert not of_type(recording, token)
    cluster = the(recording, CLUSTER).inputs
    assert cluster["vcnId"] == GIVEN["vcn"]
    assert cluster["endpointConfig"]["subnetId"] == GIVEN["endpointSubnet"]
    assert {group.inputs["vcnId"] for group in of_type(recording, GROUP)} == {GIVEN["vcn"]}
    for pool in of_type(recording, NODE_POOL):
        (placement,) = pool.inputs["nodeConfigDetails"]["placementConfigs"]
        assert placement["subnetId"] == GIVEN["nodeSubnet"]


def test_a_first_plan_asks_no_cloud_and_leaves_what_only_the_cloud_knows_unknown(preview):
    rule = named(preview, "sjc-security-api-to-services", RULE).inputs
    assert str(rule["destination"]) == "[unknown]"
    assert str(the(preview, "pulumi:providers:kubernetes").inputs["kubeconfig"]) == "[unknown]"


# -- security groups ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"endpoint": PRIVATE_ENDPOINT}, {"network": GIVEN}])
def test_nobody_has_ssh(changes):
    recording = made(runners={"vm": vm(), "job": vm_per_job()}, **changes)
    networks = [
        rule.inputs
        for rule in of_type(recording, RULE)
        if rule.inputs["direction"] == "INGRESS" and rule.inputs["sourceType"] == "CIDR_BLOCK"
    ]
    assert networks
    for rule in networks:
        opened = rule.get("tcpOptions") or rule.get("icmpOptions")
        assert (rule["protocol"], opened) in (
            ("6", {"destinationPortRange": {"min": 6443, "max": 6443}}),
            ("1", {"type": 3, "code": 4}),
        ), rule["description"]
    for pool in of_type(recording, NODE_POOL):
        assert "sshPublicKey" not in pool.inputs


def test_nodes_talk_among_themselves_and_with_the_api(update):
    inside = {rule["source"] for rule in rules_of(update, "workers", "INGRESS") if rule["sourceType"] == "NETWORK_SECURITY_GROUP"}
    assert inside == {
        "ocid1.networksecuritygroup.oc1..sjc-security-workers-id",
        "ocid1.networksecuritygroup.oc1..sjc-security-api-id",
    }
    ports = {
        rule["tcpOptions"]["destinationPortRange"]["min"]
        for rule in rules_of(update, "api", "INGRESS")
        if rule["source"] == "ocid1.networksecuritygroup.oc1..sjc-security-workers-id" and rule["protocol"] == "6"
    }
    assert ports == {6443, 12250}, "12250 is OKE's own channel; workload identity goes through it"
    (out,) = rules_of(update, "workers", "EGRESS")
    assert (out["destination"], out["protocol"]) == ("0.0.0.0/0", "all")
    services = [rule for rule in rules_of(update, "api", "EGRESS") if rule["destinationType"] == "SERVICE_CIDR_BLOCK"]
    assert [(rule["destination"], rule["protocol"]) for rule in services] == [(SERVICES_LABEL, "6"), (SERVICES_LABEL, "1")]


def test_machines_that_run_jobs_admit_nobody_and_reach_no_closed_network(update):
    assert rules_of(update, "machines", "INGRESS") == []
    blocks = [ipaddress.ip_network(rule["destination"]) for rule in rules_of(update, "machines", "EGRESS")]
    assert blocks, "they reach GitHub"
    for closed in map(ipaddress.ip_network, CLOSED):
        assert not any(block.overlaps(closed) for block in blocks)
    assert any(ipaddress.ip_address("140.82.112.3") in block for block in blocks)
    others = [rule for role in ("api", "workers") for rule in rules_of(update, role, "INGRESS")]
    assert "ocid1.networksecuritygroup.oc1..sjc-security-machines-id" not in {rule["source"] for rule in others}
    assert len(blocks) <= 120, "a group holds no more rules"


def test_a_vcn_of_public_addresses_is_left_out_too():
    recording = made(network={"cidr": "203.0.112.0/20"}, runners={"vm": vm()})
    blocks = [ipaddress.ip_network(rule["destination"]) for rule in rules_of(recording, "machines", "EGRESS")]
    assert not any(block.overlaps(ipaddress.ip_network("203.0.112.0/20")) for block in blocks)
    assert len(blocks) <= 120


def test_everything_but_some_networks_is_all_the_rest():
    left_out = [ipaddress.ip_network(cidr) for cidr in CLOSED]
    blocks = [ipaddress.ip_network(block) for block in everything_but(*CLOSED)]
    assert sum(block.num_addresses for block in (*blocks, *left_out)) == 2**32
    assert everything_but("0.0.0.0/0") == []
    assert everything_but("10.0.0.0/8", "10.1.0.0/16") == everything_but("10.0.0.0/8")


def test_without_machines_there_is_no_group_for_them():
    assert {group.name for group in of_type(planned(), GROUP)} == {"sjc-security-api", "sjc-security-workers"}


# -- system pool -------------------------------------------------------------------------------------------------------


def test_the_system_pool_is_untainted_flexible_and_of_the_size_that_the_settings_say(preview):
    pool = named(preview, "sjc-system-nodes", NODE_POOL)
    assert pool.inputs["nodeShape"] == "VM.Standard.E5.Flex"
    assert pool.inputs["nodeShapeConfig"] == {"ocpus": 2, "memoryInGbs": 16}
    assert pool.inputs["nodeConfigDetails"]["size"] == 2
    assert pool.ignore_changes == (), "the autoscaler leaves it alone"
    assert {pair["key"]: pair["value"] for pair in pool.inputs["initialNodeLabels"]} == {
        "gpu-ci/cluster": "sjc",
        "gpu-ci/pool": "system",
        "gpu-ci/role": "system",
    }
    assert "taint" not in str(pool.inputs)


@cases(("ocpus", "pods"), [(1, 31), (2, 31), (4, 93), (5, 110), (16, 110)])
def test_a_system_node_has_no_more_pods_than_its_cards_have_addresses(ocpus, pods):
    pool = named(planned(system={"ocpus": ocpus, "memory": "64Gi"}), "sjc-system-nodes", NODE_POOL)
    network = pool.inputs["nodeConfigDetails"]["nodePoolPodNetworkOptionDetails"]
    assert network["maxPodsPerNode"] == pods


def test_charts_and_addons_wait_for_system_nodes_and_the_way_to_the_api(preview):
    system = named(preview, "sjc-system-nodes", NODE_POOL)
    door = named(preview, "sjc-security-api-from-203.0.113.0/24", RULE)
    waiting = [*of_type(preview, ADDON), *of_type(preview, "kubernetes:helm.sh/v3:Release")]
    assert len(waiting) > 2
    for resource in waiting:
        assert {system.urn, door.urn} <= before(preview, resource), resource.name


# -- add-ons -----------------------------------------------------------------------------------------------------------


def test_okes_plugin_is_installed_where_it_advertises(preview):
    plugin = addon(preview, "NvidiaGpuPlugin")
    assert plugin.inputs["removeAddonResourcesOnDelete"] is True
    assert "configurations" not in plugin.inputs


@pytest.mark.parametrize("enablement", ["device-plugin", "gpu-operator"])
def test_okes_plugin_is_not_installed_where_something_else_advertises(enablement):
    addons = [each.inputs["addonName"] for each in of_type(planned(enablement=enablement), ADDON)]
    assert addons == ["ClusterAutoscaler"]


def test_okes_plugin_tolerates_preemptible_nodes_where_there_are_any():
    recording = planned(pools={"a10": oke_pool(), "v100": oke_pool(instanceTypes=["VM.GPU3.1"], capacity="spot")})
    (held,) = values(addon(recording, "NvidiaGpuPlugin")).items()
    assert held[0] == "tolerations"
    assert json.loads(held[1]) == [toleration.manifest() for toleration in OKE_PROFILE.tolerations]


def test_the_autoscaler_has_the_range_of_every_pool_by_its_id():
    recording = made(pools={"a10": oke_pool(), "a10-2": oke_pool(instanceTypes=["VM.GPU.A10.2"], nodes={"min": 1, "max": 3})})
    held = values(addon(recording, "ClusterAutoscaler"))
    assert held["nodes"] == "0:2:ocid1.nodepool.oc1..sjc-a10-nodes-id, 1:3:ocid1.nodepool.oc1..sjc-a10-2-nodes-id"
    assert held["authType"] == "workload"
    assert held["scaleDownUnneededTime"] == "10m0s"
    assert held["maxNodeProvisionTime"] == "25m"
    assert held["enforceNodeGroupMinSize"] == "true", "a pool's size is set once, so a raised min would wait for a job"
    assert json.loads(held["nodeSelectors"]) == {"gpu-ci/pool": "system"}
    assert all(isinstance(value, str) for value in held.values()), "the add-on takes strings alone"


def test_the_idle_delay_is_the_clusters():
    assert values(addon(made(idleDelay="5m"), "ClusterAutoscaler"))["scaleDownUnneededTime"] == "5m0s"


def test_the_autoscaler_may_size_pools_of_its_own_compartment_as_its_own_service_account(update):
    policy = named(update, "sjc-autoscaler-rights", POLICY).inputs
    assert len(policy["statements"]) == 6
    for statement in policy["statements"]:
        assert statement.endswith(
            " in compartment id ocid1.compartment.oc1..example where all {request.principal.type = 'workload', "
            "request.principal.namespace = 'kube-system', request.principal.service_account = 'cluster-autoscaler', "
            "request.principal.cluster_id = 'ocid1.cluster.oc1..sjc-control-plane-id'}"
        )
        assert "all-resources" not in statement
    assert [statement.partition(" in ")[0].removeprefix("Allow any-user to ") for statement in policy["statements"]] == [
        "manage cluster-node-pools",
        "manage instance-family",
        "use subnets",
        "read virtual-network-family",
        "use vnics",
        "inspect compartments",
    ]


def test_the_autoscaler_starts_with_its_rights(preview):
    rights = named(preview, "sjc-autoscaler-rights", POLICY)
    assert rights.urn in addon(preview, "ClusterAutoscaler").dependencies


def test_without_a_pool_there_is_no_autoscaler():
    recording = planned(pools={}, runners={"job": vm_per_job()})
    assert [each.inputs["addonName"] for each in of_type(recording, ADDON)] == ["NvidiaGpuPlugin"]


# -- everything --------------------------------------------------------------------------------------------------------


def test_nothing_uses_a_default_provider_and_everything_of_oci_has_the_one_of_its_region(preview):
    (cloud,) = of_type(preview, "pulumi:providers:oci")
    assert cloud.inputs["region"] == "us-sanjose-1"
    for resource in preview.resources:
        if resource.type.startswith("oci:"):
            assert resource.provider_urn == cloud.urn, resource.name
        elif resource.custom and not resource.type.startswith("pulumi:"):
            assert resource.provider, resource.name


def test_everything_that_takes_tags_has_the_fleets(preview):
    untagged = {RULE, ADDON}
    for resource in preview.resources:
        if resource.type.startswith("oci:") and resource.type not in untagged:
            assert resource.inputs["freeformTags"].items() >= TAGS.items(), f"{resource.name}: OCI has no default tags"


def test_a_given_network_of_another_compartment_is_the_autoscalers_to_use_and_no_more():
    given = {
        "vcn": "ocid1.vcn.oc1..example",
        "endpointSubnet": "ocid1.subnet.oc1..exampleendpoint",
        "nodeSubnet": "ocid1.subnet.oc1..examplenodes",
        "compartment": "ocid1.compartment.oc1..examplenetwork",
    }
    recording = made(network=given)
    own = named(recording, "sjc-autoscaler-rights", POLICY).inputs
    network = named(recording, "sjc-autoscaler-network-rights", POLICY).inputs
    assert network["compartmentId"] == "ocid1.compartment.oc1..examplenetwork"
    verbs = [statement.partition(" in compartment ")[0].removeprefix("Allow any-user to ") for statement in network["statements"]]
    assert verbs == ["use subnets", "read virtual-network-family", "use vnics", "inspect compartments"]
    assert any("manage instance-family" in statement for statement in own["statements"])
    (addon,) = [found for found in of_type(recording, ADDON) if found.inputs["addonName"] == "ClusterAutoscaler"]
    assert {named(recording, name, POLICY).urn for name in ("sjc-autoscaler-rights", "sjc-autoscaler-network-rights")} <= set(
        addon.dependencies
    )


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "10.20.0.0/20"])
def test_the_settings_count_the_addresses_of_the_subnet_that_is_made(cidr):
    subnets = {subnet.name: subnet.inputs["cidrBlock"] for subnet in of_type(planned(network={"cidr": cidr}), SUBNET)}
    assert node_subnet(cidr)[0] == subnets["sjc-network-nodes"]
