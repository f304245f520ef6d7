"""Which pools can run a pod, from zero nodes or not. If none can: the shortest chain of reasons and the smallest fix.

Nodes are plain data, so the proof holds for fleets of other people too. A pod runs in a pool if the scheduler takes a real node
for it, and in a pool without nodes only if the autoscaler's template node takes it as well. The rules are those of the filters of
kube-scheduler v1.36.3 (pkg/scheduler/framework/plugins), in its order. Volumes count by their zone alone; resource claims and
features that nodes declare are not known offline. `tests/kwok/test_reach.py` compares the verdicts with a real scheduler.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import partial
from typing import Any

from fleet.facts.hardware import Machine
from fleet.facts.nested import items, part, parts
from fleet.facts.quantities import cpu_text, memory_text, quantity
from fleet.facts.record import Record
from fleet.facts.requests import amounts, requested, resources
from fleet.facts.scheduling import GPU_RESOURCE, STORAGE_TAG, TEMPLATE, Effect, Taint, Toleration, is_gpu_resource
from fleet.facts.tables import beside, toml
from fleet.prove import topology
from fleet.prove.pod import PLAIN, Pod

_WORDS = beside(__file__, "reach.toml")
_ANY = "0.0.0.0"  # noqa: S104 - the address of a host port without one
_ZONE = "topology.kubernetes.io/zone"
_CORDON = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)
_DAEMONSET = tuple(Toleration(key, effect=effect) for effect, keys in _WORDS["daemonset"].items() for key in keys)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_TERMS = ("spec", "affinity", "nodeAffinity", _REQUIRED)
_LIFTED = ("ephemeral-storage", "pods")
"""What more of a node's resources a setting gives to pods: a larger disk, another maxPods. Of others the machine decides."""
MOST_EDITS = 6
_BEAM = 30
"""The most edits that a fix has, and the most states that the search for one keeps for each number of edits."""
_State = tuple[tuple["Edit", ...], Pod, "Pool", tuple["Refusal", ...]]

Values = frozenset[str] | None
"""The possible values of a label; none if the nodes do not have it. None: it exists, and its value is not known."""


class Node(Record):
    """A node as the scheduler sees it: one that runs, one that would start, or an autoscaler's template.

    `free`: allocatable minus the requests of DaemonSets and other pods, with "pods": how many more it takes; None: room is not
    compared. `pods`: those that run on it, for affinity, spread and host ports. `machine`: for NUMA nodes.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    free: Mapping[str, Fraction] | None = None
    unschedulable: bool = False
    pods: tuple[Pod, ...] = ()
    machine: Machine | None = None

    def has(self, key: str) -> str:
        """The label for people."""
        return f"{key}={self.labels[key]}" if key in self.labels else f"no label {key}"


class Edit(Record):
    """A change of one value: of the pod (`on` "pod", path from `spec`), or of the pool (path from a field of `Pool`).

    The last part "-" adds to a list. The value None removes. `words` is the change for people.
    """

    on: str
    path: tuple[str | int, ...]
    value: Any
    words: str


class Refusal(Record):
    """Why a node does not take a pod: the scheduler's filter, the reason, and changes that may remove it, the best first."""

    filter: str
    text: str
    edits: tuple[Edit, ...] = ()


class Pool(Record):
    """Nodes that are alike, as one autoscaler group makes them.

    `nodes`: a real node of each machine type, without pods but those of DaemonSets. `place`: file and line. `template`: what the
    autoscaler assumes while the pool is empty; None if it assumes a real node (Karpenter). `ceilings`: how many more nodes each
    ceiling allows: the maximum, a quota, limits. `chooses`: the autoscaler starts a type that fits (Karpenter); otherwise every
    type must take the pod. `scaler`: `eks` or `oke`, for the words of a fix. `single`: the resource of which the device plugin
    gives a container one unit at most. `managers`: kubelet's policies for NUMA nodes.
    """

    name: str
    nodes: tuple[Node, ...]
    place: str = ""
    template: Node | None = None
    minimum: int = 0
    ceilings: Mapping[str, int] = field(default_factory=dict)
    scaler: str = ""
    chooses: bool = False
    single: str = ""
    managers: topology.Managers | None = None


