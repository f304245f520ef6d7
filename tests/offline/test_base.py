"""The base of a pull request: its settings under today's code, and one line where that is not to be had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date

import pytest

import gpu_ci.offline.base
import gpu_ci.offline.plan
from fleet.facts.errors import InputError
from fleet.facts.versions import CHARTS
from fleet.loading.home import ROOT
from fleet.render.arc import SETS, upgrade
from gpu_ci.offline.base import read_base
from gpu_ci.offline.data import to_json
from gpu_ci.offline.markdown import markdown
from gpu_ci.offline.plan import make_plan
from gpu_ci.offline.policyconfig import policy_settings
from gpu_ci.offline.report import changed_lines
from tests.offline.staging import TEXT, WIDER, few_policies, staging, write


@pytest.fixture(autouse=True)
def judged_by_a_few() -> Iterator[None]:
    with few_policies():
        yield


def test_the_stack_file_of_the_folder_is_planned(tmp_path):
    write(tmp_path, WIDER)
    found = read_base("staging", ROOT, tmp_path, None)
    assert found.plan is not None
    assert found.plan.fleet.clusters["usw2"].pools["t4-spot"].nodes.max == 6
    assert found.text != TEXT


def test_the_base_is_judged_on_the_same_day_under_the_program_of_the_head(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(gpu_ci.offline.base, "make_plan", lambda *given: asked.append(given))
    path = write(tmp_path)
    day = date(2026, 1, 2)
    read_base("staging", ROOT, tmp_path, None, as_of=day)
    ((stack, root, file, _, as_of, policies_of),) = asked
    assert (stack, root, file, as_of) == ("staging", ROOT, path, day), "the program is that of the root"
    assert policies_of == ROOT, "a folder without policies has none of its own"


def configured(folder, settings):
    (folder / "policies" / "config").mkdir(parents=True)
    (folder / "policies" / "config" / "staging.json").write_text(json.dumps(settings))
    write(folder)


def test_the_base_is_judged_by_its_own_policy_config(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_ci.offline.plan, "policy_settings", policy_settings)
    configured(tmp_path, {"all": "disabled", "scale-to-zero": "advisory"})
    found = read_base("staging", ROOT, tmp_path, None)
    assert found.plan is not None
    assert found.judged == ""
    assert {name for name, level in found.plan.levels.items() if level != "disabled"} == {"scale-to-zero"}


def test_a_policy_config_of_the_base_that_fits_no_more_gives_way_and_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_ci.offline.plan, "policy_settings", policy_settings)
    monkeypatch.setattr(gpu_ci.offline.plan, "has_sdk", lambda: False)
    configured(tmp_path, {"gone-policy": "advisory"})
    found = read_base("staging", ROOT, tmp_path, None)
    assert found.plan is not None
    assert found.judged.startswith("the base's policy config does not fit this code: policy config: gone-policy: no policy")
    head = make_plan("staging", ROOT)
    assert found.plan.levels == head.levels
    assert "under the code and the policy config of this change: the base's policy config does not fit" in markdown(head, found)


def test_another_stack_file_is_compared_with_the_one_of_the_same_place(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_ci.offline.plan, "has_sdk", lambda: False)
    (tmp_path / "examples").mkdir()
    example = ROOT / "examples" / "Pulumi.right-size.yaml"
    (tmp_path / "examples" / example.name).write_text(example.read_text())
    (tmp_path / "Pulumi.yaml").touch()
    found = read_base("right-size", ROOT, tmp_path, example)
    assert found.plan is not None
    assert found.text == example.read_text()


def test_a_file_from_elsewhere_is_compared_with_the_stacks_own(tmp_path):
    (tmp_path / "base").mkdir()
    write(tmp_path / "base")
    found = read_base("staging", ROOT, tmp_path / "base", write(tmp_path, WIDER))
    assert found.text == TEXT


def test_a_stack_that_the_base_has_not_is_told_in_one_line(tmp_path):
    (tmp_path / "Pulumi.yaml").touch()
    found = read_base("staging", ROOT, tmp_path, None)
    assert (found.plan, found.text, found.reason) == (None, "", "the base has no Pulumi.staging.yaml")


def test_a_base_that_does_not_load_is_told_in_one_line_and_after_stands_alone(tmp_path):
    write(tmp_path, ("    idleDelay: 5m", "    idleDely: 5m"), ("role: burst", "role: brst"))
    found = read_base("staging", ROOT, tmp_path, None)
    assert found.plan is None
    assert found.reason.startswith("the base's Pulumi.staging.yaml does not load under this code: Pulumi.staging.yaml:")
    assert "\n" not in found.reason
    shown = markdown(staging(), found)
    assert "Before → after: the base's Pulumi.staging.yaml does not load under this code" in shown
    assert "This is only the plan after the change." in shown
    assert "→ **" not in shown


def test_a_fault_that_only_the_base_has_does_not_fail_the_head(monkeypatch, tmp_path):
    def broken(*_: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(gpu_ci.offline.base, "make_plan", broken)
    write(tmp_path)
    found = read_base("staging", ROOT, tmp_path, None)
    assert found.reason == "this code fails on the base's Pulumi.staging.yaml: KeyError: 'gone'"


def pinning(folder, version):
    """A checkout with the staging file that pins a version of ARC."""
    write(folder)
    data = folder / "fleet" / "facts" / "data"
    data.mkdir(parents=True)
    (data / "versions.toml").write_text(version)
    return read_base("staging", ROOT, folder, None)


def test_another_minor_of_arc_prints_the_procedure_in_every_output(tmp_path):
    base = pinning(tmp_path, '[charts.gha-runner-scale-set]\nversion = "0.13.1"\n')
    assert base.arc == "0.13.1"
    steps = upgrade(base.plan.fleet, "staging", "0.13.1", CHARTS[SETS].version)
    lines = list(changed_lines(staging(), base))
    assert set(steps) <= set(lines)
    assert "the change has no effect" not in lines
    shown = markdown(staging(), base)
    assert "### Before `pulumi up`: another minor of Actions Runner Controller\n\n```sh\n# ARC 0.13.1 -> 0.14.2." in shown
    assert all(step in shown for step in steps)
    assert json.loads(to_json(staging(), base))["changes"]["arcUpgrade"] == list(steps)


@pytest.mark.parametrize(
    "text", [f'[charts.{SETS}]\nversion = "0.14.0"\n', "[charts]\n", "no toml", f"[charts.{SETS}]\nversion = 1\n"]
)
def test_a_patch_of_arc_or_an_unknown_version_prints_no_procedure(text, tmp_path):
    base = pinning(tmp_path, text)
    assert next(iter(changed_lines(staging(), base))) == "the change has no effect"
    assert "Actions Runner Controller" not in markdown(staging(), base)


def test_a_base_that_is_no_folder_is_wrong_input(tmp_path):
    with pytest.raises(InputError, match=r"--base: must be a folder with a checkout of the base branch; got '.*nowhere'"):
        read_base("staging", ROOT, tmp_path / "nowhere", None)
