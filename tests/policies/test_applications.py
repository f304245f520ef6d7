"""Equal charts get equal verdicts, whether Helm or ArgoCD installs them: of the suites' cases, and of this project's own stacks.

The suites themselves hold Applications to the same words (`applications.py`); here are what they leave out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_ci.offline.wire import raw
from policies.rules import RULES, Rule
from policies.rules.kinds import APPLICATION, APPLICATION_SET, HELM, RELEASE
from tests.components.recorded import recorded
from tests.policies import fixtures
from tests.policies.applications import TEXT, application, application_set, said_of
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, changed, judge, remedied, secret
from tests.policies.suite import suite_of
from tests.policies.test_own_stacks import configured

OF_CHARTS = [rule for rule in RULES if isinstance(rule, Rule) and rule.types >= HELM]
STACKS = ("staging", "prod")
GIT: dict[str, Any] = {"repoURL": "https://github.com/example/fleet", "path": "apps", "targetRevision": "main"}


def cases(rule: Rule) -> Iterator[Case]:
    """The suite's Helm releases."""
    suite = suite_of(rule)
    for case in (*suite.passing, *suite.violating):
        if isinstance(case, Case) and case.token == RELEASE:
            yield case


def test_every_policy_that_judges_releases_judges_applications() -> None:
    assert len(OF_CHARTS) > 15
    assert [rule.id for rule in RULES if rule.types & HELM and not rule.types >= HELM] == []


@pytest.mark.parametrize("rule", OF_CHARTS, ids=lambda rule: rule.id)
def test_values_in_a_text_are_judged_like_values_in_an_object(rule: Rule) -> None:
    tried = 0
    for case in cases(rule):
        found = judge(rule, APPLICATION, application(case.props, as_text=True), case.config)
        assert found.messages == tuple(said_of(message, case.props, values=TEXT) for message in case.messages), case
        tried += 1
    assert tried


@pytest.mark.parametrize("rule", OF_CHARTS, ids=lambda rule: rule.id)
def test_a_release_beside_another_source_is_judged_like_one_alone(rule: Rule) -> None:
    for case in cases(rule):
        alone = application(case.props)
        beside = changed(alone, "spec", "sources", [GIT, alone["spec"]["source"]])
        expected = tuple(said_of(each, case.props).replace("spec.source.", "spec.sources[1].") for each in case.messages)
        assert judge(rule, APPLICATION, beside, case.config).messages == expected


@pytest.mark.parametrize("rule", OF_CHARTS, ids=lambda rule: rule.id)
def test_two_releases_of_one_application_are_both_judged(rule: Rule) -> None:
    for case in suite_of(rule).violating:
        if isinstance(case, Case) and case.token == APPLICATION:
            source = case.props["spec"]["source"]
            found = judge(rule, APPLICATION, changed(case.props, "spec", "sources", [source, source]), case.config)
            assert len(found.messages) == 2 * len(case.messages)
            return
    raise AssertionError("no case breaks it")


@pytest.mark.parametrize("rule", OF_CHARTS, ids=lambda rule: rule.id)
@pytest.mark.parametrize("token", [APPLICATION, APPLICATION_SET])
def test_what_installs_no_chart_is_passed_in_silence(rule: Rule, token: str) -> None:
    of_folders = {
        "metadata": {"name": "apps"},
        "spec": {"source": GIT | {"path": "{{ .path.path }}", "directory": {"recurse": True}}},
    }
    props = of_folders if token == APPLICATION else {"spec": {"template": of_folders, "templatePatch": "{{ .x }}"}}
    assert judge(rule, token, props) == CLEAN


@pytest.mark.parametrize("rule", [rule for rule in OF_CHARTS if rule.remedy is not None], ids=lambda rule: rule.id)
def test_an_application_is_not_mended(rule: Rule) -> None:
    for case in suite_of(rule).violating:
        if isinstance(case, Case) and case.token in (APPLICATION, APPLICATION_SET):
            assert remedied(rule, case.token, case.props, case.config) is None


@pytest.mark.parametrize("stack", STACKS)
def test_the_charts_of_our_own_stacks_are_judged_alike(stack: str) -> None:
    """As declared, and with what every policy of pods has to say something of: a runner pod without limits, of any image."""
    charts = [each for each in recorded(stack).resources if each.type == RELEASE]
    assert charts
    told: set[str] = set()
    configs = {each.policy.id: dict(each.config) for each in configured(stack)}
    for each in charts:
        props = raw(each.wire)
        worse = changed(props, "values", "template", {"spec": fixtures.UNLIMITED}) | {"version": "*"}
        for release in (props, worse):
            for rule in OF_CHARTS:
                plain = judge(rule, RELEASE, release, configs[rule.id])
                moved = judge(rule, APPLICATION, application(release), configs[rule.id])
                # An exception there is by the name of the resource.
                expected = tuple(said_of(message, release) for message in plain.messages)
                assert (moved.messages, bool(moved.unknown)) == (expected, bool(plain.unknown)), (each.name, rule.id)
                told |= {rule.id} if plain.messages else set()
    assert {"chart-version-pinned", "gpu-limits-required", "images-pinned"} <= told


@pytest.mark.parametrize("rule", OF_CHARTS, ids=lambda rule: rule.id)
def test_secret_values_are_judged_and_never_shown(rule: Rule) -> None:
    for case in cases(rule):
        found = judge(rule, APPLICATION_SET, application_set(case.props), case.config)
        hidden = application_set(case.props)
        hidden["spec"]["template"] = secret(hidden["spec"]["template"])
        assert judge(rule, APPLICATION_SET, hidden, case.config) == found
