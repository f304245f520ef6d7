"""Settings of deployments: what is refused, by path, rule and value."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest

from fleet.facts.errors import FleetError
from fleet.loading import deployments
from fleet.loading.deployments import load
from tests.builders import ROOT
from tests.deployments.builders import READER, ROLE, SECRET, deployment, settings


def staging(**changes: Any) -> dict[str, Any]:
    """Deployments whose one stack has these settings besides."""
    return settings(stacks={"staging": deployment(**changes)})


APPROVAL = {"environment": "gpu-ci/approval", "team": "owners"}
NOT_A_SESSION = (
    "a session name has letters, digits, _ + = , . @ - and ${organization.name}, ${project.name}, ${stack.name}, "
    "${deployment.version} or ${deployment.id}; correct it"
)
NOT_A_FILTER = (
    "a path filter is a glob for the whole path in the repository, and a leading ! excludes; write for example fleet/**"
)
OPERATION = "Pulumi Deployments sets it, and a run decides by it whether it needs a plan and an approval; remove it"
PUSH = "a push has no approved grant, so its run would always fail; set deployOnPush: false, or remove approval"

BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no settings": ({}, "organization: required key is missing; add it"),
    "stack that is none": (
        settings(stacks={"staging": "daily"}),
        'stacks.staging: not a mapping; write {deployOnPush: true} (got "daily")',
    ),
    "no stack": (settings(stacks={}), "stacks: at least 1 entry is needed; add one (got {})"),
    "misspelt key": (staging(agentpool="vpc"), 'stacks.staging.agentpool: unknown key; did you mean agentPool? (got "vpc")'),
    "unknown key": (
        settings(owner="acme"),
        "owner: unknown key; known keys: organization, repository, branch, policyPack, stacks",
    ),
    "key that no secret has": (
        staging(secrets={"A": "b"}) | {"c": "d"},
        "c: unknown key; known keys: organization, repository, branch, policyPack, stacks, b",
    ),
    "organization": (
        settings(organization="Acme"),
        'organization: an organization of Pulumi Cloud is lower case; write it as its URL does (got "Acme")',
    ),
    "repository": (
        settings(repository="https://github.com/acme/fleet"),
        'repository: not a GitHub repository; write owner/name without https:// (got "https://github.com/acme/fleet")',
    ),
    "branch": (settings(branch="a b"), 'branch: not the short name of a branch; write for example main (got "a b")'),
    "stack_name": (
        settings(stacks={"acme/staging": deployment()}),
        'stacks.acme/staging: a stack\'s name has 1 to 100 letters, digits, _ . or -; correct it (got "acme/staging")',
    ),
    "cloud_name": (
        staging(agentPool="my pool"),
        'stacks.staging.agentPool: a name has letters, digits, _ . and -, no space; correct it (got "my pool")',
    ),
    "environment_name": (
        staging(approval=APPROVAL | {"environment": "acme/gpu-ci/approval"}),
        "stacks.staging.approval.environment: not an ESC environment; write project/name without the organization "
        '(got "acme/gpu-ci/approval")',
    ),
    "approvals": (
        staging(approval=APPROVAL | {"approvals": 0}),
        "stacks.staging.approval.approvals: must be at least 1; raise it (got 0)",
    ),
    "path_filter": (
        staging(deployOnPush=True, paths=["./fleet/**"]),
        f'stacks.staging.paths.0: {NOT_A_FILTER} (got "./fleet/**")',
    ),
    "variable": (
        staging(variables={"A-B": "c"}),
        'stacks.staging.variables.A-B: an environment variable has letters, digits and _; rename it (got "A-B")',
    ),
    "secret_key": (
        staging(secrets={"A": "prod.key"}),
        'stacks.staging.secrets.A: a config key of this project has letters and digits; rename it (got "prod.key")',
    ),
    "version": (
        settings(policyPack={"name": "gpu-ci", "version": "latest"}),
        'policyPack.version: not a published version; write for example "0.1.0" (got "latest")',
    ),
    "version number": (
        settings(policyPack={"name": "gpu-ci", "version": 0.1}),
        "policyPack.version: must be text, and YAML reads a number here (1.30 as 1.3); "
        "put quotes around what you wrote (got 0.1)",
    ),
    "role_arn": (
        staging(aws={"roleArn": "deployer", "readRoleArn": READER}),
        'stacks.staging.aws.roleArn: not the ARN of an IAM role; write arn:aws:iam::<account>:role/<name> (got "deployer")',
    ),
    "session_name": (
        staging(aws={"roleArn": ROLE, "readRoleArn": READER, "sessionName": "${stack}"}),
        f'stacks.staging.aws.sessionName: {NOT_A_SESSION} (got "${{stack}}")',
    ),
    "session": (
        staging(aws={"roleArn": ROLE, "readRoleArn": READER, "duration": "13h"}),
        'stacks.staging.aws.duration: AWS allows a session of 15m to 12h, up to the role\'s own limit; correct it (got "13h")',
    ),
    "command": (
        staging(preRunCommands=["set -e\ntrue"]),
        "stacks.staging.preRunCommands.0: a pre-run command is one line, and each runs in its own shell; write "
        "one command per entry "
        '(got "set -e\\ntrue")',
    ),
    "cron": (
        staging(drift={"schedule": "@daily"}),
        'stacks.staging.drift.schedule: a schedule has five fields, in UTC; write for example "0 5 * * *" (got "@daily")',
    ),
    "push_and_approval": (
        staging(deployOnPush=True, approval=APPROVAL),
        f"stacks.staging.deployOnPush: {PUSH} (got true)",
    ),
    "paths": (
        staging(paths=["fleet/**"]),
        "stacks.staging.paths: paths selects the pushes that deploy, and no push deploys this stack; remove paths "
        '(got ["fleet/**"])',
    ),
    "remediate_past_approval": (
        staging(approval=APPROVAL, drift={"schedule": "0 5 * * *", "autoRemediate": True}),
        "stacks.staging.drift.autoRemediate: remediation is an update without an approval; remove autoRemediate, or approval "
        "(got true)",
    ),
    "operation_set": (
        staging(variables={"PULUMI_CI_OPERATION": "preview"}),
        f'stacks.staging.variables.PULUMI_CI_OPERATION: {OPERATION} (got "preview")',
    ),
    "operation_set by a secret": (
        staging(approval=APPROVAL, secrets={"PULUMI_CI_OPERATION": SECRET}),
        f'stacks.staging.secrets.PULUMI_CI_OPERATION: {OPERATION} (got "{SECRET}")',
    ),
    "variable_twice": (
        staging(variables={"A": "b"}, secrets={"A": SECRET}),
        'stacks.staging.variables.A: it is also in secrets; remove one of them (got "b")',
    ),
    "secret_is_setting": (
        staging(secrets={"A": "branch"}),
        'stacks.staging.secrets.A: that key is a setting; use another key for the secret (got "branch")',
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_one_line_with_path_rule_and_value(name):
    held, line = BROKEN[name]
    with pytest.raises(FleetError) as caught:
        load(held)
    told = [str(problem).removeprefix("gpu-ci-deployments:") for problem in caught.value.problems]
    assert told[0] == line
    assert len(told) == (4 if name == "no settings" else 1), told


def test_every_rule_is_broken_here():
    """Rules are the first arguments of `problem`, `refuse_if` and `matching`, and keywords of `refuse`. `__` ends a name."""
    source = (ROOT / "fleet" / "loading" / "deployments.py").read_text()
    calls = [(ast.unparse(node.func), node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    first = [call.args[0] for name, call in calls if name in ("problem", "refuse_if", "matching")]
    named = [str(node.value) for node in first if isinstance(node, ast.Constant)]
    named += [str(keyword.arg) for name, call in calls if name == "refuse" for keyword in call.keywords]
    rules = {name.partition("__")[0] for name in named}
    assert len(rules) > 15, "the calls were found"
    assert rules <= {*BROKEN, "variable_secret"}, "break each of them above"


@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "TF_VAR_private_key", "OCI_CLI_KEY_CONTENT", "PULUMI_ACCESS_TOKEN", "OCI_CLI_PASSPHRASE"]
)
def test_a_secret_in_clear_is_refused_by_its_name_and_not_repeated(name):
    with pytest.raises(FleetError) as caught:
        load(staging(variables={name: "hush"}))
    (problem,) = caught.value.problems
    assert problem.where == f"gpu-ci-deployments:stacks.staging.variables.{name}"
    assert "hush" not in str(problem)
    assert problem.message.endswith("list it under secrets, with the config key that contains it")


@pytest.mark.parametrize("name", ["TF_VAR_private_key_path", "OCI_CLI_KEY_FILE", "TF_VAR_fingerprint", "OCI_CLI_REGION"])
def test_a_path_to_a_secret_is_none(name):
    assert load(staging(variables={name: "/etc/key"})).stacks["staging"].variables == {name: "/etc/key"}


def test_a_key_that_a_stack_names_is_a_secret_and_must_be_encrypted():
    held = staging(secrets={"A": SECRET}) | {SECRET: "hush"}
    assert load(held, [SECRET]).stacks["staging"].secrets == {"A": SECRET}
    with pytest.raises(FleetError, match=f"{SECRET}: a secret in clear text; set it with: pulumi -C deployments config set"):
        load(held)


def test_a_setting_may_not_be_encrypted():
    with pytest.raises(FleetError, match="organization: contains a secret, but is read in clear text; move the secret"):
        load(settings(), ["organization"])


@pytest.mark.parametrize(
    "name", ["deploy", "a@b.c", "gpu-ci-${deployment.id}", "${organization.name}-${project.name}-${stack.name}", "x" * 64]
)
def test_session_names_that_aws_and_pulumi_take(name):
    held = load(staging(aws={"roleArn": ROLE, "readRoleArn": READER, "sessionName": name}))
    assert held.stacks["staging"].aws is not None
    assert held.stacks["staging"].aws.session_name == name


def test_an_image_is_pinned_as_everywhere():
    with pytest.raises(FleetError) as caught:
        load(staging(executorImage="pulumi/pulumi:latest"))
    assert [problem.where for problem in caught.value.problems] == ["gpu-ci-deployments:stacks.staging.executorImage"]


@pytest.mark.parametrize("schedule", ["0 5 * * *", "*/30 * * * 1-5", "0 0 1 JAN SUN", "5,35 * * * *"])
def test_schedules_of_five_fields(schedule):
    drift = load(staging(drift={"schedule": schedule})).stacks["staging"].drift
    assert drift is not None
    assert (drift.schedule, drift.auto_remediate) == (schedule, False)


def test_a_stack_without_approval_may_have_its_drift_put_back():
    drift = load(staging(drift={"schedule": "0 5 * * *", "autoRemediate": True})).stacks["staging"].drift
    assert drift is not None
    assert drift.auto_remediate


def test_agent_pools_are_listed_once():
    stacks = {"a": deployment(agentPool="x"), "b": deployment(agentPool="x"), "c": deployment(), "d": deployment(agentPool="y")}
    assert load(settings(stacks=stacks)).agent_pools == ("x", "y")


def test_the_addresses_of_pulumis_runners_have_source_and_date():
    import tomllib

    row = tomllib.loads((ROOT / "fleet" / "facts" / "data" / "pulumi_cloud.toml").read_text())["hosted-runners"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"])
    assert "pulumi.com" in row["source"]
    assert deployments.hosted_addresses() == tuple(row["addresses"])
    assert len(set(row["addresses"])) == 4
