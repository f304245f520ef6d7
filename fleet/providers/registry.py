"""The providers, one each. Only this module and the folders of the providers import a provider's code."""

from typing import Any

from fleet.providers.eks.provider import Eks
from fleet.providers.kubernetes.provider import Kubernetes
from fleet.providers.oke.provider import Oke
from fleet.providers.provider import Provider
from fleet.providers.talos.provider import Talos
from fleet.settings.cluster import Cluster

PROVIDERS: dict[str, Provider[Any]] = {"eks": Eks(), "oke": Oke(), "kubernetes": Kubernetes(), "talos": Talos()}
"""By the key `provider` of a cluster's settings."""


def provider_of(cluster: Cluster) -> Provider[Any]:
    """The provider of a cluster."""
    return PROVIDERS[cluster.provider]
