"""The simulated cloud as a provider of the real Cluster Autoscaler: its gRPC service `externalgrpc`.

`externalgrpc.toml` has its calls and messages.
"""

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pydantic_core import PydanticCustomError

from fleet.facts.scheduling import SYSTEM_POOL
from fleet.facts.tables import beside
from fleet.providers.registry import PROVIDERS
from fleet.render.sweeps.api import Object
from fleet.settings.model import seconds_of
from gpu_ci.world.cloud import REFUSED, Cloud, Group, Instance

_PACKAGE = "clusterautoscaler.cloudprovider.v1.externalgrpc"
_SERVICE = f"{_PACKAGE}.CloudProvider"
_TABLE = beside(__file__, "externalgrpc.toml")
CALLS: dict[str, tuple[str, str]] = _TABLE["calls"]
"""The messages of question and answer of each call."""
_RUNNING, _CREATING, _OUT_OF_RESOURCES = 1, 2, 1
"""Numbers of InstanceState and of InstanceErrorClass (the same file, and cloudprovider/cloud_provider.go)."""


def _messages() -> dict[str, Any]:
    """The classes of the messages, without generated code."""
    file = descriptor_pb2.FileDescriptorProto(name="world.proto", package="world", syntax="proto3")
    for name, fields in _TABLE["messages"].items():
        message = file.message_type.add(name=name)
        for text in fields.split():
            field, kind, many, number = re.fullmatch(r"(\w+):?(\w*)(\*?)=(\d+)", text).groups()  # type: ignore[union-attr]
            one = message.field.add(name=field, number=int(number), label=3 if many else 1)
            if kind[:1].isupper():
                one.type, one.type_name = one.TYPE_MESSAGE, f".world.{kind}"
            else:
                one.type = getattr(one, f"TYPE_{(kind or 'string').upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = ((name, pool.FindMessageTypeByName(f"world.{name}")) for name in _TABLE["messages"])
    return {name: message_factory.GetMessageClass(message) for name, message in found}


MESSAGES = _messages()


Answer = Callable[[Any], Mapping[str, Any] | None]


def answers(cloud: Cloud) -> dict[str, Answer]:
    """What the cloud answers to each call."""
    groups = cloud.groups.values()
    machines = [machine for group in groups for machine in group.of.host.machines]
    gpus = sorted({machine.gpu.accelerator for machine in machines if machine.gpu is not None})
    label = next((PROVIDERS[group.of.settings.provider].profile.accelerator_label for group in groups), "")
    return {
        "NodeGroups": lambda _: {"nodeGroups": [_told(group) for group in groups]},
        "NodeGroupForNode": lambda asked: _group_of(cloud.find(asked.node.providerID)),
        "GPULabel": lambda _: {"label": label},
        "GetAvailableGPUTypes": lambda _: {"gpuTypes": [{"key": name} for name in gpus]},
        "NodeGroupTargetSize": lambda asked: {"targetSize": cloud.sizes[asked.id]},
        "NodeGroupIncreaseSize": lambda asked: cloud.increase(asked.id, asked.delta),
        "NodeGroupDecreaseTargetSize": lambda asked: cloud.decrease(asked.id, -asked.delta),
        # A machine that was refused has no node: the autoscaler writes its id as the node's name.
        "NodeGroupDeleteNodes": lambda asked: cloud.delete(asked.id, [node.providerID or node.name for node in asked.nodes]),
        "NodeGroupNodes": lambda asked: {"instances": [_instance(one) for one in cloud.of(asked.id)]},
        "NodeGroupTemplateNodeInfo": lambda asked: {"nodeBytes": encoded(cloud.groups[asked.id].template())},
        "NodeGroupGetOptions": lambda asked: _options(cloud, asked),
    }


def _told(group: Group) -> Mapping[str, Any]:
    return {"id": group.id, "minSize": group.span.min, "maxSize": group.span.max, "debug": group.pool}


def _group_of(one: Instance | None) -> Mapping[str, Any]:
    return {"nodeGroup": _told(one.group) if one is not None else {}}


def _options(cloud: Cloud, asked: Any) -> Mapping[str, Any]:
    """The autoscaler's defaults, but for the times after which it removes an idle node and a broken node of a pool.

    The message has no time in which a node starts. The autoscaler then takes none, calls a node unready as soon as it registers,
    and buys another one (externalgrpc_node_group.go and clusterstate.go at 1.36.1). So a group whose nodes start gets no answer.
    """
    group, options = cloud.groups[asked.id], asked.defaults
    if cloud.starts(group.id):
        return {}
    if group.pool != SYSTEM_POOL:
        times = (options.unneeded, cloud.idle_delay(group)), (options.unready, options.unready.seconds / cloud.factor)
        for duration, delay in times:
            duration.seconds, duration.nanos = int(delay), int(delay % 1 * 1e9)
    return {"nodeGroupAutoscalingOptions": options}


def _instance(one: Instance) -> Mapping[str, Any]:
    status: dict[str, Any] = {"instanceState": _RUNNING if one.made else _CREATING}
    if one.refused:
        text = f"the simulated cloud has no capacity for {one.group.pool} in {one.zone}"
        status["errorInfo"] = {"errorCode": REFUSED, "errorMessage": text, "instanceErrorClass": _OUT_OF_RESOURCES}
    return {"id": one.id, "status": status}


def encoded(node: Object) -> bytes:
    """A node that is ready, in protobuf."""
    fields = {field: node["status"][field].items() for field in ("capacity", "allocatable")}
    amounts = {field: [{"key": name, "value": {"string": text}} for name, text in of] for field, of in fields.items()}
    labels = [{"key": key, "value": value} for key, value in node["metadata"]["labels"].items()]
    status = {**amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    message = MESSAGES["Node"](metadata={"name": node["metadata"]["name"], "labels": labels}, spec=node["spec"], status=status)
    content: bytes = message.SerializeToString()
    return content


def serve(cloud: Cloud, folder: Path) -> tuple[Path, Callable[[], object]]:
    """Serve a cloud on the loopback interface: the autoscaler's cloud-config file in `folder`, and what stops the server."""

    known = answers(cloud)

    def handler(name: str) -> Any:
        asked, told = (MESSAGES[message] for message in CALLS[name])

        def answer(request: Any, _: object) -> Any:
            # Cleanup and Refresh need no answer of the cloud.
            return told(**(known[name](request) or {} if name in known else {}))

        return grpc.unary_unary_rpc_method_handler(answer, asked.FromString, told.SerializeToString)

    server = grpc.server(ThreadPoolExecutor(8, thread_name_prefix="cloud"))
    calls = {name: handler(name) for name in CALLS}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, calls),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    file = folder / "cloud-config.json"
    file.write_text(json.dumps({"address": f"127.0.0.1:{port}"}), encoding="ascii")
    return file, lambda: server.stop(None)


def flags(arguments: Mapping[str, object], factor: float) -> list[str]:
    """The autoscaler's flags from its chart's `extraArgs`, with every time over the factor."""

    def text(value: object) -> str:
        try:
            return f"{seconds_of(value) / factor:g}s"
        except PydanticCustomError:
            return str(value)

    # Go's flags also read True and False.
    return [f"--{name}={text(value)}" for name, value in arguments.items()]
