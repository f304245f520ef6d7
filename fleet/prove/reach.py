"""Which pools can run a pod, from zero nodes or not. If none can: the shortest chain of reasons and the smallest fix.

Nodes are plain data, so the proof holds for fleets of other people too. A pod runs in a pool if the scheduler takes a real node
for it, and in a pool without nodes only if the autoscaler's template node takes it as well. The rules are those of the filters of
kube-scheduler v1.36.3 (pkg/scheduler/framework/plugins), in its order. Volumes count by their zone alone; resource claims and
features that nodes declare are not known offline. `tests/kwok/test_reach.py` compares the verdicts with a real scheduler.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from fleet.facts.hardware import Machine
from fleet.facts.nested import items, part, parts
from fleet.facts.quantities import quantity
from fleet.facts.record import Record
from fleet.facts.requests import amounts, requested, requests_of, resources
from fleet.facts.scheduling import GPU_RESOURCE, STORAGE_TAG, TEMPLATE, Effect, Taint, Toleration, is_gpu_resource
from fleet.facts.tables import beside, toml
from fleet.prove import topology
from fleet.prove.pod import PLAIN, Pod
from fleet.settings.kubelet import ResourceManagers
from fleet.settings.model import cpu_text, memory_text

_WORDS = beside(__file__, "reach.toml")
_ZONE = "topology.kubernetes.io/zone"
_CORDON = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)
_DAEMONSET = tuple(Toleration(key, effect=effect) for effect, keys in _WORDS["daemonset"].items() for key in keys)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_TERMS = ("spec", "affinity", "nodeAffinity", _REQUIRED)
_LIFTED = ("ephemeral-storage", "pods")
"""What more of a node's resources a setting gives to pods: a larger disk, another maxPods. Of others the machine decides."""
MOST_EDITS = 6
_BEAM = 60
"""The most edits that a fix has, and the most states that the search for one keeps for each number of edits."""

Values = frozenset[str] | None
"""The possible values of a label; none if the nodes do not have it. None: it exists, and its value is not known."""


class Node(Record):
    """A node as the scheduler sees it: one that runs, one that would start, or an autoscaler's template.

    `free`: allocatable minus the requests of DaemonSets and other pods, with "pods": how many more it takes; None: room is not
    compared. `pods`: those that run on it, for affinity, spread and host ports. `machine`: for NUMA nodes. `only`: the only label
    keys that are compared, as Kueue does for a flavor; None: all.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    free: Mapping[str, Fraction] | None = None
    unschedulable: bool = False
    pods: tuple[Pod, ...] = ()
    machine: Machine | None = None
    only: frozenset[str] | None = None

    def values(self, key: str) -> Values:
        """The value of a label, as `matches` takes it."""
        if self.only is not None and key not in self.only:
            return None
        return frozenset((self.labels[key],)) if key in self.labels else frozenset()

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
    managers: ResourceManagers | None = None


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

    @property
    def distance(self) -> tuple[object, ...]:
        """Sort key, the nearest first: every reason has a change, few reasons, and few of them about size."""
        return not all(reason.edits for reason in self.reasons), sum(_weight(reason) for reason in self.reasons)


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

    @property
    def missed(self) -> tuple[Verdict, ...]:
        """The pools that do not run it: for a DaemonSet, those that it does not reach."""
        return tuple(verdict for verdict in self.verdicts if verdict.reasons)

    def lines(self) -> Iterator[str]:
        """The proof for people."""
        if self.runs:
            yield f"{self.pod.label}: {'; '.join(f'{verdict.pool.name} {verdict.text}' for verdict in self.runs)}"
            return
        yield f"{self.pod.label}: no pool runs it"
        if self.nearest is None:
            return
        pool = self.nearest.pool
        yield f"nearest: {pool.name}{f' ({pool.place})' if pool.place else ''}: {self.nearest.text}"
        yield from (f"  because {reason.text}" for reason in self.nearest.reasons)
        yield from (f"  fix: {edit.words}" for edit in self.fix)
        if not self.fix:
            yield "  fix: none with these pools"
        others = (verdict for verdict in self.verdicts if verdict is not self.nearest)
        yield from (f"  {verdict.pool.name}: {verdict.text}: {verdict.reasons[0].text}" for verdict in others)


def _weight(reason: Refusal) -> int:
    return 2 if reason.filter == "NodeResourcesFit" else 1


# -- labels ------------------------------------------------------------------------------------------------------------


def matches(values: Values, expression: Mapping[str, Any]) -> bool:
    """Kubernetes' operators of node affinity and label selectors. An unknown value may match all but DoesNotExist."""
    operator, allowed = str(expression.get("operator")), [str(value) for value in expression.get("values") or ()]
    if operator in ("Exists", "DoesNotExist"):
        return bool(values is None or values) == (operator == "Exists")
    if values is None:
        return True
    if operator == "In":
        return any(value in values for value in allowed)
    if operator == "NotIn":
        return not values or any(value not in allowed for value in values)
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
    selector = source.get("labelSelector")
    if selector is None:
        return None
    found = [{"key": key, "operator": "In", "values": [value]} for key, value in part(selector, "matchLabels").items()]
    # The API server merges these keys into the selector.
    for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        keys = [key for key in items(source, name) if key in labels]
        found += [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys]
    return [*found, *parts(selector, "matchExpressions")]


