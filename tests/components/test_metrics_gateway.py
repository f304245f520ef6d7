"""The gateway of machines in an OKE cluster: one way to it for each set, before the machines, and what they get of it."""

from __future__ import annotations

import json

import pytest

from tests.builders import THERE, place, vm, vm_per_job
from tests.cases import cases
from tests.components.oke import GROUP, MACHINES, RULE, SUBNET, TAGS, made, planned, the
from tests.components.recorded import named, of_type

SERVICE = "kubernetes:core/v1:Service"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
CONFIGURATION = "oci:Core/instanceConfiguration:InstanceConfiguration"
INSTANCE_POOL = "oci:Core/instancePool:InstancePool"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
RELEASE = "kubernetes:helm.sh/v3:Release"
INSTALL = {"prometheus": "install"}
RUNNERS = {"vm": vm(), "job": vm_per_job(places=[place(), place(THERE)])}
ADDRESS = "10.0.255.226"
NODES, BALANCER = "sjc-security-workers", "sjc-metrics-gateway-gateway"


AWAY = {"monitoring": INSTALL, "pools": {}, "runners": {"away": vm_per_job(places=[place(THERE)])}}
"""Machines of another region alone."""
STANDING = {"pools": {}, "runners": {"vm": vm()}}


@pytest.fixture(scope="module")
def update():
    return made(monitoring=INSTALL, runners=RUNNERS)


def ocid(name):
    return f"ocid1.networksecuritygroup.oc1..{name}-id"


def ways(recording):
    """(from, to, first port, last port) of each pair of rules of the gateway; a rule without its other half is an error."""
    found: dict[str, set[tuple[str, str, int, int]]] = {"EGRESS": set(), "INGRESS": set()}
    for rule in of_type(recording, RULE):
        if not rule.name.startswith("sjc-metrics-gateway-"):
            continue
        held = rule.inputs
        assert (held["protocol"], held["stateless"]) == ("6", False)
        ports = held["tcpOptions"]["destinationPortRange"]
        if held["direction"] == "EGRESS":
            assert held["destinationType"] == "NETWORK_SECURITY_GROUP"
            ends = (held["networkSecurityGroupId"], held["destination"])
        else:
            assert held["sourceType"] == "NETWORK_SECURITY_GROUP"
            ends = (held["source"], held["networkSecurityGroupId"])
        found[held["direction"]].add((*ends, ports["min"], ports["max"]))
    assert found["EGRESS"] == found["INGRESS"]
    return found["EGRESS"]


def test_each_set_reaches_its_port_and_the_load_balancer_the_nodes_and_nothing_else(update):
    assert ways(update) == {
        (ocid("sjc-metrics-gateway-set.vm"), ocid(BALANCER), 30000, 30000),
        (ocid("sjc-metrics-gateway-set.job"), ocid(BALANCER), 30001, 30001),
        (ocid(BALANCER), ocid(NODES), 30000, 30001),
        (ocid(BALANCER), ocid(NODES), 10256, 10256),
    }
    closed = [rule.inputs["destination"] for rule in of_type(update, RULE) if "-machines-to-" in rule.name]
    assert not any(block.startswith("10.") for block in closed), "the group of all machines reaches nothing private, as before"


def test_the_subnet_is_private_and_beside_the_others(update):
    subnet = named(update, "sjc-metrics-gateway-subnet", SUBNET).inputs
    assert subnet["prohibitPublicIpOnVnic"] is True
    assert subnet["cidrBlock"] == "10.0.255.224/28"
    others = [each.inputs["cidrBlock"] for each in of_type(update, SUBNET) if each.name.startswith("sjc-network")]
    assert sorted(others) == ["10.0.0.0/17", "10.0.255.240/28"]


def test_the_load_balancer_has_its_address_subnet_and_group(update):
    annotations = the(update, SERVICE).inputs["metadata"]["annotations"]
    own = "oci-network-load-balancer.oraclecloud.com"
    assert annotations[f"{own}/assigned-private-ipv4"] == ADDRESS
    assert annotations[f"{own}/subnet"] == "ocid1.subnet.oc1..sjc-metrics-gateway-subnet-id"
    assert annotations[f"{own}/oci-network-security-groups"] == ocid(BALANCER)


