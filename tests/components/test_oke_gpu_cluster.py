"""Network, security groups, control plane, system pool, add-ons and the autoscaler's rights on OKE."""

from __future__ import annotations

import ipaddress
import json

import pytest

from components.oci.oke_gpu_cluster import services_cidr
from components.oci.security import everything_but
from fleet.facts.hardware import flexible
from fleet.facts.offer import allocatable
from fleet.facts.scheduling import OKE_PROFILE
from fleet.providers.oke.network import endpoint_subnet, node_subnet
from fleet.settings.egress import CLOSED
from gpu_ci.offline.record import made_id
from tests.builders import oke_pool, vm
from tests.cases import cases
from tests.components.oke import (
    ADDON,
    CLUSTER,
    CNCF,
    EMPTY,
    GROUP,
    IN_DOMAINS,
    MACHINES,
    NODE_POOL,
    OPERATOR,
    PLUGIN,
    POLICY,
    RULE,
    SERVICES_LABEL,
    SUBNET,
    TAGS,
    answered,
    fleet,
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
PRIVATE = EMPTY | {"endpoint": PRIVATE_ENDPOINT}
SMALL = EMPTY | {"network": {"cidr": "10.96.0.0/20"}, "system": {"ocpus": 4, "memory": "64Gi"}}
"""A network that OKE's own range of services would overlap, and a system node with more cards."""


@pytest.fixture(scope="module")
def preview():
    return planned(**MACHINES)


@pytest.fixture(scope="module")
def update():
    return made(**MACHINES)


@pytest.fixture(scope="module")
def given():
    """Machines and a pool in a network of another compartment."""
    return made(network=GIVEN | {"compartment": "ocid1.compartment.oc1..examplenetwork"}, runners={"vm": vm()})


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
    recording = made(**PRIVATE | changes)
    assert the(recording, CLUSTER).inputs["endpointConfig"]["isPublicIpEnabled"] is False
    assert [rule["source"] for rule in rules_of(recording, "api", "INGRESS") if rule["sourceType"] == "CIDR_BLOCK"] == sources
    assert not of_type(recording, "oci:Core/internetGateway:InternetGateway"), "nothing private has a way to the internet but NAT"
    assert all(subnet.inputs["prohibitPublicIpOnVnic"] for subnet in of_type(recording, SUBNET))


@pytest.mark.parametrize(("endpoint", "asked"), [(EMPTY, "PUBLIC_ENDPOINT"), (PRIVATE, "PRIVATE_ENDPOINT")])
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


@cases(
    ("cidr", "services"), [("10.0.0.0/16", "10.96.0.0/16"), ("10.96.0.0/16", "10.97.0.0/16"), ("10.96.0.0/20", "10.97.0.0/16")]
)
def test_services_and_the_vcn_never_overlap(cidr, services):
    assert services_cidr(fleet(network={"cidr": cidr}).clusters["sjc"]) == services


def test_the_cluster_has_its_range_of_services(preview):
    for recording, services in ((preview, "10.96.0.0/16"), (planned(**SMALL), "10.97.0.0/16")):
        assert the(recording, CLUSTER).inputs["options"]["kubernetesNetworkConfig"]["servicesCidr"] == services


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


def test_another_domain_moves_no_subnet(preview):
    ranges = [
        [subnet.inputs["cidrBlock"] for subnet in of_type(recording, SUBNET)] for recording in (preview, planned(**IN_DOMAINS))
    ]
    assert ranges[0] == ranges[1] != [], "a moved subnet replaces everything in it"


def test_given_subnets_are_used_as_they_are(given):
    for token in ("oci:Core/vcn:Vcn", SUBNET, "oci:Core/natGateway:NatGateway"):
        assert not of_type(given, token)
    cluster = the(given, CLUSTER).inputs
    assert cluster["vcnId"] == GIVEN["vcn"]
    assert cluster["endpointConfig"]["subnetId"] == GIVEN["endpointSubnet"]
    assert {group.inputs["vcnId"] for group in of_type(given, GROUP)} == {GIVEN["vcn"]}
    for pool in of_type(given, NODE_POOL):
        (placement,) = pool.inputs["nodeConfigDetails"]["placementConfigs"]
        assert placement["subnetId"] == GIVEN["nodeSubnet"]


def test_a_first_plan_asks_no_cloud_and_leaves_what_only_the_cloud_knows_unknown(preview):
    rule = named(preview, "sjc-security-api-to-services", RULE).inputs
    assert str(rule["destination"]) == "[unknown]"
    assert str(the(preview, "pulumi:providers:kubernetes").inputs["kubeconfig"]) == "[unknown]"


# -- security groups ---------------------------------------------------------------------------------------------------


def test_nobody_has_ssh(update, given):
    for recording in (update, made(**PRIVATE), given):
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
    recording = made(pools={}, network={"cidr": "203.0.112.0/20"}, runners={"vm": vm()})
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
    assert allocatable(flexible("VM.Standard.E5.Flex", ocpus, 64 * 1024), 100 * 1024).pods == pods
    assert fleet(system={"ocpus": ocpus, "memory": "64Gi"}).clusters["sjc"].system.machine.max_pods == (max(ocpus, 2) - 1) * 31


def test_the_system_pool_says_how_many_pods_its_nodes_have(preview):
    for recording, pods in ((preview, 31), (planned(**SMALL), 93)):
        details = named(recording, "sjc-system-nodes", NODE_POOL).inputs["nodeConfigDetails"]
        assert details["nodePoolPodNetworkOptionDetails"]["maxPodsPerNode"] == pods


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


@pytest.mark.parametrize("changes", [PLUGIN, OPERATOR])
def test_okes_plugin_is_not_installed_where_something_else_advertises(changes):
    addons = [each.inputs["addonName"] for each in of_type(planned(**changes), ADDON)]
    assert addons == ["ClusterAutoscaler"]


@pytest.fixture(scope="module")
def ranged():
    """Pools of several ranges, one of preemptible nodes, and an autoscaler that waits less than by default."""
    double = oke_pool(instanceTypes=["VM.GPU.A10.2"], nodes={"min": 1, "max": 3})
    spot = oke_pool(instanceTypes=["VM.GPU3.1"], capacity="spot")
    return made(pools={"a10": oke_pool(), "a10-2": double, "v100": spot}, idleDelay="5m")


def test_okes_plugin_tolerates_preemptible_nodes_where_there_are_any(ranged):
    (held,) = values(addon(ranged, "NvidiaGpuPlugin")).items()
    assert held[0] == "tolerations"
    assert json.loads(held[1]) == [toleration.manifest() for toleration in OKE_PROFILE.tolerations]


def test_the_autoscaler_has_the_range_of_every_pool_by_its_id(ranged):
    held = values(addon(ranged, "ClusterAutoscaler"))
    ranges = {"a10": "0:2", "a10-2": "1:3", "v100": "0:2"}
    assert held["nodes"] == ", ".join(f"{of}:ocid1.nodepool.oc1..sjc-{name}-nodes-id" for name, of in ranges.items())
    assert held["authType"] == "workload"
    assert held["maxNodeProvisionTime"] == "25m"
    assert held["enforceNodeGroupMinSize"] == "true", "a pool's size is set once, so a raised min would wait for a job"
    assert json.loads(held["nodeSelectors"]) == {"gpu-ci/pool": "system"}
    assert all(isinstance(value, str) for value in held.values()), "the add-on takes strings alone"


def test_the_idle_delay_is_the_clusters(update, ranged):
    for recording, delay in ((update, "10m0s"), (ranged, "5m0s")):
        assert values(addon(recording, "ClusterAutoscaler"))["scaleDownUnneededTime"] == delay


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
    recording = planned(pools={}, runners={"theirs": CNCF})
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


def test_a_given_network_of_another_compartment_is_the_autoscalers_to_use_and_no_more(given):
    own = named(given, "sjc-autoscaler-rights", POLICY).inputs
    network = named(given, "sjc-autoscaler-network-rights", POLICY).inputs
    assert network["compartmentId"] == "ocid1.compartment.oc1..examplenetwork"
    verbs = [statement.partition(" in compartment ")[0].removeprefix("Allow any-user to ") for statement in network["statements"]]
    assert verbs == ["use subnets", "read virtual-network-family", "use vnics", "inspect compartments"]
    assert any("manage instance-family" in statement for statement in own["statements"])
    rights = {named(given, name, POLICY).urn for name in ("sjc-autoscaler-rights", "sjc-autoscaler-network-rights")}
    assert rights <= set(addon(given, "ClusterAutoscaler").dependencies)


def test_the_settings_count_the_addresses_of_the_subnet_that_is_made(preview):
    for recording, cidr in ((preview, "10.0.0.0/16"), (planned(**SMALL), SMALL["network"]["cidr"])):
        assert node_subnet(cidr)[0] == named(recording, "sjc-network-nodes", SUBNET).inputs["cidrBlock"]
