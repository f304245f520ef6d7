"""The simple rule in place of Cluster Autoscaler."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.loading.config import load
from fleet.render.sweeps.api import Collection
from fleet.render.sweeps.quarantine import NODES
from gpu_ci.world.buyer import Buyer
from gpu_ci.world.cloud import Cloud
from tests.builders import read_stack
from tests.fleet.conformance import cluster_charts
from tests.world.clouds import STAGING, Memory, Time, clouded

PODS = "/api/v1/pods"
BOOT, DELAY = 10, 30
"""Seconds of the world with the factor 10: the boot of a node, and the idle delay of the spot pool."""
Spec = dict[str, Any]


class InMemory(Collection):
    """A collection that is always up to date."""

    def values(self) -> list[Any]:
        return list(self._api.list(self.path))


@pytest.fixture(scope="module")
def specs() -> dict[str, Spec]:
    """The pod spec of each runner set of staging."""
    charts = cluster_charts(load(read_stack(STAGING)), "usw2", "staging")
    return {name: charts[name].values["template"]["spec"] for name in ("gpu-t4", "gpu-t4-release")}


class Fleet:
    """Staging's cloud with the rule."""

    def __init__(self) -> None:
        self.cloud: Cloud
        self.api: Memory
        self.clock: Time
        self.cloud, self.api, self.clock = clouded()
        nodes, pods = (InMemory(self.api, path, lambda entry: entry) for path in (NODES, PODS))
        self.buyer = Buyer(self.cloud, nodes, pods, self.clock)

    def after(self, seconds: float) -> dict[str, int]:
        """The sizes of the pools after a time."""
        self.clock.now += seconds
        for _ in range(2):
            self.cloud.once()
            self.buyer.once()
        sizes: dict[str, int] = {}
        for one in self.cloud.groups.values():
            sizes[one.pool] = sizes.get(one.pool, 0) + self.cloud.sizes[one.id]
        return {pool: size for pool, size in sizes.items() if size and pool != "system"}

    def bind(self, pod: str, node: str) -> None:
        entry = self.api.held[f"/api/v1/namespaces/default/pods/{pod}"]
        entry["spec"]["nodeName"], entry["status"] = node, {"phase": "Running"}


def test_each_pending_pod_gets_a_node_of_the_first_of_its_pools_that_has_one(specs: dict[str, Spec]) -> None:
    fleet = Fleet()
    for number in range(6):
        fleet.api.pod(f"job-{number}", spec=specs["gpu-t4"])
    fleet.api.pod("release", spec=specs["gpu-t4-release"])
    assert fleet.after(0) == {"t4-spot": 5, "t4-ondemand": 1, "t4-release": 1}
    assert fleet.after(BOOT) == fleet.after(0), "the nodes have room for all pods"


def test_it_moves_on_while_the_cloud_refuses_a_pool(specs: dict[str, Spec]) -> None:
    fleet = Fleet()
    fleet.cloud.refuse("t4-spot")
    fleet.api.pod("job", spec=specs["gpu-t4"])
    assert fleet.after(0) == {"t4-ondemand": 1}


def test_a_pod_that_no_pool_takes_gets_no_node() -> None:
    fleet = Fleet()
    fleet.api.pod("foreign", spec={"nodeSelector": {"gpu-ci/pool": "another"}})
    assert fleet.after(0) == {}


def test_a_cordoned_node_is_no_room(specs: dict[str, Spec]) -> None:
    fleet = Fleet()
    fleet.api.pod("job", spec=specs["gpu-t4-release"])
    assert fleet.after(0) == {"t4-release": 1}
    fleet.after(BOOT)
    fleet.cloud.drain("t4-release-1")
    assert fleet.after(0) == {"t4-release": 2}


def test_a_node_goes_when_it_was_idle_for_the_delay_of_its_pool(specs: dict[str, Spec]) -> None:
    fleet = Fleet()
    fleet.api.pod("job", spec=specs["gpu-t4"])
    fleet.after(0)
    fleet.after(BOOT)
    fleet.bind("job", "t4-spot-1")
    fleet.api.pod("agent", "t4-spot-1", owner="DaemonSet")
    assert fleet.after(10 * DELAY) == {"t4-spot": 1}, "it works"
    del fleet.api.held["/api/v1/namespaces/default/pods/job"]
    assert fleet.after(0) == {"t4-spot": 1}
    assert fleet.after(DELAY - 1) == {"t4-spot": 1}
    assert fleet.after(1) == {}
