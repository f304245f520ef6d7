"""The reasons for which a pod cannot run in a pool, and for each the change that removes it.

The order is that of Kubernetes: first what the API server refuses, then queues and gates, then what the scheduler compares. A
fix is one line that begins with where to change it: "pod: …" or "stack: …". It removes its own reason and no other.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from fleet.facts.hardware import OWNED
from fleet.facts.quantities import cpu_text, memory_text, quantity
from fleet.facts.record import Record
from fleet.facts.requests import requested, resources
from fleet.facts.scheduling import DEFAULT_QUEUE, QUEUE_LABEL, RUNNER_PRIORITY, RUNTIME_CLASS, is_gpu_resource
from fleet.prove.namespace_limits import limit_range, resource_quota, team_limit_range
from fleet.prove.nodes import Nodes
from fleet.prove.placement import NUMA, Fit, disk_for, fit, shortage, smallest
from fleet.prove.pod import PLAIN, Pod, PodAsk
from fleet.prove.quota import barred
from fleet.prove.reach import intolerance, several, term_holds, term_words
from fleet.prove.room import standing
from fleet.providers.installed import image_of, installed
from fleet.settings.enablement import GPU_OPERATOR
from fleet.settings.jobs import team_of
from fleet.settings.queues import units


class Reason(Record):
    """Why a pod cannot run in a pool, and the change that removes the reason. `fix` is empty if none does.

    `weight` ranks fixes: 0 only moves the pod, 1 changes what it asks for, 2 changes the stack.
    """

    text: str
    fix: str = ""
    weight: int = 0


def reasons(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """Every reason for which the pod cannot run in the pool; none if it can."""
    for rule in _RULES:
        yield from rule(pod, nodes)


def _set(nodes: Nodes, path: str, value: object) -> str:
    """The fix that sets a value of the settings of the pool's cluster."""
    return f"stack: set clusters.{nodes.cluster}.{path}: {json.dumps(value)}"


# -- what the API server refuses ---------------------------------------------------------------------------------------


def _amounts(pod: Pod, _: Nodes) -> Iterator[Reason]:
    """Kubernetes' rules for requests and limits (pkg/apis/core/validation, validateContainerResourceRequirements)."""
    for container in pod.containers:
        limits, requests = (resources(container, field) for field in ("limits", "requests"))
        who = container.get("name")
        for name in {**requests, **limits}:
            request, limit = (quantity(amounts.get(name)) for amounts in (requests, limits))
            fault = fix = ""
            if name not in PLAIN and (request or limit or Fraction(0)).denominator != 1:
                fault, fix = f"{name} is a whole number", f"write {name}: {math.ceil(request or limit or 0)}"
            elif name not in PLAIN and request is not None and request != limit:
                text = "has no limit" if limit is None else "has another limit"
                fault, fix = f"{name} {text}, and its request must equal its limit", f"set limits of {who}: {name}: {request}"
            elif request is not None and limit is not None and request > limit:
                fault = f"the {name} request of {who} is above its limit"
                fix = f"set requests of {who}: {name}: {limits[name]}"
            if fault:
                yield Reason(f"the API server refuses it: {fault}", f"pod: {fix}", 1)


