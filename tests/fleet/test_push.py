"""Which OCI machines push metrics, to which address, what the plan says of the others, and what the gateway takes."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from fleet.loading.config import load
from fleet.prove import remarks
from fleet.prove.launchers import system_room
from fleet.providers.fleet import Fleet
from fleet.providers.installed import installed
from fleet.providers.oke.gateway import gateway
from fleet.providers.oke.network import endpoint_subnet, gateway_subnet, node_subnet
from tests.builders import HERE, THERE, cluster, config, oke_cluster, place, vm, vm_per_job
from tests.cases import cases

INSTALL = {"prometheus": "install"}
EXISTING = {"prometheus": "existing"}
VCN = {"vcn": "ocid1.vcn.oc1..x", "endpointSubnet": "ocid1.subnet.oc1..x", "nodeSubnet": "ocid1.subnet.oc1..y"}
CNCF = {key: value for key, value in vm_per_job(launcher="cncf").items() if key != "image"} | {
    "places": [place() | {"subnet": "ocid1.subnet.oc1.sjc.examplepublic"}]
}
OWN_SUBNET = place() | {"subnet": "ocid1.subnet.oc1.us-sanjose-1.own"}


def fleet(**changes: Any) -> Fleet:
    """A cluster with two sets of machines; `changes` replace keys."""
    settings = {"monitoring": INSTALL, "runners": {"vm": vm(), "job": vm_per_job()}} | changes
    return load(config(clusters={"sjc": oke_cluster(**settings)}))


def silent(described: Fleet) -> list[str]:
    return [line for line in remarks.monitoring(described) if "push no metrics" in line]


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "10.4.0.0/20", "172.16.0.0/18"])
def test_the_subnets_of_a_new_vcn_do_not_meet_and_the_address_is_one_that_oci_leaves_free(cidr):
    subnet, address = gateway_subnet(cidr)
    ranges = [ipaddress.IPv4Network(each) for each in (node_subnet(cidr)[0], endpoint_subnet(cidr), subnet)]
    assert all(each.subnet_of(ipaddress.IPv4Network(cidr)) for each in ranges)
    assert not any(one.overlaps(other) for one in ranges for other in ranges if one is not other)
    # docs.oracle.com: the first two addresses and the last.
    assert ipaddress.IPv4Address(address) in list(ipaddress.IPv4Network(subnet))[2:-1]


def test_every_set_pushes_in_a_new_vcn_and_the_plan_says_nothing_of_them():
    described = fleet()
    found = gateway(described.clusters["sjc"])
    assert found is not None
    assert found.ports == {"vm": 30000, "job": 30001}
    assert found.complete == ("vm", "job")
    assert found.target == "http://kube-prometheus-stack-prometheus.monitoring.svc:9090/api/v1/write"
    assert silent(described) == []


@cases(
    ("changes", "remarks"),
    [
        ({"network": VCN}, ["vm", "job"]),
        ({"monitoring": EXISTING}, ["vm", "job"]),
        ({"runners": {"away": vm_per_job(places=[place(THERE)])}}, ["away in us-ashburn-1"]),
        ({"runners": {"own": vm_per_job(places=[OWN_SUBNET])}}, ["own in us-sanjose-1"]),
        ({"runners": {"theirs": CNCF}}, ["theirs"]),
    ],
)
def test_the_plan_names_each_set_whose_machines_cannot_push(changes, remarks):
    described = fleet(**changes)
    assert gateway(described.clusters["sjc"]) is None
    assert [line.partition(" push no metrics: ")[0] for line in silent(described)] == [
        f"sjc: machines of {each}" for each in remarks
    ]


def test_a_set_with_places_elsewhere_pushes_from_the_cluster_and_the_plan_names_the_others():
    described = fleet(runners={"both": vm_per_job(places=[place(THERE), place(HERE)])})
    found = gateway(described.clusters["sjc"])
    assert found is not None
    assert (found.ports, found.complete) == ({"both": 30000}, ())
    assert silent(described) == ["sjc: machines of both in us-ashburn-1 push no metrics: their subnet is not the cluster's"]


def test_an_existing_prometheus_is_written_to_at_its_url():
    url = "https://prometheus.example/api/v1/write"
    described = fleet(monitoring=EXISTING | {"remoteWriteUrl": url})
    found = gateway(described.clusters["sjc"])
    assert found is not None
    assert found.target == url
    assert silent(described) == []


def test_a_cluster_without_machines_or_without_monitoring_has_no_gateway():
    plain = {"monitoring": INSTALL}
    clusters = {"eks": cluster(**plain), "oke": oke_cluster(**plain), "off": oke_cluster(runners={"vm": vm()}, region=HERE)}
    described = load(config(clusters=clusters))
    assert [gateway(each) for each in described.clusters.values()] == [None, None, None]


def test_the_gateway_is_counted_on_the_system_pool_and_in_the_plan():
    with_it, without = fleet(), fleet(network=VCN)
    taken = [
        (sum(node.cpu for node in room), sum(node.memory for node in room))
        for each in (with_it, without)
        if (room := system_room("sjc", each.clusters["sjc"], each.github)) is not None
    ]
    found = gateway(with_it.clusters["sjc"])
    assert found is not None
    assert (taken[1][0] - taken[0][0], taken[1][1] - taken[0][1]) == (found.pod.cpu, found.pod.memory)
    (line,) = [each for each in remarks.monitoring(with_it) if "monitoring requests" in each]
    pods = [pod for chart in installed(with_it.clusters["sjc"], "x", with_it.github) for pod in chart.pods]
    own = sum(pod.cpu for pod in pods if pod.on == "system pool" and pod.name in ("prometheus", "alertmanager"))
    assert f"{own + 50 + 20 + found.pod.cpu}m CPU" in line
