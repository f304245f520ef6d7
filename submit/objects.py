"""Reads Kubernetes objects as the API gives them: plain JSON in which almost any field may be absent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Object = Mapping[str, Any]
"""A Kubernetes object, or a part of one."""


def at(thing: Any, *path: str) -> Any:
    """The value at a path of keys; None where a step is absent."""
    for step in path:
        if not isinstance(thing, Mapping):
            return None
        thing = thing.get(step)
    return thing


def part(thing: Any, *path: str) -> Object:
    """The object at a path; empty where there is none."""
    found = at(thing, *path)
    return found if isinstance(found, Mapping) else {}


def parts(thing: Any, *path: str) -> list[Object]:
    """The objects of the list at a path; empty where there is none."""
    found = at(thing, *path)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def text(thing: Any, *path: str) -> str:
    """The text at a path as one printable line; empty where there is none."""
    found = at(thing, *path)
    return one_line(found) if isinstance(found, str) else ""


def number(thing: Any, *path: str) -> int:
    """The whole number at a path; 0 where there is none."""
    found = at(thing, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def one_line(words: str) -> str:
    """Text of a cluster's as one line without signs that a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(words.split()))


def name(thing: Object) -> str:
    """metadata.name."""
    return text(thing, "metadata", "name")


def uid(thing: Object) -> str:
    """metadata.uid."""
    return text(thing, "metadata", "uid")


def condition(thing: Object, kind: str) -> Object | None:
    """The condition of a type, whatever its status; None where there is none."""
    return next((each for each in parts(thing, "status", "conditions") if each.get("type") == kind), None)


def holds(thing: Object, kind: str) -> Object | None:
    """The condition of a type if its status is True."""
    found = condition(thing, kind)
    return found if found is not None and found.get("status") == "True" else None


def said(of: Object) -> str:
    """Reason and message of a condition or state: "Reason: message", or the one that there is."""
    return ": ".join(filter(None, (text(of, "reason"), text(of, "message"))))


def containers(thing: Object, *path: str) -> Iterator[tuple[str, Object]]:
    """(name, container) of a pod spec or (name, status) of a pod status, first those that run before the others."""
    spec = part(thing, *path)
    for key in ("initContainers", "containers", "initContainerStatuses", "containerStatuses"):
        for each in parts(spec, key):
            yield text(each, "name"), each


def selector(labels: Mapping[str, str]) -> str:
    """Labels as a label selector: `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def listed(words: Iterable[str]) -> str:
    """Words as a list for a sentence."""
    return ", ".join(words) or "(there are none)"
