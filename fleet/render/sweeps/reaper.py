"""Deletes EphemeralRunners that hang, whose pod or node goes away, or that wait on a node that takes no job. Never their pods.

A deletion ends no job: ARC 0.14.2 asks GitHub first, keeps the pod while GitHub says that its job runs, and asks again every 30
seconds (ephemeralrunner_controller.go, cleanupRunnerFromService). ARC starts no other pod for an EphemeralRunner that is being
deleted. So a runner whose pod vanishes cannot come back with a registration that is spent (actions-runner-controller#4588).
But its set no longer counts a runner that is being deleted, and starts another one (ephemeralrunnerset_controller.go,
scaleTotal). So a runner with a job on a node that merely takes no new pod is left alone.

A job in a container has a pod of its own in another namespace. GitHub's hooks delete it and its Secrets only in a clean end, and
nothing owns them. So the reaper deletes what is left there of a runner that is gone.
"""

from __future__ import annotations

import urllib.error
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import time
from types import MappingProxyType
from typing import Any, NamedTuple

from fleet.render.sweeps import api as kube
from fleet.render.sweeps.api import METADATA, Api, Collection, Object, main, picked, seconds, with_query

INTERVAL = 5
"""Seconds between two passes over what is in memory. A change starts one at once: the pods of a drain have 90 seconds."""
_GROUP = "/apis/actions.github.com/v1alpha1/namespaces/{}"
_SETS, _RUNNERS, _PODS = f"{_GROUP}/autoscalingrunnersets", f"{_GROUP}/ephemeralrunners", "/api/v1/namespaces/{}/pods"
_NODES = "/api/v1/nodes"
_SECRETS = "/api/v1/namespaces/{}/secrets"
_MANAGER = "ghalistener"
"""ARC's listener writes an EphemeralRunner once, when its job starts. The API server notes the time in `managedFields`."""
_RUNNER, _LISTENER = "runner", "listener"
"""Names of the containers (ARC, EphemeralRunnerContainerName and autoscalingListenerContainerName)."""
_LISTENER_LABEL = "app.kubernetes.io/component=runner-scale-set-listener"
_LISTENS_FOR = "actions.github.com/scale-set-namespace"
"""Labels of a listener's pod, which is in the namespace of the controller (ARC 0.14.2, constants.go and resourcebuilder.go)."""
_SETTLES = 900
"""Seconds for which a listener must have run before a runner without a job counts as idle: only the listener reports jobs. One
of its requests may take five minutes and four more attempts (actions/scaleset 0.4.0, common_client.go), and the reports that
waited come after that. It is as long as a runner may be idle."""
_TERMINAL = ("Succeeded", "Failed")
_DONE = "Succeeded"
"""The phase of an EphemeralRunner that its set deletes by itself."""
_ENDED = ("Failed", "Outdated")
"""Phases that stay, without a pod: no job starts there, and only the age counts. A set that runs deletes neither
(ephemeralrunnerset_controller.go, cleanupFinishedEphemeralRunners); `Outdated` ones go with the whole set."""
_AGAIN = 30
"""Seconds until the reaper checks a runner again that it could not delete, or did not because the API server said otherwise."""
_OWNER, _JOB = "runner-pod", "-workflow"
"""The label by which GitHub's hooks note the pod of the runner, and the end of the name of a job's pod
(runner-container-hooks v0.8.1, packages/k8s/src/hooks/constants.ts)."""
_YOUNG = 60
"""Seconds for which the reaper leaves alone what jobs have just made."""
_LEAVING = (
    "aws-node-termination-handler/",  # aws/aws-node-termination-handler 62a8761 pkg/node/node.go
    "karpenter.sh/disrupted",  # karpenter.sh 1.x, Disruption
    "ToBeDeletedByClusterAutoscaler",  # kubernetes/autoscaler utils/taints
    "node.cloudprovider.kubernetes.io/shutdown",  # kubernetes.io, Taints and Tolerations
    "node.kubernetes.io/out-of-service",  # the same
)
"""Beginnings of the keys of taints that say that a node goes away. EKS, OKE and `kubectl drain` cordon a node instead, and then
delete its pods."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An EphemeralRunner to delete, or a `pod` or `secret` that a job left, and the reason."""

    namespace: str
    name: str
    uid: str
    reason: str
    kind: str = "runner"

    @property
    def path(self) -> str:
        """The path of its collection."""
        return {"runner": _RUNNERS, "pod": _PODS, "secret": _SECRETS}[self.kind].format(self.namespace)


