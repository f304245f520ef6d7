"""Runner sets of ARC, the pods of their jobs, and the other resources of a stack in their namespaces.

A namespace is identified by its name and its cluster, because two clusters may each have a namespace of that name.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

from fleet.facts.record import Record
from fleet.facts.scheduling import CONTAINER_JOBS

from . import charts
from .kinds import CONFIG_MAP, HELM, NAMESPACE, RUNNER_SET
from .pods import PodSpec, containers_of, pod_specs, pods_of, volumes_of
from .read import Data, Later, UndeterminableError, entries, line, shown, some, text, walk, whole
from .record import Resource, Unknown, UnknownError
from .releases import Release, releases

RUNNER_SETS = HELM | RUNNER_SET
"""Tokens of runner sets: the chart's release, and the custom resource."""

T = TypeVar("T")

_DEFAULT = "default"


class Place(Record):
    """A namespace. `cluster` is its provider's identity for the cluster, "" for a default provider."""

    cluster: str
    name: str

    def __str__(self) -> str:
        return f"namespace {shown(self.name)}"


class RunnerSet(Record):
    """A runner set and its namespace. `name` is the name of the release or object, for messages.

    `release` is the chart's release; None for the custom resource. `config_maps` are those of the stack, by namespace.
    """

    resource: Resource
    place: Place
    name: str
    release: Release | None = None
    config_maps: "ByPlace[Resource] | None" = None

    @property
    def values(self) -> Any:
        """The chart's values; the custom resource's spec has another form, so it has none. Raises UnknownError."""
        return None if self.release is None else self.release.values

    def most(self, later: Later) -> int:
        """Its `maxRunners`; 0 if it has none, or none that is a number. `later` collects an unknown value."""
        path = ("spec", "maxRunners") if self.release is None else ("maxRunners",)
        owner = self.resource.props if self.release is None else self.values
        return later.get(lambda: whole(walk(owner, *path)) or 0, 0)

    def pod(self, later: Later) -> PodSpec | None:
        """The runner pod. `later` collects unknown values."""
        props = self.resource.props
        specs = pod_specs(self.resource.type, props, later) if self.release is None else pods_of(self.release, later)
        return next((pod for pod in specs if not pod.path.endswith("listenerTemplate.spec")), None)

    def makes_pods(self, later: Later) -> bool:
        """Whether its runners create a pod in the cluster for each job (ARC's kubernetes modes). `later` collects unknowns."""
        unsure = Later()
        if unsure.get(lambda: charts.mode(self.values).startswith(charts.IN_CLUSTER), False):
            return True
        # With this variable a runner creates a pod in the cluster for each job, in every mode of the chart.
        if some(self._variables, lambda variable: text(walk(variable, "name")) == "ACTIONS_RUNNER_CONTAINER_HOOKS", unsure):
            return True
        later.join(unsure)
        return False

    def job_place(self, later: Later) -> Place:
        """The namespace in which its runners create the pods of jobs, or its own. `later` collects unknown values.

        Source: actions/runner-container-hooks v0.8.1 packages/k8s/src/k8s/index.ts, namespace.
        """
        for variable in self._variables(later):
            if text(later.walk(variable, "name")) == "ACTIONS_RUNNER_KUBERNETES_NAMESPACE":
                return Place(self.place.cluster, text(later.walk(variable, "value")) or self.place.name)
        return self.place

    def job_pods(self, later: Later) -> Iterator[PodSpec]:
        """The pods that its hooks create for jobs and container actions, one for each runner.

        Their templates are in a ConfigMap that the runner mounts. If the stack has none, `later` collects that.
        """
        if (runner := self.pod(later)) is None or not some(partial(volumes_of, runner), _has_templates, later):
            return
        unread, any_pod = Later(), False
        for config_map in self.config_maps.at(self.place, unread) if self.config_maps is not None else ():
            for pod in pod_specs(config_map.type, config_map.props, unread):
                any_pod = True
                yield replace(pod, owner=runner.owner, owner_path=runner.owner_path)
        if not (any_pod or unread):
            what = f"no ConfigMap {CONTAINER_JOBS} in {self.place} has the pods of jobs of {self.name}"
            unread.note(UndeterminableError(f"{what}, so nothing shows them"))
        later.join(unread)

    def job_pod(self, later: Later) -> PodSpec | None:
        """The pod in which a job runs: one of its own if jobs run in containers, else the runner's."""
        return next((pod for pod in self.job_pods(later) if not pod.step), None) or self.pod(later)

    def _variables(self, later: Later) -> Iterator[Data]:
        pod = self.pod(later)
        for container in containers_of(pod, later) if pod is not None else ():
            yield from (variable for _, variable in entries(container.body, "env", later))


def _has_templates(volume: tuple[str, Data]) -> bool:
    return text(walk(volume[1], "configMap", "name")) == CONTAINER_JOBS


def runner_sets(resources: Iterable[Resource], later: Later) -> Iterator[RunnerSet]:
    """The runner sets among resources. If a chart or namespace is unknown, `later` collects it instead."""
    resources = tuple(resources)
    config_maps = ByPlace((resource for resource in resources if resource.type == CONFIG_MAP), place_of)
    for resource in resources:
        if resource.type in RUNNER_SET:
            with later:
                yield RunnerSet(resource, place_of(resource), _name(resource), None, config_maps)
        for release in releases(resource.type, resource.props, later):
            with later:
                if release.is_scale_set:
                    place = place_of_release(resource, release)
                    yield RunnerSet(resource, place, _name(resource, release), release, config_maps)


def place_of(resource: Resource) -> Place:
    """The namespace that a Kubernetes object is in, or that it is. Raises UnknownError."""
    if resource.type in (NAMESPACE, f"{NAMESPACE}Patch"):
        return Place(cluster_of(resource), text(walk(resource.props, "metadata", "name")))
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
    identifier = Later().get(lambda: text(walk(resource.provider.props, "clusterIdentifier")), "")
    return identifier or resource.provider.urn


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
