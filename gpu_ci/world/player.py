"""The runner's part: what the process in a runner's pod does at GitHub, and its end as kubelet writes it."""

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fleet.render.sweeps.api import Api, Collection, Object
from gpu_ci.world.plane import FAILS, LOG, now, owner_of, write_status
from gpu_ci.world.scale_sets import EndedError, Job, Runner, Service

_CONTAINER, _JIT = "runner", "ACTIONS_RUNNER_INPUT_JITCONFIG"
"""The container that is the runner, and the variable with its configuration (ARC 0.14.2, constants.go)."""


@dataclass
class _Process:
    """The runner's process in a pod. `code` is its exit code once it has ended, `written` whether the pod shows it."""

    runner: Runner | None
    job: Job | None = None
    code: int | None = None
    written: bool = False


class Player:
    """Plays the runners of all `pods` that run and belong to an EphemeralRunner. `once` is one pass, for `follow.passes`.

    `node` returns the state of the node with this name. The runners of a node that is gone are lost. On a silent one they go
    on, and their pods show their end only when the node is up again.
    """

    def __init__(
        self, api: Api, github: Service, pods: Collection, node: Callable[[str], Literal["up", "silent", "gone"]] = lambda _: "up"
    ) -> None:
        self._api, self._github, self._pods, self._node = api, github, pods, node
        self._processes: dict[str, _Process] = {}

    def once(self) -> None:
        """Start new runners, continue the others, and report those that vanished."""
        pods = {pod["metadata"]["uid"]: pod for pod in self._pods.values() if self._runs(pod)}
        for uid in self._processes.keys() - pods.keys():
            process = self._processes.pop(uid)
            if process.code is None and process.runner is not None:
                self._github.lost(process.runner)
        for uid, pod in pods.items():
            try:
                process = self._processes.get(uid) or self._start(pod)
                self._processes[uid] = process
                self._step(process)
                if process.code is not None and not process.written and self._node(pod["spec"]["nodeName"]) == "up":
                    self._write(pod, process)
            # A runner talks to GitHub, and goes on without the API server.
            except FAILS as error:
                LOG.debug("runner %s: %s", pod["metadata"]["name"], error)

    def _runs(self, pod: Object) -> bool:
        runs = owner_of(pod)[0] == "EphemeralRunner" and pod["status"].get("phase") == "Running"
        return runs and self._node(pod["spec"]["nodeName"]) != "gone"

    def _start(self, pod: Object) -> _Process:
        variables = next(one for one in pod["spec"]["containers"] if one["name"] == _CONTAINER)["env"]
        source = next(one for one in variables if one["name"] == _JIT)["valueFrom"]["secretKeyRef"]
        secret = self._api.call("GET", f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets/{source['name']}")
        try:
            return _Process(self._github.register(b64decode(secret["data"][source["key"]]).decode()))
        except EndedError as end:
            return _Process(None, code=end.code)

    def _step(self, process: _Process) -> None:
        if process.code is not None or process.runner is None:
            return
        try:
            process.job = process.job or self._github.next_job(process.runner)
        except EndedError as end:
            process.code = end.code
        # The runner ends with 0 also after a job that failed.
        if process.job is not None and self._github.clock() >= process.job.started + process.job.seconds:
            self._github.finish(process.job)
            process.code = 0

    def _write(self, pod: Object, process: _Process) -> None:
        began = {one["name"]: one["state"].get("running", {}).get("startedAt") for one in pod["status"]["containerStatuses"]}
        at, failed = now(), bool(process.code)
        ended = {"reason": "Error" if failed else "Completed", "exitCode": process.code, "finishedAt": at}
        states = {name: {"running": None, "terminated": ended | {"startedAt": start}} for name, start in began.items()}
        ends = [{"name": name, "ready": False, "started": False, "state": state} for name, state in states.items()]
        reason = {"reason": "PodFailed" if failed else "PodCompleted", "lastTransitionTime": at}
        conditions = [{"type": kind, "status": "False"} | reason for kind in ("Ready", "ContainersReady")]
        status = {"phase": "Failed" if failed else "Succeeded", "containerStatuses": ends, "conditions": conditions}
        write_status(self._api, pod, status)
        process.written = True
