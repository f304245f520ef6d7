"""The simulated cloud as a provider of the real Cluster Autoscaler: its gRPC service `externalgrpc`.

Messages and their numbers: kubernetes/autoscaler at 1.36.1, cloudprovider/externalgrpc/protos/externalgrpc.proto, and
k8s.io/api core/v1/generated.proto. Only the fields that are used here are named; protobuf skips all others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from fleet.facts.scheduling import SYSTEM_POOL
from fleet.providers.registry import PROVIDERS
from fleet.render.sweeps.api import Object
from gpu_ci.world.cloud import REFUSED, Cloud, Instance

_PACKAGE = "clusterautoscaler.cloudprovider.v1.externalgrpc"
_SERVICE = f"{_PACKAGE}.CloudProvider"
# A field is a text unless it names another type; * repeats. An entry of a map is a message with a key and a value.
_MESSAGES = """
Empty
Entry key=1 value=2
Type key=1
Duration seconds:int64=1 nanos:int32=2
NodeGroup id=1 minSize:int32=2 maxSize:int32=3 debug=4
ExternalNode providerID=1 name=2
NodeGroups nodeGroups:NodeGroup*=1
NodeAsked node:ExternalNode=1
GroupTold nodeGroup:NodeGroup=1
Label label=1
Types gpuTypes:Type*=1
GroupAsked id=1
Size targetSize:int32=1
SizeAsked delta:int32=1 id=2
NodesAsked nodes:ExternalNode*=1 id=2
ErrorInfo errorCode=1 errorMessage=2 instanceErrorClass:int32=3
Status instanceState:int32=1 errorInfo:ErrorInfo=2
Instance id=1 status:Status=2
Instances instances:Instance*=1
Template nodeBytes:bytes=2
Options down:double=1 gpuDown:double=2 all:bool=6 daemons:bool=7 unneeded:Duration=8 unready:Duration=9 provision:Duration=10
OptionsAsked id=1 defaults:Options=2
OptionsTold nodeGroupAutoscalingOptions:Options=1
Quantity string=1
Amount key=1 value:Quantity=2
Taint key=1 value=2 effect=3
Condition type=1 status=2
Meta name=1 labels:Entry*=11
Spec providerID=3 taints:Taint*=5
NodeStatus capacity:Amount*=1 allocatable:Amount*=2 conditions:Condition*=4
Node metadata:Meta=1 spec:Spec=2 status:NodeStatus=3
"""
_RUNNING, _CREATING, _OUT_OF_RESOURCES = 1, 2, 1
"""Numbers of InstanceState and of InstanceErrorClass (the same file, and cloudprovider/cloud_provider.go)."""


def _messages() -> dict[str, Any]:
    """The classes of the messages, without generated code."""
    file = descriptor_pb2.FileDescriptorProto(name="world.proto", package="world", syntax="proto3")
    for line in _MESSAGES.strip().splitlines():
        name, *fields = line.split()
        message = file.message_type.add(name=name)
        for text in fields:
            field, kind, many, number = re.fullmatch(r"(\w+):?(\w*)(\*?)=(\d+)", text).groups()  # type: ignore[union-attr]
            one = message.field.add(name=field, number=int(number), label=3 if many else 1)
            if kind[:1].isupper():
                one.type, one.type_name = one.TYPE_MESSAGE, f".world.{kind}"
            else:
                one.type = getattr(one, f"TYPE_{(kind or 'string').upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = (message.name for message in file.message_type)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"world.{name}")) for name in names}


MESSAGES = _messages()


class Provider:
    """The calls of the service, over a cloud. A call without a row here is one that the autoscaler can do without."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.calls: Mapping[str, tuple[str, str, Callable[[Any], Mapping[str, Any]]]] = {
            "NodeGroups": ("Empty", "NodeGroups", self._groups),
            "NodeGroupForNode": ("NodeAsked", "GroupTold", self._group_of),
            "GPULabel": ("Empty", "Label", self._gpu_label),
            "GetAvailableGPUTypes": ("Empty", "Types", self._gpu_types),
            "Cleanup": ("Empty", "Empty", lambda _: {}),
            "Refresh": ("Empty", "Empty", lambda _: {}),
            "NodeGroupTargetSize": ("GroupAsked", "Size", lambda asked: {"targetSize": cloud.sizes[asked.id]}),
            "NodeGroupIncreaseSize": ("SizeAsked", "Empty", self._increase),
            "NodeGroupDecreaseTargetSize": ("SizeAsked", "Empty", self._decrease),
            "NodeGroupDeleteNodes": ("NodesAsked", "Empty", self._delete),
            "NodeGroupNodes": ("GroupAsked", "Instances", self._instances),
            "NodeGroupTemplateNodeInfo": ("GroupAsked", "Template", self._template),
            "NodeGroupGetOptions": ("OptionsAsked", "OptionsTold", self._options),
        }

    def _groups(self, _: Any) -> Mapping[str, Any]:
        return {"nodeGroups": [self._told(group) for group in self.cloud.groups]}

    def _told(self, group: str) -> Mapping[str, Any]:
        of = self.cloud.groups[group]
        return {"id": group, "minSize": of.span.min, "maxSize": of.span.max, "debug": f"{of.pool} in {', '.join(of.zones)}"}

    def _group_of(self, asked: Any) -> Mapping[str, Any]:
        one = self.cloud.find(asked.node.providerID)
        return {"nodeGroup": self._told(one.group.id) if one is not None else {}}

    def _gpu_label(self, _: Any) -> Mapping[str, Any]:
        return {"label": next((self._profile(group).accelerator_label for group in self.cloud.groups), "")}

    def _profile(self, group: str) -> Any:
        return PROVIDERS[self.cloud.groups[group].nodes.settings.provider].profile

    def _gpu_types(self, _: Any) -> Mapping[str, Any]:
        machines = (machine for group in self.cloud.groups.values() for machine in group.nodes.host.machines)
        return {"gpuTypes": [{"key": name} for name in sorted({each.gpu.accelerator for each in machines if each.gpu})]}

    def _increase(self, asked: Any) -> Mapping[str, Any]:
        self.cloud.increase(asked.id, asked.delta)
        return {}

    def _decrease(self, asked: Any) -> Mapping[str, Any]:
        self.cloud.decrease(asked.id, -asked.delta)
        return {}

    def _delete(self, asked: Any) -> Mapping[str, Any]:
        # A machine that was refused has no node; the autoscaler then writes its id as the node's name.
        self.cloud.delete(asked.id, [node.providerID or node.name for node in asked.nodes])
        return {}

    def _instances(self, asked: Any) -> Mapping[str, Any]:
        return {"instances": [{"id": one.id, "status": _status(one)} for one in self.cloud.of(asked.id)]}

    def _template(self, asked: Any) -> Mapping[str, Any]:
        return {"nodeBytes": encoded(self.cloud.groups[asked.id].template()).SerializeToString()}

    def _options(self, asked: Any) -> Mapping[str, Any]:
        """What is the autoscaler's default, but for the time after which it removes a node of a pool."""
        group, options = self.cloud.groups[asked.id], asked.defaults
        if group.pool != SYSTEM_POOL:
            delay = group.nodes.settings.idle_delay_of(group.pool) / self.cloud.factor
            options.unneeded.seconds, options.unneeded.nanos = int(delay), int(delay % 1 * 1e9)
        return {"nodeGroupAutoscalingOptions": options}


