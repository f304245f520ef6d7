"""What a chart is, and what several charts' values have in common.

No value here is known late: cloud rights come by identity of the pod, secrets by name. So policies see every value in a preview,
and Git can hold them. A chart ignores keys that it does not know, so a test holds every key against the chart's own values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from fleet.facts import versions
from fleet.facts.scheduling import Toleration
from fleet.settings.model import cpu_text, memory_text

Level = Literal["privileged", "baseline", "restricted"]
"""Kubernetes' Pod Security Standards."""

KUBE_SYSTEM = "kube-system"

CONFINED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""What the Pod Security Standard `restricted` asks of a pod and of a container; the namespaces enforce it."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One release: `needs` names the releases that must stand before it and outlive it.

    `pod_security` is what its namespace enforces, where that is a namespace of its own.
    """

    name: str
    namespace: str
    repository: str
    chart: str
    version: str
    values: dict[str, Any]
    needs: tuple[str, ...] = ()
    pod_security: Level = "restricted"


def published(
    chart: str,
    name: str,
    namespace: str,
    values: dict[str, Any],
    needs: tuple[str, ...] = (),
    pod_security: Level = "restricted",
) -> Chart:
    """The release `name` of a published chart, at its pinned version."""
    row = versions.CHARTS[chart]
    return Chart(name, namespace, row.repository, row.name, row.version, values, needs, pod_security)


def requests(cpu: int, memory: int) -> dict[str, Any]:
    """Requests in millicores and MiB."""
    return {"requests": {"cpu": cpu_text(cpu), "memory": memory_text(memory)}}


def resources(cpu: int, memory: int) -> dict[str, Any]:
    """Requests and a memory limit. No CPU limit of ours, which only throttles a controller; a chart may have one by default."""
    return requests(cpu, memory) | {"limits": {"memory": memory_text(memory * 2)}}


def manifests(tolerations: Iterable[Toleration]) -> list[dict[str, str]]:
    """Tolerations as a pod spec holds them."""
    return [toleration.manifest() for toleration in tolerations]
