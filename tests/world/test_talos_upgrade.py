"""Real ARC on the homelab, while Talos and Kubernetes are upgraded by the steps of docs/homelab.md and docs/upgrades.md.

No Talos runs here. A machine that restarts is a node whose kubelet says nothing for some seconds, and whose containers end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from urllib.error import HTTPError

import pytest

from fleet.facts import versions
from fleet.facts.manifest import manifest
from fleet.render.sweeps.quarantine import NODES
from gpu_ci.world import parts
from gpu_ci.world.plane import delete, owner_of, path_of
from gpu_ci.world.processes import HEALED
from gpu_ci.world.run import World
from gpu_ci.world.scale_sets import Job
from tests.conftest import SUMMARY
from tests.docs.kubectl import calls
from tests.docs.markdown import ROOT, section
from tests.world.test_world import real, world

pytestmark = [
    pytest.mark.world,
    pytest.mark.timeout(600),
    real,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="missing: kubectl"),
]

CLASS, SPACE = "gpu-3090", "runners-gpu-3090"
GPU, CONTROL = "gpu-1", "system-1"
"""The machines of the homelab, as the world names them. As there, the control plane takes controllers and listeners."""
ON_PAGE = "talos-cluster-gpu-worker-00"
CORDON, WAIT, UNCORDON = calls(section(ROOT / "docs" / "homelab.md", "upgrade-the-driver"), "homelab.md")
AWAY = 5
"""Seconds for which a machine is away."""
RELEASE = {"osImage": f"Talos ({versions.TALOS['1.13'].release})"}
MINOR = {"kubeletVersion": versions.TALOS_KUBERNETES["1.36"]}


@pytest.fixture(scope="module")
def homelab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world("homelab", "home", tmp_path_factory.mktemp("homelab"), parts.find()) as made:
        # GitHub answers a listener after 50 s, and gives a vanished runner 10 minutes.
        made.github.poll, made.github.lost_after = 5, 2
        made.plane.wait(lambda: len(made.nodes.values()) == 3, "the machines")
        made.cloud.delete("home-system", ["system-2"])
        made.install()
        yield made


def until(homelab: World, ready: Callable[[], bool]) -> None:
    assert homelab.work(0, lambda: None, ready), "it does not come"


def queued(homelab: World, count: int, seconds: float = 1) -> list[Job]:
    return [homelab.github.queue((CLASS,), seconds=seconds) for _ in range(count)]


def running(homelab: World, count: int) -> list[Job]:
    """Jobs that run until `end`."""
    jobs = queued(homelab, count, 3600)
    until(homelab, lambda: all(job.state == "running" for job in jobs))
    return jobs


def end(jobs: Sequence[Job], after: float) -> None:
    for job in jobs:
        job.seconds = time.time() - job.started + after


def results(jobs: Sequence[Job]) -> set[tuple[str, str, int]]:
    return {(job.state, job.result, job.assignments) for job in jobs}


GOOD = {("completed", "succeeded", 1)}


def kubectl(homelab: World, step: tuple[str, ...], machine: str = GPU) -> None:
    """Run a command of the page."""
    words = ["kubectl", *(word.replace(ON_PAGE, machine) for word in step)]
    environment = os.environ | {"KUBECONFIG": str(homelab.plane.kubeconfig())}
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=100)


def pods(homelab: World, node: str | None) -> list[str]:
    """The runners' pods on a node; None: those that are Pending."""
    runners = (pod for pod in homelab.pods.values() if owner_of(pod)[0] == "EphemeralRunner")
    return [pod["metadata"]["name"] for pod in runners if pod["spec"].get("nodeName") == node]


def node_status(homelab: World, machine: str, **status: object) -> None:
    path, kind = f"{NODES}/{machine}/status", "application/strategic-merge-patch+json"
    homelab.plane.api.call("PATCH", path, {"status": status}, kind)


def is_ready(homelab: World, machine: str) -> bool:
    node = homelab.plane.api.call("GET", f"{NODES}/{machine}")
    return any((one["type"], one["status"]) == ("Ready", "True") for one in node["status"]["conditions"])


def control_plane_restarts(homelab: World, meanwhile: Callable[[], object]) -> None:
    """The API server is away, and so are controllers and scheduler."""
    plane = homelab.plane
    for name in HEALED:
        plane.processes.stop(name)
    plane.processes.stop("kube-apiserver", grace=0)
    meanwhile()
    time.sleep(AWAY)
    plane.serve()
    for name in HEALED:
        plane.run(name, {"kubeconfig": plane.kubeconfig(plane.tokens[f"system:{name}"])})


def restart(
    homelab: World, machine: str, became: object, *, whole: bool = True, meanwhile: Callable[[], object] = lambda: None
) -> None:
    """A machine restarts, or not the `whole` one but its kubelet alone, and then shows the version that it `became`."""
    for pod in [pod for pod in homelab.pods.values() if whole and pod["spec"].get("nodeName") == machine]:
        if owner_of(pod)[0] == "EphemeralRunner":
            # A runner that has ended is not started again.
            delete(homelab.plane.api, path_of(pod), gracePeriodSeconds=0)
        with suppress(KeyError):
            homelab.hands.run(pod["metadata"]["namespace"], pod["metadata"]["name"]).send(signal.SIGTERM)
    homelab.cloud.silence(machine)
    if whole and machine == CONTROL:
        control_plane_restarts(homelab, meanwhile)
    else:
        meanwhile()
        for _ in range(AWAY):
            # The fake kubelet may send one more heartbeat.
            node_status(homelab, machine, conditions=[{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}])
            time.sleep(1)
    node_status(homelab, machine, nodeInfo=became)
    homelab.cloud.silence(machine, silent=False)
    homelab.plane.wait(lambda: is_ready(homelab, machine), "the kubelet")


