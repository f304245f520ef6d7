"""The limits of a check of manifests: kinds that no policy reads, and changes that ArgoCD makes to files in Git."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleet.facts.scheduling import is_gpu_resource
from gpu_ci.offline.manifests.tree import Manifest
from policies.rules import AnyRule
from policies.rules.kinds import APPLICATION, APPLICATION_SET
from policies.rules.read import walk

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
    # The schema of a definition may have containers, but it runs nothing.
    able = (manifest for manifest in unread if manifest.kind != "CustomResourceDefinition")
    working = {manifest.resource.type for manifest in able if _runs(manifest.resource.inputs)}
    firsts = {manifest.resource.type: manifest for manifest in reversed(unread)}
    counts = Counter(manifest.resource.type for manifest in unread)
    return tuple(Unjudged(firsts[kind], number, kind in working) for kind, number in counts.items())


def laid_over(manifests: Iterable[Manifest]) -> Iterator[str]:
    """A line for each part of an Application that changes manifests at a path in Git: the check judges them without it."""
    for manifest in manifests:
        props = manifest.resource.inputs
        where = list(_over(props, "")) if manifest.resource.type in (APPLICATION, APPLICATION_SET) else []
        if manifest.resource.type == APPLICATION_SET and walk(props, "spec", "templatePatch"):
            where.append("spec.templatePatch")
        yield from (
            f"{manifest.place}: {manifest.label}: {path} changes the manifests in Git, and this check ignores those changes"
            for path in where
        )


def _over(value: object, at: str) -> Iterator[str]:
    """The keys of sources with a path in Git that change the manifests there, at any depth: generators have templates, too."""
    if isinstance(value, Mapping):
        if isinstance(value.get("path"), str) and not value.get("chart"):
            yield from (f"{at}{'.'.join(keys)}" for keys in _SOURCE if walk(value, *keys))
        for key, inner in value.items():
            yield from _over(inner, f"{at}{key}." if isinstance(inner, Mapping) else f"{at}{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _over(inner, f"{at}[{index}].")


def _runs(value: object) -> bool:
    """Whether the value has a container or asks for a GPU."""
    if isinstance(value, Mapping):
        return any(_is_work(key, entry) or _runs(entry) for key, entry in value.items())
    return isinstance(value, list | tuple) and any(map(_runs, value))


def _is_work(key: str, entry: object) -> bool:
    entries = (entry,) if key in ("container", "script") else ()
    if key in ("containers", "initContainers", "steps") and isinstance(entry, list | tuple):
        entries = tuple(entry)
    return is_gpu_resource(key) or any(isinstance(container, Mapping) and "image" in container for container in entries)
