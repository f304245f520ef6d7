"""Small random fleets for the proof of reachability: one to six nodes with pods, and one pod that asks for a place.

Every name and topology key begins with the fleet's own name, and the pod selects its fleet's nodes. So a thousand fleets can be
in one cluster, and none changes the verdict on another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

from fleet.facts.requests import requested, requests_of
from fleet.facts.scheduling import Effect, Taint
from fleet.prove.pod import Pod, pod_of
from fleet.prove.reach import Node

Object = dict[str, Any]
SPACES = ("one", "two")
ZONE = "topology.kubernetes.io/zone"
FLEET = "fleet"
"""Label of the nodes: the name of their fleet."""
THEMES = ("taint", "label", "port", "room", "volume", "spread", "near")
ASKS = "asks"
"""Label of the pods in the scheduler's queue."""
_KEYS, _VALUES = ("pool", "arch", "disk"), ("a", "b", "c")
_TAINTS = [Taint(key, value, effect) for key in ("gpu", "spot") for value in ("true", "") for effect in Effect]
_APPS = ("web", "batch", "db")


def fleet(seed: int) -> tuple[Pod, tuple[Node, ...]]:
    """The pod and the nodes of a seed."""
    dice = _Dice(seed)
    name = f"f{seed:05}"
    nodes = tuple(_node(dice, name, number) for number in range(dice.randint(1, 3 if dice.theme in ("port", "spread") else 6)))
    pod = _pod(dice, name, "asks", {FLEET: name})
    if _some(dice, 0.2, "volume"):
        volume = {"name": "cache", "persistentVolumeClaim": {"claimName": f"{name}-cache"}}
        pod = replace(pod, spec={**pod.spec, "volumes": [volume]}, zones=(dice.choice(_VALUES),))
    return pod, nodes


