"""The manifests below a folder as resources for the policies, and the other documents there.

The type of a resource is Pulumi's (`kubernetes:apps/v1:Deployment`); `urns.py` defines its URN.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fleet.facts.credentials import mask
from fleet.facts.errors import InputError, quoted
from fleet.facts.groups import grouped
from fleet.facts.nested import text_at
from fleet.facts.places import Keys
from fleet.facts.yaml_text import Document
from fleet.loading.documents import documents
from gpu_ci.offline.folders import files
from gpu_ci.offline.layout import one_line
from gpu_ci.offline.manifests.urns import urn_of
from gpu_ci.offline.recording import Resource
from gpu_ci.offline.wire import as_sent, is_reserved

PROGRAMS = (".jsonnet",)
"""Programs that ArgoCD evaluates. A check does not."""
FIX = "name a folder of manifests or of workflows, or one file"
_VERSION = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[a-z0-9][a-z0-9.-]*")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_LIST = "List"


class Manifest(NamedTuple):
    """An object with its file, its first line, its path in the document, and its name.

    `once` is false for a `generateName`: the API server creates another object each time.
    """

    file: str
    line: int
    keys: Keys
    lines: Mapping[Keys, int]
    group: str
    kind: str
    namespace: str
    name: str
    once: bool
    resource: Resource

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}"

    @property
    def label(self) -> str:
        """Kind, namespace and name for people."""
        return f"{self.kind} {_path(mask(self.namespace), mask(self.name))}".rstrip()


class Tree(NamedTuple):
    """The objects of a folder in the order of file and line, and a line for each file with something else."""

    files: int
    documents: int
    manifests: tuple[Manifest, ...]
    passed_over: tuple[str, ...]

    @property
    def twice(self) -> tuple[str, ...]:
        """A line for each object that is in several places: the last one applied wins."""
        once = (manifest for manifest in self.manifests if manifest.once)
        # The API server identifies an object by these, in any API version.
        places = grouped(((one.group, one.kind, one.namespace, one.name), one) for one in once)
        wins = "times, and the one that is applied last wins"
        repeated = ((one[0].label, len(one), ", ".join(copy.place for copy in one)) for one in places.values() if len(one) > 1)
        return tuple(f"{label} is here {count} {wins}: {copies}" for label, count, copies in repeated)


def read_tree(stack: str, target: str) -> Tree:
    """Read every manifest below a folder, or in one file. The resources get URNs of the stack.

    The folder `.git` is left out. Links to folders are not followed. Raises InputError with a line for each problem in a file,
    for a link to a file outside of the folder, and for a folder without an object.
    """
    if not target:
        raise InputError(f"DIR: must not be empty; {FIX}")
    root = Path(target)
    there = tuple(map(_showable, files("DIR", root, (".yaml", ".yml", ".json", *PROGRAMS), FIX)))
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
                manifests = list(_objects(stack, str(path), within, document, document.value, ()))
                # A list without items is an object, too.
                if manifests or (isinstance(document.value, Mapping) and {"apiVersion", "kind"} <= document.value.keys()):
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
        raise InputError(f"DIR: {target} has no Kubernetes object in *.yaml, *.yml or *.json{beside}; {FIX}")
    notes = [_note(path, documents) for path, documents in other_documents.items()]
    notes += [f"{path}: a program that ArgoCD evaluates; check what `jsonnet` prints" for path in programs]
    return Tree(len(paths), count, tuple(_distinct(collected)), tuple(notes))


def _showable(path: Path) -> Path:
    """The path. Raises InputError if a line of a report cannot show it."""
    if not str(path).isprintable():
        raise InputError(f"DIR: {str(path)!a} has a character in its name that cannot be shown; rename it")
    return path


def _require_inside(path: Path, root: Path, home: str) -> None:
    """Raise InputError for a link that leads out of the folder: a pull request could read other files of the machine."""
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(home):
        why = f"{path}: a link to {path.readlink()}, which is outside of {root}; links out of the folder are not followed"
        raise InputError(f"{why}; copy the file, or remove the link")


def _note(path: Path, documents: list[Document]) -> str:
    first = documents[0].value
    kinds = {Mapping: "apiVersion and kind are not set", list: "a list", object: "a text"}
    problem = next(words for kind, words in kinds.items() if isinstance(first, kind))
    more = f", and {len(documents) - 1} more documents" if len(documents) > 1 else ""
    return f"{path}:{documents[0].lines[()]}: not a Kubernetes object ({problem}){more}"


def _distinct(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """The same manifests, with a number at the end of each repeated URN."""
    counts: Counter[str] = Counter()
    for manifest in manifests:
        urn = manifest.resource.urn
        counts[urn] += 1
        yield manifest if counts[urn] == 1 else manifest._replace(resource=replace(manifest.resource, urn=f"{urn}~{counts[urn]}"))


def _objects(stack: str, file: str, within: str, document: Document, body: object, keys: Keys) -> Iterator[Manifest]:
    """The objects of a document, with the items of a list one by one. A document that is not an object has none.

    `file` is the path for people, `within` the path relative to the folder. Raises InputError for an incomplete object.
    """
    where = f"{file}:{_line(document, keys)}"
    if not isinstance(body, dict) or not _is_object(where, body):
        if keys:
            raise InputError(f"{where}: an item of a list of objects must have apiVersion and kind; add them, or remove it")
        return
    if document.fault is not None:
        raise document.fault
    version, kind = _named(where, body)
    items = body.get("items")
    # kubectl and ArgoCD treat every object with items as a list, whatever its kind.
    if isinstance(items, list):
        # Items of a typed list may leave out apiVersion and kind.
        of_one = kind.endswith(_LIST) and kind != _LIST
        defaults = {"apiVersion": version, "kind": kind.removesuffix(_LIST)} if of_one else {}
        for index, item in enumerate(items):
            whole = defaults | item if isinstance(item, dict) else item
            yield from _objects(stack, file, within, document, whole, (*keys, "items", index))
        return
    metadata = body.get("metadata")
    namespace, name = (one_line(text_at(metadata, key)) for key in ("namespace", "name"))
    once = bool(name)
    name = name or one_line(text_at(metadata, "generateName"))
    token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{kind}"
    urn = urn_of(stack, token, within, _path(mask(namespace), mask(name)))
    line, group, resource = _line(document, keys), version.rpartition("/")[0], _resource(where, urn, token, name or within, body)
    yield Manifest(file, line, keys, document.lines, group, kind, namespace, name, once, resource)


def _is_object(where: str, body: Mapping[str, Any]) -> bool:
    """Whether a document is an object. Raises InputError for an incomplete object."""
    missing = [key for key in ("apiVersion", "kind") if body.get(key) is None]
    # A document with the body of an object, and only one of apiVersion and kind, was meant as an object.
    if len(missing) == 1 and ("metadata" in body or "spec" in body):
        raise InputError(f"{where}: an object has apiVersion and kind; {missing[0]} is not set; add it")
    return not missing


def _named(where: str, body: Mapping[str, Any]) -> tuple[str, str]:
    for key, form, rule in (("apiVersion", _VERSION, "v1 or group/version"), ("kind", _KIND, "one word, such as Deployment")):
        if not isinstance(value := body[key], str) or not form.fullmatch(value):
            advice = " (a template: check the output of `helm template`)" if isinstance(value, str) and "{{" in value else ""
            raise InputError(f"{where}: {key} must be {rule}; got {quoted(value)}{advice}; correct it")
    return body["apiVersion"], body["kind"]


def _resource(where: str, urn: str, token: str, name: str, body: Mapping[str, Any]) -> Resource:
    if is_reserved(body):
        raise InputError(f"{where}: contains a string that Pulumi reserves for secrets and unknown values; write another text")
    try:
        sent = as_sent(body)
        # What JSON cannot write, no API server stores.
        json.dumps(sent, ensure_ascii=False).encode()
    except (UnicodeEncodeError, OverflowError):
        why = f"{where}: contains half of a surrogate pair, or a number that is too large"
        raise InputError(f"{why}; write whole characters and numbers below 2^63") from None
    return Resource(urn, token, name, parent="", custom=True, remote=False, read=False, id="", wire=sent)


def _line(document: Document, keys: Keys) -> int:
    return document.lines.get(keys) or document.lines[()]


def _path(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
