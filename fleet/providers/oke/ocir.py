"""OCI's Container Registry as the registry of an OKE cluster. It has no pull-through caches."""

from typing import Annotated

from fleet.settings.refusals import matching
from fleet.settings.registry import Mirror, Registry

Namespace = Annotated[str, matching("registry_namespace", r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?", most=255)]


class OcirRegistry(Registry):
    """Container Registry in the cluster's region, with the repositories in the cluster's compartment."""

    namespace: Namespace
    """Object Storage namespace of the tenancy. `pulumi up` fails if the credentials belong to another tenancy."""

    def mirror(self, region: str) -> Mirror:
        """From where the cluster's nodes pull. The host is the region's endpoint (docs.oracle.com, preparing for Container
        Registry).
        """
        return self.mirror_at(f"ocir.{region}.oci.oraclecloud.com/{self.namespace}")
