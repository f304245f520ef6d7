"""Runner sets of ARC, and the other resources of a stack in their namespaces.

A namespace is identified by its name and its cluster, because two clusters may each have a namespace of that name.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from . import charts
from .kinds import HELM, RUNNER_SET
from .pods import PodSpec, containers_of, pod_specs, pods_of
from .read import Data, Later, entries, line, shown, some, text, walk
from .record import Resource, Unknown, UnknownError
from .releases import Release, releases

RUNNER_SETS = HELM | RUNNER_SET
"""Tokens of runner sets: the chart's release, and the custom resource."""

T = TypeVar("T")

_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace. `cluster` is its provider's identity for the cluster, "" for a default provider."""

    cluster: str
    name: str

    def __str__(self) -> str:
        return f"namespace {shown(self.name)}"


@dataclass(frozen=True, slots=True)
class RunnerSet:
    """A runner set and its namespace. `name` is the name of the release or object, for messages.

    `release` is the chart's release; None for the custom resource.
    """

    resource: Resource
    place: Place
    name: str
    release: Release | None = None

    @property
    def values(self) -> Any:
        """The chart's values; the custom resource's spec has another form, so it has none. Raises UnknownError."""
        return None if self.release is None else self.release.values

    def pod(self, later: Later) -> PodSpec | None:
        """The runner pod. `later` collects unknown values."""
        if self.release is None:
            specs = pod_specs(self.resource.type, self.resource.props, later)
        else:
            specs = pods_of(self.release, later)
        return next((pod for pod in specs if not pod.path.endswith("listenerTemplate.spec")), None)

    def makes_pods(self, later: Later) -> bool:
        """Whether its runners create a pod in the cluster for each job (ARC's kubernetes modes). `later` collects unknowns."""
        unsure = Later()
        if unsure.get(lambda: charts.mode(self.values).startswith(charts.IN_CLUSTER), False):
            return True
        pod = self.pod(unsure)
        for container in containers_of(pod, unsure) if pod is not None else ():
            # With this variable a runner creates a pod in the cluster for each job, in every mode of the chart.
            variables = partial(entries, container.body, "env")
            if some(variables, lambda variable: text(walk(variable[1], "name")) == "ACTIONS_RUNNER_CONTAINER_HOOKS", unsure):
                return True
        later.join(unsure)
        return False


def runner_sets(resources: Iterable[Resource], later: Later) -> Iterator[RunnerSet]:
    """The runner sets among resources. If a chart or namespace is unknown, `later` collects it instead."""
    for resource in resources:
        if resource.type in RUNNER_SET:
            with later:
                yield RunnerSet(resource, place_of(resource), _name(resource))
        for release in releases(resource.type, resource.props, later):
            with later:
                if release.is_scale_set:
                    place = place_of_release(resource, release)
                    yield RunnerSet(resource, place, _name(resource, release), release)


def place_of(resource: Resource) -> Place:
    """The namespace that a Kubernetes object is in. Raises UnknownError."""
    return Place(cluster_of(resource), text(walk(resource.props, "metadata", "namespace")) or _DEFAULT)


def place_of_release(resource: Resource, release: Release) -> Place:
    """The namespace that a resource's release is installed in.

    Raises UnknownError, also if ArgoCD delivers to another cluster: the stack has no resources of that cluster.
    """
    if not release.is_here:
        raise UnknownError(Unknown(("spec", "destination")))
    return Place(cluster_of(resource), release.namespace or _DEFAULT)


def cluster_of(resource: Resource) -> str:
    """The identity of a resource's cluster: its provider's `clusterIdentifier`, or else the provider's URN.

    Resources that ArgoCD reads from Git have a separate provider for the same cluster. "" for a default provider.
    """
    if resource.provider is None:
        return ""
    props = resource.provider.props
    return Later().get(lambda: text(walk(props, "clusterIdentifier")), "") or resource.provider.urn


class ByPlace(Generic[T]):
    """Resources by namespace. If the namespace of one is unknown, no namespace is certain to have none."""

    __slots__ = ("_found", "_hidden")

    def __init__(self, things: Iterable[T], place: Callable[[T], Place]) -> None:
        self._found: dict[Place, list[T]] = {}
        self._hidden = Later()
        for thing in things:
            with self._hidden:
                self._found.setdefault(place(thing), []).append(thing)

    def at(self, place: Place, later: Later) -> list[T]:
        """The resources in a namespace. If another one may be in it, `later` collects the unknown value."""
        later.join(self._hidden)
        return self._found.get(place, [])


def lacks(resources: ByPlace[Resource], place: Place, fits: Callable[[Data], object], later: Later) -> bool:
    """Whether certainly no resource of a kind in the namespace fits. If an unknown value decides, `later` collects it."""
    hidden = Later()
    return not some(partial(resources.at, place), lambda resource: fits(resource.props), hidden) and later.clear(hidden)


def _name(resource: Resource, release: Release | None = None) -> str:
    name = Later().get(lambda: text(walk(resource.props, "metadata", "name")) if release is None else release.name, "")
    return line(name or resource.name)
