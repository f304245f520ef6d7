"""Clusters with every kind of pool, and every kind of workload in them."""

from __future__ import annotations

from typing import Any

from fleet.loading.config import load
from fleet.settings.cluster import Cluster
from fleet.settings.workloads import KINDS
from tests.builders import cluster, config, oke_cluster, oke_pool, pool

SLICED = {"strategy": "time-slicing", "replicas": 4}
OPERATOR = {"enablement": "gpu-operator", "operator": {"containerd": {"defaultRuntime": False}}}
SPOT = {"capacity": "spot", "role": "burst"}
# Of OCI's shapes in the table only the older ones are sold as preemptible capacity.
CLUSTERS: dict[str, dict[str, Any]] = {
    "t4": cluster(),
    "spot": cluster(pools={"t4": pool(instanceTypes=["g4dn.2xlarge", "g4dn.4xlarge"], **SPOT)}),
    "sliced": cluster(enablement="device-plugin", pools={"t4": pool(sharing=SLICED)}),
    "mps": cluster(
        enablement="device-plugin", pools={"t4": pool(instanceTypes=["g5.4xlarge"], sharing={"strategy": "mps", "replicas": 2})}
    ),
    "mig": cluster(
        enablement="gpu-operator",
        pools={"t4": pool(instanceTypes=["p4d.24xlarge"], sharing={"strategy": "mig", "profile": "1g.5gb"})},
    ),
    "a10": oke_cluster(pools={"t4": oke_pool()}, runners={}),
    "v100-spot": oke_cluster(pools={"t4": oke_pool(instanceTypes=["VM.GPU3.1"], **SPOT)}, runners={}),
    "operator": oke_cluster(
        pools={"t4": oke_pool(image="ubuntu")},
        runners={},
        enablement="gpu-operator",
        operator={"containerd": {"defaultRuntime": False}},
    ),
}
"""Settings of clusters whose one pool is called t4, by its own settings."""

GPU_KINDS = [kind for kind in KINDS if kind != "buildkit"]
"""The kinds that a cluster with GPU pools alone may have. tests/fleet/workloads/test_buildkit.py has the other."""
OF_POOLS = [kind for kind in GPU_KINDS if kind != "coral"]


def workload(kind: str, **changes: Any) -> dict[str, Any]:
    """Settings of a workload of a kind, in the pool t4 where it is of one."""
    where = {"node": {"example.com/coral": "true"}} if kind == "coral" else {"pool": "t4"}
    kept = {"storage": {"size": "100Gi", "storageClass": "fast"}} if kind in ("ollama", "comfyui") else {}
    return {"kind": kind} | where | kept | changes


def with_workloads(held: str | dict[str, Any], **workloads: dict[str, Any]) -> Cluster:
    """One of the clusters, or the settings of one, with these workloads."""
    given = CLUSTERS[held] if isinstance(held, str) else held
    fleet = load(config(clusters={"usw2": given | {"workloads": workloads}}))
    found: Cluster = fleet.clusters["usw2"]
    return found
