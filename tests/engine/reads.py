"""What functions of providers answer: what the simulated cloud contains. Shapes: pulumi_aws 7.51, eks/get_*.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.engine.live import Cloud, Live, RefusedError

_GROUP, _PLANE = "aws:eks/nodeGroup:NodeGroup", "aws:eks/cluster:Cluster"
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
    lists = {f"{key}s": [live.inputs[key]] if key in live.inputs else [] for key in _SINGLE}
    plain = {key: live.outputs[key] for key in _PLAIN if key in live.outputs}
    return {"id": live.id, "region": scope, "status": "ACTIVE", **plain, **lists}


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
    "tags",
    "taints",
    "version",
)
ANSWERS: Mapping[str, Callable[[Cloud, str, _Args], dict[str, Any]]] = {
    "aws:eks/getClusters:getClusters": _clusters,
    "aws:eks/getNodeGroups:getNodeGroups": _groups,
    "aws:eks/getNodeGroup:getNodeGroup": _group,
}
"""Functions by token: from the cloud, the region and the arguments to the result, or a RefusedError."""


def _of(cloud: Cloud, kind: str, scope: str) -> list[Live]:
    return cloud.live(kind, lambda each: each.scope in (scope, ""))