def _status(one: Instance) -> Mapping[str, Any]:
    status: dict[str, Any] = {"instanceState": _RUNNING if one.made else _CREATING}
    if one.refused:
        text = f"the simulated cloud has no capacity for {one.group.pool} in {one.zone}"
        status["errorInfo"] = {"errorCode": REFUSED, "errorMessage": text, "instanceErrorClass": _OUT_OF_RESOURCES}
    return status


def encoded(node: Object) -> Any:
    """A node as a protobuf message, which is ready."""
    amounts = {
        field: [{"key": name, "value": {"string": text}} for name, text in node["status"][field].items()]
        for field in ("capacity", "allocatable")
    }
    metadata = node["metadata"]
    return MESSAGES["Node"](
        metadata={
            "name": metadata["name"],
            "labels": [{"key": key, "value": value} for key, value in metadata["labels"].items()],
        },
        spec=node["spec"],
        status={**amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    )


def serve(cloud: Cloud, folder: Path) -> tuple[Path, Callable[[], object]]:
    """Serve a cloud on the loopback interface: the autoscaler's cloud-config file in `folder`, and what stops the server."""

    def handler(answer: Callable[[Any], Mapping[str, Any]], asked: str, told: str) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            lambda request, _: MESSAGES[told](**answer(request)), MESSAGES[asked].FromString, MESSAGES[told].SerializeToString
        )

    server = grpc.server(ThreadPoolExecutor(8, thread_name_prefix="cloud"))
    calls = {name: handler(answer, asked, told) for name, (asked, told, answer) in Provider(cloud).calls.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, calls),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    file = folder / "cloud-config.json"
    file.write_text(json.dumps({"address": f"127.0.0.1:{port}"}), encoding="ascii")
    return file, lambda: server.stop(None)


_SECONDS = {"s": 1, "m": 60, "h": 3600}


def flags(arguments: Mapping[str, object], factor: float) -> list[str]:
    """The autoscaler's flags from its chart's `extraArgs`, with every time over the factor."""

    def text(value: object) -> str:
        time = re.fullmatch(r"(\d+)([smh])", str(value))
        return (
            f"{int(time[1]) * _SECONDS[time[2]] / factor:g}s"
            if time
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )

    return [f"--{name}={text(value)}" for name, value in arguments.items()]
