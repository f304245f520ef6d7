"""A stack with queues as a world: the real Kueue checks the queues by its webhooks, and admits Jobs by its quotas."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from random import Random
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from fleet.jobs.place import place_job
from fleet.jobs.spec import gpu_job
from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.loading.stackfile import load
from fleet.render.queues import API
from fleet.render.sweeps.api import Object
from gpu_ci.submit.sending import hashed
from gpu_ci.world import parts, record
from gpu_ci.world.plane import delete, gone
from gpu_ci.world.run import Options, World

REFERENCE = os.environ.get("GPU_CI_REFERENCE", "")
PROGRAMS = parts.find()
MISSING = PROGRAMS.missing + ["kueue"] * ("kueue" not in PROGRAMS) + ["GPU_CI_REFERENCE"] * (not REFERENCE)
QUEUES = """
      queues:
        cohort: gpu
        teams:
          audio: {namespaces: [audio], quotas: [{pool: t4-ondemand, nominal: 1}]}
          vision: {namespaces: [vision], quotas: [{pool: t4-spot, nominal: 1}]}
"""
"""What the stack `staging` gets: a quota of one GPU for each of two teams."""
JOBS = "/apis/batch/v1/namespaces/vision/jobs"
WORKLOADS = f"/apis/{API}/namespaces/vision/workloads"

pytestmark = [
    pytest.mark.world,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("kueue")
    file = folder / "Pulumi.staging.yaml"
    file.write_text((ROOT / file.name).read_text().rstrip("\n") + QUEUES)
    config = load("staging", ROOT, stack_file=file)
    options = Options(60, Path(REFERENCE), PROGRAMS, folder / "world", date(2026, 11, 28))
    with World(config, fleet_of(config), "usw2", options) as made:
        made.install()
        yield made


def submitted(world: World, name: str) -> Object:
    """A Job as `gpu-ci submit` makes it, for the only pool of team vision."""
    job = gpu_job(name, "registry.example.com/train:1", namespace="vision", gpu_type="T4", gpu_count=1, spot=True)
    return world.plane.api.call("POST", JOBS, hashed(place_job(world.fleet, job).manifest()))


def condition(entry: Object, kind: str) -> Object:
    """The condition of a type, if it is True."""
    every = entry.get("status", {}).get("conditions", ())
    return next((one for one in every if (one["type"], one["status"]) == (kind, "True")), {})


def workload(world: World, job: str) -> Object:
    """Kueue's object for a Job; empty before Kueue has made it."""
    every = world.plane.api.list(WORKLOADS)
    return next((one for one in every if one["metadata"]["ownerReferences"][0]["name"] == job), {})


def test_every_object_of_the_queues_is_there_and_a_second_install_changes_nothing(world: World) -> None:
    assert world.left_out == ()
    queues = [*world.plane.api.list(f"/apis/{API}/clusterqueues")]
    assert {queue["metadata"]["name"] for queue in queues if condition(queue, "Active")} == {"audio", "vision"}
    assert world.install() == ()


def test_a_job_beyond_the_quota_waits_until_the_one_before_it_has_ended(world: World) -> None:
    api = world.plane.api
    assert submitted(world, "first")["spec"]["suspend"] is True
    world.plane.wait(lambda: bool(condition(workload(world, "first"), "Admitted")), "admission of the first job")
    submitted(world, "second")
    waiting = {"count": 0}

    def ended() -> bool:
        # In this order: if the first job still runs, it ran when the second one was read.
        second, first = (api.call("GET", f"{JOBS}/{name}") for name in ("second", "first"))
        if not condition(first, "Complete"):
            assert second["spec"]["suspend"] is True
            assert "active" not in second["status"]
            waiting["count"] += 1
        time.sleep(0.5)
        return bool(condition(second, "Complete"))

    world.plane.wait(ended, "both jobs", 240)
    assert waiting["count"] > 10, "the autoscaler takes half a minute to buy the first job's node"
    first, second = (workload(world, name) for name in ("first", "second"))
    assert condition(first, "Finished")["lastTransitionTime"] <= condition(second, "QuotaReserved")["lastTransitionTime"]
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"]["gpu-ci/pool"] for node in api.list("/api/v1/nodes")}
    pods = [*api.list("/api/v1/namespaces/vision/pods")]
    assert [nodes[pod["spec"]["nodeName"]] for pod in pods] == ["t4-spot"] * 2
    flavor = api.call("GET", f"/apis/{API}/resourceflavors/t4-spot")["spec"]["nodeLabels"]
    assert all(flavor.items() <= pod["spec"]["nodeSelector"].items() for pod in pods), "Kueue adds the flavor's labels"
    for name in ("first", "second"):
        delete(api, f"{JOBS}/{name}", propagationPolicy="Foreground")
        world.plane.wait(lambda: gone(api, f"{JOBS}/{name}"), f"the removal of {name}")  # noqa: B023 - called at once


def test_its_api_lists_who_waits(world: World) -> None:
    waiting = f"/apis/visibility.{API}/clusterqueues/vision/pendingworkloads"
    assert world.plane.api.call("GET", waiting)["items"] == []


def test_its_webhook_refuses_a_broken_queue(world: World) -> None:
    plane = world.plane
    queues = f"/apis/{API}/clusterqueues"
    spec = plane.api.call("GET", f"{queues}/vision")["spec"]
    copied: Object = {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": "copied"}, "spec": spec}
    # Neither the schema nor its rules know the order: only the webhook's program does.
    spec["resourceGroups"][0]["flavors"][0]["resources"].reverse()
    headers = {"Authorization": f"Bearer {plane.tokens['admin']}", "Content-Type": "application/json"}
    request = Request(plane.url + queues, json.dumps(copied).encode(), headers)  # noqa: S310 - the world's own API server
    with pytest.raises(HTTPError) as error:
        urlopen(request, context=ssl.create_default_context(cafile=str(plane.authority)))  # noqa: S310
    message = json.load(error.value)["message"]
    assert message.startswith('admission webhook "vclusterqueue.kb.io" denied the request: '), message
    assert "must match the name in coveredResources" in message
    spec["resourceGroups"][0]["flavors"][0]["resources"].reverse()
    plane.apply(copied)
    plane.api.call("DELETE", f"{queues}/copied")
    plane.wait(lambda: gone(plane.api, f"{queues}/copied"), "the removal of a queue")


def test_removal_leaves_the_definitions_of_other_charts_alone(world: World) -> None:
    left = world.remove(Random(0))  # noqa: S311 - no secret
    assert record.unexpected(left) == []
    assert not [text for text in left if "kueue" in text]
