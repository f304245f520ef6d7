"""Kubernetes objects in documents, as resources for the policies.

The type of a resource is Pulumi's (`kubernetes:apps/v1:Deployment`); `urns.py` defines its URN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.facts.credentials import mask
from fleet.facts.errors import InputError, quoted
from fleet.facts.places import Keys
from fleet.facts.yaml_text import Document
from gpu_ci.offline.manifests.urns import urn_of
from gpu_ci.offline.recording import Resource
from gpu_ci.offline.wire import is_reserved
from gpu_ci.offline.words import one_line

_VERSION = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[a-z0-9][a-z0-9.-]*")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_LIST = "List"
_BODIES = ("metadata", "spec")
"""Keys of objects. A document with one of these keys, and only one of apiVersion and kind, was meant as an object."""


@dataclass(frozen=True, slots=True)
class Manifest:
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


def objects(stack: str, file: str, within: str, document: Document) -> Iterator[Manifest]:
    """The objects of a document, with the items of a list one by one. A document that is not an object has none.

    `file` is the path for people, `within` the path relative to the folder. Raises InputError for an incomplete object.
    """
    yield from _objects(stack, file, within, document, document.value, ())


def _objects(stack: str, file: str, within: str, document: Document, body: object, keys: Keys) -> Iterator[Manifest]:
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
    namespace, name = (_text(metadata, key) for key in ("namespace", "name"))
    once = bool(name)
    name = name or _text(metadata, "generateName")
    token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{kind}"
    urn = urn_of(stack, token, within, _path(mask(namespace), mask(name)))
    yield Manifest(
        file=file,
        line=_line(document, keys),
        keys=keys,
        lines=document.lines,
        group=version.rpartition("/")[0],
        kind=kind,
        namespace=namespace,
        name=name,
        once=once,
        resource=_resource(where, urn, token, name or within, body),
    )


def _is_object(where: str, body: Mapping[str, Any]) -> bool:
    """Whether a document is an object. Raises InputError for an incomplete object."""
    missing = [key for key in ("apiVersion", "kind") if body.get(key) is None]
    if not missing:
        return True
    if len(missing) == 1 and any(key in body for key in _BODIES):
        raise InputError(f"{where}: an object has apiVersion and kind; {missing[0]} is not set; add it")
    return False


def _named(where: str, body: Mapping[str, Any]) -> tuple[str, str]:
    words = []
    for key, form, rule in (("apiVersion", _VERSION, "v1 or group/version"), ("kind", _KIND, "one word, such as Deployment")):
        value = body[key]
        if not isinstance(value, str) or not form.fullmatch(value):
            advice = " (a template: check the output of `helm template`)" if isinstance(value, str) and "{{" in value else ""
            raise InputError(f"{where}: {key} must be {rule}; got {quoted(value)}{advice}; correct it")
        words.append(value)
    version, kind = words
    return version, kind


def _resource(where: str, urn: str, token: str, name: str, body: Mapping[str, Any]) -> Resource:
    if is_reserved(body):
        raise InputError(f"{where}: contains a string that Pulumi reserves for secrets and unknown values; write another text")
    from google.protobuf import struct_pb2  # noqa: PLC0415 - Pulumi's SDK brings it

    struct = struct_pb2.Struct()
    try:
        struct.update(body)
    except (UnicodeEncodeError, ValueError, OverflowError):
        raise InputError(
            f"{where}: contains half of a surrogate pair, or a number that is too large; write whole characters and "
            "numbers below 2^63"
        ) from None
    return Resource(urn, token, name, parent="", custom=True, remote=False, read=False, id="", wire=struct)


def _line(document: Document, keys: Keys) -> int:
    return document.lines.get(keys) or document.lines[()]


def _text(metadata: object, key: str) -> str:
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return one_line(value) if isinstance(value, str) else ""


def _path(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
