"""Runs a Pulumi program without engine and cloud, and records the resources that it registers.

The program runs as the CLI runs it (`pulumi.runtime.run_in_stack`), against a resource monitor in this process. The monitor
answers like a preview: the outputs of a resource are its inputs, and its id is unknown, so every value that the cloud decides
stays unknown. All outputs of a remote component are unknown, because its provider creates them.

Everything runs on one thread: a request is answered before the next one is made, so timing does not change the order of a
recording. The program stops now and then until the resources that it has created are registered (`private.Loop`).
Two resources that do not depend on each other may still change places, because the SDK waits for sets, which are ordered by
memory addresses. The SDK keeps its state in context variables, and each recording has its own context.
"""

import asyncio
import contextlib
import contextvars
import inspect
import json
import os
import runpy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from unittest.mock import patch

import pulumi
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime import mocks, settings
from pulumi.runtime.proto import engine_pb2, resource_pb2

from fleet.loading.stackfile import StackConfig
from gpu_ci.offline import private, wire
from gpu_ci.offline.recording import STACK_TYPE, Answer, Cloud, Message, ProgramError, Recording, Resource

Program = Path | str | Callable[[], object]
NOTHING_THERE: Mapping[str, Answer] = {
    "aws:eks/getClusters:getClusters": lambda _: {"names": []},
    "oci:ContainerEngine/getClusters:getClusters": lambda _: {"clusters": []},
    "oci:ContainerEngine/getNodePools:getNodePools": lambda _: {"nodePools": []},
    "pulumi:pulumi:readStackOutputs": lambda _: {"outputs": {}},
}
"""What a cloud without resources answers to what the program asks at its start."""
Remedy = Callable[[Resource], struct_pb2.Struct | None]
"""Returns new inputs for a resource, or None to keep the program's."""


def made_id(token: str, name: str) -> str:
    """The id of a resource in a recorded update: "<name>-id". OCI's is an OCID with this end."""
    kind = f"ocid1.{token.rpartition(':')[2].lower()}.oc1.." if token.startswith("oci:") else ""
    return f"{kind}{name}-id"


def record(
    program: Program, config: StackConfig, *, preview: bool = True, answers: Cloud = None, remedy: Remedy | None = None
) -> Recording:
    """Run the program with one stack's configuration.

    `program`: a callable, or the path of a `__main__.py` or other Python file, which runs in its own folder.
    `preview=False` runs it as an update: ids are those of `made_id`, and outputs that are not inputs are None.
    `answers`: invoke tokens with their answers, beside those of NOTHING_THERE. Every other invoke is an error.
    `remedy` is called for each resource before it is recorded, except for remote components, which their provider registers.
    Raises the program's own exception unchanged. Raises ProgramError for what the engine would refuse (a duplicate URN) and for
    what a recording cannot know (an invoke without an answer, a call of a method, transforms of a resource or an invoke).
    """
    engine = _Engine(config, preview, {**NOTHING_THERE, **(answers or {})}, remedy)
    contextvars.Context().run(_run, program, engine)
    return engine.recording()


def _run(program: Program, engine: "_Engine") -> None:
    config = engine.config
    failures: list[BaseException] = []

    async def body() -> None:
        loop = cast("private.Loop", asyncio.get_running_loop())
        loop.program = asyncio.current_task()
        try:
            if inspect.isawaitable(result := program() if callable(program) else _run_file(Path(program))):
                await result
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            loop.program = None
        # Start the registrations: then the SDK waits for each of them, which is faster than waiting for all outputs.
        await asyncio.sleep(0)

    # The organization is the CLI's value for a backend without organizations.
    of_stack: dict[str, Any] = {"organization": "organization", "project": config.project, "stack": config.stack}
    of_run: dict[str, Any] = {"monitor": engine, "engine": engine, "dry_run": engine.preview, "legacy_apply_enabled": False}
    settings.configure(settings.Settings(**of_stack, **of_run, root_directory=str(config.path.parent)))
    settings.ROOT.set(None)
    settings.SETTINGS.callbacks = cast("Any", engine)
    pulumi.runtime.set_all_config(dict(config.values), sorted(config.secret_keys))
    # The environment variables of an outer Pulumi run are not for this program.
    outer = ("PULUMI_CONFIG", "PULUMI_DISABLE_RESOURCE_REFERENCES")
    own = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
    environment = patch.dict(os.environ, own, clear=True)
    with environment, private.no_stack_traces(), asyncio.Runner(loop_factory=private.Loop) as runner:
        runner.get_loop().set_exception_handler(lambda *_: None)  # what a failure leaves behind is not interesting
        try:
            runner.run(pulumi.runtime.run_in_stack(body))
        except BaseException as error:  # noqa: BLE001 - raised again below, after the loop is closed
            # Ctrl-C cancels the program's task, and then ends the loop with a KeyboardInterrupt.
            first = 0 if isinstance(error, KeyboardInterrupt) else len(failures)
            failures.insert(first, settings.SETTINGS.rpc_manager.unhandled_exception or error)
    private.forget()
    if failures:
        raise _own(failures[0])


