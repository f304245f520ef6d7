"""gpu-node-selector: a pod that takes GPUs selects its machines by a node label that distinguishes GPU machines.

Judged: every kind with a pod spec, ARC's runner set, the pods in the values of chart gha-runner-scale-set. The pod may use a node
selector. It may also use a required node affinity in which every term has such a label with operator In, because terms are
alternatives. A preferred affinity is not enough, because the pod may then run on any node. Only the cluster's own scheduler
places pods with GPUs.
"""

from functools import partial

from fleet.facts.scheduling import ACCELERATOR_LABEL, EKS_PROFILE, FLAVOR_LABEL, POOL_LABEL

from .kinds import PODS, may_have_pods
from .pods import NODE_TERMS, PodSpec, of_gpu_pods
from .pools import INSTANCE_TYPE_LABEL
from .read import Data, Faults, Later, count, entries, items, label, line, shown, some, strings, text, walk
from .rule import Args, Rule, facts, said

_DISCOVERED = ("nvidia.com/gpu.product", "karpenter.k8s.aws/instance-gpu-name")
"""Labels of GPU feature discovery and of Karpenter."""
LABELS = (POOL_LABEL, FLAVOR_LABEL, ACCELERATOR_LABEL, EKS_PROFILE.accelerator_label, INSTANCE_TYPE_LABEL, *_DISCOVERED)


def _faults(pod: PodSpec, args: Args, later: Later) -> Faults:
    labels = strings(args.config, "labels")
    if (name := text(later.walk(pod.spec, "schedulerName"))) not in ("", "default-scheduler"):
        yield f"{pod.path}.schedulerName is {shown(name)}: it does not know which GPUs others have; remove it"
    hidden = Later()
    selected = some(lambda _: labels, lambda key: label(walk(pod.spec, "nodeSelector", key)), hidden)
    if not (selected or _required(pod.spec, labels, hidden)) and later.clear(hidden):
        label_names = ", ".join(map(line, labels[:8]))
        yield said("no_node_selector", pod=pod, label_names=label_names, first=line(labels[0]) if labels else "one")


def _required(spec: Data, labels: tuple[str, ...], later: Later) -> bool:
    """Whether every alternative of the required affinity has such a label."""
    hidden = Later()
    any_term = False
    with hidden:
        for _, term in items(walk(spec, *NODE_TERMS), hidden):
            any_term = True
            unsure = Later()
            if not _selects(term, labels, unsure):
                if not unsure:
                    return False
                hidden.join(unsure)
    later.join(hidden)
    return any_term and not hidden


def _selects(term: Data, labels: tuple[str, ...], later: Later) -> bool:
    def requires(entry: tuple[str, Data]) -> bool:
        key, operator = (text(walk(entry[1], field)) for field in ("key", "operator"))
        return key in labels and operator == "In" and count(walk(entry[1], "values")) > 0

    return some(partial(entries, term, "matchExpressions"), requires, later)


RULE = Rule(**facts(__name__, labels=list(LABELS)), types=PODS, others=may_have_pods, check=of_gpu_pods(_faults))
