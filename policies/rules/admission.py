"""What a cluster with `admission: true` refuses itself, for the policies that say the same (`fleet/facts/data/admission.toml`).

A policy reports such a rule on each resource of which it reports nothing else. The API server knows the namespace of every
object. So a pod is judged here only if its object names one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import Any, TypeVar, cast

from fleet.facts.admission import CONTAINERS, RULES, SYSTEM, TESTS, AdmissionRule
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import RUNNERS

from .kinds import each, is_object, kind_of
from .pods import PodSpec, containers_of, pod_specs
from .read import SETTLED, Data, Faults, Later, bound, entries, keys, text, walk
from .rule import Rule, Stack, StackRule

_Rule = TypeVar("_Rule", Rule, StackRule)


def held(rule: _Rule) -> _Rule:
    """The policy, which also reports what the rules of its id refuse."""
    own, judge = tuple(one for one in RULES if one.policy == rule.id), cast("Any", rule.check)

    @wraps(judge)
    def check(of: Any, later: Later) -> Iterator[Any]:
        found, ended, stack = set[str | None](), Later(), isinstance(of, Stack)
        with ended:
            for fault in judge(of, later):
                found.add(fault[1] if stack else of.urn)
                yield fault
        for resource in of.resources if stack else (of,):
            if resource.urn not in found:
                for fault in refused(own, resource.type, resource.props, of.config, later):
                    yield (fault, resource.urn) if stack else fault
        ended.settle()

    return replace(rule, check=check)


def refused(rules: tuple[AdmissionRule, ...], token: str, props: Data, config: Mapping[str, Any], later: Later) -> Faults:
    """Which of the rules a resource breaks, with the numbers of a policy's config. `later` collects unknown values."""
    for rule in rules if is_object(token) else ():
        for path, what in _of_kind(rule.kind, token, props, later):
            # Unknown containers, or an unknown namespace, matter only to what breaks a rule.
            hidden = Later()
            whole, owner = (_pod(what, hidden), what.owner) if isinstance(what, PodSpec) else (what, what)
            if hidden.get(partial(_judges, rule.kind, owner), True):
                with later:
                    if not admits(rule.holds, whole, config) and later.clear(hidden):
                        yield f"{path}: {rule.message}; a cluster with admission refuses it by rule {rule.id}"


def _of_kind(kind: str, token: str, props: Data, later: Later) -> Iterator[tuple[str, Data]]:
    """Path and body of each object of a kind in a resource, or of each pod."""
    if kind == "Pod":
        yield from ((pod.path, pod) for pod in pod_specs(token, props, later) if not pod.step)
    elif kind_of(token) == kind:
        yield from ((f"{prefix}metadata.name", body) for prefix, body in each(token, props, later))


def _pod(pod: PodSpec, later: Later) -> Data:
    """The pod as the API server gets it, with the containers that its owner adds. `later` collects unknown ones."""
    every = [*containers_of(pod, later)]
    lists = {field: [container.body for container in every if container.field == field] for field in CONTAINERS}
    return {"metadata": {"annotations": pod.annotations}, "spec": {**dict(pod.spec if keys(pod.spec) else {}), **lists}}


def _judges(kind: str, owner: Data) -> bool:
    """Whether the rules judge a kind where this object is."""
    space = text(walk(owner, "metadata", "name" if kind == "Namespace" else "namespace"))
    return space not in ("", *SYSTEM) if kind == "Pod" else kind == "PriorityClass" or space.startswith(RUNNERS)


def admits(test: Any, value: Data, config: Mapping[str, Any]) -> bool:
    """Whether a value passes a test, as the expression of `fleet/render/admission.py` says it. Raises UnknownError."""
    match test:
        case list() | tuple():
            passes = all(admits(part, value, config) for part in test)
        case {"any": tests}:
            passes = any(admits(part, value, config) for part in tests)
        case {"not": inner}:
            passes = not admits(inner, value, config)
        case {"named": name}:
            passes = admits(TESTS[name], value, config)
        case {"every": path, "holds": inner}:
            paths = [f"spec.{name}" for name in CONTAINERS] if path == "containers" else [path]
            passes = all(admits(inner, item, config) for one in paths for _, item in entries(value, one, SETTLED))
        case {"path": path, "matches": pattern}:
            passes = re.search(pattern, text(_at(path, value))) is not None
        case {"path": path, "keys": pattern}:
            there, most = _at(path, value), bound(config, test.get("most", ""))
            named = [quantity(walk(there, name)) or 0 for name in keys(there) if re.fullmatch(pattern, name)]
            passes = all(amount <= most for amount in named) if "most" in test else bool(named)
    return passes


def _at(path: str, value: Data) -> Data:
    fields, _, key = path.partition("#")
    return walk(value, *filter(None, (*fields.split("."), key)))
