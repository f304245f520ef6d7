"""Two ways to judge a resource: in process, and by the real pack over gRPC."""

from __future__ import annotations

import copy
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from policies.rules import AnyRule, Rule, StackRule, record
from policies.rules.read import UndeterminableError
from policies.rules.record import SECRET, SIGNATURE, Options, Provider, Resource, Unknown, UnknownError, plain, wired
from policies.rules.rule import Args, Outcome
from tests.day import AS_OF

POLICIES = Path(__file__).resolve().parents[2] / "policies"
UNKNOWN = record.UNKNOWN
NAME = "fixture"
REMOVE = object()

Step = str | int


def secret(value: Any) -> dict[str, Any]:
    """A secret as the engine sends it."""
    return {SIGNATURE: SECRET, "value": value}


def veiled(props: Mapping[str, Any]) -> dict[str, Any]:
    """The properties, in which each value is a secret and has only secrets in it."""
    return {key: _hidden(value) for key, value in props.items()}


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return secret(veiled(value))
    return secret([_hidden(part) for part in value] if isinstance(value, list | tuple) else value)


def changed(props: Any, *path_and_value: Any) -> Any:
    """A copy with the value at a path replaced, added or removed (REMOVE). The rest is shared with the original."""
    *path, last, value = path_and_value
    found = copied = copy.copy(props)
    for step in path:
        found[step] = copy.copy(found[step])
        found = found[step]
    if value is REMOVE:
        del found[last]
    elif isinstance(found, list) and last == len(found):
        found.append(value)
    else:
        found[last] = value
    return copied