def test_the_load_balancer_comes_after_its_rules_and_the_agents(update):
    needed = set(the(update, SERVICE).dependencies)
    rules = {rule.urn for rule in of_type(update, RULE) if rule.name.startswith("sjc-metrics-gateway-")}
    assert rules <= needed
    assert the(update, DEPLOYMENT).urn in needed


def test_standing_machines_learn_their_port_and_are_admitted_there(update):
    found = the(update, CONFIGURATION).inputs["instanceDetails"]["launchDetails"]
    assert found["metadata"]["gpu-ci-metrics"] == f"http://{ADDRESS}:30000/api/v1/write"
    assert found["createVnicDetails"]["nsgIds"] == [ocid("sjc-security-machines"), ocid("sjc-metrics-gateway-set.vm")]
    rules = {rule.urn for rule in of_type(update, RULE) if rule.name.startswith("sjc-metrics-gateway-set.")}
    assert rules <= set(the(update, INSTANCE_POOL).dependencies)


def test_machines_of_a_job_push_in_the_clusters_subnet_and_nowhere_else(update):
    config = json.loads(named(update, "sjc-job-launcher", CONFIG_MAP).inputs["data"]["launcher.json"])
    here, there = config["places"]
    assert here["metricsUrl"] == f"http://{ADDRESS}:30001/api/v1/write"
    assert here["securityGroups"] == [ocid("sjc-security-machines"), ocid("sjc-metrics-gateway-set.job")]
    assert there["metricsUrl"] is None
    assert len(there["securityGroups"]) == 1


def test_no_secret_and_no_key_is_made_for_it(update):
    kinds = {each.type for each in update.resources if each.name.startswith("sjc-metrics-gateway")}
    assert kinds == {
        "gpu-ci:index:MetricsGateway",
        SUBNET,
        GROUP,
        RULE,
        SERVICE,
        DEPLOYMENT,
        CONFIG_MAP,
        "kubernetes:core/v1:Namespace",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy",
    }


def test_prometheus_takes_remote_write_only_where_machines_push(update):
    def spec(recording):
        (chart,) = (each for each in of_type(recording, RELEASE) if each.inputs["name"] == "kube-prometheus-stack")
        return chart.inputs["values"]["prometheus"]["prometheusSpec"]

    assert spec(update)["enableRemoteWriteReceiver"] is True
    assert "enableRemoteWriteReceiver" not in spec(planned(**AWAY))


def test_what_is_the_clouds_has_the_fleets_tags(update):
    owned = [each for each in update.resources if each.name.startswith("sjc-metrics-gateway") and each.type in (SUBNET, GROUP)]
    assert len(owned) == 4
    assert all(each.inputs["freeformTags"] == TAGS for each in owned)


@cases(
    "changes",
    [
        MACHINES,
        STANDING | {"monitoring": {"prometheus": "existing"}},
        AWAY,
        STANDING
        | {
            "monitoring": INSTALL,
            "network": {
                "vcn": "ocid1.vcn.oc1..x",
                "endpointSubnet": "ocid1.subnet.oc1..x",
                "nodeSubnet": "ocid1.subnet.oc1..y",
            },
        },
    ],
)
def test_without_a_way_there_is_no_gateway_and_machines_are_as_before(changes):
    recording = planned(**changes)
    assert not [each for each in recording.resources if each.type == "gpu-ci:index:MetricsGateway"]
    for each in of_type(recording, CONFIGURATION):
        assert each.inputs["instanceDetails"]["launchDetails"]["metadata"].keys() == {"user_data"}


def test_an_existing_prometheus_gets_the_samples_at_its_url():
    url = "http://prometheus.metrics.svc:9090/api/v1/write"
    recording = planned(**STANDING, monitoring={"prometheus": "existing", "remoteWriteUrl": url})
    config = json.loads(named(recording, "sjc-metrics-gateway-config", CONFIG_MAP).inputs["data"]["vm.json"])
    assert [each["url"] for each in config["remote_write"]] == [url]