def _selects(expressions: Sequence[Mapping[str, Any]] | None, labels: Mapping[str, str]) -> bool:
    def values(key: str) -> Values:
        return frozenset((labels[key],)) if key in labels else frozenset()

    return expressions is not None and all(matches(values(str(one.get("key"))), one) for one in expressions)


# -- what the scheduler compares ---------------------------------------------------------------------------------------


def _say(rule: str, *edits: Edit, by: str = "", **context: object) -> Refusal:
    return Refusal(by or rule, _WORDS["text"][rule].format(**context), edits)


def _change(path: Sequence[str | int], value: Any, words: str = "") -> Edit:
    """A change of the pod."""
    text, shown_value = _dotted(path), json.dumps(value)
    usual = f"remove {text}" if value is None else f"set {text}: {shown_value}"
    if path[-1] == "-":
        usual = f"add to {_dotted(path[:-1])}: {shown_value}"
    return Edit("pod", tuple(path), value, f"pod: {words or usual}")


def _dotted(path: Sequence[str | int]) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")


def _node(value: Any, *path: str) -> Edit:
    """A change of the node; `_of_pool` makes it one of the pool."""
    return Edit("node", path, value, "")


def _tolerations(pod: Pod) -> tuple[Toleration, ...]:
    return (*pod.tolerations, *(_DAEMONSET if pod.kind == "DaemonSet" else ()))


def _untolerated(pod: Pod, taints: Iterable[Taint]) -> list[Taint]:
    keeps_off = (taint for taint in taints if taint.effect != Effect.PREFER_NO_SCHEDULE)
    return [taint for taint in keeps_off if not any(one.covers(taint) for one in _tolerations(pod))]


