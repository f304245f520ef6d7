"""One GPU workload: the objects that follow from its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from fleet.facts.scheduling import SKIP_AWAIT

_ROLES = {
    "Deployment": "deployment",
    "Job": "job",
    "NetworkPolicy": "network",
    "PersistentVolumeClaim": "volume",
    "Service": "service",
}
"""The role in logical names by kind. A workload has one object of a kind. Each is its own resource, so that policies see it."""


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
            metadata, role = manifest["metadata"], _ROLES[manifest["kind"]]
            waits = {"metadata": metadata | {"annotations": metadata.get("annotations", {}) | {SKIP_AWAIT: "true"}}}
            objects.append(custom(f"{name}-{role}", {**manifest, **waits}, parent=self, depends_on=[*args.ready, *objects]))
