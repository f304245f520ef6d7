"""What a check of manifests leaves unsaid: kinds that no policy reads, and what ArgoCD lays over files that lie elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleet.scheduling import is_gpu_resource
from offline.manifests.objects import Manifest
from policies.rules import AnyRule
from policies.rules.read import Later, walk
from policies.rules.releases import sources

_RUNS = frozenset(("containers", "initContainers"))
_LAID_OVER = (
    *(("helm", key) for key in ("valuesObject", "values", "valueFiles", "parameters", "fileParameters")),
    ("kustomize",),
    ("plugin",),
)
"""What of an Application's source changes the manifests that lie at its path."""


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Objects of a type that no policy reads: the first of them, how many, and whether any has containers or GPUs in it."""

    first: Manifest
    count: int
    works: bool

    @property
    def label(self) -> str:
        """Kind and API group for people."""
        return f"{self.first.kind}.{self.first.group}" if self.first.group else self.first.kind


def unjudged(manifests: Sequence[Manifest], rules: Iterable[AnyRule]) -> tuple[Unjudged, ...]:
    """What none of the rules reads, by type, in the order of files."""
    known = frozenset[str]().union(*(rule.types for rule in rules))
    others = [each for each in manifests if each.resource.type not in known]
    working = {each.resource.type for each in others if _works(each.resource.inputs)}
    firsts = {each.resource.type: each for each in reversed(others)}
    counts = Counter(each.resource.type for each in others)
    return tuple(Unjudged(firsts[kind], number, kind in working) for kind, number in counts.items())


def laid_over(manifests: Iterable[Manifest]) -> Iterator[str]:
    """A line for whatever an Application lays over manifests that lie at a path of Git: here they are judged without it."""
    for each in manifests:
        for source in sources(each.resource.type, each.resource.inputs, ignored := Later()):
            with ignored:
                if source.chart:
                    continue
                for keys in _LAID_OVER:
                    if walk(source.source, *keys):
                        where = f"{source.at}{'.'.join(keys)}"
                        yield f"{each.place}: {each.label}: {where} changes what lies in Git, and is read with none of it here"


def _works(value: object) -> bool:
    """Whether something in it may run, or asks for a GPU."""
    if isinstance(value, Mapping):
        return any(key in _RUNS or is_gpu_resource(key) or _works(entry) for key, entry in value.items())
    return isinstance(value, list | tuple) and any(map(_works, value))
