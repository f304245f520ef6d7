"""Rules with one thing changed. A case must fail for each of them, or the table below says why none can."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tests.monitoring.promtool import Case, Group, NoRuleError, Rule, Suite, document, passed

_TOKEN = re.compile(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\boffset \w+|>=|<=|==|[<>]|\b\d+(?:\.\d+)?\b|[\w:]+')
_OTHER = {
    ">": (">=", "<"),
    "<": ("<=", ">"),
    ">=": (">", "<"),
    "<=": ("<", ">"),
    "==": ("!=",),
    "and": ("unless",),
    "unless": ("and",),
    "or": ("and",),
}
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_CONSTANT = ("gpu_ci:xid_info", "gpu_ci:end_timestamp_seconds")
"""Tables as series: NVIDIA's codes, and last good days. A test compares each row, so these rules have no mutants."""

_WHOLE = "GPUs are whole numbers"
_FEWER = "a node without the resource counts as 0 or 2, both fewer than it should have"
_BOTH = "a rejected pod counts only while both ranges have it"
_MINUTE = "samples are a minute apart here, so 20 s ago is the sample of a minute ago"
EQUIVALENT: dict[tuple[str, str], str] = {
    ("GpuCiGpuMissing exporter 1 GPUs", '…ode_gpus{pool=~"t4|sliced"} < 1 → 0.5'): _WHOLE,
    ("GpuCiGpuMissing kubelet 1 nvidia.com/gpu", '…u_ci:node_pool{pool=~"t4"}) < 1 → 0.5'): _WHOLE,
    ("GpuCiGpuMissing kubelet 8 nvidia.com/gpu", '…de", "$1", "node", "(.+)") or 0 → 2'): _FEWER,
    ("GpuCiGpuMissing kubelet 4 nvidia.com/gpu.shared", '…de", "$1", "node", "(.+)") or 0 → 2'): _FEWER,
    ("GpuCiNodeRejectsPods", '…on="UnexpectedAdmissionError"}[15m] → [2700s]'): _BOTH,
    ("GpuCiNodeRejectsPods", '…r_time(kube_pod_info{node!=""}[15m] → [2700s]'): _BOTH,
    ("GpuCiSpotNodeLost", '…(gpu_ci:node_pool{pool=~"t4"} offset 1m → offset 20s'): _MINUTE,
    ("GpuCiSpotNodeLost", '… gpu_ci:node_pool{pool=~"t4"} offset 1m → offset 20s'): _MINUTE,
    ("GpuCiSpotNodeLost", '…ers-gpu-p4|runners-gpu-keep"} offset 1m → offset 20s'): _MINUTE,
    ("GpuCiSpotNodeLost", '…status_phase{phase="Running"} offset 1m → offset 20s'): _MINUTE,
}
"""Mutants that give the same alerts for every input of the cases, with the reason."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed rule: `name` is its name, `labels` are those that it sets, `groups` are all groups with the change."""

    topic: str
    name: str
    labels: str
    change: str
    groups: Sequence[Group]

    @property
    def key(self) -> tuple[str, str]:
        """The rule and what is changed in it."""
        return f"{self.name} {self.labels}".strip(), self.change


def mutants(groups: Sequence[Group]) -> Iterator[Mutant]:
    """Every mutant of every rule: numbers, operators, ranges, `for`, one matcher removed, the whole rule removed."""
    for at, group in enumerate(groups):
        topic = group["name"].removeprefix("gpu-ci-")
        for index, rule in enumerate(group["rules"]):
            name = rule.get("alert") or rule["record"]
            if name in _CONSTANT:
                continue
            labels = " ".join(value for key, value in rule.get("labels", {}).items() if key != "severity")
            for change, key, value in [
                ("removed", "", ""),
                *_waits(rule),
                *((why, "expr", text) for why, text in _texts(rule["expr"])),
            ]:
                instead = [rule | {key: value}] if key else []
                changed = group | {"rules": [*group["rules"][:index], *instead, *group["rules"][index + 1 :]]}
                yield Mutant(topic, name, labels, change, [*groups[:at], changed, *groups[at + 1 :]])


