"""What the engine sends to a policy pack over gRPC, made from a recording."""

from __future__ import annotations

from typing import Any

from google.protobuf import struct_pb2
from pulumi.runtime import proto
from pulumi.runtime.proto import alias_pb2

from gpu_ci.offline import wire
from gpu_ci.offline.recording import STACK_TYPE, Recording, Resource


def analyze_request(resource: Resource) -> proto.AnalyzeRequest:
    """The resource as the engine sends it to a policy pack, to be analyzed or remediated."""
    request = proto.AnalyzeRequest()
    _fill(request, resource)
    return request


def stack_request(recording: Recording) -> proto.AnalyzeStackRequest:
    """The whole recording as the engine sends it at the end."""
    request = proto.AnalyzeStackRequest()
    for resource in recording.resources:
        if resource.read:
            continue
        sent = request.resources.add()
        _fill(sent, resource)
        sent.parent = resource.parent
        sent.dependencies.extend(resource.dependencies)
        for name, urns in resource.property_dependencies.items():
            sent.propertyDependencies[name].urns.extend(urns)
    return request


def _fill(request: Any, resource: Resource) -> None:
    """Fill the fields that AnalyzeRequest and AnalyzerResource share."""
    options = proto.AnalyzerResourceOptions(
        protect=resource.protect,
        ignoreChanges=resource.ignore_changes,
        deleteBeforeReplace=resource.delete_before_replace or False,
        deleteBeforeReplaceDefined=resource.delete_before_replace is not None,
        aliases=alias_urns(resource),
        additionalSecretOutputs=resource.additional_secret_outputs,
        parent=resource.parent,
    )
    request.type, request.urn, request.name = resource.type, resource.urn, resource.name
    request.properties.CopyFrom(_properties(resource))
    request.options.CopyFrom(options)
    made_by = resource.provider_resource
    if made_by is not None:
        request.provider.CopyFrom(
            proto.AnalyzerProviderResource(type=made_by.type, properties=_properties(made_by), urn=made_by.urn, name=made_by.name)
        )


def alias_urns(resource: Resource) -> tuple[str, ...]:
    """The URNs of a resource's aliases, as the engine makes them."""
    aliases = map(alias_pb2.Alias.FromString, resource.aliases)
    return tuple(dict.fromkeys(alias.urn or _alias(resource, alias.spec) for alias in aliases))


def _alias(resource: Resource, spec: Any) -> str:
    stack, project = resource.urn.split(":", 2)[2].split("::")[:2]
    parent = "" if spec.noParent else spec.parentUrn or resource.parent
    tail = f"{spec.type or resource.type}::{spec.name or resource.name}"
    if parent and parent.split("::")[2] != STACK_TYPE:
        return f"{parent.rpartition('::')[0]}${tail}"
    return f"urn:pulumi:{spec.stack or stack}::{spec.project or project}::{tail}"


def _properties(resource: Resource) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(wire.analyzed(wire.raw(resource.wire)))
    return struct
