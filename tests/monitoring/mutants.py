"""Rules with one thing changed. A case must fail for each of them, or the table below says why none can."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from tests.monitoring.promtool import Case, Group, Rule, Suite, document, told

_TOKEN = re.compile(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\boffset \w+|>=|<=|==|[<>]|\b\d+(?:\.\d+)?\b|[\w:]+')
_WORD = re.compile(r"[a-zA-Z_:][\w:]*")
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
    ("GpuCiSpotNodeLost", '…pu-p4-jobs|runners-gpu-keep"} offset 1m → offset 20s'): _MINUTE,
    ("GpuCiSpotNodeLost", '…status_phase{phase="Running"} offset 1m → offset 20s'): _MINUTE,
}
"""Mutants that give the same alerts for every input of the cases, with the reason."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule and what replaces it: nothing, or the rule with one change."""

    topic: str
    rule: Rule
    change: str
    instead: Rule | None

    @property
    def name(self) -> str:
        """The name of the rule."""
        return _name(self.rule)

    @property
    def key(self) -> tuple[str, str]:
        """The rule, with the labels that it sets, and what is changed in it."""
        labels = [value for key, value in self.rule.get("labels", {}).items() if key != "severity"]
        return " ".join([self.name, *labels]), self.change


def mutants(groups: Sequence[Group]) -> Iterator[Mutant]:
    """Every mutant of every rule: numbers, operators, ranges, `for`, one matcher removed, the whole rule removed."""
    for group in groups:
        topic = group["name"].removeprefix("gpu-ci-")
        for rule in (rule for rule in group["rules"] if _name(rule) not in _CONSTANT):
            yield Mutant(topic, rule, "removed", None)
            for change, key, value in [*_waits(rule), *((why, "expr", text) for why, text in _texts(rule["expr"]))]:
                yield Mutant(topic, rule, change, rule | {key: value})


@dataclass(frozen=True, slots=True)
class Trial:
    """promtool's test of one case with the rules that it reads, and the names of those that a changed rule can reach."""

    groups: Sequence[Group]
    document: Mapping[str, Any]
    reached: Set[str]

    @property
    def rules(self) -> list[Rule]:
        """The rules of all groups."""
        return [rule for group in self.groups for rule in group["rules"]]


def survivors(promtool: str, suites: Sequence[Suite], groups: Sequence[Group], changed: Sequence[Mutant]) -> list[Mutant]:
    """The mutants for which no case fails. A start of promtool judges one case of the mutants of every name."""
    alive: list[Mutant] = []
    by_name: dict[tuple[str, str], list[Mutant]] = {}
    for mutant in changed:
        by_name.setdefault((mutant.topic, mutant.name), []).append(mutant)
    left = [(of_name, list(_trials(suites, groups, *key))) for key, of_name in by_name.items()]
    while left:
        alive += [mutant for of_name, trials in left if not trials for mutant in of_name]
        left = [(of_name, trials) for of_name, trials in left if of_name and trials]
        messages = told(promtool, [_together(trials[0], of_name) for of_name, trials in left])
        left = [_after(message, *state) for message, state in zip(messages, left, strict=True)]
    return alive


def _after(message: str, of_name: list[Mutant], trials: list[Trial]) -> tuple[list[Mutant], list[Trial]]:
    """The mutants that are left, and their next cases: the same one again after a rule's error, which ends a case."""
    failing = {int(number) for number in re.findall(r":copy(\d+)\b", message)}
    if message and (not failing or ":unchanged" in message):
        raise RuntimeError(message)
    kinds = set(re.findall(r"^    (alertname|expr|rule): ", message, re.MULTILINE))
    again = message and (not kinds or "rule" in kinds)
    return [mutant for number, mutant in enumerate(of_name) if number not in failing], trials[0 if again else 1 :]


def _trials(suites: Sequence[Suite], groups: Sequence[Group], topic: str, name: str) -> Iterator[Trial]:
    """Each case that a change of the rules of this name can make fail, with what it needs for that; the shortest first."""
    for suite in (suite for suite in suites if topic in suite.topics):
        own = suite.groups(groups)
        rules = [(_name(rule), _words(rule["expr"])) for group in own for rule in group["rules"]]
        reached = _reached({name}, [(words, {reader}) for reader, words in rules])
        cases = [case for case in (_about(case, reached) for case in suite.cases) if case.checks]
        for case in sorted(cases, key=lambda case: case.end):
            queried = {word for query, _ in case.values for word in _words(query)}
            read = _reached({*case.firing, *queried}, [({reader}, words) for reader, words in rules])
            needed = [group | {"rules": [rule for rule in group["rules"] if _name(rule) in read]} for group in own]
            series = {key: values for key, values in case.series.items() if key.partition("{")[0] in read}
            yield Trial(needed, document(needed, [replace(case, series=series)], suite.every), reached)


