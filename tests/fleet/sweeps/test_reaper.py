"""Which EphemeralRunners the reaper deletes, and that it does so with exactly its rights."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from fleet.facts.scheduling import QUARANTINE_TAINT, RUNNER_POD_LABEL
from fleet.loading.config import load
from fleet.render.sweeps.api import Api
from fleet.render.sweeps.reaper import (
    Deletion,
    Limits,
    Reaper,
    decide,
    job_pods,
    kept_node,
    kept_pod,
    kept_runner,
    kept_secret,
    leftovers,
)
from fleet.render.sweeps.sweep import IDLE, reaper, sweep_objects, sweeps
from tests.builders import cluster, config, oke_cluster, pool, runner, vm
from tests.cases import cases
from tests.fleet.sweeps.rights import roles
from tests.fleet.sweeps.server import Server, serving

SPACE = "runners-gpu-t4"
LIFETIME = 3600
LIMITS = {SPACE: Limits(LIFETIME, 900)}
READY = {SPACE: Limits(LIFETIME)}
"""The limits of a class that keeps runners ready."""
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
LISTENS = {SPACE: NOW - 86_400}
"""The listener runs since yesterday."""


def ago(seconds: float) -> str:
    """The time so many seconds before now, as the API server writes it."""
    return datetime.fromtimestamp(NOW - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ephemeral(
    name: str = "one", age: float = 60, job: float | None = None, phase: str = "Running", **meta: Any
) -> dict[str, Any]:
    """An EphemeralRunner created `age` seconds ago; its job started `job` seconds ago."""
    fields = [{"manager": "manager", "time": ago(1)}]
    if job is not None:
        fields.append({"manager": "ghalistener", "time": ago(job)})
    metadata = {"namespace": SPACE, "name": name, "uid": f"uid-{name}", "creationTimestamp": ago(age), "managedFields": fields}
    status = {"phase": phase} | ({"jobId": "85cb98eb"} if job is not None else {})
    return {"metadata": metadata | meta, "status": status}


def runner_pod(name: str = "one", age: float = 50, phase: str = "Running", node: str = "gpu-1", **meta: Any) -> dict[str, Any]:
    """The pod of a runner. Its container runs since the pod was created."""
    metadata = {"namespace": SPACE, "name": name, "uid": f"pod-{name}", "creationTimestamp": ago(age)}
    state = (
        {"running": {"startedAt": ago(age)}}
        if phase == "Running"
        else {"waiting": {}}
        if phase == "Pending"
        else {"terminated": {}}
    )
    spec = {"nodeName": node} if node else {}
    return {
        "metadata": metadata | meta,
        "spec": spec,
        "status": {"phase": phase, "containerStatuses": [{"name": "runner", "state": state}]},
    }


def listener(age: float = 86_400, space: str = SPACE, **meta: Any) -> dict[str, Any]:
    """The pod of a set's listener, whose container runs for `age` seconds. The pod itself is older: containers restart."""
    name = f"{space}-listener"
    labels = {"app.kubernetes.io/component": "runner-scale-set-listener", "actions.github.com/scale-set-namespace": space}
    found = {"namespace": "arc-systems", "name": name, "uid": name, "labels": labels, "creationTimestamp": ago(99_999)}
    status = {"phase": "Running", "containerStatuses": [{"name": "listener", "state": {"running": {"startedAt": ago(age)}}}]}
    return {"metadata": found | meta, "spec": {}, "status": status}


def node(name: str = "gpu-1", *taints: str, cordoned: bool = False, **meta: Any) -> dict[str, Any]:
    spec = {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]} | ({"unschedulable": True} if cordoned else {})
    return {"metadata": {"name": name, "uid": f"node-{name}", "labels": {"gpu-ci/pool": "t4"}} | meta, "spec": spec}


