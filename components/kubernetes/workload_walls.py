"""Walls around the namespaces of GPU workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes


@dataclass(frozen=True, slots=True)
class WorkloadWallsArgs:
    """`policies` is the NetworkPolicy of each namespace (`fleet.workloads.catalogue.homes`), `homes` the namespace, by name."""

    policies: Mapping[str, Mapping[str, Any]]
    homes: Mapping[str, kubernetes.core.v1.Namespace]


class WorkloadWalls(pulumi.ComponentResource):
    """A NetworkPolicy in each namespace: its pods reach the internet and each other, and none but they reach them."""

    def __init__(self, name: str, args: WorkloadWallsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-ci:index:WorkloadWalls", name, {}, opts)
        self._held = {
            namespace: kubernetes.networking.v1.NetworkPolicy(
                # A dot before what the settings name: no two joins of names meet.
                f"{name}.{namespace}",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(
                    name=policy["metadata"]["name"], namespace=args.homes[namespace].metadata.name
                ),
                spec=policy["spec"],
                opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
            )
            for namespace, policy in args.policies.items()
        }
        self.register_outputs({})

    def get(self, namespace: str) -> kubernetes.networking.v1.NetworkPolicy:
        """The wall of a namespace; it stands after the namespace. Raises KeyError for one without workloads."""
        return self._held[namespace]
