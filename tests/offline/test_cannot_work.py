"""A part that cannot work is at the top. It fails no plan, but an update, and a change of that part."""

from __future__ import annotations

import json
from pathlib import Path

import pulumi
import pytest
from typer.testing import CliRunner

import gpu_ci.offline.plan
from fleet.facts.remark import CANNOT_WORK
from fleet.loading.home import ROOT
from gpu_ci.cli import app
from gpu_ci.offline.annotations import annotate
from gpu_ci.offline.base import Base, touched
from gpu_ci.offline.data import to_json
from gpu_ci.offline.markdown import markdown
from gpu_ci.offline.record import record
from tests.offline.staging import WIDER, few_policies, plan_of, staging, write

WITHOUT_OPERATOR = ("      health: {}\n", "      health: {}\n      monitoring: {prometheus: existing}\n")
OTHER_NETWORK = ("203.0.113.0/24", "198.51.100.0/24")


def test_it_stands_first_and_last_and_the_status_is_0(tmp_path: Path) -> None:
    with few_policies():
        done = CliRunner().invoke(app, ["plan", "staging", "--file", str(write(tmp_path, WITHOUT_OPERATOR))])
    assert done.exit_code == 0
    _, first, *lines = done.stdout.splitlines()
    assert first.startswith("CANNOT WORK: 1 part · idle 2")
    assert "OK" not in done.stdout
    after = next(line for line in lines if line.startswith("  cannot work: "))
    assert after.startswith("  cannot work: usw2: monitoring: prometheus: the first pulumi up")
    assert done.stdout.count("cannot work: usw2: monitoring") == 2, "at the top and at the end, and not among the remarks"


def test_every_form_of_the_plan_says_it(tmp_path: Path) -> None:
    plan = plan_of(write(tmp_path, WITHOUT_OPERATOR))
    document = json.loads(to_json(plan))
    assert (document["clean"], document["result"]) == (True, "cannot-work")
    (at,) = (index for index, found in enumerate(document["kinds"]) if found["kind"] == CANNOT_WORK)
    assert document["kinds"][at] == {"kind": CANNOT_WORK, "act": True, "parts": ["usw2"]}
    assert document["remarks"][at] == plan.impossible[0]
    text = markdown(plan)
    assert text.startswith("## ⛔ `staging`: cannot work: 1 part\n")
    assert "\n- cannot work: usw2: monitoring: prometheus" in text
    (noted,) = (each for each in annotate(plan, ROOT) if each.title == "cannot work")
    assert (noted.level, noted.line) == ("warning", plan.config.line_of("gpu-ci:clusters", "usw2", "monitoring", "prometheus"))


@pytest.mark.parametrize(
    ("before", "after", "fails"),
    [
        pytest.param((), (WITHOUT_OPERATOR,), True, id="the change writes it"),
        pytest.param((WITHOUT_OPERATOR,), (WITHOUT_OPERATOR,), False, id="nothing changes"),
        pytest.param((WITHOUT_OPERATOR,), (WITHOUT_OPERATOR, WIDER), False, id="a pool changes"),
        pytest.param((WITHOUT_OPERATOR,), (WITHOUT_OPERATOR, OTHER_NETWORK), True, id="the cluster changes"),
        pytest.param((WITHOUT_OPERATOR,), (), False, id="the change fixes it"),
        pytest.param(None, (WITHOUT_OPERATOR,), True, id="the base has no plan"),
    ],
)
def test_a_change_fails_only_if_it_writes_the_part(
    before: tuple[tuple[str, str], ...] | None,
    after: tuple[tuple[str, str], ...],
    fails: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No resource counts, only the settings.
    monkeypatch.setattr(gpu_ci.offline.plan, "has_sdk", lambda: False)
    base = tmp_path / "base"
    base.mkdir()
    old = None if before is None else plan_of(write(base, *before)) if before else staging()
    plan = touched(plan_of(write(tmp_path, *after)), old, base)
    assert plan.passes() is not fails
    if fails:
        text = markdown(plan, Base("", old))
        assert text.startswith("## ❌ `staging`: the change writes 1 part that cannot work\n")
        assert "| cannot work | `usw2` | usw2: monitoring: prometheus: " in text
        assert [each.level for each in annotate(plan, ROOT) if each.title == "cannot work"] == ["error"]


def test_an_update_is_refused_before_the_first_resource_and_a_preview_warns(tmp_path: Path) -> None:
    plan = plan_of(write(tmp_path, WITHOUT_OPERATOR))
    with pytest.raises(pulumi.RunError, match="cannot work: usw2: monitoring: prometheus: the first pulumi up"):
        record(ROOT / "__main__.py", plan.config, preview=False)
    assert plan.recording is not None
    (said,) = plan.recording.messages
    assert (said.severity, said.text.partition(":")[0]) == ("warning", "cannot work")
