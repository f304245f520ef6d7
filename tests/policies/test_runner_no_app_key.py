"""runner-no-app-key: each way by which an account gets a right, in the namespace of the key and in another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.rules.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from policies.rules.runner_no_app_key import RULE
from tests.policies.cases import Member
from tests.policies.container_fixtures import HOOKED, INSIDE, JOB, JOBS, SPACE, hooked, hooks
from tests.policies.harness import CLEAN, changed, judge_stack
from tests.policies.machine_fixtures import case
from tests.policies.pool_fixtures import RELEASE, RUNNER_SET, RUNNER_SET_PATCH
from tests.policies.suite import Suite

SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "create", "delete"]}
HARMLESS = {"apiGroups": ["", "apps"], "resources": ["configmaps", "pods/log"], "verbs": ["*"]}
ACCOUNT = {"kind": "ServiceAccount", "name": "runner", "namespace": SPACE}


def role(*rules: dict[str, Any], namespace: str = JOBS, token: str = ROLE) -> Member:
    metadata = {"name": "runner"} | ({"namespace": namespace} if token == ROLE else {})
    return Member(token, "role", {"metadata": metadata, "rules": list(rules)}, provider=INSIDE)


def binding(
    subject: Any = ACCOUNT, namespace: str = JOBS, kind: str = "Role", name: str = "runner", token: str = ROLE_BINDING
) -> Member:
    metadata = {"name": "runner"} | ({"namespace": namespace} if token == ROLE_BINDING else {})
    props = {"metadata": metadata, "subjects": [subject], "roleRef": {"kind": kind, "name": name}}
    return Member(token, "binding", props, provider=INSIDE)


def fault(
    right: str = "get secrets", by: str = 'Role "runner"', who: str = "runners", account: str = "runner", of: str = SPACE
) -> str:
    return (
        f'{who} of gpu-t4 use ServiceAccount "{account}" of namespace "{of}", which may {right} in namespace "{SPACE}" by {by}: '
        "the GitHub App's key is there; remove the right, or bind the role in another namespace"
    )


def by_chart(mode: str) -> str:
    return (
        f'values.containerMode.type is "{mode}", and template.spec has no serviceAccountName: the chart then creates a Role that '
        f'reads the Secrets of namespace "{SPACE}", and the GitHub App\'s key is there; name an account without that right, and '
        "create the pods of jobs in another namespace"
    )


def messages(*members: Member) -> tuple[str, ...]:
    return judge_stack(RULE, members).messages


OURS = (role(SECRETS), binding())
LEAK = (role(SECRETS, namespace=SPACE), binding(namespace=SPACE))
WIDE = (role(SECRETS, token=CLUSTER_ROLE), binding(kind="ClusterRole", token=CLUSTER_ROLE_BINDING))


def test_rights_in_the_namespace_of_the_jobs_are_no_rights_on_the_key() -> None:
    assert judge_stack(RULE, [hooked(), hooks(), *OURS]) == CLEAN
    assert messages(hooked(), hooks(), *LEAK) == (fault(),)


@pytest.mark.parametrize(
    ("rule", "right"),
    [
        ({}, "get secrets"),
        ({"verbs": ["list"]}, "list secrets"),
        ({"verbs": ["watch", "patch"]}, "watch secrets"),
        ({"verbs": ["*"]}, "get secrets"),
        ({"resources": ["*"]}, "get secrets"),
        ({"apiGroups": ["*"]}, "get secrets"),
        ({"resourceNames": ["github-app"]}, "get secrets"),
        ({"resources": ["pods"]}, "create pods"),
        ({"resources": ["pods"], "resourceNames": ["x"]}, "create pods"),
        ({"verbs": ["create", "delete"]}, ""),
        ({"apiGroups": ["apps"]}, ""),
        ({"resourceNames": ["registry"]}, ""),
        ({"resources": ["pods/exec", "configmaps"]}, ""),
    ],
)
def test_a_rule_of_a_role_is_read_as_the_api_server_reads_it(rule: dict[str, Any], right: str) -> None:
    members = (hooked(), hooks(), role(HARMLESS, SECRETS | rule, namespace=SPACE), binding(namespace=SPACE))
    assert messages(*members) == ((fault(right),) if right else ())


@pytest.mark.parametrize(
    ("subject", "bound"),
    [
        (ACCOUNT, True),
        ({"kind": "ServiceAccount", "name": "runner"}, True),
        ({"kind": "User", "name": f"system:serviceaccount:{SPACE}:runner"}, True),
        ({"kind": "Group", "name": "system:serviceaccounts"}, True),
        ({"kind": "Group", "name": f"system:serviceaccounts:{SPACE}"}, True),
        ({"kind": "Group", "name": "system:authenticated"}, True),
        (ACCOUNT | {"name": "other"}, False),
        (ACCOUNT | {"namespace": JOBS}, False),
        ({"kind": "Group", "name": f"system:serviceaccounts:{JOBS}"}, False),
    ],
)
def test_an_account_is_bound_by_its_name_its_user_and_its_groups(subject: dict[str, Any], bound: bool) -> None:
    said = messages(hooked(), hooks(), role(SECRETS, namespace=SPACE), binding(subject, namespace=SPACE))
    assert said == ((fault(),) if bound else ())


def test_the_accounts_of_jobs_count_if_their_pods_mount_a_token() -> None:
    jobs = binding({"kind": "ServiceAccount", "name": "jobs", "namespace": JOBS}, namespace=SPACE)
    secrets = role(SECRETS, namespace=SPACE)
    assert messages(hooked(), hooks(), secrets, jobs) == ()
    mounting = {key: value for key, value in JOB.items() if key != "automountServiceAccountToken"}
    assert messages(hooked(), hooks(mounting), secrets, jobs) == (fault(who="jobs", account="jobs", of=JOBS),)
    unnamed = {key: value for key, value in mounting.items() if key != "serviceAccountName"}
    default = binding({"kind": "ServiceAccount", "name": "default", "namespace": JOBS}, namespace=SPACE)
    assert messages(hooked(), hooks(unnamed), secrets, default) == (fault(who="jobs", account="default", of=JOBS),)
    own = hooked(spec=HOOKED | {"automountServiceAccountToken": False})
    assert messages(own, hooks(), *LEAK) == (), "the runner's pod has no token either"


def test_a_cluster_role_counts_where_it_is_bound() -> None:
    assert messages(hooked(), hooks(), *WIDE) == (fault(by='ClusterRole "runner"'),)
    assert messages(hooked(), hooks(), WIDE[0], binding(kind="ClusterRole")) == ()
    here = binding(kind="ClusterRole", namespace=SPACE)
    assert messages(hooked(), hooks(), WIDE[0], here) == (fault(by='ClusterRole "runner"'),)
    elsewhere = [replace(member, provider={"clusterIdentifier": "use1"}) for member in WIDE]
    assert messages(hooked(), hooks(), *elsewhere) == (), "another cluster"


@pytest.mark.parametrize("name", ["cluster-admin", "admin", "edit", "view"])
def test_kubernetes_own_roles_are_known(name: str) -> None:
    said = judge_stack(RULE, [hooked(), hooks(), binding(kind="ClusterRole", name=name, namespace=SPACE)])
    assert said.messages == ((fault("read Secrets", f'ClusterRole "{name}"'),) if name != "view" else ())
    assert not said.undeterminable


def test_a_role_that_the_stack_does_not_have_shows_no_rights() -> None:
    said = judge_stack(RULE, [hooked(), hooks(), binding(namespace=SPACE)])
    assert said.undeterminable == 'role "runner" is not in the stack, so nothing shows whether it reads Secrets'
    assert judge_stack(RULE, [hooked(), hooks(), binding()]) == CLEAN, "in a namespace without the key it does not matter"


@pytest.mark.parametrize("mode", ["kubernetes", "kubernetes-novolume"])
def test_the_charts_own_mode_reads_the_key_unless_the_pod_names_an_account(mode: str) -> None:
    plain = changed(HOOKED, "serviceAccountName", "")
    assert messages(hooked(spec=plain, containerMode={"type": mode}), hooks()) == (by_chart(mode),)
    assert messages(hooked(containerMode={"type": mode}), hooks()) == ()
    assert messages(hooked(spec=plain, containerMode={"type": "dind"}), hooks()) == ()


def test_a_namespace_without_a_key_has_nothing_to_read() -> None:
    keyless = changed(hooked().props, "values", "githubConfigSecret", "")
    assert messages(replace(hooked(), props=keyless), hooks(), *LEAK) == ()
    of_chart = changed(hooked().props, "values", "githubConfigSecret", {"github_app_id": "1"})
    named = role(SECRETS | {"resourceNames": ["gpu-t4-gha-rs-github-secret"]}, namespace=SPACE)
    assert messages(replace(hooked(), props=of_chart), hooks(), named, LEAK[1]) == (fault(),), "the chart names this Secret"


SETS = (RELEASE, RUNNER_SET, RUNNER_SET_PATCH)

SUITE = Suite(
    RULE,
    passing=(
        case(hooked(), hooks(), *OURS),
        *(case(hooked(token), hooks(), *OURS) for token in SETS[1:]),
        case(hooked(), hooks(), role(HARMLESS, token=CLUSTER_ROLE), WIDE[1]),
    ),
    violating=(
        *(case(hooked(token), hooks(), *LEAK, messages={fault(): "binding"}) for token in SETS),
        case(hooked(), hooks(), *WIDE, messages={fault(by='ClusterRole "runner"'): "binding"}),
        case(
            hooked(spec=changed(HOOKED, "serviceAccountName", ""), containerMode={"type": "kubernetes"}),
            hooks(),
            messages={by_chart("kubernetes"): "gpu-t4"},
        ),
    ),
)
