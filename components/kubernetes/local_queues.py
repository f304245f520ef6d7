"""How the Jobs of namespaces reach their teams' queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from fleet.facts.scheduling import DEFAULT_QUEUE
from fleet.render.manifest import Manifest

_TEAMS = "team"
"""Role of the LocalQueue that has its team's name."""


@dataclass(frozen=True, slots=True)
class LocalQueuesArgs:
    """`manifests` are the LocalQueues of each namespace (`fleet.render.queues`).

    `ready` exists before them: the ClusterQueue, the namespace and its network isolation.
    """

    manifests: Mapping[str, Sequence[Manifest]]
    ready: Mapping[str, Sequence[pulumi.Resource]]


class LocalQueues(Component[LocalQueuesArgs]):
    """The LocalQueues of all namespaces of a cluster.

    A namespace has one of a name, whichever team's it is. So neither parent nor logical name tells the team: a namespace that
    changes teams keeps its LocalQueues' URNs, and their new team replaces them, instead of one being made beside the other.
    """

    queues: pulumi.Output[dict[str, list[str]]]
    """Names that a Job may give in its queue label, by namespace."""

    def declare(self, name: str, args: LocalQueuesArgs) -> dict[str, Any]:
        self._made: dict[str, tuple[pulumi.Resource, ...]] = {
            namespace: tuple(self._declare(f"{name}.{namespace}", each, args.ready[namespace]) for each in manifests)
            for namespace, manifests in args.manifests.items()
        }
        found = {namespace: [each["metadata"]["name"] for each in held] for namespace, held in args.manifests.items()}
        self.queues = pulumi.Output.from_input(found)
        return {"queues": self.queues}

    def of(self, namespace: str) -> tuple[pulumi.Resource, ...]:
        """What a Job of the namespace waits for; nothing where it has no queue."""
        return self._made.get(namespace, ())

    def _declare(self, name: str, manifest: Manifest, ready: Sequence[pulumi.Resource]) -> pulumi.Resource:
        role = DEFAULT_QUEUE if manifest["metadata"]["name"] == DEFAULT_QUEUE else _TEAMS
        return custom(
            f"{name}.{role}",
            manifest,
            parent=self,
            depends_on=ready,
            # The API server takes no other (apis/kueue/v1beta2/localqueue_types.go).
            replace_on=["spec.clusterQueue"],
        )
