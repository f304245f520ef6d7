"""The rules that a cluster enforces itself: what each refuses, the policy that says the same, and our own objects."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from fleet.facts.admission import KINDS, RULES, SYSTEM, AdmissionRule
from fleet.facts.scheduling import GPU_TAINT_KEY, VISIBLE_DEVICES
from fleet.loading.config import fleet_of
from fleet.render.admission import admission
from policies.rules import RULES as POLICIES, AnyRule, Rule
from policies.rules.admission import held, refused
from policies.rules.read import Later
from policies.rules.record import Resource, Unknown
from policies.rules.rule import Args
from tests.cases import cases
from tests.components.recorded import ROOT, in_every_stack, stack_config
from tests.day import AS_OF
from tests.policies.admission_cases import BROKEN, NUMBERS, PASSING, broken, pods_of_suites, token
from tests.policies.evasions.objects import Object, container, deployment, gpu_spec, on_gpu, pod, spec, thing
from tests.policies.harness import changed

BY_ID = {rule.id: rule for rule in POLICIES}
RULES_BY_ID = {rule.id: rule for rule in RULES}


def reports(rule: AdmissionRule, what: Object, found: AnyRule | None = None) -> list[str]:
    """What the policy of a rule says of an object, or another one."""
    found = found or BY_ID[rule.policy]
    config = {name: words["default"] for name, words in found.config.items() if "default" in words} | NUMBERS
    if isinstance(found, Rule):
        outcome = found.judge(Args(token(what), what, "urn:a", "a", config=config), AS_OF)
    else:
        outcome = found.judge([Resource(token(what), what, "urn:a", "a")], config, AS_OF)
    return [message for message, _ in outcome.violations]


def test_there_are_twelve_rules_and_each_has_cases() -> None:
    assert len(RULES) <= 12
    assert [*BROKEN] == [*PASSING] == [rule.id for rule in RULES]
    assert {rule.kind for rule in RULES} == {*KINDS}


def test_the_facts_in_the_data_are_those_of_the_fleet() -> None:
    text = repr(RULES)
    assert re.escape(GPU_TAINT_KEY).replace("\\/", "/") in text.replace("\\\\", "\\")
    assert VISIBLE_DEVICES in text


@cases("rule", RULES_BY_ID, RULES_BY_ID.__getitem__)
def test_a_rule_refuses_its_cases_and_its_policy_reports_them(rule: AdmissionRule) -> None:
    for what in BROKEN[rule.id]:
        assert broken(what) == {rule.id}, what
        assert reports(rule, what), what
    for what in PASSING[rule.id]:
        assert broken(what) == set(), what


def _nothing(*_: Any) -> Any:
    return ()


@cases("rule", RULES_BY_ID, RULES_BY_ID.__getitem__)
def test_a_policy_without_a_body_still_reports_what_the_cluster_refuses(rule: AdmissionRule) -> None:
    what = BROKEN[rule.id][0]
    whole: Any = BY_ID[rule.policy]
    (said,) = reports(rule, what, held(replace(whole, check=_nothing)))
    assert f"{rule.message}; a cluster with admission refuses it by rule {rule.id}" in said


def test_a_pod_of_any_kind_is_judged_where_its_object_is() -> None:
    greedy = gpu_spec(container(resources={"limits": {"nvidia.com/gpu": 3}}))
    assert broken(deployment(greedy)) == {"gpu-count"}
    for space in (*SYSTEM, ""):
        assert broken(changed(deployment(greedy), "metadata", "namespace", space)) == set()


def test_a_pod_has_the_containers_that_its_owner_adds() -> None:
    def workflow(body: Object) -> Object:
        template = {"name": "a", "container": body, "tolerations": gpu_spec()["tolerations"]}
        return thing("argoproj.io/v1alpha1", "Workflow", {"entrypoint": "a", "templates": [template]})

    assert broken(workflow(on_gpu())) == set()
    assert broken(workflow(on_gpu(3))) == {"gpu-count"}
    assert broken(workflow(container())) == {"gpu-taint"}


def test_an_unknown_value_is_judged_later() -> None:
    later = Later()
    what = pod(spec(nodeName=Unknown(("spec",))))
    assert list(refused(RULES, token(what), what, NUMBERS, later)) == []
    assert later


def test_the_policies_report_every_pod_of_a_suite_that_the_rules_refuse() -> None:
    silent, seen = [], 0
    for what in pods_of_suites():
        for rule in (rule for rule in RULES if rule.id in broken(what)):
            seen += 1
            if not reports(rule, what):
                silent.append((rule.id, what))
    assert not silent
    assert seen > 25


@in_every_stack
def test_our_own_objects_pass(recording: Any) -> None:
    """But for workloads that need their node: a cluster leaves out their namespaces."""
    fleet = fleet_of(stack_config(recording.stack))
    opened = {name for one in fleet.clusters.values() for name, level in one.team_namespaces.items() if level == "privileged"}
    numbers = NUMBERS | {"maxPerContainer": max(one.largest_job for one in fleet.clusters.values())}
    for resource in recording.resources:
        if resource.inputs.get("metadata", {}).get("namespace") not in opened:
            assert list(refused(RULES, resource.type, resource.inputs, numbers, Later())) == [], resource.urn


def test_a_cluster_leaves_out_the_system_the_charts_and_what_needs_its_node() -> None:
    (home,) = fleet_of(stack_config("homelab")).clusters.values()
    assert [*admission(home)] == []
    made = [*admission(home.model_copy(update={"admission": True}))]
    assert [policy["metadata"]["name"] for policy in made[::2]] == [f"gpu-ci-{rule.id}" for rule in RULES]
    outside, opened = made[1]["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert {*SYSTEM, "arc-systems"} <= {*outside["values"]}
    assert (opened["operator"], opened["values"]) == ("NotIn", ["privileged"])


def test_the_page_has_each_rule_with_its_policy() -> None:
    page = (ROOT / "docs/admission.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \| `([a-z-]+)` \|", page, re.MULTILINE) == [(rule.id, rule.policy) for rule in RULES]
