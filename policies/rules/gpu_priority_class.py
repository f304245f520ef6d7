"""gpu-priority-class: GPU pods have a priority class, not one of Kubernetes' own classes, and no class is above theirs.

Judged: every kind with a pod spec, ARC's runner set, the pods in the values of chart gha-runner-scale-set, and all
PriorityClasses, because a pod with a higher priority can preempt a GPU pod.
"""

from fleet.facts.quantities import quantity
from fleet.facts.scheduling import RUNNER_PRIORITY

from .admission import held
from .kinds import PODS, api_tokens, each, may_have_pods
from .pods import PodSpec, of_gpu_pods
from .read import Data, Faults, Later, bound, shown, text, walk
from .rule import Args, Rule, facts, said

CLASSES = api_tokens("scheduling.k8s.io", ("v1", "v1beta1", "v1alpha1"), ("PriorityClass",), ("", "Patch", "List"))


def _check(args: Args, later: Later) -> Faults:
    if args.type not in CLASSES:
        yield from of_gpu_pods(_pod_faults)(args, later)
        return
    for prefix, priority_class in each(args.type, args.props, later):
        yield from _above(f"{prefix}value", later.walk(priority_class, "value"), args)


def _pod_faults(pod: PodSpec, args: Args, later: Later) -> Faults:
    with later:
        name = text(walk(pod.spec, "priorityClassName"))
        # Kubernetes reserves the prefix for its own classes.
        if not name or name.startswith("system-"):
            yield said("no_priority_class", pod=pod, name=shown(name) if name else "not set", priority=RUNNER_PRIORITY)
    yield from _above(f"{pod.path}.priority", later.walk(pod.spec, "priority"), args)


def _above(path: str, value: Data, args: Args) -> Faults:
    ceiling = bound(args.config, "ceiling")
    if (quantity(value) or 0) > ceiling:
        yield said("high_priority", path=path, value=value, most=ceiling)


RULE = held(Rule(**facts(__name__, ceiling=RUNNER_PRIORITY.value), types=PODS | CLASSES, others=may_have_pods, check=_check))
