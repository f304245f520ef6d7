"""The component `eks.Cluster` as its provider constructs it, for the part that we ask of it.

The component itself is registered without inputs: what is asked of it shows in its children alone, which inherit its protection.
Facts: pulumi/pulumi-eks 4.3, nodejs/eks/cluster/cluster.ts; its yarn.lock pins @pulumi/pulumi 3.173.0, whose `ComponentResource`
sends no inputs (3.202.0 is the first that does).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import provider_pb2, resource_pb2

TYPE = "eks:index:Cluster"
ROLE = "aws:iam/role:Role"
CONTROL_PLANE = "aws:eks/cluster:Cluster"

_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Action": ["sts:AssumeRole", "sts:TagSession"], "Effect": "Allow", "Principal": {"Service": ["eks.amazonaws.com"]}}
    ],
}
_KEPT = ("name", "version", "enabledClusterLogTypes", "bootstrapSelfManagedAddons", "deletionProtection")
_NETWORK = ("endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs")


def construct(request: Any, monitor: Any, kubeconfig: str = "") -> Any:
    """Registers the component, its service role and its control plane, and answers a ConstructRequest.

    The outputs that we read are known once the control plane is. Without a `kubeconfig` its endpoint makes one.
    """
    given = request.inputs.fields
    component = _register(request, monitor, request.type, request.name, request.parent)
    role_inputs = _struct(
        {"assumeRolePolicy": json.dumps(_TRUST), "description": "Allows EKS to manage clusters on your behalf."}
    )
    _copy(given, ("tags",), role_inputs)
    role = _register(request, monitor, ROLE, f"{request.name}-eksRole-role", component.urn, role_inputs)
    plane_name = f"{request.name}-eksCluster"
    plane = _register(request, monitor, CONTROL_PLANE, plane_name, component.urn, _plane_inputs(given, plane_name, role.object))
    # Without supportsPartialValues the engine leaves out what is unknown.
    endpoint = plane.object.fields["endpoint"].string_value
    outputs = _struct(
        {"kubeconfigJson": kubeconfig or _kubeconfig(request.name, endpoint), "clusterSecurityGroupId": f"sg-{request.name}"}
        if endpoint
        else dict.fromkeys(("kubeconfigJson", "clusterSecurityGroupId"), rpc.UNKNOWN)
    )
    monitor.RegisterResourceOutputs(resource_pb2.RegisterResourceOutputsRequest(urn=component.urn, outputs=outputs))
    source = provider_pb2.ConstructResponse.PropertyDependencies(urns=[plane.urn])
    return provider_pb2.ConstructResponse(
        urn=component.urn, state=outputs, stateDependencies=dict.fromkeys(outputs.fields, source)
    )


def _register(request: Any, monitor: Any, kind: str, name: str, parent: str, inputs: struct_pb2.Struct | None = None) -> Any:
    """A resource with these inputs, on the AWS provider that the component was given; the component itself without inputs."""
    custom = inputs is not None
    return monitor.RegisterResource(
        resource_pb2.RegisterResourceRequest(
            type=kind,
            name=name,
            parent=parent,
            custom=custom,
            provider=request.providers.get("aws", "") if custom else "",
            providers={} if custom else request.providers,
            object=inputs,
            protect=request.protect,
            dependencies=request.dependencies,
            acceptSecrets=True,
            acceptResources=True,
        )
    )


def _plane_inputs(given: Mapping[str, Any], name: str, role: struct_pb2.Struct) -> struct_pb2.Struct:
    inputs = _struct({"vpcConfig": {}, "roleArn": role.fields["arn"].string_value or rpc.UNKNOWN})
    _copy(given, _KEPT, inputs)
    network = inputs.fields["vpcConfig"].struct_value
    _copy(given, _NETWORK, network)
    if "privateSubnetIds" in given:
        network.fields["subnetIds"].CopyFrom(given["privateSubnetIds"])
    if "authenticationMode" in given:
        access = inputs.fields["accessConfig"].struct_value
        access.update({"bootstrapClusterCreatorAdminPermissions": True})
        _copy(given, ("authenticationMode",), access)
    inputs.fields["tags"].struct_value.update({"Name": name})
    if "tags" in given:
        inputs.fields["tags"].struct_value.MergeFrom(given["tags"].struct_value)
    return inputs


def _copy(given: Mapping[str, Any], names: Iterable[str], target: struct_pb2.Struct) -> None:
    for name in names:
        if name in given:
            target.fields[name].CopyFrom(given[name])


def _struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct


def _kubeconfig(name: str, endpoint: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": endpoint}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
            "users": [{"name": name, "user": {}}],
        }
    )
