"""Deletes EphemeralRunners that hang, whose pod or node goes away, or that wait on a sick node. It never deletes a pod.

A deletion ends no job: ARC 0.14.2 asks GitHub first, keeps the pod while GitHub says that its job runs, and asks again every 30
seconds (ephemeralrunner_controller.go, cleanupRunnerFromService). ARC starts no other pod for an EphemeralRunner that is being
deleted. So a runner whose pod vanishes cannot come back with a registration that is spent (actions-runner-controller#4588).
"""

from __future__ import annotations

import json
import sys
import urllib.error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

from fleet.render.sweeps.api import Api, Object, in_cluster, loop, say, seconds

INTERVAL = 5
"""Seconds between two passes. A spot node has two minutes, and the pods of a drain get less."""
RUNNER_GROUP = "apis/actions.github.com/v1alpha1"
_LISTENER = "ghalistener"
"""ARC's listener writes an EphemeralRunner once, when its job starts. The API server notes the time in `managedFields`."""
_RUNNER = "runner"
"""Name of the runner's container (ARC, EphemeralRunnerContainerName)."""
_TERMINAL = ("Succeeded", "Failed")
_DONE = ("Succeeded", "Outdated")
"""Phases of an EphemeralRunner that its set cleans up by itself. `Failed` stays and holds a place in the set."""
_LEAVING = (
    "aws-node-termination-handler/",  # aws/aws-node-termination-handler 62a8761 pkg/node/node.go
    "karpenter.sh/disrupted",  # karpenter.sh 1.x, Disruption
    "ToBeDeletedByClusterAutoscaler",  # kubernetes/autoscaler utils/taints
    "node.cloudprovider.kubernetes.io/shutdown",  # kubernetes.io, Taints and Tolerations
    "node.kubernetes.io/out-of-service",  # the same
)
"""Beginnings of the keys of taints that say that a node goes away. EKS, OKE and `kubectl drain` cordon a node instead."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An EphemeralRunner to delete, and the reason."""

    namespace: str
    name: str
    uid: str
    reason: str


def decide(
    runners: Iterable[Object],
    pods: Iterable[Object],
    nodes: Iterable[Object],
    limits: Mapping[str, Mapping[str, int]],
    quarantine: str,
    now: float,
) -> list[Deletion]:
    """The EphemeralRunners to delete, in their order.

    `limits` are the seconds of each runner class, by its namespace: `lifetime` counts from the start of the job, or from the
    creation of a runner without job. `idle` counts from the start of a runner without job; a class that keeps runners ready now
    has none. `quarantine` is the key of the taint of a sick node: its jobs go on, and GitHub must send it no other. `now` is in
    seconds since 1970. Read the runners before the pods, and the pods before the nodes: what a later list
    lacks is really gone.
    """
    found = {_key(pod): pod for pod in pods}
    leaving, closed = {}, {}
    for node in nodes:
        name = node["metadata"]["name"]
        leaving[name] = _leaving(node)
        closed[name] = leaving[name] or ("is in quarantine" if quarantine in _taints(node) else "")
    made = []
    for runner in runners:
        meta, phase = runner["metadata"], runner.get("status", {}).get("phase")
        if "deletionTimestamp" in meta or phase in _DONE:
            continue
        reason = _reason(runner, found.get(_key(runner)), leaving, closed, limits[meta["namespace"]], now)
        if reason:
            made.append(Deletion(meta["namespace"], meta["name"], meta["uid"], reason))
    return made


def _reason(
    runner: Object,
    pod: Object | None,
    leaving: Mapping[str, str],
    closed: Mapping[str, str],
    limits: Mapping[str, int],
    now: float,
) -> str:
    """Why to delete a runner, or an empty text.

    `leaving` has each node with the reason why it goes away, if it does, and `closed` with the reason why it takes no new job.
    """
    meta = runner["metadata"]
    has_job = bool(runner.get("status", {}).get("jobId"))
    started = _job_start(runner) if has_job else None
    if has_job and pod is None:
        return "its pod is gone while it has a job"
    if started is not None and pod is not None and seconds(pod["metadata"]["creationTimestamp"]) > started:
        return "its pod is newer than its job, so it reuses a registration that is spent"
    if pod is not None and (why := _ending(pod, leaving if has_job else closed, has_job=has_job)):
        return why
    if not has_job and pod is not None and "idle" in limits:
        running = _running_since(pod)
        if running is not None and now - running > limits["idle"]:
            return f"it got no job within {limits['idle']} s"
    # The start of a job is unknown if the listener has another name, as in other versions of ARC.
    since = seconds(meta["creationTimestamp"]) if started is None else started
    if now - since > limits["lifetime"]:
        return f"it is older than {limits['lifetime']} s"
    return ""