def reasons(
    runners: list[Any], pods: list[Any], nodes: list[Any] | None = None, limits: Any = LIMITS, listeners: Any = LISTENS
) -> dict[str, str]:
    """The reasons by the name of the runner, judged by what a sweep keeps of each object."""
    hosts = map(kept_node, [node()] if nodes is None else nodes)
    found = decide(map(kept_runner, runners), map(kept_pod, pods), hosts, limits, listeners, QUARANTINE_TAINT.key, NOW)
    return {each.name: each.reason for each in found}


def test_a_runner_that_works_or_starts_is_left_alone() -> None:
    assert reasons([ephemeral(job=30)], [runner_pod()]) == {}
    assert reasons([ephemeral()], [runner_pod()]) == {}
    assert reasons([ephemeral(phase="Pending")], [runner_pod(phase="Pending", node="")]) == {}
    assert reasons([ephemeral(phase="")], []) == {}, "ARC has not made its pod yet"
    assert reasons([], [runner_pod("of-nobody")], []) == {}


def test_a_runner_without_status_or_taints_is_no_error() -> None:
    bare = ephemeral()
    del bare["status"]
    pod = runner_pod()
    del pod["status"]
    assert reasons([bare], [pod], [{"metadata": {"name": "gpu-1"}}], listeners={}) == {}


@pytest.mark.parametrize(("job", "found"), [(3600, {}), (3601, {"one": "it is older than 3600 s"})])
def test_the_lifetime_counts_from_the_start_of_the_job(job: float, found: dict[str, str]) -> None:
    assert reasons([ephemeral(age=90_000, job=job)], [runner_pod(age=89_000)]) == found


@pytest.mark.parametrize(("age", "found"), [(3600, {}), (3601, {"one": "it is older than 3600 s"})])
def test_without_a_job_the_lifetime_counts_from_the_creation(age: float, found: dict[str, str]) -> None:
    assert reasons([ephemeral(age=age)], [runner_pod(age=age)], limits=READY) == found


@cases("phase", ["Failed", "Outdated"])
@cases(("age", "found"), [(3600, {}), (3601, {"one": "it is older than 3600 s"})])
def test_a_failed_or_outdated_runner_is_not_done_and_only_its_age_counts(age: float, found: dict[str, str], phase: str) -> None:
    """Its set may have no listener any more: ARC deletes the listener of an outdated set."""
    ended = ephemeral(age=age, phase=phase)
    going: dict[str, Any] = {"deletionTimestamp": ago(1)}
    for listeners in (LISTENS, {}):
        assert reasons([ended], [], listeners=listeners) == found
        assert reasons([ended], [runner_pod(**going)], [node(cordoned=True)], listeners=listeners) == found
    assert reasons([ephemeral(age=age, job=age, phase=phase)], []) == found, "also with a job, whose pod is gone"


def test_a_job_whose_start_is_unknown_counts_from_the_creation_of_its_runner() -> None:
    for age, found in ((3600, {}), (3601, {"one": "it is older than 3600 s"})):
        unknown = ephemeral(age=age, job=10)
        unknown["metadata"]["managedFields"] = [{"manager": "another-listener", "time": ago(10)}]
        assert reasons([unknown], [runner_pod(age=age - 5)]) == found, "its pod is newer than the runner, as always"


def test_the_listeners_last_entry_is_the_start_of_the_job() -> None:
    again = ephemeral(age=90_000, job=3601)
    again["metadata"]["managedFields"].append({"manager": "ghalistener", "time": ago(3600)})
    assert reasons([again], [runner_pod(age=89_000)]) == {}


@pytest.mark.parametrize(("age", "found"), [(900, {}), (901, {"one": "it got no job within 900 s"})])
def test_a_runner_that_gets_no_job_is_deleted_unless_its_class_keeps_runners_ready(age: float, found: dict[str, str]) -> None:
    assert reasons([ephemeral(age=2000)], [runner_pod(age=age)]) == found
    assert reasons([ephemeral(age=2000)], [runner_pod(age=age)], limits=READY) == {}
    assert reasons([ephemeral(age=2000, job=1)], [runner_pod(age=age)]) == {}
    assert reasons([ephemeral(age=2000)], [runner_pod(age=age, phase="Pending")]) == {}, "its image may be large"


