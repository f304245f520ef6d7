"""The player does in a pod what a runner does, and ends the pod as kubelet would."""

from __future__ import annotations

import urllib.error
from base64 import b64encode
from email.message import Message
from typing import Any

import pytest

from fleet.render.sweeps.api import Api, Collection, Object
from gpu_ci.world.run import Player
from gpu_ci.world.scale_sets import Job, ScaleSet, Service

Patch = tuple[str, Object]


class Server(Api):
    """An API server with the Secrets of runners. It notes the patches that it gets, and `tells` the new phase at once."""

    def __init__(self, pods: dict[tuple[str, str], Object]) -> None:
        super().__init__("http://127.0.0.1:1")
        self.secrets: dict[str, str] = {}
        self.patches: list[Patch] = []
        self.refuses = 0
        self.tells = True
        self.down = False
        self._pods = pods

    def call(self, method: str, path: str, body: Object | None = None, kind: str = "", accept: str = "") -> Object:
        name = path.split("/")[6]
        if self.down:
            raise ConnectionRefusedError(path)
        if self.refuses or (method == "GET" and name not in self.secrets):
            self.refuses = max(0, self.refuses - 1)
            raise urllib.error.HTTPError(path, 503 if method == "PATCH" else 404, "", Message(), None)
        if method == "GET":
            return {"data": {"jitToken": b64encode(self.secrets[name].encode()).decode()}}
        assert body is not None
        assert (method, kind) == ("PATCH", "application/strategic-merge-patch+json")
        self.patches.append((path, body["status"]))
        if self.tells:
            self._pods["runners", name]["status"]["phase"] = body["status"]["phase"]
        return {}


