"""gpu-limit-ceiling: no container, pod, workload or queue takes more GPUs than the stack allows one.

Judged: every kind with a pod spec, ARC's runner set, the runner pod in the values of chart gha-runner-scale-set, Kueue's
queues. GPUs and slices of whatever resource count alike.

A pod takes what the scheduler counts: its regular containers and sidecars together, or what an init container needs beside the
sidecars before it, if that is more. A workload is its pods at once: `replicas`, `parallelism`, `maxRunners`. A DaemonSet counts
once, for its nodes bound it. A runner set without `maxRunners` is unbounded, and so is one whose `maxRunners` is text: the chart
drops that. A launcher's pod takes no GPU of the cluster; what it boots is for gpu-pool-max-size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pulumi_policy import ReportViolation, ResourceValidationArgs, Severity

from fleet.facts.scheduling import is_gpu_resource

from .kinds import HELM, POD, QUEUES, RUNNER_SET, kind_of
from .places import setting
from .pods import REGULAR, Container, PodSpec, containers_of, gpu_count, pod_specs
from .read import Later, bound, items, quantity, shown, text, walk, whole
from .rule import Rule

PER_CONTAINER, PER_POD, PER_WORKLOAD, PER_QUEUE = 1, 1, 8, 8

# Where each kind says how many of its pods run at once, from what owns the pod; one where it says nothing.
_COUNTS: dict[str, tuple[str, ...]] = {
    "Job": ("spec", "parallelism"),
    "CronJob": ("spec", "jobTemplate", "spec", "parallelism"),
    **dict.fromkeys(("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"), ("spec", "replicas")),
}
_RUNNERS: dict[str, tuple[str, ...]] = {
    "AutoscalingRunnerSet": ("spec", "maxRunners"),
    **dict.fromkeys(map(kind_of, HELM), ("maxRunners",)),
}
"""Of runner sets, which are unbounded where they say nothing."""


@dataclass(frozen=True, slots=True)
class _Ceilings:
    container: int
    pod: int
    workload: int


def _check(args: ResourceValidationArgs, report: ReportViolation) -> None:
    later = Later()
    config = args.get_config()
    if args.resource_type in QUEUES:
        faults = _queue_faults(args.props, bound(config, "maxPerQueue", PER_QUEUE), later)
    else:
        ceilings = _Ceilings(
            bound(config, "maxPerContainer", PER_CONTAINER),
            bound(config, "maxPerPod", PER_POD),
            bound(config, "maxPerWorkload", PER_WORKLOAD),
        )
        pods = pod_specs(args.resource_type, args.props, later)
        faults = (fault for pod in pods for fault in _pod_faults(pod, _kind(args.resource_type, pod), ceilings, later))
    for fault in faults:
        report(fault, None)
    later.settle()


def _kind(token: str, pod: PodSpec) -> str:
    """The kind that says how many of these pods there are; of listeners there is one a set."""
    return "" if pod.owner_path.endswith("listenerTemplate.") else kind_of(token)


def _pod_faults(pod: PodSpec, kind: str, ceilings: _Ceilings, later: Later) -> Iterator[str]:
    held = [(container, gpu_count(container, later)) for container in containers_of(pod, later)]
    greedy = [(container, gpus) for container, gpus in held if gpus > ceilings.container]
    for container, gpus in greedy:
        yield (
            f"{pod.path}.{container.path}.resources asks for too many GPUs ({gpus}): a container takes at most "
            f"{ceilings.container}; ask for fewer, or raise {setting('maxPerContainer')}"
        )
    gpus = _effective(held, later)
    if gpus > ceilings.pod and not greedy:
        yield (
            f"{pod.path} asks for too many GPUs ({gpus} in all): a pod takes at most {ceilings.pod}; ask for fewer, or raise "
            f"{setting('maxPerPod')}"
        )
    if gpus:
        yield from _workload_faults(pod, kind, gpus, ceilings.workload, later)


def _effective(held: list[tuple[Container, int]], later: Later) -> int:
    """What the scheduler counts for the pod; at least, where a restart policy is unknown."""
    together = starting = 0
    for container, gpus in held:
        sidecar = False
        if gpus and container.field != REGULAR:
            with later:
                sidecar = text(walk(container.body, "restartPolicy")) == "Always"
        if sidecar or container.field == REGULAR:
            together += gpus
        else:
            starting = max(starting, together + gpus)
    return max(together, starting)


def _workload_faults(pod: PodSpec, kind: str, gpus: int, most: int, later: Later) -> Iterator[str]:
    path = _RUNNERS.get(kind) or _COUNTS.get(kind)
    if path is None:
        return
    with later:
        asked = walk(pod.owner, *path)
        place = f"{pod.owner_path}{'.'.join(path)} is {shown(asked)} (of pods with {_gpus(gpus)})"
        mend = f"write {most // gpus} at most" if most >= gpus else "ask for fewer GPUs"
        if kind in _RUNNERS and (isinstance(asked, str) or whole(asked) is None):
            yield f"{place}: only a whole number bounds the runners; {mend}, as a number without quotes"
        elif (number := whole(asked) or 0) > 1 and number * gpus > most:
            yield f"{place}: together they take at most {_gpus(most)}; {mend}, or raise {setting('maxPerWorkload')}"


def _queue_faults(props: Any, most: int, later: Later) -> Iterator[str]:
    total = 0
    with later:
        for resource in _nested(walk(props, "spec"), ("resourceGroups", "flavors", "resources"), later):
            with later:
                if is_gpu_resource(text(walk(resource, "name"))):
                    total += max(int(quantity(walk(resource, "nominalQuota")) or 0), 0)
    if total > most:
        yield (
            f"spec.resourceGroups hands out too many GPUs ({min(total, 10**6)}): a queue has at most {most}; "
            f"lower its nominalQuota, or raise {setting('maxPerQueue')}"
        )


def _nested(value: Any, lists: tuple[str, ...], later: Later) -> Iterator[Any]:
    """The items of lists in items of lists, by the names of the lists from the outermost."""
    if not lists:
        yield value
        return
    with later:
        for _, item in items(walk(value, lists[0]), later):
            yield from _nested(item, lists[1:], later)


def _gpus(number: int) -> str:
    return f"{number} GPU{'' if number == 1 else 's'}"


def _ceiling(default: int, description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "default": default, "description": description}


RULE = Rule(
    id="gpu-limit-ceiling",
    title="No pod or workload takes too many GPUs",
    severity=Severity.HIGH,
    types=POD | RUNNER_SET | HELM | QUEUES,
    levels={"dev": "advisory", "staging": "mandatory", "prod": "mandatory", "homelab": "mandatory"},
    config={
        "maxPerContainer": _ceiling(PER_CONTAINER, "The most GPUs that one container asks for."),
        "maxPerPod": _ceiling(PER_POD, "The most GPUs that the scheduler counts for one pod."),
        "maxPerWorkload": _ceiling(PER_WORKLOAD, "The most GPUs that the pods of one workload or runner set take at once."),
        "maxPerQueue": _ceiling(PER_QUEUE, "The most GPUs of nominal quota that one Kueue queue or cohort hands out."),
    },
    rationale="One pod or runner set that may take every GPU starves all others, and one without bound costs without bound.",
    source="https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers",
    fix="Lower the GPU limit, replicas, parallelism or nominalQuota, and give each runner set a maxRunners.",
    check=_check,
)
