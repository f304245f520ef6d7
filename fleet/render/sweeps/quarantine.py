"""The sweep that quarantines sick GPU nodes, ends quarantines, and opens the startup gate. Standard library only.

A node is sick if it has fewer GPUs than its machine type, if it rejects pods, or if its GPU condition is False. A quarantined
node takes no new pod; its running pods go on.

It watches the nodes of GPU pools and the events of rejected pods. A pass compares what is in memory and sends a request only to
change a node. Each change names the version of the node that was read, so an old picture of a node changes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from time import time
from typing import Any

from fleet.render.sweeps.api import Api, Collection, Object, main, picked, seconds, with_query

EVENTS = "/api/v1/events?fieldSelector=reason=UnexpectedAdmissionError"
NODES = "/api/v1/nodes"
_CONDITION = "AcceleratedHardwareReady"
_TOO_MANY_SHARES = "maximum request size for shared resources"
"""The device plugin's message for a pod that asks for two shares: that pod is wrong, not the node (k8s-device-plugin
internal/rm/rm.go)."""
MISSING, REJECTS, CONDITION = "gpus-missing", "rejects-pods", "gpu-error"
_NOT_READY = "not-ready"


@dataclass(frozen=True, slots=True)
class State:
    """What a node's annotation keeps. `bad` and `good` are seconds: since when the node is sick, and since when it is not, 0 if
    it is sick now. `why` is the reason, `boot` the id of the boot in which it was found.
    """

    bad: float
    good: float
    why: str
    boot: str


@dataclass(frozen=True, slots=True)
class Change:
    """New taints and annotation of a node. `version` is the one that was read: a patch of a newer node fails. `said` is why."""

    node: str
    version: str
    taints: Sequence[Object]
    state: State | None
    said: str


def decide(settings: Mapping[str, Any], nodes: Iterable[Object], events: Iterable[Object], now: float) -> list[Change]:
    """The changes that nodes need at `now`, in seconds since 1970. `events` are of rejected pods. Other nodes stay as they are.

    In each pool the share `maxShare` may be in quarantine, rounded up to whole nodes, and at least one. The nodes that are sick
    longest go first.
    """
    rejected = _rejections(events, now - settings["rejectedWithin"])
    pools = settings["pools"].values()
    # The cluster may have thousands of other nodes.
    pool_nodes = [node for node in nodes if any(_in(pool, node) for pool in pools)]
    changes: list[Change] = []
    for pool in pools:
        members = [node for node in pool_nodes if _in(pool, node)]
        judged = [(node, *_state(settings, pool, node, rejected, now)) for node in members]
        judged.sort(key=lambda judgement: (judgement[1].bad if judgement[1] else now, judgement[0]["metadata"]["name"]))
        stay = {node["metadata"]["name"] for node, state, _ in judged if state and _tainted(node, settings["quarantine"])}
        for node, state, whole in judged:
            name, note = node["metadata"]["name"], ""
            if _confirmed(settings, state, now) and _ready(node) and name not in stay:
                if len(stay) < max(1, math.ceil(round(settings["maxShare"] * len(members), 6))):
                    stay.add(name)
                else:
                    note = "; no room in quarantine"
            if (change := _change(settings, node, state, whole, note, quarantine=name in stay)) is not None:
                changes.append(change)
    return changes


def _in(pool: Mapping[str, Any], node: Object) -> bool:
    return bool(pool["selector"].items() <= node["metadata"].get("labels", {}).items())


def _state(
    settings: Mapping[str, Any], pool: Mapping[str, Any], node: Object, rejected: Mapping[str, Sequence[float]], now: float
) -> tuple[State | None, bool]:
    """The state of a node after this look, and whether it may open its gate. None for a node that is healthy."""
    boot = node["status"].get("nodeInfo", {}).get("bootID", "")
    old = _annotated(settings, node)
    quarantined = _tainted(node, settings["quarantine"])
    if old is None and quarantined:
        old = State(now, 0, MISSING, boot)
    why = _why(settings, pool, node, rejected, now)
    if why == "" and quarantined and old is not None and old.why == REJECTS and old.boot == boot:
        # No pod is sent there any more, so nothing can show that the node is healthy again, except a new boot.
        why = REJECTS
    whole = _count(node, pool["resource"]) >= pool["units"] and why == ""
    if why == _NOT_READY:
        # Kubernetes itself keeps pods off, and the node reports nothing.
        return (replace(old, good=0) if old is not None else None), False
    if why:
        # A second reason replaces the first, but rejected pods stay the reason until the next boot.
        reason = old.why if old is not None and old.why == REJECTS and old.boot == boot else why
        return State(old.bad if old is not None else now, 0, reason, boot), whole
    if old is None:
        return None, whole
    if old.good and now - old.good >= settings["liftAfter"]:
        return None, whole
    return replace(old, good=old.good or now), whole


def _why(
    settings: Mapping[str, Any], pool: Mapping[str, Any], node: Object, rejected: Mapping[str, Sequence[float]], now: float
) -> str:
    """Why a node is sick now; empty if it is not, or if it still starts."""
    conditions = {condition["type"]: condition for condition in node["status"].get("conditions", [])}
    if not _ready(node):
        return _NOT_READY
    # Before the kubelet became ready it was another boot, and a node that a person has just rebooted must not stay in quarantine.
    since = conditions["Ready"].get("lastTransitionTime")
    times = rejected.get(node["metadata"]["name"], ())
    if sum(since is None or moment >= seconds(since) for moment in times) >= settings["rejectedPods"]:
        return REJECTS
    gpu = conditions.get(_CONDITION, {})
    if gpu.get("status") == "False" and gpu.get("reason") not in settings["healthyReasons"]:
        return CONDITION
    # Its quarantine begins `missingFor` after this look, so a new node has `startWithin` in all.
    starts = now - seconds(node["metadata"]["creationTimestamp"]) < settings["startWithin"] - settings["missingFor"]
    return MISSING if _count(node, pool["resource"]) < pool["units"] and not starts else ""


def _confirmed(settings: Mapping[str, Any], state: State | None, now: float) -> bool:
    """Whether a sick node is quarantined now. A plugin that restarts looks like lost GPUs for a while."""
    if state is None or state.good:
        return False
    return state.why != MISSING or now - state.bad >= settings["missingFor"]


def _change(
    settings: Mapping[str, Any], node: Object, state: State | None, whole: bool, more: str, *, quarantine: bool
) -> Change | None:
    """The change from what the node has to what it must have; None if it has that. `more` is the end of what the log says."""
    keys = {settings["quarantine"]} | ({settings["gate"]} if quarantine or whole else set())
    taints: list[Object] = [taint for taint in _taints(node) if taint["key"] not in keys]
    if quarantine and state is not None:
        taints.append({"key": settings["quarantine"], "value": state.why, "effect": "NoSchedule"})
    is_same = sorted(map(str, map(_plain, taints))) == sorted(map(str, map(_plain, _taints(node))))
    if is_same and state == _annotated(settings, node):
        return None
    said = f"quarantined: {state.why}" if quarantine and state is not None else f"watched: {state.why}" if state else "healthy"
    return Change(node["metadata"]["name"], node["metadata"].get("resourceVersion", ""), taints, state, said + more)


def _rejections(events: Iterable[Object], since: float) -> dict[str, list[float]]:
    """When each node rejected pods since then, for each pod the last time."""
    pods: dict[str, dict[str, float]] = {}
    for event in events:
        when = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
        host = event.get("source", {}).get("host") or event.get("reportingInstance", "")
        if seconds(when) >= since and _TOO_MANY_SHARES not in event.get("message", ""):
            of_host = pods.setdefault(host, {})
            uid = event["involvedObject"].get("uid", "")
            of_host[uid] = max(of_host.get(uid, 0), seconds(when))
    return {host: list(times.values()) for host, times in pods.items()}


def _ready(node: Object) -> bool:
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in node["status"].get("conditions", []))


def _annotated(settings: Mapping[str, Any], node: Object) -> State | None:
    text = node["metadata"].get("annotations", {}).get(settings["annotation"])
    try:
        state = json.loads(text or "null")
        return None if state is None else State(float(state["bad"]), float(state["good"]), str(state["why"]), str(state["boot"]))
    except (KeyError, TypeError, ValueError):  # somebody else wrote it
        return None


def _taints(node: Object) -> list[Object]:
    return list(node.get("spec", {}).get("taints", []))


def _plain(taint: Object) -> list[str]:
    return [taint["key"], taint.get("value", ""), taint["effect"]]


def _tainted(node: Object, key: str) -> bool:
    return any(taint["key"] == key for taint in _taints(node))


def _count(node: Object, resource: str) -> int:
    return int(node["status"].get("allocatable", {}).get(resource, "0"))


def kept_node(settings: Mapping[str, Any], node: Object) -> Object:
    """What `decide` reads of a node."""
    status, pools = node.get("status", {}), settings["pools"].values()
    labels = {key for pool in pools for key in pool["selector"]}
    conditions = [
        picked(condition, "type", "status", "reason", "lastTransitionTime")
        for condition in status.get("conditions", ())
        if condition["type"] in ("Ready", _CONDITION)
    ]
    resources = {pool["resource"] for pool in pools}
    return {
        "metadata": picked(node["metadata"], "name", "creationTimestamp", labels=labels, annotations=[settings["annotation"]]),
        "spec": picked(node.get("spec", {}), "taints"),
        "status": picked(status, allocatable=resources, nodeInfo=["bootID"]) | {"conditions": conditions},
    }


def kept_event(event: Object) -> Object:
    """What `decide` reads of an event."""
    meta = ("namespace", "name", "creationTimestamp")
    times = ("lastTimestamp", "eventTime", "reportingInstance", "message")
    return picked(event, *times, metadata=meta, source=["host"], involvedObject=["uid"])


def once(api: Api, settings: Mapping[str, Any], nodes: Iterable[Object], events: Iterable[Object], now: float) -> None:
    """One pass over the nodes and events. A node that cannot be changed is logged and does not stop the others.

    409 says that the node changed since it was read. The next pass sees it.
    """
    for change in decide(settings, nodes, events, now):
        text = None if change.state is None else json.dumps(asdict(change.state))
        metadata = {"resourceVersion": change.version, "annotations": {settings["annotation"]: text}}
        patch = {"metadata": metadata, "spec": {"taints": list(change.taints)}}
        api.patch(f"{NODES}/{change.node}", patch, {"node": change.node}, {"said": change.said})


def watched(api: Api, settings: Mapping[str, Any]) -> tuple[Collection, Collection]:
    """The nodes of the pools, and the events."""
    path = with_query(NODES, labelSelector=settings["nodes"]) if settings["nodes"] else NODES
    return Collection(api, path, lambda node: kept_node(settings, node)), Collection(api, EVENTS, kept_event, marked=False)


def start(api: Api, settings: Mapping[str, Any]) -> tuple[tuple[Collection, ...], Callable[[], None], float]:
    """Checks the nodes once the nodes and the events were read."""
    nodes, events = watched(api, settings)

    def look() -> None:
        if nodes.ready and events.ready:
            once(api, settings, nodes.values(), events.values(), time())

    return (nodes, events), look, settings["every"]


if __name__ == "__main__":
    main(start)
