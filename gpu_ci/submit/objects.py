"""Reads Kubernetes objects as plain JSON, in which almost any field can be absent, and names the kinds that `submit` uses."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fleet.facts.nested import at, parts, text_at

Object = Mapping[str, Any]
"""A Kubernetes object, or a part of one."""


class Kind(NamedTuple):
    """A kind of objects: its apiVersion and the plural name of its resource."""

    api_version: str
    resource: str
    namespaced: bool = True

    @property
    def full_name(self) -> str:
        """The resource as error messages of the API and RBAC spell it: `jobs.batch`."""
        return f"{self.resource}.{group}" if (group := self.api_version.rpartition("/")[0]) else self.resource


JOBS = Kind("batch/v1", "jobs")
PODS = Kind("v1", "pods")
EVENTS = Kind("v1", "events")
NAMESPACES = Kind("v1", "namespaces", namespaced=False)
NETWORK_POLICIES = Kind("networking.k8s.io/v1", "networkpolicies")
WORKLOADS = Kind("kueue.x-k8s.io/v1beta2", "workloads")
"""Kueue's object for a queued Job (Kueue 0.19: v1beta2)."""


def parsed(body: bytes) -> Any:
    """The value of a JSON text; None if it is not JSON, or nested so deeply that Python cannot read it."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def text(thing: Any, *path: str) -> str:
    """The text at a path as one printable line; empty if there is none."""
    return one_line(text_at(thing, *path))


def number(thing: Any, *path: str) -> int:
    """The whole number at a path; 0 if there is none."""
    return value if isinstance(value := at(thing, *path), int) and not isinstance(value, bool) else 0


def one_line(words: str) -> str:
    """Text of the cluster as one line, without control characters that a terminal would interpret."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(words.split()))


def name(thing: Object) -> str:
    """metadata.name."""
    return text(thing, "metadata", "name")


def uid(thing: Object) -> str:
    """metadata.uid."""
    return text(thing, "metadata", "uid")


def condition(thing: Object, kind: str) -> Object | None:
    """The condition of a type, whatever its status; None if there is none."""
    return next((entry for entry in parts(thing, "status", "conditions") if entry.get("type") == kind), None)


def true_condition(thing: Object, kind: str) -> Object | None:
    """The condition of a type if its status is True."""
    return entry if (entry := condition(thing, kind)) is not None and entry.get("status") == "True" else None


def explanation(of: Object) -> str:
    """Reason and message of a condition or container state: "Reason: message", or whichever of them is there."""
    return ": ".join(filter(None, (text(of, "reason"), text(of, "message"))))


def containers(thing: Object, *path: str) -> Iterator[tuple[str, Object]]:
    """(name, container) of a pod spec, or (name, status) of a pod status; init containers come first."""
    for key in ("initContainers", "containers", "initContainerStatuses", "containerStatuses"):
        yield from ((text(entry, "name"), entry) for entry in parts(thing, *path, key))
