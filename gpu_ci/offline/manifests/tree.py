"""The manifests below a folder, and the other documents there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.facts.errors import InputError
from fleet.facts.yaml_text import Document
from fleet.loading.documents import documents
from gpu_ci.offline.folders import files
from gpu_ci.offline.manifests.objects import Manifest, objects

SUFFIXES = (".yaml", ".yml", ".json")
PROGRAMS = (".jsonnet",)
"""Programs that ArgoCD evaluates. A check does not."""

_FIX = "name a folder of manifests, or one file"


@dataclass(frozen=True, slots=True)
class Tree:
    """The objects of a folder in the order of file and line, and a line for each file with something else."""

    files: int
    documents: int
    manifests: tuple[Manifest, ...]
    passed_over: tuple[str, ...]

    @property
    def twice(self) -> tuple[str, ...]:
        """A line for each object that is in several places: the last one applied wins."""
        places: dict[tuple[str, ...], list[Manifest]] = {}
        for manifest in self.manifests:
            if manifest.once:
                # The API server identifies an object by these, in any API version.
                places.setdefault((manifest.group, manifest.kind, manifest.namespace, manifest.name), []).append(manifest)
        return tuple(
            f"{copies[0].label} is here {len(copies)} times, and the one that is applied last wins: "
            f"{', '.join(manifest.place for manifest in copies)}"
            for copies in places.values()
            if len(copies) > 1
        )


def read_tree(stack: str, target: str) -> Tree:
    """Read every manifest below a folder, or in one file. The resources get URNs of the stack.

    The folder `.git` is left out. Links to folders are not followed. Raises InputError with a line for each problem in a file,
    for a link to a file outside of the folder, and for a folder without an object.
    """
    if not target:
        raise InputError(f"DIR: must not be empty; {_FIX}")
    root = Path(target)
    there = tuple(files("DIR", root, SUFFIXES + PROGRAMS, _FIX))
    # A single file is read, whatever its name is.
    programs = dict.fromkeys(path for path in there if path != root and path.name.lower().endswith(PROGRAMS))
    paths = [path for path in there if path not in programs]
    collected: list[Manifest] = []
    other_documents: dict[Path, list[Document]] = {}
    wrong: list[str] = []
    count = 0
    home = os.path.realpath(root)
    for path in paths:
        within = path.relative_to(root).as_posix() if path != root else path.name
        try:
            if path != root:
                _require_inside(path, root, home)
            for document in documents(path):
                if document.value is None:
                    continue
                count += 1
                if (manifests := list(objects(stack, str(path), within, document))) or _is_object(document):
                    collected += manifests
                else:
                    other_documents.setdefault(path, []).append(document)
        except InputError as error:
            wrong += str(error).splitlines()
        except OSError as error:
            wrong.append(f"{path}: cannot be read ({error.strerror}); check its permissions and size, or leave the file out")
    if wrong:
        raise InputError("\n".join(wrong))
    if not collected:
        beside = f", and {count} other documents" if count else ""
        raise InputError(f"DIR: {target} has no Kubernetes object in *.yaml, *.yml or *.json{beside}; {_FIX}")
    notes = [_note(path, documents) for path, documents in other_documents.items()]
    notes += [f"{path}: a program that ArgoCD evaluates; check what `jsonnet` prints" for path in programs]
    return Tree(len(paths), count, tuple(_distinct(collected)), tuple(notes))


def _require_inside(path: Path, root: Path, home: str) -> None:
    """Raise InputError for a link that leads out of the folder: a pull request could read other files of the machine."""
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(home):
        raise InputError(
            f"{path}: a link to {path.readlink()}, which is outside of {root}; links out of the folder are not followed; "
            "copy the file, or remove the link"
        )


def _is_object(document: Document) -> bool:
    """Whether a document has apiVersion and kind, as a list without items does."""
    return isinstance(document.value, Mapping) and {"apiVersion", "kind"} <= document.value.keys()


def _note(path: Path, documents: list[Document]) -> str:
    first = documents[0].value
    problem = (
        "apiVersion and kind are not set" if isinstance(first, Mapping) else "a list" if isinstance(first, list) else "a text"
    )
    more = f", and {len(documents) - 1} more documents" if len(documents) > 1 else ""
    return f"{path}:{documents[0].lines[()]}: not a Kubernetes object ({problem}){more}"


def _distinct(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """The same manifests, with a number at the end of each repeated URN."""
    counts: Counter[str] = Counter()
    for manifest in manifests:
        urn = manifest.resource.urn
        counts[urn] += 1
        yield manifest if counts[urn] == 1 else replace(manifest, resource=replace(manifest.resource, urn=f"{urn}~{counts[urn]}"))
