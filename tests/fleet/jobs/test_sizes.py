"""Names, profiles and sizes of jobs."""

from __future__ import annotations

import csv
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.charts.device_plugin import PLUGIN_POD
from fleet.facts import hardware
from fleet.facts.pods import Requests
from fleet.facts.versions import daemonsets
from fleet.jobs import gpu_job
from fleet.jobs.ask import GpuAsk
from fleet.jobs.profiles import COUNTS, PROFILES
from fleet.jobs.spec import job_name
from fleet.prove.placement import Host, fit
from fleet.prove.pod import Request
from tests.builders import ROOT
from tests.cases import cases


def _ask(**arguments: Any) -> GpuAsk:
    return gpu_job("a", "registry.example.com/a:1", **arguments).ask


# -- names ---------------------------------------------------------------------------------------------------------------


@cases(
    ("task", "name"),
    [
        ("train-resnet", "train-resnet"),
        ("7", "7"),
        ("x" * 57, "x" * 57),
        # Eight digits of the task's SHA-256, where its own name would not do.
        ("ml_task_123", "ml-task-123-87c95c8d"),
        ("ML-task", "ml-task-20b6b746"),
        ("-a-", "a-a75a468f"),
        ("日本", "job-cf2abf0c"),
        ("x" * 58, "x" * 48 + "-5ef8b2e5"),
    ],
)
def test_a_task_has_a_name_that_kubernetes_takes(task: str, name: str) -> None:
    assert job_name(task) == name


@given(st.text(min_size=1, max_size=120), st.text(min_size=1, max_size=120))
def test_names_are_host_names_with_room_for_a_pods_suffix_and_tell_tasks_apart(one: str, other: str) -> None:
    for task in (one, other):
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", job_name(task))
        assert len(f"{job_name(task)}-abcde") <= 63
    assert (job_name(one) == job_name(other)) is (one == other)


# -- profiles ------------------------------------------------------------------------------------------------------------


def test_v100_and_a100_have_what_seed_001_gives_them() -> None:
    assert (PROFILES["v100"].cpu, PROFILES["v100"].memory) == (Request(4000, 8000), Request(8 * 1024, 16 * 1024))
    assert (PROFILES["a100"].cpu, PROFILES["a100"].memory) == (Request(8000, 16_000), Request(16 * 1024, 32 * 1024))


def test_every_nvidia_gpu_of_the_table_has_a_profile() -> None:
    with (ROOT / "fleet" / "facts" / "data" / "gpus.csv").open(encoding="utf-8", newline="") as table:
        nvidia = {row["name"]: row["accelerator"] for row in csv.DictReader(table) if row["vendor"] == "nvidia"}
    assert {profile.gpu: profile.accelerator for profile in PROFILES.values()} == nvidia
    assert set(PROFILES) == {name.lower().replace(" ", "-") for name in nvidia}


@cases(
    ("name", "cores", "gibibytes"),
    [
        # What these models have had from the first.
        *(("t4", 4, 12), ("a10g", 4, 12), ("l4", 4, 12), ("a10", 16, 32), ("h100", 16, 64)),
        # All vCPUs and three quarters of the memory of the smallest share of a machine: 4 and 32 GiB, 8 and 64, 24 and 64.
        *(("l40s", 4, 24), ("rtx-pro-6000", 8, 48)),
        # Seed 001's, because no table has a machine with this GPU.
        ("rtx-3090", 8, 16),
        # 36 vCPUs and 240 GiB for each GPU: no profile is larger than that of an H100.
        ("gb200", 16, 64),
    ],
)
def test_a_profile_has_these_limits(name: str, cores: int, gibibytes: int) -> None:
    assert PROFILES[name].cpu == Request(cores * 500, cores * 1000)
    assert PROFILES[name].memory == Request(gibibytes * 512, gibibytes * 1024)


SMALLEST = {
    "t4": "g4dn.xlarge",
    "a10": "VM.GPU.A10.1",
    "a10g": "g5.xlarge",
    "l4": "g6.xlarge",
    "l40s": "g6e.xlarge",
    "p100": "VM.GPU2.1",
    "v100": "p3.2xlarge",
    "a100": "p4d.24xlarge",
    "h100": "p5.4xlarge",
    "h200": "p5e.48xlarge",
    "b200": "p6-b200.48xlarge",
    "b300": "p6-b300.48xlarge",
    "gb200": "BM.GPU.GB200.4",
    "gb300": "BM.GPU.GB300.4",
    "rtx-pro-6000": "g7e.2xlarge",
}
_DAEMONSETS: dict[str, tuple[Requests, ...]] = {
    "aws": (*daemonsets("eks"), PLUGIN_POD),
    "oci": daemonsets("oke"),
}
"""What GPU nodes run: on EKS with the device plugin's chart, on OKE with its own plugin."""


