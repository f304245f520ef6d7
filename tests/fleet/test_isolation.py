"""What keeps runner namespaces apart: whom pods reach, how much a namespace holds, and that ARC never runs into it."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import TypeAdapter

from fleet.charts.chart import Chart
from fleet.facts.scheduling import GPU_RESOURCE, is_gpu_resource
from fleet.loading.config import load
from fleet.prove.namespace_limits import jobs_quota, limit_range, resource_quota
from fleet.render.isolation import network_policy
from fleet.settings.egress import CLOSED, INTERNET, closed_networks, may_open, within
from fleet.settings.runner import PodRunner
from tests.builders import ACCEPTED, cluster, config, oke_cluster, oke_runner, read_stack, runner_of, vm
from tests.cases import cases
from tests.charts import runner_set
from tests.examples import examples
from tests.fleet.conformance import STACKS, cluster_charts, sweep_pod
from tests.fleet.values import mebibytes, millicores
from tests.strategies import runners

MINORS = ("1.33", "1.34", "1.35", "1.36")
METADATA = ("169.254.169.254", "fd00:ec2::254", "fd00:c1::a9fe:a9fe")
"""Instance metadata of EC2 and of OCI."""
NODE_LOCAL = (*METADATA, "169.254.170.23", "fd00:ec2::23", "169.254.170.2", "169.254.20.10", "fe80::1")
"""Besides metadata: EKS Pod Identity, a task's credentials, a DNS cache of the node's own."""
URL = "https://github.com/example"

SETS = {
    f"{stack}/{name}/{chart.name}": chart
    for stack, path in STACKS.items()
    for fleet in [load(read_stack(path))]
    for name, _ in fleet.clusters_by_name()
    for chart in cluster_charts(fleet, name).values()
    if chart.chart == "gha-runner-scale-set"
}
each_set = cases("chart", SETS, SETS.__getitem__)


def reaches(spec: Mapping[str, Any], address: str, port: int = 443) -> bool:
    """Whether a NetworkPolicy lets its pods out to a TCP port of an address (Kubernetes' rules for ipBlock)."""
    return any(_in(peer["ipBlock"], address) for peer in _peers(spec, port) if "ipBlock" in peer)


def _peers(spec: Mapping[str, Any], port: int) -> Iterator[Mapping[str, Any]]:
    for rule in spec["egress"]:
        # A rule without ports is for all of them, one without peers would be for everyone.
        if "ports" not in rule or {"protocol": "TCP", "port": port} in rule["ports"]:
            yield from rule["to"]


def _in(block: Mapping[str, Any], address: str) -> bool:
    held = ipaddress.ip_address(address)
    return held in ipaddress.ip_network(block["cidr"]) and not any(
        held in ipaddress.ip_network(cidr) for cidr in block.get("except", [])
    )


@cache
def policies(stack: str) -> dict[str, Mapping[str, Any]]:
    """The policies of a stack's clusters, as for runners that are pods."""
    fleet = load(read_stack(STACKS[stack]))
    return {
        name: network_policy(settings.closed_networks, settings.private_egress) for name, settings in fleet.clusters_by_name()
    }


# -- whom pods reach ---------------------------------------------------------------------------------------------------


@cases("stack", STACKS)
@cases("address", NODE_LOCAL)
def test_no_job_of_any_stack_reaches_the_nodes_own_addresses(stack: str, address: str) -> None:
    for spec in policies(stack).values():
        assert [port for port in (53, 80, 443, 988, 12250) if reaches(spec, address, port)] == []


@cases("stack", STACKS)
def test_no_job_reaches_its_clusters_own_network_and_every_job_reaches_github(stack: str) -> None:
    fleet = load(read_stack(STACKS[stack]))
    for name, spec in policies(stack).items():
        cluster = fleet.clusters[name]
        own = cluster.own_cidr
        unknown = cluster.provider == "talos" or cluster.found is not None
        assert (own is None) is unknown, "the place of own machines and existing clusters is unknown"
        # What is at home is private in any case.
        network = ipaddress.ip_network(own or "192.168.0.0/16")
        assert not reaches(spec, str(network[0]))
        assert not reaches(spec, str(network[-1]))
        # api.github.com of GitHub's published ranges (api.github.com/meta); a registry by SSH and plain HTTP.
        assert all(reaches(spec, "140.82.112.5", port) for port in (22, 80, 443))


def test_nothing_comes_in_and_every_pod_is_meant() -> None:
    spec = network_policy()
    assert spec["policyTypes"] == ["Ingress", "Egress"], "without its type a direction is open"
    assert spec["ingress"] == []
    assert spec["podSelector"] == {}, "all pods of the namespace"


def test_names_are_resolved_by_coredns_and_by_nobody_else() -> None:
    (rule,) = [rule for rule in network_policy()["egress"] if "namespaceSelector" in rule["to"][0]]
    assert rule["to"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ], "two entries instead of one with both selectors would mean any pod of kube-system, or any such pod anywhere"
    assert rule["ports"] == [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]


def test_no_block_is_of_ipv6() -> None:
    """On an IPv4 cluster of EKS an exception of IPv6 ends the refresh of all rules (aws/aws-network-policy-agent#631)."""
    spec = network_policy(closed_networks("203.0.112.0/22"), ["10.20.0.0/16"], [12250])
    blocks = [peer["ipBlock"] for rule in spec["egress"] for peer in rule["to"] if "ipBlock" in peer]
    cidrs = [cidr for block in blocks for cidr in (block["cidr"], *block.get("except", []))]
    assert len(cidrs) > 8
    assert {ipaddress.ip_network(cidr).version for cidr in cidrs} == {4}


_ADDRESSES = st.ip_addresses(v=4)


@settings(max_examples=examples(300), database=None)
@given(_ADDRESSES, st.sampled_from([None, "10.0.0.0/16", "203.0.112.0/22"]))
def test_an_address_is_reached_unless_it_lies_in_a_closed_network(address: ipaddress.IPv4Address, own: str | None) -> None:
    closed = [ipaddress.ip_network(cidr) for cidr in (*CLOSED, *([own] if own else []))]
    assert reaches(network_policy(closed_networks(own)), str(address)) is not any(address in network for network in closed)


@cases("cidr", CLOSED)
def test_the_ends_of_a_closed_network_are_closed_and_what_lies_beside_them_is_not(cidr: str) -> None:
    network = ipaddress.IPv4Network(cidr)
    for address in (network[0], network[-1]):
        assert not reaches(network_policy(), str(address))
    for beside in (network[0] - 1, network[-1] + 1):
        assert reaches(network_policy(), str(beside))


def test_a_clusters_own_network_is_closed_even_if_it_is_public() -> None:
    assert closed_networks(None) == closed_networks("10.0.0.0/16") == CLOSED
    assert closed_networks("203.0.112.0/22") == (*CLOSED, "203.0.112.0/22")
    held = load(config(clusters={"usw2": cluster(network={"cidr": "203.0.112.0/22"})})).clusters["usw2"]
    assert not reaches(network_policy(held.closed_networks), "203.0.115.9")
    given_vpc = {"vpcId": "vpc-01234567", "privateSubnets": {"us-west-2a": "subnet-01234567", "us-west-2b": "subnet-89abcdef"}}
    assert load(config(clusters={"usw2": cluster(network=given_vpc)})).clusters["usw2"].closed_networks == CLOSED


def test_settings_open_private_networks_one_by_one() -> None:
    held = load(config(clusters={"usw2": cluster(privateEgress=["10.20.0.0/16", "192.168.7.9/32"])})).clusters["usw2"]
    spec = network_policy(held.closed_networks, held.private_egress)
    assert reaches(spec, "10.20.255.1", 5000), "on any port"
    assert reaches(spec, "192.168.7.9")
    assert not reaches(spec, "10.21.0.1")
    assert not reaches(spec, "192.168.7.10")
    assert not any(reaches(spec, address) for address in METADATA)


@cases(
    ("cidr", "allowed"),
    [
        ("10.20.0.0/16", True),
        ("10.0.0.0/8", True),
        ("100.64.0.0/10", True),
        ("198.19.0.0/16", True),
        ("8.8.8.8/32", False),
        (INTERNET, False),
        ("10.0.0.0/7", False),
        ("169.254.169.254/32", False),
        ("169.254.0.0/16", False),
        ("fd00::/8", False),
        ("::/0", False),
    ],
)
def test_what_may_be_opened_is_private_and_not_the_nodes_own(cidr: str, allowed: bool) -> None:
    assert may_open(cidr, CLOSED) is allowed


def test_a_public_range_may_be_opened_where_it_is_the_clusters_own() -> None:
    network = {"cidr": "203.0.112.0/22"}
    assert load(config(clusters={"usw2": cluster(network=network, privateEgress=["203.0.113.0/24"])}))
    assert not within("203.0.113.0/24", CLOSED)


def test_a_launcher_reaches_okes_identity_wherever_the_endpoint_is_and_nothing_else_that_is_private() -> None:
    spec = network_policy(private_ports=[12250])
    for address in ("10.96.0.1", "10.0.255.244", "203.0.113.7"):
        assert reaches(spec, address, 12250), "a service's address before translation, the endpoint's after it"
    assert not reaches(spec, "10.96.0.1", 443), "the API server itself"
    assert not any(reaches(spec, address, 12250) for address in NODE_LOCAL)
    assert not reaches(network_policy(), "10.96.0.1", 12250), "a job has no business there"


def unenforced(**changes: Any) -> list[str]:
    """The remarks about network policies on an OKE cluster."""
    remarks = load(config(clusters={"sjc": oke_cluster(**changes)})).clusters["sjc"].remarks
    return [remark for remark in remarks if remark.startswith("network policies: ")]


def test_a_plan_says_which_jobs_of_oke_nothing_holds_back_and_why_their_owner_accepts_it() -> None:
    assert unenforced() == [
        "network policies: OKE enforces none, so jobs of oci-a10 reach the VCN, other namespaces and the nodes; "
        f"accepted because: {ACCEPTED['acceptUnenforcedNetwork']}"
    ]
    assert unenforced(runners={"vm": vm()}) == [], "no job runs in a pod"


def test_the_plan_prints_the_reason_without_the_space_around_it() -> None:
    [remark] = unenforced(runners={"oci-a10": oke_runner(acceptUnenforcedNetwork="  only our own code runs in these jobs\n")})
    assert remark.endswith("accepted because: only our own code runs in these jobs")


def test_pods_of_teams_on_oke_need_no_consent_and_are_in_a_remark() -> None:
    """Their owners write them into the stack file, or have an account in the cluster: no pull request starts them."""
    torch = {"torch": {"kind": "pytorch", "pool": "a10", "namespace": "checks"}}
    assert unenforced(runners={"vm": vm()}, workloads=torch) == [
        "network policies: OKE enforces none, so pods of checks reach the VCN, other namespaces and the nodes; "
        "install Calico (docs/isolation.md)"
    ]


# -- how much a namespace holds ----------------------------------------------------------------------------------------


def _asked(chart: Chart) -> dict[str, int]:
    """GPU resources that a runner asks for; whole GPUs are named in any case."""
    (container,) = chart.values["template"]["spec"]["containers"]
    return {GPU_RESOURCE: 0} | {name: int(n) for name, n in container["resources"]["requests"].items() if is_gpu_resource(name)}


def _gpus(chart: Chart) -> int:
    return sum(_asked(chart).values())


@each_set
def test_a_quota_leaves_room_for_as_many_ending_pods_as_there_may_be_runners(chart: Chart) -> None:
    hard, most = resource_quota(chart)["hard"], chart.values["maxRunners"]
    assert {name: int(hard.pop(f"requests.{name}")) for name in _asked(chart)} == {
        name: 2 * most * count for name, count in _asked(chart).items()
    }, "shares by their own name, and no whole GPU beside them"
    assert set(hard) == {"pods"}, "a quota of CPU or memory would refuse pods that name none"
    sweeps = 1 if sweep_pod(chart) else 0
    assert int(hard["pods"]) >= 2 * most + sweeps + 1, "and for one that an operator starts by hand"


def test_launchers_may_take_no_gpu() -> None:
    found = {name: resource_quota(chart)["hard"] for name, chart in SETS.items()}
    launchers = {name for name, chart in SETS.items() if _gpus(chart) == 0}
    assert launchers
    none = {name for name, hard in found.items() if all(amount == "0" for key, amount in hard.items() if key != "pods")}
    assert none == launchers


def test_a_quota_of_gpus_stands_where_runners_wait_at_it_and_nowhere_else() -> None:
    """A pod that a runner makes for its job fails at a quota, and the job with it (actions/runner-container-hooks#229)."""
    plain = runner_set("gpu", runner_of(scale={"max": 4}), URL, "gpu")
    assert resource_quota(plain)["hard"] == {"requests.nvidia.com/gpu": "8", "pods": "10"}
    assert jobs_quota(4) == {"hard": {"pods": "18"}}, "the pods of a job and of a container action, twice, and two"


# -- what a container may take -----------------------------------------------------------------------------------------


def admitted(spec: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    """Whether the API server takes a container in a namespace with a LimitRange (Kubernetes, LimitRanger).

    A maximum holds for the limit, which must be there; what a container leaves out is the default.
    """
    (item,) = spec["limits"]
    named = container.get("resources", {})
    limits = item["default"] | named.get("limits", {})
    requests = item["defaultRequest"] | named.get("limits", {}) | named.get("requests", {})
    return all(
        name in limits
        and _amount(name, limits[name]) <= _amount(name, most)
        and _amount(name, requests[name]) <= _amount(name, most)
        for name, most in item["max"].items()
    )


def _amount(name: str, text: str) -> int:
    return millicores(text) if name == "cpu" else mebibytes(text)


@each_set
def test_every_pod_of_a_set_is_admitted_as_it_is(chart: Chart) -> None:
    spec = limit_range(chart)
    pods = [chart.values["template"]["spec"], *filter(None, [sweep_pod(chart)])]
    for container in (each for pod in pods for each in pod["containers"]):
        assert admitted(spec, container)
        named = container["resources"]
        (item,) = spec["limits"]
        assert set(item["default"]) <= set(named["limits"]), "a default would change the pod: a launcher would be throttled"
        assert set(item["defaultRequest"]) <= set(named["requests"])


@settings(max_examples=examples(60), database=None)
@given(runners("t4", []))
def test_limits_and_quota_of_any_runner_class_admit_it_and_nothing_larger(held: dict[str, Any]) -> None:
    runner = TypeAdapter(PodRunner).validate_json(json.dumps(held))
    chart = runner_set("gpu", runner, URL, "gpu")
    (container,) = chart.values["template"]["spec"]["containers"]
    spec = limit_range(chart)
    assert admitted(spec, container)
    assert admitted(spec, {}), "a container that names nothing"
    larger = {"limits": {"cpu": f"{runner.cpu.limit + 1}m"}}
    assert not admitted(spec, {"resources": larger})
    assert not admitted(spec, {"resources": {"limits": {"memory": f"{runner.memory.limit + 1}Mi"}}})
    hard = resource_quota(chart)["hard"]
    assert int(hard["requests.nvidia.com/gpu"]) >= 2 * runner.scale.max * runner.gpus
    assert int(hard["pods"]) > 2 * runner.scale.max


@each_set
def test_no_container_gets_a_gpu_that_it_does_not_ask_for(chart: Chart) -> None:
    assert "nvidia.com/gpu" not in json.dumps(limit_range(chart)), "the API server makes a default of a maximum"


def test_a_limit_range_of_a_launcher_sets_no_cpu_limit() -> None:
    (item,) = limit_range(next(chart for chart in SETS.values() if _gpus(chart) == 0))["limits"]
    assert set(item["max"]) == set(item["default"]) == {"memory"}
    assert set(item["defaultRequest"]) == {"cpu", "memory"}


# -- as Kubernetes takes them ------------------------------------------------------------------------------------------


def _manifest(kind: str, version: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "runners", "namespace": "runners-x"}, "spec": dict(spec)}


@pytest.mark.parametrize("minor", MINORS)
@each_set
def test_the_objects_of_a_namespace_are_valid(chart: Chart, minor: str) -> None:
    for manifest in (
        _manifest("NetworkPolicy", "networking.k8s.io/v1", network_policy(CLOSED, ["10.20.0.0/16"], [12250])),
        _manifest("ResourceQuota", "v1", resource_quota(chart)),
        _manifest("LimitRange", "v1", limit_range(chart)),
    ):
        kubernetes_validate.validate(manifest, minor, strict=True)


def test_the_validation_finds_a_misspelt_key() -> None:
    spec = network_policy()
    spec["policyType"] = spec.pop("policyTypes")
    with pytest.raises(kubernetes_validate.ValidationError, match="policyType"):
        kubernetes_validate.validate(_manifest("NetworkPolicy", "networking.k8s.io/v1", spec), MINORS[-1], strict=True)


def test_a_quota_names_extended_resources_by_the_one_prefix_that_is_allowed() -> None:
    """Kubernetes, pkg/quota/v1/evaluator/core/pods.go: `requests.` alone, because they cannot be overcommitted."""
    hard = resource_quota(runner_set("gpu", runner_of(gpus=8), URL, "gpu"))["hard"]
    assert {name for name in hard if GPU_RESOURCE in name} == {f"requests.{GPU_RESOURCE}"}
