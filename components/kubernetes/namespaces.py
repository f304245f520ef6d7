"""Namespaces of teams, each declared once: caches, jobs, queues and workloads of a team share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from fleet.charts import Level
from fleet.scheduling import POD_SECURITY_LABEL


@dataclass(frozen=True, slots=True)
class NamespacesArgs:
    """`levels` is the Pod Security level of each namespace by its name (`fleet.namespaces.levels`); `ready` stands before."""

    levels: Mapping[str, Level]
    ready: Sequence[pulumi.Resource]


class Namespaces(pulumi.ComponentResource):
    """The namespaces that something of a cluster's settings names and no chart has for itself."""

    def __init__(self, name: str, args: NamespacesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-ci:index:Namespaces", name, {}, opts)
        self._held = {
            namespace: kubernetes.core.v1.Namespace(
                # A dot before what the settings name: no two joins of names meet.
                f"{name}.{namespace}",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=namespace, labels={POD_SECURITY_LABEL: level}),
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.ready), delete_before_replace=True),
            )
            for namespace, level in args.levels.items()
        }
        self.register_outputs({})

    def get(self, namespace: str) -> kubernetes.core.v1.Namespace:
        """The one object of a namespace. Raises KeyError for one that is in no settings."""
        return self._held[namespace]
