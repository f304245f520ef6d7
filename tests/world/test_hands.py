"""Pods with a program run as processes, and their pods say what the processes do."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.render.sweeps.api import Object
from gpu_ci.world.hands import PROGRAMS, PYTHON, Hands, Program
from gpu_ci.world.plane import HANDS_LABEL
from gpu_ci.world.processes import Processes
from tests.world.kubelet import Server, need_namespaces, plane, wait

ARC = "ghcr.io/actions/gha-runner-scale-set-controller"
FOREVER = "import time\nprint('up')\ntime.sleep(600)"


@pytest.mark.parametrize(
    ("image", "command", "part"),
    [
        (f"{ARC}:0.14.2@sha256:1b4c", "/manager", "arc-manager"),
        (f"{ARC}:0.14.2", "/ghalistener", "ghalistener"),
        (f"{ARC}:0.14.2", "/other", None),
        ("registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1", "./cluster-autoscaler", "cluster-autoscaler"),
        ("docker.io/library/python:3.13.5", "python3", PYTHON),
        ("docker.io/library/python", "python3", PYTHON),
        ("localhost:5000/docker.io/library/python:3", "python3", None),
        ("ghcr.io/actions/actions-runner:2.329.0", "/home/runner/run.sh", None),
    ],
)
def test_images_are_matched_by_repository_and_command(image: str, command: str, part: str | None) -> None:
    parts = [program.part for program in PROGRAMS if program.runs({"image": image, "command": [command]})]
    assert parts == ([part] if part else [])


def test_words_of_a_program_replace_those_of_the_chart() -> None:
    chart = ["--cloud-provider=aws", "--namespace=kube-system", "--node-group-auto-discovery=asg:tag=a", "--scan-interval=10s"]
    program = next(program for program in PROGRAMS if program.part == "cluster-autoscaler")
    program = replace(program, more=(*program.more, "--scan-interval=1s"))
    assert program.words(chart) == [
        "--namespace=kube-system",
        "--cloud-provider=externalgrpc",
        "--address=:8085",
        "--scan-interval=1s",
    ]


# -- processes ----------------------------------------------------------------------------------------------------------


class Kubelet:
    """The hands over a small API server."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.server, self.folder = Server(), folder
        self.hands = Hands(plane(self.server, processes), self.server.pods, [Program(PYTHON, "docker.io/library/python")])
        self.processes = processes

    def pod(self, name: str, *program: str, **spec: Any) -> Object:
        """Make a pod, and wake the hands."""
        made = self.server.pod(name, *program, **spec)
        self.wake()
        return made

    def wake(self) -> None:
        """Let the hands see a change now."""
        self.server.wakes[0].set()

    def status(self, name: str) -> Object:
        """The status of the pod now."""
        status: Object = self.server.objects[f"/api/v1/namespaces/ci/pods/{name}"]["status"]
        return status

    def state(self, name: str) -> Object:
        """What its container does."""
        state: Object = self.status(name)["containerStatuses"][0]["state"]
        return state

    def log(self, name: str) -> str:
        """What the process wrote."""
        path = self.processes.log(f"ci.{name}.main")
        return path.read_text() if path.exists() else ""

    def delete(self, name: str, grace: int) -> None:
        """Ask for the pod's end, as a client does."""
        self.server.objects[f"/api/v1/namespaces/ci/pods/{name}"]["metadata"] |= {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": grace,
        }
        self.wake()


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    need_namespaces(tmp_path)
    with Processes(tmp_path) as processes:
        kubelet = Kubelet(tmp_path, processes)
        yield kubelet
        kubelet.hands.close()
        left = [name for name in processes.memory() if name.startswith("ci.")]
        assert not left, "no process outlives the hands"
        assert not (tmp_path / "pods").exists(), "no token or secret stays"


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
def test_the_end_of_a_process_is_the_end_of_its_pod(kubelet: Kubelet, code: int, phase: str) -> None:
    kubelet.pod("once", f"import sys; sys.exit({code})")
    wait(lambda: "terminated" in kubelet.state("once"))
    assert [*kubelet.state("once")] == ["terminated"], "a container has one state"
    assert kubelet.state("once")["terminated"]["exitCode"] == code
    assert kubelet.status("once")["phase"] == phase
    conditions = {condition["type"]: condition["status"] for condition in kubelet.status("once")["conditions"]}
    assert conditions == {"Initialized": "True", "Ready": "False", "ContainersReady": "False"}


