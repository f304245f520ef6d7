"""The default scheduler's rules for one pod and one fresh node, and the device plugin's for the pod that it then admits.

Written from the Kubernetes API reference and "Assigning Pods to Nodes", not from the program: filters NodeAffinity,
TaintToleration and NodeResourcesFit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.facts import hardware
from fleet.facts.offer import allocatable
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.sharing import Mig, Mps
from tests.fleet.conformance import contract
from tests.fleet.values import mebibytes, millicores


@dataclass(frozen=True, slots=True)
class Node:
    """A node with nothing but its DaemonSets on it: `free` by resource, in millicores, MiB and units.

    `several` says whether its device plugin takes requests for more than one unit, `own_shm` whether it mounts /dev/shm itself,
    `shares` whether a unit is a part of a GPU.
    """

    name: str
    pool: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    free: Mapping[str, int]
    several: bool
    own_shm: bool
    shares: bool


def nodes(fleet: Fleet, cluster: str) -> Iterator[Node]:
    """A node of each machine of each pool, and the node that the autoscaler believes in before it is there."""
    settings: Cluster = fleet.clusters[cluster]
    for each in contract(fleet, cluster).nodes:
        if each.pool not in settings.pools:
            continue
        pool = settings.pools[each.pool]
        # The template of a group is made of its first machine; the others may be bought instead.
        for name in pool.instance_types:
            machine = hardware.machine(name)
            yield Node(
                f"{each.name} {name}",
                each.pool,
                dict(each.labels) | {"node.kubernetes.io/instance-type": name},
                tuple((taint.key, taint.value, str(taint.effect)) for taint in each.taints),
                _free(settings, pool, machine),
                pool.sharing is None or isinstance(pool.sharing, Mig) or pool.sharing.allow_several,
                isinstance(pool.sharing, Mps),
                pool.sharing is not None,
            )


def _free(settings: Cluster, pool: Any, machine: hardware.Machine) -> dict[str, int]:
    """What a fresh node has left when its DaemonSets run (tests/fleet/test_offer.py holds the rest)."""
    from fleet.prove.placement import pool_host

    (name,) = [name for name, each in settings.pools.items() if each is pool]
    daemons = pool_host(settings, name).daemonsets
    whole = allocatable(machine, pool.disk)
    replicas = 1 if pool.sharing is None else pool.sharing.shares(machine)
    return {
        "cpu": whole.cpu - sum(each.cpu for each in daemons),
        "memory": whole.memory - sum(each.memory for each in daemons),
        "ephemeral-storage": whole.storage,
        "pods": whole.pods - len(daemons),
        "nvidia.com/gpu" if pool.sharing is None else pool.sharing.resource: machine.gpus * replicas,
    }


# -- filters -------------------------------------------------------------------------------------------------------------


def rejections(pod: Mapping[str, Any], node: Node) -> list[str]:
    """The filters that keep a pod off a node, with what they miss."""
    return [*_node_affinity(pod, node), *_taint_toleration(pod, node), *_resources_fit(pod, node)]


def _node_affinity(pod: Mapping[str, Any], node: Node) -> Iterator[str]:
    for key, value in pod.get("nodeSelector", {}).items():
        if node.labels.get(key) != value:
            yield f"selector {key}"
    required = pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    # Terms are alternatives, the expressions of one must all hold.
    if required is not None and not any(
        all(_holds(expression, node.labels) for expression in term.get("matchExpressions", []))
        for term in required["nodeSelectorTerms"]
    ):
        yield "affinity"


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    held, values = labels.get(expression["key"]), expression.get("values", [])
    match expression["operator"]:
        case "In":
            return held in values
        case "NotIn":
            return held not in values
        case "Exists":
            return held is not None
        case "DoesNotExist":
            return held is None
    raise AssertionError(expression)


def _taint_toleration(pod: Mapping[str, Any], node: Node) -> Iterator[str]:
    for key, value, effect in node.taints:
        if effect in ("NoSchedule", "NoExecute") and not any(
            _tolerates(each, key, value, effect) for each in pod.get("tolerations", [])
        ):
            yield f"taint {key}"


def _tolerates(toleration: Mapping[str, str], key: str, value: str, effect: str) -> bool:
    if toleration.get("effect", effect) != effect or toleration.get("key", key) != key:
        return False
    return toleration.get("operator", "Equal") == "Exists" or toleration.get("value", "") == value


def _resources_fit(pod: Mapping[str, Any], node: Node) -> Iterator[str]:
    asked = Counter({"pods": 1})
    for container in pod["containers"]:
        held = container["resources"]
        for name, amount in (held.get("limits", {}) | held.get("requests", {})).items():
            asked[name] += _amount(name, amount)
    for name, amount in asked.items():
        if amount > node.free.get(name, 0):
            yield f"resource {name}"


def _amount(name: str, text: str) -> int:
    if name == "cpu":
        return millicores(text)
    return mebibytes(text) if name in ("memory", "ephemeral-storage") else int(text)


# -- admission -----------------------------------------------------------------------------------------------------------


def refusals(pod: Mapping[str, Any], node: Node) -> list[str]:
    """What the node does with a pod that the scheduler put on it: UnexpectedAdmissionError, two mounts of one path."""
    found = []
    for container in pod["containers"]:
        units = sum(int(amount) for name, amount in container["resources"]["limits"].items() if name.startswith("nvidia.com/"))
        if units > 1 and not node.several:
            found.append("several units")
        if node.own_shm and any(mount["mountPath"] == "/dev/shm" for mount in container.get("volumeMounts", [])):  # noqa: S108
            found.append("two of /dev/shm")
    return found


def runs(pod: Mapping[str, Any], node: Node) -> bool:
    """Whether a pod runs on a node."""
    return not rejections(pod, node) and not refusals(pod, node)