@pytest.mark.parametrize("listeners", [{}, {SPACE: NOW - 900}, {"runners-other": NOW - 86_400}])
def test_no_rule_about_runners_without_a_job_acts_while_the_listener_is_away_or_young(listeners: dict[str, float]) -> None:
    """Only the listener reports a job: GitHub may have given one to this runner."""
    old, sick = [ephemeral(age=90_000)], [node("gpu-1", QUARANTINE_TAINT.key)]
    for nodes in ([node()], [node(cordoned=True)], sick):
        assert reasons(old, [runner_pod(age=89_000)], nodes, listeners=listeners) == {}
        assert reasons(old, [runner_pod(age=89_000)], nodes, listeners={SPACE: NOW - 901}) != {}
    # What the cluster says of the pod and the node needs no listener.
    assert reasons(old, [runner_pod(deletionTimestamp=ago(1))], listeners=listeners) == {"one": "its pod is being deleted"}
    assert reasons(old, [runner_pod()], [], listeners=listeners) == {"one": "its node gpu-1 is gone"}
    assert reasons([ephemeral(age=90_000, job=4000)], [runner_pod(age=5000)], listeners=listeners) != {}


def test_a_pod_that_vanished_under_a_job_never_comes_back() -> None:
    assert reasons([ephemeral(job=30)], []) == {"one": "its pod is gone while it has a job"}


@pytest.mark.parametrize(("age", "spent"), [(31, False), (30, False), (29, True)])
def test_a_pod_that_is_newer_than_the_job_reuses_its_registration(age: float, spent: bool) -> None:
    why = "its pod is newer than its job, so it reuses a registration that is spent"
    assert reasons([ephemeral(job=30)], [runner_pod(age=age)]) == ({"one": why} if spent else {})


def test_a_pod_that_is_being_deleted_takes_its_runner_with_it() -> None:
    going: dict[str, Any] = {"deletionTimestamp": ago(1)}
    why = {"one": "its pod is being deleted"}
    assert reasons([ephemeral(job=30)], [runner_pod(**going)]) == why
    assert reasons([ephemeral()], [runner_pod(**going)]) == why, "GitHub must not send it a job now"
    assert reasons([ephemeral(job=30)], [runner_pod(phase="Failed", **going)]) == why
    assert reasons([ephemeral()], [runner_pod(phase="Failed", **going)]) == {}, "ARC tries it again, later each time"


@cases(
    ("leaving", "why"),
    [
        (node(deletionTimestamp=ago(1)), "its node gpu-1 is being deleted"),
        (
            node("gpu-1", "aws-node-termination-handler/spot-itn"),
            "its node gpu-1 has the taint aws-node-termination-handler/spot-itn",
        ),
        (node("gpu-1", "nvidia.com/gpu", "karpenter.sh/disrupted"), "its node gpu-1 has the taint karpenter.sh/disrupted"),
        (node("gpu-1", "ToBeDeletedByClusterAutoscaler"), "its node gpu-1 has the taint ToBeDeletedByClusterAutoscaler"),
        (node("another"), "its node gpu-1 is gone"),
    ],
)
def test_a_runner_on_a_node_that_goes_away_is_deleted_with_and_without_job(leaving: dict[str, Any], why: str) -> None:
    assert reasons([ephemeral(job=30)], [runner_pod()], [leaving]) == {"one": why}
    assert reasons([ephemeral()], [runner_pod()], [leaving]) == {"one": why}
    assert reasons([ephemeral(phase="Pending")], [runner_pod(phase="Pending")], [leaving]) == {"one": why}