def paths(props: Any, prefix: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Every path below the top, inner ones first."""
    steps: Any = enumerate(props) if isinstance(props, list) else props.items() if isinstance(props, dict) else ()
    for step, value in steps:
        yield (*prefix, step)
        yield from paths(value, (*prefix, step))


def at(props: Any, path: tuple[Step, ...]) -> Any:
    """The value at a path."""
    for step in path:
        props = props[step]
    return props


def wire(value: Mapping[str, Any]) -> dict[str, Any]:
    """A value as it is after the trip through protobuf, without the trip: numbers are floats, and keys are not in our order."""
    return {key: _wired(value[key]) for key in sorted(value, key=_reversed)}


def _reversed(key: str) -> str:
    return key[::-1]


def _wired(value: Any) -> Any:
    if isinstance(value, dict):
        return wire(value)
    if isinstance(value, list | tuple):
        return [_wired(each) for each in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if value is None or isinstance(value, str | bool):
        return value
    raise TypeError(f"protobuf has no {type(value).__name__}")


def by_protobuf(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same by protobuf itself, which takes ten times as long."""
    struct = struct_pb2.Struct()
    json_format.ParseDict(dict(value), struct)
    result: dict[str, Any] = json_format.MessageToDict(struct)
    return result


@dataclass(frozen=True)
class Verdict:
    """What a rule said: its messages, the path of the unknown that stopped it ("" for none), what an exception hides.

    `changes` are the settings that `Rule` and `StackRule` added to these messages, "" where the message itself has a place.
    `urns` are those that a stack rule gave with its messages, "" for none. `undeterminable` is why no value shows it.
    """

    messages: tuple[str, ...] = ()
    unknown: str = ""
    excepted: str = ""
    urns: tuple[str, ...] = ()
    undeterminable: str = ""
    changes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def whole(self) -> tuple[str, ...]:
        """The messages as they are reported."""
        return tuple(f"{words}. Change {key}" if key else words for words, key in zip(self.messages, self.changes, strict=True))


_ADDED = re.compile(r"\. Change (Pulumi\.staging\.yaml: gpu-ci:\S+)$")


def said(*messages: str, unknown: str = "") -> Verdict:
    """The verdict with these messages."""
    return Verdict(messages, unknown)


CLEAN = Verdict()


def judge(
    rule: Rule,
    token: str,
    props: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    unknown: tuple[Step, ...] = (),
    *,
    parent: str = "",
    protect: bool = False,
    provider: Mapping[str, Any] | None = None,
    as_of: date = AS_OF,
) -> Verdict:
    """The rule's verdict; `unknown` is a path that preview cannot know.

    `parent` is the type of the parent, `provider` the properties of the resource's provider.
    """
    if unknown:
        props = changed(props, *unknown, UNKNOWN)
    return subject(rule, token, props, config, parent=parent, protect=protect, provider=provider).verdict(as_of)


def judge_read(rule: Rule, token: str, seen: Any, config: Mapping[str, Any] | None = None) -> Verdict:
    """The rule's verdict on properties of `as_read`: several rules can share them."""
    return Subject(rule, [_arguments(rule, token, seen, config, "", False, None)]).verdict()


def subject(
    rule: Rule,
    token: str,
    props: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    *,
    parent: str = "",
    protect: bool = False,
    provider: Mapping[str, Any] | None = None,
) -> Subject:
    """A rule and the resource that it judges, as `judge` takes them."""
    return Subject(rule, [_arguments(rule, token, as_read(props), config, parent, protect, provider)])


@dataclass(frozen=True, eq=False)
class Subject:
    """A rule and what it judges: one resource with the config, or the resources of a stack."""

    rule: AnyRule
    resources: list[Any]
    config: Mapping[str, Any] = field(default_factory=dict)

    def verdict(self, as_of: date = AS_OF) -> Verdict:
        """What the rule says of them as they are."""
        if isinstance(self.rule, Rule):
            return _verdict(self.rule.judge(self.resources[0], as_of))
        outcome = self.rule.judge(self.resources, self.config, as_of)
        return _verdict(outcome, tuple(of or "" for _, of in outcome.violations))

    def altered(self, *changes: tuple[int, tuple[Step, ...], Any]) -> Verdict:
        """What the rule says with other values: each with the number of its resource and its path, and as a check reads it."""
        before = [resource.props for resource in self.resources]
        try:
            for number, path, value in changes:
                resource = self.resources[number]
                resource.props = changed(resource.props, *path, value) if path else value
            return self.verdict()
        finally:
            for resource, props in zip(self.resources, before, strict=True):
                resource.props = props


def _verdict(outcome: Outcome, urns: tuple[str, ...] = ()) -> Verdict:
    """The verdict with messages as the check wrote them, and the setting that was added to each."""
    unknown = outcome.unknown
    place = reason = ""
    if isinstance(unknown, UndeterminableError):
        reason = unknown.message
    elif unknown is not None:
        place = unknown.place.removeprefix(".")
    parts = [_ADDED.split(message) for message, _ in outcome.violations]
    messages, changes = tuple(words for words, *_ in parts), tuple(added[0] if added else "" for _, *added in parts)
    return Verdict(messages, place, outcome.excepted, urns, reason, changes)


def remedied(
    rule: Rule,
    token: str,
    props: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    *,
    provider: Mapping[str, Any] | None = None,
    as_of: date = AS_OF,
) -> dict[str, Any] | None:
    """The properties that the engine gets from the rule's remedy; None if it changes nothing."""
    marked = plain(wire(props), secrets=True)
    after = rule.remedied(_arguments(rule, token, marked, config, "", False, provider), as_of)
    return None if not after else json.loads(json.dumps(wired(after)))


def judge_stack(
    rule: StackRule, members: Iterable[Any], config: Mapping[str, Any] | None = None, *, as_of: date = AS_OF
) -> Verdict:
    """The verdict on a stack of members (`suite.Member`)."""
    return stack_subject(rule, members, config).verdict(as_of)


def stack_subject(rule: StackRule, members: Iterable[Any], config: Mapping[str, Any] | None = None) -> Subject:
    """A rule and a stack of members, in their order."""
    placed = list(members)
    resources = {
        member.name: Resource(
            member.token,
            member.seen,
            urn(member.token, member.name),
            member.name,
            Options(member.protect),
            _provider(member.seen_provider),
        )
        for member in placed
    }
    for member in placed:
        resource = resources[member.name]
        resource.parent = resources.get(member.parent)
        resource.dependencies = [resources[name] for name in member.depends_on]
        resource.property_dependencies = {
            field: [resources[name] for name in names] for field, names in member.property_depends.items()
        }
    return Subject(rule, list(resources.values()), _config(rule, config))


def judge_alone(
    rule: StackRule,
    token: str,
    props: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    unknown: tuple[Step, ...] = (),
    *,
    ignored: tuple[str, ...] = (),
) -> Verdict:
    """The verdict of a stack rule on a stack of one resource. `ignored` are the paths of its `ignoreChanges`."""
    if unknown:
        props = changed(props, *unknown, UNKNOWN)
    only = Resource(token, as_read(props), urn(token), NAME, Options(False, ignored))
    return replace(Subject(rule, [only], _config(rule, config)).verdict(), urns=())


def as_read(props: Mapping[str, Any]) -> Any:
    """Properties as a check reads them."""
    return plain(wire(props))


def _arguments(
    rule: Rule,
    token: str,
    props: Any,
    config: Mapping[str, Any] | None,
    parent: str,
    protect: bool,
    provider: Mapping[str, Any] | None,
) -> Args:
    name = urn(f"{parent}${token}" if parent else token)
    made_by = None if provider is None else as_read(provider)
    return Args(token, props, name, NAME, Options(protect), _provider(made_by), config=_config(rule, config))


def _provider(props: Any) -> Provider:
    return Provider() if props is None else Provider(props, urn("pulumi:providers:aws", "cloud"), "cloud")


def _config(rule: AnyRule, config: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**_defaults(rule), **wire(config or {})}


@cache
def _defaults(rule: AnyRule) -> dict[str, Any]:
    return wire({name: schema["default"] for name, schema in rule.schemas.items()})


def spelled(path: Iterable[Step]) -> str:
    """A path as a message about an unknown value spells it."""
    return UnknownError(Unknown(tuple(path))).place.removeprefix(".")


def config_of(policy: str, name: str) -> str:
    """How messages name a property of a policy's config."""
    return f"policies/stacks.toml: staging.{policy}.{name}"


def urn(token: str, name: str = NAME) -> str:
    """The URN of the resource under test."""
    return f"urn:pulumi:staging::gpu-ci::{token}::{name}"


# -- the pack as a process ---------------------------------------------------------------------------------------------

_START_S = 30
_CALL_S = 10
_MESSAGES = [("grpc.max_receive_message_length", 400 * 1024 * 1024), ("grpc.max_send_message_length", 400 * 1024 * 1024)]


@dataclass(frozen=True, order=True)
class Diagnostic:
    """One diagnostic of the pack, without the fields that are the same in all."""

    policy: str
    message: str
    level: str
    severity: str
    urn: str = field(default="", compare=False)


@dataclass
class Pack:
    """A running pack."""

    process: subprocess.Popen[bytes]
    stub: Any
    first_line: str
    configured: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def info(self) -> Any:
        """The pack's AnalyzerInfo."""
        return self.stub.GetAnalyzerInfo(empty_pb2.Empty(), timeout=_CALL_S)

    @cached_property
    def _listed(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Level and config of each policy as the pack lists them."""
        listed = {}
        for policy in self.info().policies:
            schema = json_format.MessageToDict(policy.configSchema.properties)
            level = analyzer_pb2.EnforcementLevel.Name(policy.enforcementLevel).lower()
            listed[policy.name] = level, {name: entry["default"] for name, entry in schema.items()}
        return listed

    def configure(self, stack_file: Mapping[str, Any]) -> None:
        """Reconciles as the CLI does (schema defaults, the policy's level, the file's "all", the file's entry) and sends it."""
        request = analyzer_pb2.ConfigureAnalyzerRequest()
        for policy, (strictest, defaults) in self._listed.items():
            level, config = strictest, dict(defaults)
            for key in ("all", policy):
                entry = stack_file.get(key, {})
                entry = {"enforcementLevel": entry} if isinstance(entry, str) else entry
                level = entry.get("enforcementLevel", level)
                if key == policy:
                    config |= {name: value for name, value in entry.items() if name != "enforcementLevel"}
            self.configured[policy] = (level, config)
            sent = request.policyConfig[policy]
            sent.enforcementLevel = analyzer_pb2.EnforcementLevel.Value(level.upper())
            json_format.ParseDict(config, sent.properties)
        self.stub.Configure(request, timeout=_CALL_S)

    def analyze(self, token: str, props: Mapping[str, Any]) -> list[Diagnostic]:
        """The pack's diagnostics for one resource, in its order."""
        request = analyzer_pb2.AnalyzeRequest(type=token, name=NAME, urn=urn(token))
        json_format.ParseDict(dict(props), request.properties)
        return _diagnostics(self.stub.Analyze(request, timeout=_CALL_S))

    def analyze_stack(self, members: Iterable[Any]) -> list[Diagnostic]:
        """The pack's diagnostics for a stack of members (`suite.Member`)."""
        request = analyzer_pb2.AnalyzeStackRequest()
        placed = list(members)
        urns = {each.name: urn(each.token, each.name) for each in placed}
        for each in placed:
            sent = request.resources.add(type=each.token, name=each.name, urn=urns[each.name], parent=urns.get(each.parent, ""))
            json_format.ParseDict(wire(each.props), sent.properties)
            sent.options.protect = each.protect
            sent.dependencies.extend(urns[name] for name in each.depends_on)
            for field_name, names in each.property_depends.items():
                sent.propertyDependencies[field_name].urns.extend(urns[name] for name in names)
            if each.provider is not None:
                sent.provider.type, sent.provider.name = "pulumi:providers:aws", "cloud"
                json_format.ParseDict(wire(each.provider), sent.provider.properties)
        return _diagnostics(self.stub.AnalyzeStack(request, timeout=_CALL_S))


def _diagnostics(answer: Any) -> list[Diagnostic]:
    return [
        Diagnostic(
            each.policyName,
            each.message,
            analyzer_pb2.EnforcementLevel.Name(each.enforcementLevel).lower(),
            analyzer_pb2.PolicySeverity.Name(each.severity).removeprefix("POLICY_SEVERITY_").lower(),
            each.urn,
        )
        for each in answer.diagnostics
    ]


@contextmanager
def started(directory: Path, log: Path, dry_run: bool = True) -> Iterator[Pack]:
    """The pack in `directory`, started as the Python language host starts it; stderr goes to `log`."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "PYTHON"))},
        "PULUMI_ORGANIZATION": "organization",
        "PULUMI_PROJECT": "gpu-ci",
        "PULUMI_STACK": "staging",
        "PULUMI_DRY_RUN": json.dumps(dry_run),
        "PULUMI_CONFIG": "{}",
        "GPU_CI_AS_OF": AS_OF.isoformat(),
    }
    command = [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", "."]
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=stderr)
    try:
        line = _first_line(process, log)
        with grpc.insecure_channel(f"127.0.0.1:{int(line)}", options=_MESSAGES) as channel:
            yield Pack(process, analyzer_pb2_grpc.AnalyzerStub(channel), line)
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        if process.stdout is not None:
            process.stdout.close()


def _first_line(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None
    read, end = b"", time.monotonic() + _START_S
    while not read.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
        byte = os.read(process.stdout.fileno(), 1) if ready else b""
        if not byte:
            raise RuntimeError(f"no port on stdout: {read!r}, exit status {process.poll()}; stderr:\n{log.read_text()}")
        read += byte
    line = read.decode().rstrip("\n")
    if not line.isdigit():
        raise RuntimeError(f"the first line on stdout must be the port, not {line!r}; stderr:\n{log.read_text()}")
    return line


def default(rule: AnyRule, name: str) -> Any:
    """The default of a property of a rule's config: a list as a tuple."""
    value = rule.config[name]["default"]
    return tuple(value) if isinstance(value, list) else value
