"""Simulated resource providers: what the engine talks to instead of a cloud.

A provider serves one package over gRPC on loopback, inside this process: it ends with its context manager, or with the
process. What it creates is live in a Cloud (`live.py`), with the faults that a test sets. Outputs are the inputs plus what a
cloud would add and our program lifts (`kinds.py`); in the preview of a creation exactly these additions are unknown. Diff
distinguishes replacements from updates by facts of the real providers (`replacing.py`). Names that are taken are refused, and
what EKS refuses of sizes, subnets and protected clusters (`refusals.py`); nothing else is validated. A run that passes here
proves that program, SDK, engine and policies agree, and what is left after faults, not that a cloud would accept the inputs.

The engine attaches to it through PULUMI_DEBUG_PROVIDERS="<package>:<port>,…". Facts: pulumi/pulumi 3.260,
pkg/resource/plugin/provider_plugin.go (which calls it makes, what may be unknown or secret in each).
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, resource_pb2_grpc, status_pb2

from gpu_ci.offline import wire
from tests.engine import eks_cluster, kinds, reads, refusals, replacing
from tests.engine.live import Asked, Cloud, Fault, Live, RefusedError

MESSAGE_LIMIT = [("grpc.max_receive_message_length", 400 << 20), ("grpc.max_send_message_length", 400 << 20)]
"""What engine and SDKs allow for one message."""

_SCOPES = ("clusterIdentifier", "region", "context")
"""What in a provider's configuration names the place of its resources."""
_CONFIGURATION: Mapping[str, Any] = {"kubernetes": {"kubeconfig": {"type": "string"}}}
"""Configuration by package. The language host of YAML refuses what the schema does not have."""


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """The provider of one package. `asked` holds every call in the order of arrival."""

    def __init__(self, package: str, cloud: Cloud | None = None) -> None:
        """`cloud` is shared with other providers. Raises PackageNotFoundError when the package's SDK is not installed."""
        self.package = package
        self.cloud = cloud or Cloud()
        self.version = importlib.metadata.version(f"pulumi-{package}")
        self.asked: list[Asked] = []
        self._scopes: dict[str, str] = {}
        """The region or cluster by the connection of the engine: it makes one for each provider of the program."""
        self._tags: dict[str, dict[str, str]] = {}
        """The default tags of AWS' provider by the same connection."""
        self._server = grpc.server(futures.ThreadPoolExecutor(16), options=MESSAGE_LIMIT)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(self, self._server)
        self.port: int = self._server.add_insecure_port("127.0.0.1:0")

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait()

    def checked(self, *, preview: bool) -> dict[str, Mapping[str, object]]:
        """URN to the inputs that were checked before each resource's creation, in previews or in updates."""
        last: dict[str, Mapping[str, object]] = {}
        found: dict[str, Mapping[str, object]] = {}
        for call in tuple(self.asked):
            if call.method == "Check":
                last[call.urn] = call.inputs
            elif call.method == "Create" and call.preview is preview:
                found[call.urn] = last.get(call.urn, {})
        return found

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name, as below
        """Output values are declined: unknown and secret values then arrive in one form everywhere."""
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True, accept_resources=True)

    def Attach(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The engine's address is not used: what a provider would log there is in `asked`."""
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The version of the installed SDK, for the engine warns of an older one."""
        return plugin_pb2.PluginInfo(version=self.version)

    def GetSchema(self, request: Any, context: Any) -> Any:  # noqa: N802
        """A schema with nothing but the provider's configuration."""
        schema = {
            "name": self.package,
            "version": self.version,
            "provider": {"inputProperties": _CONFIGURATION.get(self.package, {})},
        }
        return provider_pb2.GetSchemaResponse(schema=json.dumps(schema))

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Accepts every configuration."""
        self._note("CheckConfig", request, request.news)
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        """As Diff."""
        return self._difference(request, f"pulumi:providers:{self.package}")

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The same abilities as in Handshake, as the protocol demands."""
        self.asked.append(Asked("Configure", request.type, request.urn))
        args = wire.raw(request.args)
        self._scopes[context.peer()] = scope(args)
        tags: Any = args.get("defaultTags") or {}
        self._tags[context.peer()] = (json.loads(tags) if isinstance(tags, str) else tags).get("tags", {})
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True, acceptResources=True)

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Accepts every input and adds no default, but for a name if the cloud has `names_on_check`."""
        self._note("Check", request, request.news)
        news = self.cloud.named(_kind(request), request.urn, wire.raw(request.olds), wire.raw(request.news))
        return provider_pb2.CheckResponse(inputs=_struct(news))

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Which inputs changed, and which of them replace the resource."""
        self._note("Diff", request, request.news)
        return self._difference(request, _kind(request))

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        """An id made from the URN and the number of its creations, so that it is the same in every run."""
        fault = self._begin("Create", request, request.properties, context)
        kind, inputs = _kind(request), wire.raw(request.properties)
        if request.preview:
            added = dict.fromkeys(kinds.added(kind, "", inputs), rpc.UNKNOWN) | kinds.unknown(kind, inputs)
            return provider_pb2.CreateResponse(properties=_struct({**added, **inputs}))
        with _refusing(context):
            made = self.cloud.create(kind, request.urn, inputs, self._scope(context))
        if tags := self._tags.get(context.peer()):
            made.outputs["tagsAll"] = {**tags, **made.tags}
        _end(fault, made, context)
        return provider_pb2.CreateResponse(id=made.id, properties=_struct(made.outputs))

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802
        """What is live under the id; nothing if it is gone."""
        self._begin("Read", request, request.properties, context)
        live = self.cloud.find(_kind(request), request.id, self._scope(context))
        if live is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(id=live.id, properties=_struct(live.outputs), inputs=_struct(live.inputs))

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
        """What Create gave, with the new inputs."""
        fault = self._begin("Update", request, request.news, context)
        kind, inputs = _kind(request), wire.raw(request.news)
        if request.preview:
            olds = wire.raw(request.olds), wire.raw(request.old_inputs)
            return provider_pb2.UpdateResponse(properties=_struct(kinds.updated(kind, *olds, inputs, known=False)))
        live = self.cloud.find(kind, request.id, self._scope(context))
        with _refusing(context):
            if live is None:
                raise RefusedError(f"{kind} {request.id} not found")
            self.cloud.update(live, kinds.sent(kind, wire.raw(request.old_inputs), inputs, live.inputs))
            _end(fault, live, context)
        return provider_pb2.UpdateResponse(properties=_struct(live.outputs))

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Deletes what is live under the id. What is gone already is not an error."""
        fault = self._begin("Delete", request, request.properties, context)
        if live := self.cloud.find(_kind(request), request.id, self._scope(context)):
            if refused := refusals.protection(live.type, live.inputs):
                context.abort(grpc.StatusCode.UNKNOWN, refused)
            self.cloud.remove(live)
            _end(fault, live, context)
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802
        """No call runs long enough to be cancelled."""
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        """What is live, for the functions of `reads.py`. Fails for any other, because our program reads nothing else."""
        self.asked.append(Asked("Invoke", request.tok, "", request.preview))
        if request.tok not in reads.ANSWERS:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"function {request.tok}: not simulated; use a setting")
        with _refusing(context):
            answer = reads.ANSWERS[request.tok](self.cloud, self._scope(context), wire.raw(request.args))
        return provider_pb2.InvokeResponse(**{"return": _struct(answer)})

    def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The one remote component that we use, with its children."""
        self.asked.append(Asked("Construct", request.type, "", request.dryRun, wire.view(wire.raw(request.inputs))))
        if request.type != eks_cluster.TYPE:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"component {request.type}: not simulated; add it to {__name__}")
        with grpc.insecure_channel(request.monitorEndpoint, options=MESSAGE_LIMIT) as channel:
            return eks_cluster.construct(request, resource_pb2_grpc.ResourceMonitorStub(channel), self.cloud.kubeconfig)

    def _note(self, method: str, request: Any, properties: struct_pb2.Struct) -> Asked:
        preview = getattr(request, "preview", False)
        self.asked.append(Asked(method, _kind(request), request.urn, preview, wire.view(wire.raw(properties))))
        return self.asked[-1]

    def _begin(self, method: str, request: Any, properties: struct_pb2.Struct, context: Any) -> Fault | None:
        """Notes a call. Ends it with the error of a fault that refuses it; any other fault is returned."""
        fault = self.cloud.harm(self._note(method, request, properties))
        if fault is None or fault.harm != "refused":
            return fault
        fault.reached.set()
        context.abort(grpc.StatusCode.UNKNOWN, fault.error)
        raise AssertionError("abort raises")

    def _scope(self, context: Any) -> str:
        return self._scopes.get(context.peer(), "")

    def _difference(self, request: Any, kind: str) -> Any:
        return replacing.difference(kind, wire.raw(request.old_inputs), wire.raw(request.news))