def _together(trial: Trial, of_name: Sequence[Mutant]) -> tuple[list[Group], dict[str, Any]]:
    """Rules and a test file in which each mutant has its own copies of what it reaches, under names and with checks of its own.

    Each rule has a copy without a change, too: that one must pass, or a failure of the others would say nothing.
    """
    rules = [mutant.rule for mutant in of_name]
    same = [Mutant("", rule, "unchanged", rule) for at, rule in enumerate(rules) if rule not in rules[:at]]
    copies = [
        *(Copy(mutant, f"copy{number}", trial) for number, mutant in enumerate(of_name)),
        *(Copy(mutant, f"unchanged{number}", trial) for number, mutant in enumerate(same)),
    ]
    [test] = trial.document["tests"]
    checks = {
        key: [check for copy in copies for check in copy.checks(test[key])] for key in ("alert_rule_test", "promql_expr_test")
    }
    groups = [
        group | {"rules": [rule for before in group["rules"] for rule in _instead(before, copies, trial.reached)]}
        for group in trial.groups
    ]
    return groups, {**trial.document, "tests": [test | checks]}


def _instead(rule: Rule, copies: Sequence[Copy], reached: Set[str]) -> Iterator[Rule]:
    """The rule, or its copies: nothing else reads a rule that a change can reach."""
    if _name(rule) not in reached:
        yield rule
    else:
        yield from (made for copy in copies for made in copy.rules(rule))


@dataclass(frozen=True)
class Copy:
    """The rules that a mutant reaches, and the checks of them, under names that end with `suffix`.

    A rule that no other reads is copied without the rules of the same name: its own labels show what a check expects of it.
    """

    mutant: Mutant
    suffix: str
    trial: Trial

    @cached_property
    def alone(self) -> bool:
        """Whether the change reaches no other name, and no rule of this name sets the same labels and more."""
        labels = _labels(self.mutant.rule)
        alike = [rule for rule in self.trial.rules if _name(rule) == self.mutant.name and labels <= _labels(rule)]
        return self.trial.reached == {self.mutant.name} and len(alike) == 1

    def renamed(self, text: str) -> str:
        """An expression or a series with the names of the copies."""
        return _WORD.sub(lambda word: f"{word[0]}:{self.suffix}" if word[0] in self.trial.reached else word[0], text)

    def rules(self, rule: Rule) -> Iterator[Rule]:
        """The copy of the rule, unless the mutant has none."""
        made = self.mutant.instead if rule == self.mutant.rule else None if self.alone else rule
        if made is not None:
            kind = "alert" if "alert" in made else "record"
            # Without the annotations: they follow from the labels, and promtool is slow to fill them in.
            yield made | {kind: self.renamed(made[kind]), "expr": self.renamed(made["expr"]), "annotations": {}}

    def checks(self, checks: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The checks of a case for the copies."""
        labels = _labels(self.mutant.rule) if self.alone else set()
        for check in checks:
            if "alertname" in check:
                every = [alert["exp_labels"] for alert in check["exp_alerts"]]
                alerts = [{"exp_labels": own} for own in every if labels <= own.items()]
                yield check | {"alertname": self.renamed(check["alertname"]), "exp_alerts": alerts}
            else:
                own = [
                    sample | {"labels": self.renamed(sample["labels"])}
                    for sample in check["exp_samples"]
                    if all(f'{key}="{value}"' in sample["labels"] for key, value in labels)
                ]
                yield check | {"expr": self.renamed(check["expr"]), "exp_samples": own}


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
    return frozenset(_WORD.findall(query))


def _name(rule: Rule) -> str:
    return str(rule.get("alert") or rule["record"])


def _labels(rule: Rule) -> Set[tuple[str, str]]:
    """The labels that a rule sets."""
    labels: dict[str, str] = rule.get("labels", {})
    return labels.items()


def _about(case: Case, names: Set[str]) -> Case:
    """The case with the checks of these rules alone."""
    firing = {name: looks for name, looks in case.firing.items() if name in names}
    return replace(case, firing=firing, values={key: value for key, value in case.values.items() if names & _words(key[0])})


def _waits(rule: Rule) -> Iterator[tuple[str, str, str]]:
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
