"""A cluster that exists already, as policies and readers see it."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, slots=True)
class ExistingClusterArgs:
    """`cluster_name` is what the cluster's pools and objects call it. `provider` is eks, oke or kubernetes."""

    cluster_name: str
    provider: str


class ExistingCluster(pulumi.ComponentResource):
    """The parent of what the program adds to a cluster that it did not create. It has inputs, so it does not extend `Component`.

    Policies read from it that the stack does not show this cluster's control plane, its add-ons and its other nodes.
    """

    def __init__(self, name: str, args: ExistingClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        props = {"clusterName": args.cluster_name, "provider": args.provider}
        super().__init__("gpu-ci:index:ExistingCluster", name, props, opts)
        self.register_outputs(props)
