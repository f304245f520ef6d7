"""Who reaches what, as each kind of resource gives it: pods, tokens, documents of roles and buckets, runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from typer.testing import CliRunner

import gpu_ci.offline.who_can as reaching
from gpu_ci.cli import app
from gpu_ci.offline.recording import Recording
from gpu_ci.offline.who_can import who_can
from tests.builders import ROOT
from tests.components.recorded import recorded
from tests.policies.evasions.cloud import ROLE, TRUSTED, Add, Edit, case
from tests.policies.evasions.judged import changed_by

JOBS = ("a fork's job", "a job", "an insider")
KEY = "secret runners-gpu-t4/github-app of gpu-ci-staging-usw2"
GITHUB = "token.actions.githubusercontent.com"
ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
SETS = "kubernetes:helm.sh/v3:Release"
RIGHTS = "kubernetes:rbac.authorization.k8s.io/v1"


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., set[tuple[str, str, str]]]:
    """(thing, actor, what it can) of staging with changes of its program; without bootstrap and deployments."""
    (tmp_path / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text())
    (tmp_path / "Pulumi.staging.yaml").write_text((ROOT / "Pulumi.staging.yaml").read_text())

    def found(*parts: Add | Edit, root: Path = tmp_path) -> set[tuple[str, str, str]]:
        recording: Recording = changed_by(case("change", "", "", *parts), "staging")[0] if parts else recorded("staging")
        monkeypatch.setattr(reaching, "declared", lambda *_, **__: (recording, None))
        return {(one.thing, one.actor, one.can) for one in who_can("staging", root)}

    return found


def test_jobs_reach_what_their_pod_has_and_nothing_else(reached: Callable[..., Any]) -> None:
    before = reached()
    assert not [row for row in before if row[1] in JOBS], "no job of the shipped staging reaches anything"
    spec = ("values", "template", "spec")
    mounted = [*_volumes(), {"name": "app", "secret": {"secretName": "github-app"}}]
    assert reached(Edit(SETS, "usw2-gpu-t4-chart$", (*spec, "volumes"), mounted)) - before == {
        (KEY, actor, "has it in its pod") for actor in JOBS
    }
    other = [*_volumes(), {"name": "app", "secret": {"secretName": "other"}}]
    assert reached(Edit(SETS, "usw2-gpu-t4-chart$", (*spec, "volumes"), other)) == before


def _volumes() -> list[Any]:
    chart = next(each for each in recorded("staging").resources if each.name == "usw2-gpu-t4-chart")
    return list(chart.inputs["values"]["template"]["spec"]["volumes"])


@pytest.mark.parametrize(("account", "has"), [("default", True), ("other", False)])
def test_a_role_of_the_account_of_a_jobs_pod_is_the_jobs(reached: Callable[..., Any], account: str, has: bool) -> None:
    props = {"clusterName": "gpu-ci-staging-usw2", "namespace": "runners-gpu-t4", "serviceAccount": account, "roleArn": "x"}
    role = Add(ROLE, {"assumeRolePolicy": TRUSTED, "name": "jobs"}, name="jobs-role", below="^usw2$")
    given = Add(ASSOCIATION, props, {"roleArn": "jobs-role"}, name="jobs-identity", below="^usw2$")
    rows = {row for row in reached(role, given) if row[0] == "role jobs"}
    assert rows == ({("role jobs", actor, "has it in its pod") for actor in JOBS} if has else {("role jobs", "none", "-")})


def test_rights_of_the_account_of_a_jobs_pod_open_its_secret(reached: Callable[..., Any]) -> None:
    home = {"namespace": "runners-gpu-t4", "name": "reader"}
    role = {"metadata": home, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
    subject = {"kind": "ServiceAccount", "name": "jobs", "namespace": "runners-gpu-t4"}
    bound = {"metadata": home, "subjects": [subject], "roleRef": {"kind": "Role", "name": "reader"}}
    spec = ("values", "template", "spec")
    parts = [
        Edit(SETS, "usw2-gpu-t4-chart$", (*spec, "serviceAccountName"), "jobs"),
        Add(f"{RIGHTS}:Role", role, name="reader"),
        Add(f"{RIGHTS}:RoleBinding", bound, name="reader-binding"),
    ]
    opened = {(KEY, actor, "reads it by its account") for actor in JOBS}
    mounts = Edit(SETS, "usw2-gpu-t4-chart$", (*spec, "automountServiceAccountToken"), True)
    # The second edit is of the resource as recorded, so both are one.
    pod = next(each for each in recorded("staging").resources if each.name == "usw2-gpu-t4-chart").inputs["values"]["template"]
    both = Edit(SETS, "usw2-gpu-t4-chart$", spec, {**pod["spec"], "serviceAccountName": "jobs", mounts.path[-1]: True})
    assert not opened & reached(*parts), "without a token in the pod"
    assert opened <= reached(both, *parts[1:])


def _trust(**claims: Any) -> str:
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": f"arn:aws:iam::1:oidc-provider/{GITHUB}"},
        "Condition": {"StringEquals": {f"{GITHUB}:{key}": value for key, value in claims.items()}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.mark.parametrize(
    ("subject", "actors"),
    [
        ("repo:acme/app:ref:refs/heads/main", {"a job", "an insider"}),
        ("repo:acme/app:pull_request", {"a job", "an insider"}),
        ("repo:acme/app:environment:release", {"an insider"}),
        ("pulumi:deploy:org:acme:project:p:stack:s:operation:update:scope:write", {"the deployer"}),
    ],
)
def test_a_role_is_taken_by_those_whose_token_it_trusts(reached: Callable[..., Any], subject: str, actors: set[str]) -> None:
    trusting = Add(ROLE, {"assumeRolePolicy": _trust(sub=[subject], aud="sts.amazonaws.com"), "name": "ci"}, name="ci-role")
    rows = {row[1:] for row in reached(trusting) if row[0] == "role ci"}
    assert rows == {(actor, f"takes it as {subject}") for actor in actors}


def test_a_state_of_our_own_bucket_is_read_by_previews_and_written_by_updates(
    reached: Callable[..., Any], tmp_path: Path
) -> None:
    copytree(ROOT / "bootstrap", tmp_path / "bootstrap")
    settings = tmp_path / "bootstrap" / "Pulumi.main.yaml"
    settings.write_text(settings.read_text() + "  gpu-ci-bootstrap:state: {bucket: acme-state, encryptionKey: false}\n")
    (tmp_path / "Pulumi.prod.yaml").write_text((ROOT / "Pulumi.prod.yaml").read_text())
    rows = {row[1:] for row in reached() if row[0] == "state acme-state"}
    assert rows == {("the deployer", "reads"), ("the deployer", "writes"), ("the preview", "reads")}


def test_a_build_cache_is_read_by_the_network_and_written_by_tokens_alone() -> None:
    rows = who_can("right-size", ROOT, ROOT / "examples" / "Pulumi.right-size.yaml")
    cache = {(row.actor, row.can) for row in rows if row.thing == "cache example-ci-build-cache"}
    assert cache == {(actor, "reads") for actor in JOBS} | {("a job", "writes"), ("an insider", "writes")}
    fork = {row.by for row in rows if row.actor == "a fork's job"}
    assert fork == {"usw2-build-caches.example-ci-build-cache-policy"}, "by the bucket's policy, not by a role"


def test_the_command_prints_the_rows_and_one_json_document(monkeypatch: pytest.MonkeyPatch) -> None:
    row = reaching.Reach("role r", JOBS[0], "reads", "policy")
    monkeypatch.setattr(reaching, "who_can", lambda *_: [row])
    assert json.loads(CliRunner().invoke(app, ["who-can", "staging", "--json"]).stdout) == {
        "stack": "staging",
        "reaches": [row._asdict()],
    }
    assert "a fork's job" in CliRunner().invoke(app, ["who-can", "staging"]).stdout
