"""A runner class that the settings do not have any more: its set takes no job, and goes once its quota counts no pod."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.generations import Generations
from components.kubernetes.in_cluster import Inside
from components.kubernetes.inside import install
from fleet.loading.config import load
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording, Resource
from tests.builders import cluster, config, runner
from tests.components.recorded import ALONE, RELEASE

SET, SPACE, QUOTA = "gpu-ci:index:ArcRunnerSet", "kubernetes:core/v1:Namespace", "kubernetes:core/v1:ResourceQuota"
GONE, LONGER = "gpu-t4", "gpu-t4-large"
IDLE = {"minRunners": 0, "maxRunners": 0}


def up(
    recorded: dict[str, str], state: dict[str, Any] | None = None, *names: str, **changes: Any
) -> tuple[Recording, dict[str, str]]:
    """What an update of the classes `names` declares, and what it records. `changes` are those of each class."""
    described = load(config(clusters={"usw2": cluster(runners={name: runner(**changes) for name in names or (LONGER,)})}))
    generations = Generations(recorded)

    def program() -> None:
        key, provider = pulumi.Output.secret("key"), pulumi.ProviderResource("kubernetes", "cluster", {})
        ready, opts = pulumi.CustomResource("a:b:C", "system"), pulumi.ResourceOptions(providers=[provider])
        inside = Inside("usw2", described.clusters["usw2"], [ready], opts, generations=generations)
        install(inside, described, dict.fromkeys(described.github.every, key))

    answers = {} if state is None else {"pulumi:pulumi:readStackResourceOutputs": lambda _: {"outputs": state}}
    return record(program, ALONE, preview=False, answers=answers), generations.first


def state_of(recording: Recording) -> dict[str, Any]:
    """What the engine says of the resources of an update."""
    return {each.urn: {"type": each.type, "outputs": dict(each.inputs)} for each in recording.resources}


def of_set(recording: Recording, name: str) -> dict[str, Resource]:
    """The resources below a set, by URN."""
    urn = next((each.urn for each in recording.resources if (each.type, each.name) == (SET, f"usw2-{name}")), None)
    return {each.urn: each for each in recording.resources if urn and each.parent == urn}


def idle(state: dict[str, Any]) -> dict[str, Any]:
    """The state after the first update without the class."""
    idled = {urn: dict(entry) for urn, entry in state.items()}
    for entry in idled.values():
        if entry["type"] == RELEASE and entry["outputs"]["name"] == GONE:
            entry["outputs"] = entry["outputs"] | {"values": entry["outputs"]["values"] | IDLE}
    return idled


def count(monkeypatch: pytest.MonkeyPatch, used: dict[str, str] | None) -> list[str]:
    """Lets the API server answer with a status. Returns the ids that the program asks for."""
    asked: list[str] = []

    def get(_: str, identity: str, __: pulumi.ResourceOptions) -> SimpleNamespace:
        asked.append(identity)
        return SimpleNamespace(status=pulumi.Output.from_input(used).apply(lambda _: SimpleNamespace(used=used)))

    monkeypatch.setattr(kubernetes.core.v1.ResourceQuota, "get", get)
    return asked


@pytest.fixture(scope="module")
def before() -> tuple[Recording, dict[str, str]]:
    return up({}, None, GONE, LONGER)


@pytest.fixture(scope="module")
def state(before: tuple[Recording, dict[str, str]]) -> dict[str, Any]:
    return state_of(before[0])


def test_the_first_update_keeps_all_of_the_set_and_lets_it_take_no_job(before, state, monkeypatch):
    asked = count(monkeypatch, {"pods": "0"})
    was, recorded = before
    recording, again = up(recorded, state)
    old, new = of_set(was, GONE), of_set(recording, GONE)
    assert old.keys() == new.keys()
    assert len(old) == 6
    assert again == recorded, "an update that fails begins anew, and a class that comes back has its generations"
    assert asked == [], "a job may have come until now"
    (release,) = (each for each in new.values() if each.type == RELEASE)
    assert {key: release.inputs["values"][key] for key in IDLE} == IDLE
    changeable = {*release.inputs} | {f"values.{key}" for key in release.inputs["values"]}
    assert changeable - {*release.ignore_changes} == {"values", "values.minRunners", "values.maxRunners", "skipAwait"}
    assert release.inputs["skipAwait"] is False, "ARC needs the Secret until the set is gone"
    assert {(*each.inputs, *each.ignore_changes) for each in new.values() if each is not release} == {("*",)}
    (warning,) = (message.text for message in recording.messages)
    assert warning.startswith("runner set gpu-t4 is leaving: it takes no job")


def test_what_stays_is_deleted_in_the_order_in_which_arc_needs_it(before, state):
    recording, _ = up(before[1], state)
    new = of_set(recording, GONE)
    spaces = {urn for urn, each in new.items() if each.type == SPACE}
    (release,) = (each for each in new.values() if each.type == RELEASE)
    assert new.keys() - {release.urn} <= {*release.dependencies}
    for each in new.values():
        assert spaces - {each.urn} <= {*each.dependencies}
        assert any(urn.endswith("::usw2-arc-chart") for urn in each.dependencies), "the controller goes after its sets"


@pytest.mark.parametrize("used", [{"pods": "2"}, {}, None])
def test_a_later_update_keeps_it_while_its_quota_counts_pods_or_says_nothing(before, state, monkeypatch, used):
    asked = count(monkeypatch, used)
    recording, again = up(before[1], idle(state))
    assert asked == ["runners-gpu-t4/runners"]
    assert of_set(recording, GONE).keys() == of_set(before[0], GONE).keys()
    assert again == before[1]


def test_a_later_update_declares_nothing_of_a_set_without_pods(before, state, monkeypatch):
    count(monkeypatch, {"pods": "0"})
    recording, _ = up(before[1], idle(state))
    assert (of_set(recording, GONE), recording.messages) == ({}, ())
    left = {urn: entry for urn, entry in state.items() if urn not in of_set(before[0], GONE)}
    recording, again = up(before[1], left)
    assert (of_set(recording, GONE), recording.messages) == ({}, ())
    assert not {key for key in again if GONE in key and LONGER not in key}


def test_a_class_that_comes_back_is_as_it_was(before, state):
    recorded = up(before[1], state)[1]
    recording, again = up(recorded, None, GONE, LONGER)
    assert (state_of(recording), again) == (state_of(before[0]), before[1])


def test_a_set_whose_name_begins_with_that_of_the_removed_one_stays_as_it_is(before, state):
    recording, _ = up(before[1], state)
    (release,) = (each for each in of_set(recording, LONGER).values() if each.type == RELEASE)
    assert release.inputs["values"]["maxRunners"] > 0


def test_a_class_whose_jobs_run_in_containers_keeps_both_namespaces(monkeypatch):
    count(monkeypatch, {"pods": "1"})
    was, recorded = up({}, None, GONE, LONGER, containers="job")
    recording, _ = up(recorded, idle(state_of(was)), containers="job")
    new = of_set(recording, GONE)
    assert new.keys() == of_set(was, GONE).keys()
    assert len([each for each in new.values() if each.type == SPACE]) == 2


def test_a_stack_without_a_removed_class_does_not_read_its_state(before):
    up(before[1], None, GONE, LONGER)
