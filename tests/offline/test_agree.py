"""--agree: the smallest numbers and lists that admit a plan, as a diff that applies."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.facts.errors import InputError
from fleet.loading.home import ROOT
from gpu_ci.cli import app
from gpu_ci.offline.agree import Agreement, agree, lines
from gpu_ci.offline.judge import Verdict
from gpu_ci.offline.markdown import markdown
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.policyconfig import write_policy_configs

POOLS = """        l4-spot:
          instanceTypes: [g6.2xlarge, g6.4xlarge]
          capacity: spot
          role: burst
          nodes: {min: 0, max: 3}
        l4-ondemand:
          instanceTypes: [g6.2xlarge]
          capacity: on-demand
          role: fallback
          nodes: {min: 0, max: 1}
      runners:
        gpu-l4:
          pools: [l4-spot, l4-ondemand]
          gpus: 1
          cpu: {request: 6, limit: 8}
          memory: {request: 24Gi, limit: 28Gi}
          scale: {min: 0, max: 6}
"""
PROGRAM = ("__main__.py", "components", "fleet")


def copy(names: tuple[str, ...], root: Path) -> None:
    for name in names:
        copy_one = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy_one(ROOT / name, root / name)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project without its program. Its staging has the pools of the README's "Add a pool"."""
    root = tmp_path_factory.mktemp("project")
    copy(("Pulumi.yaml", "policies"), root)
    text = (ROOT / "Pulumi.staging.yaml").read_text()
    assert "      runners:\n" in text
    (root / "Pulumi.staging.yaml").write_text(text.replace("      runners:\n", POOLS, 1))
    return root


def planned(root: Path, stack: str = "staging") -> Plan:
    """The plan of a copy by this repository's program, whose recordings the tests share."""
    return make_plan(stack, ROOT, root / f"Pulumi.{stack}.yaml", policies_of=root)


@pytest.fixture(scope="module")
def plan(project: Path) -> Plan:
    return planned(project)


@pytest.fixture(scope="module")
def agreed(plan: Plan, project: Path) -> Agreement:
    return agree(plan, project)


def test_numbers_go_only_as_far_as_needed_and_lists_get_only_what_is_missing(plan: Plan, agreed: Agreement) -> None:
    assert plan.broken
    assert {(policy, name) for policy, found in agreed.values.items() for name in found} == {
        ("stack-gpu-ceiling", "maxGpus"),
        ("stack-cost-ceiling", "worstUsdPerHour"),
        ("instance-type-allowed", "types"),
    }
    assert agreed.values["stack-gpu-ceiling"] == {"maxGpus": 13}, "nine, three on spot and one on demand"
    worst = plan.cost[1].usd
    assert worst <= agreed.values["stack-cost-ceiling"]["worstUsdPerHour"] < worst + 0.01
    assert agreed.values["instance-type-allowed"]["types"] == [
        "g4dn.2xlarge",
        "g4dn.4xlarge",
        "m6i.large",
        "g6.2xlarge",
        "g6.4xlarge",
    ]
    assert agreed.left == ()


def apply(text: str, root: Path, command: str = "git", *options: str) -> None:
    """Apply a diff as a person does. Where a machine has no patch, git does it."""
    program = shutil.which(command)
    words = [program, *(options or ("apply",))] if program else [shutil.which("git") or "git", "apply"]
    subprocess.run(words, cwd=root, input=text.encode(), check=True, capture_output=True)


def changed(diff: str) -> list[str]:
    return [line for line in diff.splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))]


def test_the_diff_changes_values_and_marks_each_why_for_review(agreed: Agreement) -> None:
    lines_changed = changed(agreed.diff)
    assert "+maxGpus = 13" in lines_changed
    whys = [line for line in lines_changed if line.startswith("+why")]
    assert len(whys) == 3
    assert all("# review: written for the old " in line for line in whys)
    assert not any(word in line for line in lines_changed for word in ("enforcementLevel", "exceptions", "kind"))


