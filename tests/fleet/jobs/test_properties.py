"""Whatever the arguments: an error that says what is wrong, or a Job that the API takes and that lands where placement says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import kubernetes_validate
from hypothesis import HealthCheck, event, given, reject, settings, strategies as st

from fleet.jobs import GpuJobSpec, JobError, JobProblem, create_gpu_job, gpu_job, manifest
from fleet.jobs.place import candidates
from fleet.providers.installed import pool_target
from tests.examples import examples
from tests.fleet.jobs.scheduler import Node, nodes, rejections, runs
from tests.fleet.jobs.strategies import aimed, anything, arguments, fleets, good
from tests.fleet.test_isolation import MINORS
from tests.fleet.test_pod_security import violations
from tests.fleet.values import mebibytes, millicores

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]
    return found


def _holds(job: dict[str, Any], minors: tuple[str, ...] = MINORS) -> None:
    """What every Job of our own is."""
    pod = pod_of(job)
    (container,) = pod["containers"]
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    gpus = {name for name in limits if name.startswith("nvidia.com/")}
    assert len(gpus) == 1
    assert {name: requests[name] for name in gpus} == {name: limits[name] for name in gpus}, "a GPU request equals its limit"
    assert millicores(requests["cpu"]) <= millicores(limits["cpu"])
    assert mebibytes(requests["memory"]) <= mebibytes(limits["memory"])
    memory = [
        each["emptyDir"]["sizeLimit"] for each in pod.get("volumes", []) if each.get("emptyDir", {}).get("medium") == "Memory"
    ]
    assert sum(map(mebibytes, memory)) < mebibytes(limits["memory"]), "a memory volume counts against the limit"
    mounted = [each["name"] for each in container.get("volumeMounts", [])]
    assert sorted(mounted) == sorted(each["name"] for each in pod.get("volumes", [])), "what is mounted is there, and no more"
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,55}[a-z0-9])?", job["metadata"]["name"]), "its pods' names are host names"
    names = [each["name"] for each in container["env"]]
    assert len(set(names)) == len(names)
    assert violations(pod) == [], "the restricted standard"
    assert pod["automountServiceAccountToken"] is False
    assert job["spec"]["activeDeadlineSeconds"] >= 1
    assert ("podFailurePolicy" in job["spec"]) <= (pod["restartPolicy"] == "Never"), "the API takes it with Never alone"
    for minor in minors:
        kubernetes_validate.validate(job, minor, strict=True)


@settings(max_examples=examples(100), suppress_health_check=SLOW)
@given(good())
def test_good_arguments_make_a_job(given: dict[str, Any]) -> None:
    _made_or_told(given)


@settings(max_examples=examples(100), suppress_health_check=SLOW)
@given(st.one_of(arguments(), anything()))
def test_any_arguments_make_a_job_or_an_error(given: dict[str, Any]) -> None:
    _made_or_told(given)


def _tried(given: dict[str, Any]) -> dict[str, Any] | JobError:
    try:
        return create_gpu_job(**given)
    except JobError as error:
        return error


def _made_or_told(given: dict[str, Any]) -> None:
    job = _tried(given)
    event(type(job).__name__)
    if isinstance(job, JobError):
        assert job.problems
        assert all(isinstance(each, JobProblem) and each.field and each.rule and each.message for each in job.problems)
        assert all(line.isprintable() for line in str(job).split("\n")), "one line each"
        return
    _holds(job)
    assert json.loads(json.dumps(job)) == job, "plain data"
    assert create_gpu_job(**given) == job, "the same arguments make the same Job"
    assert job["metadata"]["annotations"]["gpu-ci/task-id"] == given["task_id"]


@settings(max_examples=examples(60), suppress_health_check=SLOW)
@given(st.one_of(arguments(), good()), st.sampled_from(["gpu_count", "shm", "image", "env"]))
def test_a_problem_is_told_beside_any_other(given: dict[str, Any], wrong: str) -> None:
    bad = {"gpu_count": 3, "shm": "1.5", "image": "a:latest", "env": {"A B": ""}}
    told = _tried(given | {wrong: bad[wrong]})
    assert isinstance(told, JobError)
    assert any(each.field.startswith(wrong) for each in told.problems)


# -- placement and scheduler -----------------------------------------------------------------------------------------------


def _unbound(job: GpuJobSpec, pool: Any) -> dict[str, Any]:
    """The pod of a job that knows no pool, but for what a pool says of its shares: their name, and who mounts /dev/shm."""
    alone = replace(job, ask=replace(job.ask, gpus=1))
    pod = pod_of(manifest(alone))
    mine = job.ask.unplaced_resource
    named = pool.resource if job.ask.shared and job.ask.resource is None and pool.sharing is not None else mine
    for amounts in pod["containers"][0]["resources"].values():
        del amounts[mine]
        amounts[named] = str(job.ask.gpus)
    if not job.ask.shm_given and not pool.mounts_shm:
        pod["containers"][0].pop("volumeMounts", None)
    return pod


def _belongs(job: GpuJobSpec, node: Node) -> bool:
    """Whether the job gets the kind of GPU that it asks for: shares may have the name of whole GPUs, and no filter sees that."""
    return node.shares is job.ask.shared


def _job(given: dict[str, Any]) -> GpuJobSpec:
    """The job, if the arguments go together."""
    try:
        return gpu_job(**given)
    except JobError:
        reject()


@settings(max_examples=examples(150), suppress_health_check=SLOW)
@given(st.data())
def test_placement_agrees_with_the_scheduler_in_both_directions(data: st.DataObject) -> None:
    fleet = data.draw(fleets())
    job = _job(data.draw(aimed(fleet)))
    for cluster, held in fleet.clusters_by_name():
        everywhere = list(nodes(fleet, cluster))
        for found in candidates(fleet, job.ask, cluster=cluster):
            own = [node for node in everywhere if node.pool == found.pool]
            assert own
            pod = _unbound(job, held.pools[found.pool])
            event(f"held: {not found.reasons}")
            able = all(runs(pod, node) and _belongs(job, node) for node in own)
            assert able is (not found.reasons), (found.reasons, [rejections(pod, node) for node in own])
            if found.reasons:
                continue
            bound = manifest(job, pool_target(held, found.pool))
            _holds(bound, MINORS[-1:])
            assert {node.pool for node in everywhere if runs(pod_of(bound), node)} == {found.pool}
            assert all(runs(pod_of(bound), node) for node in own), "on any machine that the pool may buy, there or not there yet"


@settings(max_examples=examples(100), suppress_health_check=SLOW)
@given(st.data())
def test_the_chosen_pool_holds_the_job_and_nobody_is_better(data: st.DataObject) -> None:
    fleet = data.draw(fleets())
    given = data.draw(aimed(fleet))
    job = _job(given)
    cluster = data.draw(st.sampled_from([None, *fleet.clusters]))
    able = [each for each in candidates(fleet, job.ask, cluster=cluster) if not each.reasons]
    made = _tried({**given, "fleet": fleet, "cluster": cluster})
    event(type(made).__name__)
    if isinstance(made, JobError):
        meant = [f"{name}/{pool}" for name, held in fleet.clusters_by_name() if cluster in (None, name) for pool in held.pools]
        assert not able
        assert [each.field for each in made.problems] == meant, "a reason for each pool that may be meant"
        return
    chosen = pod_of(made)["nodeSelector"]["gpu-ci/pool"]
    weights = {each.name: given.get("prefer", {}).get(_gpu(each), 0) for each in able}
    best = [each for each in able if weights[each.name] == max(weights.values())]
    burst = [each for each in best if each.settings.role == "burst"] or best
    known = [each.price.usd for each in burst if not each.price.unknown]
    assert able[0] in burst
    assert able[0].pool == chosen
    assert able[0].price.usd == min(known) if known else able[0].price.unknown


def _gpu(found: Any) -> str:
    return str(found.settings.machines[0].gpu.name).lower().replace(" ", "-")
