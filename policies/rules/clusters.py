"""The cluster that a resource of a stack belongs to, if the stack shows it.

EKS pools name their cluster. OKE pools have its OCID, which is unknown before it exists, so the cluster that they depend on
counts instead. Objects in a cluster have the Kubernetes provider's `clusterIdentifier`, in this project the physical name
(`gpu-ci-<stack>-<cluster>`). Talos nodes have the cluster's name in the settings, which is the last part of the physical name.
If ArgoCD installs a chart in another cluster, that cluster is not known.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from fleet.facts.record import Record

from .kinds import EKS_NODE_GROUP, OKE_CLUSTER, OKE_NODE_POOL, POOLS, TALOS_NODE
from .read import Later, line, text, walk
from .record import Resource
from .releases import releases

_NAMES = 5


class Clustered(Record):
    """A resource and the cluster that it belongs to: its name, URN, OCID or ARN, or "" if it is not known."""

    resource: Resource
    cluster: str

    @property
    def cloud(self) -> str:
        """The kind of a pool that only one provider's clusters have; "" for a resource that any cluster may have."""
        token = self.resource.type
        return token if token in (EKS_NODE_GROUP, OKE_NODE_POOL, TALOS_NODE) else ""

    def near(self, other: "Clustered") -> bool:
        """Whether both may be in one cluster. A name and an OCID may mean the same cluster; two different names do not."""
        mine, theirs = self.cluster, other.cluster
        comparable = mine and theirs and mine != theirs and _prefix(mine) == _prefix(theirs)
        if comparable and not (self._calls(theirs) or other._calls(mine)):
            return False
        return not (self.cloud and other.cloud) or self.cloud == other.cloud

    def _calls(self, cluster: str) -> bool:
        """Whether this resource has the settings name of the cluster with that physical name."""
        return self.cloud == TALOS_NODE and cluster.endswith(f"-{self.cluster}")


def cluster_of(resource: Resource) -> str:
    """The cluster's name, an identity of another kind, or "". Raises UnknownError."""
    if resource.type in (EKS_NODE_GROUP, TALOS_NODE):
        return text(walk(resource.props, "clusterName"))
    if resource.type == OKE_NODE_POOL:
        depended = (*resource.property_dependencies.get("clusterId", ()), *resource.dependencies)
        above = next((target for target in depended if target.type == OKE_CLUSTER), None)
        return text(walk(resource.props, "clusterId")) if above is None else cluster_of(above)
    if resource.type == OKE_CLUSTER:
        return text(walk(resource.props, "name")) or resource.urn
    if any(not release.is_here for release in releases(resource.type, resource.props, Later())):
        return ""
    return text(walk(resource.provider.props, "clusterIdentifier"))


def clustered(resources: Iterable[Resource], later: Later) -> Iterator[Clustered]:
    """Resources with their clusters. `later` collects unknown clusters."""
    for resource in resources:
        with later:
            yield Clustered(resource, cluster_of(resource))


def in_existing(resources: Iterable[Resource], existing: Collection[str]) -> dict[str, str]:
    """The URNs of the pools in clusters that exist already, with their clusters."""
    pools = (pool for pool in resources if pool.type in POOLS)
    return {pool.resource.urn: pool.cluster for pool in clustered(pools, Later()) if pool.cluster in existing}


def named(cluster: str) -> str:
    """The cluster for a message, which shows all of an OCID or a URN."""
    return f"cluster {line(cluster, 160)}" if cluster else "the cluster"


def names(resources: Iterable[Resource]) -> str:
    """The first few resources by name, and how many more there are."""
    labels = [line(resource.name) for resource in resources]
    return ", ".join(labels[:_NAMES]) + (f" and {len(labels) - _NAMES} more" if len(labels) > _NAMES else "")


@lru_cache(maxsize=4096)
def _prefix(cluster: str) -> str:
    """The prefix of an identity; "" for a name."""
    return next((prefix for prefix in ("urn:", "ocid1.", "arn:") if cluster.startswith(prefix)), "")