@pytest.mark.parametrize("command", [["git", "apply"], ["patch", "-p1"]], ids=["git apply", "patch"])
def test_the_diff_applies_and_the_next_plan_is_clean(project: Path, command: list[str], tmp_path: Path) -> None:
    root = tmp_path / "after"
    shutil.copytree(project, root)
    copy(PROGRAM, root)
    # Both programs skip the plan before the diff.
    apply(run(project, "--agree").stdout, root, *command)
    write_policy_configs(root)
    after = make_plan("staging", root)
    assert after.passes(), after.broken
    assert agree(after, root) == Agreement({}, "", ())


def test_a_step_less_would_not_do(plan: Plan, agreed: Agreement, project: Path, tmp_path: Path) -> None:
    root = tmp_path / "less"
    shutil.copytree(project, root)
    apply(agreed.diff, root)
    stacks = root / "policies" / "stacks.toml"
    worst = agreed.values["stack-cost-ceiling"]["worstUsdPerHour"]
    for old, new in (("maxGpus = 13", "maxGpus = 12"), (f"= {worst}\n", f"= {worst - 0.01:.2f}\n"), (', "g6.4xlarge"', "")):
        text = stacks.read_text()
        assert old in text
        stacks.write_text(text.replace(old, new, 1))
        write_policy_configs(root)
        assert not planned(root).passes(), new
        stacks.write_text(text)


def test_what_no_number_admits_is_named(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.staging.yaml"
    text = (project / "Pulumi.staging.yaml").read_text()
    file.write_text(
        text.replace("pools: [l4-spot, l4-ondemand]", "pools: [l4-spot]").replace(
            "role: fallback\n          nodes: {min: 0, max: 1}", "role: release\n          nodes: {min: 0, max: 1}"
        )
    )
    found = agree(make_plan("staging", ROOT, file, policies_of=project), project)
    assert found.diff
    assert {verdict.rule for verdict in found.left} >= {"spot-with-fallback"}
    said = list(lines(found))
    assert said[0].startswith("This change of policy values admits a part of the plan: ")
    assert any(line.startswith("No policy value admits spot-with-fallback; ") for line in said)


def own(project: Path, root: Path, stack: str) -> Plan:
    """A stack that stacks.toml does not have."""
    shutil.copytree(project, root)
    shutil.copy(root / "Pulumi.staging.yaml", root / f"Pulumi.{stack}.yaml")
    return planned(root, stack)


@pytest.mark.parametrize("existing", ["", '{\n  "stack-gpu-ceiling": "mandatory"\n}'], ids=["no file", "without a last newline"])
def test_a_stack_that_is_not_in_the_toml_gets_a_diff_of_its_json(project: Path, tmp_path: Path, existing: str) -> None:
    root = tmp_path / "own"
    own(project, root, "acme")
    path = root / "policies" / "config" / "acme.json"
    if existing:
        path.write_text(existing)
    found = agree(planned(root, "acme"), root)
    apply(found.diff, root)
    assert json.loads(path.read_text())["stack-gpu-ceiling"]["maxGpus"] == 13
    after = planned(root, "acme")
    assert [verdict.rule for verdict in after.broken] == [verdict.rule for verdict in found.left]


def test_a_policy_without_a_table_gets_one_at_the_end_of_its_stack(project: Path, tmp_path: Path) -> None:
    root = tmp_path / "table"
    shutil.copytree(project, root)
    stacks = root / "policies" / "stacks.toml"
    text = stacks.read_text()
    start, end = text.index("[staging.stack-gpu-ceiling]"), text.index("[staging.stack-cost-ceiling]")
    stacks.write_text(text[:start] + text[end:])
    write_policy_configs(root)
    found = agree(planned(root), root)
    apply(found.diff, root)
    after = stacks.read_text()
    assert '\n\n[staging.stack-gpu-ceiling]\nmaxGpus = 13\nwhy = "Proposed by --agree for maxGpus; ' in after
    assert after.index("[staging.instance-type-allowed]") < after.index("[staging.stack-gpu-ceiling]") < after.index("[prod]")
    write_policy_configs(root)
    assert planned(root).passes()


@pytest.mark.parametrize(
    ("written", "table"),
    [
        ('staging = {kind = "staging"}\n', "staging"),
        ('staging.kind = "staging"\n', "staging"),
        ('[staging]\nkind = "staging"\nstack-cost-ceiling = {worstUsdPerHour = 1}\n', "staging.stack-cost-ceiling"),
        ('[staging]\nkind = "staging"\nstack-cost-ceiling.worstUsdPerHour = 1\n', "staging.stack-cost-ceiling"),
    ],
)
def test_a_table_without_a_header_is_one_error_line(plan: Plan, tmp_path: Path, written: str, table: str) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "stacks.toml").write_text(written)
    with pytest.raises(InputError) as error:
        agree(plan, tmp_path)
    assert str(error.value) == (
        f"policies/stacks.toml: {table}: --agree changes only tables that have a header; write the header [{table}]"
    )


