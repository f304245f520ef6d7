"""The reasons for which a pod cannot run in a pool, each with changes that may remove it.

The order is that of Kubernetes: first what the API server refuses, then queues and gates, then what the scheduler compares. A
change of the stack is one value of the stack file. It counts only if the settings are still valid with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from pydantic import ValidationError

from fleet.facts.hardware import OWNED
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import (
    QUEUE_LABEL,
    RUNNER_PRIORITY,
    RUNTIME_CLASS,
    Taint,
    Toleration,
    is_gpu_resource,
)
from fleet.prove.namespace_limits import limit_range, resource_quota, team_limit_range
from fleet.prove.nodes import Nodes, Values, cluster_nodes
from fleet.prove.placement import NUMA, disk_for, fit, shortage, smallest
from fleet.prove.pod import PLAIN, Pod, PodAsk, resources
from fleet.prove.quota import barred
from fleet.prove.room import standing
from fleet.prove.shares import flavor_share
from fleet.providers.installed import image_of, installed
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import GPU_OPERATOR
from fleet.settings.jobs import team_of
from fleet.settings.model import cpu_text, memory_text
from fleet.settings.queues import units

_SYSTEM_PRIORITIES = ("system-cluster-critical", "system-node-critical")
"""Kubernetes' own priority classes."""
_WITHOUT_VALUE = ("Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class Case:
    """A pod and the nodes of one pool."""

    pod: Pod
    nodes: Nodes

    @property
    def settings(self) -> Cluster:
        """The settings of the pool's cluster."""
        return self.nodes.settings


@dataclass(frozen=True, slots=True)
class Edit:
    """A change in words, such as "pod: add toleration …". `apply` returns None if the settings are not valid with it.

    `weight` ranks changes of equal number: 0 only moves the pod, 1 changes what it asks for, 2 changes the stack.
    """

    text: str
    apply: Callable[[Case], Case | None]
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pod cannot run in a pool, and the changes that may help."""

    text: str
    edits: tuple[Edit, ...] = ()


def reasons(case: Case) -> Iterator[Reason]:
    """Every reason for which the pod cannot run in the pool; none if it can."""
    for rule in _RULES:
        yield from rule(case)


# -- changes -----------------------------------------------------------------------------------------------------------


def _pod_edit(text: str, change: Callable[[dict[str, Any]], object], weight: int = 0) -> Edit:
    return Edit(f"pod: {text}", lambda case: replace(case, pod=case.pod.changed(change)), weight)


def _object_edit(text: str, **fields: Any) -> Edit:
    return Edit(f"pod: {text}", lambda case: replace(case, pod=replace(case.pod, **fields)))


def _stack_edit(case: Case, path: tuple[str | int, ...], value: Any) -> Edit:
    """Set a value of the cluster's settings. `path` leads to it; its last step may be the end of a list."""
    where = ".".join(map(str, ("clusters", case.nodes.cluster, *path)))
    return Edit(f"stack: set {where}: {json.dumps(value)}", partial(_with_setting, path, value), 2)


def _with_setting(path: tuple[str | int, ...], value: Any, case: Case) -> Case | None:
    given: Any = case.settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    held = given
    for key in path[:-1]:
        held = held[key]
    held[path[-1]] = value
    try:
        changed = type(case.settings).model_validate_json(json.dumps(given))
    except ValidationError:
        return None
    found = cluster_nodes(case.nodes.cluster, changed, case.nodes.github)
    return replace(case, nodes=next(each for each in found if each.name == case.nodes.name))


def _all(changes: Iterable[Callable[[dict[str, Any]], object]]) -> Callable[[dict[str, Any]], object]:
    return lambda spec: [change(spec) for change in changes]


def _drop(key: str, spec: dict[str, Any]) -> None:
    spec.pop(key, None)


def _setter(key: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda spec: spec.update({key: value})


def _amount_setter(field: str, name: str, value: Any, container: str | None = None) -> Callable[[dict[str, Any]], None]:
    """Set an amount of every container that names it, or of one container."""

    def change(spec: dict[str, Any]) -> None:
        for each in (*(spec.get("initContainers") or ()), *spec["containers"]):
            held = each.setdefault("resources", {}).setdefault(field, {})
            if each.get("name") == container or (container is None and name in held):
                held[name] = value

    return change


# -- what the API server refuses ---------------------------------------------------------------------------------------


def _amounts(case: Case) -> Iterator[Reason]:
    """Kubernetes' rules for requests and limits (pkg/apis/core/validation, validateContainerResourceRequirements)."""
    for container in case.pod.containers:
        limits, requests = (resources(container, field) for field in ("limits", "requests"))
        who = container.get("name")
        for name in {**requests, **limits}:
            asked, most = (quantity(held.get(name)) for held in (requests, limits))
            if name not in PLAIN and (asked or most or Fraction(0)).denominator != 1:
                up = math.ceil(asked or most or 0)
                setters = [_amount_setter(field, name, up, who) for field in ("limits", "requests")]
                fix = _pod_edit(f"write {name}: {up}", _all(setters), 1)
                yield Reason(f"the API server refuses it: {name} is a whole number", (fix,))
            elif name not in PLAIN and asked is not None and asked != most:
                text = "has no limit" if most is None else "has another limit"
                fix = _pod_edit(
                    f"set limits of {who}: {name}: {_plain(asked)}", _amount_setter("limits", name, _plain(asked), who)
                )
                yield Reason(f"the API server refuses it: {name} {text}, and its request must equal its limit", (fix,))
            elif asked is not None and most is not None and asked > most:
                shown = limits[name]
                fix = _pod_edit(f"set requests of {who}: {name}: {shown}", _amount_setter("requests", name, shown, who), 1)
                yield Reason(f"the API server refuses it: the {name} request of {who} is above its limit", (fix,))


def _plain(amount: Fraction) -> int | str:
    return int(amount) if amount.denominator == 1 else str(float(amount))


def _classes(case: Case) -> Iterator[Reason]:
    """The RuntimeClass and the PriorityClass that the pod names must exist, or the API server refuses it."""
    settings = case.settings
    if settings.found is not None:
        return
    image = image_of(settings)
    handler = settings.enablement == GPU_OPERATOR or bool(image is not None and image.handler)
    priorities = [RUNNER_PRIORITY.name, *(each.name for each in settings.priorities)]
    ours = {"runtimeClassName": [RUNTIME_CLASS] if handler else [], "priorityClassName": priorities}
    for key, names in ours.items():
        if (name := case.pod.text(key)) and name not in (*names, *_SYSTEM_PRIORITIES):
            kind = f"{key[0].upper()}{key[1:].removesuffix('Name')}"
            edits = [_pod_edit(f"remove {key}: {name}", partial(_drop, key))]
            edits += [_pod_edit(f"set {key}: {each}", _setter(key, each)) for each in names[:1]]
            yield Reason(f"the API server refuses it: cluster {case.nodes.cluster} has no {kind} {name}", tuple(edits))


def _namespace(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """(item of the LimitRange, hard part of the ResourceQuota) of the pod's namespace; both empty if it has none."""
    settings, namespace = case.settings, case.pod.namespace
    if namespace and settings.queues is not None and namespace in settings.queues.namespaces:
        return team_limit_range()["limits"][0], {}
    for chart in installed(settings, case.nodes.cluster, case.nodes.github) if namespace.startswith("runners-") else ():
        if chart.namespace == namespace and "maxRunners" in chart.values:
            return limit_range(chart)["limits"][0], resource_quota(chart)["hard"]
    return {}, {}


def _limits(case: Case) -> Iterator[Reason]:
    """The LimitRange and the ResourceQuota of the namespace."""
    item, hard = _namespace(case)
    for container in case.pod.containers:
        for name, most in item.get("max", {}).items():
            given = resources(container, "limits").get(name)
            if (quantity(given) or 0) > (quantity(most) or 0):
                who = container.get("name")
                fix = _pod_edit(f"set limits of {who}: {name}: {most}", _amount_setter("limits", name, most, who), 1)
                yield Reason(
                    f"the LimitRange of namespace {case.pod.namespace} refuses {name} {given} of {who}: {most} at most", (fix,)
                )
    for name, amount in case.pod.requests().items():
        most_of_all = quantity(hard.get(f"requests.{name}"))
        if most_of_all is not None and amount > most_of_all:
            yield Reason(f"the ResourceQuota of namespace {case.pod.namespace} admits {most_of_all} {name} at most")


# -- queues and gates --------------------------------------------------------------------------------------------------


def _queue(case: Case) -> Iterator[Reason]:
    """Kueue admits a Job of a team's namespace only if the team's quota of the pool is large enough."""
    pod, queues = case.pod, case.settings.queues
    team = team_of(pod.namespace, queues)
    if pod.kind != "Job" or queues is None or not (team or (pod.queue and not pod.namespace)):
        if pod.suspended:
            fix = _object_edit("set suspend: false of the Job", suspended=False)
            yield Reason("the Job is suspended, and no queue starts it", (fix,))
        return
    if case.nodes.is_system:
        yield Reason("its queue has no quota of this pool")
        return
    whole = _ask(case).times(pod.count)
    if not (lacking := barred(whole, pod.queue or None, pod.namespace or None, case.settings, case.nodes.host)):
        return
    names = [team] if team else list(queues.teams)
    edits = [_object_edit(f"set label {QUEUE_LABEL}: {name}", queue=name) for name in names]
    kind = "flavor" if (flavor := queues.flavor_of(case.nodes.host.name)) else "pool"
    flavor = flavor or case.nodes.host.name
    part = flavor_share(case.settings, queues, case.nodes.host)
    need = max(whole.gpus, math.ceil(whole.cpu.request / part.cpu), math.ceil(whole.memory.request / part.memory))
    for name in names:
        quotas = [quota.name for quota in queues.teams[name].quotas]
        at = ("queues", "teams", name, "quotas")
        if flavor in quotas:
            edits.append(_stack_edit(case, (*at, quotas.index(flavor), "nominal"), need))
        else:
            given = [quota.model_dump(mode="json", by_alias=True, exclude_unset=True) for quota in queues.teams[name].quotas]
            edits.append(_stack_edit(case, at, [*given, {kind: flavor, "nominal": need}]))
    yield Reason(f"its queue never admits it: {lacking.partition('; ')[0]}", tuple(edits))


def _gates(case: Case) -> Iterator[Reason]:
    """The scheduler ignores a pod with scheduling gates."""
    if gates := case.pod.each("schedulingGates"):
        names = ", ".join(str(gate.get("name")) for gate in gates)
        fix = _pod_edit("remove schedulingGates", partial(_drop, "schedulingGates"))
        yield Reason(f"the scheduler waits until something removes the scheduling gate {names}", (fix,))


# -- what the scheduler compares ---------------------------------------------------------------------------------------


def _selector(case: Case) -> Iterator[Reason]:
    """Every label of the node selector must be on every machine type of the pool."""
    nodes, selector = case.nodes, case.pod.selector
    wrong = {
        key: value
        for key, value in selector.items()
        if not all(_has(nodes.values(index, key), value) for index in range(len(nodes.labels)))
    }
    if not wrong:
        return
    kept = {key: value for key, value in selector.items() if key not in wrong}
    edits = []
    if len(wrong) == 1 and (value := _one(nodes, key := next(iter(wrong)))):
        edits.append(_pod_edit(f"set nodeSelector {key}: {value}", _setter("nodeSelector", selector | {key: value})))
    else:
        old = " and ".join(wrong)
        target = _target(case)
        edits.append(
            _pod_edit(f"set nodeSelector {_pairs(target)} instead of {old}", _setter("nodeSelector", {**kept, **target}))
        )
    yield Reason("; ".join(_mismatch(nodes, key, value) for key, value in wrong.items()), tuple(edits))


def _target(case: Case) -> Mapping[str, str]:
    """The node labels by which pods select the pool."""
    name = case.nodes.host.name
    return case.settings.system_selector if case.nodes.is_system else case.settings.pools[name].node_selector(name)


def _pairs(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in labels.items())


def _has(values: Values, value: str) -> bool:
    return values is None or value in values


def _one(nodes: Nodes, key: str) -> str:
    """The value of a label that all machines of the pool have; empty if there is not exactly one."""
    found = {frozenset(nodes.values(index, key) or ()) for index in range(len(nodes.labels))}
    return next(iter(next(iter(found)))) if len(found) == 1 and len(next(iter(found))) == 1 else ""


def _mismatch(nodes: Nodes, key: str, value: str) -> str:
    asked = f"its nodeSelector asks for {key}={value}"
    if nodes.discovered_late(key):
        return f"{asked}: feature discovery sets that label only after a node has started, so the autoscaler starts none"
    held = sorted(set().union(*(nodes.values(index, key) or () for index in range(len(nodes.labels)))))
    return f"{asked}, the nodes have {' or '.join(held)}" if held else f"{asked}, the nodes do not have that label"


def _affinity(case: Case) -> Iterator[Reason]:
    """At least one term of the required node affinity must match on every machine type of the pool."""
    nodes, terms = case.nodes, case.pod.terms
    if not terms or all(any(_term(nodes, index, term) for term in terms) for index in range(len(nodes.labels))):
        return
    target = _target(case)
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in target.items()]
    words = " or ".join(" and ".join(_words(each) for each in _expressions(term)) for term in terms)
    fix = _pod_edit(f"set the required node affinity to {_pairs(target)}", partial(_bind, expressions))
    yield Reason(f"its required node affinity does not match the nodes: {words}", (fix,))


def _bind(expressions: list[dict[str, Any]], spec: dict[str, Any]) -> None:
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"] = [{"matchExpressions": expressions}]


def _expressions(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in term.get("matchExpressions") or () if isinstance(each, Mapping)]


def _words(expression: Mapping[str, Any]) -> str:
    values = expression.get("values") or []
    return " ".join(
        filter(
            None,
            (str(expression.get("key")), str(expression.get("operator")), f"[{', '.join(map(str, values))}]" if values else ""),
        )
    )


def _term(nodes: Nodes, index: int, term: Mapping[str, Any]) -> bool:
    """Whether one term matches. A term without expressions matches nothing; the names of nodes (matchFields) are not known."""
    held = _expressions(term)
    return bool(held or term.get("matchFields")) and all(
        _matches(nodes.values(index, str(each.get("key"))), each) for each in held
    )


def _matches(values: Values, expression: Mapping[str, Any]) -> bool:
    """Kubernetes' operators of node affinity. An unknown value may match all but DoesNotExist."""
    operator, given = str(expression.get("operator")), [str(each) for each in expression.get("values") or ()]
    if operator in _WITHOUT_VALUE:
        return bool(values is None or values) == (operator == "Exists")
    if values is None:
        return True
    if operator == "In":
        return any(each in values for each in given)
    if operator == "NotIn":
        return not values or any(each not in given for each in values)
    numbers: list[int] = [int(each) for each in (*values, *given) if each.lstrip("-").isdecimal()]
    if operator not in ("Gt", "Lt") or not values or len(numbers) != len(values) + 1:
        return False
    *held, bound = numbers
    return any(each > bound if operator == "Gt" else each < bound for each in held)


def _taints(case: Case) -> Iterator[Reason]:
    """Every taint that keeps pods off must be tolerated: on real nodes, and in the autoscaler's idea of an empty pool."""
    nodes, tolerations = case.nodes, case.pod.tolerations
    seen = set()
    for taint, real in [
        *((each, True) for each in nodes.taints),
        *((each, False) for each in nodes.imagined if nodes.starts_empty),
    ]:
        if taint.key in seen or any(each.covers(taint) for each in tolerations):
            continue
        seen.add(taint.key)
        same = [each for each in tolerations if each.key == taint.key and each.effect in ("", taint.effect)]
        others = f" (its toleration has the value {same[0].value!r})" if same else ""
        where = (
            f"the taint {taint}"
            if real
            else f"the taint {taint} that the autoscaler assumes for an empty pool, so no first node starts"
        )
        wanted = Toleration(taint.key, effect=taint.effect).manifest()
        text = f"add toleration {{{_pairs(wanted)}}}"
        if same:
            text = f"set operator: Exists, without a value, in the toleration of {taint.key}"
        yield Reason(f"it does not tolerate {where}{others}", (_pod_edit(text, partial(_tolerate, taint, wanted)),))


def _tolerate(taint: Taint, wanted: Mapping[str, str], spec: dict[str, Any]) -> None:
    """Tolerate a taint. Tolerations of the same key and effect are replaced."""
    kept = [
        each
        for each in spec.get("tolerations") or ()
        if each.get("key") != taint.key or each.get("effect", taint.effect) != taint.effect
    ]
    spec["tolerations"] = [*kept, dict(wanted)]


def _devices(case: Case) -> Iterator[Reason]:
    """The nodes must offer every extended resource that the pod requests, and the device plugin must give it that many."""
    host, held = case.nodes.host, case.pod.requests()
    offered = host.resource if not case.nodes.is_system else ""
    unit = f" ({host.sharing.unit} each)" if host.sharing is not None else ""
    for name in held:
        if name in (*PLAIN, offered) or not held[name]:
            continue
        if case.nodes.is_system:
            yield Reason(f"it asks for {name}, and the nodes of the system pool have no GPU")
            continue
        rename = _pod_edit(f"ask for {offered} instead of {name}", partial(_rename, name, offered), 1)
        drop = _pod_edit(f"remove {name} from limits and requests", partial(_rename, name, ""), 1)
        like = is_gpu_resource(name) or "gpu" in name.lower()
        yield Reason(f"it asks for {name}, the nodes offer {offered}{unit}", (rename,) if like else (drop,))
    if host.sharing is not None and not host.sharing.several:
        for container in case.pod.containers:
            count = quantity({**resources(container, "limits"), **resources(container, "requests")}.get(offered)) or 0
            if count > 1:
                who = container.get("name")
                both = [_amount_setter(field, offered, 1, who) for field in ("limits", "requests")]
                less = _pod_edit(f"ask for 1 {offered} in {who}", _all(both), 1)
                more = _stack_edit(case, ("pools", host.name, "sharing", "allowSeveral"), True)
                yield Reason(
                    f"{who} asks for {count} shares, and the device plugin gives a container 1 (UnexpectedAdmissionError)",
                    (less, more),
                )


def _rename(name: str, to: str, spec: dict[str, Any]) -> None:
    for each in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for held in (each.get("resources") or {}).values():
            if isinstance(held, dict) and name in held:
                amount = held.pop(name)
                if to:
                    held[to] = amount


def _ask(case: Case) -> PodAsk:
    """What the pod reserves on these nodes."""
    item, _ = _namespace(case)
    return case.pod.ask("" if case.nodes.is_system else case.nodes.host.resource, item.get("defaultRequest"))


def _room(case: Case) -> Iterator[Reason]:
    """The pod must fit on an empty node of every machine type of the pool: the autoscaler may start any of them."""
    host, ask = case.nodes.host, _ask(case)
    fits = [fit(ask, machine, host) for machine in host.machines]
    short = [found for found in fits if not found.count]
    if not short:
        return
    edits = []
    if not case.nodes.is_system and host.machines[0].cloud != OWNED and (larger := smallest(ask, host)) is not None:
        edits.append(_stack_edit(case, ("pools", host.name, "instanceTypes"), [larger.name]))
    if ask.scratch > min(found.offer.storage for found in fits) and not case.nodes.is_system:
        edits.append(_stack_edit(case, ("pools", host.name, "disk"), memory_text(disk_for(ask.scratch))))
    if any(found.limited_by == NUMA for found in short) and (at := case.settings.pools[host.name].MANAGERS_AT):
        edits.append(_stack_edit(case, ("pools", host.name, *at, "topologyManagerPolicy"), "best-effort"))
    edits += _lower(
        case,
        ask,
        {
            host.resource: (ask.gpus, min(found.offer.gpus for found in fits), str),
            "cpu": (ask.cpu.request, min(found.offer.cpu for found in fits), cpu_text),
            "memory": (ask.memory.request, min(found.offer.memory for found in fits), memory_text),
            "ephemeral-storage": (ask.scratch, min(found.offer.storage for found in fits), memory_text),
        },
    )
    yield Reason("it " + "; it ".join(shortage(ask, found, host) for found in short), tuple(edits))


def _lower(case: Case, ask: PodAsk, rows: Mapping[str, tuple[int, int, Callable[[int], str]]]) -> Iterator[Edit]:
    """One change that lowers every request of the largest container that is too large for the nodes."""
    words, changes = [], []
    for name, (asked, left, text) in rows.items():
        if asked <= left:
            continue
        largest = max(
            case.pod.each("containers"),
            key=lambda each: quantity({**resources(each, "limits"), **resources(each, "requests")}.get(name)) or 0,
        )
        rest = asked - _units(name, {**resources(largest, "limits"), **resources(largest, "requests")}.get(name))
        if left - rest <= 0:
            return
        value, who = text(left - rest), largest.get("name")
        fields = ("requests",) if name in PLAIN else ("limits", "requests")
        changes += [_amount_setter(field, name, value, who) for field in fields]
        words.append(f"{name}: {value}")
    if changes:
        yield _pod_edit(f"lower the requests of {who} to {', '.join(words)}", _all(changes), 1)


def _units(name: str, amount: Any) -> int:
    scale = {"cpu": Fraction(1000), "memory": Fraction(1, 2**20), "ephemeral-storage": Fraction(1, 2**20)}
    return math.ceil((quantity(amount) or 0) * scale.get(name, Fraction(1)))


def _standing(case: Case) -> Iterator[Reason]:
    """Workloads that always run may fill the whole pool."""
    if case.nodes.is_system or not (ask := _ask(case)).gpus:
        return
    host, pool, own = case.nodes.host, case.settings.pools[case.nodes.host.name], (case.pod.namespace, case.pod.name)
    others = {name: each.units for name, each in standing(case.settings, host.name) if (each.namespace, name) != own}
    taken, most = sum(others.values()), units(pool)
    if others and taken + ask.gpus > most >= ask.gpus:
        more = pool.nodes.max + math.ceil((taken + ask.gpus - most) * pool.nodes.max / most)
        grow = _stack_edit(case, ("pools", host.name, "nodes", "max"), more)
        who = f"{' and '.join(others)} always {'takes' if len(others) == 1 else 'take'}"
        yield Reason(f"{who} {taken} of the {most} {host.counted} of the full pool", (grow,))


def _caches(case: Case) -> Iterator[Reason]:
    """A claim exists only in the namespaces of its cache."""
    for claim in case.pod.claims:
        cache = case.settings.caches.get(claim)
        if cache is None or not case.pod.namespace or case.pod.namespace in cache.namespaces:
            continue
        home = cache.namespaces[0]
        move = _object_edit(f"set metadata.namespace: {home}", namespace=home)
        add = _stack_edit(case, ("caches", claim, "namespaces"), [*cache.namespaces, case.pod.namespace])
        yield Reason(
            f"namespace {case.pod.namespace} has no claim {claim}: the cache has namespaces {', '.join(cache.namespaces)}",
            (move, add),
        )


_RULES: tuple[Callable[[Case], Iterator[Reason]], ...] = (
    _amounts,
    _classes,
    _limits,
    _queue,
    _gates,
    _caches,
    _selector,
    _affinity,
    _taints,
    _devices,
    _room,
    _standing,
)
