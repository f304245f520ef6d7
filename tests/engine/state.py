"""A state file as a recording and back, so that the CLI and the judge are asked about the same resources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from google.protobuf import struct_pb2

from gpu_ci.offline import wire
from gpu_ci.offline.recording import STACK_TYPE, Recording, Resource
from policies.rules.record import SECRET, SIGNATURE

Side = Literal["inputs", "outputs"]
"""What a policy is shown of a deployed resource: by itself its inputs, as part of the stack its outputs."""

_PROVIDER = "pulumi:providers:"


def recording(state: Mapping[str, Any], side: Side) -> Recording:
    """The resources of a state that was exported with secrets in clear text. `side` selects inputs or outputs."""
    found: dict[str, Resource] = {}
    for each in state["deployment"]["resources"]:
        found[each["urn"]] = _resource(each, side, found)
    _, _, stack, project, *_ = next(iter(found)).replace("::", ":").split(":")
    return Recording(project, stack, False, tuple(found.values()), {})


def _resource(held: Mapping[str, Any], side: Side, before: Mapping[str, Resource]) -> Resource:
    properties = struct_pb2.Struct()
    properties.update(opened(held.get(side) or {}))
    provider = held.get("provider", "")
    return Resource(
        urn=held["urn"],
        type=held["type"],
        name=held["urn"].rpartition("::")[2],
        parent=held.get("parent", ""),
        custom=held["custom"],
        remote=False,
        read=False,
        id=held.get("id", ""),
        wire=properties,
        provider=provider,
        provider_resource=before.get(provider.rpartition("::")[0]),
        dependencies=tuple(held.get("dependencies") or ()),
        property_dependencies={name: tuple(urns) for name, urns in (held.get("propertyDependencies") or {}).items() if urns},
        protect=held.get("protect", False),
    )


def opened(value: Any) -> Any:
    """A state's value as it goes over the wire: secrets in the clear."""
    if isinstance(value, list):
        return [opened(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get(SIGNATURE) == SECRET:
        return {SIGNATURE: SECRET, "value": opened(json.loads(value["plaintext"]))}
    return {key: opened(item) for key, item in value.items()}


def document(held: Recording) -> dict[str, Any]:
    """The state file after an update of a recording, if the providers add no outputs."""
    return {"version": 3, "deployment": {"manifest": {}, "resources": [_state(each) for each in held.resources]}}


def _state(resource: Resource) -> dict[str, Any]:
    properties = wire.raw(resource.wire)
    return {
        "urn": resource.urn,
        "type": resource.type,
        "custom": resource.custom,
        **({"id": resource.id or "simulated"} if resource.custom else {}),
        "inputs": properties,
        "outputs": properties,
        "parent": resource.parent,
        "protect": resource.protect,
        "provider": resource.provider,
        "dependencies": list(resource.dependencies),
        "propertyDependencies": {name: list(urns) for name, urns in resource.property_dependencies.items()},
    }


def stack_urn(held: Recording) -> str:
    """The URN that the engine puts to what a policy says of the whole stack."""
    return f"urn:pulumi:{held.stack}::{held.project}::{STACK_TYPE}::{held.project}-{held.stack}"
