"""Another URL or other labels: a new runner set beside the old one, which takes no more jobs and goes one update later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pulumi
import pytest

from components.generations import Generations
from components.kubernetes.in_cluster import Inside
from components.kubernetes.inside import install
from fleet.facts import versions
from fleet.loading.config import load
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording, Resource
from tests.builders import cluster, config, runner
from tests.components.recorded import ALONE, RELEASE, of_type
from tests.components.test_removed_sets import IDLE, count, state_of

CHART, NAME = "usw2-gpu-t4-chart", "gpu-t4"
ELSEWHERE, GHES = "https://github.com/another", "https://ghes.example.com/example"
LABELS = ["self-hosted", "gpu"]
EDITS = pytest.mark.parametrize("edit", [{"url": ELSEWHERE}, {"labels": LABELS}])


def up(
    recorded: dict[str, str],
    state: dict[str, Any] | None = None,
    *,
    url: str = "https://github.com/example",
    name: str = NAME,
    own: str = "",
    **changes: Any,
) -> tuple[dict[str, Resource], dict[str, str], Recording]:
    """The releases of sets that an update declares, what it records, and the recording.

    `own` is the URL of a second scope, which the class then has. `changes` are those of the class. An update without `state` must
    not read it.
    """
    app = {"appId": "123456", "installationId": "12345678"}
    github = {"url": url, **app, **({"scopes": {"own": {"url": own, **app}}} if own else {})}
    changes |= {"github": "own"} if own else {}
    described = load(config(github=github, clusters={"usw2": cluster(runners={name: runner(**changes)})}))
    generations = Generations(recorded)

    def program() -> None:
        key, provider = pulumi.Output.secret("key"), pulumi.ProviderResource("kubernetes", "cluster", {})
        ready, opts = pulumi.CustomResource("a:b:C", "system"), pulumi.ResourceOptions(providers=[provider])
        inside = Inside("usw2", described.clusters["usw2"], [ready], opts, generations=generations)
        sets = install(inside, described, dict.fromkeys(described.github.every, key))
        pulumi.export("labels", sets[name]["labels"])
        pulumi.export("generations", generations.first)

    answers = {} if state is None else {"pulumi:pulumi:readStackResourceOutputs": lambda _: {"outputs": state}}
    recording = record(program, ALONE, preview=False, answers=answers)
    of_sets = [each for each in of_type(recording, RELEASE) if each.inputs["chart"].endswith("gha-runner-scale-set")]
    return {each.name: each for each in of_sets}, cast("dict[str, str]", recording.outputs["generations"]), recording


@pytest.fixture(scope="module")
def first() -> dict[str, str]:
    return up({})[1]


def labels(recording: Recording) -> Any:
    return recording.outputs["labels"]


def test_the_first_generation_has_the_name_of_its_class_and_a_stack_without_a_record_adopts_what_it_has(first):
    recorded: dict[str, str]
    for recorded in ({}, first):
        releases, again, recording = up(recorded)
        assert releases.keys() == {CHART}
        assert again == first
        values = releases[CHART].inputs["values"]
        assert (releases[CHART].inputs["name"], values["runnerScaleSetName"], values["scaleSetLabels"]) == (NAME, NAME, [])
        assert releases[CHART].inputs["atomic"] is True, "the deletion with its class, or with the stack, waits"
        assert not recording.messages


@EDITS
def test_an_edit_makes_a_second_set_with_the_name_of_the_class_as_a_label(first, edit):
    releases, again, recording = up(first, **edit)
    (new,) = releases.keys() - {CHART}
    suffix = new.removeprefix(CHART)
    values = releases[new].inputs["values"]
    assert releases[new].inputs["name"] == values["runnerScaleSetName"] == f"{NAME}{suffix}"
    assert values["scaleSetLabels"] == [NAME, *edit.get("labels", [])]
    assert values["githubConfigUrl"] == edit.get("url", "https://github.com/example")
    assert labels(recording) == [NAME, *edit.get("labels", [])], "users still write the name of the class"
    assert again.items() >= {key: value for key, value in first.items() if not key.endswith((".now", ".registered"))}.items()


@EDITS
def test_the_set_before_takes_no_job_and_its_deletion_waits_for_nothing(first, edit):
    releases, recorded, recording = up(first, **edit)
    old = releases[CHART]
    assert {key: old.inputs["values"][key] for key in ("minRunners", "maxRunners")} == {"minRunners": 0, "maxRunners": 0}
    assert (old.inputs["atomic"], old.inputs["skipAwait"], old.inputs["name"]) == (False, True, NAME)
    changeable = {f"values.{key}" for key in old.inputs["values"]} - {*old.ignore_changes}
    assert changeable == {"values.minRunners", "values.maxRunners"}
    assert "version" in old.ignore_changes
    assert not old.replace_on_changes
    assert old.replacement_trigger is None
    (warning,) = (message.text for message in recording.messages)
    assert warning == "runner set gpu-t4 is leaving: it takes no job, its runners finish, and the next pulumi up deletes it"
    later, again, quiet = up(recorded, **edit)
    assert later.keys() == releases.keys() - {CHART}
    assert (again, quiet.messages) == (recorded, ())


def test_an_edit_that_is_taken_back_has_the_first_set_again(first):
    releases, recorded, _ = up(first, url=ELSEWHERE)
    (second,) = releases.keys() - {CHART}
    for between in (recorded, up(recorded, url=ELSEWHERE)[1]):
        back, again, _ = up(between)
        assert back.keys() == {CHART, second}
        assert back[CHART].inputs["atomic"] is True
        assert back[second].inputs["values"]["maxRunners"] == 0
        assert again == first


def test_another_order_of_labels_and_another_size_leave_the_set_alone(first):
    recorded = up({}, labels=LABELS)[1]
    assert up(recorded, labels=LABELS[::-1])[0].keys() == {CHART}
    assert up(first, scale={"max": 7})[0].keys() == {CHART}


@pytest.mark.parametrize(("version", "replaces"), [("0.14.9", False), ("0.15.0", True), ("1.14.2", True)])
@pytest.mark.parametrize("url", ["https://github.com/example", "https://ghes.example.com/example"])
def test_a_patch_of_the_controller_updates_a_set_in_place_and_a_minor_replaces_it(monkeypatch, version, replaces, url):
    recorded = up({}, url=url)[1]
    pinned = replace(versions.CHARTS["gha-runner-scale-set"], version=version)
    monkeypatch.setattr(versions, "CHARTS", {**versions.CHARTS, "gha-runner-scale-set": pinned})
    releases, _, _ = up(recorded, url=url)
    assert releases.keys() == {CHART}
    assert ("version" in releases[CHART].replace_on_changes) is replaces
    assert "version" in up({}, url=url)[0][CHART].replace_on_changes, "nothing says which version is deployed"


REPLACED = pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"url": GHES}, {"labels": LABELS}),
        ({"url": GHES}, {"url": "https://ghes.example.com/another"}),
        ({"url": "https://acme.ghe.com/example"}, {"labels": LABELS}),
        ({}, {"url": GHES}),
        ({"url": GHES}, {"url": "https://github.com/example"}),
        ({"name": "g" * 39}, {"labels": LABELS}),
        ({"name": "g" * 29, "containers": "job"}, {"labels": LABELS}),
        ({}, {"own": ELSEWHERE}),
        ({"own": ELSEWHERE}, {"own": ""}),
    ],
)
"""Edits of sets whose jobs may wait, whose name is long, or whose Secret is another one: they are replaced under their names."""


def registration(release: Resource) -> tuple[str, str, set[str]]:
    values = release.inputs["values"]
    return values["githubConfigUrl"], values["githubConfigSecret"], {*values["scaleSetLabels"]}


def secrets(state: dict[str, Any]) -> set[str]:
    rows = (row["outputs"] for row in state.values() if row["type"] == "kubernetes:core/v1:Secret")
    return {row["metadata"]["name"] for row in rows}


def after(state: dict[str, Any], recording: Recording) -> dict[str, Any]:
    """The state after an update: what it leaves as it is, it has from the state before."""
    entries = state_of(recording)
    for each in recording.resources:
        if each.ignore_changes and (old := state.get(each.urn)):
            changed = {"values": old["outputs"]["values"] | IDLE} if each.type == RELEASE else {}
            entries[each.urn] = old | {"outputs": old["outputs"] | changed}
    return entries


@REPLACED
def test_a_set_that_is_replaced_under_its_name_first_takes_no_job(old, new):
    before, recorded, was = up({}, **old)
    state = state_of(was)
    releases, again, recording = up(recorded, state, **old | new)
    ((logical_name, release),) = releases.items()
    assert registration(release) == registration(before[logical_name])
    assert {key: release.inputs["values"][key] for key in IDLE} == IDLE
    assert "values.githubConfigUrl" in release.ignore_changes
    assert release.replacement_trigger == sorted(before[logical_name].inputs["values"]["scaleSetLabels"])
    assert secrets(after(state, recording)) >= secrets(state), "ARC needs the Secret until the set is gone"
    assert again.items() >= recorded.items()
    (warning,) = (message.text for message in recording.messages)
    assert warning.endswith("is leaving: it takes no job, its runners finish, and a later pulumi up registers it again")


@REPLACED
@pytest.mark.parametrize("used", [{"pods": "2"}, {}, None])
def test_it_stays_while_its_quota_counts_pods_or_says_nothing(monkeypatch, old, new, used):
    _, recorded, was = up({}, **old)
    asked = count(monkeypatch, used)
    first = up(recorded, state := state_of(was), **old | new)
    assert asked == [], "a job may have come until now"
    later = up(recorded, idle := after(state, first[2]), **old | new)
    assert (after(idle, later[2]), later[1]) == (idle, first[1])
    assert asked == [f"runners-{old.get('name', NAME)}/runners"]


@REPLACED
def test_it_is_registered_again_once_its_quota_counts_no_pod(monkeypatch, old, new):
    _, recorded, was = up({}, **old)
    count(monkeypatch, {"pods": "0"})
    state = state_of(was)
    idle = after(state, up(recorded, state, **old | new)[2])
    releases, recorded, recording = up(recorded, idle, **old | new)
    fresh, of_fresh, made = up({}, **old | new)
    ((logical_name, release),) = releases.items()
    assert registration(release) == registration(fresh[logical_name])
    assert release.inputs == fresh[logical_name].inputs
    assert "values.githubConfigUrl" in release.replace_on_changes
    assert (secrets(state_of(recording)), recording.messages) == (secrets(state_of(made)), ())
    _, again, last = up(recorded, **old | new)
    assert (again, last.messages) == (of_fresh, ()), "and the state is not read again"


@REPLACED
def test_an_edit_that_is_taken_back_before_that_lets_the_set_take_jobs_again(old, new):
    _, recorded, was = up({}, **old)
    between = up(recorded, state_of(was), **old | new)[1]
    _, again, back = up(between, **old)
    assert (state_of(back), again, back.messages) == (state_of(was), recorded, ())


def test_a_set_that_an_interrupted_update_replaced_already_is_left_alone():
    recorded = up({}, url=GHES)[1]
    releases, first, made = up({}, url=GHES, labels=LABELS)
    there, again, recording = up(recorded, state_of(made), url=GHES, labels=LABELS)
    assert (there.keys(), again, recording.messages) == (releases.keys(), first, ())
    gone = {urn: row for urn, row in state_of(made).items() if row["type"] != RELEASE}
    assert up(recorded, gone, url=GHES, labels=LABELS)[1] == first, "also between the deletion and the creation"
