"""Fleets that `init` writes from flags plan clean at once: no violation, not even an advisory one, and no remark on sizes."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from typer.testing import CliRunner
from yamllint import linter  # type: ignore[import-untyped]
from yamllint.config import YamlLintConfig  # type: ignore[import-untyped]

from gpu_ci.cli import app
from gpu_ci.offline.plan import make_plan
from gpu_ci.offline.policyconfig import require_current
from gpu_ci.offline.words import result
from tests.builders import ROOT
from tests.day import AS_OF
from tests.offline.init.conftest import Project

TOWER, MORE = (ROOT / "tests" / "offline" / "init" / f"{name}.yaml" for name in ("tower", "more"))
"""Machines as `probe` prints them."""
FLEETS = {
    "acme": "--provider eks --region us-west-2 --gpu T4 --organization acme --jobs tests,release",
    "lab-1": "--provider eks --region eu-central-1 --gpu L4 --organization acme-robotics --jobs tests --kind dev",
    "all-kinds": "--provider eks --region us-east-2 --gpu a10g --organization acme --jobs tests,release,training --kind prod",
    "only-training": "--provider eks --region ap-northeast-1 --gpu L40S --organization acme --jobs training",
    "one-type": "--provider eks --region eu-west-1 --gpu V100 --organization acme --jobs tests,release,training --kind prod",
    "big": "--provider eks --region us-east-1 --gpu H100 --organization https://github.com/acme/app --jobs tests,training",
    "eight-each": "--provider eks --region ap-southeast-2 --gpu A100 --organization acme --jobs tests",
    "rtx": "--provider eks --region us-east-1 --gpu rtx-pro-6000 --organization acme --jobs tests --kind dev",
    "by-the-hour": "--provider eks --region us-west-2 --budget 6/hour --organization acme --jobs tests,release",
    "for-little": "--provider eks --region eu-west-1 --gpu T4 --budget 4/hour --organization acme --jobs tests",
    "for-least": "--provider eks --region eu-west-1 --gpu T4 --budget 3/hour --organization acme --jobs tests",
    "for-least-oke": "--provider oke --region us-ashburn-1 --gpu A10 --budget 3/hour --organization acme --jobs tests",
    "by-the-month": "--provider eks --region eu-west-2 --gpu L4 --budget 9000/month --organization acme --jobs tests --kind prod",
    "a-name-of-thirty-characters-ok": "--provider eks --region us-east-1 --gpu T4 --organization acme --jobs tests,training",
    "server": "--provider eks --region us-east-1 --gpu T4 --organization https://ghe.example.net/my.team-1 --jobs release",
    "oracle": "--provider oke --region us-sanjose-1 --gpu A10 --organization acme --jobs tests",
    "oracle-all": "--provider oke --region us-ashburn-1 --gpu V100 --organization acme --jobs tests,release,training,containers",
    "vms": "--provider oke --region eu-frankfurt-1 --gpu A10 --organization acme --jobs containers --kind prod",
    "metal": "--provider oke --region uk-london-1 --gpu A100 --organization acme --jobs tests --kind prod",
    "phoenix": "--provider oke --region us-phoenix-1 --gpu P100 --organization acme --jobs tests,release --kind dev",
    "one-domain": "--provider oke --region us-sanjose-1 --gpu V100 --organization acme --jobs tests,containers --kind prod",
    "oracle-budget": "--provider oke --region us-ashburn-1 --budget 12/hour --organization acme --jobs tests",
    "beside": "--provider existing-eks --region us-east-1 --gpu T4 --organization acme --jobs tests,release,training",
    "beside-prod": "--provider existing-eks --region ca-central-1 --gpu L4 --organization acme --jobs tests --kind prod",
    "beside-oke": "--provider existing-oke --region us-ashburn-1 --gpu A10 --organization acme --jobs tests,release --kind prod",
    "beside-oke-spot": "--provider existing-oke --region us-sanjose-1 --gpu V100 --organization acme --jobs tests",
    "home": f"--provider talos --machines {TOWER} --machines {MORE} --organization acme --jobs tests,training",
    "garage": f"--provider talos --machines {TOWER} --organization https://github.com/acme/infra --jobs tests",
}
"""The flags of each stack."""
JUDGED = {"acme", "for-least", "for-least-oke", "lab-1", "one-type", "oracle-all", "oracle-budget", "metal", "phoenix", "home"}
"""Those for which policies take all their paths, and those whose limits were raised; test_context.py has clusters that exist."""
LINTED = YamlLintConfig(file=str(ROOT / ".ci" / "yamllint.yaml"))
SIZES = ("above the", "above its", "no runner set uses it", "waits", "idle cost")
"""Parts of remarks on sizes that do not fit each other."""


def test_there_are_at_least_twenty_fleets_of_each_provider():
    providers = {words.split()[1] for words in FLEETS.values()}
    assert len(FLEETS) >= 20
    assert providers == {"eks", "oke", "talos", "existing-eks", "existing-oke"}, "test_context.py has existing-context"


@pytest.mark.parametrize("stack", FLEETS)
def test_a_new_fleet_plans_clean(stack: str, project: Project):
    project.judged = stack in JUDGED
    done = CliRunner().invoke(app, ["init", stack, *FLEETS[stack].split()])
    assert done.exit_code == 0, done.output
    (new,) = project.made
    assert [(verdict.rule, verdict.message) for verdict in new.plan.verdicts if verdict.kind == "violation"] == []
    # The remark on labels names a section of a page by its words.
    sized = [remark for remark in new.plan.remarks if not remark.startswith("labels of ")]
    assert [remark for remark in sized if any(part in remark for part in SIZES)] == []
    text = (project.root / f"Pulumi.{stack}.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=schema/stack.schema.json\n")
    assert text.count("REPLACE") >= 2
    assert [str(problem) for problem in linter.run(text, LINTED)] == []
    if new.answers.budget is not None:
        _, worst = new.plan.cost
        assert worst.usd <= new.answers.budget
    policies = tomllib.loads((project.root / "policies" / "stacks.toml").read_text())[stack]
    assert all(table["why"].endswith(".") for name, table in policies.items() if name != "kind")
    require_current(stack, project.root)


def test_a_homelab_has_the_machines_of_its_owner_and_jobs_that_fit_them(project: Project):
    project.judged = True
    assert CliRunner().invoke(app, ["init", "home", *FLEETS["home"].split()]).exit_code == 0
    (new,) = project.made
    fits = {each.runner_set: (each.fits[0].machine.name, each.fits[0].count) for each in new.plan.placements}
    assert fits == {
        "gpu-tower": ("tower", 1),
        "gpu-closet": ("closet", 1),
        "gpu-pair": ("pair", 2),
        "gpu-pair-training": ("pair", 1),
    }
    sizes = {each.runner_set: (each.runner.cpu.request, each.runner.memory.request) for each in new.plan.placements}  # type: ignore[attr-defined]
    assert sizes["gpu-tower"] == (8000, 31 * 1024), "half of 16 threads and of 62 GiB"
    assert sizes["gpu-closet"] == (4000, 15 * 1024)
    idle, worst = new.plan.cost
    assert (idle.usd, idle.unknown, worst) == (0.1, 2, idle), "the owner names one price of three"
    assert result(new.plan)[:2] == ("OK", "idle at least 73 USD a month")
    assert "worst hour at least 0.10 USD" in result(new.plan)


def test_where_no_price_is_stated_the_line_for_a_person_has_none(project: Project):
    assert CliRunner().invoke(app, ["init", "garage", *FLEETS["garage"].split()]).exit_code == 0
    (new,) = project.made
    assert result(replace(new.plan, judged=True))[:4] == (
        "OK",
        "idle at an unknown price",
        "a job-hour of gpu-tower at an unknown price",
        "worst hour at an unknown price",
    )


def test_what_was_written_is_what_was_planned(project: Project):
    project.judged = True
    assert CliRunner().invoke(app, ["init", "acme", *FLEETS["acme"].split()]).exit_code == 0
    again = make_plan("acme", ROOT, project.root / "Pulumi.acme.yaml", as_of=AS_OF, policies_of=project.root)
    assert again.passes()
    assert again.cost == project.made[0].plan.cost
    tables = tomllib.loads((project.root / "policies" / "stacks.toml").read_text())["acme"]
    assert tables["stack-gpu-ceiling"]["maxGpus"] == 8, "four on spot, one behind them, one for releases: six, and a quarter more"
    assert "instance-type-allowed" not in tables, "the default list has all types"
    idle, worst = again.cost
    assert 0 <= tables["stack-cost-ceiling"]["worstUsdPerHour"] - worst.usd * 1.25 < 1
    assert 0 <= tables["stack-cost-ceiling"]["idleUsdPerHour"] - idle.usd * 1.25 < 0.1
