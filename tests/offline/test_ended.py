"""A day that passes fails no offline plan. The plan says first what `pulumi up` is refused for; the calendar has every day."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import gpu_ci.offline.plan
from fleet.loading.home import ROOT
from gpu_ci.cli import app
from gpu_ci.offline.base import touched
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.data import to_json
from gpu_ci.offline.judge import ENDED, Verdict, by_time
from gpu_ci.offline.markdown import markdown
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.words import endings

BROKEN = Verdict("a", "mandatory", "violation", "urn:one", "a fault")
LATE = Verdict("a", "mandatory", "violation", "urn:two", "it ended")
COSTLY = Verdict("b", "mandatory", "violation", "", "9.50 USD is above 9")
NEXT_YEAR = date(2027, 6, 1)


def test_what_fails_on_every_day_is_a_violation_and_what_fails_since_a_day_has_ended() -> None:
    asked: list[set[str]] = []

    def timeless(rules: Any) -> tuple[Verdict, ...]:
        asked.append(set(rules))
        return (BROKEN,)

    advisory = replace(LATE, level="advisory")
    assert by_time([BROKEN, LATE, advisory], timeless) == (BROKEN, replace(LATE, kind=ENDED), replace(advisory, kind=ENDED))
    assert asked == [{"a"}], "only the policies with a violation are judged again"


def test_a_limit_that_fails_with_other_figures_on_every_day_still_fails() -> None:
    earlier = replace(COSTLY, message="9.10 USD is above 9")
    assert by_time([COSTLY], lambda _: (earlier,)) == (replace(COSTLY, kind=ENDED), earlier)


def test_nothing_is_judged_twice_without_a_violation() -> None:
    excepted = replace(LATE, kind="excepted")
    assert by_time([excepted], lambda _: pytest.fail("judged again")) == (excepted,)


STRICT = {"all": "disabled", "nothing-expired": "mandatory"}
EXCUSED = {
    "all": "disabled",
    "images-pinned": {
        "enforcementLevel": "mandatory",
        "requireDigest": True,
        "exceptions": [{"urn": "*kubernetes:helm.sh/v3:Release::usw2-*", "reason": "a test of ends", "expires": "2027-05-31"}],
    },
}


def planned(monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], day: date = NEXT_YEAR) -> Plan:
    """Staging on a day under a policy config."""
    monkeypatch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: config)
    return make_plan("staging", ROOT, as_of=day)


@pytest.mark.parametrize("config", [STRICT, EXCUSED], ids=["a version", "an exception"])
def test_a_plan_of_next_year_passes_and_says_first_that_an_update_is_refused(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(monkeypatch, config)
    (policy,) = set(config) - {"all"}
    assert {verdict.kind for verdict in plan.verdicts if verdict.rule == policy} >= {ENDED}
    assert plan.passes(strict=True)
    assert next(endings(plan)).startswith(f"pulumi up is refused, because a day has passed: {policy} (")
    assert [outcome.state for outcome in plan.outcomes() if outcome.rule == policy] == [ENDED]
    assert markdown(plan).splitlines()[4].startswith("- pulumi up is refused, because a day has passed")


def test_an_advisory_policy_refuses_no_update_and_the_end_is_named_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch, {"all": "disabled", "nothing-expired": "advisory"})
    lines = list(endings(plan))
    assert not any(line.startswith("pulumi up") for line in lines)
    assert any("runner 2.338.0 ended on 2026-11-22" in line for line in lines)


def checkout(folder: Path, text: str) -> Path:
    """A checkout of a base with these versions."""
    file = folder / "fleet" / "facts" / "data" / "versions.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return folder


def test_a_pull_request_fails_for_what_it_writes_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = planned(monkeypatch, STRICT)
    versions = (ROOT / "fleet" / "facts" / "data" / "versions.toml").read_text()
    same = touched(plan, plan, checkout(tmp_path / "same", versions))
    assert same.verdicts == plan.verdicts, "the row and the settings are those of the base"
    newer = versions.replace("actions-runner:2.338.0@", "actions-runner:2.999.0@")
    assert newer != versions
    assert not touched(plan, plan, checkout(tmp_path / "newer", newer)).passes(), "the change goes back to an ended row"
    clean = replace(plan, verdicts=())
    assert not touched(plan, clean, tmp_path).passes(), "the change's own settings write an ended version"


def test_an_ended_version_that_a_change_renews_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch, STRICT)
    assert {verdict.rule for verdict in Comparison(plan, replace(plan, verdicts=())).fixed} == {"nothing-expired"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_the_calendar_has_every_day_in_order_with_effect_cost_and_command() -> None:
    result = run("calendar", "prod", "--as-of", "2026-11-26", "--json")
    assert result.exit_code == 0
    entries = json.loads(result.stdout)["ends"]
    days = [entry["last"] or entry["mayEnd"] for entry in entries]
    dated = [day for day in days if day is not None]
    assert dated == sorted(dated)
    assert days[: len(dated)] == dated
    assert all(entry["effect"] and entry["fix"] for entry in entries if entry["last"])
    by_name = {entry["what"]: entry for entry in entries}
    assert by_name["EKS 1.36, standard support"]["cost"] == "365 USD a month more"
    assert {name.partition(" ")[0] for name in by_name} >= {
        "runner",
        "EKS",
        "OKE",
        "NVIDIA",
        "chart",
        "image",
        "node",
        "exception",
    }


def test_the_calendar_is_a_table_for_people() -> None:
    result = run("calendar", "staging", "--as-of", "2026-11-26")
    assert result.exit_code == 0
    assert result.stdout.startswith("gpu-ci calendar of stack staging on 2026-11-26\n")
    assert "No end published: " in result.stdout
    assert "Prices were read from " in result.stdout


def test_the_json_of_a_plan_has_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch, STRICT)
    data = json.loads(to_json(plan))
    assert [entry["what"] for entry in data["ends"]] == [end.use.life.what for end in plan.ends]
    assert {verdict["kind"] for verdict in data["verdicts"]} == {ENDED}