Nodes = Mapping[str, tuple[str, str]]
"""By the name of a node, why it goes away and why it takes no new job; empty texts if it does not."""


class Limits(NamedTuple):
    """The seconds of a runner class. `lifetime` counts from the start of the job, or from the creation of a runner without job.
    `idle` counts from the start of a runner without job; a class that keeps runners ready now has none.
    """

    lifetime: float
    idle: float | None = None


def decide(
    runners: Iterable[Object],
    pods: Iterable[Object],
    nodes: Iterable[Object],
    limits: Mapping[str, Limits],
    listeners: Mapping[str, float],
    quarantine: str,
    now: float,
    jobs: Mapping[tuple[str, str], Object] = MappingProxyType({}),
) -> list[Deletion]:
    """The EphemeralRunners to delete, in their order.

    `limits` are those of each runner class and `listeners` the times since when its listener runs, both by its namespace. A class
    whose listener does not run has none. `quarantine` is the key of the taint of a sick node. `jobs` are the pods of jobs in
    containers, by namespace and name of their runner. Times are in seconds since 1970.
    Read the runners before the pods, and the pods before the nodes: what a later list lacks is really gone.
    """
    pod_of = {_key(pod): pod for pod in pods}
    known = {node["metadata"]["name"]: (_leaving(node), _closed(node, quarantine)) for node in nodes}
    deletions = []
    for runner in runners:
        meta, phase = runner["metadata"], runner.get("status", {}).get("phase")
        if "deletionTimestamp" in meta or phase == _DONE:
            continue
        space = meta["namespace"]
        # Only the listener knows whether the runner has a job.
        reported = space in listeners and now - listeners[space] > _SETTLES
        pod, job = pod_of.get(_key(runner)), jobs.get(_key(runner))
        if reason := _reason(runner, pod, job, known, limits[space], now, reported=reported):
            deletions.append(Deletion(space, meta["name"], meta["uid"], reason))
    return deletions


def _reason(
    runner: Object, pod: Object | None, job: Object | None, nodes: Nodes, limits: Limits, now: float, *, reported: bool
) -> str:
    """Why to delete a runner, or an empty text. `reported` says whether the listener would have reported a job."""
    meta, status = runner["metadata"], runner.get("status", {})
    started = _job_start(runner) if (has_job := bool(status.get("jobId"))) else None
    # The start of a job is unknown if the listener has another name, as in other versions of ARC.
    since = seconds(meta["creationTimestamp"]) if started is None else started
    old = f"it is older than {limits.lifetime:.0f} s" if now - since > limits.lifetime else ""
    if status.get("phase") in _ENDED:
        return old
    if has_job and pod is None:
        return "its pod is gone while it has a job"
    if started is not None and pod is not None and seconds(pod["metadata"]["creationTimestamp"]) > started:
        return "its pod is newer than its job, so it reuses a registration that is spent"
    why = _ending(pod, nodes, has_job=has_job) if pod is not None else ""
    if job is not None:
        # The hooks delete the pod of a job in its clean end, so only its node counts.
        why = why or _gone(job, nodes, "the node {} of its job")
    if has_job:
        return why or old
    if job is not None or not reported:
        # It has a job that the listener has not reported yet, or it may have one.
        return why
    return why or (_waiting(pod, nodes, limits, now) if pod is not None else "") or old


def _waiting(pod: Object, nodes: Nodes, limits: Limits, now: float) -> str:
    """Why the runner of a pod need not wait for a job any longer, or an empty text."""
    node = pod["spec"].get("nodeName", "")
    if (why := nodes.get(node, ("", ""))[1]) and pod.get("status", {}).get("phase") not in _TERMINAL:
        return f"its node {node} {why}"
    running = kube.running_since(pod, _RUNNER)
    if limits.idle is not None and running is not None and now - running > limits.idle:
        return f"it got no job within {limits.idle:.0f} s"
    return ""


