"""Rules in the time of a world: every case of the rules has the same alerts when its minutes are seconds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.loading.config import load
from fleet.render.monitoring.rules import rule_groups
from fleet.render.monitoring.rules.cost import cost_groups
from gpu_ci.world.metrics import exporter, in_world_time, shorter
from tests import builders
from tests.fleet.conformance import STACKS
from tests.monitoring.cases import SUITES
from tests.monitoring.fleet import groups
from tests.monitoring.promtool import GET, Case, document, failed

CALENDAR = {"GpuCiReservationEnds", "GpuCiVersionEndsSoon", "GpuCiVersionEndsNow"}
"""Alerts about days, which no world makes shorter."""


@pytest.fixture(scope="module")
def promtool() -> str:
    return shutil.which("promtool") or pytest.skip(GET)


def of_query(query: str, factor: float = 60) -> str:
    [group] = in_world_time([{"name": "x", "interval": "1m", "rules": [{"record": "x", "expr": query}]}], factor)
    text: str = group["rules"][0]["expr"]
    return text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("rate(x[30m])", "rate(x[30000ms])"),
        ("max_over_time((x)[1h:1m])", "max_over_time((x)[60000ms:1000ms])"),
        ("rate(x[1h30m])", "rate(x[90000ms])"),
        ("x offset 1m unless x", "x offset 1000ms unless x"),
        ("x offset -5m", "x offset -5000ms"),
        ('x{a="[5m] offset 1m", b=~"\\"[0-9]h"}', 'x{a="[5m] offset 1m", b=~"\\"[0-9]h"}'),
        ("x{a='[5m]'}[5m]", "x{a='[5m]'}[5000ms]"),
        ("max by (pod) (time() - kube_pod_created) > 5400", "max by (pod) (time() - kube_pod_created) > 5400 / 60"),
        ("gpu_ci:queue_seconds:p95{a='b'} > 600", "gpu_ci:queue_seconds:p95{a='b'} > 600 / 60"),
        ("x5m > 10", "x5m > 10"),
        ("vector(time()) >= 1800000000", "vector(time()) >= 1800000000"),
    ],
)
def test_a_query_has_shorter_times_and_nothing_else_changes(query, expected):
    assert of_query(query) == expected


def test_every_row_that_compares_an_age_is_changed_but_for_days_of_the_calendar():
    compared = {
        rule["alert"]: rule["expr"]
        for group in groups()
        for rule in group["rules"]
        if "alert" in rule and re.search(r"time\(\) -|_seconds(:p\d+)?[{ ]", rule["expr"])
    }
    assert {name for name, query in compared.items() if of_query(query).endswith(" / 60")} == compared.keys() - CALENDAR
    assert compared.keys() - CALENDAR == {"GpuCiQueueSlow", "GpuCiRunnerTooOld", "GpuCiJobPodSlow"}


@given(st.integers(1, 10_000), st.sampled_from("smhdwy"), st.integers(1, 60))
def test_times_are_in_whole_milliseconds(number, unit, factor):
    seconds = number * {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}[unit]
    milliseconds = int(shorter(f"{number}{unit}", factor).removesuffix("ms"))
    assert abs(milliseconds - seconds * 1000 / factor) <= 0.5


def test_a_rule_waits_less_and_keeps_its_words_and_labels():
    rule = {
        "alert": "A",
        "expr": "x",
        "for": "10m",
        "keep_firing_for": "1h",
        "labels": {"limit": "5m"},
        "annotations": {"a": "1h"},
    }
    [group] = in_world_time([{"name": "x", "interval": "1m", "rules": [rule]}], 120)
    assert group == {"name": "x", "interval": "1000ms", "rules": [rule | {"for": "5000ms", "keep_firing_for": "30000ms"}]}


def in_seconds(case: Case) -> Case:
    """The case with a second for each minute. Values of records that are seconds themselves are not compared."""

    def samples(series: str, text: str) -> str:
        if not series.startswith("kube_pod_created"):
            return text
        return re.sub(r"(?<!\S)\d+(?=x|\s|$)", lambda found: str(int(found[0]) / 60), text)

    def name(series: str) -> str:
        return re.sub(r'le="(\d+)"', lambda found: f'le="{int(found[1]) / 60:g}"', series)

    firing = {alert: looks for alert, looks in case.firing.items() if alert not in CALENDAR}
    return replace(case, series={name(key): samples(key, text) for key, text in case.series.items()}, firing=firing, values={})


def with_seconds(document: Mapping[str, Any]) -> dict[str, Any]:
    """promtool's test file with seconds for minutes."""
    text = re.sub(r'("(?:evaluation_interval|interval|eval_time)": "\d+)m"', r'\1s"', json.dumps(document))
    tests: dict[str, Any] = json.loads(text)
    return tests


FIRING = [suite for suite in SUITES if {*suite.topics} and "ends" not in suite.topics]


@pytest.mark.parametrize("suite", FIRING, ids=lambda suite: "-".join(suite.topics))
def test_the_cases_of_the_rules_pass_in_a_sixtieth_of_the_time(promtool, suite, tmp_path):
    own = suite.groups(in_world_time(groups(), 60))
    cases = [in_seconds(case) for case in suite.cases]
    assert sum(case.checks for case in cases) > 0 or suite.topics == ("starts",)
    assert failed(promtool, tmp_path, own, with_seconds(document(own, cases, suite.every))) == ""


@pytest.mark.parametrize("factor", [1, 7, 60])
def test_prometheus_takes_the_rules_of_every_stack(promtool, tmp_path, factor):
    texts: list[Path] = []
    for path in STACKS.values():
        config = builders.read_stack(path)
        clusters = {name: {"monitoring": {"prometheus": "existing"}} | own for name, own in config["clusters"].items()}
        fleet = load(config | {"clusters": clusters})
        for name, cluster in fleet.clusters.items():
            listed = [exporter(cluster), *rule_groups(fleet, name), *cost_groups(fleet, name)]
            texts.append(tmp_path / f"{len(texts)}.json")
            texts[-1].write_text(json.dumps({"groups": in_world_time(listed, factor)}))
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=none", *map(str, texts)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == len(texts) > 3