def talos(homelab: World, late: list[Job]) -> None:
    """`talosctl upgrade --drain=false` of the GPU machine."""
    restart(homelab, GPU, RELEASE, meanwhile=lambda: late.extend(queued(homelab, 1)))


def kubernetes(homelab: World, late: list[Job]) -> None:
    """`talosctl upgrade-k8s`."""
    control_plane_restarts(homelab, lambda: late.extend(queued(homelab, 1)))
    for machine in (CONTROL, GPU):
        restart(homelab, machine, MINOR, whole=False)


@pytest.mark.parametrize("upgrade", [talos, kubernetes])
def test_the_steps_of_the_page_end_no_job(
    homelab: World, upgrade: Callable[[World, list[Job]], None], record_property: Callable[[str, object], None]
) -> None:
    busy, during, late = running(homelab, 2), list[Job](), list[Job]()
    if upgrade is talos:
        restart(homelab, CONTROL, RELEASE, meanwhile=lambda: during.extend(queued(homelab, 1)))
        until(homelab, lambda: results(during) == GOOD)
    assert {job.state for job in busy} == {"running"}
    kubectl(homelab, CORDON.words)
    late += queued(homelab, 2)
    until(homelab, lambda: len(pods(homelab, None)) == 2)
    end(busy, after=3)
    kubectl(homelab, WAIT.words)
    assert pods(homelab, GPU) == []
    upgrade(homelab, late)
    until(homelab, lambda: len(pods(homelab, None)) == 3)
    assert results(late) == {("assigned", "", 1)}, "a machine that is back takes no job before its uncordon"
    kubectl(homelab, UNCORDON.words)
    freed = time.time()
    until(homelab, lambda: all(job.state == "completed" for job in late))
    assert results([*busy, *during, *late]) == GOOD
    waits = [job.started - job.queued for job in (*late, *during)]
    after, without = (
        max(job.started for job in late) - freed,
        "".join(f", {each:.0f} s without a control plane" for each in waits[3:]),
    )
    record_property(
        SUMMARY,
        f"{upgrade.__name__}: all {len(busy) + len(waits)} jobs succeeded; {len(late)} had Pending runners, waited "
        f"{max(waits[:3]):.0f} s at most and ran {after:.1f} s after the uncordon{without}",
    )


def test_where_the_pool_has_another_machine_new_jobs_go_there(
    homelab: World, record_property: Callable[[str, object], None]
) -> None:
    homelab.cloud.sizes["home-gpu"] = 2
    homelab.plane.wait(lambda: is_ready(homelab, "gpu-2"), "the second machine")
    busy = running(homelab, 1)
    machine, other = (GPU, "gpu-2") if pods(homelab, GPU) else ("gpu-2", GPU)
    kubectl(homelab, CORDON.words, machine)
    late = running(homelab, 2)
    assert (len(pods(homelab, machine)), len(pods(homelab, other))) == (1, 2)
    end(busy, after=1)
    kubectl(homelab, WAIT.words, machine)
    restart(homelab, machine, RELEASE)
    kubectl(homelab, UNCORDON.words, machine)
    end(late, after=0)
    until(homelab, lambda: results([*busy, *late]) == GOOD)
    homelab.cloud.delete("home-gpu", ["gpu-2"])
    record_property(SUMMARY, f"a second machine: new jobs waited {max(job.started - job.queued for job in late):.1f} s")


def evict(homelab: World, pod: str) -> None:
    eviction = manifest("policy/v1", "Eviction", pod, SPACE)
    homelab.plane.api.call("POST", f"/api/v1/namespaces/{SPACE}/pods/{pod}/eviction", eviction)


def test_an_upgrade_that_does_not_wait_ends_the_job_unless_a_budget_forbids_it(homelab: World) -> None:
    """By default `talosctl upgrade` evicts every pod, and tries again while a PodDisruptionBudget refuses."""
    jobs = running(homelab, 1)
    (pod,) = pods(homelab, GPU)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/component": "runner"}}}
    budget = manifest("policy/v1", "PodDisruptionBudget", "runners", SPACE) | {"spec": spec}
    homelab.plane.apply(budget)
    path = homelab.plane.path(budget)
    homelab.plane.wait(lambda: homelab.plane.api.call("GET", path)["status"]["currentHealthy"] == 1, "the budget")
    with pytest.raises(HTTPError, match="429"):
        evict(homelab, pod)
    assert not homelab.cloud.drain(GPU, 3)
    assert jobs[0].state == "running"
    delete(homelab.plane.api, path)
    assert homelab.cloud.drain(GPU, 10)
    until(homelab, lambda: jobs[0].state == "completed")
    assert jobs[0].result == "failed"
    kubectl(homelab, UNCORDON.words)
    until(homelab, lambda: not pods(homelab, GPU))
