"""CI workloads: the set that a `runs-on` reaches as GitHub matches it, and whether that gives what the job asks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.loading.config import load
from fleet.prove.runs_on import RunsOn
from fleet.providers.fleet import Fleet
from tests.builders import ROOT, cluster, config, oke_cluster, oke_pool, pool, read_stack, runner, staging, vm_per_job
from tests.cases import cases
from tests.workflows.ci_workloads import CI_WORKLOADS, CiWorkload, Proof, proof, proofs


def stack(name: str) -> Fleet:
    return load(read_stack(ROOT / f"Pulumi.{name}.yaml"))


PROD = stack("prod")
WORKLOADS = {workload.name: workload for workload in CI_WORKLOADS}
TEST_GPU, DDP = WORKLOADS["test-gpu"], WORKLOADS["ddp"]
TORCHTUNE, JAX = WORKLOADS["torchtune-qwen2.5-1.5b-alpaca"], WORKLOADS["jax-mnist"]


def fleet(**sets: Any) -> Fleet:
    """One OKE cluster, sjc, with the pool a10 and these runner sets."""
    return load(config(clusters={"sjc": oke_cluster(runners=sets)}))


def on(*labels: str, group: str = "", **asks: Any) -> CiWorkload:
    """A workload of one GPU that names these labels."""
    return CiWorkload("job", "job.yml", RunsOn(labels, group), **{"gpus": 1} | asks)


# -- the workloads of this repository --------------------------------------------------------------------------------------


def test_every_workload_fits_prod():
    assert [(found.workload.name, found.runner_set, found.error) for found in proofs(PROD)] == [
        ("test-gpu", "use1/gpu-t4", ""),
        ("ddp", "sjc/oracle-vm-gpu-a10-2", ""),
        ("torchtune-qwen2.5-1.5b-alpaca", "sjc/oracle-vm-gpu-a10-1", ""),
        ("jax-mnist", "sjc/oracle-vm-gpu-a10-1", ""),
    ]


def test_the_check_fits_staging_and_the_blueprints_have_no_set_there():
    by_name = {found.workload.name: found for found in proofs(staging())}
    assert by_name["test-gpu"] == Proof(TEST_GPU, "usw2/gpu-t4", "")
    assert by_name["jax-mnist"] == Proof(
        JAX, "", "no runner set has label oracle-vm-gpu-a10-1 in group GPUs; add the set, or correct runs-on"
    )


def test_the_blueprints_ask_what_the_guide_says():
    assert (TORCHTUNE.gpus, TORCHTUNE.memory) == (1, 122_071), "one A10 and 128 GB, which is not 128 GiB"
    assert 128 * 10**9 <= TORCHTUNE.memory * 2**20 < 128 * 10**9 + 2**20
    assert (JAX.gpus, JAX.cpu) == (1, 8000)
    assert {TORCHTUNE.runs_on, JAX.runs_on} == {RunsOn(("oracle-vm-gpu-a10-1",), "GPUs")}
    assert DDP.runs_on == RunsOn(("oracle-vm-gpu-a10-2",), "GPUs")


def test_names_are_told_apart():
    assert len(WORKLOADS) == len(CI_WORKLOADS)


# -- jobs without room -----------------------------------------------------------------------------------------------------

A10_1 = "sjc/oracle-vm-gpu-a10-1"


@cases(
    ("workload", "error"),
    [
        (replace(DDP, runs_on=TORCHTUNE.runs_on), f"asks for 2 GPUs, {A10_1} gives 1"),
        (replace(TORCHTUNE, gpu_memory=40 * 1024), f"asks for 40Gi of memory on each GPU, {A10_1} gives 22888Mi"),
        (replace(TORCHTUNE, memory=256 * 1024), f"asks for 256Gi of memory, {A10_1} gives 240Gi"),
        (replace(JAX, cpu=32_000), f"asks for 32 CPU, {A10_1} gives 30"),
        (replace(JAX, disk=500 * 1024), f"asks for 500Gi of disk, {A10_1} gives 400Gi"),
        (replace(JAX, gpus=4, cpu=64_500), f"asks for 4 GPUs, {A10_1} gives 1; asks for 64500m CPU, {A10_1} gives 30"),
    ],
)
def test_a_workload_that_asks_more_than_the_machine_has_is_refused_with_every_reason(workload, error):
    assert proof(PROD, workload) == Proof(workload, A10_1, error)


def test_what_the_machine_has_exactly_fits():
    most = replace(TORCHTUNE, gpus=1, gpu_memory=22_888, cpu=30_000, memory=240 * 1024, disk=400 * 1024)
    assert proof(PROD, most).error == ""


def test_memory_that_a_pod_is_only_limited_to_is_not_given():
    workload = replace(TORCHTUNE, runs_on=RunsOn(("gpu-a10g",)), kind=False, memory=24 * 1024, cpu=4000, disk=0)
    assert proof(PROD, workload) == Proof(
        workload, "use1/gpu-a10g", "asks for 24Gi of memory, use1/gpu-a10g gives 16Gi (its limit of 24Gi is not reserved for it)"
    )


def test_cpu_that_a_pod_is_only_limited_to_is_not_given():
    assert proof(PROD, on("gpu-a10g", cpu=8_000)).error == (
        "asks for 8 CPU, use1/gpu-a10g gives 4 (its limit of 8 is not reserved for it)"
    )


def test_a_pod_makes_no_kind_clusters():
    assert proof(PROD, on("gpu-a10g", kind=True)).error == (
        "creates kind clusters, which jobs of use1/gpu-a10g cannot; use a set of machines with nvkind: true"
    )


def test_a_machine_without_nvkind_makes_none_either():
    found = fleet(vms=vm_per_job(nvkind=False))
    assert proof(found, on("vms", kind=True)).error.startswith("creates kind clusters, which jobs of sjc/vms cannot; ")
    assert proof(fleet(vms=vm_per_job()), on("vms", kind=True)).error == ""


def test_the_worst_of_several_shapes_counts():
    found = fleet(vms=vm_per_job(shapes=["BM.GPU4.8", "BM.GPU.B4.8"]))
    assert proof(found, on("vms", cpu=200_000)).error == "asks for 200 CPU, sjc/vms gives 128"


def test_a_set_that_cannot_be_placed_gives_nothing():
    held = config(clusters={"usw2": cluster(runners={"gpu-t4": runner(gpus=2)})})
    found = proof(load(held), on("gpu-t4"))
    assert found.error.startswith("usw2/gpu-t4 itself cannot be placed: asks for 2 GPUs, g4dn.2xlarge has 1")


# -- shared GPUs -----------------------------------------------------------------------------------------------------------


def shared(**sharing: Any) -> Fleet:
    """One EKS cluster whose pool of T4 is shared."""
    return load(config(clusters={"usw2": cluster(pools={"t4": pool(sharing=sharing)})}))


def test_a_share_is_no_gpu_of_ones_own():
    held = shared(strategy="time-slicing", replicas=2)
    assert proof(held, on("gpu-t4")).error == ""
    assert proof(held, on("gpu-t4", whole=True)).error == (
        "needs whole GPUs, and usw2/gpu-t4 gives shares of GPUs (time-slicing); use a pool without sharing"
    )


def test_a_share_has_its_part_of_the_memory():
    held = shared(strategy="mps", replicas=4)
    memory = 16_384 // 4
    assert proof(held, on("gpu-t4", gpu_memory=memory)).error == ""
    assert proof(held, on("gpu-t4", gpu_memory=memory + 1)).error == (
        "asks for 4097Mi of memory on each GPU, usw2/gpu-t4 gives 4Gi"
    )


def test_two_slices_are_not_two_gpus():
    held = load(
        config(
            clusters={
                "usw2": cluster(
                    pools={"t4": pool(sharing={"strategy": "time-slicing", "replicas": 2, "allowSeveral": True})},
                    runners={"gpu-t4": runner(gpus=2)},
                )
            }
        )
    )
    workload = replace(DDP, runs_on=RunsOn(("gpu-t4",)), disk=0)
    assert proof(held, workload).error.startswith("needs whole GPUs, ")


# -- which set a job reaches -----------------------------------------------------------------------------------------------


@cases(
    ("value", "found"),
    [
        ("gpu-t4", RunsOn(("gpu-t4",))),
        (["self-hosted", "gpu"], RunsOn(("self-hosted", "gpu"))),
        ({"labels": "gpu-t4", "group": "GPUs"}, RunsOn(("gpu-t4",), "GPUs")),
        ({"labels": ["a", "b"]}, RunsOn(("a", "b"))),
        ({"group": "GPUs"}, RunsOn((), "GPUs")),
    ],
)
def test_every_form_of_runs_on_is_read(value, found):
    assert RunsOn.read(value) == found


@cases(
    "value", [None, "", [], {}, 4, ["a", 4], {"labels": "a", "groups": "b"}, {"group": 4}, "${{ inputs.runs-on }}", ["${{ x }}"]]
)
def test_what_is_no_runs_on_is_refused(value):
    with pytest.raises(ValueError, match="not a runs-on: "):
        RunsOn.read(value)


@given(st.data())
def test_case_does_not_count(data):
    def cased(text: str) -> str:
        upper = data.draw(st.integers(0, 2 ** len(text) - 1))
        return "".join(letter.upper() if upper >> place & 1 else letter.lower() for place, letter in enumerate(text))

    workload = data.draw(st.sampled_from(CI_WORKLOADS))
    runs_on = RunsOn(tuple(map(cased, workload.runs_on.labels)), cased(workload.runs_on.group))
    assert proof(PROD, replace(workload, runs_on=runs_on)).runner_set == proof(PROD, workload).runner_set


def test_case_of_a_sets_own_labels_does_not_count_either():
    assert proof(fleet(vms=vm_per_job(labels=["Vision"])), on("VMS", "vision")).runner_set == "sjc/vms"


@given(st.sets(st.sampled_from(["gpu-t4", "self-hosted", "linux", "x64", "gpu", "cuda"]), min_size=1))
def test_any_labels_of_a_set_reach_it_and_no_other(labels):
    assert proof(PROD, on(*labels)).runner_set == "use1/gpu-t4"


@given(
    st.sets(st.sampled_from(["gpu-t4", "linux", "gpu-a10g", "oracle-vm-gpu-a10-1"]), min_size=1),
    st.sampled_from(["", "GPUs", "default"]),
)
def test_a_job_reaches_a_set_that_has_all_its_labels_and_its_group_or_none(labels, group):
    found = proof(PROD, on(*labels, group=group))
    held = {
        f"{cluster}/{name}": {name, *runner.labels}
        for cluster, name, runner in PROD.runner_sets()
        if group in ("", PROD.group_of(cluster, runner))
    }
    fitting = [name for name, own in held.items() if labels <= own]
    assert found.runner_set == (fitting[0] if len(fitting) == 1 else "")
    assert (found.error == "") == (len(fitting) == 1)


def test_a_label_that_no_set_has_reaches_none():
    assert proof(PROD, on("gpu-t4", "windows")) == Proof(
        on("gpu-t4", "windows"), "", "no runner set has labels gpu-t4, windows; add the set, or correct runs-on"
    )


def test_a_set_in_another_group_is_named():
    workload = on("oracle-vm-gpu-a10-1", group="default")
    assert proof(PROD, workload).error == (
        "no runner set has label oracle-vm-gpu-a10-1 in group default, only sjc/oracle-vm-gpu-a10-1 in group GPUs; "
        "add the set, or correct runs-on"
    )


def test_a_group_without_labels_is_ambiguous_where_it_has_several_sets():
    found = proof(fleet(one=vm_per_job(group="GPUs"), two=vm_per_job(group="GPUs")), on(group="GPUs"))
    assert found == Proof(
        on(group="GPUs"), "", "any label in group GPUs: sjc/one and sjc/two all match; name one set and its group"
    )


def test_a_group_without_labels_reaches_its_only_set():
    found = fleet(one=vm_per_job(group="GPUs"), two=vm_per_job(group="others"))
    assert proof(found, on(group="GPUs")).runner_set == "sjc/one"
    assert (
        proof(found, on(group="absent")).error == "no runner set has any label in group absent; add the set, or correct runs-on"
    )


def test_sets_of_one_name_in_two_groups_need_the_group():
    a = oke_cluster(runners={"vms": vm_per_job(group="a")}, pools={})
    b = oke_cluster(runners={"vms": vm_per_job(group="b")}, pools={"a10": oke_pool()})
    held = load(config(clusters={"one": a, "two": b}))
    assert proof(held, on("vms")).error == "label vms: one/vms and two/vms all match; name one set and its group"
    assert proof(held, on("vms", group="B")).runner_set == "two/vms"
