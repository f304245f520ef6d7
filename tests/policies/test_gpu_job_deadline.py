"""gpu-job-deadline: each bound absent, too large and wrong, in Jobs and CronJobs, and what the remedy adds."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.scheduling import DELETION_PROPAGATION, SKIP_AWAIT
from fleet.render.gitops.manifest import SYNC_OPTIONS, WAVE
from policies.rules.gpu_job_deadline import JOBS, RULE
from tests.policies.cases import Case
from tests.policies.fixtures import CPU_POD, CRON_JOB, GPU, GPU_POD, JOB
from tests.policies.harness import CLEAN, REMOVE, UNKNOWN, Verdict, at, changed, config_of, judge, remedied, said, spelled
from tests.policies.suite import Suite

BOUNDS = {"activeDeadlineSeconds": 7200, "ttlSecondsAfterFinished": 3600, "backoffLimit": 3}
SETTINGS = {
    "activeDeadlineSeconds": "maxDeadlineSeconds",
    "ttlSecondsAfterFinished": "maxTtlSeconds",
    "backoffLimit": "maxBackoff",
}
MEANING = {
    "activeDeadlineSeconds": "a GPU job ends after at most {} seconds",
    "ttlSecondsAfterFinished": "a finished GPU job is deleted after at most {} seconds",
    "backoffLimit": "a GPU job is retried at most {} times",
}
EACH_FIELD = pytest.mark.parametrize("field", BOUNDS)


def fault(field: str, shown: str = "not set", path: str = "spec", most: int | None = None) -> str:
    bound = BOUNDS[field] if most is None else most
    setting = config_of(RULE.id, SETTINGS[field])
    return f"{path}.{field} is {shown}: {MEANING[field].format(bound)} ({setting}); write {bound} or less"


def job(token: str = JOB, spec: dict[str, Any] = GPU_POD, bounds: dict[str, Any] = BOUNDS) -> dict[str, Any]:
    held: dict[str, Any] = {**bounds, "template": {"spec": spec}}
    props = {"spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": held}} if "CronJob" in token else held}
    return {"items": [props]} if token.endswith("List") else props


def spec_of(token: str) -> tuple[str | int, ...]:
    path: tuple[str | int, ...] = ("spec", "jobTemplate", "spec") if "CronJob" in token else ("spec",)
    return ("items", 0, *path) if token.endswith("List") else path


def shown_path(token: str) -> str:
    return spelled(spec_of(token))


def judged(props: dict[str, Any], **config: Any) -> Verdict:
    return judge(RULE, JOB, props, config)


def test_the_kinds_are_jobs_of_every_version() -> None:
    assert {token.rpartition(":")[2] for token in JOBS} == {
        f"{kind}{suffix}" for kind in ("Job", "CronJob") for suffix in ("", "Patch", "List")
    }


@EACH_FIELD
@pytest.mark.parametrize("token", [JOB, CRON_JOB, "kubernetes:batch/v1:JobList"])
def test_a_bound_that_is_absent_is_told(field: str, token: str) -> None:
    props = changed(job(token), *spec_of(token), field, REMOVE)
    assert judge(RULE, token, props) == said(fault(field, path=shown_path(token)))


@EACH_FIELD
@pytest.mark.parametrize("value", ["soon", -1, 1.5, True, [1], {}])
def test_a_bound_that_is_none_is_told(field: str, value: Any) -> None:
    (message,) = judged(changed(job(), "spec", field, value)).messages
    assert message.startswith(f"spec.{field} is ")


@EACH_FIELD
def test_a_bound_has_a_bound(field: str) -> None:
    above = BOUNDS[field] + 1
    assert judged(changed(job(), "spec", field, above)) == said(fault(field, str(above)))
    assert judged(changed(job(), "spec", field, above), **{SETTINGS[field]: above}) == CLEAN
    assert judged(job(), **{SETTINGS[field]: 1}) == said(fault(field, str(BOUNDS[field]), most=1))


def test_a_job_has_to_have_time_and_may_be_cleared_at_once() -> None:
    assert judged(job(bounds=BOUNDS | {"activeDeadlineSeconds": 0})) == said(fault("activeDeadlineSeconds", "0"))
    assert judged(job(bounds=BOUNDS | {"ttlSecondsAfterFinished": 0, "backoffLimit": 0})) == CLEAN


def test_the_deadline_of_a_pod_is_not_the_jobs() -> None:
    props = changed(job(spec=GPU_POD | {"activeDeadlineSeconds": 60}), "spec", "activeDeadlineSeconds", REMOVE)
    assert judged(props) == said(fault("activeDeadlineSeconds"))


def delivered(token: str = JOB, annotation: str = WAVE, bounds: dict[str, Any] = BOUNDS) -> dict[str, Any]:
    """One with something for ArgoCD."""
    held = job(token, bounds=bounds)
    annotated = {"metadata": {"annotations": {annotation: "0"}}}
    return {"items": [held["items"][0] | annotated]} if token.endswith("List") else held | annotated


KEPT = {field: bound for field, bound in BOUNDS.items() if field != "ttlSecondsAfterFinished"}


@pytest.mark.parametrize("token", [token for token in sorted(JOBS) if "CronJob" not in token])
def test_a_job_that_argo_cd_would_make_again_need_not_be_cleared_away(token: str) -> None:
    assert judge(RULE, token, delivered(token, bounds=KEPT)) == CLEAN
    assert remedied(RULE, token, delivered(token, bounds=KEPT)) is None
    assert judge(RULE, token, delivered(token, bounds={})).messages == tuple(fault(each, path=shown_path(token)) for each in KEPT)
    assert remedied(RULE, token, delivered(token, bounds={})) == delivered(token, bounds=KEPT)


@pytest.mark.parametrize("annotation", [WAVE, SYNC_OPTIONS, "argocd.argoproj.io/tracking-id", SKIP_AWAIT, DELETION_PROPAGATION])
def test_what_only_argo_cd_or_pulumi_reads_says_that_they_would_make_it_again(annotation: str) -> None:
    assert judged(delivered(annotation=annotation, bounds=KEPT)) == CLEAN
    assert remedied(RULE, JOB, delivered(annotation=annotation, bounds=KEPT)) is None
    assert judged(delivered(annotation=f"example.com/{annotation}", bounds=KEPT)) == said(fault("ttlSecondsAfterFinished"))


def test_what_a_job_of_argo_cds_sets_has_its_bounds() -> None:
    assert judged(delivered(bounds=dict.fromkeys(BOUNDS, 9_000))) == said(*(fault(field, "9000") for field in BOUNDS))


def test_a_cron_jobs_jobs_are_not_argo_cds() -> None:
    path = "spec.jobTemplate.spec"
    assert judge(RULE, CRON_JOB, delivered(CRON_JOB, bounds=KEPT)) == said(fault("ttlSecondsAfterFinished", path=path))


def test_unknown_annotations_leave_it_open() -> None:
    path = ("metadata", "annotations")
    assert judge(RULE, JOB, delivered(bounds=KEPT), unknown=path) == said(unknown=".".join(path))
    assert judge(RULE, JOB, delivered(), unknown=path) == CLEAN


def test_a_job_without_gpus_may_take_its_time() -> None:
    assert judged(job(spec=CPU_POD, bounds={})) == CLEAN


@EACH_FIELD
def test_an_unknown_bound_leaves_it_open(field: str) -> None:
    assert judge(RULE, JOB, job(), unknown=("spec", field)) == said(unknown=f"spec.{field}")
    assert judge(RULE, JOB, job(spec=CPU_POD), unknown=("spec", field)) == CLEAN


def test_an_unknown_limit_may_make_it_a_gpu_job() -> None:
    path = ("spec", "template", "spec", "containers", 0, "resources")
    assert judge(RULE, JOB, job(bounds={}), unknown=path) == said(unknown=spelled(path))
    assert judge(RULE, JOB, job(), unknown=path) == CLEAN
    found = judge(RULE, JOB, job(bounds={}), unknown=(*path, "limits", GPU))
    assert found.messages == tuple(map(fault, BOUNDS)), "its request shows it"


@pytest.mark.parametrize("token", sorted(JOBS))
def test_the_remedy_adds_what_is_absent(token: str) -> None:
    assert remedied(RULE, token, job(token, bounds={})) == job(token, bounds=BOUNDS)
    after = remedied(RULE, token, job(token, bounds={"backoffLimit": 1}), {"maxTtlSeconds": 60})
    assert after == job(token, bounds=BOUNDS | {"backoffLimit": 1, "ttlSecondsAfterFinished": 60})


def test_the_remedy_leaves_alone_what_somebody_chose_or_nobody_knows() -> None:
    assert remedied(RULE, JOB, job(bounds=dict.fromkeys(BOUNDS, 99_999))) is None
    assert remedied(RULE, JOB, job(bounds=dict.fromkeys(BOUNDS, UNKNOWN))) is None
    assert remedied(RULE, JOB, job(spec=CPU_POD, bounds={})) is None
    assert remedied(RULE, JOB, job(spec=changed(GPU_POD, "containers", UNKNOWN), bounds={})) is None


def test_the_remedy_puts_no_limit_over_one_by_index() -> None:
    after = remedied(RULE, JOB, job(bounds={"backoffLimitPerIndex": 1}))
    assert after is not None
    assert "backoffLimit" not in at(after, ("spec",))
    assert judged(after) == said(fault("backoffLimit"))


def test_a_bound_of_the_config_that_is_none_leaves_the_default() -> None:
    assert judged(job(), **dict.fromkeys(SETTINGS.values(), "long")) == CLEAN


SUITE = Suite(
    RULE,
    passing=(
        *(Case(token, job(token)) for token in sorted(JOBS)),
        Case(JOB, job(spec=CPU_POD, bounds={})),
        Case(JOB, delivered(bounds=KEPT)),
        *(Case(JOB, job(bounds=BOUNDS | {field: 9_000}), config={SETTINGS[field]: 9_000}) for field in BOUNDS),
    ),
    violating=(
        *(
            Case(token, job(token, bounds={}), tuple(fault(field, path=shown_path(token)) for field in BOUNDS))
            for token in sorted(JOBS)
        ),
        *(Case(JOB, job(bounds=BOUNDS | {field: 9_000}), (fault(field, "9000"),), unremedied=True) for field in BOUNDS),
        *(Case(JOB, changed(job(), "spec", field, REMOVE), (fault(field),)) for field in BOUNDS),
    ),
)
