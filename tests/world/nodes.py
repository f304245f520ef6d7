"""A simulated AWS whose managed node groups have nodes in a world: started, tainted, rolled, drained and deleted as EKS does.

Facts: Amazon EKS user guide, "Understand each phase of node updates" (a new node is ready before an old one is drained, unless
the strategy is MINIMAL; a pod that cannot be evicted for 15 minutes fails the update, PodEvictionFailure) and "Delete a managed
node group from your cluster" (its nodes are drained first); AWS CLI reference, eks update-nodegroup-config ("to be applied to
the nodes in the node group after the update": labels and taints).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from fleet.facts import hardware
from fleet.facts.offer import allocatable
from fleet.facts.scheduling import EKS_EFFECT
from fleet.render.sweeps.api import Object
from gpu_ci.world import cloud as world
from gpu_ci.world.plane import FAKE_NODE, Plane, delete, merge
from tests.engine.live import Cloud, Live, RefusedError
from tests.engine.operations import ROLLS

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
GROUP_LABEL = "eks.amazonaws.com/nodegroup"
_EFFECTS = {theirs: effect.value for effect, theirs in EKS_EFFECT.items()}
_DISK = 100 * 1024
"""MiB of a root disk, more than pods here ask for."""


class NodeCloud(Cloud):
    """A cloud whose node groups have nodes. `patience`: seconds for which a pod may refuse to go."""

    def __init__(self, plane: Plane, patience: float = 900) -> None:
        super().__init__()
        self.kubeconfig = plane.kubeconfig().read_text(encoding="utf-8")
        self._plane, self._patience = plane, patience
        self._machines, self._numbers = world.Cloud(plane.api, {}), itertools.count(1)

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
        if live.type == NODE_GROUP:
            if any(before.get(key) != inputs.get(key) for key in ("labels", "taints")):
                self._mark(live, before)
            if any(_at(before, path) != _at(inputs, path) for path in ROLLS):
                self._roll(live)
            self.scale(live, max(len(self.nodes(live)), int(inputs["scalingConfig"]["minSize"])))

    def remove(self, live: Live) -> None:
        """As a Cloud. Pods that do not leave a node group in time end with it."""
        # From here on nothing gives it another node.
        super().remove(live)
        while live.type == NODE_GROUP and (nodes := self.nodes(live)):
            for node in nodes:
                self._end(node)

    def nodes(self, group: Live) -> list[str]:
        """The names of a group's nodes, the oldest first."""
        found = self._plane.api.list(f"/api/v1/nodes?labelSelector={GROUP_LABEL}%3D{_name(group)}")
        return sorted((node["metadata"]["name"] for node in found), key=lambda name: int(name.rpartition("-")[2]))

    def scale(self, group: Live, count: int) -> None:
        """Gives a group another number of nodes within its sizes, as the autoscaler does. One that is deleted gets none."""
        if self.find(NODE_GROUP, group.id, group.scope) is not group:
            return
        sizes, nodes = group.inputs["scalingConfig"], self.nodes(group)
        count = max(int(sizes["minSize"]), min(count, int(sizes["maxSize"])))
        group.change("scalingConfig.desiredSize", count)
        self._start(group, count - len(nodes))
        for node in nodes[count:]:
            self._end(node)

    def end(self, group: Live, node: str) -> None:
        """Ends one node, and makes the group smaller by it."""
        group.change("scalingConfig.desiredSize", len(self.nodes(group)) - 1)
        self._end(node)

    def _mark(self, group: Live, before: Mapping[str, Any]) -> None:
        """Gives the nodes that are there the group's new labels and taints. What others wrote on them stays."""
        removed, old = dict.fromkeys(before["labels"]), {taint["key"] for taint in before.get("taints") or ()}
        for name in self.nodes(group):
            path = f"/api/v1/nodes/{name}"
            others = [taint for taint in self._plane.api.call("GET", path)["spec"].get("taints", ()) if taint["key"] not in old]
            labels = {**removed, **group.inputs["labels"]}
            merge(self._plane.api, path, {"metadata": {"labels": labels}, "spec": {"taints": [*others, *_taints(group.inputs)]}})

    def _roll(self, group: Live) -> None:
        first = group.inputs.get("updateConfig", {}).get("updateStrategy") != "MINIMAL"
        for node in self.nodes(group):
            self._start(group, first)
            if not self._machines.drain(node, self._patience):
                raise RefusedError(f"PodEvictionFailure: Reached max retries while trying to evict pods from nodes in {group.id}")
            self._end(node)
            self._start(group, not first)

    def _start(self, group: Live, count: int) -> None:
        api, names = self._plane.api, [f"{_name(group)}-{next(self._numbers)}" for _ in range(count)]
        for name in names:
            api.call("POST", "/api/v1/nodes", self._node(group, name))
        self._plane.wait(lambda: all(_is_ready(api.call("GET", f"/api/v1/nodes/{name}")) for name in names), "new nodes")

    def _end(self, node: str) -> None:
        api = self._plane.api
        self._machines.drain(node, self._patience)
        delete(api, f"/api/v1/nodes/{node}")
        # What is left ends with the machine. No DaemonSet makes a pod again on a node that is gone.
        for pod in api.list(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}"):
            place = pod["metadata"]
            delete(api, f"/api/v1/namespaces/{place['namespace']}/pods/{place['name']}", gracePeriodSeconds=0)

    def _node(self, group: Live, name: str) -> Object:
        inputs, number = group.inputs, int(name.rpartition("-")[2])
        subnets, kind = inputs["subnetIds"], inputs["instanceTypes"][0]
        subnet = self.find("aws:ec2/subnet:Subnet", subnets[number % len(subnets)], group.scope)
        assert subnet is not None, f"the group of {name} has subnets"
        zone, offer = subnet.inputs["availabilityZone"], allocatable(hardware.machine(kind), _DISK)
        size = {"cpu": f"{offer.cpu}m", "memory": f"{offer.memory}Mi", "ephemeral-storage": f"{offer.storage}Mi"}
        size |= {"pods": str(offer.pods)} | ({"nvidia.com/gpu": str(offer.gpus)} if offer.gpus else {})
        labels = {
            GROUP_LABEL: _name(group),
            "eks.amazonaws.com/capacityType": inputs["capacityType"],
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": kind,
            "topology.kubernetes.io/region": group.scope,
            "topology.kubernetes.io/zone": zone,
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**inputs["labels"], **labels}, "annotations": {FAKE_NODE: "fake"}},
            "spec": {
                "providerID": f"aws:///{zone}/{name}",
                "taints": _taints(inputs),
            },
            "status": {"capacity": size, "allocatable": size},
        }


def _name(group: Live) -> str:
    return str(group.outputs["nodeGroupName"])


def _taints(inputs: Mapping[str, Any]) -> list[Object]:
    return [{**taint, "effect": _EFFECTS[taint["effect"]]} for taint in inputs.get("taints") or ()]


def _at(inputs: Mapping[str, Any], path: str) -> Any:
    outer, _, inner = path.partition(".")
    return (inputs.get(outer) or {}).get(inner) if inner else inputs.get(outer)


def _is_ready(node: Object) -> bool:
    """Whether the scheduler uses it: the controllers have taken the first taint away."""
    conditions = {each["type"] for each in node["status"].get("conditions", ())}
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return "Ready" in conditions and "node.kubernetes.io/not-ready" not in taints
