"""What a chart is, and what several charts' values have in common.

Every value is known before the cloud is asked: pods get cloud rights by their identity, and secrets by name. So policies see
every value in a preview, and Git can hold them. Helm ignores keys that a chart does not know, so a test compares every key with
the chart's own values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from fleet.facts import versions
from fleet.facts.pods import Level, Requests
from fleet.facts.scheduling import Toleration
from fleet.settings.model import cpu_text, memory_text

KUBE_SYSTEM = "kube-system"

Where = Literal["system pool", "GPU nodes", "all nodes"]
"""Where a chart's pod runs: once on the system pool, or as a DaemonSet on each GPU node, or on each node of the cluster."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that a chart creates, and its requests with side cars: `cpu` in millicores, `memory` in MiB.

    With a `strategy` the DaemonSet runs only on nodes of pools that share their GPUs that way.
    """

    name: str
    cpu: int
    memory: int
    on: Where = "system pool"
    strategy: str = ""

    def times(self, containers: int) -> Pod:
        """The same pod with so many containers that all have the requests of the one."""
        return replace(self, cpu=self.cpu * containers, memory=self.memory * containers)


@dataclass(frozen=True, slots=True)
class Chart:
    """One release of a published chart.

    `pods` are the pods that it creates, without those that run jobs. `folder` is where Git has its Application, below the
    cluster's folder; `wave` is ArgoCD's sync wave. `needs` names the releases that must be there before it and outlive it.
    `pod_security` is the standard of its namespace, if the chart has a namespace of its own.
    """

    name: str
    namespace: str
    repository: str
    chart: str
    version: str
    values: dict[str, Any]
    pods: tuple[Pod, ...]
    folder: str
    wave: int = 0
    needs: tuple[str, ...] = ()
    pod_security: Level = "restricted"


def published(
    chart: str,
    name: str,
    namespace: str,
    values: dict[str, Any],
    pods: Iterable[Pod],
    *,
    folder: str = "",
    wave: int = 0,
    needs: tuple[str, ...] = (),
    pod_security: Level = "restricted",
) -> Chart:
    """The release `name` of a published chart, at its pinned version. By default its folder is one of a controller's own."""
    row = versions.CHARTS[chart]
    return Chart(
        name,
        namespace,
        row.repository,
        row.name,
        row.version,
        values,
        tuple(pods),
        folder or f"infrastructure/controllers/{name}",
        wave,
        needs,
        pod_security,
    )


def requests(pod: Requests) -> dict[str, Any]:
    """Requests as a container's resources have them."""
    return {"requests": {"cpu": cpu_text(pod.cpu), "memory": memory_text(pod.memory)}}


def resources(pod: Requests) -> dict[str, Any]:
    """Requests and a memory limit of twice the request. A CPU limit would only throttle a controller; a chart may set one."""
    return requests(pod) | {"limits": {"memory": memory_text(pod.memory * 2)}}


def manifests(tolerations: Iterable[Toleration]) -> list[dict[str, str]]:
    """Tolerations as a pod spec holds them."""
    return [toleration.manifest() for toleration in tolerations]
