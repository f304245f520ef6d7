"""runner-namespace-isolated: each wall by itself, and every way in which a NetworkPolicy may leave a hole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.facts.scheduling import MACHINE_SHAPES
from fleet.providers.oke.launcher_set import LAUNCHER
from fleet.render.isolation import network_policy
from fleet.settings.egress import CLOSED as CLOSED_NETWORKS
from policies.rules.kinds import APPLICATION, EKS_ADDON, LIMIT_RANGE, NAMESPACE, NETWORK_POLICY, OKE_CLUSTER, RESOURCE_QUOTA
from policies.rules.runner_namespace_isolated import PATCHES, RULE
from tests.policies.applications import application
from tests.policies.cases import Member
from tests.policies.container_fixtures import JOB, JOBS, SPACE as SPACE_OF_SET, hooked, hooks
from tests.policies.harness import CLEAN, UNKNOWN, changed, config_of, default, judge_stack, urn
from tests.policies.machine_fixtures import but, case
from tests.policies.pool_fixtures import RELEASE, RUNNER, RUNNER_SET, RUNNER_SET_PATCH, runner_set, scale_set
from tests.policies.suite import Suite

METADATA = default(RULE, "metadataAddresses")

HOME = {"namespace": "runners"}
INSIDE = {"clusterIdentifier": "usw2"}
LOCAL = "169.254.0.0/16"
OPEN = {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(CLOSED_NETWORKS)}}
DNS = {"to": [{"namespaceSelector": {}}], "ports": [{"protocol": "UDP", "port": 53}]}
ENFORCE = "pod-security.kubernetes.io/enforce"

SET = Member(
    RELEASE,
    "set",
    scale_set(RUNNER | {"automountServiceAccountToken": False}, controllerServiceAccount={"namespace": "arc-systems"})
    | HOME
    | {"name": "gpu-t4"},
    provider=INSIDE,
)
CUSTOM = {
    token: Member(
        token,
        "custom",
        runner_set(RUNNER | {"automountServiceAccountToken": False}) | {"metadata": HOME | {"name": "own"}},
        provider=INSIDE,
    )
    for token in (RUNNER_SET, RUNNER_SET_PATCH)
}
CONTROLLER = Member(
    RELEASE,
    "controller",
    {
        "name": "arc",
        "namespace": "arc-systems",
        "chart": "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set-controller",
    },
    provider=INSIDE,
)
SPACE = Member(NAMESPACE, "space", {"metadata": {"name": "runners", "labels": {ENFORCE: "restricted"}}}, provider=INSIDE)
POLICY = Member(
    NETWORK_POLICY,
    "policy",
    {"metadata": HOME, "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": [DNS, {"to": [OPEN]}]}},
    provider=INSIDE,
)
QUOTA = Member(RESOURCE_QUOTA, "quota", {"metadata": HOME, "spec": {"hard": {"pods": "12"}}}, provider=INSIDE)
RANGE = Member(LIMIT_RANGE, "range", {"metadata": HOME, "spec": {"limits": [{"type": "Container"}]}}, provider=INSIDE)
CNI = Member(
    EKS_ADDON,
    "cni",
    {"addonName": "vpc-cni", "clusterName": "usw2", "configurationValues": '{"enableNetworkPolicy": "true"}'},
)
WALLS = (SPACE, POLICY, QUOTA, RANGE)
OKE = Member(OKE_CLUSTER, "oke", {"name": "sjc"})
OTHER_OKE = Member(OKE_CLUSTER, "other", {"name": "iad"})

PLACE = 'namespace "runners"'


def private(cidr: str, *networks: str) -> str:
    return (
        f'{PLACE}: spec.egress[1].to[0].ipBlock.cidr is "{cidr}": jobs can then reach nodes and other pods; add '
        f"{', '.join(networks)} to except"
    )


def denied(direction: str) -> str:
    return (
        f"{PLACE}: no NetworkPolicy for all its pods denies {direction} by default; add one with podSelector {{}} and "
        "policyTypes [Ingress, Egress]"
    )


def reached(*addresses: str) -> str:
    return f"jobs can then reach the node's metadata and credentials at {', '.join(addresses)}"


def hole(cidr: str, *addresses: str, rule: int = 1, peer: int = 0) -> str:
    hosts = ", ".join(f"{address}/{128 if ':' in address else 32}" for address in addresses)
    where = f"{PLACE}: spec.egress[{rule}].to[{peer}].ipBlock.cidr"
    return f'{where} is "{cidr}": {reached(*addresses)}; add {hosts} to except'


def everywhere(rule: int) -> str:
    return f"{PLACE}: spec.egress[{rule}].to is not set: {reached(*METADATA)}; name the destinations that jobs may reach"


def token(shown: str, path: str = "values.template.spec") -> str:
    return (
        f"{path}.automountServiceAccountToken is {shown}: a job could use a token for the Kubernetes API; "
        f"write false, or name the account in {config_of(RULE.id, 'tokenServiceAccounts')} if the pod runs no job"
    )


def standard(shown: str) -> str:
    return (
        f'{PLACE}: metadata.labels["{ENFORCE}"] is {shown}: runner pods need the Pod Security Standard '
        "restricted or baseline; write restricted"
    )


def homeless(name: str, namespace: str = "runners") -> str:
    return (
        f'namespace "{namespace}": the stack does not declare this Namespace, so runner pods of {name} have no Pod '
        f"Security Standard; declare it with label {ENFORCE}: restricted"
    )


def shared(name: str, namespace: str = "runners") -> str:
    return (
        f'namespace "{namespace}": runners of {name} share it with ARC\'s controller, whose account may read every secret of the '
        "cluster; give the runner set its own namespace"
    )


NO_QUOTA = f"{PLACE}: no ResourceQuota limits the sum of its pods; add one with spec.hard"
NO_RANGE = f"{PLACE}: no LimitRange sets limits for containers without limits; add one with spec.limits"
NOT_ENFORCED = (
    "configurationValues of vpc-cni does not enable enableNetworkPolicy: the cluster accepts NetworkPolicies but does not "
    "enforce them; "
    'write {"enableNetworkPolicy": "true"}'
)


def not_shown(*names: str) -> str:
    return (
        f"nothing in the stack shows whether jobs of {', '.join(names)} are isolated: OKE enforces no NetworkPolicy until Calico "
        "is installed in the cluster"
    )


def inside(cluster: Any, *members: Member) -> list[Member]:
    """The members in another cluster."""
    return [replace(each, provider={"clusterIdentifier": cluster}) for each in members]


def messages(*members: Member, **config: Any) -> tuple[str, ...]:
    return judge_stack(RULE, members, config).messages


def with_egress(*rules: Any) -> Member:
    return but(POLICY, "spec", "egress", list(rules))


# -- the runner set ----------------------------------------------------------------------------------------------------


def test_a_runner_set_with_all_walls_passes() -> None:
    assert judge_stack(RULE, (SET, CONTROLLER, *WALLS, CNI)) == CLEAN


def test_a_runner_set_without_any_is_told_of_each() -> None:
    found = judge_stack(RULE, (SET,))
    assert found.messages == (homeless("gpu-t4"), denied("Ingress"), denied("Egress"), NO_QUOTA, NO_RANGE)
    assert set(found.urns) == {urn(RELEASE, "set")}


def test_sets_of_one_namespace_are_told_of_its_walls_once_and_of_their_own_pods_each() -> None:
    loose = but(SET, "values", "template", "spec", "automountServiceAccountToken", None)
    other = replace(but(loose, "name", "other"), name="other")
    found = judge_stack(RULE, (loose, other, SPACE, POLICY, QUOTA))
    assert found.messages == (token("not set"), NO_RANGE, token("not set"))
    assert found.urns[0] != found.urns[2]


@pytest.mark.parametrize(("value", "shown"), [(True, "true"), (None, "not set"), ("false", '"false"'), (0, "0")])
def test_only_false_keeps_the_token_out(value: Any, shown: str) -> None:
    assert messages(but(SET, "values", "template", "spec", "automountServiceAccountToken", value), *WALLS) == (token(shown),)


def test_an_account_that_the_config_names_may_have_its_token() -> None:
    spec = ("values", "template", "spec")
    launcher = but(but(SET, *spec, "automountServiceAccountToken", True), *spec, "serviceAccountName", "launcher")
    assert default(RULE, "tokenServiceAccounts") == (LAUNCHER,), "the account of this project's launchers"
    assert messages(launcher, *WALLS) == ()
    assert messages(launcher, *WALLS, tokenServiceAccounts=["other"]) == (token("true"),)


@pytest.mark.parametrize("mode", ["kubernetes", "kubernetes-novolume"])
def test_runners_that_make_pods_need_theirs(mode: str) -> None:
    made = but(
        but(SET, "values", "template", "spec", "automountServiceAccountToken", None), "values", "containerMode", {"type": mode}
    )
    assert messages(made, *WALLS) == ()


def test_a_set_without_a_template_mounts_one() -> None:
    assert messages(but(SET, "values", "template", None), *WALLS) == (token("not set"),)


def test_the_controller_lives_elsewhere() -> None:
    here = but(CONTROLLER, "namespace", "runners")
    assert messages(SET, here, *WALLS) == (shared("gpu-t4"),)
    assert messages(SET, replace(here, provider={"clusterIdentifier": "use1"}), *WALLS) == (), "one of another cluster"
    assert messages(SET, replace(here, provider=None), *WALLS) == (), "one of another cluster"
    unnamed = [replace(each, provider={"clusterIdentifier": UNKNOWN}) for each in (SET, here, *WALLS)]
    assert messages(*unnamed) == (shared("gpu-t4"),), "the provider distinguishes them where its cluster has no name yet"
    told = but(SET, "values", "controllerServiceAccount", "namespace", "runners")
    assert messages(told, *WALLS) == (shared("gpu-t4"),), "a controller that another stack has installed"


@pytest.mark.parametrize(
    ("member", "path"),
    [
        (CONTROLLER, ("namespace",)),
        (CONTROLLER, ("chart",)),
        (SET, ("namespace",)),
        (SET, ("values", "controllerServiceAccount")),
        (SET, ("values", "containerMode")),
        (SET, ("values", "template")),
        (SET, ("values", "template", "spec", "automountServiceAccountToken")),
        (SET, ("values", "template", "spec", "serviceAccountName")),
    ],
)
def test_what_decides_must_be_known(member: Member, path: tuple[str, ...]) -> None:
    mounts = but(SET, "values", "template", "spec", "automountServiceAccountToken", True)
    bare = mounts if path[-1] in ("containerMode", "serviceAccountName") else SET
    hidden = judge_stack(
        RULE, [but(each, *path, UNKNOWN) if each.name == member.name else each for each in (bare, CONTROLLER, *WALLS)]
    )
    assert not hidden.messages
    assert hidden.unknown


# -- the namespace -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "shown"), [("privileged", '"privileged"'), (None, "not set"), ("", '""'), (True, "true")])
def test_a_namespace_holds_its_pods_to_a_standard(level: Any, shown: str) -> None:
    space = but(SPACE, "metadata", "labels", ENFORCE, level)
    found = judge_stack(RULE, (SET, space, *WALLS[1:]))
    assert found.messages == (standard(shown),)
    assert found.urns == (urn(NAMESPACE, "space"),)
    assert messages(SET, but(SPACE, "metadata", "labels", ENFORCE, "baseline"), *WALLS[1:]) == ()
    assert messages(SET, but(SPACE, "metadata", "labels", {f"{ENFORCE}-version": "latest"}), *WALLS[1:]) == (standard("not set"),)


@pytest.mark.parametrize("wall", WALLS, ids=lambda wall: wall.name)
def test_walls_of_another_namespace_or_cluster_are_none(wall: Member) -> None:
    path = ("metadata", "name") if wall is SPACE else ("metadata", "namespace")
    others = [each for each in WALLS if each is not wall]
    lacking = messages(SET, *others)
    assert lacking
    assert messages(SET, *others, but(wall, *path, "elsewhere")) == lacking
    assert messages(SET, *others, replace(wall, provider=None)) == lacking
    assert messages(SET, *others, wall) == ()


@pytest.mark.parametrize("wall", WALLS, ids=lambda wall: wall.name)
def test_a_wall_in_an_unknown_namespace_may_be_theirs(wall: Member) -> None:
    path = ("metadata", "name") if wall is SPACE else ("metadata", "namespace")
    hidden = judge_stack(RULE, (SET, *(each for each in WALLS if each is not wall), but(wall, *path, UNKNOWN)))
    assert not hidden.messages
    assert hidden.unknown


def test_empty_bounds_bound_nothing() -> None:
    assert messages(SET, SPACE, POLICY, but(QUOTA, "spec", "hard", {}), but(RANGE, "spec", "limits", [])) == (NO_QUOTA, NO_RANGE)


# -- the policy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selector", [{}, None, {"matchLabels": {}}, {"matchLabels": {}, "matchExpressions": []}])
def test_an_empty_selector_means_all_pods(selector: Any) -> None:
    assert messages(SET, but(POLICY, "spec", "podSelector", selector), SPACE, QUOTA, RANGE) == ()


@pytest.mark.parametrize(
    "selector", [{"matchLabels": {"app": "x"}}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}]
)
def test_a_policy_for_some_pods_denies_nothing_by_default(selector: Any) -> None:
    some = but(POLICY, "spec", "podSelector", selector)
    assert messages(SET, some, SPACE, QUOTA, RANGE) == (denied("Ingress"), denied("Egress"))


@pytest.mark.parametrize(
    ("types", "missing"),
    [
        (["Ingress"], ("Egress",)),
        (["Egress"], ("Ingress",)),
        (["ingress", "egress"], ("Ingress", "Egress")),
        (None, ()),
        ([], ()),
    ],
)
def test_each_direction_is_denied(types: Any, missing: tuple[str, ...]) -> None:
    policy = but(POLICY, "spec", "policyTypes", types)
    assert messages(SET, policy, SPACE, QUOTA, RANGE) == tuple(map(denied, missing))


def test_an_unknown_direction_may_be_the_one() -> None:
    hidden = judge_stack(RULE, (SET, but(POLICY, "spec", "policyTypes", ["Ingress", UNKNOWN]), SPACE, QUOTA, RANGE))
    assert not hidden.messages
    assert hidden.unknown


def test_without_types_a_policy_is_of_egress_where_it_has_rules_for_it() -> None:
    bare = but(but(POLICY, "spec", "policyTypes", None), "spec", "egress", None)
    assert messages(SET, bare, SPACE, QUOTA, RANGE) == (denied("Egress"),)


def test_two_policies_may_deny_one_direction_each() -> None:
    into = replace(but(but(POLICY, "spec", "policyTypes", ["Ingress"]), "spec", "egress", None), name="in")
    out = replace(but(POLICY, "spec", "policyTypes", ["Egress"]), name="out")
    assert messages(SET, into, out, SPACE, QUOTA, RANGE) == ()


OPENED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "the world": ({"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}, (hole("0.0.0.0/0", "169.254.169.254"),)),
    "the world but other networks": (
        {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "169.254.169.253/32", "junk"]}}]},
        (hole("0.0.0.0/0", "169.254.169.254"),),
    ),
    "link-local addresses": ({"to": [{"ipBlock": {"cidr": "169.254.0.0/16"}}]}, (hole("169.254.0.0/16", "169.254.169.254"),)),
    "the address itself": (
        {"to": [{"ipBlock": {"cidr": "169.254.169.254/32"}}]},
        (hole("169.254.169.254/32", "169.254.169.254"),),
    ),
    "host bits": ({"to": [{"ipBlock": {"cidr": "169.254.169.1/24"}}]}, (hole("169.254.169.1/24", "169.254.169.254"),)),
    "the world in IPv6": ({"to": [OPEN, {"ipBlock": {"cidr": "::/0"}}]}, (hole("::/0", "fd00:ec2::254", peer=1),)),
    "private IPv6": ({"to": [{"ipBlock": {"cidr": "fd00::/8"}}]}, (hole("fd00::/8", "fd00:ec2::254"),)),
    "everybody": ({}, (everywhere(1),)),
    "everybody, in so many words": ({"to": []}, (everywhere(1),)),
    "everybody at HTTP": ({"ports": [{"protocol": "TCP", "port": 80}]}, (everywhere(1),)),
    "everybody at any TCP port": ({"ports": [{"protocol": "TCP"}]}, (everywhere(1),)),
    "everybody, TCP being the default": ({"ports": [{"port": 80}]}, (everywhere(1),)),
    "a range of ports": ({"ports": [{"port": 53}, {"port": 1, "endPort": 443}]}, (everywhere(1),)),
}
CLOSED: dict[str, Any] = {
    "the world but the address, at one port": {
        "to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}],
        "ports": [{"port": 443}],
    },
    "the world but link-local, in IPv6 too": {
        "to": [OPEN, {"ipBlock": {"cidr": "::/0", "except": ["fd00:ec2::254/128"]}}],
    },
    "other networks": {"to": [{"ipBlock": {"cidr": "10.20.0.0/16"}}, {"ipBlock": {"cidr": "2600::/16"}}]},
    "pods": {"to": [{"podSelector": {}}, {"namespaceSelector": {}}]},
    "everybody at DNS": {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]},
    "everybody at HTTPS": {"ports": [{"port": 443}]},
    "everybody by UDP": {"ports": [{"protocol": "UDP", "port": 80}]},
    "everybody at a port by name": {"ports": [{"port": "https"}]},
    "not a network": {"to": [{"ipBlock": {"cidr": "everywhere"}}]},
}


@pytest.mark.parametrize(("rule", "told"), OPENED.values(), ids=OPENED)
def test_a_rule_that_reaches_instance_metadata_is_a_hole(rule: Any, told: tuple[str, ...]) -> None:
    found = judge_stack(RULE, (SET, with_egress(DNS, rule), SPACE, QUOTA, RANGE))
    assert found.messages == told
    assert set(found.urns) == {urn(NETWORK_POLICY, "policy")}


def test_the_private_networks_are_those_that_this_project_closes() -> None:
    assert tuple(default(RULE, "privateNetworks")) == CLOSED_NETWORKS


@pytest.mark.parametrize(
    ("rule", "opened"),
    [
        (
            {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [LOCAL, "8.0.0.0/6", "64.0.0.0/2"]}}]},
            CLOSED_NETWORKS[3:],
        ),
        ({"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}, CLOSED_NETWORKS[:1]),
        ({"to": [{"ipBlock": {"cidr": "172.0.0.0/8"}}], "ports": [{"protocol": "TCP"}]}, CLOSED_NETWORKS[3:4]),
        ({"to": [{"ipBlock": {"cidr": "172.0.0.0/8"}}], "ports": [{"port": 1, "endPort": 65535}]}, CLOSED_NETWORKS[3:4]),
    ],
)
def test_a_rule_for_all_ports_opens_no_private_network(rule: Any, opened: tuple[str, ...]) -> None:
    assert messages(SET, with_egress(DNS, rule), SPACE, QUOTA, RANGE) == (private(rule["to"][0]["ipBlock"]["cidr"], *opened),)


def test_a_patch_of_what_isolates_is_refused_in_each_namespace_of_the_stack() -> None:
    team = Member(NAMESPACE, "team", {"metadata": {"name": "team"}}, provider=INSIDE)
    for token in PATCHES:
        for name, ours in (("runners", True), ("team", True), ("other", False)):
            assert len(messages(SET, *WALLS, team, patched(token, name))) == ours, (token, name)


@pytest.mark.parametrize("rule", CLOSED.values(), ids=CLOSED)
def test_a_rule_that_does_not_is_none(rule: Any) -> None:
    assert messages(SET, with_egress(DNS, rule), SPACE, QUOTA, RANGE) == ()


def test_any_policy_of_the_namespace_may_open_what_the_others_close() -> None:
    second = replace(with_egress({}), name="second")
    assert messages(SET, *WALLS, second) == (everywhere(0),)
    assert messages(SET, *WALLS, but(second, "metadata", "namespace", "elsewhere")) == ()
    assert messages(SET, *WALLS, but(second, "spec", "policyTypes", ["Ingress"])) == (), "its rules out are not in force"
    hidden = judge_stack(RULE, (SET, *WALLS, but(second, "metadata", "namespace", UNKNOWN)))
    assert (hidden.messages, hidden.unknown) == ((), "metadata.namespace")


def test_what_a_hole_is_can_be_unknown() -> None:
    hidden = judge_stack(RULE, (SET, with_egress({"to": [{"ipBlock": {"cidr": UNKNOWN}}]}), SPACE, QUOTA, RANGE))
    assert not hidden.messages
    assert hidden.unknown
    hidden = judge_stack(
        RULE, (SET, with_egress({"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [UNKNOWN]}}]}), SPACE, QUOTA, RANGE)
    )
    assert not hidden.messages
    assert hidden.unknown


def test_the_addresses_are_the_config_s() -> None:
    open_pods = with_egress({"to": [{"ipBlock": {"cidr": "169.254.170.0/24"}}]})
    assert messages(SET, open_pods, SPACE, QUOTA, RANGE) == ()
    told = messages(SET, open_pods, SPACE, QUOTA, RANGE, metadataAddresses=["169.254.170.23", "junk"])
    assert told == (hole("169.254.170.0/24", "169.254.170.23", rule=0),)
    assert messages(SET, with_egress({}), SPACE, QUOTA, RANGE, metadataAddresses=[]) == (), "a cluster that has none"


@pytest.mark.parametrize("opened", [(), ("10.20.0.0/16",)])
@pytest.mark.parametrize("ports", [(), (12250,)])
def test_the_policy_that_this_project_makes_passes(opened: tuple[str, ...], ports: tuple[int, ...]) -> None:
    made = but(POLICY, "spec", network_policy(opened=opened, private_ports=ports))
    assert messages(SET, made, SPACE, QUOTA, RANGE) == ()
    (block,) = [
        peer["ipBlock"] for rule in made.props["spec"]["egress"] for peer in rule["to"] if "except" in peer.get("ipBlock", {})
    ][:1]
    assert "169.254.0.0/16" in block["except"], "else this would prove nothing"


# -- enforcement -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [None, "", "{}", '{"enableNetworkPolicy": "false"}', '{"enableNetworkPolicy": "truely"}'])
def test_a_network_of_eks_that_enforces_nothing_is_told_of(values: str | None) -> None:
    found = judge_stack(RULE, (SET, *WALLS, but(CNI, "configurationValues", values)))
    assert found.messages == (NOT_ENFORCED,)
    assert found.urns == (urn(EKS_ADDON, "cni"),)


@pytest.mark.parametrize(
    "values", ['{"enableNetworkPolicy": "true"}', '{"env":{},"enableNetworkPolicy":true}', 'enableNetworkPolicy: "true"\n']
)
def test_json_and_yaml_turn_it_on(values: str) -> None:
    assert messages(SET, *WALLS, but(CNI, "configurationValues", values)) == ()


def test_networks_of_clusters_without_runners_are_not_asked() -> None:
    off = but(CNI, "configurationValues", None)
    assert messages(SET, *WALLS, but(off, "clusterName", "use1")) == ()
    assert messages(SET, *WALLS, but(off, "addonName", "coredns")) == ()
    assert messages(off) == ()


# -- OKE ---------------------------------------------------------------------------------------------------------------


def test_that_policies_are_enforced_on_oke_is_undeterminable() -> None:
    found = judge_stack(RULE, (*inside("sjc", SET, *WALLS), OKE))
    assert (found.messages, found.unknown, found.undeterminable) == ((), "", not_shown("gpu-t4"))


def test_it_is_said_of_sets_of_the_oke_cluster_and_of_no_others() -> None:
    assert judge_stack(RULE, (SET, *WALLS, CNI, OKE)) == CLEAN
    found = judge_stack(RULE, (SET, *WALLS, *inside("sjc", replace(but(SET, "name", "oci"), name="oci"), *WALLS), OKE, OTHER_OKE))
    assert found.undeterminable == not_shown("oci")


def test_a_set_whose_cluster_has_no_name_may_be_on_oke() -> None:
    bare = [replace(each, provider=None) for each in (SET, *WALLS)]
    assert judge_stack(RULE, [*bare, OKE]).undeterminable == not_shown("gpu-t4")
    assert judge_stack(RULE, bare) == CLEAN, "manifests alone show no cluster"


@pytest.mark.parametrize("hidden", [but(OKE, "name", UNKNOWN), replace(OKE, props={"name": UNKNOWN})])
def test_an_oke_cluster_of_an_unknown_name_may_be_that_of_a_set(hidden: Member) -> None:
    found = judge_stack(RULE, (SET, *WALLS, hidden))
    assert (found.messages, found.unknown, found.undeterminable) == ((), "name", "")
    assert judge_stack(RULE, (*WALLS, hidden)) == CLEAN, "without runners nothing is asked"


def test_launchers_of_machines_run_no_job() -> None:
    spec = ("values", "template", "spec")
    launcher = but(but(SET, *spec, "automountServiceAccountToken", True), *spec, "serviceAccountName", "launcher")
    shapes = {"metadata": {"annotations": {MACHINE_SHAPES: "VM.GPU.A10.1"}}, "spec": SET.props["values"]["template"]["spec"]}
    for each in (launcher, but(SET, "values", "template", shapes)):
        assert judge_stack(RULE, (*inside("sjc", each, *WALLS), OKE)) == CLEAN


def test_what_is_broken_on_oke_is_said_as_elsewhere() -> None:
    found = judge_stack(RULE, (*inside("sjc", SET, SPACE, POLICY, QUOTA), OKE))
    assert (found.messages, found.undeterminable) == ((NO_RANGE,), not_shown("gpu-t4"))


# -- ArgoCD -----------------------------------------------------------------------------------------------------------


def delivered(member: Member, **destination: str) -> Member:
    """The release as ArgoCD delivers it."""
    props = application(member.props)
    return replace(member, token=APPLICATION, props=changed(props, "spec", "destination", HOME | destination))


def test_a_set_that_argo_cd_delivers_has_the_walls_of_where_it_lands() -> None:
    assert messages(delivered(SET, server="https://kubernetes.default.svc"), *WALLS) == ()
    assert homeless("gpu-t4") in messages(delivered(SET))


def test_walls_of_another_cluster_are_for_nobody_here_to_tell() -> None:
    found = judge_stack(RULE, [delivered(SET, name="edge"), *WALLS])
    assert (found.messages, found.unknown) == ((), "spec.destination")


def test_a_controller_that_argo_cd_delivers_lives_elsewhere() -> None:
    beside = delivered(CONTROLLER, namespace="runners")
    assert messages(SET, beside, *WALLS) == (shared("gpu-t4"),)
    assert messages(SET, delivered(CONTROLLER, namespace="arc-systems"), *WALLS) == ()


BARE = {key: value for key, value in JOB.items() if key != "automountServiceAccountToken"}


def walls(place: str, level: str) -> tuple[Member, ...]:
    """Those of another namespace."""
    space = but(but(SPACE, "metadata", "name", place), "metadata", "labels", {ENFORCE: level})
    inner = (but(member, "metadata", "namespace", place) for member in WALLS[1:])
    return tuple(replace(member, name=f"{member.name}-{place}") for member in (space, *inner))


OUR_WALLS = (*walls(SPACE_OF_SET, "restricted"), *walls(JOBS, "baseline"))


def test_the_namespace_of_jobs_in_containers_has_the_same_walls() -> None:
    assert judge_stack(RULE, [hooked(), hooks(), *OUR_WALLS]) == CLEAN, "baseline admits images that run as root"
    without = judge_stack(RULE, [hooked(), hooks(), *walls(SPACE_OF_SET, "restricted")])
    assert len(without.messages) == 5
    assert all(f'namespace "{JOBS}"' in message for message in without.messages)
    weak = judge_stack(RULE, [hooked(), hooks(), *walls(SPACE_OF_SET, "restricted"), *walls(JOBS, "privileged")])
    assert weak.messages == (standard('"privileged"').replace(PLACE, f'namespace "{JOBS}"'),)
    beside = but(CONTROLLER, "namespace", JOBS)
    assert judge_stack(RULE, [hooked(), hooks(), beside, *OUR_WALLS]).messages == (shared("gpu-t4", JOBS),)


def patched(token: str, namespace: str) -> Member:
    metadata = {"name": namespace} if token.startswith(NAMESPACE) else {"name": "x", "namespace": namespace}
    return Member(token, "patch", {"metadata": metadata}, provider=INSIDE)


def changes(token: str) -> str:
    return f"{PLACE}: a {token.rpartition(':')[2]} changes what isolates its pods; change the object itself"


def of_set(name: str, **spec: Any) -> Member:
    """A NetworkPolicy in the namespace of a runner set that these files do not have."""
    return Member(NETWORK_POLICY, "policy", {"metadata": {"name": name, "namespace": "runners-gpu-t4"}, "spec": spec})


def test_a_policy_in_the_namespace_of_a_set_elsewhere_opens_nothing() -> None:
    closed = network_policy(CLOSED_NETWORKS, (), (), ())
    both = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert judge_stack(RULE, [of_set("runners", **closed)]) == CLEAN
    (opened,) = judge_stack(RULE, [of_set("more", **both, egress=[{}])]).messages
    assert "spec.egress[0].to is not set: jobs can then reach the node's metadata" in opened
    (selects,) = judge_stack(RULE, [of_set("runners", podSelector={"matchLabels": {"a": "b"}}, policyTypes=["Egress"])]).messages
    assert selects.endswith("NetworkPolicy runners isolates every pod of a runner set; leave it as the set has it")


SUITE = Suite(
    RULE,
    passing=(
        case(SET, CONTROLLER, *WALLS, CNI),
        case(SET, *WALLS, OKE),
        *(case(member, *WALLS) for member in CUSTOM.values()),
        case(SET, with_egress({"to": [{"ipBlock": {"cidr": "169.254.0.0/16"}}]}), SPACE, QUOTA, RANGE, metadataAddresses=[]),
        case(hooked(), hooks(), *OUR_WALLS, CNI),
        case(SET, with_egress({"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}), SPACE, QUOTA, RANGE, privateNetworks=[]),
        *(case(SET, *WALLS, patched(token, "other")) for token in sorted(PATCHES)),
        case(
            but(SET, "values", "template", "spec", {"serviceAccountName": "mine"}),
            *WALLS,
            tokenServiceAccounts=["mine"],
        ),
    ),
    violating=(
        case(SET, but(CONTROLLER, "namespace", "runners"), *WALLS, messages={shared("gpu-t4"): "set"}),
        case(SET, but(SPACE, "metadata", "labels", {}), *WALLS[1:], messages={standard("not set"): "space"}),
        case(
            SET,
            SPACE,
            with_egress({"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}),
            QUOTA,
            RANGE,
            messages={hole("0.0.0.0/0", METADATA[0], rule=0): "policy"},
        ),
        case(SET, SPACE, but(POLICY, "spec", "policyTypes", ["Ingress"]), QUOTA, RANGE, messages={denied("Egress"): "set"}),
        case(SET, SPACE, POLICY, but(QUOTA, "spec", "hard", {}), RANGE, messages={NO_QUOTA: "set"}),
        case(SET, SPACE, POLICY, QUOTA, but(RANGE, "spec", "limits", []), messages={NO_RANGE: "set"}),
        case(hooked(), hooks(BARE), *OUR_WALLS, messages={token("not set", 'data["job.json"].spec'): "gpu-t4"}),
        case(SET, *WALLS, but(CNI, "configurationValues", "{}"), messages={NOT_ENFORCED: "cni"}),
        case(SET, SPACE, POLICY, QUOTA, OKE, messages={NO_RANGE: "set"}),
        *(case(SET, *WALLS, patched(token, "runners"), messages={changes(token): "patch"}) for token in sorted(PATCHES)),
        *(
            case(
                but(member, "spec", "template", "spec", "automountServiceAccountToken", True),
                *WALLS,
                messages={token("true", "spec.template.spec"): "custom"},
            )
            for member in CUSTOM.values()
        ),
    ),
)