@pytest.mark.parametrize(("policy", "again"), [("Always", True), ("OnFailure", False)])
def test_a_process_that_ends_well_starts_again_as_the_policy_says(kubelet: Kubelet, policy: str, again: bool) -> None:
    kubelet.pod("app", "print('up')", restartPolicy=policy)
    wait(lambda: kubelet.log("app").count("up") > 1 if again else kubelet.status("app")["phase"] == "Succeeded")
    if again:
        status = wait(lambda: next((each for each in kubelet.status("app")["containerStatuses"] if each["restartCount"]), None))
        assert status["lastState"]["terminated"]["exitCode"] == 0
        assert kubelet.status("app")["phase"] == "Running"


def test_a_killed_process_is_seen_with_its_signal_and_a_paused_one_goes_on(kubelet: Kubelet) -> None:
    kubelet.pod("app", "import time\nfor at in range(6000):\n  print(at)\n  time.sleep(0.01)")
    wait(lambda: "9\n" in kubelet.log("app"))
    kubelet.hands.run("ci", "app").send(signal.SIGSTOP)
    wait(lambda: kubelet.log("app") == _after(kubelet, "app"))
    paused = kubelet.log("app")
    kubelet.hands.run("ci", "app").send(signal.SIGCONT)
    wait(lambda: len(kubelet.log("app")) > len(paused))
    kubelet.hands.run("ci", "app").send(signal.SIGKILL)
    wait(lambda: "terminated" in kubelet.state("app"))
    assert kubelet.state("app")["terminated"]["exitCode"] == 128 + signal.SIGKILL
    with pytest.raises(KeyError, match="no process stands for pod ci/other"):
        kubelet.hands.run("ci", "other")


def _after(kubelet: Kubelet, name: str) -> str:
    """The log after enough time for more lines of a process that runs."""
    import time

    time.sleep(0.1)
    return kubelet.log(name)


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_deleted_pod_goes_after_its_process(kubelet: Kubelet, stubborn: bool) -> None:
    handler = "signal.SIG_IGN" if stubborn else "lambda *_: (print('polite'), sys.exit(0))"
    kubelet.pod("app", f"import signal, sys, time\nsignal.signal(signal.SIGTERM, {handler})\n{FOREVER}")
    wait(lambda: "up" in kubelet.log("app"))
    kubelet.delete("app", 1 if stubborn else 60)
    wait(lambda: kubelet.server.deleted)
    (deleted,) = kubelet.server.deleted
    assert (deleted["path"], deleted["gracePeriodSeconds"]) == ("/api/v1/namespaces/ci/pods/app", 0)
    assert deleted["preconditions"] == {"uid": "uid-app"}, "a new pod may have the name already"
    assert not kubelet.processes.alive("ci.app.main")
    assert ("polite" in kubelet.log("app")) is not stubborn
    assert not (kubelet.folder / "pods" / "uid-app").exists()


def test_a_pod_that_vanishes_takes_its_process_along(kubelet: Kubelet) -> None:
    kubelet.pod("app", FOREVER)
    wait(lambda: "up" in kubelet.log("app"))
    del kubelet.server.objects["/api/v1/namespaces/ci/pods/app"]
    kubelet.wake()
    wait(lambda: not kubelet.processes.alive("ci.app.main"))


def test_a_process_has_the_environment_of_its_pod_alone(kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "of-the-caller")
    kubelet.pod(
        "app", "import os, sys; print(sorted(os.environ), sys.argv[1:])", "$(A)", container={"env": [{"name": "A", "value": "1"}]}
    )
    wait(lambda: kubelet.log("app").endswith("\n"))
    for name in ("KUBERNETES_SERVICE_HOST", "'A'", "['1']"):
        assert name in kubelet.log("app")
    assert "GITHUB_TOKEN" not in kubelet.log("app"), "ARC reads it, and it is the caller's"


