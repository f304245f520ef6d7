"""gpu-toleration-scope: only pods that take GPUs tolerate the GPU taint, and no pod tolerates every taint.

Judged: every kind with a pod spec, ARC's runner set, the pods in the values of chart gha-runner-scale-set (a set's listener is
one), and the controllers of other charts, if the charts' values give them tolerations.

A pod whose containers are all in `allowNames` serves the node, so it may run on every node. The pod of a container action may
run on GPU nodes beside the pod of its job, if its template hides GPUs by `NVIDIA_VISIBLE_DEVICES`. A toleration with effect
PreferNoSchedule does not open GPU nodes.
"""

from collections.abc import Iterator

from fleet.facts.scheduling import Toleration

from . import kinds
from .admission import held
from .pods import PodSpec, hides_gpus, pod_specs, serves_the_node, takes_gpus, tolerations
from .pools import GPU_TAINTS
from .read import Data, Faults, Later, line, strings
from .releases import releases
from .rule import Args, Rule, facts

CONTROLLERS = kinds.fields("controllers")
"""Chart to the places in its values with the tolerations of a controller. Controllers take no GPU and serve no node."""


def _check(args: Args, later: Later) -> Faults:
    allowed = frozenset(strings(args.config, "allowNames"))
    for pod in pod_specs(args.type, args.props, later):
        yield from _pod_faults(pod, allowed, later)
    for release in releases(args.type, args.props, later):
        with later:
            for place in CONTROLLERS.get(release.chart_name, ()):
                for index, toleration in _opening(later.walk(release.values, *place), later):
                    yield _fault(".".join((release.values_path, *place)), index, toleration, "a controller takes no GPU")


def _pod_faults(pod: PodSpec, allowed: frozenset[str], later: Later) -> Faults:
    unread = Later()
    if not ((opening := list(_opening(pod.spec, unread))) or unread):
        return
    unnamed, hidden = Later(), Later()
    if serves_the_node(pod, allowed, unnamed):
        return
    later.join(unread)
    takes = takes_gpus(pod, hidden) or hides_gpus(pod, hidden)
    for index, toleration in opening:
        if takes and toleration.key:
            continue
        if later.clear(unnamed) and (not toleration.key or later.clear(hidden)):
            yield _fault(pod.path, index, toleration, "a pod that takes no GPU stays off GPU nodes")


def _opening(holder: Data, later: Later) -> Iterator[tuple[int, Toleration]]:
    """The tolerations that open GPU nodes."""
    return (entry for entry in tolerations(holder, later) if any(map(entry[1].covers, GPU_TAINTS)))


def _fault(path: str, index: int, toleration: Toleration, why: str) -> str:
    place = f"{path}.tolerations[{index}]"
    if not toleration.key:
        return f"{place} has operator Exists and no key: it tolerates every taint; write the key of the taint that you mean"
    return f"{place} tolerates {line(toleration.key)}: {why}; remove the toleration"


RULE = held(Rule(**facts(__name__, allowNames=list(kinds.SERVING)), types=kinds.PODS, others=kinds.may_have_pods, check=_check))
