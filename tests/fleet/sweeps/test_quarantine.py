"""Which GPU nodes are quarantined, when that ends, when the startup gate opens, and what is never touched."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.charts.sweeps import QUARANTINE
from fleet.facts.scheduling import HEALTH_ANNOTATION, QUARANTINE_TAINT, STARTUP_GATE
from fleet.loading.config import load
from fleet.providers.installed import tolerations_of
from fleet.render.sweeps.quarantine import EVENTS, NODES, State, decide, kept_event, kept_node, once
from fleet.render.sweeps.sweep import quarantine, sweep_objects, sweeps
from tests import builders
from tests.fleet.sweeps.rights import roles
from tests.fleet.sweeps.server import Server, serving
from tests.kwok.memory import MemoryApi, merged
from tests.kwok.world import time_text

NOW = 1_800_000_000.0
OLD = time_text(NOW - 86_400)
GATE = {"key": STARTUP_GATE.key, "value": "pending", "effect": "NoSchedule"}
OTHER = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}


def cluster(**health: Any) -> Any:
    pools = {"t4": builders.pool(instanceTypes=["g4dn.12xlarge"], nodes={"max": 10})}
    return load(builders.config(clusters={"usw2": builders.cluster(pools=pools, health=health)})).clusters["usw2"]


SETTINGS: dict[str, Any] = json.loads(json.dumps(quarantine(cluster()).settings))


def node(name: str = "one", gpus: int = 4, **changes: Any) -> dict[str, Any]:
    """A Ready node of the pool, a day old; `changes`: taints, state, made, error, ready, since, boot."""
    held = changes.get("state")
    conditions = [{"type": "Ready", "status": changes.get("ready", "True"), "lastTransitionTime": changes.get("since", OLD)}]
    if "error" in changes:
        conditions.append({"type": "AcceleratedHardwareReady", "status": "False", "reason": changes["error"]})
    return {
        "metadata": {
            "name": name,
            "resourceVersion": "7",
            "labels": {"gpu-ci/pool": changes.get("pool", "t4")},
            "annotations": {HEALTH_ANNOTATION: json.dumps(held)} if held else {},
            "creationTimestamp": changes.get("made", OLD),
        },
        "spec": {"taints": [OTHER, *changes.get("taints", [])]},
        "status": {
            "allocatable": {"nvidia.com/gpu": str(gpus)},
            "conditions": conditions,
            "nodeInfo": {"bootID": changes.get("boot", "first")},
        },
    }


def state(bad: float, why: str = "gpus-missing", good: float = 0, boot: str = "first") -> dict[str, Any]:
    return {"bad": bad, "good": good, "why": why, "boot": boot}


def tainted(why: str = "gpus-missing") -> dict[str, str]:
    return {"key": QUARANTINE_TAINT.key, "value": why, "effect": "NoSchedule"}


def rejection(pod: str, age: float = 60, host: str = "one", message: str = "no healthy devices present") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{pod}.{age:.0f}", "creationTimestamp": time_text(NOW - age)},
        "involvedObject": {"uid": pod},
        "source": {"host": host},
        "message": message,
        "lastTimestamp": time_text(NOW - age),
    }


def taints(found: dict[str, Any], *events: dict[str, Any]) -> list[dict[str, str]] | None:
    """The taints that the node gets; None if nothing changes."""
    changes = decide(SETTINGS, [kept_node(SETTINGS, found)], [kept_event(event) for event in events], NOW)
    return list(changes[0].taints) if changes else None


def test_lost_gpus_are_confirmed_for_three_minutes_because_a_plugin_may_restart() -> None:
    (first,) = decide(SETTINGS, [node(gpus=3)], [], NOW)
    assert (first.taints, first.state) == ([OTHER], State(NOW, 0, "gpus-missing", "first"))
    assert taints(node(gpus=3, state=state(NOW - 179))) is None
    assert taints(node(gpus=3, state=state(NOW - 180))) == [OTHER, tainted()]
    # In between they were all there for a minute: they come and go.
    assert taints(node(gpus=3, state=state(NOW - 180, good=NOW - 60))) == [OTHER, tainted()]


@pytest.mark.parametrize(("age", "sick"), [(299, False), (300, True)])
def test_a_new_node_may_register_its_gpus_for_eight_minutes_in_all(age: int, sick: bool) -> None:
    assert bool(decide(SETTINGS, [node(gpus=0, made=time_text(NOW - age))], [], NOW)) == sick, "three more minutes follow"


def test_three_rejected_pods_within_ten_minutes_are_enough() -> None:
    events = [rejection("a"), rejection("b", 600), rejection("c")]
    assert taints(node(), *events) == [OTHER, tainted("rejects-pods")]
    assert taints(node(), *events[:2], rejection("a")) is None, "one pod that is rejected twice is one"
    assert taints(node(), *events[:2], rejection("c", 601)) is None
    assert taints(node(), *events[:2], rejection("c", host="other")) is None
    shares = "maximum request size for shared resources is 1; found 2"
    assert taints(node(), *events[:2], rejection("c", message=shares)) is None, "that pod is wrong, and not the node"


def test_the_newest_of_several_events_of_a_pod_counts() -> None:
    """Here the node booted between the two events of each pod, and only the later ones are of this boot."""
    inside = node(boot="second", since=time_text(NOW - 290))
    for ages in ((280, 300), (300, 280)):
        assert taints(inside, *(rejection(pod, age) for age in ages for pod in "abc")) == [OTHER, tainted("rejects-pods")]


def test_a_gpu_error_quarantines_at_once_unless_a_jobs_own_program_causes_it() -> None:
    assert taints(node(error="NvidiaXID79Error")) == [OTHER, tainted("gpu-error")]
    assert taints(node(error="NvidiaXID31Error")) is None
    assert taints(node(error="DCGMError")) is None, "the agent restarts its engine, and the GPUs are fine"
    assert taints(node(error="NvidiaXID79Error", ready="Unknown")) is None, "Kubernetes itself keeps pods off"


def test_a_silent_node_does_not_enter_quarantine_and_begins_its_ten_healthy_minutes_again() -> None:
    assert taints(node(ready="Unknown", state=state(NOW - 999))) is None
    healing = state(NOW - 999, good=NOW - 500)
    (change,) = decide(SETTINGS, [node(ready="Unknown", taints=[tainted()], state=healing)], [], NOW)
    assert change.state == State(NOW - 999, 0, "gpus-missing", "first")
    assert list(change.taints) == [OTHER, tainted()]


def test_quarantine_ends_after_ten_healthy_minutes() -> None:
    inside: dict[str, Any] = {"taints": [tainted()], "state": state(NOW - 3600)}
    (first,) = decide(SETTINGS, [node(**inside)], [], NOW)
    assert (first.state, list(first.taints)) == (State(NOW - 3600, NOW, "gpus-missing", "first"), [OTHER, tainted()])
    for good, left in ((NOW - 599, None), (NOW - 600, [OTHER])):
        assert taints(node(taints=[tainted()], state=state(NOW - 3600, good=good))) == left


def test_a_node_that_rejected_pods_leaves_quarantine_only_after_a_new_boot() -> None:
    """In quarantine it gets no pod, so it cannot reject one."""
    held = state(NOW - 86_400, "rejects-pods", good=NOW - 3600)
    inside = [tainted("rejects-pods")]
    (first,) = decide(SETTINGS, [node(taints=inside, state=held)], [], NOW)
    assert first.taints == [OTHER, *inside]
    assert taints(node(taints=inside, state=held, boot="second")) == [OTHER]
    (second,) = decide(SETTINGS, [node(gpus=3, taints=inside, state=held)], [], NOW)
    assert second.state == State(NOW - 86_400, 0, "rejects-pods", "first"), "another reason does not hide it"
    assert taints(node(state=held)) == [OTHER], "a person removed the taint"


def test_rejections_of_an_earlier_boot_do_not_bring_a_node_back_into_quarantine() -> None:
    events = [rejection(pod, age) for pod, age in (("a", 300), ("b", 290), ("c", 280))]
    inside: dict[str, Any] = {"taints": [tainted("rejects-pods")], "state": state(NOW - 280, "rejects-pods")}
    rebooted = time_text(NOW - 60)
    (change,) = decide(SETTINGS, [node(**inside, boot="second", since=rebooted)], events, NOW)
    assert change.state == State(NOW - 280, NOW, "rejects-pods", "first"), "its ten healthy minutes begin"
    assert taints(node(boot="second", since=time_text(NOW - 285)), *events) is None
    assert taints(node(boot="second", since=time_text(NOW - 300)), *events) == [OTHER, tainted("rejects-pods")]


def test_the_gate_opens_for_all_gpus_and_for_quarantine() -> None:
    young = time_text(NOW - 60)
    assert taints(node(taints=[GATE], made=young)) == [OTHER]
    assert taints(node(gpus=3, taints=[GATE], made=young)) is None
    assert taints(node(taints=[GATE], made=young, ready="False")) is None
    # The autoscaler counts a gated node as one that starts, and stops when too many do so for long.
    assert taints(node(gpus=3, taints=[GATE], state=state(NOW - 180))) == [OTHER, tainted()]


def test_a_wrong_rule_quarantines_a_fifth_of_a_pool_and_the_longest_sick_first() -> None:
    nodes = [node(f"n{index}", gpus=0, state=state(NOW - 200 - index)) for index in range(10)]
    found = {each.node for each in decide(SETTINGS, nodes, [], NOW)}
    assert found == {"n8", "n9"}
    assert len(decide(SETTINGS, nodes[:1], [], NOW)) == 1, "of a single node it is that one"


@pytest.mark.parametrize(("nodes", "most"), [(5, 1), (10, 2), (12, 3)])
def test_a_fifth_of_a_pool_is_rounded_up_to_whole_nodes(nodes: int, most: int) -> None:
    sick = [node(f"n{index:02}", gpus=0, state=state(NOW - 200)) for index in range(nodes)]
    assert len(decide(SETTINGS, sick, [], NOW)) == most


def test_nodes_of_no_pool_and_annotations_of_others_do_no_harm() -> None:
    assert decide(SETTINGS, [node(gpus=0, pool="system", state=state(NOW - 999))], [], NOW) == []
    strange = node()
    for text in ("{", "[]", '{"bad": 1}', '{"bad": "x", "good": 0, "why": "", "boot": ""}'):
        strange["metadata"]["annotations"] = {HEALTH_ANNOTATION: text}
        assert decide(SETTINGS, [strange], [], NOW) == []


@given(st.integers(0, 2**32))
def test_a_pass_keeps_foreign_taints_and_its_bound_and_has_nothing_left_to_do(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    api, now = MemoryApi(), NOW
    api.held = {f"/api/v1/nodes/n{index}": any_node(dice, f"n{index}") for index in range(dice.randint(1, 12))}
    events = [rejection(f"p{index}", dice.randint(0, 900), f"n{dice.randint(0, 11)}") for index in range(dice.randint(0, 30))]
    for _ in range(6):
        before = list(api.held.values())
        was = sum(quarantined(each) for each in before)
        changes = decide(SETTINGS, before, events, now)
        for change in changes:
            path = f"/api/v1/nodes/{change.node}"
            kept = None if change.state is None else json.dumps({key: getattr(change.state, key) for key in State.__slots__})
            patch = {"metadata": {"annotations": {HEALTH_ANNOTATION: kept}}, "spec": {"taints": list(change.taints)}}
            api.held[path] = merged(api.held[path], patch)
        after = list(api.held.values())
        assert sum(map(quarantined, after)) <= max(was, -(-len(after) // 5), 1)
        assert all(OTHER in each["spec"]["taints"] for each in after)
        for each in after:
            whole = each["status"]["allocatable"]["nvidia.com/gpu"] == "4"
            healthy = whole and len(each["status"]["conditions"]) == 1 and not events
            assert not (healthy and quarantined(each)) or any(quarantined(old) for old in before), "no healthy node enters"
        assert decide(SETTINGS, after, events, now) == [], "the same look again changes nothing"
        now += dice.choice([20, 180, 700])


def any_node(dice: random.Random, name: str) -> dict[str, Any]:
    """Any mixture of faults, taints and states."""
    changes: dict[str, Any] = {"ready": dice.choice(["True", "True", "Unknown"]), "made": time_text(NOW - dice.randint(0, 900))}
    changes["taints"] = [each for each in (GATE, tainted()) if dice.random() < 0.3]
    if dice.random() < 0.3:
        changes["error"] = dice.choice(["NvidiaXID79Error", "NvidiaXID31Error"])
    if dice.random() < 0.5:
        why = dice.choice(["gpus-missing", "rejects-pods"])
        changes["state"] = state(NOW - dice.randint(0, 900), why, dice.choice([0, NOW - 300]), dice.choice(["first", "zero"]))
    return node(name, dice.choice([0, 3, 4, 4]), **changes)


def quarantined(found: dict[str, Any]) -> bool:
    return any(each["key"] == QUARANTINE_TAINT.key for each in found["spec"]["taints"])


def test_a_node_that_changed_since_it_was_read_is_left_to_the_next_pass(capsys: pytest.CaptureFixture[str]) -> None:
    class Late(MemoryApi):
        def call(self, method: str, path: str, *more: Any) -> dict[str, Any]:
            if path.endswith("/first"):
                self.held[path] = merged(self.held[path], {"metadata": {"resourceVersion": "8"}})
            return super().call(method, path, *more)

    api = Late()
    for name in ("first", "second"):
        found = node(name, error="NvidiaXID79Error")
        found["metadata"]["annotations"] |= {
            "sim/gpus": "4",
            "sim/ready": "True",
            "sim/error": "NvidiaXID79Error",
            "sim/boot": "1",
        }
        api.held[f"/api/v1/nodes/{name}"] = found
    once(api, SETTINGS | {"maxShare": 1}, api.list(NODES), api.list(EVENTS), NOW)
    assert {path.rpartition("/")[2]: quarantined(each) for path, each in api.held.items()} == {"first": False, "second": True}
    assert "409" in capsys.readouterr().out


def test_a_cluster_with_health_has_the_sweep_and_it_may_change_nodes_alone() -> None:
    (_, sweep) = sweeps(cluster())
    assert sweep.pod == QUARANTINE
    assert sweep.settings["nodes"] == "gpu-ci/pool in (t4)"
    assert sweep.settings["pools"]["t4"] == {"selector": {"gpu-ci/pool": "t4"}, "resource": "nvidia.com/gpu", "units": 4}
    without = load(builders.config()).clusters["usw2"]
    assert [each.name for each in sweeps(without)] == ["runner-reaper"]


def objects() -> dict[str, list[dict[str, Any]]]:
    """A node with a broken GPU, one that rejects pods, and a healthy one, on two pages."""
    rejected = [rejection(pod, host="two") | {"reason": "UnexpectedAdmissionError"} for pod in "abc"]
    return {"nodes": [node("one", error="NvidiaXID79Error"), node("two"), node("three")], "events": rejected}


def test_the_config_map_alone_is_a_program_that_changes_only_the_sick_nodes(tmp_path: Path) -> None:
    *_, config_map, deployment = sweep_objects(quarantine(cluster(maxShare=1)), {})
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    for item in volume["configMap"]["items"]:
        path = tmp_path / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config_map["data"][item["key"]], encoding="ascii")
    module = "fleet.render.sweeps.quarantine"
    with serving(Server(objects(), roles(quarantine(cluster())))) as server:
        program = (
            f"import json, {module} as it\napi, settings = it.Api({server.url!r}), json.load(open('settings.json'))\n"
            "nodes, events = it.watched(api, settings)\nnodes.follow(int)\nevents.follow(int)\n"
            f"it.once(api, settings, nodes.values(), events.values(), {NOW})"
        )
        # -S: without the packages of this environment.
        subprocess.run([sys.executable, "-S", "-B", "-c", program], cwd=tmp_path, check=True, capture_output=True)
    found = {name: patch["spec"]["taints"][-1] for name, patch in server.patched}
    assert found == {"one": tainted("gpu-error"), "two": tainted("rejects-pods")}
    assert all(patch["metadata"]["resourceVersion"] == "7" for _, patch in server.patched)
    assert any("fieldSelector=reason=UnexpectedAdmissionError&limit=" in each for each in server.requests)
    assert not any("/nodes?" in each and "labelSelector=gpu-ci/pool" not in each for each in server.requests)


def test_what_registers_gpus_tolerates_the_gate_and_runners_do_not() -> None:
    gated = cluster(startupGate=True)
    assert any(each.covers(STARTUP_GATE) for each in tolerations_of(gated))
    assert not any(each.covers(STARTUP_GATE) for each in tolerations_of(cluster()))