class _Dice(Random):
    """A fleet has a theme: what it is about is often there, and what others are about is rare."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.theme = self.choice(THEMES)


def _some(dice: _Dice, share: float, theme: str = "") -> bool:
    weight = 1.0 if not theme else 4.0 if theme == dice.theme else 0.25
    return dice.random() < share * weight


def _node(dice: _Dice, name: str, number: int) -> Node:
    labels = {FLEET: name} | {key: dice.choice(_VALUES) for key in _KEYS if _some(dice, 0.8)}
    labels |= {"gen": str(dice.randint(1, 4))} if _some(dice, 0.7) else {}
    labels |= {f"{name}.io/zone": dice.choice(_VALUES)} if _some(dice, 0.9) else {}
    labels |= {ZONE: dice.choice(_VALUES)} if _some(dice, 0.9) else {}
    labels |= {f"{name}.io/host": str(number)} if _some(dice, 0.95) else {}
    taints = dice.sample(_TAINTS, dice.choice((1, 1, 2))) if _some(dice, 0.25, "taint") else []
    # Kubernetes takes a key and an effect once.
    taints = list({(taint.key, taint.effect): taint for taint in taints}.values())
    # Nodes are large unless room is the theme.
    busy, large = ((0, 0, 1, 1, 2, 3), 1) if dice.theme == "room" else ((1, 2, 3) if dice.theme == "port" else (0, 1, 2, 3), 5)
    pods = tuple(_pod(dice, name, f"runs-{number}-{index}", {}, running=True) for index in range(dice.choice(busy)))
    has = {
        "cpu": Fraction(dice.randint(2, 16), 2) * large,
        "memory": Fraction(dice.randint(2, 16) * 2**30) * large,
        "pods": Fraction(dice.randint(2, 8)) * large,
        "ephemeral-storage": Fraction(dice.randint(5, 50) * 2**30) * large,
        "nvidia.com/gpu": Fraction(dice.choice((0, 1, 2, 4))) * large,
    }
    if _some(dice, 0.1, "room"):
        del has[dice.choice(list(has))]
    free = {key: amount - sum(_asks(pod).get(key, 0) for pod in pods) for key, amount in has.items()}
    return Node(f"{name}-{number}", labels, tuple(taints), free, _some(dice, 0.08, "taint"), pods)


def _asks(pod: Pod) -> dict[str, Fraction]:
    return {"pods": Fraction(1), **requests_of(pod.spec)}


def _pod(dice: _Dice, fleet_name: str, name: str, selector: dict[str, str], *, running: bool = False) -> Pod:
    spec: Object = {"containers": [_container(dice, f"c{index}") for index in range(dice.choice((1, 1, 2)))]}
    if _some(dice, 0.2):
        side = {"restartPolicy": "Always"} if _some(dice, 0.5) else {}
        spec["initContainers"] = [_container(dice, "first") | side]
        if _some(dice, 0.3):
            spec["initContainers"].append(_container(dice, "second"))
    if _some(dice, 0.08):
        # Requests of a pod are at least those of its containers.
        whole = {key: amount for key, amount in requests_of(spec).items() if key in ("cpu", "memory")}
        extra = {"cpu": "500m", "memory": "1Gi"}
        spec["resources"] = {
            "requests": {
                key: _text(key, whole.get(key, Fraction(0)) + requested({"resources": {"requests": extra}})[key]) for key in extra
            }
        }
    taken: set[tuple[str, ...]] = set()
    for container in [*spec["containers"], *spec.get("initContainers", ())]:
        ports = [(str(port["hostPort"]), port["protocol"], port.get("hostIP", "")) for port in container.get("ports", ())]
        if taken.intersection(ports):
            # The API server refuses a port twice in a pod.
            del container["ports"]
        taken.update(ports)
    near, labels = _neighbours(dice, fleet_name), {"app": dice.choice(_APPS)} | ({"v": "2"} if _some(dice, 0.4) else {})
    affinity: Object = {}
    if not running:
        spec["nodeSelector"] = selector | ({dice.choice(_KEYS): dice.choice(_VALUES)} if _some(dice, 0.2, "label") else {})
        spec["tolerations"] = [_toleration(dice) for _ in range(dice.choice((0, 0, 1, 2)))]
        if _some(dice, 0.2, "label"):
            terms = [_node_term(dice, fleet_name) for _ in range(dice.choice((1, 1, 2)))]
            affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
        if _some(dice, 0.25, "spread"):
            # A pod that may go to one zone alone does not find another one.
            spec["nodeSelector"] |= {f"{fleet_name}.io/zone": dice.choice(_VALUES[:2])} if _some(dice, 0.5) else {}
            rows = {one["topologyKey"]: one for one in (_spread(dice, fleet_name) for _ in range(dice.choice((1, 1, 2))))}
            spec["topologySpreadConstraints"] = list(rows.values())
        if _some(dice, 0.12, "near"):
            affinity["podAffinity"] = {REQUIRED: [near() for _ in range(dice.choice((1, 1, 2)))]}
    if _some(dice, 0.07 if running else 0.12, "near"):
        affinity["podAntiAffinity"] = {REQUIRED: [near()]}
    spec |= {"affinity": affinity} if affinity else {}
    body = {"metadata": {"name": f"{fleet_name}-{name}", "namespace": dice.choice(SPACES), "labels": labels}, "spec": spec}
    found = pod_of(name, body)
    assert found is not None
    return found


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _container(dice: _Dice, name: str) -> Object:
    amounts: Object = {
        "cpu": f"{dice.choice((0, 100, 250, 500, 1000, 1500))}m",
        "memory": f"{dice.choice((0, 256, 512, 1024, 3072))}Mi",
    }
    amounts = {key: text for key, text in amounts.items() if _some(dice, 0.8)}
    amounts |= {"ephemeral-storage": f"{dice.choice((1, 4, 12))}Gi"} if _some(dice, 0.2, "room") else {}
    gpus = {"nvidia.com/gpu": str(dice.choice((1, 1, 2)))} if _some(dice, 0.15, "room") else {}
    container: Object = {"name": name, "image": "x", "resources": {"requests": amounts | gpus, "limits": gpus}}
    if _some(dice, 0.1):
        container["resources"] = {"limits": amounts | gpus}
    if _some(dice, 0.2, "port"):
        port: Object = {
            "containerPort": 80,
            "hostPort": dice.choice((80, 80, 81)),
            "protocol": dice.choice(("TCP", "TCP", "UDP")),
        }
        container["ports"] = [port | ({"hostIP": dice.choice(("10.0.0.1", "10.0.0.2"))} if _some(dice, 0.5) else {})]
    return container


def _toleration(dice: _Dice) -> Object:
    if _some(dice, 0.1):
        return {"operator": "Exists"}
    key = {"key": dice.choice(("gpu", "spot", "node.kubernetes.io/unschedulable"))}
    value = {"operator": "Exists"} if _some(dice, 0.5) else {"value": dice.choice(("true", ""))}
    return key | value | ({"effect": str(dice.choice(list(Effect)))} if _some(dice, 0.5) else {})


def _expression(dice: _Dice) -> Object:
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": dice.choice(("gen", "gen", "pool")), "operator": operator, "values": [str(dice.randint(1, 4))]}
    values = {"values": dice.sample(_VALUES, dice.choice((1, 2)))} if operator in ("In", "NotIn") else {}
    return {"key": dice.choice((*_KEYS, "none")), "operator": operator} | values


def _node_term(dice: _Dice, fleet_name: str) -> Object:
    term: Object = {"matchExpressions": [_expression(dice) for _ in range(dice.choice((0, 1, 1, 2)))]}
    if _some(dice, 0.15):
        names = [f"{fleet_name}-{dice.randint(0, 6)}"]
        term["matchFields"] = [{"key": "metadata.name", "operator": dice.choice(("In", "NotIn")), "values": names}]
    return term


def _selector(dice: _Dice) -> Object:
    if _some(dice, 0.1):
        return {}
    if _some(dice, 0.5):
        return {"matchLabels": {"app": dice.choice(_APPS)}}
    row = {"key": "app", "operator": dice.choice(("In", "NotIn")), "values": dice.sample(_APPS, dice.choice((1, 2)))}
    return {"matchExpressions": [dice.choice((row, {"key": "v", "operator": dice.choice(("Exists", "DoesNotExist"))}))]}


def _topology(dice: _Dice, fleet_name: str) -> str:
    return f"{fleet_name}.io/{dice.choice(('zone', 'zone', 'host'))}"


def _spread(dice: _Dice, fleet_name: str) -> Object:
    row: Object = {
        "maxSkew": dice.choice((1, 1, 1, 2)),
        "topologyKey": _topology(dice, fleet_name),
        "labelSelector": _selector(dice),
    }
    row["whenUnsatisfiable"] = "DoNotSchedule" if _some(dice, 0.85) else "ScheduleAnyway"
    if row["whenUnsatisfiable"] == "DoNotSchedule" and _some(dice, 0.25):
        row["minDomains"] = dice.randint(1, 4)
    for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        row |= {key: dice.choice(("Honor", "Ignore"))} if _some(dice, 0.5) else {}
    return row | ({"matchLabelKeys": ["v"]} if "app" in json.dumps(row["labelSelector"]) and _some(dice, 0.2) else {})


def _neighbours(dice: _Dice, fleet_name: str) -> Any:
    def term() -> Object:
        row: Object = {"topologyKey": _topology(dice, fleet_name), "labelSelector": _selector(dice)}
        where = dice.random()
        if where < 0.2:
            row["namespaces"] = dice.sample(SPACES, dice.choice((1, 2)))
        elif where < 0.3:
            row["namespaceSelector"] = dice.choice(({}, {"matchLabels": {"kubernetes.io/metadata.name": dice.choice(SPACES)}}))
        if "app" in json.dumps(row["labelSelector"]) and _some(dice, 0.2):
            row[dice.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["v"]
        return row

    return term


def _text(name: str, amount: Fraction) -> str:
    return f"{int(amount * 1000)}m" if name == "cpu" else str(int(amount))


def named(pod: Pod, nodes: tuple[Node, ...], old: str, new: str) -> tuple[Pod, tuple[Node, ...]]:
    """The same fleet under another name."""

    def other(whole: Any) -> Any:
        return json.loads(json.dumps(whole).replace(old, new))

    def of_pod(one: Pod) -> Pod:
        return replace(one, name=one.name.replace(old, new), spec=other(one.spec))

    changed = (
        replace(node, name=node.name.replace(old, new), labels=other(node.labels), pods=tuple(map(of_pod, node.pods)))
        for node in nodes
    )
    return of_pod(pod), tuple(changed)


def node_object(node: Node) -> Object:
    """A node for the API server: with its free resources and the requests of its pods."""
    size = {
        name: _text(name, amount + sum(_asks(pod).get(name, 0) for pod in node.pods))
        for name, amount in (node.free or {}).items()
    }
    taints = [{"key": one.key, "value": one.value, "effect": str(one.effect)} for one in node.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {"taints": taints, "unschedulable": node.unschedulable},
        "status": {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True", "reason": "Set"}]},
    }


def pod_object(pod: Pod, node: str = "") -> Object:
    """A pod for the API server, on a node or in the scheduler's queue."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "namespace": pod.place, "labels": {**pod.labels} | ({} if node else {ASKS: "yes"})},
        "spec": {**pod.spec} | ({"nodeName": node} if node else {}),
    }


def volume_objects(pod: Pod) -> Iterator[Object]:
    """The volume of each claim of the pod, as a CSI driver makes it in one zone, and the claim that is bound to it."""
    for claim, zone in zip(pod.claims, pod.zones, strict=True):
        size = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        place = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": claim},
            "spec": size
            | {
                "capacity": {"storage": "1Gi"},
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": claim},
                "claimRef": {"namespace": pod.place, "name": claim},
                "nodeAffinity": {"required": place},
            },
        }
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": pod.place, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": size | {"volumeName": claim, "resources": {"requests": {"storage": "1Gi"}}},
        }
