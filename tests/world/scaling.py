"""A small autoscaler for the node groups of a NodeCloud. The real one needs a cloud whose groups it knows from the start."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.facts.scheduling import EKS_EFFECT, POOL_LABEL, SYSTEM_POOL, Taint
from fleet.prove.pod import Pod, pod_of
from fleet.render.sweeps.api import Api, Object
from gpu_ci.world.plane import Followed, merge, owner_of
from tests.engine.live import Live
from tests.world.nodes import GROUP_LABEL, NODE_GROUP, NodeCloud

LEAVING = "gpu-ci/leaving"
"""The taint of groups that stay until their jobs end."""
_EFFECTS = {theirs: effect for effect, theirs in EKS_EFFECT.items()}
_AGAIN, _BOUND = 5.0, 2.0
"""Seconds in which a pod gets one node. Seconds in which a pod may still come that the scheduler bound before it saw a taint."""


def takes(inputs: Mapping[str, Any], pod: Pod) -> bool:
    """Whether a node of a group with these inputs has the labels and no taint that speaks against the pod."""
    labels: Mapping[str, str] = inputs["labels"]
    taints = [Taint(taint["key"], taint["value"], _EFFECTS[taint["effect"]]) for taint in inputs.get("taints") or ()]
    terms = [term["matchExpressions"] for term in pod.terms]
    return (
        pod.selector.items() <= labels.items()
        and (not terms or any(all(labels.get(one["key"]) in one["values"] for one in term) for term in terms))
        and all(any(toleration.covers(taint) for toleration in pod.tolerations) for taint in taints)
    )


class Scaler:
    """Gives pods of runners that find no room a node, spot first, and ends nodes that had no runner for `idle` seconds.

    `astray` has the runners that came to a node after it got the taint of groups that leave.
    """

    def __init__(self, cloud: NodeCloud, api: Api, pods: Followed, nodes: Followed, idle: float) -> None:
        self.astray: set[str] = set()
        self._cloud, self._api, self._pods, self._nodes, self._idle = cloud, api, pods, nodes, idle
        self._served: dict[str, float] = {}
        self._used: dict[str, float] = {}
        self._tainted: dict[str, tuple[float, set[str]]] = {}

    def once(self) -> None:
        """One pass."""
        now, busy = time.monotonic(), dict[str, set[str]]()
        for pod in self._runners():
            busy.setdefault(pod["spec"].get("nodeName", ""), set()).add(pod["metadata"]["name"])
        for group in self.groups():
            for node in self.nodes(group):
                runners = busy.get(node, set())
                if is_leaving(group):
                    self._watch(now, node, runners)
                if runners:
                    self._used[node] = now
                elif now - self._used.setdefault(node, now) > self._idle:
                    self._end(group, node)
        for pod in self._runners():
            uid, conditions = pod["metadata"]["uid"], pod["status"].get("conditions", ())
            if now - self._served.get(uid, -_AGAIN) >= _AGAIN and any(one.get("reason") == "Unschedulable" for one in conditions):
                self._served[uid] = now
                self._serve(pod)

    def groups(self) -> list[Live]:
        """The node groups of GPU pools."""
        return self._cloud.live(NODE_GROUP, lambda group: group.inputs["labels"][POOL_LABEL] != SYSTEM_POOL)

    def nodes(self, group: Live) -> list[str]:
        """The names of a group's nodes."""
        metadata = (node["metadata"] for node in self._nodes.values())
        return [of["name"] for of in metadata if of["labels"].get(GROUP_LABEL) == group.outputs["nodeGroupName"]]

    def _runners(self) -> Iterator[Object]:
        ended = ("Succeeded", "Failed")
        owned = (pod for pod in self._pods.values() if owner_of(pod)[0] == "EphemeralRunner")
        return (pod for pod in owned if pod["status"].get("phase") not in ended)

    def _serve(self, pod: Object) -> None:
        asked = pod_of("a runner", pod)
        assert asked is not None
        sizes = {group.id: len(self.nodes(group)) for group in self.groups()}
        for group in sorted(self.groups(), key=lambda group: (group.inputs["capacityType"] != "SPOT", sizes.get(group.id, 0))):
            if takes(group.inputs, asked) and sizes.get(group.id, 0) < int(group.inputs["scalingConfig"]["maxSize"]):
                self._cloud.scale(group, sizes[group.id] + 1)
                return

    def _end(self, group: Live, node: str) -> None:
        """Cordons a node, as the autoscaler taints it, and ends it if no runner came meanwhile."""
        if len(self._cloud.nodes(group)) <= int(group.inputs["scalingConfig"]["minSize"]):
            return
        path = f"/api/v1/nodes/{node}"
        merge(self._api, path, {"spec": {"unschedulable": True}})
        if any(
            owner_of(pod)[0] == "EphemeralRunner" for pod in self._api.list(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")
        ):
            merge(self._api, path, {"spec": {"unschedulable": None}})
        else:
            self._cloud.end(group, node)
        self._used[node] = time.monotonic()

    def _watch(self, now: float, node: str, runners: set[str]) -> None:
        since, there = self._tainted.setdefault(node, (now, set()))
        if now - since < _BOUND:
            there |= runners
        self.astray |= runners - there


def is_leaving(group: Live) -> bool:
    """Whether a group stays only until its jobs end."""
    return any(taint["key"] == LEAVING for taint in group.inputs.get("taints") or ())
