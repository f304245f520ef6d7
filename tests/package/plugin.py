"""The component package as the engine runs it: a process that serves gRPC on loopback. The tests play the engine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import pulumi
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.provider.server import ProviderServicer
from pulumi.runtime import rpc
from pulumi.runtime.proto import (
    engine_pb2_grpc,
    errors_pb2,
    provider_pb2,
    provider_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
    status_pb2,
)

from package.provider import PackageProvider
from tests.builders import ROOT
from tests.components.oke import ANSWERS

UNKNOWN = rpc.UNKNOWN
_FEATURES = (
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_OUTPUT_VALUES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
)

_ADDED = {
    "aws:iam/role:Role": {"arn": "arn:aws:iam::123456789012:role/x"},
    "eks:index:Cluster": {"kubeconfigJson": "{}", "clusterSecurityGroupId": "sg-0123456789abcdef0"},
}
"""Outputs by type that are not inputs. An update has them."""


def secret(value: object) -> dict[str, object]:
    """A secret on the wire."""
    return {rpc._special_sig_key: rpc._special_secret_sig, "value": value}


def output(value: object, *dependencies: str, secret: bool = False) -> dict[str, object]:
    """An output value on the wire. An unknown one has no value."""
    known = {} if value == UNKNOWN else {"value": value}
    return {rpc._special_sig_key: rpc._special_output_value_sig, **known, "secret": secret, "dependencies": list(dependencies)}


def urn_of(request: Any) -> str:
    """The URN of a resource to register."""
    parent = f"{request.parent.split('::')[2]}$" if request.parent else ""
    return f"urn:pulumi:s::p::{parent}{request.type}::{request.name}"


class Engine(resource_pb2_grpc.ResourceMonitorServicer, engine_pb2_grpc.EngineServicer):
    """Registers resources: the outputs of a resource are its inputs. In a preview its id is unknown."""

    def __init__(self, preview: bool) -> None:
        self.preview = preview
        self.asked: list[Any] = []
        """Every request to register a resource."""
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        resource_pb2_grpc.add_ResourceMonitorServicer_to_server(self, self._server)
        engine_pb2_grpc.add_EngineServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(grace=None).wait()

    def GetDeploymentInfo(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        return resource_pb2.DeploymentInfo(supportedFeatures=_FEATURES)

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        return empty_pb2.Empty()

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Answers the SDK, which asks what provider a URN is, and the components of OCI."""
        found = struct_pb2.Struct()
        if request.tok in ANSWERS:
            found.update(ANSWERS[request.tok]({}))
            return resource_pb2.ResourceInvokeResponse(**{"return": found})
        assert request.tok == "pulumi:pulumi:getResource", request.tok
        urn = request.args["urn"]
        found.update({"urn": urn, "id": f"{urn.rpartition('::')[2]}-id", "state": {}})
        return resource_pb2.ResourceInvokeResponse(**{"return": found})

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        self.asked.append(request)
        known = request.custom and not self.preview
        outputs = struct_pb2.Struct()
        outputs.CopyFrom(request.object)
        if not self.preview:
            outputs.update(_ADDED.get(request.type, {}))
        return resource_pb2.RegisterResourceResponse(
            urn=urn_of(request),
            id=f"{request.name}-id" if known else "",
            object=outputs,
        )


@dataclass(frozen=True)
class Constructed:
    """What became of a component."""

    asked: Sequence[Any]
    """Requests to register resources, the component's own first."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    errors: Sequence[tuple[str, str]] = ()
    """Property errors: the path of the argument, and the reason."""

    @property
    def component(self) -> Any:
        return self.asked[0]

    @property
    def inputs(self) -> struct_pb2.Struct:
        """The component's inputs in state, on the wire."""
        found: struct_pb2.Struct = self.component.object
        return found


@dataclass(frozen=True)
class Plugin:
    """A running plugin."""

    _provider: provider_pb2_grpc.ResourceProviderStub

    def schema(self) -> str:
        """The schema's JSON text."""
        return str(self._provider.GetSchema(provider_pb2.GetSchemaRequest(version=0)).schema)

    def construct(self, component: str, inputs: Mapping[str, Any], *, preview: bool = True, **request: Any) -> Constructed:
        """Construct a component with inputs as on the wire. `request` has other fields of the gRPC request.

        An error that is not a property error is raised.
        """
        engine, values = Engine(preview), struct_pb2.Struct()
        values.update(inputs)
        kind = f"gpu-ci:index:{component}"
        asked = provider_pb2.ConstructRequest(
            project="p", stack="s", dryRun=preview, monitorEndpoint=engine.address, type=kind, name="x", inputs=values, **request
        )
        try:
            answer = self._provider.Construct(asked)
            return Constructed(engine.asked, rpc.deserialize_properties(answer.state, keep_unknowns=True))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
                raise
            return Constructed(engine.asked, errors=tuple(_property_errors(error)))
        finally:
            engine.stop()


def refusal(component: str, inputs: Mapping[str, Any]) -> tuple[str, str]:
    """The property error for inputs as on the wire, and its reason, from the provider in this process."""
    values = struct_pb2.Struct()
    values.update(inputs)

    async def construct() -> None:
        _provider().construct("x", f"gpu-ci:index:{component}", await ProviderServicer._construct_inputs(values, {}))

    with pytest.raises(pulumi.InputPropertyError) as caught:
        _loop().run_until_complete(construct())
    return caught.value.property_path, caught.value.reason


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """One loop for all refusals: the end of `asyncio.run` goes through the tasks that every test of the process left."""
    return asyncio.new_event_loop()


@cache
def _provider() -> PackageProvider:
    return PackageProvider()


def _property_errors(error: Any) -> Iterator[tuple[str, str]]:
    (packed,) = [value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"]
    for detail in status_pb2.Status.FromString(packed).details:
        errors = errors_pb2.InputPropertiesError()
        detail.Unpack(errors)
        yield from ((each.property_path, each.reason) for each in errors.errors)


@contextmanager
def started(folder: Path, source: str = "package") -> Iterator[Plugin]:
    """The plugin in `source`, started as the engine does it, in the folder of some other program."""
    log = folder / "stderr"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("w") as stderr:
        process = subprocess.Popen(
            # No address of an engine: the SDK would send it thousands of debug messages.
            [sys.executable, str(ROOT / source), ""],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout is not None
    try:
        port = process.stdout.readline()
        assert port.strip().isdigit(), f"the first line is the port; got {port!r}: {log.read_text()}"
        with grpc.insecure_channel(f"127.0.0.1:{int(port)}") as channel:
            yield Plugin(provider_pb2_grpc.ResourceProviderStub(channel))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