def _ending(pod: Object, nodes: Nodes, *, has_job: bool) -> str:
    """Why a pod is about to vanish, or an empty text.

    ARC itself deletes the failed pod of a runner without job and starts another one, later each time. That runner may stay.
    """
    if "deletionTimestamp" in pod["metadata"] and (has_job or pod.get("status", {}).get("phase") not in _TERMINAL):
        return "its pod is being deleted"
    return _gone(pod, nodes)


def _gone(pod: Object, nodes: Nodes, what: str = "its node {}") -> str:
    """Why the node of a pod that runs or starts goes away, or an empty text."""
    if not (node := pod["spec"].get("nodeName")) or pod.get("status", {}).get("phase") in _TERMINAL:
        return ""
    why, _ = nodes.get(node, ("is gone", ""))
    return f"{what.format(node)} {why}" if why else ""


def job_pods(space: str, pods: Iterable[Object]) -> dict[tuple[str, str], Object]:
    """The pods of jobs by namespace and name of their runner, of the runners in `space`."""
    return {(space, pod["metadata"]["labels"][_OWNER]): pod for pod in pods if pod["metadata"]["name"].endswith(_JOB)}


def leftovers(kind: str, objects: Iterable[Object], pods: Iterable[Object], now: float) -> list[Deletion]:
    """The pods or Secrets of jobs to delete: they are not young, and their runner has no pod, or one that has ended.

    All have the label. `pods` are those of the runners. Read them after `objects`: a runner's pod is older than what its job
    makes.
    """
    alive = {pod["metadata"]["name"] for pod in pods if pod.get("status", {}).get("phase") not in _TERMINAL}
    return [
        Deletion(meta["namespace"], meta["name"], meta["uid"], f"the pod of its runner {meta['labels'][_OWNER]} is gone", kind)
        for meta in (entry["metadata"] for entry in objects)
        if meta["labels"][_OWNER] not in alive
        and "deletionTimestamp" not in meta
        and now - seconds(meta["creationTimestamp"]) > _YOUNG
    ]


def _leaving(node: Object) -> str:
    """Why a node goes away, or an empty text."""
    if "deletionTimestamp" in node["metadata"]:
        return "is being deleted"
    marks = [key for key in _taints(node) if key.startswith(_LEAVING)]
    return f"has the taint {marks[0]}" if marks else ""


def _closed(node: Object, quarantine: str) -> str:
    """Why a node takes no new job while its jobs go on, or an empty text."""
    if node.get("spec", {}).get("unschedulable"):
        return "is cordoned"
    return "is in quarantine" if quarantine in _taints(node) else ""


def _taints(node: Object) -> list[str]:
    """The keys of a node's taints."""
    return [taint["key"] for taint in node.get("spec", {}).get("taints", ())]


def _job_start(runner: Object) -> float | None:
    """When the runner's job started, in seconds since 1970; None if no entry says so."""
    return seconds(max(times)) if (times := [entry["time"] for entry in _of_listener(runner)]) else None


def _of_listener(runner: Object) -> list[Object]:
    return [entry for entry in runner["metadata"].get("managedFields", ()) if entry.get("manager") == _MANAGER]


def _key(entry: Object) -> tuple[str, str]:
    """An EphemeralRunner and its pod have the same namespace and name."""
    return entry["metadata"]["namespace"], entry["metadata"]["name"]


# -- what stays in memory ----------------------------------------------------------------------------------------------


def kept_runner(runner: Object) -> Object:
    """What `decide` reads of an EphemeralRunner."""
    meta = picked(runner["metadata"], "namespace", "name", "uid", "creationTimestamp", "deletionTimestamp")
    meta["managedFields"] = [picked(entry, "manager", "time") for entry in _of_listener(runner)]
    return {"metadata": meta} | picked(runner, status=("phase", "jobId"))