def survivors(promtool: str, suites: Sequence[Suite], found: Sequence[Mutant]) -> list[Mutant]:
    """The mutants for which no case fails. A start of promtool judges one case of every mutant that is left."""
    alive: list[Mutant] = []
    left = [(mutant, _tests(suites, mutant)) for mutant in found]
    while left:
        judged = []
        for mutant, tests in left:
            try:
                judged.append((mutant, tests, next(tests)))
            except StopIteration:
                alive.append(mutant)
            except NoRuleError:
                # No rule is left that could give an expected alert.
                continue
        results = passed(promtool, [test for *_, test in judged])
        left = [(mutant, tests) for (mutant, tests, _), good in zip(judged, results, strict=True) if good]
    return alive


def _tests(suites: Sequence[Suite], mutant: Mutant) -> Iterator[tuple[Sequence[Group], dict[str, Any]]]:
    """The rules and a test file of each case that a change of the rule can make fail, with what it needs for that; the shortest
    first."""
    for suite in (suite for suite in suites if mutant.topic in suite.topics):
        groups = suite.groups(mutant.groups)
        rules = [(_name(rule), _words(rule["expr"])) for group in groups for rule in group["rules"]]
        changed = _reached({mutant.name}, [(words, {name}) for name, words in rules])
        cases = [case for case in (_about(case, changed) for case in suite.cases) if case.checks]
        for case in sorted(cases, key=lambda case: case.end):
            queried = {word for query, _ in case.values for word in _words(query)}
            read = _reached({*case.firing, *queried}, [({name}, words) for name, words in rules])
            own = [group | {"rules": [rule for rule in group["rules"] if _name(rule) in read]} for group in groups]
            series = {name: values for name, values in case.series.items() if name.partition("{")[0] in read}
            yield own, document(own, [replace(case, series=series)], suite.every)


def _reached(names: Set[str], links: Sequence[tuple[Set[str], Set[str]]]) -> set[str]:
    """The names, and those to which links lead from them."""
    reached, before = set(names), 0
    while len(reached) > before:
        before = len(reached)
        for start, end in links:
            if start & reached:
                reached |= end
    return reached


@cache
def _words(query: str) -> frozenset[str]:
    """The names in a query, of series and others."""
    return frozenset(re.findall(r"[a-zA-Z_:][\w:]*", query))


def _name(rule: Rule) -> str:
    return str(rule.get("alert") or rule["record"])


def _about(case: Case, names: Set[str]) -> Case:
    """The case with the checks of these rules alone."""
    firing = {name: looks for name, looks in case.firing.items() if name in names}
    return replace(case, firing=firing, values={key: value for key, value in case.values.items() if names & _words(key[0])})


def _waits(rule: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    if "for" in rule:
        seconds = int(rule["for"].removesuffix("s"))
        for other in (seconds // 2, seconds * 2):
            yield f"for: {rule['for']} → {other}s", "for", f"{other}s"


def _texts(expr: str) -> Iterator[tuple[str, str]]:
    for found in _TOKEN.finditer(expr):
        for other in _others(found[0]):
            text = expr[: found.start()] + other + expr[found.end() :]
            nearby = expr[max(found.start() - 30, 0) : found.end()]
            yield f"…{nearby} → {other}", text


def _others(token: str) -> Iterator[str]:
    if token in _OTHER:
        yield from _OTHER[token]
    elif token.startswith("{"):
        matchers = re.findall(r'\w+[=!~]+"[^"]*"', token)
        for matcher in matchers:
            yield "{" + ", ".join(each for each in matchers if each is not matcher) + "}"
    elif token.startswith(("[", "offset")):
        span = re.search(r"(\d+)([smh])", token)
        if span is not None:
            seconds = int(span[1]) * _SECONDS[span[2]]
            for other in (seconds * 3, seconds // 3):
                yield token.replace(span[0], f"{other}s", 1)
    elif token[0].isdigit():
        number = float(token)
        yield from (f"{other:g}" for other in ((number / 2, number * 2) if number else (2,)))
