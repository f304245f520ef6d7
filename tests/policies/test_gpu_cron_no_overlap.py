"""gpu-cron-no-overlap: each concurrency policy in every kind of CronJob, with GPUs and without."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.gpu_cron_no_overlap import CRON_JOBS, RULE
from tests.policies.cases import Case
from tests.policies.fixtures import CPU_POD, CRON_JOB, GPU_POD
from tests.policies.harness import CLEAN, judge, said
from tests.policies.suite import Suite

OVERLAPS = (
    "if a run takes longer than the schedule's interval, a second run starts and takes more GPUs; "
    "write Forbid, or Replace to end the earlier run"
)


def cron_job(token: str = CRON_JOB, pod: dict[str, Any] = GPU_POD, **spec: Any) -> dict[str, Any]:
    props = {"spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}, **spec}}
    return {"items": [props]} if token.endswith("List") else props


def fault(token: str, shown: str = "not set") -> str:
    return f"{'items[0].' if token.endswith('List') else ''}spec.concurrencyPolicy is {shown}: {OVERLAPS}"


def test_the_kinds_are_cron_jobs_of_every_version() -> None:
    assert {token.rpartition(":")[2] for token in CRON_JOBS} == {"CronJob", "CronJobPatch", "CronJobList"}
    assert {token.split(":")[1] for token in CRON_JOBS} == {"batch/v1", "batch/v1beta1", "batch/v2alpha1"}


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
def test_one_run_at_a_time_passes(policy: str) -> None:
    assert judge(RULE, CRON_JOB, cron_job(concurrencyPolicy=policy)) == CLEAN


@pytest.mark.parametrize(("policy", "shown"), [("Allow", '"Allow"'), ("forbid", '"forbid"'), (True, "true"), ([], "a list")])
def test_any_other_policy_overlaps(policy: Any, shown: str) -> None:
    assert judge(RULE, CRON_JOB, cron_job(concurrencyPolicy=policy)) == said(fault(CRON_JOB, shown))


def test_a_cron_job_without_gpus_may_overlap() -> None:
    assert judge(RULE, CRON_JOB, cron_job(pod=CPU_POD)) == CLEAN


def test_an_unknown_policy_leaves_it_open_for_gpu_jobs_alone() -> None:
    unknown = ("spec", "concurrencyPolicy")
    assert judge(RULE, CRON_JOB, cron_job(concurrencyPolicy="Allow"), unknown=unknown) == said(unknown=".".join(unknown))
    assert judge(RULE, CRON_JOB, cron_job(pod=CPU_POD, concurrencyPolicy="Allow"), unknown=unknown) == CLEAN


SUITE = Suite(
    RULE,
    passing=(
        *(Case(token, cron_job(token, concurrencyPolicy="Forbid")) for token in sorted(CRON_JOBS)),
        Case(CRON_JOB, cron_job(concurrencyPolicy="Replace")),
        Case(CRON_JOB, cron_job(pod=CPU_POD)),
    ),
    violating=(
        *(Case(token, cron_job(token), (fault(token),)) for token in sorted(CRON_JOBS)),
        Case(CRON_JOB, cron_job(concurrencyPolicy="Allow"), (fault(CRON_JOB, '"Allow"'),)),
    ),
)