def scope(configuration: Mapping[str, Any]) -> str:
    """The region or cluster of a provider with this configuration."""
    return str(next((configuration[key] for key in _SCOPES if configuration.get(key)), ""))


def _kind(request: Any) -> str:
    return str(request.type or request.urn.split("::")[2].rpartition("$")[2])


def _struct(raw: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(raw)
    return struct


@contextmanager
def _refusing(context: Any) -> Iterator[None]:
    """Answers what the cloud refuses with an error of gRPC."""
    try:
        yield
    except RefusedError as refused:
        context.abort(grpc.StatusCode.UNKNOWN, str(refused))


def _end(fault: Fault | None, live: Live, context: Any) -> None:
    """What a fault does to a call after the cloud did what was asked."""
    if fault is None:
        return
    fault.reached.set()
    while fault.harm == "held" and not fault.release.wait(0.05) and context.is_active():
        pass
    if fault.harm == "half":
        properties = _struct(live.outputs)
        failed = provider_pb2.ErrorResourceInitFailed(
            id=live.id, properties=properties, inputs=_struct(live.inputs), reasons=[fault.error]
        )
        status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=fault.error)
        status.details.add().Pack(failed)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, fault.error)


@contextmanager
def providers(packages: Iterable[str], cloud: Cloud | None = None) -> Iterator[dict[str, Provider]]:
    """One running provider for each package, by package. All share one cloud."""
    shared = cloud or Cloud()
    with ExitStack() as running:
        yield {package: running.enter_context(Provider(package, shared)) for package in packages}


def attach(serving: Mapping[str, Provider]) -> str:
    """The value of PULUMI_DEBUG_PROVIDERS with which the engine takes these providers."""
    return ",".join(f"{package}:{provider.port}" for package, provider in serving.items())