def kept_pod(pod: Object) -> Object:
    """What `decide` reads of a runner's or a job's pod, and `listening` of a listener's."""
    part = picked(pod, spec=["nodeName"], status=["phase"]) | kept_secret(pod)
    states = [picked(state, "name", "state") for name in (_RUNNER, _LISTENER) for state in kube.containers(pod, name)]
    part["status"]["containerStatuses"] = states
    return part


def kept_secret(secret: Object) -> Object:
    """What `leftovers` reads of a Secret, or of a pod: its metadata alone."""
    meta = ("namespace", "name", "uid", "creationTimestamp", "deletionTimestamp")
    return {"metadata": picked(secret["metadata"], *meta, labels=[_LISTENS_FOR, _OWNER])}


def kept_node(node: Object) -> Object:
    """What `decide` reads of a node."""
    return picked(node, metadata=("name", "deletionTimestamp"), spec=("unschedulable", "taints"))


def kept_set(runner_set: Object) -> Object:
    """What `limits_now` reads of a runner set."""
    return picked(runner_set, metadata=("namespace", "name"), spec=["minRunners"])


def listening(pods: Iterable[Object]) -> dict[str, float]:
    """Since when the listener of each namespace runs, by the pods of listeners. Without those that do not run or are ending."""
    since_by_space = {}
    for pod in pods:
        since, space = kube.running_since(pod, _LISTENER), pod["metadata"].get("labels", {}).get(_LISTENS_FOR)
        if since is not None and space and "deletionTimestamp" not in pod["metadata"]:
            since_by_space[space] = since
    return since_by_space


def limits_now(limits: Mapping[str, float], sets: Iterable[Object]) -> Limits:
    """The limits of a class. A schedule or a person may have changed the minimum of its set: runners then wait on purpose."""
    ready = any(runner_set["spec"].get("minRunners") for runner_set in sets)
    return Limits(limits["lifetime"], None if ready else limits["idle"])


# -- the program -------------------------------------------------------------------------------------------------------


class Space(NamedTuple):
    """The collections of a runner namespace. Those of its jobs in containers are in another one, if the class has such."""

    sets: Collection
    runners: Collection
    pods: Collection
    jobs: tuple[Collection, ...] = ()
    """Pods and Secrets."""

    @property
    def all(self) -> tuple[Collection, ...]:
        """All of them."""
        return (self.sets, self.runners, self.pods, *self.jobs)


