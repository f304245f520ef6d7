"""What `pulumi -C deployments up` declares."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from typing import Any

import pulumi
import pytest

from fleet.loading.deployments import NAMESPACE
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.wire import UNKNOWN, raw
from policies.rules.record import SIGNATURE
from tests.builders import ROOT
from tests.deployments.builders import READER, ROLE, SECRET, as_config, declared, deployment, inputs, settings

EXAMPLE = settings(
    policyPack={"name": "gpu-ci", "version": "0.1.0"},
    stacks={
        "staging": deployment(
            deployOnPush=True,
            paths=["fleet/**", "!fleet/README.md"],
            aws={"roleArn": ROLE, "readRoleArn": READER},
            drift={"schedule": "0 5 * * *"},
        ),
        "prod": deployment(
            approval={"environment": "gpu-ci/prod-approval", "team": "owners"},
            protect=True,
            aws={"roleArn": ROLE, "readRoleArn": READER, "sessionName": "prod", "duration": "30m"},
            drift={"schedule": "30 5 * * *"},
            variables={"OCI_CLI_REGION": "us-sanjose-1"},
            secrets={"TF_VAR_private_key": SECRET, "OCI_CLI_KEY_CONTENT": SECRET},
            preRunCommands=["uv tool install oci-cli"],
        ),
    },
)
KEPT = (
    'case "$PULUMI_CI_OPERATION" in destroy) '
    'echo "protect is true in deployments, so Pulumi Deployments destroys nothing: docs/destroy.md" >&2; exit 1 ;; esac'
)
GATE = 'case "$PULUMI_CI_OPERATION" in preview|detect-drift) ;; *) pulumi env open acme/gpu-ci/prod-approval > /dev/null ;; esac'
TAKE = (
    'aws sts assume-role-with-web-identity --role-arn "$role" --duration-seconds "$seconds"'
    ' --role-session-name "$(printf %.64s "$session")" --web-identity-token "$PULUMI_OIDC_TOKEN"'
    " --query 'Credentials.[AccessKeyId,SecretAccessKey,SessionToken]' --output text"
    " | { read -r id key token && printf 'AWS_%s\\n'"
    ' "ACCESS_KEY_ID=$id" "SECRET_ACCESS_KEY=$key" "SESSION_TOKEN=$token" >> /PULUMI_ENV; }'
)
TAKES = (
    f'case "$PULUMI_CI_OPERATION" in preview|detect-drift) role={READER} seconds=3600 ;; *) role={ROLE} seconds={{}} ;; esac; '
    f'session="{{}}"; {TAKE.replace("{", "{{").replace("}", "}}")}'
)
OF_THE_RUN = TAKES.format(3600, "gpu-ci-$PULUMI_CI_STACK-$PULUMI_CI_BUILD_NUMBER")
PLAN = (
    'case "$PULUMI_CI_OPERATION" in preview|detect-drift|refresh|destroy) ;; '
    "*) pulumi install --no-plugins && .venv/bin/python -m gpu_ci plan -- {} ;; esac"
)
PENDING = (
    'case "$PULUMI_CI_OPERATION" in preview|detect-drift|refresh|destroy) ;; '
    "*) pulumi stack export --stack acme/gpu-ci/{0} | .venv/bin/python -m gpu_ci pending --state - -- {0} ;; esac"
)
OF_BOTH = {
    "organization": "acme",
    "project": "gpu-ci",
    "sourceContext": {"git": {"branch": "main"}},
    "cacheOptions": {"enable": True},
}
VCS = {"provider": "github", "repository": "acme/fleet", "previewPullRequests": False, "pullRequestTemplate": False}
OF_STAGING = OF_BOTH | {
    "stack": "staging",
    "vcs": VCS | {"deployCommits": True, "paths": ["fleet/**", "!fleet/README.md"]},
    "operationContext": {
        "preRunCommands": [OF_THE_RUN, PLAN.format("staging"), PENDING.format("staging")],
        "options": {"skipIntermediateDeployments": True},
    },
}
OF_PROD = OF_BOTH | {
    "stack": "prod",
    "vcs": VCS | {"deployCommits": False},
    "operationContext": {
        "environmentVariables": {
            "OCI_CLI_REGION": "us-sanjose-1",
            "OCI_CLI_KEY_CONTENT": "[secret]",
            "TF_VAR_private_key": "[secret]",
        },
        "preRunCommands": [
            *(KEPT, GATE, TAKES.format(1800, "prod"), "uv tool install oci-cli"),
            *(PLAN.format("prod"), PENDING.format("prod")),
        ],
    },
}


def example() -> StackConfig:
    """The settings above, their secret set."""
    return as_config(EXAMPLE, {SECRET: "a made-up key"})


@pytest.fixture(scope="module", params=[True, False], ids=["preview", "update"])
def found(request):
    """Inputs of everything that the settings declare."""
    return inputs(declared(example(), preview=request.param))


def test_each_stack_has_its_settings(found):
    assert found["DeploymentSettings", "staging"] == OF_STAGING
    assert found["DeploymentSettings", "prod"] == OF_PROD


def test_drift_is_looked_for_and_not_put_back(found):
    schedules = {name: held for (kind, name), held in found.items() if kind == "DriftSchedule"}
    of_all = {"organization": "acme", "project": "gpu-ci", "autoRemediate": False}
    assert schedules == {
        "staging": of_all | {"stack": "staging", "scheduleCron": "0 5 * * *"},
        "prod": of_all | {"stack": "prod", "scheduleCron": "30 5 * * *"},
    }


@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_runs_must_load_the_pack_with_the_config_that_the_plan_judges_by(found, stack):
    judged = json.loads((ROOT / "policies" / "config" / f"{stack}.json").read_text())
    assert found["PolicyGroup", stack] == {
        "name": f"gpu-ci-{stack}",
        "organizationName": "acme",
        "entityType": "stacks",
        "mode": "preventative",
        "stacks": [{"name": stack, "routingProject": "gpu-ci"}],
        "policyPacks": [{"name": "gpu-ci", "versionTag": "0.1.0", "config": judged}],
    }


def test_prod_stands_behind_an_environment_whose_opening_takes_anothers_approval(found):
    assert found["Environment", "prod-approval"] == {
        "organization": "acme",
        "project": "gpu-ci",
        "name": "prod-approval",
        "yaml": {"asset": {"text": "values:\n  stack: prod\n"}},
    }
    assert found["Gate", "prod-approval"] == {
        "orgName": "acme",
        "name": "gpu-ci prod",
        "enabled": True,
        "target": {"entityType": "environment", "qualifiedName": "gpu-ci/prod-approval", "actionTypes": ["open"]},
        "rule": {
            "ruleType": "approval_required",
            "numApprovalsRequired": 1,
            "allowSelfApproval": False,
            "requireReapprovalOnChange": True,
            "eligibleApprovers": [{"eligibilityType": "team_member", "teamName": "owners"}],
        },
    }


def test_nothing_else_is_declared(found):
    of_both = {(kind, stack) for kind in ("DeploymentSettings", "DriftSchedule", "PolicyGroup") for stack in ("staging", "prod")}
    assert set(found) == of_both | {("Environment", "prod-approval"), ("Gate", "prod-approval")}


@pytest.mark.parametrize("preview", [True, False])
def test_two_runs_register_the_same(preview):
    first, second = (declared(example(), preview) for _ in range(2))
    assert inputs(first) == inputs(second)
    assert {resource.urn: resource.wire for resource in first.resources} == {
        resource.urn: resource.wire for resource in second.resources
    }


def test_a_preview_and_an_update_register_the_same_where_nothing_is_of_the_cloud_s_making():
    assert inputs(declared(example())) == inputs(declared(example(), preview=False))


@pytest.mark.parametrize(
    ("operation", "opened"),
    [
        ("preview", False),
        ("detect-drift", False),
        ("update", True),
        ("refresh", True),
        ("destroy", True),
        ("remediate-drift", True),
        ("one of tomorrow", True),
        ("", True),
    ],
)
@pytest.mark.parametrize("granted", [True, False])
def test_whatever_may_change_something_opens_the_environment_first(tmp_path, operation, opened, granted):
    pulumi_cli = tmp_path / "pulumi"
    pulumi_cli.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/calls"\necho a value\nexit {0 if granted else 1}\n')
    pulumi_cli.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PULUMI_CI_OPERATION": operation}
    done = subprocess.run(["/usr/bin/env", "bash", "-c", GATE], env=environment, capture_output=True, text=True, check=False)
    calls = (tmp_path / "calls").read_text() if (tmp_path / "calls").exists() else ""
    assert calls == ("env open acme/gpu-ci/prod-approval\n" if opened else "")
    assert done.returncode == (1 if opened and not granted else 0), "a pre-run command that fails ends the run"
    assert done.stdout == "", "what an environment holds is not for a log"


@pytest.mark.parametrize("operation", ["preview", "detect-drift", "refresh", "update", "remediate-drift", "", "destroy"])
def test_a_protected_stack_is_not_destroyed_and_all_else_goes_on(operation):
    environment = {"PATH": "/usr/bin:/bin", "PULUMI_CI_OPERATION": operation}
    done = subprocess.run(["/usr/bin/env", "bash", "-c", KEPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == (operation == "destroy"), "a pre-run command that fails ends the run"
    assert ("protect is true" in done.stderr) is (operation == "destroy")
    assert done.stdout == ""


@pytest.mark.parametrize(
    "operation", ["preview", "detect-drift", "update", "refresh", "destroy", "remediate-drift", "tomorrow", ""]
)
@pytest.mark.parametrize("trusted", [True, False])
def test_a_preview_and_drift_detection_take_the_role_that_reads(tmp_path, operation, trusted):
    answer = "printf 'id\\tkey\\ttoken\\n'" if trusted else "echo AccessDenied >&2; exit 254"
    (tmp_path / "aws").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/asked"\n{answer}\n')
    (tmp_path / "aws").chmod(0o755)
    run = {"PULUMI_CI_OPERATION": operation, "PULUMI_OIDC_TOKEN": "jwt", "PULUMI_CI_STACK": "s" * 70}
    command = ["/usr/bin/env", "sh", "-c", OF_THE_RUN.replace("/PULUMI_ENV", f"{tmp_path}/env")]
    environment = run | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    asked = (tmp_path / "asked").read_text().splitlines()
    reads = operation in ("preview", "detect-drift")
    assert dict(pairwise(asked))["--role-arn"] == (READER if reads else ROLE)
    assert dict(pairwise(asked))["--web-identity-token"] == "jwt"
    assert dict(pairwise(asked))["--role-session-name"] == "gpu-ci-" + "s" * 57, "AWS takes 64 characters"
    assert (done.returncode == 0) is trusted, "a pre-run command that fails ends the run"
    assert done.stdout == "", "a key is not for a log"
    keys = (tmp_path / "env").read_text() if (tmp_path / "env").exists() else ""
    assert keys == ("AWS_ACCESS_KEY_ID=id\nAWS_SECRET_ACCESS_KEY=key\nAWS_SESSION_TOKEN=token\n" if trusted else "")


CREATES = [
    ("preview", False),
    ("detect-drift", False),
    ("refresh", False),
    ("destroy", False),
    ("update", True),
    ("remediate-drift", True),
    ("one of tomorrow", True),
    ("", True),
]
"""Each operation, and whether it may create something."""


@pytest.mark.parametrize(("operation", "planned"), CREATES)
@pytest.mark.parametrize("fails", ["", "pulumi", "python"])
def test_whatever_may_create_something_is_planned_first(tmp_path, operation, planned, fails):
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for file in (tmp_path / "pulumi", tmp_path / ".venv" / "bin" / "python"):
        file.write_text(f'#!/bin/sh\necho {file.name} "$@" >> calls\nexit {1 if file.name == fails else 0}\n')
        file.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PULUMI_CI_OPERATION": operation}
    command = ["/usr/bin/env", "bash", "-c", PLAN.format("lab")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    calls = (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
    all_calls = ["pulumi install --no-plugins", "python -m gpu_ci plan -- lab"]
    assert calls == (all_calls[: 1 if fails == "pulumi" else 2] if planned else [])
    assert done.returncode == (1 if planned and fails else 0), "a pre-run command that fails ends the run"


@pytest.mark.parametrize(("operation", "asked"), CREATES)
@pytest.mark.parametrize(("export", "status"), [("{}", 0), ("{pending}", 1), ("", 2)])
def test_what_an_interrupted_run_left_ends_whatever_may_create_something(tmp_path, operation, asked, export, status):
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    scripts = {
        tmp_path / "pulumi": f"""printf '%s' '{export}'; exit {0 if export else 255}""",
        tmp_path / ".venv" / "bin" / "python": """read -r state; echo "$*" "$state" >> calls
            case "$state" in {}) exit 0 ;; "") exit 2 ;; *) exit 1 ;; esac""",
    }
    for file, script in scripts.items():
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PULUMI_CI_OPERATION": operation}
    command = ["/usr/bin/env", "bash", "-c", PENDING.format("lab")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (tmp_path / "calls").exists() is asked
    assert done.returncode == (status if asked else 0), "a pre-run command that fails ends the run"
    if asked:
        assert (tmp_path / "calls").read_text() == f"-m gpu_ci pending --state - -- lab {export}\n"


# -- secrets -------------------------------------------------------------------------------------------------------------


def with_secret(**changes):
    stacks = {"staging": deployment(variables={"PLAIN": "seen"}, secrets={"TF_VAR_private_key": SECRET}, **changes)}
    return as_config(settings(stacks=stacks), {SECRET: "a made-up key"})


def test_a_secret_is_secret_alone_and_not_its_neighbours():
    recording = declared(with_secret())
    (resource,) = [each for each in recording.resources if each.type.endswith("DeploymentSettings")]
    held: dict[str, Any] = dict(raw(resource.wire))
    variables = held["operationContext"]["environmentVariables"]
    assert variables["PLAIN"] == "seen"
    assert SIGNATURE in variables["TF_VAR_private_key"], "encrypted in the state and in Pulumi Cloud"
    assert resource.inputs["operationContext"]["environmentVariables"]["TF_VAR_private_key"].reveal() == "a made-up key"


def test_a_secret_that_nobody_set_is_told_by_its_key():
    stacks = {"staging": deployment(secrets={"TF_VAR_private_key": SECRET})}
    with pytest.raises(pulumi.ConfigMissingError, match=f"{NAMESPACE}:{SECRET}"):
        declared(as_config(settings(stacks=stacks)))


def test_a_secret_in_clear_is_refused_and_not_repeated():
    held = settings(stacks={"staging": deployment(secrets={"TF_VAR_private_key": SECRET})}) | {SECRET: "a made-up key"}
    with pytest.raises(pulumi.RunError) as caught:
        declared(as_config(held))
    told = f"{NAMESPACE}:{SECRET}: a secret in clear text; set it with: pulumi -C deployments config set --secret {SECRET}"
    assert str(caught.value) == told


def test_broken_settings_are_told_line_by_line_before_anything_is_declared():
    held = settings(branch="refs/heads/main", stacks={"staging": deployment(deployOnPush="yes")}, organizations="acme")
    with pytest.raises(pulumi.RunError) as caught:
        declared(as_config(held))
    assert str(caught.value).splitlines() == [
        f'{NAMESPACE}:branch: not the short name of a branch; write for example main (got "refs/heads/main")',
        f'{NAMESPACE}:stacks.staging.deployOnPush: not a truth value; write true or false without quotes (got "yes")',
        f"{NAMESPACE}:organizations: unknown key; did you mean organization?",
    ]


# -- agents --------------------------------------------------------------------------------------------------------------


def test_stacks_that_name_a_pool_share_it_and_its_token_is_a_secret():
    stacks = {"staging": deployment(agentPool="vpc"), "prod": deployment(agentPool="vpc"), "lab": deployment()}
    recording = declared(as_config(settings(stacks=stacks)))
    found = inputs(recording)
    assert found["AgentPool", "vpc"] == {
        "name": "vpc",
        "organizationName": "acme",
        "description": "Runs gpu-ci where its endpoints are reached",
    }
    of_stack = {resource.name: resource for resource in recording.resources if resource.type.endswith("DeploymentSettings")}
    (pool,) = [resource.urn for resource in recording.resources if resource.type.endswith("AgentPool")]
    for stack in ("staging", "prod"):
        assert of_stack[stack].inputs["agentPoolId"] is UNKNOWN, "Pulumi Cloud makes it"
        assert of_stack[stack].property_dependencies["agentPoolId"] == (pool,)
        assert "cacheOptions" not in of_stack[stack].inputs, "Pulumi Cloud's cache is for its own runners"
    assert "agentPoolId" not in of_stack["lab"].inputs
    (resource,) = [resource for resource in recording.resources if resource.type.endswith("AgentPool")]
    assert resource.additional_secret_outputs == ("tokenValue",)
    outputs: dict[str, Any] = dict(recording.outputs)
    assert {name: set(held) for name, held in outputs.items()} == {"agentPools": {"vpc"}, "agentPoolTokens": {"vpc"}}


def test_a_schedule_and_a_gate_wait_for_what_they_need():
    recording = declared(example())
    by_name = {(resource.type.rpartition(":")[2], resource.name): resource for resource in recording.resources}
    for stack in ("staging", "prod"):
        assert by_name["DeploymentSettings", stack].urn in by_name["DriftSchedule", stack].dependencies
    assert by_name["Environment", "prod-approval"].urn in by_name["Gate", "prod-approval"].dependencies


# -- what is empty -------------------------------------------------------------------------------------------------------


def test_what_the_provider_leaves_out_on_reading_is_left_out():
    """An empty list or a false option would be a difference after every refresh."""
    found = inputs(declared(as_config(settings())))
    assert found == {
        ("DeploymentSettings", "staging"): {
            "organization": "acme",
            "project": "gpu-ci",
            "stack": "staging",
            "sourceContext": {"git": {"branch": "main"}},
            "vcs": {
                "provider": "github",
                "repository": "acme/fleet",
                "deployCommits": False,
                "previewPullRequests": False,
                "pullRequestTemplate": False,
            },
            "operationContext": {"preRunCommands": [PLAN.format("staging"), PENDING.format("staging")]},
            "cacheOptions": {"enable": True},
        }
    }


def test_an_image_of_one_s_own_replaces_pulumis():
    stacks = {
        "staging": deployment(
            executorImage="registry.example.com/pulumi:1", aws={"roleArn": ROLE, "readRoleArn": READER, "duration": "30m"}
        )
    }
    found = inputs(declared(as_config(settings(stacks=stacks))))["DeploymentSettings", "staging"]
    assert found["executorContext"] == {"executorImage": "registry.example.com/pulumi:1"}
    assert "oidc" not in found["operationContext"], "its one role would be that of every operation"


def test_a_stack_without_a_policy_config_has_the_packs_own_levels():
    held = settings(policyPack={"name": "gpu-ci", "version": "0.1.0"}, stacks={"lab": deployment()})
    assert inputs(declared(as_config(held)))["PolicyGroup", "lab"]["policyPacks"] == [{"name": "gpu-ci", "versionTag": "0.1.0"}]
