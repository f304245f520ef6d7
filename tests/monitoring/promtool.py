"""Cases of rules as data, and promtool, which runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Labels = Mapping[str, str]
Group = dict[str, Any]
Rule = dict[str, Any]

GET = (
    "promtool is not on PATH: install the package `prometheus` of Debian or Ubuntu, or take promtool from "
    "https://github.com/prometheus/prometheus/releases"
)
"""What to do without promtool."""
ENVIRONMENT = {**os.environ, "GOGC": "800"}
"""That of promtool, which ends soon and so need not free memory often."""


class NoRuleError(Exception):
    """No rule could give an expected alert."""


@dataclass(frozen=True, slots=True)
class Case:
    """Input series, and what follows from them.

    `series` has promtool's notation of samples by series, one sample a minute from minute 0. `firing` has, by alert and minute,
    the labels of every alert of that name that fires then: an empty list for silence. Labels that a rule sets itself may be left
    out where only one rule fits. `values` has, by query and minute, every series of the result with its value.
    """

    name: str
    series: Mapping[str, str]
    firing: Mapping[str, Mapping[int, Sequence[Labels]]] = field(default_factory=dict)
    values: Mapping[tuple[str, int], Mapping[str, float]] = field(default_factory=dict)

    @property
    def checks(self) -> int:
        """How many times it checks an alert or a value."""
        return sum(map(len, self.firing.values())) + len(self.values)

    @property
    def end(self) -> int:
        """The minute of its last check."""
        return max([*(minute for looks in self.firing.values() for minute in looks), *(minute for _, minute in self.values)])


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases with the topics of the groups that they need, and the minutes from one evaluation of the rules to the next."""

    topics: tuple[str, ...]
    cases: tuple[Case, ...]
    every: int = 1

    def groups(self, every: Iterable[Group]) -> list[Group]:
        """Its groups out of every group of the cluster."""
        return [group for group in every if group["name"].removeprefix("gpu-ci-") in self.topics]


def document(groups: Sequence[Group], cases: Iterable[Case], every: int = 1) -> dict[str, Any]:
    """promtool's test file. Groups are evaluated in their order, so that a rule sees what rules before it record."""
    return {
        "evaluation_interval": f"{every}m",
        "group_eval_order": [group["name"] for group in groups],
        "tests": [_test(groups, case) for case in cases],
    }


def failed(promtool: str, folder: Path, rules: Sequence[Group], tests: Mapping[str, Any]) -> str:
    """Runs promtool with rules and a test file. Returns what it says about cases that fail, or nothing."""
    [said] = _said(promtool, folder, [(rules, tests)])
    return said


def told(promtool: str, tests: Sequence[tuple[Sequence[Group], Mapping[str, Any]]]) -> list[str]:
    """What promtool says about the failing cases of each test file with its rules; one start of promtool judges all."""
    with tempfile.TemporaryDirectory() as folder:
        return _said(promtool, Path(folder), tests)


def _said(promtool: str, folder: Path, tests: Sequence[tuple[Sequence[Group], Mapping[str, Any]]]) -> list[str]:
    names = [f"{number}.json" for number in range(len(tests))]
    for name, (rules, test) in zip(names, tests, strict=True):
        (folder / f"rules-{name}").write_text(json.dumps({"groups": rules}))
        (folder / name).write_text(json.dumps({**test, "rule_files": [f"rules-{name}"]}))
    command = [promtool, "test", "rules", *names]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=ENVIRONMENT
    )
    said = re.split(r"^Unit Testing: .*\n", done.stdout, flags=re.MULTILINE)[1:]
    if len(said) != len(tests):
        raise RuntimeError(done.stdout)
    return ["" if each.strip() == "SUCCESS" else each for each in said]


def _test(groups: Sequence[Group], case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": [_expected(groups, name, labels) for labels in alerts]}
            for name, by_minute in case.firing.items()
            for minute, alerts in by_minute.items()
        ],
        "promql_expr_test": [
            {
                "expr": query,
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": key, "value": each} for key, each in found.items()],
            }
            for (query, minute), found in case.values.items()
        ],
    }


def _expected(groups: Sequence[Group], name: str, labels: Labels) -> dict[str, Any]:
    """The alert of the rule of that name that sets most of `labels` itself. promtool compares every annotation."""
    rules = [
        rule
        for group in groups
        for rule in group["rules"]
        if rule.get("alert") == name and all(labels.get(key, value) == value for key, value in rule["labels"].items())
    ]
    rules.sort(key=lambda rule: len(rule["labels"].keys() & labels.keys()), reverse=True)
    if not rules:
        raise NoRuleError(f"no rule {name} has {labels}")
    own = rules[0]["labels"]
    # A template knows the labels of the query, not those of the rule.
    notes = {key: _filled(text, labels.keys() - own.keys(), labels) for key, text in rules[0]["annotations"].items()}
    return {"exp_labels": {**own, **labels}, "exp_annotations": notes}


def _filled(text: str, known: Collection[str], labels: Labels) -> str:
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]] if found[1] in known else "", text)
