"""Jobs that belong to a stack: the same Job as from Python, in a pool that holds it and whose queue lets it in."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from hypothesis import event, given, settings, strategies as st

from fleet.facts.errors import FleetError
from fleet.facts.scheduling import JOB_PRIORITIES, POOL_LABEL, QUEUE_LABEL, Priority
from fleet.jobs import JobError, create_gpu_job, stack as stack_jobs
from fleet.jobs.stack import place_stack_job
from fleet.loading.config import load
from fleet.prove.placement import PlacementError
from fleet.providers.fleet import Fleet
from tests.builders import cluster, config, oke_cluster, pool
from tests.cases import cases
from tests.examples import examples
from tests.fleet.test_isolation import MINORS

IMAGE = "docker.io/library/python:3.13"
POOLS = {
    "t4": pool(),
    "t4-spot": pool(capacity="spot"),
    "t4-shared": pool(sharing={"strategy": "time-slicing", "replicas": 4}),
    "a100": pool(instanceTypes=["p4d.24xlarge"], disk="1000Gi"),
}


def job(**changes: Any) -> dict[str, Any]:
    """A job of one T4 in the namespace research; `changes` replace keys, None removes one."""
    given = {"namespace": "research", "image": IMAGE, "command": ["python", "-c", "1"], "pool": "t4"} | changes
    return {key: value for key, value in given.items() if value is not None}


def fleet(held: dict[str, Any], **changes: Any) -> Fleet:
    """The cluster usw2 with a pool of each kind and a job of this kind, `train`."""
    runners = changes.pop("runners", {})
    return load(config(clusters={"usw2": cluster(pools=POOLS, runners=runners, jobs={"train": held}, **changes)}))


def manifest(held: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return place_stack_job(fleet(held, **changes), "usw2", "train").manifest()


def refused(held: dict[str, Any], **changes: Any) -> str:
    (found,) = stack_jobs.refusals(fleet(held, **changes), ())
    assert (found.cluster, found.workload, found.kind) == ("usw2", "train", "job")
    return found.error


FULL = job(
    args=["--epochs", "3"],
    env={"EPOCHS": "3"},
    secretEnv={"HF_TOKEN": ["hugging-face", "token"]},
    cpu=2,
    memory="10Gi",
    scratch="10Gi",
    shm="1Gi",
    cache="models",
    cachePath="/cache",
    cacheReadOnly=True,
    workspace="work",
    workspacePath="/work",
    priority="high-priority",
    deadline="1h",
    backoffLimit=1,
    labels={"example.com/team": "ml"},
)
CACHES = {"models": {"storage": "efs", "size": "500Gi", "namespaces": ["research"]}}


def test_it_is_the_job_that_python_makes_of_the_same_arguments() -> None:
    same = create_gpu_job(
        "train",
        IMAGE,
        gpu_type="t4",
        command=["python", "-c", "1"],
        memory="10Gi",
        cpu="2",
        env={"EPOCHS": "3"},
        fleet=fleet(FULL, caches=CACHES),
        cluster="usw2",
        pool="t4",
        args=["--epochs", "3"],
        secret_env={"HF_TOKEN": ("hugging-face", "token")},
        namespace="research",
        scratch="10Gi",
        shm="1Gi",
        cache="models",
        cache_path="/cache",
        cache_read_only=True,
        workspace="work",
        workspace_path="/work",
        priority_class="high-priority",
        deadline="1h",
        backoff_limit=1,
        labels={"example.com/team": "ml"},
    )
    assert manifest(FULL, caches=CACHES) == same


def test_what_is_not_said_is_what_python_says() -> None:
    found = manifest(job())
    same = create_gpu_job(
        "train", IMAGE, gpu_type="t4", command=["python", "-c", "1"], namespace="research", fleet=fleet(job()), pool="t4"
    )
    assert found == same


@cases("minor", MINORS)
@cases("held", [job(), FULL, job(pool="t4-spot"), job(pool="t4-shared"), job(pool="a100", gpus=8)])
def test_every_minor_takes_it(held: dict[str, Any], minor: str) -> None:
    kubernetes_validate.validate(manifest(held, caches=CACHES), minor, strict=True)


def test_a_cache_is_mounted_by_its_name() -> None:
    spec = manifest(job(cache="models"), caches=CACHES)["spec"]["template"]["spec"]
    assert {"name": "models", "persistentVolumeClaim": {"claimName": "models"}} in spec["volumes"]
    assert {"name": "models", "mountPath": "/models"} in spec["containers"][0]["volumeMounts"]


# -- where it runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "resource"), [("t4", "nvidia.com/gpu"), ("t4-shared", "nvidia.com/gpu.shared")])
def test_a_pool_that_is_named_is_wanted_as_it_is(name: str, resource: str) -> None:
    spec = manifest(job(pool=name))["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {POOL_LABEL: name}
    assert spec["containers"][0]["resources"]["limits"][resource] == "1"


def test_a_pool_of_any_nvidia_gpu_implies_the_gpu_type() -> None:
    described = oke_cluster(
        pools={"big": pool(instanceTypes=["BM.GPU.B200.8"], disk="1000Gi")}, runners={}, jobs={"train": job(pool="big")}
    )
    placed = place_stack_job(load(config(clusters={"sjc": described})), "sjc", "train")
    assert (placed.chosen.name, placed.job.ask.gpu_type) == ("sjc/big", "b200")


def test_a_pool_of_spot_machines_needs_no_word_more() -> None:
    placed = place_stack_job(fleet(job(pool="t4-spot")), "usw2", "train")
    assert placed.chosen.pool == "t4-spot"
    (remark,) = stack_jobs.remarks(fleet(job(pool="t4-spot")))
    assert remark.startswith("usw2.jobs.train: on spot")


@cases(
    ("changes", "chosen"),
    [({}, "t4"), ({"spot": True}, "t4-spot"), ({"shared": True}, "t4-shared"), ({"gpuType": "a100"}, "a100")],
)
def test_without_a_pool_it_is_in_the_best_one_of_its_gpu(changes: dict[str, Any], chosen: str) -> None:
    placed = place_stack_job(fleet(job(pool=None, **({"gpuType": "t4"} | changes))), "usw2", "train")
    assert placed.chosen.pool == chosen


def test_it_is_in_its_own_cluster_whatever_others_have() -> None:
    other = oke_cluster(pools={"t4": pool(instanceTypes=["VM.GPU.A10.1"])}, runners={})
    described = config(
        clusters={"usw2": cluster(pools={"a100": POOLS["a100"]}, runners={}, jobs={"train": job(pool="a100")}), "sjc": other}
    )
    assert place_stack_job(load(described), "usw2", "train").chosen.name == "usw2/a100"


# -- refused -----------------------------------------------------------------------------------------------------------


def test_a_job_that_no_pool_holds_is_refused_with_a_reason_for_each() -> None:
    told = refused(job(pool=None, gpuType="t4", gpus=8))
    assert told.count("usw2/") == len(POOLS)
    assert "asks for 8 GPUs, g4dn.2xlarge has 1" in told


def wrong(held: dict[str, Any], **changes: Any) -> str:
    """What the settings say of a job, less the path to it."""
    with pytest.raises(FleetError) as caught:
        fleet(held, **changes)
    (found,) = caught.value.problems
    head, _, field = str(found).partition("jobs.train.")
    assert head == "gpu-ci:clusters.usw2."
    return field


@cases(
    ("changes", "told"),
    [
        ({"secretEnv": {"A-B": ["x", "y"]}}, "secretEnv.A-B: a variable's name has"),
        ({"backoffLimit": 1000}, "backoffLimit: must be at most 100; lower it (got 1000)"),
        ({"labels": {"gpu.kubernetes.io/a": "b"}}, "labels.gpu.kubernetes.io/a: the domains of Kubernetes"),
        (
            {"workspacePath": "/work"},
            "workspacePath: the job does not have this volume; name its claim in workspace, or leave it out",
        ),
        (
            {"env": {"CUDA_VISIBLE_DEVICES": "1"}},
            "env.CUDA_VISIBLE_DEVICES: the container numbers its own GPUs, here 0; name these",
        ),
        (
            {"pool": "a100", "gpus": 8, "memory": "16Gi"},
            "memory: a job of 8 GPUs needs at least 32Gi, 4Gi for each GPU; raise it",
        ),
    ],
)
def test_wrong_arguments_are_told_by_the_keys_of_the_settings(changes: dict[str, Any], told: str) -> None:
    assert wrong(job(**changes)).startswith(told)


def test_what_a_message_names_is_named_as_in_the_settings() -> None:
    assert wrong(job(env={"CUDA_VISIBLE_DEVICES": "1"})).endswith('or raise gpus (got "1")')
    assert "secret_env" not in wrong(job(env={"A": "1"}, secretEnv={"A": ["s", "k"], "B": ["s", "k"]}))


@cases(
    "changes",
    [
        {"env": {"HF_TOKEN": "hf_abcdefghijklmnopqrst"}},
        {"args": ["--token", "hf_abcdefghijklmnopqrst"]},
        {"command": ["sh", "-c", "HF_TOKEN=hf_abcdefghijklmnopqrst python train.py"]},
        {"pool": None, "env": {"HF_TOKEN": "hf_abcdefghijklmnopqrst"}},
    ],
)
def test_a_secret_is_refused_and_not_repeated(changes: dict[str, Any]) -> None:
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": cluster(runners={}, jobs={"train": job(**changes)})}))
    assert "hf_" not in str(caught.value)
    if changes.get("pool", "t4"):
        assert "write secretEnv: {NAME: [secret, key]}" in str(caught.value), "as the YAML that has it"


def test_variables_under_a_misspelt_key_are_not_repeated() -> None:
    assert wrong(job(environment={"HF_TOKEN": "hf_abcdefghijklmnopqrst"})).startswith("environment: unknown key; known keys")
    assert "hf_" not in wrong(job(environment={"HF_TOKEN": "hf_abcdefghijklmnopqrst"}))


def test_one_line_tells_each_job_that_is_refused() -> None:
    described = cluster(jobs={"one": job(pool=None, gpuType="h100"), "two": job(), "three": job(gpus=8)})
    with pytest.raises(PlacementError) as caught:
        stack_jobs.require(load(config(clusters={"usw2": described})), ())
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["usw2.jobs.one", "usw2.jobs.three"]


# -- queues ------------------------------------------------------------------------------------------------------------


def queues(*quotas: dict[str, Any], cohort: str | None = None) -> dict[str, Any]:
    held = {"teams": {"ml": {"namespaces": ["research"], "quotas": list(quotas)}}}
    return {"queues": held | ({"cohort": cohort} if cohort else {})}


def test_a_job_in_a_queue_waits_there() -> None:
    found = manifest(job(queue="ml"), **queues({"pool": "t4", "nominal": 1}))
    assert found["metadata"]["labels"][QUEUE_LABEL] == "ml"
    assert found["spec"]["suspend"] is True
    assert found["spec"]["template"]["spec"]["priorityClassName"] == "medium-priority"


def test_the_default_queue_of_its_namespace_does_too() -> None:
    found = manifest(job(queue="default"), **queues({"pool": "t4", "nominal": 1}))
    assert found["metadata"]["labels"][QUEUE_LABEL] == "default"


@pytest.mark.parametrize(
    ("changes", "held", "told"),
    [
        ({}, queues({"pool": "t4-spot", "nominal": 1}), "team ml has no quota of it"),
        (
            {"gpus": 8, "cpu": 8, "pool": "a100"},
            queues({"pool": "a100", "nominal": 4}),
            "team ml has 4 GPUs of it and no team to borrow from, the job asks for 8 GPUs; raise nominal, or ask for less",
        ),
    ],
)
def test_a_job_that_its_queue_would_never_let_in_is_refused(changes: dict[str, Any], held: dict[str, Any], told: str) -> None:
    assert told in refused(job(queue="ml", **changes), **held)


def test_without_a_queue_it_is_in_that_of_its_namespace() -> None:
    held = queues({"pool": "t4", "nominal": 1})
    assert manifest(job(), **held) == manifest(job(queue="ml"), **held)
    assert "team ml has no quota of it" in refused(job(pool="a100"), **held)
    assert "suspend" not in manifest(job(namespace="elsewhere"), **held)["spec"]


@pytest.mark.parametrize(("priority", "name"), [({}, "medium-priority"), ({"priority": "high-priority"}, "high-priority")])
def test_its_class_is_that_of_queued_jobs(priority: dict[str, str], name: str) -> None:
    found = manifest(job(**priority), **queues({"pool": "t4", "nominal": 1}))
    assert found["spec"]["template"]["spec"]["priorityClassName"] == name


@pytest.mark.parametrize("each", JOB_PRIORITIES)
def test_every_class_of_jobs_may_be_named(each: Priority) -> None:
    assert manifest(job(priority=each.name))["spec"]["template"]["spec"]["priorityClassName"] == each.name


def test_of_several_pools_it_is_in_one_of_which_its_team_has_enough() -> None:
    more = POOLS | {"t4-more": pool(instanceTypes=["g4dn.4xlarge"])}
    described = cluster(
        pools=more,
        runners={},
        jobs={"train": job(pool=None, gpuType="t4", queue="ml")},
        **queues({"pool": "t4-more", "nominal": 1}),
    )
    assert place_stack_job(load(config(clusters={"usw2": described})), "usw2", "train").chosen.pool == "t4-more", "t4 is cheaper"


# -- whatever the settings ---------------------------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "gpus": st.sampled_from([1, 2, 4, 8]),
            "cpu": st.integers(1, 90),
            "memory": st.integers(4, 1100).map("{}Gi".format),
            "scratch": st.integers(1, 900).map("{}Gi".format),
            "shm": st.integers(1, 64).map("{}Gi".format),
            "deadline": st.integers(1, 48).map("{}h".format),
        },
    ),
    st.sampled_from([{"pool": name} for name in POOLS] + [{"pool": None, "gpuType": name} for name in ("t4", "a100", "l4")]),
)
def test_a_job_is_refused_or_a_job_of_the_pool(held: dict[str, Any], where: dict[str, Any]) -> None:
    try:
        described = fleet(job(**held, **where))
    except FleetError as error:
        paths = [problem.where for problem in error.problems]
        event(f"wrong: {paths}")
        if not all(path.startswith("gpu-ci:clusters.usw2.jobs.train.") for path in paths):
            raise
        return
    try:
        placed = place_stack_job(described, "usw2", "train")
    except JobError:
        assert list(stack_jobs.refusals(described, ()))
        return
    made = placed.manifest()
    kubernetes_validate.validate(made, "1.34", strict=True)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    chosen = described.clusters["usw2"].pools[placed.chosen.pool]
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    assert limits[chosen.resource] == requests[chosen.resource] == str(held.get("gpus", 1))
    assert all(found.count for found in placed.chosen.fits)
    assert not list(stack_jobs.refusals(described, ()))
