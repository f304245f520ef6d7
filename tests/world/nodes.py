"""A simulated AWS whose managed node groups have nodes in a world: started, rolled, drained and deleted as EKS does.

Facts: Amazon EKS user guide, "Understand each phase of node updates" (a new node is ready before an old one is drained, unless
the strategy is MINIMAL; a pod that cannot be evicted for 15 minutes fails the update, PodEvictionFailure) and "Delete a managed
node group" (its nodes are drained first).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError

from fleet.facts import hardware
from fleet.facts.offer import allocatable
from fleet.facts.scheduling import EKS_EFFECT
from fleet.render.sweeps.api import Object
from gpu_ci.world.follow import delete, owner_of
from gpu_ci.world.plane import FAKE_NODE, Plane
from tests.engine.live import Cloud, Live, RefusedError
from tests.engine.operations import ROLLS

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
GROUP_LABEL = "eks.amazonaws.com/nodegroup"
_EFFECTS = {theirs: effect.value for effect, theirs in EKS_EFFECT.items()}
_DISK = 100 * 1024
"""MiB of a root disk, which no pod here asks for."""
_INFO = {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.0"}
_MERGE = "application/merge-patch+json"


class NodeCloud(Cloud):
    """A cloud whose node groups have nodes. `patience`: seconds for which a pod may refuse to go."""

    def __init__(self, plane: Plane, patience: float = 900) -> None:
        super().__init__()
        self.kubeconfig = plane.kubeconfig().read_text(encoding="utf-8")
        self.patience = patience
        self._plane, self._api = plane, plane.api
        self._numbers = itertools.count(1)

    def create(self, kind: str, urn: str, inputs: Mapping[str, Any], scope: str) -> Live:
        """As a Cloud. A node group is there when its nodes are ready."""
        made = super().create(kind, urn, inputs, scope)
        if kind == NODE_GROUP:
            self._start(made, int(inputs["scalingConfig"]["desiredSize"]))
        return made

    def update(self, live: Live, inputs: Mapping[str, Any]) -> None:
        """As a Cloud. Raises RefusedError also if a pod does not leave a node that is replaced."""
        before = live.inputs
        super().update(live, inputs)
        if live.type != NODE_GROUP:
            return
        if any(_at(before, path) != _at(inputs, path) for path in ROLLS):
            self._roll(live)
        sizes, nodes = inputs["scalingConfig"], self.nodes(live)
        self._start(live, int(sizes["minSize"]) - len(nodes))
        for node in nodes[int(sizes["maxSize"]) :]:
            self._end(node)

    def remove(self, live: Live) -> None:
        """As a Cloud. Pods that do not leave a node group in time end with it."""
        if live.type == NODE_GROUP:
            for node in self.nodes(live):
                self._end(node)
        super().remove(live)

    def nodes(self, group: Live) -> list[str]:
        """The names of a group's nodes, the oldest first."""
        found = self._api.list(f"/api/v1/nodes?labelSelector={GROUP_LABEL}%3D{_name(group)}")
        return [each["metadata"]["name"] for each in sorted(found, key=lambda node: node["metadata"]["creationTimestamp"])]

    def _roll(self, group: Live) -> None:
        is_minimal = group.inputs.get("updateConfig", {}).get("updateStrategy") == "MINIMAL"
        for node in self.nodes(group):
            if not is_minimal:
                self._start(group, 1)
            if (pod := self._drain(node)) is not None:
                raise RefusedError(f"PodEvictionFailure: Reached max retries while trying to evict pods from nodes: {pod}")
            self._end(node)
            if is_minimal:
                self._start(group, 1)

    def _start(self, group: Live, count: int) -> None:
        names = []
        for _ in range(count):
            made = self._api.call("POST", "/api/v1/nodes", self._node(group))
            names.append(made["metadata"]["name"])
        for name in names:
            self._plane.wait(lambda name=name: _is_ready(self._api.call("GET", f"/api/v1/nodes/{name}")), f"the node {name}")

    def _end(self, node: str) -> None:
        self._drain(node)
        delete(self._api, f"/api/v1/nodes/{node}")
        # Those of DaemonSets end with the machine, and none comes again on a node that is gone.
        for pod in self._pods(node):
            delete(self._api, _path(pod), gracePeriodSeconds=0)

    def _drain(self, node: str) -> str | None:
        """Cordons a node and evicts its pods, but those of DaemonSets. A pod that does not go in time, None if all have gone."""
        self._api.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}, _MERGE)
        end = time.monotonic() + self.patience
        while pods := [pod for pod in self._pods(node) if not _is_of_daemonset(pod)]:
            if time.monotonic() > end:
                return f"{pods[0]['metadata']['namespace']}/{pods[0]['metadata']['name']}"
            for pod in pods:
                self._evict(pod)
            time.sleep(0.2)
        return None

    def _evict(self, pod: Object) -> None:
        name = {key: pod["metadata"][key] for key in ("name", "namespace")}
        try:
            self._api.call("POST", f"{_path(pod)}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name})
        except HTTPError as error:
            if error.code not in (HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS):
                raise

    def _pods(self, node: str) -> Iterator[Object]:
        return self._api.list(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")

    def _node(self, group: Live) -> Object:
        number, inputs = next(self._numbers), group.inputs
        name, subnets = f"{_name(group)}-{number}", inputs["subnetIds"]
        subnet = self.find("aws:ec2/subnet:Subnet", subnets[number % len(subnets)], group.scope)
        assert subnet is not None, f"{name} has a subnet"
        zone, kind = subnet.inputs["availabilityZone"], inputs["instanceTypes"][0]
        offer = allocatable(hardware.machine(kind), _DISK)
        size = {"cpu": f"{offer.cpu}m", "memory": f"{offer.memory}Mi", "ephemeral-storage": f"{offer.storage}Mi"}
        size |= {"pods": str(offer.pods)} | ({"nvidia.com/gpu": str(offer.gpus)} if offer.gpus else {})
        labels = {
            **inputs["labels"],
            GROUP_LABEL: _name(group),
            "eks.amazonaws.com/capacityType": inputs["capacityType"],
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": kind,
            "topology.kubernetes.io/region": zone[:-1],
            "topology.kubernetes.io/zone": zone,
        }
        taints = [{**taint, "effect": _EFFECTS[taint["effect"]]} for taint in inputs.get("taints") or ()]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {FAKE_NODE: "fake"}},
            "spec": {"providerID": f"aws:///{zone}/{name}", "taints": taints},
            "status": {"capacity": size, "allocatable": size, "nodeInfo": _INFO},
        }


def _name(group: Live) -> str:
    return str(group.outputs["nodeGroupName"])


def _at(inputs: Mapping[str, Any], path: str) -> Any:
    found: Any = inputs
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _is_ready(node: Object) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints


def _is_of_daemonset(pod: Object) -> bool:
    return owner_of(pod)[0] == "DaemonSet"


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
