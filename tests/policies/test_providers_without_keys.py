"""providers-without-keys: what providers may set, whose roles they assume, and whose clusters they change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.rules.kinds import EKS_CLUSTER, EKS_COMPONENT, IAM_ROLE, OKE_CLUSTER, TALOS_NODE
from policies.rules.providers_without_keys import KUBERNETES, RULE
from tests.policies.cases import Member, StackCase
from tests.policies.harness import config_of, judge_stack, said
from tests.policies.suite import Suite

AWS, EKS, OCI = (f"pulumi:providers:{name}" for name in ("aws", "eks", "oci"))
OWN, FOREIGN = "123456789012", "999999999999"
ROLE = Member(IAM_ROLE, "role", {"permissionsBoundary": f"arn:aws:iam::{OWN}:policy/boundary"})
CLUSTERS = {EKS_CLUSTER: "name", EKS_COMPONENT: "name", OKE_CLUSTER: "name", TALOS_NODE: "clusterName"}
NO_CLUSTER = "clusterIdentifier is {}: the stack has no such cluster; name one of its own, or remove it"
NEEDLESS = "{} is set: a provider takes its credentials from the deployment; remove it"


def provider(token: str, **props: Any) -> Member:
    return Member(token, "provider", props)


def cluster(token: str = EKS_COMPONENT) -> Member:
    return Member(token, "cluster", {CLUSTERS[token]: "usw2"})


def assumes(account: str) -> Member:
    return provider(AWS, region="us-west-2", assumeRoles=json.dumps([{"roleArn": f"arn:aws:iam::{account}:role/deploy"}]))


def kubeconfig(user: dict[str, Any], server: str = "https://A1.gr7.us-west-2.eks.amazonaws.com") -> str:
    clusters = [{"name": "c", "cluster": {"server": server}}]
    return json.dumps({"clusters": clusters, "users": [{"name": "u", "user": user}]})


SUITE = Suite(
    RULE,
    passing=(
        StackCase((provider(AWS, region="us-west-2", defaultTags="{}"),)),
        StackCase((ROLE, assumes(OWN))),
        StackCase((assumes(FOREIGN),), config={"accounts": [FOREIGN]}),
        StackCase((provider(EKS),)),
        StackCase((provider(OCI, region="us-sanjose-1"),)),
        *(StackCase((cluster(token), provider(KUBERNETES, clusterIdentifier="usw2"))) for token in CLUSTERS),
        # In the cluster of another program.
        StackCase((provider(KUBERNETES, enableServerSideApply=True),)),
    ),
    violating=(
        StackCase((provider(AWS, accessKey="a"),), {NEEDLESS.format("accessKey"): "provider"}),
        StackCase((provider(EKS, profile="a"),), {NEEDLESS.format("profile"): "provider"}),
        StackCase((provider(OCI, privateKey="a"),), {NEEDLESS.format("privateKey"): "provider"}),
        StackCase(
            (ROLE, assumes(FOREIGN)),
            {
                f'assumeRoles[0].roleArn is "arn:aws:iam::{FOREIGN}:role/deploy", a role of another account; remove it, or list '
                f"the account in {config_of('providers-without-keys', 'accounts')}": "provider"
            },
        ),
        *(
            StackCase(
                (cluster(token), provider(KUBERNETES, clusterIdentifier="other")), {NO_CLUSTER.format('"other"'): "provider"}
            )
            for token in CLUSTERS
        ),
        StackCase((cluster(), provider(KUBERNETES, enableServerSideApply=True)), {NO_CLUSTER.format("not set"): "provider"}),
    ),
)


@pytest.mark.parametrize("name", ["accessKey", "profile", "endpoints", "sharedCredentialsFiles", "insecure", "httpProxy"])
def test_a_provider_takes_nothing_that_no_list_has(name: str) -> None:
    assert judge_stack(RULE, [provider(AWS, **{name: "x"})]).messages == (NEEDLESS.format(name),)


CLI = {"exec": {"command": "aws", "args": ["eks", "get-token"]}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (kubeconfig(CLI), ""),
        (kubeconfig({"exec": {"command": "oci"}}, "https://192.0.2.7:6443"), ""),
        (kubeconfig(CLI, "https://evil.example"), "not an API server of a cloud"),
        (kubeconfig({"token": "t"}), "users[0].user.token is a key"),
        (kubeconfig({"client-key-data": "t"}), "users[0].user.client-key-data is a key"),
        (kubeconfig({"exec": {"command": "sh"}}), 'users[0].user.exec.command is "sh"'),
    ],
)
def test_a_kubeconfig_has_no_key_and_runs_the_cli_of_a_cloud(content: str, words: str) -> None:
    verdict = judge_stack(RULE, [cluster(), provider(KUBERNETES, clusterIdentifier="usw2", kubeconfig=content)])
    assert [words in message for message in verdict.messages] == [True] * bool(words)


def test_the_path_of_a_kubeconfig_shows_no_cluster() -> None:
    verdict = judge_stack(RULE, [cluster(), provider(KUBERNETES, clusterIdentifier="usw2", kubeconfig="~/.kube/config")])
    assert verdict.messages == ()
    assert verdict.undeterminable == "kubeconfig is the path of a file, so nothing here shows whose cluster it is of"


def test_the_server_of_a_clusters_own_kubeconfig_is_the_clusters() -> None:
    props = {"clusterIdentifier": "usw2", "kubeconfig": kubeconfig(CLI, "https://api.example")}
    own = Member(KUBERNETES, "provider", props, property_depends={"kubeconfig": ("cluster",)})
    assert judge_stack(RULE, [cluster(), own]) == said()


def test_a_kubeconfig_that_its_cluster_will_give_is_waited_for() -> None:
    judged = judge_stack(
        RULE, [cluster(), provider(KUBERNETES, clusterIdentifier="usw2", kubeconfig="04da6b54-80e4-46f7-96ec-b56ff0331ba9")]
    )
    assert judged == said()