def _classes(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """The RuntimeClass and the PriorityClass that the pod names must exist, or the API server refuses it."""
    settings = nodes.settings
    if settings.found is not None:
        return
    image = image_of(settings)
    handler = settings.enablement == GPU_OPERATOR or bool(image is not None and image.handler)
    # Two priority classes are Kubernetes' own.
    priorities = ["system-cluster-critical", "system-node-critical", RUNNER_PRIORITY.name]
    priorities += [priority.name for priority in settings.priorities]
    for key, names in {"runtimeClassName": [RUNTIME_CLASS] if handler else [], "priorityClassName": priorities}.items():
        if (name := pod.text(key)) and name not in names:
            kind = f"{key[0].upper()}{key[1:].removesuffix('Name')}"
            yield Reason(f"the API server refuses it: cluster {nodes.cluster} has no {kind} {name}", f"pod: remove {key}: {name}")


def _namespace(pod: Pod, nodes: Nodes) -> tuple[dict[str, Any], dict[str, Any]]:
    """(item of the LimitRange, hard part of the ResourceQuota) of the pod's namespace; both empty if it has none."""
    settings, namespace = nodes.settings, pod.namespace
    if namespace and settings.queues is not None and namespace in settings.queues.namespaces:
        return team_limit_range()["limits"][0], {}
    for chart in installed(settings, nodes.cluster, nodes.github) if namespace.startswith("runners-") else ():
        if chart.namespace == namespace and "maxRunners" in chart.values:
            return limit_range(chart)["limits"][0], resource_quota(chart)["hard"]
    return {}, {}


def _limits(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """The LimitRange and the ResourceQuota of the namespace."""
    item, hard = _namespace(pod, nodes)
    for container in pod.containers:
        for name, most in item.get("max", {}).items():
            limit = resources(container, "limits").get(name)
            if (quantity(limit) or 0) > (quantity(most) or 0):
                who = container.get("name")
                fix = f"pod: set limits of {who}: {name}: {most}"
                yield Reason(
                    f"the LimitRange of namespace {pod.namespace} refuses {name} {limit} of {who}: {most} at most", fix, 1
                )
    for name, amount in pod.requests().items():
        if (most_of_all := quantity(hard.get(f"requests.{name}"))) is not None and amount > most_of_all:
            yield Reason(f"the ResourceQuota of namespace {pod.namespace} admits {most_of_all} {name} at most")


# -- queues and gates --------------------------------------------------------------------------------------------------


def _queue(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """Kueue admits a Job of a team's namespace only if the team's quota of the pool is large enough."""
    queues = nodes.settings.queues
    team = team_of(pod.namespace, queues)
    if pod.kind != "Job" or queues is None or not (team or (pod.queue and not pod.namespace)):
        if pod.suspended:
            yield Reason("the Job is suspended, and no queue starts it", "pod: set suspend: false of the Job")
    elif nodes.is_system:
        yield Reason("its queue has no quota of this pool")
    elif lack := barred(_ask(pod, nodes).times(pod.count), pod.queue or None, pod.namespace or None, nodes.settings, nodes.host):
        text, _, fix = lack.rpartition("; ")
        wrong = team and pod.queue not in ("", team, DEFAULT_QUEUE)
        edit = f"pod: set label {QUEUE_LABEL}: {team}" if wrong else f"pod or stack: {fix}"
        yield Reason(f"its queue never admits it: {text}", edit, 2)


def _gates(pod: Pod, _: Nodes) -> Iterator[Reason]:
    """The scheduler ignores a pod with scheduling gates."""
    if gates := pod.each("schedulingGates"):
        names = ", ".join(str(gate.get("name")) for gate in gates)
        yield Reason(f"the scheduler waits until something removes the scheduling gate {names}", "pod: remove schedulingGates")


def _caches(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """A claim exists only in the namespaces of its cache."""
    for claim in pod.claims:
        cache = nodes.settings.caches.get(claim)
        if cache is not None and pod.namespace and pod.namespace not in cache.namespaces:
            spaces, fix = ", ".join(cache.namespaces), f"pod: set metadata.namespace: {cache.namespaces[0]}"
            yield Reason(f"namespace {pod.namespace} has no claim {claim}: the cache has namespaces {spaces}", fix)


# -- what the scheduler compares ---------------------------------------------------------------------------------------


def _selector(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """Every label of the node selector must be on every machine type of the pool."""
    labels = pod.selector.items()
    wrong = {key: value for key, value in labels if not all(some is None or value in some for some in nodes.every(key))}
    if not wrong:
        return
    fix = f"{_pairs(_target(nodes))} instead of {' and '.join(wrong)}"
    key = next(iter(wrong))
    first, *others = (set(values or ()) for values in nodes.every(key))
    # The label of a single value that all machines of the pool have.
    if len(wrong) == len(first) == 1 and all(values == first for values in others):
        fix = f"{key}: {first.pop()}"
    yield Reason("; ".join(_mismatch(nodes, key, value) for key, value in wrong.items()), f"pod: set nodeSelector {fix}")


def _target(nodes: Nodes) -> Mapping[str, str]:
    """The node labels by which pods select the pool."""
    name = nodes.host.name
    return nodes.settings.system_selector if nodes.is_system else nodes.settings.pools[name].node_selector(name)


def _pairs(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in labels.items())


def _mismatch(nodes: Nodes, key: str, value: str) -> str:
    text = f"its nodeSelector asks for {key}={value}"
    if nodes.discovered_late(key):
        return f"{text}: feature discovery sets that label only after a node has started, so the autoscaler starts none"
    values = sorted(set().union(*(values or () for values in nodes.every(key))))
    return f"{text}, the nodes have {' or '.join(values)}" if values else f"{text}, the nodes do not have that label"


def _affinity(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """At least one term of the required node affinity must match on every machine type of the pool."""
    rows = [partial(nodes.values, index) for index in range(len(nodes.labels))]
    if pod.terms and not all(any(term_holds(term, values, None) for term in pod.terms) for values in rows):
        words = " or ".join(map(term_words, pod.terms))
        fix = f"pod: set the required node affinity to {_pairs(_target(nodes))}"
        yield Reason(f"its required node affinity does not match the nodes: {words}", fix)


def _taints(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """Every taint that keeps pods off must be tolerated: on real nodes, and in the autoscaler's idea of an empty pool."""
    imagined = [(taint, " that the autoscaler assumes for an empty pool, so no first node starts") for taint in nodes.imagined]
    keys = set()
    for taint, where in [*((taint, "") for taint in nodes.taints), *(imagined if nodes.starts_empty else ())]:
        if taint.key not in keys and not any(toleration.covers(taint) for toleration in pod.tolerations):
            keys.add(taint.key)
            lack = intolerance(pod, taint, where)
            yield Reason(lack.text, lack.edits[0].words)


def _devices(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """The nodes must offer every extended resource that the pod requests, and the device plugin must give it that many."""
    host = nodes.host
    offered = host.resource if not nodes.is_system else ""
    unit = f" ({host.sharing.unit} each)" if host.sharing is not None else ""
    one_alone = host.sharing is not None and not host.sharing.several
    for name, amount in pod.requests().items():
        if name in (*PLAIN, offered) or not amount:
            continue
        if nodes.is_system:
            yield Reason(f"it asks for {name}, and the nodes of the system pool have no GPU")
            continue
        fix = f"remove {name} from limits and requests"
        if is_gpu_resource(name) or "gpu" in name.lower():
            fix = f"ask for {'1 ' if one_alone and amount > 1 else ''}{offered} instead of {name}"
        yield Reason(f"it asks for {name}, the nodes offer {offered}{unit}", f"pod: {fix}", 1)
    for lack in several(pod, offered) if one_alone else ():
        yield Reason(lack.text, lack.edits[0].words, 1)


def _ask(pod: Pod, nodes: Nodes) -> PodAsk:
    """What the pod reserves on these nodes."""
    item, _ = _namespace(pod, nodes)
    return pod.ask("" if nodes.is_system else nodes.host.resource, item.get("defaultRequest"))


def _room(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """The pod must fit on an empty node of every machine type of the pool: the autoscaler may start any of them."""
    host, ask = nodes.host, _ask(pod, nodes)
    fits = [fit(ask, machine, host) for machine in host.machines]
    if short := [fitted for fitted in fits if not fitted.count]:
        lower = _lower(pod, ask, nodes, fits)
        fix = f"pod: {lower}" if lower else "" if nodes.is_system else " and ".join(_larger(ask, nodes, short))
        yield Reason("it " + "; it ".join(shortage(ask, fitted, host) for fitted in short), fix, 1 if lower else 2)


def _larger(ask: PodAsk, nodes: Nodes, short: list[Fit]) -> Iterator[str]:
    """The changes of a pool after which its nodes hold the pod, or as many of them as there are."""
    host = nodes.host
    if ask.scratch > min(fitted.offer.storage for fitted in short):
        host = replace(host, disk=disk_for(ask.scratch))
        yield _set(nodes, f"pools.{host.name}.disk", memory_text(host.disk))
    if any(fitted.limited_by == NUMA for fitted in short) and (at := nodes.settings.pools[host.name].MANAGERS_AT):
        yield _set(nodes, f"pools.{host.name}.{'.'.join(at)}.topologyManagerPolicy", "best-effort")
    elif host.machines[0].cloud != OWNED and (machine := smallest(ask, host)) and machine not in host.machines:
        yield _set(nodes, f"pools.{host.name}.instanceTypes", [machine.name])


def _lower(pod: Pod, ask: PodAsk, nodes: Nodes, fits: list[Fit]) -> str:
    """The change that lowers every request of the largest container that is too large for the nodes; empty if none does."""
    scale = {"cpu": Fraction(1000), "memory": Fraction(1, 2**20), "ephemeral-storage": Fraction(1, 2**20)}
    rows: tuple[tuple[str, int, int, Callable[[int], str]], ...] = (
        (nodes.host.resource, ask.gpus, min(fitted.offer.gpus for fitted in fits), str),
        ("cpu", ask.cpu.request, min(fitted.offer.cpu for fitted in fits), cpu_text),
        ("memory", ask.memory.request, min(fitted.offer.memory for fitted in fits), memory_text),
        ("ephemeral-storage", ask.scratch, min(fitted.offer.storage for fitted in fits), memory_text),
    )
    words, who = [], ""
    for name, request, offered, text in rows:
        if request > offered:
            largest = max(pod.each("containers"), key=lambda container: requested(container).get(name, 0))
            beside = request - math.ceil(requested(largest).get(name, 0) * scale.get(name, Fraction(1)))
            if offered - beside <= 0:
                return ""
            who = str(largest.get("name"))
            words.append(f"{name}: {text(offered - beside)}")
    return f"lower the requests of {who} to {', '.join(words)}" if words else ""


def _standing(pod: Pod, nodes: Nodes) -> Iterator[Reason]:
    """Workloads that always run may fill the whole pool."""
    if nodes.is_system or not (ask := _ask(pod, nodes)).gpus:
        return
    host, pool = nodes.host, nodes.settings.pools[nodes.host.name]
    rows = standing(nodes.settings, host.name)
    beside = {name: other.units for name, other in rows if (other.namespace, name) != (pod.namespace, pod.name)}
    used, most = sum(beside.values()), units(pool)
    if beside and used + ask.gpus > most >= ask.gpus:
        more = pool.nodes.max + math.ceil((used + ask.gpus - most) * pool.nodes.max / most)
        who = f"{' and '.join(beside)} always {'takes' if len(beside) == 1 else 'take'}"
        key = f"pools.{host.name}.nodes.max"
        yield Reason(f"{who} {used} of the {most} {host.counted} of the full pool", _set(nodes, key, more), 2)


_OF_API = (_amounts, _classes, _limits, _queue, _gates, _caches)
_RULES = (*_OF_API, _selector, _affinity, _taints, _devices, _room, _standing)
