"""The Kubernetes provider of a cluster."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes


def kubernetes_provider(
    name: str,
    identifier: pulumi.Input[str],
    *,
    kubeconfig: pulumi.Input[str] | None = None,
    context: str | None = None,
    parent: pulumi.Resource | None = None,
) -> kubernetes.Provider:
    """The provider of the cluster `name`.

    `identifier` never changes: the cluster's name, its OCID or its context. Without one, any change of the kubeconfig would
    replace every object in the cluster.
    """
    return kubernetes.Provider(
        f"{name}-kubernetes",
        kubeconfig=kubeconfig,
        context=context,
        cluster_identifier=identifier,
        enable_server_side_apply=True,
        opts=pulumi.ResourceOptions(parent=parent),
    )
