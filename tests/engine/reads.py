"""What functions of providers answer: what the simulated cloud contains, and what OCI alone knows.

Shapes: pulumi_aws 7.51, eks/get_*.py; pulumi_oci 5.5, core/get_services.py, containerengine/get_*.py and
objectstorage/get_namespace.py. OCI lists node pools without their nodes (oracle/terraform-provider-oci@8de3c480b4,
containerengine_node_pools_data_source.go). Services and kubeconfig are as in OCI's documentation ("Oracle Services Network",
"Setting Up Cluster Access").
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.engine.live import Cloud, Live, RefusedError

_GROUP, _PLANE = "aws:eks/nodeGroup:NodeGroup", "aws:eks/cluster:Cluster"
_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_OKE, _POOL = "oci:ContainerEngine/cluster:Cluster", "oci:ContainerEngine/nodePool:NodePool"
_REGIONS = {"us-ashburn-1": "IAD", "us-phoenix-1": "PHX", "us-sanjose-1": "SJC"}
"""Oracle's keys of regions, which are in the names of services."""
_Args = Mapping[str, Any]


def _clusters(cloud: Cloud, scope: str, args: _Args) -> dict[str, Any]:
    return {"id": scope, "region": scope, "names": [each.id for each in _of(cloud, _PLANE, scope)]}


def _groups(cloud: Cloud, scope: str, args: _Args) -> dict[str, Any]:
    cluster = args["clusterName"]
    if not any(each.id == cluster for each in _of(cloud, _PLANE, scope)):
        raise RefusedError(f"ResourceNotFoundException: No cluster found for name: {cluster}.")
    names = [each.outputs["nodeGroupName"] for each in _of(cloud, _GROUP, scope) if each.inputs["clusterName"] == cluster]
    return {"id": cluster, "region": scope, "clusterName": cluster, "names": names}


def _group(cloud: Cloud, scope: str, args: _Args) -> dict[str, Any]:
    cluster, name = args["clusterName"], args["nodeGroupName"]
    if name not in _groups(cloud, scope, args)["names"]:
        raise RefusedError(f"ResourceNotFoundException: No node group found for name: {name}.")
    live = next(each for each in _of(cloud, _GROUP, scope) if each.id == f"{cluster}:{name}")
    lists = {f"{key}s": [{**live.inputs[key]}] if key in live.inputs else [] for key in _SINGLE}
    for template in lists["launchTemplates"]:
        template["name"] = next(each.outputs["name"] for each in _of(cloud, _TEMPLATE, scope) if each.id == template["id"])
    plain = {key: live.outputs[key] for key in _PLAIN if key in live.outputs}
    tags = live.outputs.get("tagsAll", live.tags)
    return {"id": live.id, "region": scope, "status": "ACTIVE", **plain, "tags": tags, **lists}


def _services(cloud: Cloud, scope: str, args: _Args) -> dict[str, Any]:
    key = _REGIONS[scope]
    label, names = key.lower(), (f"OCI {key} Object Storage", f"All {key} Services In Oracle Services Network")
    blocks = (f"oci-{label}-objectstorage", f"all-{label}-services-in-oracle-services-network")
    services = [
        {"id": f"ocid1.service.oc1.{scope}.{block}", "cidrBlock": block, "name": name, "description": name}
        for name, block in zip(names, blocks, strict=True)
    ]
    for wanted in args.get("filters", ()):
        is_one = re.search if wanted.get("regex") else re.fullmatch
        services = [each for each in services if any(is_one(value, str(each[wanted["name"]])) for value in wanted["values"])]
    return {"id": f"CoreServicesDataSource-{label}", "filters": args.get("filters", []), "services": services}


