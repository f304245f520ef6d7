"""An error is on the line that it comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from fleet.facts.errors import InputError
from fleet.loading.home import ROOT
from fleet.loading.stackfile import load
from gpu_ci.offline.annotations import annotate, of_input
from gpu_ci.offline.base import Base
from gpu_ci.offline.judge import Verdict
from gpu_ci.offline.notes import Annotation
from gpu_ci.offline.plan import Plan, make_plan
from tests.offline.staging import TEXT, TOO_SMALL, WIDER, base, line_of, plan_of, shipped, staging, write


def unescaped(text: str) -> str:
    """A value as the runner reads it (actions/runner, ActionCommand.cs: %25 last)."""
    for sign, code in (("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C"), ("%", "%25")):
        text = text.replace(code, sign)
    return text


def errors(found: tuple[Annotation, ...]) -> list[Annotation]:
    return [each for each in found if each.level == "error"]


def verdict(name: str, level: str = "mandatory", kind: str = "violation", rule: str = "gpu-node-taint") -> Verdict:
    """A verdict on the resource of the staging stack that has this logical name."""
    urn = next(each.urn for each in shipped().resources if each.name == name)
    return Verdict(rule, level, kind, urn, "wrong")


def with_verdicts(*verdicts: Verdict) -> Plan:
    return replace(shipped(), verdicts=verdicts)


# -- the command -------------------------------------------------------------------------------------------------------


def test_a_command_is_what_the_runner_reads():
    found = Annotation("error", "spot", "broken", "Pulumi.staging.yaml", 12)
    assert str(found) == "::error file=Pulumi.staging.yaml,line=12,title=spot::broken"
    assert str(Annotation("notice", "remark", "told")) == "::notice title=remark::told"


@given(st.text(), st.text(), st.text(min_size=1))
def test_a_command_is_one_line_and_comes_back_as_it_was(title, message, file):
    made = str(Annotation("error", title, message, file, 3))
    assert "\n" not in made
    assert "\r" not in made
    head, _, data = made.removeprefix("::error ").partition("::")
    properties = dict(pair.split("=", 1) for pair in head.split(","))
    assert {key: unescaped(value) for key, value in properties.items()} == {"file": file, "line": "3", "title": title}
    told = data
    for sign, code in (("\r", "%0D"), ("\n", "%0A"), ("%", "%25")):
        told = told.replace(code, sign)
    assert told == message


# -- where it comes from -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "line"),
    [
        ("usw2-t4-spot-us-west-2a-nodes", "        t4-spot:"),
        ("usw2-t4-release-launch", "        t4-release:"),
        ("usw2-gpu-t4-chart", "        gpu-t4:"),
        ("usw2-gpu-t4-release-chart", "        gpu-t4-release:"),
        ("usw2-control-plane", "    usw2:"),
        ("usw2-arc-chart", "    usw2:"),
        ("usw2-aws", "    usw2:"),
    ],
)
def test_a_resource_leads_to_the_entry_that_it_is_made_for(resource, line):
    (found,) = errors(annotate(with_verdicts(verdict(resource)), ROOT))
    assert (found.file, found.line) == ("Pulumi.staging.yaml", line_of(ROOT / "Pulumi.staging.yaml", line))
    assert found.title == "gpu-node-taint"
    assert found.message == f"{resource}: wrong"


def test_every_resource_of_every_stack_leads_to_an_entry_of_its_cluster():
    for stack, file in (("prod", None), ("oci-machines", ROOT / "examples" / "Pulumi.oci-machines.yaml")):
        plan = make_plan(stack, ROOT, file)
        made = [each for each in plan.resources if each.name != "destroy-guard"]  # that one is of the whole stack
        told = tuple(Verdict("gpu-node-taint", "mandatory", "violation", each.urn, "wrong") for each in made)
        found = errors(annotate(replace(plan, verdicts=told), ROOT))
        assert [each.message for each in found if each.line is None] == []
        said = [line for each in found for line in each.message.splitlines()]
        assert sorted(said) == sorted(f"{each.name}: wrong" for each in made)


def test_what_is_said_of_the_stack_has_no_line():
    found = errors(annotate(with_verdicts(Verdict("budget", "mandatory", "violation", "", "too expensive")), ROOT))
    assert [str(each) for each in found] == ["::error title=budget::the stack: too expensive"]


def test_levels_are_errors_warnings_and_notices_in_this_order():
    plan = with_verdicts(
        verdict("usw2-t4-spot-us-west-2a-nodes", "advisory", rule="soft"),
        verdict("usw2-t4-release-us-west-2a-nodes", rule="hard"),
    )
    found = annotate(plan, ROOT)
    assert [each.title for each in found[:2]] == ["hard", "soft"]
    assert [each.level for each in found] == ["error", "warning"] + ["notice"] * len(shipped().remarks)


def test_remarks_stand_where_they_point_to():
    file = ROOT / "Pulumi.staging.yaml"
    lines = {each.message: each.line for each in annotate(shipped(), ROOT)}
    for start, text in (
        ("usw2: kubernetesVersion:", "kubernetesVersion:"),
        ("usw2/gpu-t4: memory limit", "        gpu-t4:"),
        ("usw2/t4-spot + t4-ondemand: 10 gpu-t4 runners", "        t4-spot:"),
    ):
        (line,) = [line for message, line in lines.items() if message.startswith(start)]
        assert line == line_of(file, text), start


def test_a_remark_on_the_system_pool_stands_at_the_system_pool():
    plan = replace(shipped(), overbooked=("usw2/system: too few launchers",))
    (found,) = [each for each in annotate(plan, ROOT) if each.message.endswith("too few launchers")]
    assert found.line == line_of(ROOT / "Pulumi.staging.yaml", "system:")


def test_a_runner_that_fits_nowhere_is_an_error_at_its_entry(tmp_path):
    path = write(tmp_path, TOO_SMALL)
    (found,) = errors(annotate(plan_of(path), ROOT))
    assert (found.title, found.file, found.line) == ("gpu-t4 cannot be placed", str(path), line_of(path, "        gpu-t4:"))


def test_a_runner_set_that_is_called_as_its_pool_has_the_error_at_its_own_entry(tmp_path):
    path = write(tmp_path, TOO_SMALL, ("        gpu-t4:\n", "        t4-spot:\n"))
    (found,) = errors(annotate(plan_of(path), ROOT))
    assert found.line == line_of(path, "pool: t4-spot") - 1


def test_what_one_policy_says_of_one_entry_is_one_annotation():
    plan = with_verdicts(
        verdict("usw2-t4-spot-us-west-2a-nodes"), verdict("usw2-t4-spot-launch"), verdict("usw2-t4-release-us-west-2a-nodes")
    )
    assert [each.message for each in errors(annotate(plan, ROOT))] == [
        "usw2-t4-spot-us-west-2a-nodes: wrong\nusw2-t4-spot-launch: wrong",
        "usw2-t4-release-us-west-2a-nodes: wrong",
    ]


def test_what_a_critical_policy_cannot_tell_is_an_error_where_one_is_strict():
    plan = with_verdicts(verdict("usw2-t4-spot-launch", kind="undeterminable", rule="imds-v2-hop-one"))
    assert errors(annotate(plan, ROOT)) == []
    assert len(errors(annotate(plan, ROOT, strict=True))) == 1


# -- with a base -------------------------------------------------------------------------------------------------------


def test_a_failure_that_was_there_before_is_told_again(tmp_path):
    path = write(tmp_path, WIDER)
    old = (verdict("usw2-t4-release-us-west-2a-nodes"),)
    found = errors(annotate(replace(plan_of(path), verdicts=old), ROOT, Base(TEXT, replace(staging(), verdicts=old))))
    assert [each.line for each in found] == [line_of(path, "        t4-release:")]


def test_remarks_that_were_there_before_are_left_out(tmp_path):
    path = write(tmp_path, ("scale: {min: 0, max: 10}", "scale: {min: 0, max: 11}"))
    found = annotate(plan_of(path), ROOT, base())
    assert [(each.level, each.message[:31], each.line) for each in found] == [
        ("notice", "usw2/t4-spot: 11 gpu-t4 runners", line_of(path, "        t4-spot:"))
    ]


def test_an_advisory_that_was_there_before_is_left_out(tmp_path):
    old = verdict("usw2-t4-spot-us-west-2a-nodes", "advisory"), verdict("usw2-t4-release-us-west-2a-nodes", "advisory")
    plan = replace(plan_of(write(tmp_path, WIDER)), verdicts=old)
    known, new = (
        [each.message for each in annotate(plan, ROOT, before) if each.level == "warning"]
        for before in (Base(TEXT, replace(staging(), verdicts=old[:1])), base())
    )
    assert known == ["usw2-t4-release-us-west-2a-nodes: wrong"]
    assert new == ["usw2-t4-spot-us-west-2a-nodes: wrong", "usw2-t4-release-us-west-2a-nodes: wrong"]


def test_a_stack_that_is_new_is_changed_in_every_line():
    found = annotate(staging(), ROOT, Base("", None, "the base has no Pulumi.staging.yaml"))
    assert found == annotate(staging(), ROOT)


# -- wrong input -------------------------------------------------------------------------------------------------------


def test_wrong_input_stands_at_its_line(tmp_path):
    path = write(tmp_path, ("idleDelay: 5m", "idleDely: 5m"))
    with pytest.raises(InputError) as caught:
        plan_of(path)
    (found,) = of_input(caught.value, ROOT)
    assert (found.level, found.file, found.line) == ("error", str(path), line_of(path, "idleDely"))
    assert "did you mean idleDelay?" in found.message


def test_a_path_of_the_project_is_shown_from_its_folder_on():
    (found,) = of_input(InputError("Pulumi.staging.yaml:7: a: b"), ROOT)
    assert (found.file, found.line, found.message) == ("Pulumi.staging.yaml", 7, "a: b")
    (found,) = of_input(InputError(f"{ROOT}/Pulumi.yaml:2: a: b"), ROOT)
    assert (found.file, found.line) == ("Pulumi.yaml", 2)
    (found,) = of_input(InputError("policies/config/staging.json:3: a"), ROOT)
    assert (found.file, found.line) == ("policies/config/staging.json", 3)


def test_wrong_input_without_a_line_stands_in_the_summary():
    with pytest.raises(InputError) as caught:
        load("nowhere", ROOT)
    (found,) = of_input(caught.value, ROOT)
    assert (found.file, found.line) == ("", None)
    assert str(found).startswith("::error title=wrong input::stack: there must be a file for the stack")
