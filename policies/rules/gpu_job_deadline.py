"""gpu-job-deadline: a Job that takes GPUs ends, is cleared away, and is not tried again without end.

Judged: Jobs and CronJobs, their Patch twins and lists. Runners of ARC are no Jobs: GitHub ends what they run.

`activeDeadlineSeconds` is the Job's, for all its tries; the pod's own of the same name ends one try. Without `backoffLimit` a Job
is tried again six times, and one with `backoffLimitPerIndex` without end (Kubernetes API reference, JobSpec). A Job that tells
ArgoCD how to apply it (annotation `argocd.argoproj.io/…`) need not be cleared away: ArgoCD would make it again, and so run it
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .draft import Draft
from .kinds import POD, kind_of
from .places import setting
from .pods import PodSpec, of_gpu_pods, pod_specs, steps, takes_gpus
from .read import Later, bound, keys, shown, walk, whole
from .rule import Args, Rule, Section, Severity

_SPECS = {"Job": ("spec",), "CronJob": ("spec", "jobTemplate", "spec")}
JOBS = frozenset(token for token in POD if kind_of(token) in _SPECS)
_ARGO_CD = "argocd.argoproj.io/"


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a Job: the config property with its largest value, that one's default, the least value that the API takes."""

    name: str
    setting: str
    default: int
    least: int
    meaning: str


_CLEARED = "ttlSecondsAfterFinished"
_FIELDS = (
    _Field("activeDeadlineSeconds", "maxDeadlineSeconds", 7200, 1, "a GPU job ends after at most {} seconds"),
    _Field(_CLEARED, "maxTtlSeconds", 3600, 0, "a finished GPU job is cleared away after at most {} seconds"),
    _Field("backoffLimit", "maxBackoff", 3, 0, "a GPU job is tried again at most {} times"),
)


def _check(args: Args, later: Later) -> Iterator[str]:
    path, config = _SPECS[kind_of(args.resource_type)], args.get_config()
    yield from of_gpu_pods(args.resource_type, args.props, lambda pod, unsure: _faults(pod, path, config, unsure), later)


def _faults(pod: PodSpec, path: tuple[str, ...], config: Mapping[str, Any], later: Later) -> Iterator[str]:
    for field in _FIELDS:
        with later:
            value = walk(pod.owner, *path, field.name)
            if value is None and field.name == _CLEARED and _stays(pod, path):
                continue
            most = bound(config, field.setting, field.default)
            number = whole(value)
            if number is None or not field.least <= number <= most:
                yield (
                    f"{pod.owner_path}{'.'.join(path)}.{field.name} is {shown(value)}: {field.meaning.format(most)} "
                    f"({setting(field.setting)}); write {most} or less"
                )


def _stays(pod: PodSpec, path: tuple[str, ...]) -> bool:
    """Whether it is a Job that ArgoCD would make again. Raises UnknownValueError."""
    return path == _SPECS["Job"] and any(key.startswith(_ARGO_CD) for key in keys(walk(pod.owner, "metadata", "annotations")))


def _mend(args: Args, draft: Draft) -> None:
    """Adds what is absent; what somebody chose stays, and so does the limit of a Job that counts its tries by index."""
    later = Later()
    path, config = _SPECS[kind_of(args.resource_type)], args.get_config()
    for pod in pod_specs(args.resource_type, args.props, later):
        if not takes_gpus(pod, later):
            continue
        for field in _FIELDS:
            with later:
                by_index = field.name == "backoffLimit" and walk(pod.owner, *path, "backoffLimitPerIndex") is not None
                stays = field.name == _CLEARED and _stays(pod, path)
                if not (by_index or stays) and walk(pod.owner, *path, field.name) is None:
                    most = bound(config, field.setting, field.default)
                    draft.put(most, *steps(pod.owner_path), *path, field.name)


RULE = Rule(
    id="gpu-job-deadline",
    order=(Section.SCHEDULING, 100),
    title="GPU jobs end, are cleared away, and are tried a few times",
    severity=Severity.MEDIUM,
    types=JOBS,
    levels={"dev": "remediate", "staging": "mandatory", "prod": "mandatory", "homelab": "mandatory"},
    config={
        field.setting: {
            "type": "integer",
            "minimum": field.least,
            "default": field.default,
            "description": f"The largest {field.name} of a Job that takes GPUs.",
        }
        for field in _FIELDS
    },
    rationale="A job that hangs or fails again and again keeps its GPU node, at the node's full price, until somebody looks.",
    source="https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup",
    fix="Set activeDeadlineSeconds, ttlSecondsAfterFinished and backoffLimit of the Job's spec within the bounds.",
    check=_check,
    remedy=_mend,
)
