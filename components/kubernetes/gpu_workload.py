"""One GPU workload: the objects that follow from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from fleet.facts.scheduling import SKIP_AWAIT

_KINDS: Mapping[str, tuple[Callable[..., pulumi.Resource], str]] = {
    "Deployment": (kubernetes.apps.v1.Deployment, "deployment"),
    "Job": (kubernetes.batch.v1.Job, "job"),
    "NetworkPolicy": (kubernetes.networking.v1.NetworkPolicy, "network"),
    "PersistentVolumeClaim": (kubernetes.core.v1.PersistentVolumeClaim, "volume"),
    "Service": (kubernetes.core.v1.Service, "service"),
}
"""The kinds of a workload's objects, with the role of each in logical names. A workload has one object of a kind.

Each object is its own resource, so that policies see it.
"""


@dataclass(frozen=True, slots=True)
class GpuWorkloadArgs:
    """`manifests` are the workload's objects in the order of creation (`fleet.render.workloads.catalogue.workload_objects`).

    `ready` exists before them: the namespace with its network isolation, the priority classes that its pods name, and the
    storage class of its volume if a cache has that class.
    """

    manifests: Sequence[Mapping[str, Any]]
    ready: Sequence[pulumi.Resource]


class GpuWorkload(Component[GpuWorkloadArgs]):
    """A Deployment or Job on a GPU pool, with its Service, volume and network policy, if any.

    No resource waits for it: an empty pool takes minutes to start a node, an image of 10 GB takes more, and a notebook starts
    only after you have created the Secret with its token.
    """

    def declare(self, name: str, args: GpuWorkloadArgs) -> None:
        objects: list[pulumi.Resource] = []
        for manifest in args.manifests:
            metadata = manifest["metadata"]
            make, role = _KINDS[manifest["kind"]]
            objects.append(
                make(
                    f"{name}-{role}",
                    metadata=metadata | {"annotations": metadata.get("annotations", {}) | {SKIP_AWAIT: "true"}},
                    spec=manifest["spec"],
                    opts=self._below(*args.ready, *objects, delete_before_replace=True),
                )
            )
