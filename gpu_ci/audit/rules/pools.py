"""Questions about pools that several rules ask."""

from collections.abc import Iterator

from fleet.facts.hardware import find
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import GPU_TAINT_KEY, is_gpu_resource
from fleet.prove import reach
from fleet.prove.pod import Pod as Spec
from gpu_ci.audit.formats.arc import releases
from gpu_ci.audit.homes import homes, pod_in, proved
from gpu_ci.audit.model import Keys, Pool, RunnerClass, Seen

_WORKLOADS = ("Pod", "Job", "CronJob", "JobSet", "Deployment", "StatefulSet")


def reached(one: RunnerClass, seen: Seen) -> list[Pool]:
    """The pools that run a class, the first choice first."""
    return [home.pool for home in homes(one, seen)]


def refused(spec: Spec, pool: Pool) -> list[reach.Refusal]:
    """Why the nodes of a pool do not take a pod, of the scheduler's filters for labels and taints."""
    reasons = reach.refusals(spec, proved(pool, spec, Seen()).nodes[0])
    return [reason for reason in reasons if reason.filter in ("NodeAffinity", "TaintToleration")]


def workloads(seen: Seen, *kinds: str) -> Iterator[tuple[Keys, Spec]]:
    """Objects that make pods, with their pods. One that the API server refuses is left out."""
    found = ((keys, pod_in(keys)) for keys in seen.of_kind(*(kinds or _WORKLOADS)))
    yield from ((keys, spec) for keys, spec in found if spec is not None)


def installed(seen: Seen) -> Iterator[tuple[Keys, str, str, str, Keys]]:
    """Place, chart, version, name and values in the same file of every release of a Helm chart that is not of ARC."""
    for keys in seen.of_kind("Application", "HelmRelease", "Kustomization"):
        yield from ((one.at, one.chart, one.version, one.name, one.parts[-1]) for one in releases(keys))


def most_gpus(pool: Pool) -> int:
    """The GPUs of the largest machine of a pool; 0 if it has none or its machines are not known."""
    offered = (quantity(text) for name, text in pool.allocatable.items() if is_gpu_resource(name))
    return max((*(machine.gpus for machine in map(find, pool.types) if machine), *map(int, filter(None, offered))), default=0)


def has_gpus(pool: Pool) -> bool:
    """Whether a pool is for GPUs, also of machines that are in no table."""
    return bool(most_gpus(pool)) or any(taint.key == GPU_TAINT_KEY for taint in pool.taints)
