"""eks-endpoint-private: closed, open to named networks, open to the world."""

from __future__ import annotations

from policies.rules.eks_endpoint_private import RULE
from policies.rules.kinds import EKS_CLUSTER, EKS_COMPONENT, OCI_NSG_RULE, OCI_SECURITY_LISTS, OKE_CLUSTER
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, config_of, judge, said
from tests.policies.suite import Suite

OPEN = (
    "publicAccessCidrs is not set: the API is then open to the whole internet; name your networks, "
    "or write endpointPublicAccess: false"
)
WORLD = "the API is then open to the whole internet; name your networks"
HOMES = {"cidrs": ["203.0.113.0/24"]}
API = "port 6443 is the Kubernetes API; name your networks"
LISTS = sorted(OCI_SECURITY_LISTS)


def nsg_rule(source: str, low: int = 6443, high: int = 6443) -> dict[str, object]:
    ports = {"destinationPortRange": {"min": low, "max": high}}
    return {"direction": "INGRESS", "protocol": "6", "source": source, "tcpOptions": ports}


def security_list(source: str, protocol: str = "6") -> dict[str, object]:
    return {"ingressSecurityRules": [{"protocol": protocol, "source": source, "tcpOptions": {"min": 6443, "max": 6443}}]}


SUITE = Suite(
    RULE,
    passing=(
        Case(EKS_COMPONENT, {"endpointPublicAccess": True, "publicAccessCidrs": ["203.0.113.0/24"]}),
        Case(EKS_COMPONENT, {"publicAccessCidrs": ["203.0.113.64/26"]}, config=HOMES),
        Case(EKS_CLUSTER, {"vpcConfig": {"endpointPublicAccess": False}}),
        Case(EKS_COMPONENT, {}),
        Case(OKE_CLUSTER, {"endpointConfig": {"isPublicIpEnabled": False}}),
        Case(OKE_CLUSTER, {"endpointConfig": {"isPublicIpEnabled": True, "nsgIds": ["ocid1"]}}),
        Case(OCI_NSG_RULE, nsg_rule("203.0.113.0/24")),
        Case(OCI_NSG_RULE, nsg_rule("0.0.0.0/0", 443, 443)),
        Case(OCI_NSG_RULE, nsg_rule("0.0.0.0/0") | {"direction": "EGRESS"}),
        *(Case(token, security_list("10.0.0.0/8")) for token in LISTS),
        *(Case(token, security_list("0.0.0.0/0", "1")) for token in LISTS),
    ),
    violating=(
        Case(EKS_COMPONENT, {"name": "gpu-ci"}, (OPEN,)),
        Case(EKS_CLUSTER, {"vpcConfig": {}}, (f"vpcConfig.{OPEN}",)),
        Case(EKS_CLUSTER, {"name": "gpu-ci"}, (f"vpcConfig.{OPEN}",)),
        Case(EKS_COMPONENT, {"publicAccessCidrs": ["0.0.0.0/0"]}, (f'publicAccessCidrs[0] is "0.0.0.0/0": {WORLD}',)),
        Case(EKS_COMPONENT, {"publicAccessCidrs": ["::/0"]}, (f'publicAccessCidrs[0] is "::/0": {WORLD}',)),
        Case(
            EKS_COMPONENT,
            {"publicAccessCidrs": ["198.51.100.0/24"]},
            (
                'publicAccessCidrs[0] is "198.51.100.0/24": not within the networks allowed here (203.0.113.0/24); '
                f'write one of those, or add "198.51.100.0/24" to {config_of(RULE.id, "cidrs")}',
            ),
            config=HOMES,
        ),
        Case(
            EKS_COMPONENT,
            {"publicAccessCidrs": ["home"]},
            ('publicAccessCidrs[0] is "home": not a network; write one such as 203.0.113.0/24',),
        ),
        Case(
            OKE_CLUSTER,
            {"endpointConfig": {"isPublicIpEnabled": True}},
            (
                "endpointConfig.nsgIds is not set: no security group protects the public API endpoint; "
                "set a network security group, or write isPublicIpEnabled: false",
            ),
        ),
        Case(
            OKE_CLUSTER,
            {"name": "gpu-ci"},
            (
                "endpointConfig is not set: the API is then open to the whole internet, and no security group can protect it; "
                "set its subnetId",
            ),
        ),
        Case(EKS_COMPONENT, {"publicAccessCidrs": ["0.0.0.0/1"]}, (f'publicAccessCidrs[0] is "0.0.0.0/1": {WORLD}',)),
        Case(OCI_NSG_RULE, nsg_rule("0.0.0.0/0", 6000, 7000), (f'source is "0.0.0.0/0": {API}',)),
        Case(OCI_NSG_RULE, {"direction": "INGRESS", "protocol": "all", "source": "::/0"}, (f'source is "::/0": {API}',)),
        *(Case(token, security_list("0.0.0.0/0"), (f'ingressSecurityRules[0].source is "0.0.0.0/0": {API}',)) for token in LISTS),
    ),
)


def test_a_cluster_is_judged_itself_where_the_component_above_it_has_no_inputs() -> None:
    assert judge(RULE, EKS_COMPONENT, {}) == CLEAN
    assert judge(RULE, EKS_CLUSTER, {"vpcConfig": {}}, parent=EKS_COMPONENT) == said(f"vpcConfig.{OPEN}")


def test_the_ids_of_security_groups_may_be_unknown() -> None:
    props = {"endpointConfig": {"isPublicIpEnabled": True, "nsgIds": ["ocid1"]}}
    assert judge(RULE, OKE_CLUSTER, props, unknown=("endpointConfig", "nsgIds", 0)) == CLEAN
