"""The limits of a check of manifests: kinds that no policy reads, and changes that ArgoCD makes to files in Git."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleet.facts.scheduling import is_gpu_resource
from gpu_ci.offline.manifests.objects import Manifest
from policies.rules import AnyRule
from policies.rules.kinds import APPLICATION, APPLICATION_SET
from policies.rules.read import Later, walk
from policies.rules.releases import Release, sources

_DEFINITION = "CustomResourceDefinition"
"""Its schema may have containers, but it runs nothing."""
_CONTAINERS = ("containers", "initContainers", "steps")
_CONTAINER = ("container", "script")
_SOURCE = (
    *(("helm", key) for key in ("valuesObject", "values", "valueFiles", "parameters", "fileParameters")),
    ("kustomize",),
    ("plugin",),
)
"""Keys of an Application's source that change the manifests at its path (argo-cd, pkg/apis/application/v1alpha1)."""


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Objects of one type that no policy reads: the first, their number, and whether any has containers or GPUs."""

    first: Manifest
    count: int
    works: bool

    @property
    def label(self) -> str:
        """Kind and API group for people."""
        return f"{self.first.kind}.{self.first.group}" if self.first.group else self.first.kind


def unjudged(manifests: Sequence[Manifest], rules: Iterable[AnyRule]) -> tuple[Unjudged, ...]:
    """The objects that no rule reads, by type, in the order of the files."""
    types = frozenset[str]().union(*(rule.types for rule in rules if not rule.partly))
    unread = [manifest for manifest in manifests if manifest.resource.type not in types]
    working = {manifest.resource.type for manifest in unread if manifest.kind != _DEFINITION and _runs(manifest.resource.inputs)}
    firsts = {manifest.resource.type: manifest for manifest in reversed(unread)}
    counts = Counter(manifest.resource.type for manifest in unread)
    return tuple(Unjudged(firsts[kind], number, kind in working) for kind, number in counts.items())


def laid_over(manifests: Iterable[Manifest]) -> Iterator[str]:
    """A line for each part of an Application that changes manifests at a path in Git: the check judges them without it."""
    for manifest in manifests:
        props = manifest.resource.inputs
        where: list[str] = []
        if manifest.resource.type == APPLICATION:
            where += _over(props, "")
        elif manifest.resource.type == APPLICATION_SET:
            for at, template in _templates(props):
                where += _over(template, f"{at}.")
            if walk(props, "spec", "templatePatch") and any(_paths(walk(props, "spec", "template"))):
                where.append("spec.templatePatch")
        yield from (
            f"{manifest.place}: {manifest.label}: {path} changes the manifests in Git, and this check ignores those changes"
            for path in where
        )


def _templates(props: object, at: str = "spec") -> Iterator[tuple[str, object]]:
    """Path and template of an ApplicationSet and of each generator with its own template, nested generators included."""
    if isinstance(props, Mapping):
        for key, value in props.items():
            if key == "template":
                yield f"{at}.template", value
            elif key in ("spec", "generators") or at.endswith("]"):
                yield from _templates(value, at if key == "spec" else f"{at}.{key}")
    elif isinstance(props, list | tuple):
        for index, value in enumerate(props):
            yield from _templates(value, f"{at}[{index}]")


def _paths(application: object) -> Iterator[Release]:
    """The sources of an Application or a template that are paths in Git. Placeholders of a template count as text."""
    return (source for source in sources(APPLICATION, application, Later()) if not source.chart)


def _over(application: object, at: str) -> Iterator[str]:
    """The keys of an Application or a template that change manifests at a path in Git."""
    for source in _paths(application):
        for keys in _SOURCE:
            if walk(source.source, *keys):
                yield f"{at}{source.at}{'.'.join(keys)}"


def _runs(value: object) -> bool:
    """Whether the value has a container or asks for a GPU."""
    if isinstance(value, Mapping):
        return any(_is_work(key, entry) or _runs(entry) for key, entry in value.items())
    return isinstance(value, list | tuple) and any(map(_runs, value))


def _is_work(key: str, entry: object) -> bool:
    entries = entry if key in _CONTAINERS and isinstance(entry, list | tuple) else (entry,) if key in _CONTAINER else ()
    return is_gpu_resource(key) or any(isinstance(container, Mapping) and "image" in container for container in entries)