@pytest.mark.parametrize(
    ("closed", "why"),
    [
        (node("gpu-1", "node.kubernetes.io/unschedulable", cordoned=True), "is cordoned"),
        (node("gpu-1", QUARANTINE_TAINT.key), "is in quarantine"),
        (node("gpu-1", QUARANTINE_TAINT.key, cordoned=True), "is cordoned"),
    ],
)
def test_a_runner_without_job_leaves_a_node_that_takes_none_and_a_job_goes_on(closed: dict[str, Any], why: str) -> None:
    """Without it in the count, its set would start one more GPU runner until the job ends."""
    assert reasons([ephemeral()], [runner_pod()], [closed]) == {"one": f"its node gpu-1 {why}"}
    assert reasons([ephemeral(job=30)], [runner_pod()], [closed]) == {}
    assert reasons([ephemeral(job=3601)], [runner_pod(age=4000)], [closed]) == {"one": "it is older than 3600 s"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_arc_itself_cleans_up_a_pod_that_has_ended(phase: str) -> None:
    assert reasons([ephemeral(job=30)], [runner_pod(phase=phase)], [node(cordoned=True)]) == {}


@pytest.mark.parametrize("taint", ["nvidia.com/gpu", "node.kubernetes.io/not-ready", "karpenter.sh/unregistered"])
def test_a_node_that_stays_keeps_its_runners(taint: str) -> None:
    assert reasons([ephemeral(job=30)], [runner_pod()], [node("gpu-1", taint)]) == {}


def test_nothing_is_deleted_twice_and_what_arc_has_ended_is_left_to_it() -> None:
    cordoned = [node(cordoned=True)]
    assert reasons([ephemeral(job=9000, deletionTimestamp=ago(1))], [runner_pod()], cordoned) == {}
    assert reasons([ephemeral(age=9000, phase="Succeeded")], [], cordoned) == {}


def test_each_runner_is_judged_by_its_own_pod_and_class() -> None:
    other: dict[str, Any] = {"namespace": "runners-other"}
    held = [ephemeral("a", job=30), ephemeral("a", age=50_000, **other), ephemeral("b", job=4000)]
    held.append(ephemeral("c", age=50_000, **other))
    pods = [runner_pod("a", **other, deletionTimestamp=ago(1)), runner_pod("a"), runner_pod("b", age=4100)]
    limits = LIMITS | {"runners-other": Limits(60_000)}
    assert decide(held, pods, [node()], limits, LISTENS, QUARANTINE_TAINT.key, NOW) == [
        Deletion("runners-other", "a", "uid-a", "its pod is being deleted"),
        Deletion(SPACE, "b", "uid-b", "it is older than 3600 s"),
    ]


# -- jobs in containers ------------------------------------------------------------------------------------------------

JOBS = "runners-gpu-t4-jobs"


def of_job(name: str = "one-workflow", owner: str = "one", age: float = 400, **meta: Any) -> dict[str, Any]:
    """A Secret that a job left, or the metadata of a pod."""
    labels = {"runner-pod": owner} if owner else {}
    metadata = {"namespace": JOBS, "name": name, "uid": f"job-{name}", "creationTimestamp": ago(age), "labels": labels}
    return {"metadata": metadata | meta, "data": {".dockerconfigjson": "a password"}}


def job_pod(phase: str = "Running", node: str = "gpu-1", **meta: Any) -> dict[str, Any]:
    """The pod of a job in a container."""
    return {"metadata": of_job(**meta)["metadata"], "spec": {"nodeName": node} if node else {}, "status": {"phase": phase}}


CPU_NODE = node("cpu-1", labels={"gpu-ci/pool": "system"})


def with_job(runner_changes: Any, job: dict[str, Any], *nodes: dict[str, Any], age: float = 50) -> dict[str, str]:
    """The reasons for a runner on the node cpu-1 whose job has this pod."""
    jobs = job_pods(SPACE, [kept_pod(job)])
    hosts = map(kept_node, nodes)
    pods = [kept_pod(runner_pod(node="cpu-1", age=age))]
    found = decide([kept_runner(ephemeral(**runner_changes))], pods, hosts, LIMITS, LISTENS, QUARANTINE_TAINT.key, NOW, jobs)
    return {each.name: each.reason for each in found}


SPOT = node("gpu-1", "aws-node-termination-handler/spot-itn")


@cases("job", [{"job": 30}, {}])
def test_a_spot_node_of_the_jobs_pod_that_goes_away_takes_the_runner_with_it(job: dict[str, float]) -> None:
    """With and without a report of the listener: the pod of the job shows that the runner has one."""
    assert with_job(job, job_pod(), CPU_NODE, node()) == {}
    why = {"one": "the node gpu-1 of its job has the taint aws-node-termination-handler/spot-itn"}
    assert with_job(job, job_pod(), CPU_NODE, SPOT) == why
    assert with_job(job, job_pod(), CPU_NODE) == {"one": "the node gpu-1 of its job is gone"}
    assert with_job(job, job_pod(), node()) == {"one": "its node cpu-1 is gone"}, "the runner's own node counts too"


def test_a_jobs_pod_that_waits_or_ends_is_no_reason() -> None:
    assert with_job({"job": 30}, job_pod(phase="Pending", node=""), CPU_NODE) == {}, "its node boots"
    assert with_job({"job": 30}, job_pod(phase="Succeeded"), CPU_NODE, SPOT) == {}
    assert with_job({"job": 30}, job_pod(deletionTimestamp=ago(1)), CPU_NODE, node()) == {}, "the hooks delete it at the end"
    step = job_pod(name="one-step-0a1b2c3d", node="gpu-2")
    assert with_job({"job": 30}, step, CPU_NODE) == {}, "a step ends with its own pod"


@cases("closed", [node(cordoned=True), node("gpu-1", QUARANTINE_TAINT.key)])
def test_a_job_goes_on_on_a_node_that_takes_no_other(closed: dict[str, Any]) -> None:
    assert with_job({"job": 30}, job_pod(), CPU_NODE, closed) == {}
    assert with_job({}, job_pod(), node("cpu-1", cordoned=True), closed) == {}, "not reported yet, and not idle"
    assert with_job({"job": 3601, "age": 9000}, job_pod(), CPU_NODE, closed, age=4000) == {"one": "it is older than 3600 s"}


def left(objects: list[dict[str, Any]], *pods: dict[str, Any]) -> list[str]:
    """The names of the leftovers."""
    kept = [kept_secret(found) for found in objects]
    return [each.name for each in leftovers("secret", kept, map(kept_pod, pods), NOW)]


def test_what_a_job_left_is_deleted_once_the_pod_of_its_runner_is_gone_or_has_ended() -> None:
    both = [of_job(), of_job("one-secret-0a1b2c3d")]
    assert left(both) == ["one-workflow", "one-secret-0a1b2c3d"]
    assert left(both, runner_pod("two")) == left(both)
    for phase in ("Succeeded", "Failed"):
        assert left(both, runner_pod(phase=phase)) == left(both)
    for phase in ("Pending", "Running"):
        assert left(both, runner_pod(phase=phase)) == []
    assert left(both, runner_pod(deletionTimestamp=ago(1))) == [], "its runner may still clean up"


def test_what_is_young_or_being_deleted_is_no_leftover() -> None:
    assert left([of_job(age=60)]) == []
    assert left([of_job(age=61)]) == ["one-workflow"]
    assert left([of_job(deletionTimestamp=ago(1))]) == []


def test_the_label_is_that_of_the_rest_of_the_program() -> None:
    assert set(of_job()["metadata"]["labels"]) == {RUNNER_POD_LABEL}
    assert kept_secret(of_job())["metadata"]["labels"] == {RUNNER_POD_LABEL: "one"}
    assert kept_secret(of_job()).keys() == {"metadata"}, "no password stays in memory"


# -- the program -------------------------------------------------------------------------------------------------------


def of_cluster(**changes: Any) -> Any:
    return load(config(clusters={"usw2": cluster(**changes)})).clusters["usw2"]


def objects() -> dict[str, list[dict[str, Any]]]:
    """Three hung runners and one that works, in pages of two."""
    hung = [ephemeral(name, job=90_000) for name in ("a", "b", "c")]
    pods = [runner_pod(name, age=90_001) for name in ("a", "b", "c")]
    return {
        "ephemeralrunners": [*hung, ephemeral("d", job=30)],
        "pods": [*pods, runner_pod("d"), listener()],
        "nodes": [node("x"), node("y"), node()],
    }


def of(found: dict[str, list[dict[str, Any]]]) -> Server:
    return Server(found, roles(reaper(of_cluster())))


def look(server: Server, namespaces: tuple[str, ...] = (SPACE,)) -> Reaper:
    """The reaper, after it has read what the server has. A collection that the server refuses stays empty."""
    settings = dict(reaper(of_cluster()).settings)
    settings["limits"] = dict.fromkeys(namespaces, settings["limits"][SPACE])
    made = Reaper(Api(server.url), settings)
    for each in made.collections():
        with suppress(HTTPError):
            each.follow(int)
    return made


def test_a_pass_deletes_runners_and_never_pods() -> None:
    with serving(of(objects())) as server:
        look(server).once(NOW)
    assert server.deleted == [f"{SPACE}/{name}" for name in ("a", "b", "c")]
    assert not [each for each in server.requests if each.startswith("DELETE") and "/ephemeralrunners/" not in each]


@pytest.mark.parametrize(("least", "deleted"), [({}, 1), ({"minRunners": 0}, 1), ({"minRunners": 1}, 0)])
def test_a_set_that_keeps_runners_ready_now_may_have_idle_ones(least: dict[str, int], deleted: int) -> None:
    idle = {
        "ephemeralrunners": [ephemeral(age=IDLE + 2)],
        "pods": [runner_pod(age=IDLE + 1)],
        "nodes": [node()],
        "autoscalingrunnersets": [{"metadata": {"namespace": SPACE, "name": "gpu-t4", "uid": "set"}, "spec": least}],
    }
    idle["pods"].append(listener())
    with serving(of(idle)) as server:
        look(server).once(NOW)
    assert len(server.deleted) == deleted


@cases(
    ("pod", "deleted"),
    [(listener(), 1), (listener(age=900), 0), (listener(deletionTimestamp=ago(1)), 0), (listener(space="runners-other"), 0)],
)
def test_the_listener_of_the_set_decides_whether_a_runner_is_idle(pod: dict[str, Any], deleted: int) -> None:
    found = {"ephemeralrunners": [ephemeral(age=IDLE + 2)], "pods": [runner_pod(age=IDLE + 1), pod], "nodes": [node()]}
    with serving(of(found)) as server:
        look(server).once(NOW)
    assert len(server.deleted) == deleted


def test_what_is_in_memory_deletes_nothing_that_the_api_server_says_otherwise_of() -> None:
    """Watches are late, each by another time: a pod or a node that is not in memory yet may be there."""
    with serving(of(objects())) as server:
        late = look(server)
        for space in late.spaces.values():
            space.pods.objects.clear()
        server.objects["ephemeralrunners"][:] = [ephemeral(name, job=30) for name in "abcd"]
        before = len(server.requests)
        late.once(NOW)
        assert server.deleted == []
        asked = server.requests[before:]
        late.once(NOW + 29)
        assert len(server.requests) == before + len(asked), "it asks again only after half a minute"
        kinds = [each.partition("?")[0].rpartition("/")[2] for each in asked]
        of_one = kinds[: len(kinds) // 4]
        assert of_one == ["autoscalingrunnersets", "pods", "ephemeralrunners", "pods", "nodes"], (
            "runners before their pods, and pods before their nodes"
        )
        late.once(NOW + 30)
        assert len(server.requests) > before + len(asked)


def test_a_pass_at_rest_asks_for_nothing_and_the_clock_alone_makes_a_runner_too_old() -> None:
    found = {"ephemeralrunners": [ephemeral(job=30)], "pods": [runner_pod(), listener()], "nodes": [node()]}
    with serving(of(found)) as server:
        made = look(server)
        before = len(server.requests)
        made.once(NOW + 23_370)
        assert len(server.requests) == before
        made.once(NOW + 23_371)
    assert server.deleted == [f"{SPACE}/one"]


IN_CONTAINERS = {"gpu-t4": runner(containers="job"), "other": runner(labels=["other"], containers="job")}


def left_behind() -> dict[str, list[dict[str, Any]]]:
    """The pod, the Secret and the young Secret of a runner that is gone. Beside them are those of others, or without a label."""
    alive: dict[str, Any] = {"namespace": "runners-other"}
    own: dict[str, Any] = {"namespace": "runners-other-jobs"}
    return {
        "ephemeralrunners": [],
        "nodes": [node()],
        "pods": [
            job_pod(),
            job_pod(name="b-workflow", owner="b", **own),
            runner_pod("b", **alive),
            job_pod(name="mine", owner=""),
        ],
        "secrets": [
            of_job("one-secret"),
            of_job("young", age=30),
            of_job("of-nobody", owner=""),
            of_job("b-secret", owner="b", **own),
        ],
    }


def sweeping(found: dict[str, list[dict[str, Any]]]) -> tuple[Server, dict[str, Any]]:
    sweep = reaper(of_cluster(runners=IN_CONTAINERS))
    return Server(found, roles(sweep)), dict(sweep.settings)


def filled(server: Server, settings: dict[str, Any]) -> Reaper:
    """A reaper that has read all of its collections."""
    made = Reaper(Api(server.url), settings)
    for collection in made.collections():
        collection.follow(int)
    return made


def test_a_pass_deletes_what_jobs_left_and_nothing_else() -> None:
    server, settings = sweeping(left_behind())
    with serving(server):
        made = filled(server, settings)
        made.once(NOW)
    assert server.deleted == [f"{JOBS}/one-workflow", f"{JOBS}/one-secret"]
    assert not [what for what in server.whole if what in ("list secrets", "watch secrets")], "no answer had a password"


def test_a_namespace_of_jobs_may_be_empty() -> None:
    server, settings = sweeping({"ephemeralrunners": [], "nodes": [node()], "pods": []})
    with serving(server):
        made = filled(server, settings)
        made.once(NOW)
    assert all(collection.ready for collection in made.collections())


def test_what_is_in_memory_deletes_nothing_of_a_runner_that_the_api_server_has() -> None:
    server, settings = sweeping(left_behind())
    with serving(server):
        made = filled(server, settings)
        server.objects["pods"].append(runner_pod("one"))
        made.once(NOW)
    assert server.deleted == []


@cases("refused", [("pods", SPACE), ("pods", JOBS), ("secrets", JOBS)])
def test_what_jobs_left_stays_while_the_api_server_refuses_an_answer(refused: tuple[str, str]) -> None:
    server, settings = sweeping(left_behind())
    with serving(server):
        made = filled(server, settings)
        kind, space = refused
        for role in server.roles:
            if role["metadata"].get("namespace") == space:
                role["rules"] = [rule for rule in role["rules"] if kind not in rule["resources"]]
        made.once(NOW)
        of_kind = {("pods", SPACE): [], ("pods", JOBS): [f"{JOBS}/one-secret"], ("secrets", JOBS): [f"{JOBS}/one-workflow"]}
        assert server.deleted == of_kind[refused]
        blind = Reaper(Api(server.url), settings)
        for collection in blind.collections():
            with suppress(HTTPError):
                collection.follow(int)
        server.deleted.clear()
        blind.once(NOW)
    assert server.deleted == [], "nothing is known to be gone"


def test_a_namespace_without_rights_does_not_stop_the_others() -> None:
    with serving(of(objects())) as server:
        look(server, ("runners-later", SPACE)).once(NOW)
    assert len(server.deleted) == 3


def test_without_the_nodes_a_pass_does_nothing_because_every_node_would_be_gone() -> None:
    with serving(of(objects())) as server:
        server.roles = [role for role in server.roles if role["kind"] == "Role"]
        blind = look(server)
        before = len(server.requests)
        blind.once(NOW)
    assert len(server.requests) == before


def test_a_later_runner_of_the_same_name_is_not_deleted() -> None:
    with serving(of(objects())) as server:
        assert not Api(server.url).delete(
            f"/apis/actions.github.com/v1alpha1/namespaces/{SPACE}/ephemeralrunners/a", "uid-before"
        )
        assert not Api(server.url).delete(f"/apis/actions.github.com/v1alpha1/namespaces/{SPACE}/ephemeralrunners/gone", "uid")
    assert server.deleted == []


def test_the_config_map_alone_is_a_program_that_needs_no_package(tmp_path: Path) -> None:
    *_, config_map, deployment = sweep_objects(reaper(of_cluster()), {})
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    for item in volume["configMap"]["items"]:
        path = tmp_path / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config_map["data"][item["key"]])
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    module = container["command"][container["command"].index("-m") + 1]
    assert Path(container["command"][-1]).relative_to(container["workingDir"]) == Path("settings.json")
    program = (
        f"import json, {module} as it\nmade = it.Reaper(it.Api({{url!r}}), json.load(open('settings.json')))\n"
        f"for each in made.collections(): each.follow(int)\nmade.once({NOW})\nprint(it.__file__)"
    )
    with serving(of(objects())) as server:
        # -S: without the packages of this environment.
        done = subprocess.run(
            [sys.executable, "-S", "-B", "-c", program.format(url=server.url)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
    *lines, where = done.stdout.splitlines()
    assert Path(where).is_relative_to(tmp_path), "it ran the modules of the ConfigMap, not those of the repository"
    assert json.loads(lines[0]) == {"namespace": SPACE, "runner": "a", "deleted": True, "reason": "it is older than 23400 s"}
    assert len(server.deleted) == 3


# -- the settings ------------------------------------------------------------------------------------------------------


def test_every_pod_class_has_its_limits() -> None:
    sets = {"gpu-t4": runner(maxLifetime="2h"), "warm": runner(labels=["warm"], scale={"min": 1, "max": 2})}
    made = reaper(of_cluster(runners=sets))
    assert made.settings == {
        "limits": {SPACE: {"lifetime": 7200, "idle": IDLE}, "runners-warm": {"lifetime": 23_400, "idle": IDLE}},
        "quarantine": QUARANTINE_TAINT.key,
        "nodes": "gpu-ci/pool in (t4)",
        "controller": "arc-systems",
        "jobs": {},
    }


@cases(
    ("changes", "nodes"),
    [({}, "gpu-ci/pool in (cpu,system,t4)"), ({"runnerPool": "cpu"}, "gpu-ci/pool in (cpu,t4)")],
)
def test_a_class_with_jobs_in_containers_has_a_second_namespace_and_perhaps_runners_on_the_system_pool(
    changes: dict[str, Any], nodes: str
) -> None:
    sets = {"gpu-t4": runner(containers="job", **changes), "plain": runner(labels=["plain"])}
    cpu = {"instanceTypes": ["m6i.2xlarge"], "capacity": "on-demand", "role": "burst", "nodes": {"max": 2}}
    made = reaper(of_cluster(runners=sets, pools={"t4": pool(), "cpu": cpu}))
    assert (made.settings["jobs"], made.settings["nodes"]) == ({SPACE: JOBS}, nodes)
    assert made.rules.keys() == {SPACE, JOBS, "runners-plain", "arc-systems"}


def test_launchers_of_machines_are_not_reaped() -> None:
    fleet = load(config(clusters={"sjc": oke_cluster(pools={}, runners={"standing": vm()})}))
    assert sweeps(fleet.clusters["sjc"]) == ()
