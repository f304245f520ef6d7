"""Runner sets of ARC, and what else a stack puts into their namespaces.

A namespace is known by its name and by the provider that reaches its cluster: two clusters may each have one of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pulumi_policy import PolicyResource

from . import charts
from .kinds import RELEASE, RUNNER_SET, is_scale_set
from .pods import PodSpec, containers_of, pod_specs
from .read import Later, items, line, shown, text, walk

RUNNER_SETS = frozenset((RELEASE, *RUNNER_SET))
"""Tokens of runner sets: the chart's release, and the custom resource."""

_HOOKS = "ACTIONS_RUNNER_CONTAINER_HOOKS"
"""Variable by which a runner makes a pod of the cluster for each job, whatever the chart's mode is called."""
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace: `cluster` is the URN of the provider, "" for a default one."""

    cluster: str
    name: str

    def __str__(self) -> str:
        return f"namespace {shown(self.name)}"


@dataclass(frozen=True, slots=True)
class RunnerSet:
    """A runner set and its namespace; `name` is the release's or the object's, for messages."""

    resource: PolicyResource
    place: Place
    name: str

    @property
    def values(self) -> Any:
        """The chart's values; the custom resource's spec has another form, so it has none. Raises UnknownValueError."""
        return walk(self.resource.props, "values") if self.resource.resource_type == RELEASE else None

    def pod(self, later: Later) -> PodSpec | None:
        """The runner pod. Unknown parts are put off."""
        found = pod_specs(self.resource.resource_type, self.resource.props, later)
        return next((pod for pod in found if not pod.path.endswith("listenerTemplate.spec")), None)

    def makes_pods(self, later: Later) -> bool:
        """Whether its runners make a pod of the cluster for each job (ARC's kubernetes modes). An unknown is put off."""
        unsure = Later()
        with unsure:
            if charts.mode(self.values).startswith(charts.IN_CLUSTER):
                return True
        pod = self.pod(unsure)
        for container in containers_of(pod, unsure) if pod is not None else ():
            with unsure:
                for _, variable in items(walk(container.body, "env"), unsure):
                    if text(walk(variable, "name")) == _HOOKS:
                        return True
        later.join(unsure)
        return False


def runner_sets(resources: Iterable[PolicyResource], later: Later) -> Iterator[RunnerSet]:
    """The runner sets among resources; those whose chart or namespace is unknown are put off."""
    for resource in resources:
        if resource.resource_type in RUNNER_SETS:
            with later:
                if resource.resource_type != RELEASE or is_scale_set(resource.props):
                    yield RunnerSet(resource, place_of(resource), _name(resource))


def place_of(resource: PolicyResource) -> Place:
    """The namespace that a Kubernetes object or a release is in. Raises UnknownValueError."""
    path = ("namespace",) if resource.resource_type == RELEASE else ("metadata", "namespace")
    return Place(provider_urn(resource), text(walk(resource.props, *path)) or _DEFAULT)


def provider_urn(resource: PolicyResource) -> str:
    """What tells a resource's cluster from others: the URN of its provider, "" for a default one."""
    return "" if resource.provider is None else resource.provider.urn


class ByPlace:
    """Resources of a kind by namespace. Where one of them is in an unknown namespace, that there is none is not certain."""

    __slots__ = ("_found", "_hidden")

    def __init__(self, resources: Iterable[PolicyResource], place: Callable[[PolicyResource], Place] = place_of) -> None:
        self._found: dict[Place, list[PolicyResource]] = {}
        self._hidden = Later()
        for resource in resources:
            with self._hidden:
                self._found.setdefault(place(resource), []).append(resource)

    def at(self, place: Place, later: Later) -> list[PolicyResource]:
        """Those in a namespace; further ones that may be in it are put off."""
        later.join(self._hidden)
        return self._found.get(place, [])


def _name(resource: PolicyResource) -> str:
    path = ("name",) if resource.resource_type == RELEASE else ("metadata", "name")
    with Later():
        return line(text(walk(resource.props, *path)) or resource.name)
    return line(resource.name)
