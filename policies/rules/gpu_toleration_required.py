"""gpu-toleration-required: a pod that takes GPUs tolerates the taint of GPU nodes, with every value that it may have.

Judged: every kind with a pod spec, ARC's runner set, the pods in the values of chart gha-runner-scale-set.

The taint has one key and a value that differs by provider (`fleet.facts.scheduling`). Operator Exists covers every value, and so
do several tolerations with Equal. The API server rejects a toleration with operator Exists and a value.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.facts.scheduling import GPU_TAINT_KEY, Effect, Taint, Toleration

from .draft import Draft
from .kinds import HELM, POD, RELEASE, RUNNER_SET
from .pods import PodSpec, of_gpu_pods, pod_specs, takes_gpus, tolerations
from .pools import GPU_TAINTS
from .read import Faults, Later, line, shown, strings, text
from .record import steps
from .rule import Args, Rule, facts

VALUES = tuple(dict.fromkeys(taint.value for taint in GPU_TAINTS))
_EFFECTS = tuple(effect.value for effect in (Effect.NO_SCHEDULE, Effect.NO_EXECUTE))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The taints that GPU nodes of the stack may carry, all of one key and effect."""

    taints: tuple[Taint, ...]

    @property
    def toleration(self) -> Toleration:
        """The one toleration that covers all of them."""
        return Toleration(self.taints[0].key, effect=self.taints[0].effect)

    def lacking(self, existing: Iterable[Toleration]) -> Taint | None:
        """The first taint that none of the tolerations covers."""
        some = tuple(existing)
        return next((taint for taint in self.taints if not any(each.covers(taint) for each in some)), None)

    def rejected(self, toleration: Toleration) -> bool:
        """Whether the API server rejects the toleration because of its value."""
        return toleration.key == self.taints[0].key and toleration.operator == "Exists" and toleration.value != ""


def _wanted(args: Args) -> _Wanted:
    config = args.config
    key = text(config.get("key")) or GPU_TAINT_KEY
    effect_name = text(config.get("effect"))
    effect = Effect(effect_name) if effect_name in _EFFECTS else Effect.NO_SCHEDULE
    values = strings(config, "values") or VALUES
    return _Wanted(tuple(Taint(key, value, effect) for value in values))


def _faults(pod: PodSpec, args: Args, later: Later) -> Faults:
    hidden, needed = Later(), _wanted(args)
    existing = dict(tolerations(pod.spec, hidden))
    for index, toleration in existing.items():
        if needed.rejected(toleration):
            yield (
                f"{pod.path}.tolerations[{index}].value is {shown(toleration.value)}: the API server rejects a value with "
                "operator Exists; remove the value"
            )
    lacking = needed.lacking(existing.values())
    if later.clear(hidden) and lacking is not None:
        add = ", ".join(f"{name}: {line(value)}" for name, value in needed.toleration.manifest().items())
        yield (
            f"{pod.path}.tolerations: a pod that takes GPUs must tolerate the taint {line(str(lacking))} of GPU nodes; "
            f"add {{{add}}}"
        )


def _remediate(args: Args, draft: Draft) -> None:
    """Adds the toleration, and removes the value from a toleration with operator Exists."""
    # ArgoCD's kinds are left alone, because their values may be text.
    if args.type in HELM - {RELEASE}:
        return
    later = Later()
    needed = _wanted(args)
    for pod in pod_specs(args.type, args.props, later):
        if not takes_gpus(pod, later):
            continue
        hidden = Later()
        existing = dict(tolerations(pod.spec, hidden))
        place = (*steps(pod.path), "tolerations")
        for index, toleration in existing.items():
            if needed.rejected(toleration):
                draft.put("", *place, index, "value")
        if not hidden and needed.lacking(existing.values()) is not None:
            draft.append(needed.toleration.manifest(), *place)


RULE = Rule(
    **facts(__name__, key=GPU_TAINT_KEY, values=list(VALUES), effect=Effect.NO_SCHEDULE.value),
    types=POD | RUNNER_SET | HELM,
    check=of_gpu_pods(_faults),
    remedy=_remediate,
)