class Reaper:
    """Reaps by `settings`: limits by namespace, taint of sick nodes, selector of nodes, namespace of the controller, and the
    namespace of jobs in containers by that of their runners.

    `later` says when to check a runner again, by its uid. Nothing is read before the collections are followed.
    """

    def __init__(self, api: Api, settings: Mapping[str, Any]) -> None:
        self.api, self.settings = api, settings
        self.later: dict[str, float] = {}
        self.spaces = {space: self._space(space) for space in settings["limits"]}
        nodes = settings["nodes"]
        self.nodes = Collection(api, with_query(_NODES, labelSelector=nodes) if nodes else _NODES, kept_node)
        self.listeners = Collection(api, self._listeners(), kept_pod)

    def _listeners(self, space: str = "") -> str:
        """The path of the pods of all listeners, or of that of one namespace."""
        selector = _LISTENER_LABEL + (f",{_LISTENS_FOR}={space}" if space else "")
        return with_query(_PODS.format(self.settings["controller"]), labelSelector=selector)

    def _space(self, space: str) -> Space:
        """The collections of a namespace of runners. The Secrets of jobs come without their content."""
        kinds = ((_SETS, kept_set), (_RUNNERS, kept_runner), (_PODS, kept_pod))
        sets, runners, pods = (Collection(self.api, path.format(space), keep) for path, keep in kinds)
        if (jobs := self.settings["jobs"].get(space)) is None:
            return Space(sets, runners, pods)
        labelled, secret = (with_query(path.format(jobs), labelSelector=_OWNER) for path in (_PODS, _SECRETS))
        of_jobs = Collection(self.api, labelled, kept_pod), Collection(self.api, secret, kept_secret, accept=METADATA)
        return Space(sets, runners, pods, of_jobs)

    def collections(self) -> Iterator[Collection]:
        """All collections."""
        yield self.nodes
        yield self.listeners
        for space in self.spaces.values():
            yield from space.all

    def once(self, now: float) -> None:
        """One pass over what is in memory. A namespace that was not read yet is left out."""
        if not self.nodes.ready:
            return
        ready = {name: space for name, space in self.spaces.items() if all(collection.ready for collection in space.all)}
        limits = {name: limits_now(self.settings["limits"][name], space.sets.values()) for name, space in ready.items()}
        jobs: dict[tuple[str, str], Object] = {}
        for name, space in ready.items():
            for pods in space.jobs[:1]:
                jobs |= job_pods(name, pods.values())
        runners = [runner for space in ready.values() for runner in space.runners.values()]
        own_pods = [pod for space in ready.values() for pod in space.pods.values()]
        listeners, taint = listening(self.listeners.values()), self.settings["quarantine"]
        deletions = decide(runners, own_pods, self.nodes.values(), limits, listeners, taint, now, jobs)
        for space in ready.values():
            for kind, collection in zip(("pod", "secret"), space.jobs, strict=False):
                deletions += leftovers(kind, collection.values(), space.pods.values(), now)
        self.later = {deletion.uid: self.later.get(deletion.uid, 0) for deletion in deletions}
        for deletion in deletions:
            if now >= self.later[deletion.uid]:
                self.later[deletion.uid] = now + _AGAIN
                self._reap(deletion, now)

    def _reap(self, candidate: Deletion, now: float) -> None:
        """Delete it if the API server says the same as what is in memory. One that cannot be deleted stops no other."""
        fresh = self._fresh if candidate.kind == "runner" else self._still_left
        about = {"namespace": candidate.namespace, candidate.kind: candidate.name}
        try:
            for deletion in fresh(candidate, now):
                there = self.api.delete(f"{deletion.path}/{deletion.name}", deletion.uid)
                kube.say(**about, deleted=there, reason=deletion.reason)
        except urllib.error.HTTPError as error:
            kube.say(**about, error=f"{error.code} {error.reason}")

    def _still_left(self, candidate: Deletion, now: float) -> list[Deletion]:
        """What `leftovers` says of one pod or Secret by the API server."""
        (space,) = (space for space, jobs in self.settings["jobs"].items() if jobs == candidate.namespace)
        path = with_query(candidate.path, labelSelector=_OWNER, fieldSelector=f"metadata.name={candidate.name}")
        objects = [entry for page in self.api.pages(path, METADATA) for entry in page["items"]]
        return leftovers(candidate.kind, objects, list(self.api.list(_PODS.format(space))), now)

    def _fresh(self, candidate: Deletion, now: float) -> list[Deletion]:
        """What `decide` says of one runner by the API server. Watches may be late, each by another time."""
        space, name = candidate.namespace, {"fieldSelector": f"metadata.name={candidate.name}"}
        limits = {space: limits_now(self.settings["limits"][space], self.api.list(_SETS.format(space)))}
        listeners = listening(self.api.list(self._listeners(space)))
        runners = list(self.api.list(with_query(_RUNNERS.format(space), **name)))
        pods = list(self.api.list(with_query(_PODS.format(space), **name)))
        jobs = {}
        if of_jobs := self.settings["jobs"].get(space):
            jobs = job_pods(space, self.api.list(with_query(_PODS.format(of_jobs), labelSelector=f"{_OWNER}={candidate.name}")))
        hosts = {pod["spec"]["nodeName"] for pod in (*pods, *jobs.values()) if pod["spec"].get("nodeName")}
        nodes = [node for host in hosts for node in self.api.list(with_query(_NODES, fieldSelector=f"metadata.name={host}"))]
        return decide(runners, pods, nodes, limits, listeners, self.settings["quarantine"], now, jobs)


def start(api: Api, settings: Mapping[str, Any]) -> tuple[tuple[Collection, ...], Callable[[], None], float]:
    """Reaps by the settings of `Reaper`."""
    reaper = Reaper(api, settings)
    return tuple(reaper.collections()), lambda: reaper.once(time()), INTERVAL


if __name__ == "__main__":
    main(start)
