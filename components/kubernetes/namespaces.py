"""Namespaces of teams and their walls, each declared once: caches, jobs, queues and workloads of a team share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from fleet.render.team_namespace import Home


@dataclass(frozen=True, slots=True)
class NamespacesArgs:
    """`homes` is what stands in each namespace, by its name (`fleet.render.team_namespace.homes`); `ready` stands before."""

    homes: Mapping[str, Home]
    ready: Sequence[pulumi.Resource]


class Namespaces(Component[NamespacesArgs]):
    """The namespaces that something of a cluster's settings names and no chart has for itself, with all that walls them in.

    Names of objects tell the namespace and not who uses it, so that another user is no other object.
    """

    def declare(self, name: str, args: NamespacesArgs) -> None:
        self._spaces: dict[str, kubernetes.core.v1.Namespace] = {}
        self._walls: dict[str, list[pulumi.Resource]] = {}
        for namespace, home in args.homes.items():
            # A dot before what the settings name: no two joins of names meet.
            self._declare(f"{name}.{namespace}", namespace, home, args.ready)

    def get(self, namespace: str) -> kubernetes.core.v1.Namespace:
        """The one object of a namespace. Raises KeyError for one that is in no settings."""
        return self._spaces[namespace]

    def walled(self, namespace: str) -> tuple[pulumi.Resource, ...]:
        """What stands before anything runs in a namespace: itself and its walls. Raises KeyError as `get` does."""
        return (self._spaces[namespace], *self._walls[namespace])

    def _declare(self, name: str, namespace: str, home: Home, ready: Sequence[pulumi.Resource]) -> None:
        space = kubernetes.core.v1.Namespace(
            name,
            metadata=home.namespace["metadata"],
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(ready), delete_before_replace=True),
        )
        opts = pulumi.ResourceOptions(parent=self, delete_before_replace=True)
        within = {"namespace": space.metadata.name}
        walls: list[pulumi.Resource] = [
            kubernetes.networking.v1.NetworkPolicy(
                f"{name}-network", metadata=home.wall["metadata"] | within, spec=home.wall["spec"], opts=opts
            )
        ]
        if home.limits is not None:
            walls.append(
                kubernetes.core.v1.LimitRange(
                    f"{name}-limits", metadata=home.limits["metadata"] | within, spec=home.limits["spec"], opts=opts
                )
            )
        self._spaces[namespace], self._walls[namespace] = space, walls
