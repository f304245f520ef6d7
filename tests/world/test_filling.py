"""`fillNodes` with the real scheduler: a whole-node job has room beside small ones. tests/world/filling.py measures more."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event

import pytest

from fleet.facts.manifest import manifest
from fleet.settings.namespaces import runner_namespace
from gpu_ci.world.cloud import Cloud, groups
from gpu_ci.world.parts import find
from gpu_ci.world.plane import Followed, control_plane
from gpu_ci.world.processes import Processes
from tests.world.filling import clusters, pod, template

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
ABSENT = [name for name in NEEDED if shutil.which(name) is None]
WAYS = ["default", "fillNodes"]


@pytest.mark.world
@pytest.mark.skipif(bool(ABSENT), reason=f"not on PATH: {', '.join(ABSENT)}")
def test_small_runners_leave_a_node_for_a_whole_node_job(tmp_path: Path) -> None:
    fleet, stop = clusters(WAYS, 2, 2), Event()
    settings = fleet.clusters["w"]
    with Processes(tmp_path) as processes:
        plane = control_plane(processes, find())
        for name in settings.runners:
            plane.apply(manifest("v1", "Namespace", runner_namespace(name)))
        cloud = Cloud(plane.api, groups("w", settings, fleet.github), factor=1000)
        cloud.start(stop)
        pods, nodes = (Followed(plane.api, f"/api/v1/{kind}", stop) for kind in ("pods", "nodes"))
        plane.wait(lambda: sum("node.kubernetes.io/not-ready" not in str(each) for each in nodes.values()) == 6, "nodes")

        def known() -> list[str]:
            """The pods of which the scheduler has said where they run, or that they have no room."""
            return [each["metadata"]["name"] for each in pods.values() if "PodScheduled" in str(each.get("status"))]

        for number, gpus in enumerate((1, 2, 8)):
            for way in WAYS:
                name = f"{way.lower()}-{gpus}"
                path = f"/api/v1/namespaces/{runner_namespace(name)}/pods"
                plane.api.call("POST", path, pod(way, number, template(fleet, name)))
            plane.wait(lambda: len(known()) == 2 * (number + 1), "the scheduler")  # noqa: B023 - called at once
        placed = {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in pods.values()}
        stop.set()
    assert placed["default-0"] != placed["default-1"]
    assert placed["default-2"] == ""
    assert placed["fillnodes-0"] == placed["fillnodes-1"]
    assert placed["fillnodes-2"] not in ("", placed["fillnodes-0"])
