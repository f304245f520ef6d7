"""What each rule's test file declares: resources that pass it and resources that break it, for every kind that it names.

`tests/policies/test_suites.py` holds all suites to the same demands; `python -m tests.policies.suite` prints their counts.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from policies.rules import RULES, AnyRule, Rule, StackRule
from policies.rules.kinds import CONFIG_MAP_LIST, CONFIG_MAPS, HELM, LIST_PATHS, POD_PATHS, RELEASE
from tests.policies.applications import twins
from tests.policies.cases import Case, StackCase, alone

_POD_KINDS = {*POD_PATHS, *LIST_PATHS, *CONFIG_MAPS}
_CASES_OF_PODS = 6
"""Every kind of pod is read by the same code: of the sixty some are enough where a test changes each property."""
_CASES_OF_TWINS = 1
"""Of each of ArgoCD's kinds."""

SCALE_SET = "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set"


@dataclass(frozen=True)
class Suite:
    """The cases of one rule. `forbidden` are kinds that break it whatever they say, so that none of them passes.

    `unshown` are kinds that it can never judge, so that none of them passes either. Each has a case in `undeterminable`, whose
    messages are the one reason that the rule then gives.
    """

    rule: AnyRule
    passing: tuple[Case | StackCase, ...]
    violating: tuple[Case | StackCase, ...]
    forbidden: frozenset[str] = frozenset()
    undeterminable: tuple[StackCase, ...] = ()
    unshown: frozenset[str] = frozenset()


def in_pods(
    spec: Mapping[str, Any], *messages: str, tokens: Iterable[str] | None = None, config: Mapping[str, Any] | None = None
) -> Iterator[Case]:
    """The pod spec in every kind that holds one (or in `tokens`), a scale set's chart and the template of jobs included.

    {pod} in a message becomes the path of the pod spec in that kind.
    """
    for token in sorted(tokens if tokens is not None else {*_POD_KINDS, RELEASE}):
        path, props = _held(token, spec)
        told = tuple(message.replace("{pod}", path) for message in messages)
        # Remedies do not change the text of a template.
        yield Case(token, props, told, config or {}, unremedied=token in CONFIG_MAPS)


def stacks(cases: Iterable[Case]) -> tuple[StackCase, ...]:
    """Each case as a stack of one resource."""
    return tuple(alone(case.token, case.props, case.messages, config=case.config) for case in cases)


def templates(job: Mapping[str, Any], step: Mapping[str, Any] | None = None, **metadata: str) -> dict[str, Any]:
    """The ConfigMap of a set whose jobs run in containers, with these pod specs of jobs and of container actions."""
    data = {"job.json": json.dumps({"spec": job})} | ({"step.json": json.dumps({"spec": step})} if step is not None else {})
    return {"metadata": {"name": "container-jobs", **metadata}, "data": {"index.js": "// the wrapper", **data}}


def _held(token: str, spec: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if token == RELEASE:
        return "values.template.spec", {"chart": SCALE_SET, "version": "0.14.2", "values": {"template": {"spec": spec}}}
    if token == CONFIG_MAP_LIST:
        return 'items[0].data["job.json"].spec', {"items": [templates(spec)]}
    if token in CONFIG_MAPS:
        return 'data["job.json"].spec', templates(spec)
    if token in LIST_PATHS:
        path = LIST_PATHS[token]
        return f"items[0].{'.'.join(path)}", {"items": [_nested(path, spec)]}
    return ".".join(POD_PATHS[token]), _nested(POD_PATHS[token], spec)


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for step in reversed(path):
        value = {step: value}
    assert isinstance(value, dict)
    return value


@cache
def suite_of(rule: AnyRule) -> Suite:
    """The suite in the rule's test file. Each case of a Helm release is also a case for ArgoCD's kinds."""
    found = importlib.import_module(f"tests.policies.test_{rule.id.replace('-', '_')}").SUITE
    assert isinstance(found, Suite)
    assert found.rule is rule, "the suite is of another rule"
    return replace(
        found,
        passing=(*found.passing, *(twin for case in found.passing for twin in twins(case))),
        violating=(*found.violating, *(twin for case in found.violating for twin in twins(case))),
    )


def decided() -> list[AnyRule]:
    """The rules that a pack can decide: not the one that must see an earlier state."""
    return [rule for rule in RULES if suite_of(rule).violating]


def few(cases: tuple[Case | StackCase, ...]) -> list[Case | StackCase]:
    """The cases, of pod kinds and of ArgoCD's a few of each verdict."""
    pods = [case for case in cases if isinstance(case, Case) and case.token in _POD_KINDS]
    step = max(1, len(pods) // _CASES_OF_PODS)
    many = {id(case) for case in pods} - {id(case) for case in pods[::step]}
    for token in HELM - {RELEASE}:
        many |= {id(case) for case in [case for case in cases if token in tokens_of(case)][_CASES_OF_TWINS:]}
    return [case for case in cases if id(case) not in many]


def tokens_of(case: Case | StackCase) -> set[str]:
    """The kinds that a case has."""
    return {case.token} if isinstance(case, Case) else {member.token for member in case.members}


def counts(rule: AnyRule) -> dict[str, tuple[int, int, int]]:
    """Kind to (passing, violating, undeterminable) cases of a rule that have it."""
    suite = suite_of(rule)
    return {
        token: (
            sum(token in tokens_of(case) for case in suite.passing),
            sum(token in tokens_of(case) for case in suite.violating),
            sum(token in tokens_of(case) for case in suite.undeterminable),
        )
        for token in sorted(rule.types)
    }


def table() -> Iterator[str]:
    """A line for each rule, and one below it for each kind: cases that pass, that break it, that leave it undeterminable."""
    for rule in RULES:
        suite = suite_of(rule)
        kind = "resource" if isinstance(rule, Rule) else "stack" if isinstance(rule, StackRule) else "?"
        yield f"{rule.id} ({kind}): {len(suite.passing)} pass, {len(suite.violating)} break it"
        yield from (f"  {token}: {' / '.join(map(str, found))}" for token, found in counts(rule).items())


if __name__ == "__main__":
    # By its own name, for the suites are of the classes of that module.
    for row in importlib.import_module("tests.policies.suite").table():
        print(row)  # noqa: T201 - its purpose
