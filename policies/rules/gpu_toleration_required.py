"""gpu-toleration-required: a pod that takes GPUs tolerates the taint of GPU nodes, with every value that it may have.

Judged: every kind with a pod spec, ARC's runner set, the pods in the values of chart gha-runner-scale-set.

The taint has one key and a value that differs by provider (`fleet.facts.scheduling`). Operator Exists covers every value, and so
do several tolerations with Equal. The API server rejects a toleration with operator Exists and a value.
"""

from collections.abc import Mapping
from typing import Any

from fleet.facts.scheduling import GPU_TAINT_KEY, Effect, Taint, Toleration

from .draft import Draft
from .kinds import CONFIG_MAPS, HELM, PODS, RELEASE, may_have_pods
from .pods import PodSpec, of_gpu_pods, pod_specs, takes_gpus, tolerations
from .pools import GPU_TAINTS
from .read import Data, Faults, Later, line, strings, text
from .record import steps
from .rule import Args, Rule, facts, said

VALUES = tuple(dict.fromkeys(taint.value for taint in GPU_TAINTS))


def _read(pod: PodSpec, config: Mapping[str, Data], later: Later) -> tuple[list[tuple[int, Toleration]], Taint | None]:
    """The tolerations that the API server rejects for their value, and a taint of GPU nodes that the pod does not tolerate.

    `later` collects unknown values.
    """
    key = text(config.get("key")) or GPU_TAINT_KEY
    effect = Effect.NO_EXECUTE if config.get("effect") == Effect.NO_EXECUTE else Effect.NO_SCHEDULE
    existing = dict(tolerations(pod.spec, later))
    rejected = [(index, one) for index, one in existing.items() if one.key == key and one.operator == "Exists" and one.value]
    taints = (Taint(key, value, effect) for value in strings(config, "values") or VALUES)
    lacking = (taint for taint in taints if not any(toleration.covers(taint) for toleration in existing.values()))
    return rejected, next(lacking, None)


def _cover(taint: Taint) -> dict[str, Any]:
    """The toleration that covers the taint with every value."""
    return Toleration(taint.key, effect=taint.effect).manifest()


def _faults(pod: PodSpec, args: Args, later: Later) -> Faults:
    hidden = Later()
    rejected, taint = _read(pod, args.config, hidden)
    yield from (said("toleration_value", pod=pod, index=index, toleration=toleration) for index, toleration in rejected)
    if later.clear(hidden) and taint is not None:
        add = ", ".join(f"{name}: {line(value)}" for name, value in _cover(taint).items())
        yield said("no_toleration", pod=pod, taint=str(taint), add=add)


def _remediate(args: Args, draft: Draft) -> None:
    """Adds the toleration, and removes the value from a toleration with operator Exists."""
    # ArgoCD's kinds and ConfigMaps are left alone, because their values may be text.
    if args.type in (HELM - {RELEASE}) | CONFIG_MAPS:
        return
    later = Later()
    for pod in pod_specs(args.type, args.props, later):
        if not takes_gpus(pod, later):
            continue
        hidden = Later()
        rejected, taint = _read(pod, args.config, hidden)
        place = (*steps(pod.path), "tolerations")
        for index, _ in rejected:
            draft.put("", *place, index, "value")
        if not hidden and taint is not None:
            draft.append(_cover(taint), *place)


_FACTS = facts(__name__, key=GPU_TAINT_KEY, values=list(VALUES), effect=Effect.NO_SCHEDULE.value)
RULE = Rule(**_FACTS, types=PODS, others=may_have_pods, check=of_gpu_pods(_faults), remedy=_remediate)