def _kubeconfig(cloud: Cloud, scope: str, args: _Args) -> dict[str, Any]:
    cluster = args["clusterId"]
    if cloud.find(_OKE, cluster, scope) is None:
        raise RefusedError(f"404-NotAuthorizedOrNotFound, Authorization failed or requested resource not found: {cluster}")
    address = "10.0.0.2" if args["endpoint"] == "PRIVATE_ENDPOINT" else "203.0.113.2"
    name = cluster.rpartition(".")[2][-11:]
    token = ["ce", "cluster", "generate-token", "--cluster-id", cluster, "--region", scope]
    user = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "oci", "args": token, "env": []}
    server = {"server": f"https://{address}:6443", "certificate-authority-data": "c2ltdWxhdGVk"}
    content = {
        "apiVersion": "v1",
        "kind": "",
        "clusters": [{"name": f"cluster-{name}", "cluster": server}],
        "users": [{"name": f"user-{name}", "user": {"exec": user}}],
        "contexts": [{"name": f"context-{name}", "context": {"cluster": f"cluster-{name}", "user": f"user-{name}"}}],
        "current-context": f"context-{name}",
    }
    return {**args, "id": f"ContainerengineClusterKubeConfigDataSource-{name}", "content": json.dumps(content)}


def _oke_clusters(cloud: Cloud, scope: str, args: _Args) -> dict[str, Any]:
    there = [each for each in _of(cloud, _OKE, scope) if each.inputs["compartmentId"] == args["compartmentId"]]
    clusters = [{"id": each.id, "name": each.inputs["name"], "state": "ACTIVE"} for each in there]
    return {**args, "clusters": [cluster for cluster in clusters if args.get("name") in (None, cluster["name"])]}


def _pools(cloud: Cloud, scope: str, args: _Args) -> dict[str, Any]:
    there = [each for each in _of(cloud, _POOL, scope) if each.inputs["clusterId"] == args["clusterId"]]
    return {**args, "nodePools": [_listed(each) for each in there if each.inputs["compartmentId"] == args["compartmentId"]]}


def _listed(pool: Live) -> dict[str, Any]:
    plain = {key: pool.outputs[key] for key in ("compartmentId", "freeformTags", "initialNodeLabels", "nodeShape")}
    details = [{"size": pool.inputs["nodeConfigDetails"]["size"]}]
    return {"id": pool.id, "name": pool.outputs.get("name", ""), "state": "ACTIVE", "nodeConfigDetails": details, **plain}


def _pool(cloud: Cloud, scope: str, args: _Args) -> dict[str, Any]:
    live = cloud.find(_POOL, args["nodePoolId"], scope)
    if live is None:
        raise RefusedError(f"404-NotAuthorizedOrNotFound, node pool not found: {args['nodePoolId']}")
    size = int(live.inputs["nodeConfigDetails"]["size"])
    return {**args, "nodes": [{"privateIp": f"10.0.{live.number}.{node}", "state": "ACTIVE"} for node in range(1, size + 1)]}


def _namespace(cloud: Cloud, scope: str, args: _Args) -> dict[str, Any]:
    return {**args, "id": "ObjectStorageNamespaceDataSource", "namespace": "axexample"}


_SINGLE = ("launchTemplate", "scalingConfig", "updateConfig")
_PLAIN = (
    "amiType",
    "arn",
    "capacityType",
    "clusterName",
    "diskSize",
    "instanceTypes",
    "labels",
    "nodeGroupName",
    "nodeRoleArn",
    "releaseVersion",
    "resources",
    "subnetIds",
    "taints",
    "version",
)
ANSWERS: Mapping[str, Callable[[Cloud, str, _Args], dict[str, Any]]] = {
    "aws:eks/getClusters:getClusters": _clusters,
    "aws:eks/getNodeGroups:getNodeGroups": _groups,
    "aws:eks/getNodeGroup:getNodeGroup": _group,
    "oci:ContainerEngine/getClusterKubeConfig:getClusterKubeConfig": _kubeconfig,
    "oci:ContainerEngine/getClusters:getClusters": _oke_clusters,
    "oci:ContainerEngine/getNodePool:getNodePool": _pool,
    "oci:ContainerEngine/getNodePools:getNodePools": _pools,
    "oci:Core/getServices:getServices": _services,
    "oci:ObjectStorage/getNamespace:getNamespace": _namespace,
}
"""Functions by token: from the cloud, the region and the arguments to the result, or a RefusedError."""


def _of(cloud: Cloud, kind: str, scope: str) -> list[Live]:
    return cloud.live(kind, lambda each: each.scope in (scope, ""))
