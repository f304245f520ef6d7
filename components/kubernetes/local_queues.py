"""The LocalQueues through which Jobs of a namespace enter their team's queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import DEFAULT_QUEUE

_TEAMS = "team"
"""Role, in logical names, of the LocalQueue with its team's name."""


@dataclass(frozen=True, slots=True)
class LocalQueuesArgs:
    """`manifests` are the LocalQueues of each namespace (`fleet.render.queues`).

    `ready` exists before them: the ClusterQueue, the namespace and its network isolation.
    """

    manifests: Mapping[str, Sequence[Manifest]]
    ready: Mapping[str, Sequence[pulumi.Resource]]


class LocalQueues(Component[LocalQueuesArgs]):
    """The LocalQueues of all namespaces of a cluster.

    A LocalQueue's name is unique in its namespace, for all teams. So neither parent nor logical name contains the team: if a
    namespace changes teams, its LocalQueues keep their URNs and are replaced. Otherwise Pulumi would create a second one first.
    """

    queues: pulumi.Output[dict[str, list[str]]]
    """Names that a Job may use in its queue label, by namespace."""

    def declare(self, name: str, args: LocalQueuesArgs) -> dict[str, Any]:
        self._made: dict[str, tuple[pulumi.Resource, ...]] = {
            namespace: tuple(self._declare(f"{name}.{namespace}", each, args.ready[namespace]) for each in manifests)
            for namespace, manifests in args.manifests.items()
        }
        found = {namespace: [each["metadata"]["name"] for each in held] for namespace, held in args.manifests.items()}
        self.queues = pulumi.Output.from_input(found)
        return {"queues": self.queues}

    def of(self, namespace: str) -> tuple[pulumi.Resource, ...]:
        """The LocalQueues that a Job of the namespace depends on; empty if the namespace has no queue."""
        return self._made.get(namespace, ())

    def _declare(self, name: str, manifest: Manifest, ready: Sequence[pulumi.Resource]) -> pulumi.Resource:
        role = DEFAULT_QUEUE if manifest["metadata"]["name"] == DEFAULT_QUEUE else _TEAMS
        return custom(
            f"{name}.{role}",
            manifest,
            parent=self,
            depends_on=ready,
            # The field is immutable (apis/kueue/v1beta2/localqueue_types.go).
            replace_on=["spec.clusterQueue"],
        )
