"""A simulated cloud over an API server in memory, with a clock that tests move."""

from __future__ import annotations

import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from pathlib import Path
from typing import Any

from fleet.loading.config import load
from fleet.render.sweeps.api import Api, Object
from fleet.render.sweeps.quarantine import NODES
from gpu_ci.world.cloud import Cloud, Group, groups
from tests.builders import ROOT, read_stack
from tests.kwok.memory import merged

STAGING = ROOT / "Pulumi.staging.yaml"


class Memory(Api):
    """Objects by path, and the evictions that were asked for."""

    def __init__(self) -> None:
        super().__init__("http://memory")
        self.held: dict[str, Object] = {}
        self.evicted: list[str] = []

    def call(
        self, method: str, path: str, body: Object | None = None, kind: str = "application/json", accept: str = ""
    ) -> Object:
        if path.endswith("/eviction"):
            self.evicted.append(path.split("/")[-2])
            return self.held.pop(path.removesuffix("/eviction"))
        if method == "POST" and body is not None:
            at = f"{path}/{body['metadata']['name']}"
            if at in self.held:
                raise urllib.error.HTTPError(at, 409, "conflict", Message(), None)
            self.held[at] = dict(body)
            return self.held[at]
        at = path.removesuffix("/status")
        if at not in self.held:
            raise urllib.error.HTTPError(at, 404, "not found", Message(), None)
        if method == "DELETE":
            return self.held.pop(at)
        if method == "PATCH":
            self.held[at] = merged(self.held[at], body)
        return self.held[at]

    def list(self, path: str) -> Iterator[Object]:
        where, _, query = path.partition("?")
        node = query.partition("spec.nodeName=")[2].partition(",")[0]
        of_kind = [entry for at, entry in self.held.items() if at.split("/")[-2] == where.rpartition("/")[2]]
        return iter([entry for entry in of_kind if not node or entry["spec"].get("nodeName") == node])

    def nodes(self) -> Sequence[str]:
        """The names of the nodes."""
        return sorted(node["metadata"]["name"] for node in self.list(NODES))

    def pod(self, name: str, node: str = "", spec: Mapping[str, Any] | None = None, owner: str = "Job") -> Object:
        """A new pod, on a node or pending."""
        reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        owners = [{"kind": owner, "name": "owner", "controller": True}]
        made: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
            "spec": {"containers": [{"name": "job"}]} | dict(spec or {}) | ({"nodeName": node} if node else {}),
            "status": {"phase": "Running"} if node else {"phase": "Pending", "conditions": [reason]},
        }
        self.held[f"/api/v1/namespaces/default/pods/{name}"] = made
        return made


class Time:
    """A clock."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def groups_in(path: Path, cluster: str) -> dict[str, Group]:
    """The node groups of a cluster of a stack file."""
    fleet = load(read_stack(path))
    return groups(cluster, fleet.clusters[cluster], fleet.github)


def clouded(path: Path = STAGING, cluster: str = "usw2", factor: float = 10) -> tuple[Cloud, Memory, Time]:
    """The cloud of a cluster after its first pass."""
    api, clock = Memory(), Time()
    cloud = Cloud(api, groups_in(path, cluster), factor, clock=clock)
    cloud.once()
    return cloud, api, clock


def group(cloud: Cloud, pool: str, zone: str = "") -> str:
    """The id of the group of a pool and a zone; of the first zone without one."""
    return next(each.id for each in cloud.groups.values() if each.pool == pool and zone in ("", *each.zones))
