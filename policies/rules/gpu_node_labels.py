"""gpu-node-labels: the selectors of the stack's pods match the labels of its node pools.

The rule judges each cluster in both directions. A pod whose selector matches no pool of its cluster would wait forever. A GPU
pool that no GPU pod of the stack can run on costs money without use. Pools are EKS managed node groups, OKE node pools and
Karpenter NodePools; each Talos node counts as a pool. Pods are those of Kubernetes' own kinds, of ARC's runner sets, of the
values of chart gha-runner-scale-set and of the templates of jobs in containers.

- The rule compares only labels that a pool's owner sets: this project's labels, and all labels that a pool of the stack has.
  The cloud, kubelet and feature discovery add more labels, which the rule cannot know.
- A pod's cluster is the cluster of its provider (`clusterIdentifier`). If the provider has none, the pod may run on every pool
  of the stack.
- A cluster that exists already may have other pools. If a pod there matches no pool of the stack, the rule is undeterminable.
- A pod that takes no GPU and tolerates `gpu-ci/cpu`, the taint of pools without GPUs, must be able to run in such a pool.
- In a stack without pools the rule does not judge pods, and in a cluster without GPU pods it does not judge pools: they may be
  in another stack.
- Of a Talos cluster only the GPU machines are resources, so a pod without GPUs may run on a machine that is not a resource.
"""

from collections.abc import Mapping

from fleet.facts.groups import grouped
from fleet.facts.record import Record
from fleet.facts.scheduling import POOL_LABEL

from .clusters import Clustered, cluster_of, named, names
from .kinds import CONFIG_MAP, HELM, NODES, OKE_CLUSTER, POD_PATHS, TALOS_NODE
from .node_labels import Wanted, labels_of, ours, wanted
from .pods import of_cpu_pools, pod_specs, takes_gpus
from .pools import gpu_sign
from .read import Later
from .rule import Resource, Stack, StackRule, Violations, facts, said, unseen

_OTHERS = ("Patch", "beta", "v2alpha1")
_PODS = frozenset(token for token in POD_PATHS if not any(part in token for part in _OTHERS)) | {CONFIG_MAP}


class _Pool(Record):
    """A pool, its labels, and why it is a GPU pool ("" for one without GPUs)."""

    at: Clustered
    labels: Mapping[str, str]
    gpu: str


class _Pod(Record):
    """A pod, its conditions on the node, whether it takes GPUs, and whether it is meant for pools without GPUs."""

    at: Clustered
    path: str
    asks: Wanted
    gpus: bool
    without: bool


def _check(stack: Stack, later: Later) -> Violations:
    pools = [pool for resource in stack.of(NODES) if (pool := _pool(resource, later)) is not None]
    unread_pools = bool(later)
    if not pools and not unread_pools:
        return
    pods = [pod for resource in stack.of(_PODS | HELM) for pod in _pods(resource, later)]
    declared = frozenset(key for pool in pools for key in pool.labels)
    # Most pods name their pool. Comparing those pairs first avoids comparing every pod with every pool of a large fleet.
    by_pool = grouped((pool.labels.get(POOL_LABEL, ""), pool) for pool in pools)
    meaning = grouped((name, pod) for pod in pods for name in pod.asks.pools)
    outside = Later()
    if not unread_pools:
        for pod in pods:
            if not any(_lands(pod, pool, declared) for name in pod.asks.pools for pool in by_pool.get(name, ())):
                for fault in _check_pod(pod, pools, declared):
                    if there := stack.may_be(pod.at.cluster):
                        outside.note(unseen(there, f"whether another pool of it suits {pod.at.resource.name}"))
                    else:
                        yield fault
    if not later:
        for pool in pools:
            if not any(pod.gpus and _lands(pod, pool, declared) for pod in meaning.get(pool.labels.get(POOL_LABEL, ""), ())):
                yield from _check_pool(pool, pods, declared)
    outside.settle()


def _lands(pod: _Pod, pool: _Pool, declared: frozenset[str]) -> bool:
    return pool.at.near(pod.at) and _admits(pod, pool, declared)


def _check_pod(pod: _Pod, pools: list[_Pool], declared: frozenset[str]) -> Violations:
    near = [pool for pool in pools if pool.at.near(pod.at)]
    conditions = [ask for ask in pod.asks.asks if ours(ask.key) or ask.key in declared]
    if not (near and conditions) or any(_admits(pod, pool, declared) for pool in near):
        return
    if not pod.gpus and any(pool.at.cloud == TALOS_NODE for pool in near):
        return
    kind = "GPU pool" if pod.gpus else "pool without GPUs" if pod.without else "node pool"
    words = " and ".join(dict.fromkeys(map(str, conditions[:5])))
    others = names(pool.at.resource for pool in near)
    yield said("no_such_node", pod=pod, kind=kind, cluster=named(pod.at.cluster), words=words, pools=others), pod.at.resource.urn


def _check_pool(pool: _Pool, pods: list[_Pod], declared: frozenset[str]) -> Violations:
    near = [pod for pod in pods if pod.gpus and pod.at.near(pool.at)]
    if not (pool.gpu and near) or any(_admits(pod, pool, declared) for pod in near):
        return
    noun = "machine" if pool.at.cloud == TALOS_NODE else "pool"
    yield said("unused_pool", noun=noun, pool=pool), pool.at.resource.urn


def _admits(pod: _Pod, pool: _Pool, declared: frozenset[str]) -> bool:
    labels = declared | frozenset(ask.key for ask in pod.asks.asks if ours(ask.key))
    if pool.gpu and pod.without and not pod.gpus:
        return False
    return (bool(pool.gpu) or not pod.gpus) and pod.asks.admits(pool.labels, labels)


def _pool(resource: Resource, later: Later) -> _Pool | None:
    unsigned = Later()
    if not (sign := gpu_sign(resource.type, resource.props, unsigned)):
        later.join(unsigned)
    with later:
        return _Pool(Clustered(resource, cluster_of(resource)), labels_of(resource.type, resource.props), sign)
    return None


def _pods(resource: Resource, later: Later) -> list[_Pod]:
    pods = []
    with later:
        at = Clustered(resource, cluster_of(resource))
        for spec in pod_specs(resource.type, resource.props, later):
            with later:
                asks, unread = wanted(spec.spec), Later()
                if not (gpus := takes_gpus(spec, unread)):
                    unread.settle()
                pods.append(_Pod(at, spec.path, asks, gpus, of_cpu_pools(spec.spec, later)))
    return pods


RULE = StackRule(**facts(__name__), types=NODES | _PODS | HELM | {OKE_CLUSTER}, check=_check)