class World:
    """GitHub with a set, pods, nodes and a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_790_000_000.0
        self.github = Service(lambda: self.now)
        self.set = ScaleSet(1, "t4", 1, ["t4"])
        self.pods = Collection(Api("http://127.0.0.1:1"), "/api/v1/pods", lambda pod: pod)
        self.api = Server(self.pods.objects)
        self.nodes: dict[str, Any] = {}
        self.player = Player(self.api, self.github, self.pods, lambda name: self.nodes.get(name, "up"))

    def pod(self, name: str, owner: str = "EphemeralRunner", phase: str = "Running") -> Object:
        """A pod as ARC makes it and kwok runs it."""
        source = {"secretKeyRef": {"name": name, "key": "jitToken"}}
        variables = [{"name": "OTHER", "value": "1"}, {"name": "ACTIONS_RUNNER_INPUT_JITCONFIG", "valueFrom": source}]
        status = [{"name": one, "state": {"running": {"startedAt": "2026-11-28T01:00:00Z"}}} for one in ("runner", "sidecar")]
        pod = {
            "metadata": {
                "name": name,
                "namespace": "runners",
                "uid": f"uid-{name}",
                "ownerReferences": [{"kind": owner, "name": name, "controller": True}],
            },
            "spec": {"nodeName": f"node-{name}", "containers": [{"name": "sidecar"}, {"name": "runner", "env": variables}]},
            "status": {"phase": phase, "containerStatuses": status},
        }
        self.pods.objects["runners", name] = pod
        return pod

    def runner(self, name: str) -> Object:
        """A pod with its registration at GitHub."""
        self.api.secrets[name] = self.github.generate_jit(self.set, name).jit
        return self.pod(name)

    def later(self, seconds: float) -> None:
        """Time passes, then the player has its turn."""
        self.now += seconds
        self.github.tick()
        self.player.once()


@pytest.fixture
def world() -> World:
    return World()


def ends(world: World) -> list[tuple[str, int]]:
    """The phase and the exit code of the runner that each patch has."""
    return [
        (status["phase"], status["containerStatuses"][0]["state"]["terminated"]["exitCode"]) for _, status in world.api.patches
    ]


def running(world: World, seconds: float = 5) -> Job:
    """A job that runs on a runner."""
    job = world.github.queue(["t4"], seconds=seconds)
    world.runner("r1")
    world.player.once()
    assert job.state == "running"
    return job


def test_a_runner_takes_a_job_runs_it_for_its_seconds_and_ends_with_zero(world: World) -> None:
    job = running(world)
    world.later(4.9)
    assert (job.state, world.api.patches) == ("running", [])
    world.later(0.1)
    assert (job.state, job.result, job.runner and job.runner.name) == ("completed", "succeeded", "r1")
    [(path, status)] = world.api.patches
    assert path == "/api/v1/namespaces/runners/pods/r1/status"
    assert status["phase"] == "Succeeded"
    assert [(one["name"], one["state"]["running"]) for one in status["containerStatuses"]] == [
        ("runner", None),
        ("sidecar", None),
    ]
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["startedAt"]) == (0, "Completed", "2026-11-28T01:00:00Z")
    assert {(one["type"], one["status"], one["reason"]) for one in status["conditions"]} == {
        ("Ready", "False", "PodCompleted"),
        ("ContainersReady", "False", "PodCompleted"),
    }
    world.later(100)
    assert len(world.api.patches) == 1, "a pod ends once"


def test_a_pod_ends_once_also_if_the_watch_is_late(world: World) -> None:
    world.api.tells = False
    running(world)
    for _ in range(3):
        world.later(5)
    assert len(world.api.patches) == 1


def test_a_runner_without_a_job_waits(world: World) -> None:
    world.runner("r1")
    for _ in range(5):
        world.later(3600)
    assert world.api.patches == []
    job = world.github.queue(["t4"])
    world.player.once()
    assert job.state == "running"


def test_a_runner_that_is_too_old_ends_with_seven(world: World) -> None:
    world.github.outdated = 1
    world.runner("r1")
    world.player.once()
    assert ends(world) == [("Failed", 7)]
    assert world.api.patches[0][1]["conditions"][0]["reason"] == "PodFailed"


def test_a_runner_that_github_has_removed_ends_with_zero(world: World) -> None:
    world.runner("r1")
    world.player.once()
    world.github.remove_runner(next(iter(world.github.runners)))
    world.player.once()
    assert ends(world) == [("Succeeded", 0)]


@pytest.mark.parametrize("how", ["pod", "node"])
def test_a_runner_that_vanishes_loses_its_job_after_the_lease(world: World, how: str) -> None:
    job = running(world)
    if how == "pod":
        del world.pods.objects["runners", "r1"]
    else:
        world.nodes["node-r1"] = "gone"
    world.later(6)
    assert (job.state, world.api.patches) == ("running", [])
    world.later(world.github.lost_after)
    assert (job.state, job.result) == ("completed", "failed")
    assert world.api.patches == []


def test_a_runner_on_a_silent_node_goes_on_and_its_end_shows_later(world: World) -> None:
    job = running(world)
    world.nodes["node-r1"] = "silent"
    world.later(5)
    assert (job.result, world.api.patches) == ("succeeded", [])
    world.nodes.clear()
    world.later(1)
    assert ends(world) == [("Succeeded", 0)]


@pytest.mark.parametrize(
    ("owner", "phase"), [("Job", "Running"), ("EphemeralRunner", "Pending"), ("EphemeralRunner", "Succeeded")]
)
def test_other_pods_are_none_of_its_business(world: World, owner: str, phase: str) -> None:
    world.api.secrets["other"] = world.github.generate_jit(world.set, "other").jit
    world.pod("other", owner, phase)
    world.player.once()
    assert not any(runner.online for runner in world.github.runners.values())


def test_a_refused_request_is_made_again_and_stops_no_other_runner(world: World) -> None:
    world.pod("without-secret")
    job = running(world, seconds=1)
    world.api.refuses = 2
    world.later(1)
    assert (job.state, world.api.patches) == ("completed", [])
    world.later(1)
    assert ends(world) == [("Succeeded", 0)]


def test_jobs_end_while_the_api_server_is_down_and_the_pods_show_it_later(world: World) -> None:
    jobs = [world.github.queue(["t4"], seconds=1), world.github.queue(["t4"], seconds=2)]
    world.runner("r1")
    world.runner("r2")
    world.player.once()
    world.api.down = True
    world.later(1)
    world.later(1)
    assert [(job.result, job.ended - job.started) for job in jobs] == [("succeeded", 1), ("succeeded", 2)]
    world.api.down = False
    world.later(1)
    assert ends(world) == [("Succeeded", 0)] * 2


def test_jobs_of_many_runners_each_end_once(world: World) -> None:
    jobs = [world.github.queue(["t4"], seconds=1 + number % 3) for number in range(30)]
    for number in range(30):
        world.runner(f"r{number}")
    for _ in range(6):
        world.later(1)
    assert {job.result for job in jobs} == {"succeeded"}
    assert len({path for path, _ in world.api.patches}) == len(world.api.patches) == len({job.runner for job in jobs}) == 30
