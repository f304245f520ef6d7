"""How the program reaches a cluster: its Kubernetes provider, its registry, and the component of one that exists already."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Parent, Text
from fleet.charts.chart import mirrored
from fleet.settings.registry import Mirror


def kubernetes_provider(name: str, identifier: Text, parent: Parent | None = None, **access: Text | None) -> kubernetes.Provider:
    """The provider of the cluster `name`. `access` is a kubeconfig, or the context of one.

    `identifier` never changes: the cluster's name, its OCID or its context. Without one, any change of the kubeconfig would
    replace every object in the cluster.
    """
    always, opts = {"cluster_identifier": identifier, "enable_server_side_apply": True}, pulumi.ResourceOptions(parent=parent)
    return kubernetes.Provider(f"{name}-kubernetes", **access, **always, opts=opts)


_KUBERNETES = "kubernetes:"


def from_registry(mirror: Mirror | None, providers: Sequence[pulumi.ProviderResource]) -> pulumi.ResourceOptions:
    """Options for a component: its releases, Applications and pods, and those below it, pull from the registry."""

    def change(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if mirror is None or not args.type_.startswith(_KUBERNETES):
            return None
        return pulumi.ResourceTransformationResult(mirrored(mirror, args.props), args.opts)

    return pulumi.ResourceOptions(providers=list(providers), transformations=[change] if mirror is not None else None)


class ExistingCluster(pulumi.ComponentResource):
    """The parent of what the program adds to a cluster that it did not create. It has inputs, so it does not extend `Component`.

    Policies read from it that the stack does not show this cluster's control plane, its add-ons and its other nodes.
    `cluster_name` is what the cluster's pools and objects call it. `provider` is eks, oke or kubernetes.
    """

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None, cluster_name: str, provider: str) -> None:
        props = {"clusterName": cluster_name, "provider": provider}
        super().__init__("gpu-ci:index:ExistingCluster", name, props, opts)
        self.register_outputs(props)