def _cordoned(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    if node.unschedulable and _untolerated(pod, (_CORDON,)):
        yield _say("NodeUnschedulable", _node(False, "unschedulable"), taint=_CORDON)


def _named(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    if (asked := pod.text("nodeName")) not in ("", node.name):
        yield _say("NodeName", _change(("spec", "nodeName"), None), asked=asked, name=node.name)


def _taints(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    for taint in _untolerated(pod, node.taints):
        alike = [index for index, one in enumerate(pod.tolerations) if one.key == taint.key and one.effect in ("", taint.effect)]
        has = f"; that of {taint.key} has the value {pod.tolerations[alike[0]].value!r}" if alike else ""
        path = ("spec", "tolerations", alike[0] if alike else "-")
        edit = _change(path, Toleration(taint.key, effect=taint.effect).manifest())
        yield _say("TaintToleration", edit, taint=taint, alike=has)


def _labels(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    for key, value in pod.selector.items():
        if (values := node.values(key)) is None or value in values:
            continue
        path = ("spec", "nodeSelector", key)
        edits = [_change(path, node.labels[key])] if key in node.labels else [_node(value, "labels", key)]
        yield _say("NodeSelector", *edits, _change(path, None), by="NodeAffinity", key=key, value=value, has=node.has(key))
    if pod.terms and not any(_term(node, term) for term in pod.terms):
        wrong = [one for term in pod.terms for one in parts(term, "matchExpressions") if not _expression(node, one)]
        asked = " or ".join(" and ".join(map(shown, _expressions(term))) or "nothing" for term in pod.terms)
        has = ", ".join(dict.fromkeys(node.has(str(one.get("key"))) for one in wrong)) or f"the name {node.name}"
        yield _say("NodeAffinity", *_term_edits(pod, node), asked=asked, has=has)


def _expressions(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*parts(term, "matchExpressions"), *parts(term, "matchFields")]


def _expression(node: Node, expression: Mapping[str, Any]) -> bool:
    return matches(node.values(str(expression.get("key"))), expression)


def _term(node: Node, term: Mapping[str, Any]) -> bool:
    """Whether one term of a node affinity matches. A term without expressions matches nothing. Fields know the name alone."""
    by_label = all(_expression(node, one) for one in parts(term, "matchExpressions"))
    by_name = all(matches(frozenset((node.name,)), one) for one in parts(term, "matchFields"))
    return bool(_expressions(term)) and by_label and by_name


def _term_edits(pod: Pod, node: Node) -> Iterator[Edit]:
    """The single changes after which one term matches, then no affinity at all."""
    for number, term in enumerate(pod.terms):
        wrong = [(index, one) for index, one in enumerate(parts(term, "matchExpressions")) if not _expression(node, one)]
        if len(wrong) != 1:
            continue
        index, one = wrong[0]
        path = (*_NODE_TERMS, "nodeSelectorTerms", number, "matchExpressions", index)
        key, has_values = str(one.get("key")), one.get("values") or ["true"]
        if one.get("operator") == "In" and key in node.labels:
            yield _change((*path, "values", "-"), node.labels[key])
        elif one.get("operator") in ("In", "Exists"):
            yield _node(str(has_values[0]), "labels", key)
        if len(_expressions(term)) > 1:
            yield _change(path, None)
    yield _change(_NODE_TERMS, None)


def _ports(pod: Pod) -> Iterator[tuple[tuple[str | int, ...], str, str, str, int]]:
    """(path, container, address, protocol, port) of each host port. On the host's network every port is one."""
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(pod.each(kind)):
            if kind == "initContainers" and container.get("restartPolicy") != "Always":
                continue
            for number, port in enumerate(parts(container, "ports")):
                key = "hostPort" if port.get("hostPort") else "containerPort"
                if key == "hostPort" or pod.spec.get("hostNetwork"):
                    path = ("spec", kind, index, "ports", number)
                    protocol, address = str(port.get("protocol") or "TCP"), str(port.get("hostIP") or "0.0.0.0")  # noqa: S104
                    yield path, str(container.get("name")), address, protocol, int(port.get(key) or 0)


def _host_ports(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    for path, container, address, protocol, port in _ports(pod):
        for other in node.pods:
            taken = ((one, theirs) for _, _, theirs, *one in _ports(other))
            if any(one == [protocol, port] and (address == theirs or "0.0.0.0" in (address, theirs)) for one, theirs in taken):  # noqa: S104
                edit = _change(path, None)
                yield _say("NodePorts", edit, port=port, protocol=protocol, container=container, other=other.label)


def _room(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    if node.free is None:
        return
    for name, amount in {"pods": Fraction(1), **pod.requests()}.items():
        free = max(node.free.get(name, Fraction(0)), Fraction(0))
        if amount > free:
            lift, less = _node(amount, "free", name), () if name == "pods" else _smaller(pod, name, amount - free, node.free)
            yield _say("NodeResourcesFit", lift, *less, amount=_amount(name, amount), name=name, free=_amount(name, free))


def _smaller(pod: Pod, name: str, excess: Fraction, free: Mapping[str, Fraction]) -> Iterator[Edit]:
    """The request of the largest container lowered by `excess`, or made for the accelerator that the node has."""
    found = [(kind, index, one) for kind in ("containers", "initContainers") for index, one in enumerate(pod.each(kind))]
    kind, index, container = max(found, key=lambda row: requested(row[2]).get(name, Fraction(0)))
    path: tuple[str | int, ...] = ("spec", kind, index, "resources")
    whole, who = requested(container).get(name, Fraction(0)), f"container {container.get('name')}"
    if name in requested(pod.spec):
        path, container, whole, who = ("spec", "resources"), dict(pod.spec), requested(pod.spec)[name], "the pod"
        # The pod as a whole requests at least what its containers do.
        if whole - excess < requests_of({**pod.spec, "resources": {}}).get(name, 0):
            return
    left = _amount(name, whole - excess)
    sizes = {field: resources(container, field) for field in ("requests", "limits")}
    if quantity(left) and whole > excess:
        # The limit of an extended resource is its request.
        lowered = {key: {**texts, name: left} for key, texts in sizes.items() if key == "requests" or name not in PLAIN}
        words = f"lower {name} of {who} from {_amount(name, whole)} to {left}"
        yield _change(path, {key: texts for key, texts in (sizes | lowered).items() if texts}, words)
    for other in free if is_gpu_resource(name) else ():
        if other != name and is_gpu_resource(other) and free[other] >= whole:
            there = {key: texts for key, texts in sizes.items() if name in texts}
            renamed = {
                key: {one: text for one, text in texts.items() if one != name} | {other: texts[name]}
                for key, texts in there.items()
            }
            yield _change(path, sizes | renamed, f"ask for {other} instead of {name} in {who}")


def _amount(name: str, amount: Fraction) -> str:
    """An amount as Kubernetes writes it, rounded down."""
    if name == "cpu":
        return cpu_text(math.floor(amount * 1000))
    mebibytes = math.floor(amount / 2**20)
    return memory_text(mebibytes) if name != "cpu" and name in PLAIN and mebibytes else str(math.floor(amount))


def _zones(pod: Pod, node: Node, _: Sequence[Node]) -> Iterator[Refusal]:
    for zone in pod.zones:
        if node.labels.get(_ZONE) != zone:
            yield _say("VolumeZone", _node(zone, "labels", _ZONE), zone=zone, has=node.has(_ZONE))


def _spread(pod: Pod, node: Node, nodes: Sequence[Node]) -> Iterator[Refusal]:
    rows = list(enumerate(pod.each("topologySpreadConstraints")))
    rows = [(index, one) for index, one in rows if one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]
    spread = [each for each in nodes if all(one.get("topologyKey") in each.labels for _, one in rows)]
    for index, one in rows:
        path, key = ("spec", "topologySpreadConstraints", index), str(one.get("topologyKey"))
        # The API server takes minDomains with DoNotSchedule only.
        soft = {name: part for name, part in one.items() if name != "minDomains"} | {"whenUnsatisfiable": "ScheduleAnyway"}
        looser = _change(path, soft, f"set {_dotted((*path, 'whenUnsatisfiable'))}: ScheduleAnyway")
        if key not in node.labels:
            yield _say("SpreadKey", looser, by="PodTopologySpread", index=index, key=key)
            continue
        selector, counts = _selector(one, pod.labels), dict[str, int]()
        for each in (each for each in spread if _counted(pod, each, one)):
            # The scheduler counts 0 for a selector that is empty.
            theirs = sum(bool(selector) and other.place == pod.place and _selects(selector, other.labels) for other in each.pods)
            counts[each.labels[key]] = counts.get(each.labels[key], 0) + theirs
        fewest = min(counts.values(), default=2**31) if len(counts) >= int(one.get("minDomains") or 1) else 0
        skew = counts.get(node.labels[key], 0) + _selects(selector, pod.labels) - fewest
        if skew > (most := int(one.get("maxSkew") or 1)):
            edits = _change((*path, "maxSkew"), skew), looser
            value = node.labels[key]
            yield _say("PodTopologySpread", *edits, index=index, key=key, value=value, skew=skew, most=most)


def _counted(pod: Pod, node: Node, constraint: Mapping[str, Any]) -> bool:
    """Whether a constraint counts a node: by the pod's own selectors unless told otherwise, by taints only if told."""
    if constraint.get("nodeTaintsPolicy") == "Honor" and _untolerated(pod, node.taints):
        return False
    return constraint.get("nodeAffinityPolicy") == "Ignore" or not any(_labels(pod, node, ()))


def _neighbours(pod: Pod, node: Node, nodes: Sequence[Node]) -> Iterator[Refusal]:
    """Required affinity and anti-affinity between pods; that of the pods that run, too."""
    near = [(each, other) for each in nodes for other in each.pods]
    terms = _pod_terms(pod, "podAffinity")
    matching = [(each, other) for each, other in near if all(_term_takes(pod, term, other) for term in terms)]
    counted = any(term.get("topologyKey") in each.labels for each, _ in matching for term in terms)
    is_first = not counted and all(_term_takes(pod, term, pod) for term in terms)
    for index, term in enumerate(terms):
        key, path = str(term.get("topologyKey")), ("spec", "affinity", "podAffinity", _REQUIRED, index)
        beside_it = any(_same(node, each, key) for each, _ in matching)
        if key not in node.labels or not (is_first or beside_it):
            asked = " and ".join(map(shown, _selector(term, pod.labels) or ())) or "any labels"
            yield _say("PodAffinity", _change(path, None), by="InterPodAffinity", index=index, asked=asked, key=key)
    for index, term in enumerate(_pod_terms(pod, "podAntiAffinity")):
        key, path = str(term.get("topologyKey")), ("spec", "affinity", "podAntiAffinity", _REQUIRED, index)
        if found := [other for each, other in near if _same(node, each, key) and _term_takes(pod, term, other)]:
            yield _say("PodAntiAffinity", _change(path, None), by="InterPodAffinity", index=index, other=found[0].label, key=key)
    for each, other in near:
        for term in _pod_terms(other, "podAntiAffinity"):
            key = str(term.get("topologyKey"))
            if _same(node, each, key) and _term_takes(other, term, pod):
                yield _say("OtherAntiAffinity", by="InterPodAffinity", other=other.label, key=key)


def _same(node: Node, other: Node, key: str) -> bool:
    return key in node.labels and node.labels[key] == other.labels.get(key)


def _pod_terms(pod: Pod, kind: str) -> list[Mapping[str, Any]]:
    return parts(pod.spec, "affinity", kind, _REQUIRED)


def _term_takes(owner: Pod, term: Mapping[str, Any], other: Pod) -> bool:
    """Whether a term of `owner` is about `other`. Of a namespace only its own name is known, no other label."""
    spaces, selector = items(term, "namespaces"), term.get("namespaceSelector")
    if selector is None and not spaces:
        spaces = [owner.place]
    by_label = _selects(_selector({"labelSelector": selector}, {}), {"kubernetes.io/metadata.name": other.place})
    return (other.place in spaces or by_label) and _selects(_selector(term, owner.labels), other.labels)


_FILTERS: tuple[Callable[[Pod, Node, Sequence[Node]], Iterator[Refusal]], ...] = (
    _cordoned,
    _named,
    _taints,
    _labels,
    _host_ports,
    _room,
    _zones,
    _spread,
    _neighbours,
)


def refusals(pod: Pod, node: Node, nodes: Sequence[Node] = ()) -> tuple[Refusal, ...]:
    """Every reason for which the scheduler does not put the pod on a node. `nodes`: the other nodes, for affinity and spread."""
    everyone = (node, *(other for other in nodes if other.name != node.name))
    return tuple(reason for rule in _FILTERS for reason in rule(pod, node, everyone))


# -- pools -------------------------------------------------------------------------------------------------------------


def judge(pod: Pod, pool: Pool, running: Sequence[Node] = ()) -> Verdict:
    """Whether a pool runs a pod. `running`: the nodes of the cluster with their pods, for affinity and spread."""
    real = [_of_pool(pool, ("nodes", index), refusals(pod, node, running)) for index, node in enumerate(pool.nodes)]
    refused = [reasons for reasons in real if reasons]
    if pool.chooses and len(refused) < len(real):
        refused = []
    # A DaemonSet starts no node.
    empty = not pool.minimum and pod.kind != "DaemonSet"
    assumed: tuple[Refusal, ...] = ()
    if empty and pool.template is not None:
        assumed = _of_pool(pool, ("template",), refusals(pod, pool.template, running))
    worst = min(refused, key=lambda reasons: sum(map(_weight, reasons)), default=())
    if worst:
        endless = empty and pool.template is not None and not assumed
        known = {reason.text for reason in worst}
        return Verdict(
            pool,
            "endless" if endless else "refused",
            (*worst, *(reason for reason in assumed if reason.text not in known)),
        )
    if assumed:
        return Verdict(pool, "never", assumed)
    if late := tuple(_after(pod, pool)):
        return Verdict(pool, "rejected", late)
    if empty and (reached := tuple(_ceilings(pool))):
        return Verdict(pool, "ceiling", reached)
    return Verdict(pool, "runs")


def _of_pool(pool: Pool, place: tuple[str | int, ...], reasons: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """The reasons of a node of the pool; a change of the node that nothing can make is left out."""

    def edits(reason: Refusal) -> Iterator[Edit]:
        for edit in reason.edits:
            key = str(edit.path[-1])
            what = "zone" if key == _ZONE else str(edit.path[0])
            assumed = place == ("template",) and pool.scaler in _WORDS["edit"]
            if edit.on == "pod":
                yield edit
            elif assumed or what in ("zone", "unschedulable") or (key in _LIFTED if what == "free" else _settable(key)):
                words = _WORDS["edit"][pool.scaler if assumed else "pool"].get(what, _WORDS["edit"]["pool"][what])
                value = _amount(key, edit.value) if what == "free" else edit.value
                text = words.format(pool=pool.name, key=key, value=value, node=pool.nodes[0].name)
                yield Edit("pool", (*place, *edit.path), edit.value, f"pool: {text}")

    words = "the template node: " if place == ("template",) else ""
    return tuple(replace(reason, text=words + reason.text, edits=tuple(edits(reason))) for reason in reasons)


def _settable(key: str) -> bool:
    """Whether people give nodes this label; kubelet and the cloud set the others."""
    domain = f".{key.rpartition('/')[0]}"
    return not domain.endswith((".kubernetes.io", ".k8s.io"))


def _after(pod: Pod, pool: Pool) -> Iterator[Refusal]:
    """What kubelet refuses after the scheduler: several shares of a GPU, and NUMA nodes."""
    for index, container in enumerate(pod.each("containers")):
        if (amount := requested(container).get(pool.single, Fraction(0))) > 1:
            who, sizes = container.get("name"), container["resources"]
            one = {key: {**texts, pool.single: "1"} if pool.single in texts else texts for key, texts in sizes.items()}
            less = _change(("spec", "containers", index, "resources"), one, f"ask for 1 {pool.single} in container {who}")
            yield _say("Sharing", less, _lift(pool, "", "single"), container=who, amount=amount, name=pool.single)
    name = next(filter(is_gpu_resource, pod.requests()), GPU_RESOURCE)
    for node in pool.nodes if pool.managers else ():
        units = int((node.free or {}).get(name, 0))
        if node.machine and pool.managers and (why := topology.rejection(pod.ask(name), node.machine, units, pool.managers)):
            looser = pool.managers.model_copy(update={"topology_manager_policy": "best-effort"})
            yield _say("TopologyAffinity", _lift(pool, looser, "managers"), why=why)


def _ceilings(pool: Pool) -> Iterator[Refusal]:
    for name, left in pool.ceilings.items():
        if left < 1:
            yield _say("Ceiling", _lift(pool, 1, "ceilings", name), name=name, left=left)


def _lift(pool: Pool, value: Any, *path: str) -> Edit:
    """A change of the pool itself."""
    return Edit("pool", path, value, "pool: " + _WORDS["edit"]["pool"][path[0]].format(key=path[-1], pool=pool.name))


def reach(pod: Pod, pools: Sequence[Pool], running: Sequence[Node] = ()) -> Reach:
    """Which pools run a pod. If none does: the nearest with the fewest reasons that a fix removes, and that fix."""
    verdicts = tuple(judge(pod, pool, running) for pool in pools)
    by_distance = sorted(verdicts, key=lambda verdict: verdict.distance)
    if not verdicts or not by_distance[0].reasons:
        return Reach(pod, verdicts, by_distance[0] if verdicts else None)
    for verdict in by_distance:
        if fix := repair(pod, verdict.pool, running):
            return Reach(pod, verdicts, verdict, fix)
    return Reach(pod, verdicts, by_distance[0])


def repair(pod: Pod, pool: Pool, running: Sequence[Node] = ()) -> tuple[Edit, ...]:
    """The fewest changes after which the pool runs the pod, each proved on a copy; empty if no few of them are enough.

    Every fix must remove the first reason, so only its changes are tried next.
    """
    states: list[tuple[tuple[Edit, ...], Pod, Pool]] = [((), pod, pool)]
    for _ in range(MOST_EDITS):
        changed = []
        for edits, now, place in states:
            for edit in judge(now, place, running).reasons[0].edits:
                after = (*edits, edit)
                state = after, *applied((edit,), now, place)
                if not judge(*state[1:], running).reasons:
                    return after
                changed.append(state)
        states = changed[:_BEAM]
    return ()


def applied(edits: Iterable[Edit], pod: Pod, pool: Pool) -> tuple[Pod, Pool]:
    """The pod and the pool after changes."""
    for edit in edits:
        if edit.on == "pod":
            pod = _put(pod, edit.path, edit.value)
        else:
            pool = _put(pool, edit.path, edit.value)
    return pod, pool


def _put(whole: Any, path: Sequence[str | int], value: Any) -> Any:
    """A copy in which the value at the path is another one, or is gone if that is None."""
    if not path:
        return value
    key, *rest = path
    if isinstance(whole, Record):
        return replace(whole, **{str(key): _put(getattr(whole, str(key)), rest, value)})
    if isinstance(whole, (list, tuple)):
        one = len(whole) if key == "-" else int(key)
        new = [] if value is None and not rest else [_put(whole[one] if key != "-" else None, rest, value)]
        return type(whole)([*whole[:one], *new, *whole[one + 1 :]])
    if key == "-":
        return [_put(None, rest, value)]
    gone = value is None and not rest
    return {**{name: old for name, old in (whole or {}).items() if name != key}} | (
        {} if gone else {key: _put((whole or {}).get(key), rest, value)}
    )


# -- what stands for a pool --------------------------------------------------------------------------------------------


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
    `taints` are those that the autoscaler is told: of a managed node group, or the initial node labels; empty for an Auto Scaling
    group of one's own, of which only `tags` say them.
    """
    facts = toml("nodes.toml")["providers"][provider]["template"]
    own = ("kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname", "topology.kubernetes.io/region", *facts["labels"])
    told = {tag.removeprefix(TEMPLATE): text for tag, text in tags.items() if tag.startswith(TEMPLATE)} if facts["tags"] else {}

    def of(kind: str) -> dict[str, str]:
        return {tag.removeprefix(f"{kind}/"): text for tag, text in told.items() if tag.startswith(f"{kind}/")}

    storage = {"ephemeral-storage": tags[STORAGE_TAG]} if not facts["tags"] and STORAGE_TAG in tags else {}
    machine = {name: amount for name, amount in capacity.items() if name != "ephemeral-storage"}
    known = [Taint.read(f"{key}={text}") for key, text in of("taint").items() if text.partition(":")[2] in list(Effect)]
    gpus = map(Taint.read, facts["gpu-taints"] if capacity.get(GPU_RESOURCE) else ())
    return Node(
        f"template of {node.name}",
        {key: node.labels[key] for key in own if key in node.labels} | {**labels, **of("label")},
        tuple(dict.fromkeys((*taints, *known, *gpus))),
        machine | {"pods": Fraction(facts["pods"])} | amounts(of("resources") | storage),
    )


def flavor(name: str, labels: Mapping[str, str], taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> Pool:
    """A ResourceFlavor of Kueue as a pool: it compares taints, and selectors on its own label keys, and gives `tolerations`.

    Source: kubernetes-sigs/kueue v0.19.2, pkg/scheduler/flavorassigner.
    """
    left = tuple(taint for taint in taints if not any(one.covers(taint) for one in tolerations))
    return Pool(name, (Node(name, labels, left, only=frozenset(labels)),), minimum=1)


def admitted(pod: Pod, labels: Mapping[str, str], tolerations: Sequence[Toleration]) -> Pod:
    """A pod as Kueue starts it in a flavor: with the flavor's labels as a selector, and its tolerations."""
    added = [one.manifest() for one in tolerations]
    spec = {"nodeSelector": pod.selector | dict(labels), "tolerations": [*pod.each("tolerations"), *added]}
    return replace(pod, spec={**pod.spec, **spec})