def _run_file(path: Path) -> object:
    # The CLI runs the folder, so that it is on sys.path while the program's top level runs.
    with contextlib.chdir(path.parent):
        return runpy.run_path(str((path.parent if path.name == "__main__.py" else path).resolve()), run_name="__main__")


def _own(error: BaseException) -> BaseException:
    """The program's exception without the SDK's wrappers (a ValueError or AssertionError that names the resource)."""
    notes: list[str] = []
    while type(error) in (ValueError, AssertionError) and str(error).startswith("While processing") and error.__context__:
        notes.append(str(error).splitlines()[0])
        # Not the cause: the SDK raises the exception of a registration "from" the same exception.
        error = error.__context__
    for note in notes:
        error.add_note(note)
    if error.__cause__ is error:
        error.__cause__ = error.__context__
    return error


class _Engine(mocks.MockMonitor):
    """The SDK's monitor, engine and callbacks in one. Records requests in wire form and answers them without deserializing."""

    def __init__(self, config: StackConfig, preview: bool, answers: Mapping[str, Answer], remedy: Remedy | None) -> None:
        super().__init__(cast("mocks.Mocks", None))  # the methods below answer every request that the mocks would answer
        self._remedy = remedy
        self.config = config
        self.preview = preview
        self._answers = answers
        self._messages: list[Message] = []
        self._transforms: list[pulumi.ResourceTransform] = []
        self._recorded: dict[str, Resource] = {}
        self._outputs = struct_pb2.Struct()

    def recording(self) -> Recording:
        """The recording of all requests so far."""
        resources, messages = tuple(self._recorded.values()), tuple(self._messages)
        outputs = MappingProxyType(wire.view(wire.raw(self._outputs)))
        return Recording(self.config.project, self.config.stack, self.preview, resources, outputs, messages)

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """The URN as the engine makes it, with the types of all ancestors except the stack."""
        if (qualified := parent.split("::")[2] if parent else "") and qualified != STACK_TYPE:
            type_ = f"{qualified}${type_}"
        return f"urn:pulumi:{self.config.stack}::{self.config.project}::{type_}::{name}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        """Record the resource and answer with its inputs."""
        urn = self.make_urn(request.parent, request.type, request.name)
        for transform in self._transforms:
            _apply(transform, request)
        identity = request.importId or ("" if self.preview or not request.custom else made_id(request.type, request.name))
        opaque = request.remote and self.preview
        response = resource_pb2.RegisterResourceResponse(urn=urn, id=identity, object=None if opaque else request.object)
        resource = self._resource(
            request,
            urn,
            identity,
            request.object if opaque else response.object,  # the response's copy lets go of the request's memory
            custom=request.custom,
            remote=request.remote,
            read=False,
            providers=dict(request.providers),
            # The SDK sends an empty list for a property without dependencies. Such properties are left out.
            property_dependencies={
                name: tuple(sorted(by.urns)) for name, by in sorted(request.propertyDependencies.items()) if by.urns
            },
            ignore_changes=tuple(request.ignoreChanges),
            replace_on_changes=tuple(request.replaceOnChanges),
            replacement_trigger=json_format.MessageToDict(request.replacement_trigger),
            aliases=tuple(alias.SerializeToString() for alias in request.aliases),
            protect=request.protect,
            retain_on_delete=request.retainOnDelete,
            delete_before_replace=request.deleteBeforeReplace if request.deleteBeforeReplaceDefined else None,
        )
        fixed = self._remedy(resource) if self._remedy is not None and not request.remote else None
        if fixed is not None:
            response.object.CopyFrom(fixed)
            resource = replace(resource, wire=response.object)
        self._add(resource)
        return response

    def ReadResource(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        """Record the lookup. Only the properties that the program gave are known."""
        urn = self.make_urn(request.parent, request.type, request.name)
        identity = "" if request.id in wire.SENTINELS else request.id
        response = resource_pb2.ReadResourceResponse(urn=urn, id=identity, properties=request.properties)
        self._add(self._resource(request, urn, identity, response.properties, custom=True, remote=False, read=True))
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        """Keep the stack's outputs."""
        if (resource := self._recorded.get(request.urn)) is not None and resource.type == STACK_TYPE:
            self._outputs.CopyFrom(request.outputs)
        return empty_pb2.Empty()

    def Invoke(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        """Answer from `answers`. Raises ProgramError for any other token."""
        result = struct_pb2.Struct()
        arguments = wire.raw(request.args)
        if request.tok == "pulumi:pulumi:getResource":
            resource = self._recorded[str(arguments["urn"])]
            result.update({"urn": resource.urn, "id": resource.id})
            result.fields["state"].struct_value.CopyFrom(resource.wire)
        elif request.tok in self._answers:
            result.update(self._answers[request.tok](arguments))
        else:
            text = json.dumps(wire.view(arguments), sort_keys=True)
            why = f"invoke {request.tok}: a plan without a cloud cannot call it; called with {text}"
            raise ProgramError(f"{why}; take the value from the stack's settings")
        return resource_pb2.ResourceInvokeResponse(**{"return": result})

    def Call(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        """Refuse the call: a method of a resource runs in its provider."""
        raise ProgramError(f"call {request.tok}: a plan without a cloud cannot call a method; use the resource's outputs")

    def Log(self, request: Any) -> None:  # noqa: N802 - gRPC's name
        """Keep a log message of the program."""
        if request.severity != engine_pb2.DEBUG:
            severity = engine_pb2.LogSeverity.Name(request.severity).lower()
            self._messages.append(Message(severity, request.message, request.urn))

    def register_stack_transform(self, transform: pulumi.ResourceTransform) -> None:
        """Keep a transform of the stack. The SDK's own callbacks would serve it to the engine by gRPC."""
        self._transforms.append(transform)

    def register_resource_hook(self, _hook: object) -> None:
        """Take a hook: the engine alone runs it."""

    def register_transform(self, _transform: object) -> None:
        """Refuse a transform of a resource."""
        raise ProgramError(_NO_TRANSFORMS.format(what="a resource"))

    def register_invoke_transform(self, _transform: object) -> None:
        """Refuse a transform of the stack's invokes."""
        raise ProgramError(_NO_TRANSFORMS.format(what="the stack's invokes"))

    def _resource(self, request: Any, urn: str, identity: str, inputs: struct_pb2.Struct, **fields: Any) -> Resource:
        """The resource of a registration or a lookup; `fields` are those that the two requests do not share."""
        same = {key: getattr(request, key) for key in ("type", "name", "parent", "provider")}
        same["provider_resource"] = self._recorded.get(request.provider.rpartition("::")[0])
        same["dependencies"] = tuple(sorted(request.dependencies))
        same["additional_secret_outputs"] = tuple(request.additionalSecretOutputs)
        return Resource(urn=urn, id=identity, wire=inputs, **same, **fields)

    def _add(self, resource: Resource) -> None:
        if resource.urn in self._recorded:
            why = f"duplicate URN {resource.urn}: a name may be used once for one type and parent; got {resource.name!r} twice"
            raise ProgramError(f"{why}; rename one of the two resources")
        self._recorded[resource.urn] = resource


_NO_TRANSFORMS = "transforms of {what}: a plan does not run them; use pulumi.runtime.register_resource_transform"


def _apply(transform: pulumi.ResourceTransform, request: Any) -> None:
    """Run a transform of the stack on a registration. Raises ProgramError if it does more than set properties to plain values."""
    properties = wire.view(wire.raw(request.object))
    options = pulumi.ResourceOptions()
    result = transform(pulumi.ResourceTransformArgs(request.custom, request.type, request.name, properties, options))
    if result is None:
        return
    own = result.props if isinstance(result, pulumi.ResourceTransformResult) and result.opts is options else None
    if own is None or properties.keys() - own.keys():
        raise ProgramError(f"a transform of {request.type} {request.name!r} may only set properties here; set options directly")
    request.object.update({key: value for key, value in own.items() if value is not properties.get(key)})