def test_a_pod_waits_for_a_secret_and_stops_no_other(kubelet: Kubelet) -> None:
    source = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "late", "key": "key"}}}
    kubelet.pod("app", "import os; print(len(os.environ['A']))", container={"env": [source]})
    kubelet.pod("other", "print('up')")
    wait(lambda: "waiting" in kubelet.state("app") and "terminated" in kubelet.state("other"))
    assert kubelet.state("app")["waiting"]["reason"] == "CreateContainerConfigError"
    kubelet.server.secret("late", key="12345")
    wait(lambda: kubelet.log("app") == "5\n")


def test_a_pod_that_the_api_server_refuses_to_change_stops_no_other(kubelet: Kubelet) -> None:
    kubelet.server.refused.add("/api/v1/namespaces/ci/pods/app")
    kubelet.pod("app", FOREVER)
    kubelet.pod("other", "print('up')")
    wait(lambda: kubelet.status("other")["phase"] == "Succeeded")
    assert kubelet.log("app") == "", "kwok could remove the pod under the process"
    kubelet.server.refused.clear()
    wait(lambda: "up" in kubelet.log("app"))


def test_a_pod_that_the_node_controller_calls_unready_is_ready_again(kubelet: Kubelet) -> None:
    kubelet.pod("up", FOREVER)
    wait(lambda: kubelet.state("up")["running"]["startedAt"] > "2026-01-02")

    def ready() -> str:
        return str(next(one["status"] for one in kubelet.status("up")["conditions"] if one["type"] == "Ready"))

    assert ready() == "True"
    path = "/api/v1/namespaces/ci/pods/up"
    kubelet.server.call("PATCH", path, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    assert ready() == "False"
    kubelet.wake()
    wait(lambda: ready() == "True")


SERVER = """
import http.server, pathlib, sys

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" and pathlib.Path("/cert/key").exists() else 503)
        self.end_headers()

host, port = sys.argv[1].partition("=")[2].split(":")
http.server.HTTPServer((host, int(port)), Answers).serve_forever()
"""


def test_a_pod_is_ready_when_it_answers_and_gets_what_is_added_to_its_secret_until_then(kubelet: Kubelet) -> None:
    kubelet.server.secret("cert")
    probed = {
        "args": [SERVER, "--address=:8081"],
        "command": ["python3", "-u", "-c"],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}},
        "volumeMounts": [{"name": "cert", "mountPath": "/cert"}],
    }
    pod = kubelet.pod("app", container=probed, volumes=[{"name": "cert", "secret": {"secretName": "cert"}}])
    pod["status"]["podIP"] = "10.0.3.7"

    def ready() -> set[str]:
        return {one["status"] for one in kubelet.status("app")["conditions"] if one["type"] in ("Ready", "ContainersReady")}

    wait(lambda: ready() == {"False"})
    port = wait(lambda: kubelet.hands.run("ci", "app").ports.get(8081))
    wait(lambda: kubelet.log("app").count('"GET /readyz HTTP/1.1" 503') > 1)
    assert ready() == {"False"}, "it runs, and says that it is not ready"
    assert not kubelet.status("app")["containerStatuses"][0]["ready"]
    kubelet.server.secret("cert", key="made by the program")
    wait(lambda: ready() == {"True"})
    assert kubelet.hands.port("10.0.3.7", 8081) == port
    with pytest.raises(KeyError):
        kubelet.hands.port("10.0.3.8", 8081)
    with pytest.raises(KeyError):
        kubelet.hands.port("10.0.3.7", 8082)


def test_pods_are_marked_before_kwok_may_remove_them_and_others_are_left_alone(kubelet: Kubelet) -> None:
    kubelet.pod("app", FOREVER)
    kubelet.pod("runner", container={"image": "ghcr.io/actions/actions-runner:2.329.0"})
    pending = kubelet.server.pod("pending", "print('early')")
    pending["status"] = {"phase": "Pending"}
    wait(lambda: "up" in kubelet.log("app"))
    labels = {pod["metadata"]["name"]: pod["metadata"].get("labels") for pod in kubelet.server.values()}
    assert labels == {"app": {HANDS_LABEL: "true"}, "runner": None, "pending": None}
    assert kubelet.log("pending") == "", "kwok has not written the pod's status yet"
