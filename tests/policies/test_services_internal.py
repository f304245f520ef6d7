"""services-internal: what opens pods to the network outside, and what leads to metadata or the API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.providers.oke.gateway import NAME as GATEWAY, NAMESPACE as OF_GATEWAY
from fleet.render.workloads.catalogue import workload_objects
from policies.rules.kinds import CONFIG_MAP, NETWORK_POLICY, RELEASE, SERVICE
from policies.rules.services_internal import RULE
from tests.fleet.workloads.world import with_workloads, workload
from tests.policies.cases import Member, StackCase, alone
from tests.policies.fixtures import POD
from tests.policies.harness import CLEAN, NAME, config_of, judge_stack
from tests.policies.suite import Suite

EXEMPT = config_of(RULE.id, "exempt")
LABELS = {"app": "train"}


def service(name: str = "train", namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": LABELS, "ports": [{"port": 80}], **spec}}


def network(*clients: str, **spec: Any) -> Member:
    rule = {"from": [{"ipBlock": {"cidr": cidr}} for cidr in clients], "ports": [{"protocol": "TCP", "port": 80}]}
    body = {"podSelector": {"matchLabels": LABELS}, "policyTypes": ["Ingress"], "ingress": [rule]} | spec
    return Member(NETWORK_POLICY, "clients", {"metadata": {"name": "clients", "namespace": "team-a"}, "spec": body})


def told(token: str, props: Any, *others: Member) -> tuple[str, ...]:
    return judge_stack(RULE, [Member(token, NAME, props), *others]).messages


def opened(path: str, shown: str, name: str = "team-a/train") -> str:
    fix = f'write "ClusterIP", or add "{name}" to {EXEMPT}'
    return f'{path} is "{shown}": it opens pods to the network outside; {fix}'


@pytest.mark.parametrize(
    ("token", "spec"),
    [
        (SERVICE, {"type": "LoadBalancer"}),
        (SERVICE, {"type": "NodePort"}),
        (SERVICE, {"externalIPs": ["10.0.0.2"]}),
        (f"{SERVICE}Patch", {"type": "LoadBalancer"}),
        ("kubernetes:ray.io/v1:RayCluster", {"headGroupSpec": {"serviceType": "LoadBalancer"}}),
        ("kubernetes:ray.io/v1:RayService", {"serveService": {"spec": {"type": "NodePort"}}}),
        ("kubernetes:networking.k8s.io/v1:Ingress", {"rules": []}),
        ("kubernetes:traefik.io/v1alpha1:IngressRoute", {"routes": []}),
        ("kubernetes:gateway.networking.k8s.io/v1:Gateway", {"listeners": []}),
    ],
)
def test_whatever_opens_pods_to_the_network_outside_is_refused(token: str, spec: dict[str, Any]) -> None:
    assert len(told(token, {"metadata": {"name": "train", "namespace": "team-a"}, "spec": spec})) == 1


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"service": {"type": "LoadBalancer"}}, "values.service.type is "),
        ({"router": {"serviceType": "NodePort"}}, "values.router.serviceType is "),
        ({"service": {"externalIPs": ["10.0.0.2"]}}, "values.service.externalIPs takes "),
        ({"ingress": {"enabled": True}}, "values.ingress.enabled is true"),
    ],
)
def test_the_values_of_a_chart_are_read(values: dict[str, Any], path: str) -> None:
    release = {"name": "train", "namespace": "team-a", "chart": "oci://example.com/train", "values": values}
    (message,) = told(RELEASE, release)
    assert message.startswith(path)
    assert judge_stack(RULE, [Member(RELEASE, NAME, release)], {"exempt": ["team-a/*"]}).messages == ()
    assert judge_stack(RULE, [Member(RELEASE, NAME, release)], {"exempt": ["team-b/*"]}).messages == (message,)


@pytest.mark.parametrize(
    ("clients", "spec", "passes"),
    [
        (["192.168.1.0/24"], {}, True),
        (["0.0.0.0/0"], {}, False),
        ([], {}, False),
        (["192.168.1.0/24"], {"podSelector": {}}, False),
    ],
)
def test_a_node_port_passes_if_a_network_policy_names_the_clients_of_its_pods(
    clients: list[str], spec: dict[str, Any], passes: bool
) -> None:
    assert (told(SERVICE, service(type="NodePort"), network(*clients, **spec)) == ()) == passes
    assert told(SERVICE, service(type="LoadBalancer"), network(*clients, **spec)), "a load balancer has addresses of its own"


def test_the_node_port_of_our_own_notebook_passes_and_not_without_its_network_policy() -> None:
    port = {"port": 30001, "cidrs": ["203.0.113.0/24"]}
    objects = workload_objects(with_workloads("t4", notebook=workload("tf-notebook", nodePort=port)), "notebook")
    members = [Member(f"kubernetes:{one['apiVersion']}:{one['kind']}", one["kind"], one) for one in objects]
    of_core = [replace(one, token=one.token.replace(":v1:", ":core/v1:")) for one in members]
    assert judge_stack(RULE, of_core) == CLEAN
    (message,) = judge_stack(RULE, [one for one in of_core if one.name != "NetworkPolicy"]).messages
    assert message.startswith('spec.type is "NodePort"')


def test_our_own_load_balancer_is_exempt_by_default_and_no_other_of_its_name() -> None:
    assert told(SERVICE, service(GATEWAY, OF_GATEWAY, type="LoadBalancer")) == ()
    assert told(SERVICE, service(GATEWAY, "team-a", type="LoadBalancer"))


SLICE = "kubernetes:discovery.k8s.io/v1:EndpointSlice"
ENDPOINTS = "kubernetes:core/v1:Endpoints"
META = {"metadata": {"name": "db", "namespace": "team-a"}}


@pytest.mark.parametrize(
    ("address", "passes"),
    [
        ("169.254.169.254", False),
        ("127.0.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - no address to bind
        ("::1", False),
        ("fe80::1", False),
        ("fd00:ec2::254", False),
        ("::ffff:169.254.169.254", False),
        ("metadata.google.internal", False),
        ("169.254.169.254.nip.io", False),
        ("kubernetes.default.svc", False),
        ("10.0.12.7", True),
        ("db.example.com", True),
    ],
)
def test_endpoints_lead_neither_to_metadata_nor_to_the_api(address: str, passes: bool) -> None:
    assert (told(SLICE, META | {"endpoints": [{"addresses": [address]}]}) == ()) == passes
    assert (told(ENDPOINTS, META | {"subsets": [{"addresses": [{"ip": address}]}]}) == ()) == passes
    assert (told(SERVICE, service(type="ExternalName", externalName=address)) == ()) == passes


def test_nobody_writes_the_service_of_the_api() -> None:
    slices = {"metadata": {"name": "x", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}}}
    assert told(SLICE, slices | {"endpoints": [{"addresses": ["10.0.0.9"]}]})
    assert told(SERVICE, service("kubernetes", "default"))
    assert told(SERVICE, service("kubernetes", "team-a")) == ()


def test_a_definition_opens_nothing() -> None:
    token = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"  # noqa: S105 - a type token
    assert told(token, {"spec": {"versions": [{"schema": {"properties": {"x": {"type": "NodePort"}}}}]}}) == ()


SUITE = Suite(
    RULE,
    passing=(
        alone(SERVICE, service()),
        alone(SERVICE, service(type="LoadBalancer"), config={"exempt": ["team-a/train"]}),
        StackCase((Member(SERVICE, "train", service(type="NodePort")), network("192.168.1.0/24"))),
    ),
    violating=(alone(SERVICE, service(type="LoadBalancer"), (opened("spec.type", "LoadBalancer"),)),),
)


def corefile(text: str, key: str = "Corefile") -> tuple[str, ...]:
    return told(CONFIG_MAP, {"metadata": {"name": "coredns", "namespace": "kube-system"}, "data": {key: text}})


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("github.com {\n  hosts {\n    203.0.113.9 github.com\n  }\n}", 2),
        (".:53 {\n  rewrite name api.github.com evil.example\n}", 1),
        (".:53 {\n  rewrite name regex (.*)\\.ghcr\\.io evil.example\n}", 1),
        (".:53 {\n  template IN A nvcr.io {\n  }\n}", 1),
        (".:53 {\n  kubernetes cluster.local in-addr.arpa\n  forward . /etc/resolv.conf\n}", 0),
        ("corp.example {\n  forward . 10.0.0.2\n}\nnotgithub.com {\n}", 0),
        ("# github.com\n.:53 {\n}", 0),
    ],
)
def test_coredns_answers_no_name_of_github_or_a_registry(text: str, renamed: int) -> None:
    assert len(corefile(text)) == renamed
    assert bool(corefile(text, "more.server")) is bool(renamed)
    assert corefile(text, "notes.txt") == ()


def test_a_name_of_coredns_can_be_exempt() -> None:
    props = {"metadata": {"name": "coredns", "namespace": "kube-system"}, "data": {"Corefile": "ghcr.io {\n}"}}
    assert told(CONFIG_MAP, props) == (
        'data.Corefile has "ghcr.io": jobs, charts or images of that name would come from another address; take it out, or add '
        f'"kube-system/coredns" to {EXEMPT}',
    )
    assert judge_stack(RULE, [Member(CONFIG_MAP, NAME, props)], {"exempt": ["kube-system/coredns"]}) == CLEAN


def test_a_pod_answers_no_such_name_either() -> None:
    for name, refused in (("github.com", True), ("cache.corp.example", False)):
        spec = {"containers": [{"name": "main"}], "hostAliases": [{"ip": "203.0.113.9", "hostnames": [name]}]}
        assert bool(told(POD, {"metadata": {"name": "train", "namespace": "team-a"}, "spec": spec})) is refused