def test_a_list_of_several_lines_is_replaced_as_a_whole(project: Path, tmp_path: Path) -> None:
    root = tmp_path / "long"
    shutil.copytree(project, root)
    stacks = root / "policies" / "stacks.toml"
    short = 'types = ["g4dn.2xlarge", "g4dn.4xlarge", "m6i.large"]\n'
    long = 'types = [\n  "g4dn.2xlarge", # a comment\n  "g4dn.4xlarge",\n  "m6i.large",\n]\n'
    assert short in stacks.read_text()
    stacks.write_text(stacks.read_text().replace(short, long, 1))
    found = agree(planned(root), root)
    apply(found.diff, root)
    write_policy_configs(root)
    assert planned(root).passes()


def test_a_plan_that_passes_needs_nothing() -> None:
    assert agree(make_plan("staging", ROOT), ROOT) == Agreement({}, "", ())
    assert list(lines(Agreement({}, "", ()))) == ["No policy fails the plan, so no policy value needs a change."]


# -- what is printed ---------------------------------------------------------------------------------------------------


def run(project: Path, *options: str) -> Any:
    return CliRunner().invoke(app, ["plan", "staging", "--file", str(project / "Pulumi.staging.yaml"), *options])


def test_the_command_prints_the_diff_after_the_result(project: Path, agreed: Agreement) -> None:
    result = run(project, "--agree")
    assert result.exit_code == 1, "the plan still fails"
    assert result.stdout.endswith(agreed.diff), "no line is wrapped"
    assert result.stdout.rindex("FAILED: ") < result.stdout.index("This change of policy values admits the plan: ")
    assert agreed.diff not in run(project).stdout


def test_json_has_the_values_and_the_diff(project: Path, agreed: Agreement) -> None:
    found = json.loads(run(project, "--agree", "--json").stdout)["agree"]
    assert found == {"values": agreed.values, "diff": agreed.diff, "left": []}


def test_markdown_folds_it_directly_below_what_fails(plan: Plan, agreed: Agreement) -> None:
    page = markdown(plan, agreed=agreed)
    failures, fold, placement = (
        page.index(part) for part in ("| what fails |", "<details><summary>The change of policy values", "### Placement")
    )
    assert failures < fold < placement
    assert f"```diff\n{agreed.diff}```" in page
    assert "<summary>The change of policy values" not in markdown(plan)


def test_a_diff_cannot_leave_its_fence(plan: Plan) -> None:
    left = (Verdict("a", "mandatory", "violation", "", "words"),)
    page = markdown(plan, agreed=Agreement({"a": {"b": 1}}, "+````\n+@everyone \u202e\n", left))
    assert "`````diff\n+````\n+@everyone \ufffd\n`````" in page
