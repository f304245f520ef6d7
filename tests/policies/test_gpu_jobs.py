"""Jobs of `fleet.jobs` pass every policy of the pack, whatever their arguments, so none has to be fixed by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings

from fleet.jobs import JobError, create_gpu_job
from policies.rules import RULES, AnyRule, Rule
from tests.builders import reserved
from tests.examples import examples
from tests.fleet.jobs.strategies import good
from tests.policies.harness import CLEAN, Verdict, changed, judge, judge_alone

TOKEN = "kubernetes:batch/v1:Job"  # noqa: S105 - a type token
JUDGES = [rule for rule in RULES if TOKEN in rule.types and (isinstance(rule, Rule) or rule.id == "gpu-limit-ceiling")]
OURS: dict[str, dict[str, Any]] = {"images-pinned": {"registries": ["registry.example.com", "r.example.com:5000"]}}
"""Where a stack's own images come from, which it has to say."""
SEVERAL: dict[str, dict[str, Any]] = OURS | {
    "gpu-limit-ceiling": {"maxPerContainer": 8, "maxPerPod": 8},
    "gpu-mig-resource-known": {"profiles": ["1g.5gb", "3g.40gb"]},
}
"""The other settings of a stack whose jobs may have several GPUs or MIG slices."""
IMAGE = "registry.example.com/agent_bus:1.4.2"


def verdict(rule: AnyRule, job: dict[str, Any], config: dict[str, Any] | None) -> Verdict:
    return judge(rule, TOKEN, job, config) if isinstance(rule, Rule) else judge_alone(rule, TOKEN, job, config)


def faults(job: dict[str, Any], configs: dict[str, dict[str, Any]]) -> list[str]:
    verdicts = {rule.id: verdict(rule, job, configs.get(rule.id)) for rule in JUDGES}
    return [f"{name}: {verdict}" for name, verdict in verdicts.items() if verdict != CLEAN]


def test_all_policies_of_pods_and_jobs_judge() -> None:
    wanted = {
        "gpu-limits-required",
        "gpu-cpu-memory-limits",
        "gpu-toleration-required",
        "gpu-toleration-scope",
        "gpu-node-selector",
        "gpu-job-deadline",
        "gpu-priority-class",
        "gpu-limit-ceiling",
        "gpu-shared-resource-single",
        "gpu-mig-resource-known",
        "runner-no-privileged",
        "images-pinned",
    }
    assert wanted <= {rule.id for rule in JUDGES}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"spot": True, "queue": "research", "workspace": "w", "cache": "c"},
        {"shared": True, "gpu_type": "t4"},
        {"prefer": {"v100": 50, "a100": 100}},
        {"instance_type": ["p3.2xlarge", "p3.8xlarge"]},
    ],
)
def test_a_usual_job_passes_as_it_is(options: dict[str, Any]) -> None:
    assert faults(create_gpu_job("task", IMAGE, **options), OURS) == []


def test_a_job_in_a_pool_passes() -> None:
    assert faults(create_gpu_job("task", IMAGE, 4, "a100", "64Gi", fleet=reserved()), SEVERAL) == []


@settings(max_examples=examples(60))
@given(good())
def test_any_job_passes(given: dict[str, Any]) -> None:
    try:
        job = create_gpu_job(**given)
    except JobError:
        event("no job")
        return
    event("a job")
    assert faults(job, SEVERAL) == []


POD = ("spec", "template", "spec")


@pytest.mark.parametrize(
    ("rule", "path", "value"),
    [
        ("gpu-limits-required", (*POD, "containers", 0, "resources", "limits"), {"memory": "16Gi"}),
        ("gpu-cpu-memory-limits", (*POD, "volumes", 0, "emptyDir", "sizeLimit"), "17Gi"),
        ("gpu-toleration-required", (*POD, "tolerations"), []),
        ("gpu-node-selector", (*POD, "nodeSelector"), {}),
        ("gpu-job-deadline", ("spec", "activeDeadlineSeconds"), 7201),
        ("gpu-priority-class", (*POD, "priorityClassName"), ""),
        ("runner-no-privileged", (*POD, "securityContext", "runAsUser"), 0),
        ("images-pinned", (*POD, "containers", 0, "image"), "registry.example.com/a:latest"),
    ],
)
def test_a_job_that_was_changed_does_not_pass(rule: str, path: tuple[str | int, ...], value: Any) -> None:
    broken = changed(create_gpu_job("task", IMAGE), *path, value)
    assert rule in [fault.partition(":")[0] for fault in faults(broken, OURS)]
