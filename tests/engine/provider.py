"""Simulated resource providers: what the engine talks to instead of a cloud.

A provider serves one package over gRPC on loopback, inside this process: it ends with its context manager, or with the
process. It keeps nothing and validates nothing. Outputs are the inputs plus what a cloud would add and our program
lifts; in a preview exactly these additions are unknown. A run that passes here proves that program, SDK, engine and
policies agree, not that a cloud would.

The engine attaches to it through PULUMI_DEBUG_PROVIDERS="<package>:<port>,…". Facts: pulumi/pulumi 3.260,
pkg/resource/plugin/provider_plugin.go (which calls it makes, what may be unknown or secret in each).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, resource_pb2_grpc

from gpu_ci.offline import wire
from tests.engine import eks_cluster

MESSAGE_LIMIT = [("grpc.max_receive_message_length", 400 << 20), ("grpc.max_send_message_length", 400 << 20)]
"""What engine and SDKs allow for one message."""

_CONFIGURATION: Mapping[str, Any] = {"kubernetes": {"kubeconfig": {"type": "string"}}}
"""Configuration by package. The language host of YAML refuses what the schema does not have."""


@dataclass(frozen=True)
class Asked:
    """One call. `inputs` has the markers of offline.wire: printed, it shows no secret."""

    method: str
    type: str
    urn: str
    preview: bool = False
    inputs: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method}{' (preview)' if self.preview else ''} {self.urn or self.type}"


def _launch_template(identity: str) -> dict[str, Any]:
    return {"name": identity, "latestVersion": 1, "defaultVersion": 1}


def _node_group(identity: str) -> dict[str, Any]:
    return {"nodeGroupName": identity, "resources": [{"autoscalingGroups": [{"name": f"{identity}-asg"}]}]}


def _control_plane(identity: str) -> dict[str, Any]:
    authority = {"data": "c2ltdWxhdGVk"}
    return {"endpoint": f"https://{identity}.simulated.invalid", "certificateAuthority": authority}


_ADDED: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "aws:ec2/launchTemplate:LaunchTemplate": _launch_template,
    "aws:eks/cluster:Cluster": _control_plane,
    "aws:eks/nodeGroup:NodeGroup": _node_group,
    "aws:iam/role:Role": lambda identity: {"name": identity},
}
"""Outputs by type that are not among our inputs: what components/ reads, and what the simulated cluster reads."""


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """The provider of one package. `asked` holds every call in the order of arrival."""

    def __init__(self, package: str) -> None:
        """Raises PackageNotFoundError when the package's SDK is not installed."""
        self.package = package
        self.version = importlib.metadata.version(f"pulumi-{package}")
        self.asked: list[Asked] = []
        self.there: dict[str, struct_pb2.Struct] = {}
        """Inputs of resources that somebody else created, by id."""
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
        return _difference(request)

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The same abilities as in Handshake, as the protocol demands."""
        self.asked.append(Asked("Configure", request.type, request.urn))
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True, acceptResources=True)

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Accepts every input and adds no default."""
        self._note("Check", request, request.news)
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Whether the inputs changed. No change replaces the resource."""
        self._note("Diff", request, request.news)
        return _difference(request)

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        """An id made from the URN, so that it is the same in every run."""
        self._note("Create", request, request.properties, preview=request.preview)
        identity = _identity(request.urn)
        outputs = self._outputs(request, request.properties, identity, known=not request.preview)
        return provider_pb2.CreateResponse(id="" if request.preview else identity, properties=outputs)

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802
        """What is `there` under the id, or else everything as it was left."""
        self._note("Read", request, request.properties)
        if (there := self.there.get(request.id)) is not None:
            outputs = self._outputs(request, there, request.id, known=True)
            return provider_pb2.ReadResponse(id=request.id, properties=outputs, inputs=there)
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
        """What Create gave, with the new inputs."""
        self._note("Update", request, request.news, preview=request.preview)
        return provider_pb2.UpdateResponse(properties=self._outputs(request, request.news, request.id, known=True))

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Deletes nothing, because the provider keeps no resources."""
        self._note("Delete", request, request.properties)
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802
        """No call runs long enough to be cancelled."""
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Fails, because our program reads nothing from a cloud: the offline plan proves that."""
        self.asked.append(Asked("Invoke", request.tok, ""))
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"function {request.tok}: not simulated; take the value from the settings")

    def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The one remote component that we use, with its children."""
        self.asked.append(Asked("Construct", request.type, "", request.dryRun, wire.view(wire.raw(request.inputs))))
        if request.type != eks_cluster.TYPE:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"component {request.type}: not simulated; add it to {__name__}")
        with grpc.insecure_channel(request.monitorEndpoint, options=MESSAGE_LIMIT) as channel:
            return eks_cluster.construct(request, resource_pb2_grpc.ResourceMonitorStub(channel))

    def _note(self, method: str, request: Any, properties: struct_pb2.Struct, *, preview: bool = False) -> None:
        kind = request.type or request.urn.split("::")[2].rpartition("$")[2]
        self.asked.append(Asked(method, kind, request.urn, preview, wire.view(wire.raw(properties))))

    def _outputs(self, request: Any, inputs: struct_pb2.Struct, identity: str, *, known: bool) -> struct_pb2.Struct:
        kind = request.type or request.urn.split("::")[2].rpartition("$")[2]
        added: dict[str, Any] = {"arn": f"arn:aws:simulated:::{identity}"} if self.package == "aws" else {}
        added |= _ADDED.get(kind, lambda _: {})(identity)
        outputs = struct_pb2.Struct()
        outputs.update({key: value if known else rpc.UNKNOWN for key, value in added.items()})
        for key in inputs.fields:  # a value that was given wins
            outputs.fields[key].CopyFrom(inputs.fields[key])
        return outputs


def _identity(urn: str) -> str:
    return f"{urn.rpartition('::')[2]}-{hashlib.sha256(urn.encode()).hexdigest()[:7]}"


def _difference(request: Any) -> Any:
    same = wire.raw(request.old_inputs) == wire.raw(request.news)
    return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE if same else provider_pb2.DiffResponse.DIFF_SOME)


@contextmanager
def providers(packages: Iterable[str]) -> Iterator[dict[str, Provider]]:
    """One running provider for each package, by package."""
    with ExitStack() as running:
        yield {package: running.enter_context(Provider(package)) for package in packages}


def attach(serving: Mapping[str, Provider]) -> str:
    """The value of PULUMI_DEBUG_PROVIDERS with which the engine takes these providers."""
    return ",".join(f"{package}:{provider.port}" for package, provider in serving.items())
