"""The offline command as a person or a pipeline meets it: statuses, sections, errors, JSON."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import gpu_ci.offline.plan
from fleet.loading.home import ROOT
from gpu_ci.cli import app
from gpu_ci.offline.policyconfig import policy_settings
from policies.rules import RULES
from tests import plans
from tests.day import AS_OF
from tests.offline.staging import ON_DEMAND, TOO_SMALL, line_of, shipped, write

STAGING = (ROOT / "Pulumi.staging.yaml").read_text()


GROUPS = ", ".join(f"usw2-t4-spot-us-west-2{zone}-nodes" for zone in "abc")
"""The node groups of the pool in `ON_DEMAND`."""


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def changed(tmp_path: Path, *replacements: tuple[str, str]) -> str:
    """A copy of the staging file with texts replaced."""
    text = STAGING
    for old, new in replacements:
        assert old in text, f"the staging file has no {old!r} any more"
        text = text.replace(old, new)
    path = tmp_path / "Pulumi.staging.yaml"
    path.write_text(text)
    return str(path)


@pytest.fixture(scope="module")
def staging():
    return run("plan", "staging", "--verbose")


def test_staging_is_clean(staging):
    assert staging.exit_code == 0, staging.output


@pytest.mark.parametrize(
    "text",
    [
        f"gpu-ci plan of stack staging on {AS_OF}",
        "It is not a diff against deployed resources",
        "Secrets are not read offline; placeholders replace: gpu-ci:githubPrivateKey",
        "example values: github.url, github.appId, github.installationId, permissionsBoundary, clusters.usw2.",
        "gpu-ci.GpuNodeGroup usw2-t4-spot",
        "SPOT g4dn.2xlarge, g4dn.4xlarge, 0-2 nodes",
        "opaque: children judged at preview",
        "10 gpu-t4 runners, and the pools hold at most 7 at the same time: jobs beyond that wait",
        "spot-required-nonprod",
        "\nOK · idle 265 USD a month · a job-hour at most 0.75 to 1.21 USD (2 classes) · never above 16.34 USD an hour",
        f"not judged: 2 of {len(RULES) - 1} policies (quota-declared, no-silent-eviction)",
        "1 policy disabled · 1 version has ended\n",
        f"Policies: {len(RULES) - 4} hold, 1 ended, 2 undeterminable, 1 disabled",
        "disabled for this stack: protect-stateful",
    ],
)
def test_the_plan_says(staging, text):
    assert text in staging.stdout


def test_the_plan_prices_each_thing_on_its_own_line(staging):
    for item in ("pool t4-spot", "pool t4-release", "system pool", "control plane", "NAT gateways", "disks", "total"):
        assert item in staging.stdout
    assert "≤0.752 to 1.204" in staging.stdout, "an unsourced spot price is bounded by on-demand and marked"


def test_every_file_of_a_command_is_a_command_of_a_group():
    files = {path.stem for path in (ROOT / "gpu_ci" / "offline" / "commands").glob("*.py")} - {"__init__", "documents"}
    files |= {"accept", "image", "pending", "smoke", "submit", "world"}
    files |= {"inventory", "policies", "policy_config", "policy_pack", "schema", "settings"}
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # several commands are a group
    assert {name.replace("-", "_") for name in commands} == files, "gpu_ci/cli.py imports every file"
    assert {command.rich_help_panel for command in commands.values()} == {"Prove", "Run", "Write", "Document"}
    assert "Prove" in run("--help").stdout


def test_a_plain_log_has_no_escape_codes(staging):
    assert "\x1b" not in staging.stdout


def test_right_size_example_is_clean():
    result = run("plan", "right-size", "--file", str(ROOT / "examples" / "Pulumi.right-size.yaml"))
    assert result.exit_code == 0, result.output
    for machine in ("g4dn.xlarge", "g4dn.2xlarge", "p3.2xlarge", "p4d.24xlarge"):
        assert machine in result.stdout


def test_json_has_the_same_facts():
    result = run("plan", "staging", "--json")
    assert result.exit_code == 0
    plan = json.loads(result.stdout)
    assert plan["clean"] is True
    assert {resource["urn"] for resource in plan["resources"]} == {resource.urn for resource in shipped().resources}
    assert [(placed["runnerSet"], placed["choice"], placed["pool"], placed["poolHolds"]) for placed in plan["placement"]] == [
        ("gpu-t4", 1, "t4-spot", 5),
        ("gpu-t4", 2, "t4-ondemand", 2),
        ("gpu-t4-release", 1, "t4-release", 2),
    ]
    assert plan["price"]["worst"]["atMost"] is True
    assert plan["secrets"] == ["gpu-ci:githubPrivateKey"]
    # Nothing shows what the account has.
    special = dict.fromkeys(("quota-declared", "no-silent-eviction"), "undeterminable") | {
        "protect-stateful": "disabled",
        "nothing-expired": "ended",
    }
    assert [(found["policy"], found["state"]) for found in plan["policies"]] == [
        (rule.id, special.get(rule.id, "holds")) for rule in RULES
    ]
    providers = {resource["provider"] for resource in plan["resources"] if resource["type"].startswith("aws:")}
    assert len(providers) == 1


def test_a_secret_of_the_stack_file_is_never_shown(tmp_path):
    cipher = "AAABAHsecretciphertext"
    path = changed(tmp_path, ("config:\n", f"config:\n  gpu-ci:githubPrivateKey: {{secure: {cipher}}}\n"))
    for arguments in (("plan", "staging", "--file", path), ("plan", "staging", "--json", "--file", path)):
        result = run(*arguments)
        assert result.exit_code == 0, result.output
        assert cipher not in result.output


def test_a_secret_in_clear_is_refused_and_not_repeated(tmp_path):
    path = changed(tmp_path, ("config:\n", "config:\n  gpu-ci:githubPrivateKey: very-private\n"))
    result = run("plan", "staging", "--file", path)
    assert result.exit_code == 2
    assert "pulumi config set --secret gpu-ci:githubPrivateKey" in result.stderr
    assert "very-private" not in result.output


def test_a_broken_mandatory_policy_is_status_1(tmp_path):
    path = str(write(tmp_path, ON_DEMAND))
    result = run("plan", "staging", "--file", path)
    assert result.exit_code == 1
    assert f"mandatory spot-required-nonprod: 3 resources ({GROUPS}): capacityType is" in " ".join(result.stdout.split())
    assert "FAILED: 1 mandatory violation · idle 2" in result.stdout, "its three resources share a line"
    assert f"Policies: {len(RULES) - 5} hold, 1 broken, 1 ended, 2 undeterminable, 1 disabled" in result.stdout


def test_a_runner_that_fits_nowhere_is_status_1_and_says_what_would_do(tmp_path):
    path = changed(tmp_path, TOO_SMALL)
    result = run("plan", "staging", "--file", path)
    assert result.exit_code == 1
    assert (
        f"{path}:{line_of(Path(path), '        gpu-t4:')}: gpu-ci:clusters.usw2.runners.gpu-t4: cannot be placed: pool"
        in result.stdout
    )
    assert "the smallest type that is large enough is g4dn.2xlarge" in " ".join(result.stdout.split())
    assert "Resources:" not in result.stdout, "nothing is built that cannot be placed"
    assert "FAILED: 1 runner set cannot be placed, so no resource was created or judged" in result.stdout
    as_json = json.loads(run("plan", "staging", "--json", "--file", path).stdout)
    (failure,) = as_json["failures"]
    assert (failure["file"], failure["path"]) == (path, "gpu-ci:clusters.usw2.runners.gpu-t4")
    assert (as_json["clean"], as_json["built"]) == (False, False)
    assert {found["state"] for found in as_json["policies"]} == {"not judged"}, "not judged is not clean"


def test_a_runner_that_fits_in_none_of_its_pools_counts_once_and_each_pool_has_a_line(tmp_path):
    path = changed(tmp_path, ("memory: {request: 16Gi, limit: 32Gi}", "memory: {request: 40Gi, limit: 48Gi}"))
    lines = run("plan", "staging", "--file", path).stdout.splitlines()
    result = next(line for line in lines if line.startswith("FAILED: "))
    assert result.startswith("FAILED: 2 runner sets cannot be placed"), "gpu-t4 and gpu-t4-release"
    assert sum("runners.gpu-t4: cannot be placed: pool t4-" in line for line in lines) == 4, "two pools, first and last"


def test_the_program_itself_refuses_a_runner_that_fits_nowhere(tmp_path):
    import pulumi

    from fleet.loading import stackfile
    from gpu_ci.offline.record import record

    path = changed(tmp_path, TOO_SMALL)
    config = stackfile.with_stand_ins(stackfile.load("staging", ROOT, stack_file=Path(path)), ["gpu-ci:githubPrivateKey"])
    with pytest.raises(pulumi.RunError, match="the smallest type that is large enough is g4dn"):
        record(ROOT / "__main__.py", config)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"all": "disabled"}, f"Policies: {len(RULES)} disabled"),
        ({"all": "disabled", "imds-v2-hop-one": "advisory"}, f"Policies: 1 holds, {len(RULES) - 1} disabled"),
    ],
)
def test_what_was_not_judged_is_not_said_to_hold(monkeypatch, config, said):
    monkeypatch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: config)
    result = run("plan", "staging")
    assert result.exit_code == 0
    assert said in result.stdout


def test_a_broken_advisory_policy_is_told_and_does_not_fail(monkeypatch, tmp_path):
    config = {"all": "disabled", "spot-required-nonprod": "advisory"}
    monkeypatch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: config)
    result = run("plan", "staging", "--file", str(write(tmp_path, ON_DEMAND)))
    assert result.exit_code == 0
    assert "Policies: 1 broken," in result.stdout
    assert f"advisory spot-required-nonprod: 3 resources ({GROUPS}): capacityType is" in " ".join(result.stdout.split())


# -- exceptions, remediations, the undeterminable ------------------------------------------------------------------------

EXCEPTION = {
    "urn": "*aws:eks/nodeGroup:NodeGroup::usw2-t4-spot-*-nodes",
    "reason": "a test of exceptions",
    "expires": "2026-12-31",
}


def excepted(monkeypatch, *entries):
    config = {"all": "disabled", "spot-required-nonprod": {"enforcementLevel": "mandatory", "exceptions": list(entries)}}
    monkeypatch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: config)


def test_an_exception_hides_a_violation_until_its_day_and_then_an_update_is_refused(monkeypatch, tmp_path):
    excepted(monkeypatch, EXCEPTION)
    path = str(write(tmp_path, ON_DEMAND))
    before = run("plan", "staging", "--file", path, "--as-of", "2026-12-31")
    assert before.exit_code == 0, before.output
    assert (
        f"mandatory spot-required-nonprod (excepted): 3 resources ({GROUPS}): exceptions[0], until 2026-12-31: a test"
        in " ".join(before.stdout.split())
    )
    after = run("plan", "staging", "--file", path, "--as-of", "2027-01-01")
    assert after.exit_code == 0, "no plan fails because a day has passed"
    assert "expired on 2026-12-31" in after.stdout
    refused = "pulumi up is refused, because a day has passed: spot-required-nonprod (usw2-t4-spot-us-west-2a-nodes, "
    assert refused in " ".join(after.stdout.split())


def test_an_exception_that_hides_nothing_is_remarked(monkeypatch):
    excepted(monkeypatch, EXCEPTION)
    result = run("plan", "staging", "--as-of", "2026-12-31")
    assert result.exit_code == 0
    assert f"! policy spot-required-nonprod: exceptions[0] ({EXCEPTION['urn']}) hides nothing; remove it" in " ".join(
        result.stdout.split()
    )


@pytest.mark.parametrize("urn", ["*::check::*::vendor/*", "*#ai/ollama"])
def test_an_exception_of_a_check_of_manifests_hides_nothing_of_a_plan_and_stays(monkeypatch, urn):
    excepted(monkeypatch, EXCEPTION | {"urn": urn})
    assert "hides nothing" not in run("plan", "staging", "--as-of", "2026-12-31").stdout


def test_the_exceptions_of_prod_run_out(monkeypatch):
    rule = "addon-version-pinned"
    own: Any = policy_settings("prod", ROOT)[rule]
    config = {"all": "disabled", rule: {"enforcementLevel": "mandatory"} | own}
    monkeypatch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: config)
    early, late = (run("plan", "prod", "--as-of", day) for day in ("2027-05-31", "2027-06-01"))
    assert (early.exit_code, late.exit_code) == (0, 0)
    assert "addon-version-pinned (sjc-gpu-plugin)" not in early.stdout
    assert "addon-version-pinned (sjc-gpu-plugin)" in late.stdout
    assert "expired on 2027-05-31" in late.stdout


def test_what_a_remediation_changes_is_shown_and_judged(monkeypatch, tmp_path):
    values = {"tags": ["owner", "team"], "values": {"team": "ml"}}
    config = {"all": "disabled", "required-tags": {"enforcementLevel": "remediate", **values}}
    monkeypatch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: config)
    result = run("plan", "staging")
    assert 'remediated by required-tags: usw2-t4-spot-launch: tags: not set → {team: "ml"}' in result.stdout
    assert 'remediated by required-tags: usw2-t4-spot-us-west-2a-nodes: tags.team: not set → "ml"' in result.stdout
    found = json.loads(run("plan", "staging", "--json").stdout)
    (done,) = [each for each in found["remediations"] if each["urn"].endswith("::usw2-t4-spot-us-west-2a-nodes")]
    assert done["policy"] == "required-tags"
    (nodes,) = [each for each in found["resources"] if each["name"] == "usw2-t4-spot-us-west-2a-nodes"]
    assert nodes["inputs"]["tags"]["team"] == "ml", "the resource is what the engine would make"
    # The inputs of a remote component are not changed, and so the level is mandatory.
    assert result.exit_code == 1


@pytest.mark.parametrize(("arguments", "status"), [((), 0), (("--strict",), 1)])
def test_a_strict_plan_fails_on_what_a_critical_policy_cannot_tell(monkeypatch, arguments, status):
    from policies.rules import no_long_lived_credentials

    assert no_long_lived_credentials.RULE.critical
    # Without its late keys the rule cannot know what is in the launchers' ConfigMaps, whose content OCI decides.
    config = {"all": "disabled", "no-long-lived-credentials": {"enforcementLevel": "mandatory", "lateKeys": []}}
    monkeypatch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: config)
    result = run("plan", "prod", *arguments)
    assert result.exit_code == status
    assert "mandatory no-long-lived-credentials (undeterminable): " in result.stdout
    if status:
        assert "FAILED: 1 undeterminable verdict of a critical policy · " in result.stdout


def test_labels_are_data_and_no_markup(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_ci.offline.plan, "has_sdk", lambda: False)
    result = run(
        "plan",
        "staging",
        "--file",
        changed(tmp_path, ("labels: [self-hosted, linux", 'labels: ["[red]", "[/x]", self-hosted, linux')),
    )
    assert result.exit_code == 0, result.output
    assert "[red], [/x]" in result.stdout


def test_a_fault_of_ours_is_no_failed_proof(monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(gpu_ci.offline.plan, "judge", broken)
    result = run("plan", "staging")
    assert result.exit_code == 70
    assert "RuntimeError: a bug" in result.stderr


@pytest.mark.parametrize(
    ("old", "key"), [("owner: ci-platform", "gpu-ci:tags"), ("url: https://github.com/example", "gpu-ci:github")]
)
def test_a_secret_inside_the_model_is_refused(tmp_path, old, key):
    path = changed(tmp_path, (old, old.partition(":")[0] + ": {secure: abc}"))
    result = run("plan", "staging", "--file", path)
    assert result.exit_code == 2
    assert f"{key}: contains a secret, which would be in clear text in tags and values" in result.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'kubernetesVersion: "1.36"',
            "kubernetesVersion: 1.36",
            "kubernetesVersion: must be text, and YAML reads a number here (1.30 as 1.3); "
            "put quotes around what you wrote; got 1.36",
        ),
        ("nodes: {min: 0, max: 5}", "nodes: {min: 6, max: 5}", "nodes.min: min is above max 5; lower min or raise max; got 6"),
        ("pool: t4-release", "pool: t5-release", "no pool of that name in this cluster"),
        ("idleDelay: 5m\n          # Images", "idleDely: 5m\n          # Images", "unknown key; did you mean idleDelay?"),
        ("  gpu-ci:tags:", "  gpu-ci:tag:", "gpu-ci:tag: unknown key"),
    ],
)
def test_wrong_input_is_one_line_with_file_line_path_rule_and_value(tmp_path, old, new, message):
    result = run("plan", "staging", "--file", changed(tmp_path, (old, new)))
    assert result.exit_code == 2
    assert result.stdout == "", "nothing half-done"
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith("…")]
    assert line.startswith(f"error: {tmp_path}/Pulumi.staging.yaml:"), "the path that was given"
    assert message in line
    number = int(line.split(":")[2])
    key = new.strip().split(":")[0] if "tag" not in new else "gpu-ci:tag"
    assert key in Path(tmp_path / "Pulumi.staging.yaml").read_text().splitlines()[number - 1], "the line is the one to fix"


def test_an_unknown_stack_names_those_that_exist():
    result = run("plan", "stagin")
    assert result.exit_code == 2
    assert "staging" in result.stderr


def test_a_plan_opens_no_connection(monkeypatch):
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a plan asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(gpu_ci.offline.plan, "declared", plans.alone)
    assert run("plan", "existing-eks", "--file", str(ROOT / "examples" / "Pulumi.existing-eks.yaml")).exit_code == 0


def test_the_command_works_as_a_process_with_a_bare_environment(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "gpu_ci", "plan", "homelab"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "OK · idle " in done.stdout