class Verdict(Record):
    """What a pool says to a pod. `outcome` is a key of `[outcome]` of reach.toml; `reasons` is empty if the pod runs."""

    pool: Pool
    outcome: str
    reasons: tuple[Refusal, ...] = ()

    @property
    def text(self) -> str:
        """The outcome in words."""
        start = "on nodes that always run" if self.pool.minimum else "from zero nodes"
        return str(_WORDS["outcome"][self.outcome].format(start=start))


class Reach(Record):
    """The verdicts of all pools in their order, and the smallest fix for the nearest if no pool runs the pod."""

    pod: Pod
    verdicts: tuple[Verdict, ...]
    nearest: Verdict | None
    fix: tuple[Edit, ...] = ()

    @property
    def runs(self) -> tuple[Verdict, ...]:
        """The pools that run it."""
        return tuple(verdict for verdict in self.verdicts if not verdict.reasons)


def _distance(reasons: Sequence[Refusal]) -> tuple[bool, int]:
    """Sort key, the nearest first: every reason has a change, few reasons, and few of them about size."""
    weights = [2 if reason.filter == "NodeResourcesFit" else 1 for reason in reasons]
    return not all(reason.edits for reason in reasons), sum(weights)


# -- labels ------------------------------------------------------------------------------------------------------------


def matches(values: Values, expression: Mapping[str, Any]) -> bool:
    """Kubernetes' operators of node affinity and label selectors. An unknown value may match all but DoesNotExist."""
    operator, allowed = str(expression.get("operator")), [str(value) for value in expression.get("values") or ()]
    if operator in ("Exists", "DoesNotExist"):
        return bool(values is None or values) == (operator == "Exists")
    if values is None:
        return True
    if operator in ("In", "NotIn"):
        found = [value in allowed for value in values]
        return any(found) if operator == "In" else not found or not all(found)
    numbers: list[int] = [int(value) for value in (*values, *allowed) if value.lstrip("-").isdecimal()]
    if operator not in ("Gt", "Lt") or not values or len(numbers) != len(values) + 1:
        return False
    *labels, bound = numbers
    return max(labels) > bound if operator == "Gt" else min(labels) < bound


def shown(expression: Mapping[str, Any]) -> str:
    """An expression for people."""
    values = expression.get("values") or []
    words = f"{expression.get('key')} {expression.get('operator')}"
    return f"{words} [{', '.join(map(str, values))}]" if values else words


def _selector(source: Mapping[str, Any], labels: Mapping[str, str]) -> list[Mapping[str, Any]] | None:
    """The expressions of a label selector; None if it selects nothing. `labels` are those of the pod that has it."""
    if (selector := source.get("labelSelector")) is None:
        return None
    found = [{"key": key, "operator": "In", "values": [value]} for key, value in part(selector, "matchLabels").items()]
    # The API server merges these keys into the selector.
    for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        keys = [key for key in items(source, name) if key in labels]
        found += [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys]
    return [*found, *parts(selector, "matchExpressions")]


def _value(labels: Mapping[str, str], key: object) -> frozenset[str]:
    return frozenset((labels[str(key)],)) if key in labels else frozenset()


def _selects(expressions: Sequence[Mapping[str, Any]] | None, labels: Mapping[str, str]) -> bool:
    return expressions is not None and all(matches(_value(labels, one.get("key")), one) for one in expressions)


# -- what the scheduler compares ---------------------------------------------------------------------------------------


def _say(rule: str, *edits: Edit, by: str = "", **context: object) -> Refusal:
    return Refusal(by or rule, _WORDS["text"][rule].format(**context), edits)


def _change(path: tuple[str | int, ...], value: Any, words: str = "") -> Edit:
    """A change of the pod."""
    usual = f"remove {_dotted(path)}" if value is None else f"set {_dotted(path)}: {json.dumps(value)}"
    return Edit("pod", path, value, f"pod: {words or usual}")


def _dotted(path: Sequence[str | int]) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")


def _node(value: Any, *path: str) -> Edit:
    """A change of the node; `_of_pool` makes it one of the pool."""
    return Edit("node", path, value, "")


def _covered(pod: Pod, taint: Taint) -> bool:
    """Whether the scheduler passes over a taint: the pod tolerates it, or it only prefers other pods."""
    tolerations = (*pod.tolerations, *(_DAEMONSET if pod.kind == "DaemonSet" else ()))
    return taint.effect == Effect.PREFER_NO_SCHEDULE or any(one.covers(taint) for one in tolerations)


