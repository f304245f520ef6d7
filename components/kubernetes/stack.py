"""Installs charts, ARC and runner sets in any cluster that exists already."""

import pulumi

from components.context import Context, PrivateKeys
from components.kubernetes.in_cluster import Inside
from components.kubernetes.inside import install
from components.kubernetes.provider import ExistingCluster, kubernetes_provider
from components.outputs import Built
from fleet.providers.fleet import Fleet
from fleet.providers.kubernetes.cluster import KubernetesCluster


def build(name: str, settings: KubernetesCluster, fleet: Fleet, context: Context, private_keys: PrivateKeys) -> Built:
    """Declare the contents of the cluster `name`."""
    existing = settings.existing
    ExistingCluster(f"{name}-existing", None, existing.context, settings.provider)
    provider = kubernetes_provider(name, existing.context, kubeconfig=existing.kubeconfig, context=existing.context)
    inside = Inside(name, settings, (), pulumi.ResourceOptions(providers=[provider]), generations=context.generations)
    sets = install(inside, fleet, private_keys)
    return Built({"provider": "kubernetes", "clusterName": existing.context, "runnerSets": sets}, None)