def _ending(pod: Object, leaving: Mapping[str, str], *, has_job: bool) -> str:
    """Why a pod is about to vanish, or an empty text.

    ARC itself deletes the failed pod of a runner without job and starts another one, later each time. That runner may stay.
    """
    over = pod.get("status", {}).get("phase") in _TERMINAL
    if "deletionTimestamp" in pod["metadata"] and (has_job or not over):
        return "its pod is being deleted"
    node = pod["spec"].get("nodeName")
    if not node or over:
        return ""
    why = leaving.get(node, "is gone")
    return f"its node {node} {why}" if why else ""


def _leaving(node: Object) -> str:
    """Why a node goes away, or an empty text."""
    if "deletionTimestamp" in node["metadata"]:
        return "is being deleted"
    if marks := [key for key in _taints(node) if key.startswith(_LEAVING)]:
        return f"has the taint {marks[0]}"
    return "is cordoned" if node.get("spec", {}).get("unschedulable") else ""


def _taints(node: Object) -> list[str]:
    """The keys of a node's taints."""
    return [taint["key"] for taint in node.get("spec", {}).get("taints", ())]


def _job_start(runner: Object) -> float | None:
    """When the runner's job started, in seconds since 1970; None if no entry says so."""
    times = [each["time"] for each in runner["metadata"].get("managedFields", ()) if each.get("manager") == _LISTENER]
    return seconds(max(times)) if times else None


def _running_since(pod: Object) -> float | None:
    states = (each["state"] for each in pod.get("status", {}).get("containerStatuses", ()) if each["name"] == _RUNNER)
    return next((seconds(state["running"]["startedAt"]) for state in states if "running" in state), None)


def _key(found: Object) -> tuple[str, str]:
    """An EphemeralRunner and its pod have the same namespace and name."""
    return found["metadata"]["namespace"], found["metadata"]["name"]


def once(api: Api, settings: Mapping[str, Any], now: float) -> None:
    """One pass. A namespace that cannot be read, or a runner that cannot be deleted, is logged and does not stop the others."""
    runners: list[Object] = []
    pods: list[Object] = []
    own: dict[str, Mapping[str, int]] = {}
    for namespace, held in settings["limits"].items():
        try:
            sets = list(api.list(f"/{RUNNER_GROUP}/namespaces/{namespace}/autoscalingrunnersets"))
            more = list(api.list(f"/{RUNNER_GROUP}/namespaces/{namespace}/ephemeralrunners"))
            pods += api.list(f"/api/v1/namespaces/{namespace}/pods")
            runners += more
        except urllib.error.HTTPError as error:
            say(namespace=namespace, error=f"{error.code} {error.reason}")
        else:
            # A schedule or a person may have changed the minimum of the set.
            ready = any(each["spec"].get("minRunners") for each in sets)
            own[namespace] = {key: value for key, value in held.items() if not (ready and key == "idle")}
    for each in decide(runners, pods, api.list("/api/v1/nodes"), own, settings["quarantine"], now):
        try:
            there = api.delete(f"/{RUNNER_GROUP}/namespaces/{each.namespace}/ephemeralrunners/{each.name}", each.uid)
        except urllib.error.HTTPError as error:
            say(namespace=each.namespace, runner=each.name, error=f"{error.code} {error.reason}")
        else:
            say(namespace=each.namespace, runner=each.name, deleted=there, reason=each.reason)


def main(settings: Path) -> None:
    """Reap until the program is stopped. `settings` is a JSON file with the limits of each class and the taint of sick nodes."""
    held: dict[str, Any] = json.loads(settings.read_text(encoding="utf-8"))
    api = in_cluster()
    loop(lambda: once(api, held, time()), INTERVAL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