def _of(gpu: str) -> list[hardware.Machine]:
    return [machine for machine in hardware.machines() if machine.gpu and machine.gpu.name == PROFILES[gpu].gpu]


def _holds(machine: hardware.Machine, count: int, gpu: str) -> bool:
    host = Host("", (machine,), 1, "on-demand", 200 * 1024, _DAEMONSETS[machine.cloud])
    return fit(_ask(gpu_count=count, gpu_type=gpu), machine, host).count > 0


@cases("gpu", sorted(SMALLEST))
def test_a_profile_fits_the_smallest_machine_of_its_gpu_beside_the_daemonsets(gpu: str) -> None:
    least = min(_of(gpu), key=lambda machine: (machine.gpus, machine.memory_mib, machine.vcpus))
    assert least.name == SMALLEST[gpu]
    assert _holds(least, 1, gpu)


@cases("gpu", sorted(SMALLEST))
def test_a_limit_is_not_above_what_the_smallest_machine_has(gpu: str) -> None:
    machine, profile = hardware.machine(SMALLEST[gpu]), PROFILES[gpu]
    assert profile.cpu.limit <= machine.vcpus * 1000
    assert profile.memory.limit < machine.memory_mib


@cases("gpu", sorted(SMALLEST))
@cases("count", COUNTS)
def test_several_gpus_with_their_profiles_fit_every_machine_that_has_as_many(gpu: str, count: int) -> None:
    able = [machine for machine in _of(gpu) if machine.gpus >= count]
    assert [machine.name for machine in able if not _holds(machine, count, gpu)] == []


# -- sizes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "cpu", "memory"),
    [
        # Seed 001's call: limits of the profile, requests half of them.
        ({"memory": "16Gi", "cpu": "8000m"}, Request(4000, 8000), Request(8192, 16384)),
        ({"gpu_count": 4}, Request(16_000, 32_000), Request(32768, 65536)),
        ({"gpu_count": 4, "gpu_type": "a100", "memory": "64Gi"}, Request(32_000, 64_000), Request(32768, 65536)),
        ({"memory": "24Gi", "memory_request": "20Gi"}, Request(4000, 8000), Request(20480, 24576)),
        ({"memory_request": "12Gi"}, Request(4000, 8000), Request(12288, 16384)),
        ({"cpu": 3}, Request(1500, 3000), Request(8192, 16384)),
        ({"cpu_request": "500m"}, Request(500, 8000), Request(8192, 16384)),
        # A GPU wants 4Gi at least, so the half is not enough.
        ({"memory": "6Gi"}, Request(4000, 8000), Request(4096, 6144)),
        ({"memory": "10001Mi", "cpu": "1m"}, Request(1, 1), Request(5001, 10001)),
    ],
)
def test_what_is_given_is_a_limit_and_the_profile_says_the_rest(given: dict[str, Any], cpu: Request, memory: Request) -> None:
    ask = _ask(**given)
    assert (ask.cpu, ask.memory) == (cpu, memory)


@pytest.mark.parametrize(
    ("given", "shm"),
    [
        ({}, 2048),
        ({"gpu_type": "a100"}, 4096),
        ({"memory": "40Gi"}, 5120),
        ({"shm": "4Gi"}, 4096),
        ({"shm": "0"}, 0),
        ({"shm": 0}, 0),
    ],
)
def test_shared_memory_is_an_eighth_of_the_limit_as_seed_001_has_it_unless_it_is_given(given: dict[str, Any], shm: int) -> None:
    assert _ask(**given).shm == shm


def test_a_queued_job_has_the_class_of_queued_jobs_and_another_that_of_runners() -> None:
    assert gpu_job("a", "a:1").priority_class == "gpu-ci-runner"
    assert gpu_job("a", "a:1", queue="team").priority_class == "medium-priority"
    assert gpu_job("a", "a:1", queue="team", priority_class="high-priority").priority_class == "high-priority"


def test_a_job_on_spot_counts_its_own_failures_alone_unless_told_otherwise() -> None:
    assert gpu_job("a", "a:1").restart_policy == "OnFailure"
    assert gpu_job("a", "a:1", spot=True).restart_policy == "Never"
    assert gpu_job("a", "a:1", spot=True, restart_policy="OnFailure").restart_policy == "OnFailure"