def _cordoned(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    if node.unschedulable and not _covered(pod, _CORDON):
        yield _say("NodeUnschedulable", _node(False, "unschedulable"), taint=_CORDON)


def _named(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    if (asked := pod.text("nodeName")) not in ("", node.name):
        yield _say("NodeName", _change(("spec", "nodeName"), None), asked=asked, name=node.name)


def _taints(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    yield from (intolerance(pod, taint) for taint in node.taints if not _covered(pod, taint))


def intolerance(pod: Pod, taint: Taint, where: str = "") -> Refusal:
    """The reason of a taint that the pod does not tolerate. `where` is more about the taint."""
    wanted, tolerations = Toleration(taint.key, effect=taint.effect).manifest(), pod.tolerations
    alike = [index for index, row in enumerate(tolerations) if row.key == taint.key and row.effect in ("", taint.effect)]
    words = f"add toleration {{{', '.join(f'{key}: {value}' for key, value in wanted.items())}}}"
    if alike:
        words = f"set operator: Exists, without a value, in the toleration of {taint.key}"
        where += f" (its toleration has the value {tolerations[alike[0]].value!r})"
    edit = _change(("spec", "tolerations", alike[0] if alike else "-"), wanted, words)
    return _say("TaintToleration", edit, taint=taint, where=where)


def _labels(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    for key, value in pod.selector.items():
        if node.labels.get(key) != value:
            path = ("spec", "nodeSelector", key)
            edits = [_change(path, node.labels[key])] if key in node.labels else [_node(value, "labels", key)]
            yield _say("NodeSelector", *edits, _change(path, None), by="NodeAffinity", key=key, value=value, has=node.has(key))
    if pod.terms and not any(term_holds(term, partial(_value, node.labels), node.name) for term in pod.terms):
        keys = dict.fromkeys(str(one.get("key")) for term in pod.terms for one in parts(term, "matchExpressions"))
        asked = " or ".join(term_words(term) or "nothing" for term in pod.terms)
        has = ", ".join(map(node.has, keys)) or f"the name {node.name}"
        yield _say("NodeAffinity", *_term_edits(pod, node), asked=asked, has=has)


def term_holds(term: Mapping[str, Any], values: Callable[[str], Values], name: str | None) -> bool:
    """Whether one term of a node affinity matches. One without expressions matches nothing. An unknown name (None) matches."""
    by_label, by_field = parts(term, "matchExpressions"), parts(term, "matchFields")
    named = name is None or all(matches(frozenset((name,)), one) for one in by_field)
    return bool(by_label or by_field) and named and all(matches(values(str(one.get("key"))), one) for one in by_label)


def term_words(term: Mapping[str, Any]) -> str:
    """A term for people."""
    return " and ".join(map(shown, (*parts(term, "matchExpressions"), *parts(term, "matchFields"))))


def _term_edits(pod: Pod, node: Node) -> Iterator[Edit]:
    """The single changes after which one term matches, then no affinity at all."""
    for number, term in enumerate(pod.terms):
        rows = [(index, str(one.get("key")), one) for index, one in enumerate(parts(term, "matchExpressions"))]
        wrong = [(index, key, one) for index, key, one in rows if not matches(_value(node.labels, key), one)]
        for index, key, one in wrong if len(wrong) == 1 else ():
            if one.get("operator") == "In" and key in node.labels:
                path = (*_NODE_TERMS, "nodeSelectorTerms", number, "matchExpressions", index, "values", "-")
                yield _change(path, node.labels[key])
            elif one.get("operator") in ("In", "Exists"):
                yield _node(str((one.get("values") or ["true"])[0]), "labels", key)
    yield _change(_NODE_TERMS, None)


def _ports(pod: Pod) -> Iterator[tuple[tuple[str | int, ...], tuple[int, str], str]]:
    """(path, port and protocol, address) of each host port. On the host's network every port is one."""
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(pod.each(kind)):
            stays = kind == "containers" or container.get("restartPolicy") == "Always"
            for number, port in enumerate(parts(container, "ports") if stays else ()):
                if taken := port.get("hostPort") or (pod.spec.get("hostNetwork") and port.get("containerPort")):
                    what = int(taken), str(port.get("protocol") or "TCP")
                    yield ("spec", kind, index, "ports", number), what, str(port.get("hostIP") or _ANY)


def _host_ports(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    for path, asked, address in _ports(pod):
        for other in node.pods:
            if any(asked == taken and (address == theirs or _ANY in (address, theirs)) for _, taken, theirs in _ports(other)):
                yield _say("NodePorts", _change(path, None), port=asked[0], protocol=asked[1], other=other.label)


def _room(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    for name, amount in {"pods": Fraction(1), **pod.requests()}.items() if node.free is not None else ():
        free = max((node.free or {}).get(name, Fraction(0)), Fraction(0))
        if amount > free:
            edits, by = (_node(amount, "free", name), *_smaller(pod, name, amount - free, node)), "NodeResourcesFit"
            needs, has = _amount(name, amount), _amount(name, free)
            yield _say("NodePods" if name == "pods" else by, *edits, by=by, amount=needs, name=name, free=has)


def _smaller(pod: Pod, name: str, excess: Fraction, node: Node) -> Iterator[Edit]:
    """The request of the largest container lowered by `excess`, or made for the accelerator that the node has."""
    found = [(kind, index, one) for kind in ("containers", "initContainers") for index, one in enumerate(pod.each(kind))]
    kind, index, container = max(found, key=lambda row: requested(row[2]).get(name, Fraction(0)))
    whole, path = requested(container).get(name, Fraction(0)), ("spec", kind, index, "resources")
    sizes = {field: texts for field in ("requests", "limits") if (texts := resources(container, field))}
    # A smaller container makes no pod smaller that requests as a whole.
    if quantity(left := _amount(name, whole - excess)) and whole > excess and name not in requested(pod.spec):
        # The limit of an extended resource is its request.
        lowered = {field: {**sizes.get(field, {}), name: left} for field in ("requests", *(sizes if name not in PLAIN else ()))}
        yield _change(
            path, sizes | lowered, f"lower {name} of container {container.get('name')} from {_amount(name, whole)} to {left}"
        )
    for other, free in (node.free or {}).items() if is_gpu_resource(name) else ():
        if other != name and is_gpu_resource(other) and free >= whole > 0:
            renamed = {
                each: {other: text} | {key: texts[key] for key in texts if key != name}
                for each, texts in sizes.items()
                if (text := texts.get(name))
            }
            yield _change(path, sizes | renamed, f"ask for {other} instead of {name}")


def _amount(name: str, amount: Fraction) -> str:
    """An amount as Kubernetes writes it, rounded down."""
    if name == "cpu":
        return cpu_text(math.floor(amount * 1000))
    return memory_text(mebibytes) if name in PLAIN and (mebibytes := math.floor(amount / 2**20)) else str(math.floor(amount))


def _zones(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    for zone in pod.zones:
        if node.labels.get(_ZONE) != zone:
            yield _say("VolumeBinding", _node(zone, "labels", _ZONE), zone=zone, has=node.has(_ZONE))


def _spread(pod: Pod, node: Node, nodes: Sequence[Node]) -> Iterator[Refusal]:
    rows = [
        (index, one)
        for index, one in enumerate(pod.each("topologySpreadConstraints"))
        if one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    spread = [each for each in nodes if all(one.get("topologyKey") in each.labels for _, one in rows)]
    for index, one in rows:
        path, key = ("spec", "topologySpreadConstraints", index), str(one.get("topologyKey"))
        # The API server takes minDomains with DoNotSchedule only.
        soft = {name: part for name, part in one.items() if name != "minDomains"} | {"whenUnsatisfiable": "ScheduleAnyway"}
        looser = _change(path, soft, f"set {_dotted((*path, 'whenUnsatisfiable'))}: ScheduleAnyway")
        if key not in node.labels:
            yield _say("SpreadKey", looser, by="PodTopologySpread", index=index, key=key)
            continue
        selector, counts = _selector(one, pod.labels), Counter[str]()
        for each in (each for each in spread if _counted(pod, each, one)):
            # The scheduler counts 0 for a selector that is empty.
            alike = (other.place == pod.place and _selects(selector, other.labels) for other in each.pods if selector)
            counts[each.labels[key]] += sum(alike)
        fewest = min(counts.values(), default=2**31) if len(counts) >= int(one.get("minDomains") or 1) else 0
        skew = counts[node.labels[key]] + _selects(selector, pod.labels) - fewest
        if skew > (most := int(one.get("maxSkew") or 1)):
            edits, value = (_change((*path, "maxSkew"), skew), looser), node.labels[key]
            yield _say("PodTopologySpread", *edits, index=index, key=key, value=value, skew=skew, most=most)


def _counted(pod: Pod, node: Node, constraint: Mapping[str, Any]) -> bool:
    """Whether a constraint counts a node: by the pod's own selectors unless it says otherwise, by taints only if it says so."""
    tolerated = constraint.get("nodeTaintsPolicy") != "Honor" or not any(_taints(pod, node, ()))
    return tolerated and (constraint.get("nodeAffinityPolicy") == "Ignore" or not any(_labels(pod, node, ())))


def _neighbours(pod: Pod, node: Node, nodes: Sequence[Node]) -> Iterator[Refusal]:
    """Required affinity and anti-affinity between pods; that of the pods that run, too."""
    near = [(each, other) for each in nodes for other in each.pods]
    terms = [term for term, *_ in _pod_terms(pod, "podAffinity")]
    matching = [(each, other) for each, other in near if all(_term_takes(pod, term, other) for term in terms)]
    counted = any(term.get("topologyKey") in each.labels for each, _ in matching for term in terms)
    is_first = not counted and all(_term_takes(pod, term, pod) for term in terms)
    for term, key, index, edit in _pod_terms(pod, "podAffinity"):
        if key not in node.labels or not (is_first or any(_same(node, each, key) for each, _ in matching)):
            asked = " and ".join(map(shown, _selector(term, pod.labels) or ())) or "any labels"
            yield _say("PodAffinity", edit, by="InterPodAffinity", index=index, asked=asked, key=key)
    for term, key, index, edit in _pod_terms(pod, "podAntiAffinity"):
        found = [other for each, other in near if _same(node, each, key) and _term_takes(pod, term, other)]
        for other in found[:1]:
            yield _say("PodAntiAffinity", edit, by="InterPodAffinity", index=index, other=other.label, key=key)
    for each, other in near:
        for term, key, _, _ in _pod_terms(other, "podAntiAffinity"):
            if _same(node, each, key) and _term_takes(other, term, pod):
                yield _say("OtherAntiAffinity", by="InterPodAffinity", other=other.label, key=key)


def _same(node: Node, other: Node, key: str) -> bool:
    return key in node.labels and node.labels[key] == other.labels.get(key)


def _pod_terms(pod: Pod, kind: str) -> Iterator[tuple[Mapping[str, Any], str, int, Edit]]:
    """(term, topology key, index, the change that removes it) of each required term."""
    for index, term in enumerate(parts(pod.spec, "affinity", kind, _REQUIRED)):
        yield term, str(term.get("topologyKey")), index, _change(("spec", "affinity", kind, _REQUIRED, index), None)


def _term_takes(owner: Pod, term: Mapping[str, Any], other: Pod) -> bool:
    """Whether a term of `owner` is about `other`. Of a namespace only its own name is known, no other label."""
    spaces, selector = items(term, "namespaces"), term.get("namespaceSelector")
    if selector is None and not spaces:
        spaces = [owner.place]
    by_label = _selects(_selector({"labelSelector": selector}, {}), {"kubernetes.io/metadata.name": other.place})
    return (other.place in spaces or by_label) and _selects(_selector(term, owner.labels), other.labels)


_FILTERS = (_cordoned, _named, _taints, _labels, _host_ports, _room, _zones, _spread, _neighbours)


def refusals(pod: Pod, node: Node, nodes: Sequence[Node] = ()) -> tuple[Refusal, ...]:
    """Every reason for which the scheduler does not put the pod on a node. `nodes`: the other nodes, for affinity and spread."""
    everyone = (node, *(other for other in nodes if other.name != node.name))
    return tuple(reason for rule in _FILTERS for reason in rule(pod, node, everyone))


# -- pools -------------------------------------------------------------------------------------------------------------


def judge(pod: Pod, pool: Pool, running: Sequence[Node] = ()) -> Verdict:
    """Whether a pool runs a pod. `running`: the nodes of the cluster with their pods, for affinity and spread."""
    real = [_of_pool(pool, ("nodes", index), refusals(pod, node, running)) for index, node in enumerate(pool.nodes)]
    refused = sorted(filter(None, real), key=_distance) if all(real) or not pool.chooses else []
    # A DaemonSet starts no node.
    guess = pool.template if not pool.minimum and pod.kind != "DaemonSet" else None
    assumed = _of_pool(pool, ("template",), refusals(pod, guess, running)) if guess else ()
    new = [reason for reason in assumed if reason.text not in {one.text for one in (refused or [()])[0]}]
    unlike = tuple(replace(reason, text=f"the template node: {reason.text}") for reason in new)
    if refused:
        return Verdict(pool, "endless" if guess and not assumed else "refused", (*refused[0], *unlike))
    full = [name for name, left in pool.ceilings.items() if left < 1 and not pool.minimum and pod.kind != "DaemonSet"]
    limits = tuple(_say("Ceiling", _lift(pool, 1, "ceilings", name), name=name) for name in full)
    for outcome, reasons in (("never", unlike), ("rejected", tuple(_after(pod, pool))), ("ceiling", limits)):
        if reasons:
            return Verdict(pool, outcome, reasons)
    return Verdict(pool, "runs")


def _of_pool(pool: Pool, place: tuple[str | int, ...], reasons: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """The reasons of a node of the pool, with changes of the node as changes of the pool."""
    by = pool.scaler if place == ("template",) and pool.scaler in _WORDS["edit"] else "pool"

    def edits(reason: Refusal) -> Iterator[Edit]:
        for edit in reason.edits:
            key, domain = edit.path[-1], f".{str(edit.path[-1]).rpartition('/')[0]}"
            # Kubelet and the cloud set labels of these domains, and the machine decides what is free; a zone is a group's.
            fixed = domain.endswith((".kubernetes.io", ".k8s.io")) if edit.path[0] == "labels" else key not in _LIFTED
            if edit.on == "pod":
                yield edit
            elif by != "pool" or key in (_ZONE, "unschedulable") or not fixed:
                yield _lift(pool, edit.value, *place, *edit.path, by=by)

    return tuple(replace(reason, edits=tuple(edits(reason))) for reason in reasons)


def _lift(pool: Pool, value: Any, *path: str | int, by: str = "pool") -> Edit:
    """A change of the pool, in the words of `by`: a table of `[edit]` in reach.toml."""
    key, usual = str(path[-1]), _WORDS["edit"]["pool"]
    what = "zone" if key == _ZONE else str(next(each for each in path if each in usual))
    amount = _amount(key, value) if what == "free" else value
    words = (usual | _WORDS["edit"][by])[what].format(pool=pool.name, key=key, value=amount, node=pool.nodes[0].name)
    return Edit("pool", path, value, f"pool: {words}")


def several(pod: Pod, single: str) -> Iterator[Refusal]:
    """The reason of each container that asks for several units of a resource of which the device plugin gives it one."""
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(pod.each(kind)):
            if (amount := requested(container).get(single, Fraction(0))) > 1:
                sizes, who = container["resources"], container.get("name")
                one = {key: {**texts, single: "1"} if single in texts else texts for key, texts in sizes.items()}
                edit = _change(("spec", kind, index, "resources"), one, f"ask for 1 {single} in {who}")
                yield _say("Sharing", edit, container=who, amount=amount)


def _after(pod: Pod, pool: Pool) -> Iterator[Refusal]:
    """What kubelet refuses after the scheduler: several shares of a GPU, and NUMA nodes."""
    for one in several(pod, pool.single):
        yield replace(one, edits=(*one.edits, _lift(pool, "", "single")))
    name = next(filter(is_gpu_resource, pod.requests()), GPU_RESOURCE)
    for node in pool.nodes if pool.managers else ():
        units = int((node.free or {}).get(name, 0))
        if node.machine and pool.managers and (why := topology.rejection(pod.ask(name), node.machine, units, pool.managers)):
            looser = topology.Policies("best-effort", pool.managers.cpu_manager_policy)
            yield _say("TopologyAffinity", _lift(pool, looser, "managers"), why=why)


def reach(pod: Pod, pools: Sequence[Pool], running: Sequence[Node] = ()) -> Reach:
    """Which pools run a pod. If none does: the nearest with the fewest reasons that a fix removes, and that fix."""
    verdicts = tuple(judge(pod, pool, running) for pool in pools)
    nearest = sorted(verdicts, key=lambda verdict: _distance(verdict.reasons))
    tried = ((one, repair(pod, one.pool, running)) for one in nearest if all(other.reasons for other in verdicts))
    return Reach(pod, verdicts, *next((found for found in tried if found[1]), (next(iter(nearest), None), ())))


def repair(pod: Pod, pool: Pool, running: Sequence[Node] = ()) -> tuple[Edit, ...]:
    """The fewest changes after which the pool runs the pod, each proved on a copy; empty if no few of them are enough."""
    states: dict[frozenset[str], _State] = {frozenset(): ((), pod, pool, judge(pod, pool, running).reasons)}
    for _ in range(MOST_EDITS):
        changed: dict[frozenset[str], _State] = {}
        for edits, now, place, reasons in states.values():
            # A reason that no change removes leaves no fix.
            for edit in (edit for reason in reasons for edit in reason.edits if all(one.edits for one in reasons)):
                if (after := frozenset(one.words for one in (*edits, edit))) not in changed:
                    fixed = applied((edit,), now, place)
                    changed[after] = (*edits, edit), *fixed, judge(*fixed, running).reasons
                    if not changed[after][-1]:
                        return changed[after][0]
        states = dict(sorted(changed.items(), key=lambda row: len(row[1][-1]))[:_BEAM])
    return ()


def applied(edits: Iterable[Edit], pod: Pod, pool: Pool) -> tuple[Pod, Pool]:
    """The pod and the pool after changes."""
    for edit in edits:
        pod, pool = (_put(pod, edit.path, edit.value), pool) if edit.on == "pod" else (pod, _put(pool, edit.path, edit.value))
    return pod, pool


def _put(whole: Any, path: Sequence[str | int], value: Any) -> Any:
    """A copy in which the value at the path is another one, or is gone if that is None."""
    if not path:
        return value
    key, rest, gone = path[0], path[1:], value is None and len(path) == 1
    if isinstance(whole, Record):
        return replace(whole, **{str(key): _put(getattr(whole, str(key)), rest, value)})
    if key == "-" or isinstance(whole, (list, tuple)):
        rows = list(whole or ())
        index = len(rows) if key == "-" else int(key)
        rows[index : index + 1] = [] if gone else [_put(rows[index] if index < len(rows) else None, rest, value)]
        return tuple(rows) if isinstance(whole, tuple) else rows
    others = {name: old for name, old in (whole or {}).items() if name != key}
    return others if gone else others | {key: _put((whole or {}).get(key), rest, value)}


# -- what the autoscaler assumes --------------------------------------------------------------------------------------------


def template(
    provider: str,
    node: Node,
    capacity: Mapping[str, Fraction],
    labels: Mapping[str, str],
    taints: Sequence[Taint] = (),
    tags: Mapping[str, str] = {},
) -> Node:
    """What Cluster Autoscaler assumes of a node of an empty group of `provider`, a key of nodes.toml with a template.

    `node` is the real one. `capacity` is the machine's minus what DaemonSets request; its disk does not count. `labels` and
    `taints` are those that the autoscaler knows: of a managed node group, or the initial node labels; empty for an Auto Scaling
    group of one's own, of which only `tags` say them.
    """
    facts = toml("nodes.toml")["providers"][provider]["template"]
    own = ("kubernetes.io/arch", "kubernetes.io/os", "topology.kubernetes.io/region", *facts["labels"])
    rows = [(*tag.removeprefix(TEMPLATE).partition("/"), text) for tag, text in tags.items() if tag.startswith(TEMPLATE)]
    told: dict[str, dict[str, str]] = {"label": {}, "taint": {}, "resources": {}}
    for kind, _, key, text in rows if facts["tags"] else ():
        told.setdefault(kind, {})[key] = text
    storage = {"ephemeral-storage": tags[STORAGE_TAG]} if STORAGE_TAG in tags and not facts["tags"] else {}
    machine = {name: amount for name, amount in capacity.items() if name != "ephemeral-storage"}
    known = (f"{key}={text}" for key, text in told["taint"].items() if text.partition(":")[2] in list(Effect))
    seen = dict.fromkeys((*taints, *map(Taint.read, (*known, *(facts["gpu-taints"] if capacity.get(GPU_RESOURCE) else ())))))
    free = machine | {"pods": Fraction(facts["pods"])} | amounts(told["resources"] | storage)
    names = {key: node.labels[key] for key in own if key in node.labels} | {**labels, **told["label"]}
    return Node("template", {**names, "kubernetes.io/hostname": "template"}, tuple(seen), free)
