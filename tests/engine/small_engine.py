"""The engine's part that a program talks to, small enough to read: it makes the simulated providers' calls in order.

It replaces the Pulumi CLI where there is none, to prove that our program runs to its end on the simulated providers, in preview
and in an update. It has no state, no diff and no policies; those belong to the tests of the real engine.
Facts: pulumi/pulumi 3.260, pkg/resource/deploy (source_eval.go, providers/registry.go).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any, Self

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import (
    callback_pb2,
    callback_pb2_grpc,
    engine_pb2_grpc,
    provider_pb2,
    provider_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
)

from fleet.loading.stackfile import StackConfig
from gpu_ci.offline import wire
from gpu_ci.offline.recording import STACK_TYPE
from tests import warm
from tests.engine.provider import MESSAGE_LIMIT, Provider

_FEATURES = frozenset({"secrets", "resourceReferences", "aliasSpecs", "deletedWith", "transforms", "resourceHooks"})
_PROVIDER = "pulumi:providers:"

# What the CLI's language host does, reduced to what the SDK needs.
_RUNNER = """
import asyncio, gc, json, os, runpy, signal, sys
signal.alarm(100)
gc.disable()
import pulumi
given = json.loads(sys.argv[1])
import components.build, components.config, components.eks.stack
for settings in given["settings"]:
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            os._exit(1)
        continue
    pulumi.runtime.set_all_config(given["config"], given["secretKeys"])
    pulumi.runtime.configure(pulumi.runtime.Settings(**settings))
    asyncio.new_event_loop().run_until_complete(
        pulumi.runtime.run_in_stack(lambda: runpy.run_path(given["program"], run_name="__main__"))
    )
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(0)  # the end of an interpreter that has the SDKs takes a second
os._exit(0)
"""


class SmallEngine(resource_pb2_grpc.ResourceMonitorServicer):
    """Registers one program's resources with simulated providers. `resources` is in the form of a state file's."""

    def __init__(self, config: StackConfig, providers: Mapping[str, Provider], *, preview: bool) -> None:
        self._config = config
        self._providers = providers
        self._preview = preview
        self._configured: set[str] = set()
        self._channels: dict[str, grpc.Channel] = {}
        self._transforms: list[Any] = []
        self._lock = threading.Lock()
        self.resources: dict[str, dict[str, Any]] = {}
        self.outputs: dict[str, object] = {}
        self.log = _Log()
        self._server = grpc.server(futures.ThreadPoolExecutor(64), options=MESSAGE_LIMIT)
        resource_pb2_grpc.add_ResourceMonitorServicer_to_server(self, self._server)
        engine_pb2_grpc.add_EngineServicer_to_server(self.log, self._server)
        self._address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait()
        for channel in self._channels.values():
            channel.close()

    def settings(self, folder: Path) -> dict[str, Any]:
        """What the SDK needs to know of this engine."""
        return {
            "project": self._config.project,
            "stack": self._config.stack,
            "organization": "organization",
            "monitor": self._address,
            "engine": self._address,
            "dry_run": self._preview,
            "parallel": 16,
            "root_directory": str(folder),
        }

    def SupportsFeature(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name, as below
        """Says yes to what this engine honours."""
        return resource_pb2.SupportsFeatureResponse(hasSupport=request.id in _FEATURES)

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The stack's transforms, then Check and Create of the package's provider; Construct for a remote component."""
        for callback in self._transforms:
            self._transform(callback, request)
        if request.remote:
            return self._construct(request)
        urn = self._urn(request)
        response = resource_pb2.RegisterResourceResponse(urn=urn)
        if request.type.startswith(_PROVIDER):
            self._configure(urn, request)
            response.id = rpc.UNKNOWN if self._preview else f"{request.name}-id"
            response.object.CopyFrom(request.object)
        elif request.custom:
            self._create(urn, request, response)
        with self._lock:
            if urn in self.resources:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, f"duplicate URN {urn}")
            self.resources[urn] = _state(urn, request, response)
        return response

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Asks the package's provider. The stack has no outputs yet, which the engine itself would say."""
        if request.tok == "pulumi:pulumi:readStackOutputs":
            empty: dict[str, Any] = {"return": {"outputs": {}}}
            return resource_pb2.ResourceInvokeResponse(**empty)
        stub = self._stub(request.tok.partition(":")[0])
        answer = stub.Invoke(provider_pb2.InvokeRequest(tok=request.tok, args=request.args))
        return resource_pb2.ResourceInvokeResponse(**{"return": getattr(answer, "return")})

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Keeps the stack's outputs."""
        if request.urn.split("::")[2] == STACK_TYPE:
            self.outputs = wire.view(wire.raw(request.outputs))
        return empty_pb2.Empty()

    def RegisterStackTransform(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Keeps the callback."""
        self._transforms.append(request)
        return empty_pb2.Empty()

    def RegisterResourceHook(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Runs no hook, because nothing is deleted here."""
        return empty_pb2.Empty()

    def RegisterPackage(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Every package is known by its name."""
        return resource_pb2.RegisterPackageResponse(ref=request.name)

    def SignalAndWaitForShutdown(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Returns at once."""
        return empty_pb2.Empty()

    def _transform(self, callback: Any, request: Any) -> None:
        asked = resource_pb2.TransformRequest(
            type=request.type, name=request.name, custom=request.custom, parent=request.parent, properties=request.object
        )
        answer = callback_pb2_grpc.CallbacksStub(self._channel(callback.target)).Invoke(
            callback_pb2.CallbackInvokeRequest(token=callback.token, request=asked.SerializeToString())
        )
        request.object.CopyFrom(resource_pb2.TransformResponse.FromString(answer.response).properties)

    def _urn(self, request: Any) -> str:
        kind = request.type
        ancestors = request.parent.split("::")[2] if request.parent else STACK_TYPE
        if ancestors != STACK_TYPE:
            kind = f"{ancestors}${kind}"
        return f"urn:pulumi:{self._config.stack}::{self._config.project}::{kind}::{request.name}"

    def _stub(self, package: str) -> Any:
        return provider_pb2_grpc.ResourceProviderStub(self._channel(f"127.0.0.1:{self._providers[package].port}"))

    def _channel(self, address: str) -> grpc.Channel:
        with self._lock:
            if address not in self._channels:
                self._channels[address] = grpc.insecure_channel(address, options=MESSAGE_LIMIT)
            return self._channels[address]

    def _configure(self, urn: str, request: Any) -> None:
        stub = self._stub(request.type.removeprefix(_PROVIDER))
        stub.CheckConfig(provider_pb2.CheckRequest(urn=urn, name=request.name, type=request.type, news=request.object))
        # With an unknown in its configuration a provider is left alone.
        if not _has_unknown(request.object):
            self._configured.add(urn)
            stub.Configure(provider_pb2.ConfigureRequest(urn=urn, type=request.type, args=request.object))

    def _create(self, urn: str, request: Any, response: Any) -> None:
        if request.provider.rpartition("::")[0] not in self._configured:
            response.id = rpc.UNKNOWN
            return
        stub = self._stub(request.type.partition(":")[0])
        named = {"urn": urn, "name": request.name, "type": request.type}
        checked = stub.Check(provider_pb2.CheckRequest(news=request.object, **named))
        made = stub.Create(provider_pb2.CreateRequest(properties=checked.inputs, preview=self._preview, **named))
        response.id = made.id or rpc.UNKNOWN
        for key, value in made.properties.fields.items():
            if request.supportsPartialValues or not _has_unknown(value):
                response.object.fields[key].CopyFrom(value)

    def _construct(self, request: Any) -> Any:
        made = self._stub(request.type.partition(":")[0]).Construct(
            provider_pb2.ConstructRequest(
                type=request.type,
                name=request.name,
                parent=request.parent,
                inputs=request.object,
                providers=request.providers,
                dependencies=request.dependencies,
                dryRun=self._preview,
                monitorEndpoint=self._address,
            )
        )
        sources = {
            key: resource_pb2.RegisterResourceResponse.PropertyDependencies(urns=value.urns)
            for key, value in made.stateDependencies.items()
        }
        return resource_pb2.RegisterResourceResponse(urn=made.urn, object=made.state, propertyDependencies=sources)


def run(engines: Sequence[SmallEngine], folder: Path, secrets: Mapping[str, str]) -> tuple[int, str, str]:
    """Runs the program of `folder` for each engine in a fork of one process. Gives its status, stdout and stderr.

    `secrets` are the clear texts of secret keys.
    """
    config = engines[0]._config
    settings = {
        "program": str(folder),
        "settings": [engine.settings(folder) for engine in engines],
        "config": {**config.values, **secrets},
        "secretKeys": sorted({*config.secret_keys, *secrets}),
    }
    return warm.run(_RUNNER, json.dumps(settings), folder=folder, path=folder)


class _Log(engine_pb2_grpc.EngineServicer):
    """Keeps what the program logs."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.lines.append(request.message)
        return empty_pb2.Empty()


def _has_unknown(value: Any) -> bool:
    return rpc.UNKNOWN.encode() in value.SerializeToString()


def _state(urn: str, request: Any, response: Any) -> dict[str, Any]:
    inputs = struct_pb2.Struct()
    inputs.CopyFrom(request.object)
    return {
        "urn": urn,
        "type": request.type,
        "custom": request.custom,
        "parent": request.parent,
        "dependencies": list(request.dependencies),
        "provider": request.provider,
        "inputs": wire.view(wire.raw(inputs)),
        "outputs": wire.view(wire.raw(response.object)),
    }
