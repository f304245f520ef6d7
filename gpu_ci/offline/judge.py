"""Judges a recording by the rules of the policy pack, in this process.

The rules run through the SDK's own policy objects and proxies, on the data that the engine would send. So the verdicts are the
same as those that the pack gives over gRPC. The judge is faster: the pack deserializes a resource once for each policy, the
judge once for all rules of its type, and not at all if no rule reads the type.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol

import pulumi_policy as sdk
from google.protobuf import json_format, struct_pb2
from pulumi_policy import EnforcementLevel, ResourceValidationPolicy, StackValidationPolicy
from pulumi_policy.deserialize import deserialize_properties
from pulumi_policy.proxy import UnknownValueError, unknown_checking_proxy

from fleet.facts.errors import InputError, instead, quoted
from gpu_ci.offline import private, wire
from gpu_ci.offline.configschema import faults
from gpu_ci.offline.record import Recording, Resource
from policies.rules.exceptions import is_exception

ALL = "all"
_ENVIRONMENTS = "environments"  # ESC environments of a pack's config; the CLI takes the key out
_LEVELS = {level.value: level for level in EnforcementLevel}
_NO_VALIDATION = "Policy does not implement validate"  # the SDK's text

Policy = ResourceValidationPolicy | StackValidationPolicy


class Rule(Protocol):
    """The part of a policy rule that the judge uses."""

    @property
    def id(self) -> str:
        """The policy's name."""

    @property
    def reads(self) -> frozenset[str]:
        """Type tokens of the resources that the rule gets."""

    def policy(self, as_of: date) -> Policy:
        """The policy of the pack, with the exceptions that are valid on that day."""

    def __hash__(self) -> int:
        """Policies are kept by rule."""


Settings = Mapping[str, object]
"""policies/config/<stack>.json as data: policy id to level, or to {"enforcementLevel": level, property: value}."""


@dataclass(frozen=True)
class Verdict:
    """The verdict of one rule on one resource.

    `level` is the level of the rule, "mandatory" or "advisory"; the engine treats every undeterminable verdict as advisory.
    `kind` is "violation", "undeterminable" (the rule met an unknown value), "excepted" (an exception hides a violation) or
    "not-applicable". `urn` is "" for a verdict of a stack policy on the stack. `message` is the rule's own text; the pack's
    diagnostic has the policy's description on a line before it.
    """

    rule: str
    level: str
    kind: str
    urn: str
    message: str


@dataclass(frozen=True)
class Configured:
    """One policy with its level and its complete config, as the CLI passes them to the pack."""

    policy: Policy
    types: frozenset[str]
    level: EnforcementLevel
    config: Mapping[str, Any]

    @property
    def reported(self) -> str:
        """The level of its verdicts. With level remediate, a violation that is left after the remediation is mandatory."""
        return "advisory" if self.level is EnforcementLevel.ADVISORY else "mandatory"


def judge(recording: Recording, policies: Iterable[Configured]) -> tuple[Verdict, ...]:
    """All verdicts, by resource in the order of the recording and by policy in the given order. Stack policies come last.

    Disabled policies give no verdict. If a rule raises an exception, it propagates with a note that names the rule and the URN.
    """
    by_type: dict[str, list[Configured]] = {}
    of_stack: list[Configured] = []
    for configured in policies:
        if configured.level is EnforcementLevel.DISABLED:
            continue
        if isinstance(configured.policy, StackValidationPolicy):
            of_stack.append(configured)
            continue
        for token in configured.types:
            by_type.setdefault(token, []).append(configured)
    session = _Session(frozenset[str]().union(*(configured_stack.types for configured_stack in of_stack)))
    verdicts: list[Verdict] = []
    for resource in recording.resources:
        policies_of_type = by_type.get(resource.type, ())
        # The engine does not analyze resources that are only read.
        if not resource.read:
            verdicts += session.judge(resource, policies_of_type)
    for configured in of_stack:
        verdicts += session.judge_stack(configured)
    return tuple(verdicts)


def configure(rules: Iterable[Rule], settings: Settings, as_of: date) -> tuple[Configured, ...]:
    """Each rule's policy with level and config: the schema's defaults, then the settings' "all", then its own entry.

    Raises InputError naming the entry for an unknown policy or property, an unknown level, or a value that violates the policy's
    schema. Facts: pulumi/pulumi, pkg/resource/analyzer/config.go, which accepts unknown names.
    """
    policies = [(_policy(rule, as_of), rule.reads) for rule in rules]
    names = Counter(policy.name for policy, _ in policies)
    if repeated := sorted(name for name in names if names[name] > 1):
        raise ValueError(f"two rules of one id: {', '.join(repeated)}")
    for name in settings:
        if name not in names and name not in (ALL, _ENVIRONMENTS):
            fix = instead(name, names, f"give one of: {', '.join(sorted(names))}")
            raise InputError(f"policy config: {name}: no policy has this name; got {quoted(name)}; {fix}")
    level, properties = _entry(ALL, settings.get(ALL, {}))
    if properties:
        raise InputError(f"policy config: {ALL}: can set only the level; got {quoted(sorted(properties))}; set them per policy")
    return tuple(_configured(policy, types, level, settings.get(policy.name, {})) for policy, types in policies)


@lru_cache(maxsize=512)
def _policy(rule: Rule, as_of: date) -> Policy:
    """The rule as the SDK's policy. The SDK copies all schemas, so two plans in one process share it."""
    return rule.policy(as_of)


def _configured(policy: Policy, types: frozenset[str], general: EnforcementLevel | None, entry: object) -> Configured:
    level_of, values = _entry(policy.name, entry)
    schema = policy.config_schema
    properties: Mapping[str, Mapping[str, Any]] = schema.properties if schema is not None else {}
    for name in values:
        if name not in properties:
            there = ", ".join(sorted(properties)) or "none"
            raise InputError(
                f"policy config: {policy.name}.{name}: the policy does not have this property; got {quoted(values[name])}; "
                f"{instead(name, properties, f'its properties: {there}')}"
            )
    config = {name: part["default"] for name, part in properties.items() if "default" in part} | values
    required = (schema.required or ()) if schema is not None else ()
    if wrong := faults({"type": "object", "properties": properties, "required": required}, config, policy.name):
        raise InputError("\n".join(f"policy config: {fault}; correct the value" for fault in wrong))
    level = level_of or general or policy.enforcement_level or EnforcementLevel.ADVISORY
    return Configured(policy, types, level, MappingProxyType(_as_sent(config)))


def _entry(name: str, entry: object) -> tuple[EnforcementLevel | None, dict[str, Any]]:
    if isinstance(entry, str):
        return _level(name, entry), {}
    if not isinstance(entry, Mapping):
        raise InputError(f"policy config: {name}: must be a level or an object; got {quoted(entry)}; correct it")
    properties = dict(entry)
    level = properties.pop("enforcementLevel", None)
    return (None if level is None else _level(name, level)), properties


def _level(name: str, level: object) -> EnforcementLevel:
    if not isinstance(level, str) or level not in _LEVELS:
        raise InputError(
            f"policy config: {name}: a level is one of {', '.join(_LEVELS)}; got {quoted(level)}; "
            f"{instead(str(level), _LEVELS, 'correct it')}"
        )
    return _LEVELS[level]


def _as_sent(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as a policy gets it over gRPC: every number is a float."""
    struct = struct_pb2.Struct()
    struct.update(config)
    sent: dict[str, Any] = json_format.MessageToDict(struct)
    return sent


class _Session:
    """Judges resources one by one, and at the end the types of `together` as a stack.

    Keeps the properties of providers, which many resources share, and of the resources that stack policies read.
    """

    def __init__(self, together: frozenset[str]) -> None:
        self._together = together
        self._providers = Providers()
        self._resources: dict[str, sdk.PolicyResource] = {}
        self._recorded: list[Resource] = []

    def judge(self, resource: Resource, policies_of_type: Iterable[Configured]) -> list[Verdict]:
        together = resource.type in self._together
        if not (policies_of_type or together):
            return []
        read = self._providers.fields(resource, properties_of(resource))
        if together:
            self._recorded.append(resource)
            self._resources[resource.urn] = sdk.PolicyResource(*read, None, [], {})
        return [verdict for rule in policies_of_type for verdict in _ask(rule, arguments_of(read, rule.config), resource.urn)]

    def judge_stack(self, rule: Configured) -> list[Verdict]:
        """The verdicts of a stack policy. The first call gives the resources their parents and dependencies."""
        for recorded in self._recorded:
            resource = self._resources[recorded.urn]
            resource.parent = self._resources.get(recorded.parent)
            resource.dependencies = self._known(recorded.dependencies)
            resource.property_dependencies = {name: self._known(urns) for name, urns in recorded.property_dependencies.items()}
        self._recorded = []
        return _ask(rule, sdk.StackValidationArgs(list(self._resources.values()), dict(rule.config), _NO_TAGS), "")

    def _known(self, urns: Iterable[str]) -> list[sdk.PolicyResource]:
        return [self._resources[urn] for urn in urns if urn in self._resources]


_NO_TAGS: Mapping[str, str] = MappingProxyType({})
Fields = tuple[str, Mapping[str, Any], str, str, sdk.PolicyResourceOptions, sdk.PolicyProviderResource | None]
"""Type, properties, URN, name, options and provider of a resource."""


def arguments_of(fields: Fields, config: Mapping[str, Any]) -> sdk.ResourceValidationArgs:
    """The arguments of a policy with this config; `fields` come from `Providers.fields`."""
    return sdk.ResourceValidationArgs(*fields, dict(config), _NO_TAGS)


class Providers:
    """Provider resources as a policy gets them. Each is read once, because many resources share one."""

    def __init__(self) -> None:
        self._known: dict[str, sdk.PolicyProviderResource] = {}

    def fields(self, resource: Resource, props: Mapping[str, Any]) -> Fields:
        """The fields that policies and the SDK's PolicyResource share, for a resource with these properties."""
        return resource.type, props, resource.urn, resource.name, _options(resource), self.of(resource)

    def of(self, resource: Resource) -> sdk.PolicyProviderResource | None:
        """The provider of a resource; None for a default provider."""
        made_by = resource.provider_resource
        if made_by is None:
            return None
        if made_by.urn not in self._known:
            self._known[made_by.urn] = sdk.PolicyProviderResource(made_by.type, properties_of(made_by), made_by.urn, made_by.name)
        return self._known[made_by.urn]


def properties_of(resource: Resource) -> Mapping[str, Any]:
    """The properties of a resource as the SDK passes them to a policy."""
    props: Mapping[str, Any] = unknown_checking_proxy(deserialize_properties(wire.analyzed(wire.raw(resource.wire))))
    return props


def _options(resource: Resource) -> sdk.PolicyResourceOptions:
    return sdk.PolicyResourceOptions(
        resource.protect,
        list(resource.ignore_changes),
        resource.delete_before_replace,
        list(resource.aliases),
        sdk.PolicyCustomTimeouts(*resource.custom_timeouts),
        list(resource.additional_secret_outputs),
        resource.parent or None,
    )


def _ask(rule: Configured, arguments: Any, urn: str) -> list[Verdict]:
    policy = rule.policy
    verdicts: list[Verdict] = []

    def say(kind: str, message: str, of: str = urn) -> None:
        verdicts.append(Verdict(policy.name, rule.reported, kind, of, message))

    def report(message: str, of: str | None = None) -> None:
        # Same type checks as in the SDK. The engine ignores the URN that a resource policy gives.
        if message and not isinstance(message, str):
            raise TypeError("Expected message to be a string")
        if of is not None and not isinstance(of, str):
            raise TypeError("Expected urn to be a string")
        say("violation", message or "", urn or of or "")

    if isinstance(policy, ResourceValidationPolicy) and not policy.has_validation():
        say("not-applicable", _NO_VALIDATION)
        return verdicts
    try:
        finished(policy.validate(arguments, report))
    except UnknownValueError as unknown:
        say("undeterminable", unknown.message)
    except private.NotApplicable as reason:
        say("excepted" if is_exception(reason.reason or "") else "not-applicable", reason.reason or "")
    except Exception as error:
        error.add_note(f"raised by policy {policy.name} on {urn or 'the stack'}")
        raise
    return verdicts


def finished(result: Any) -> Any:
    """The result of a policy's callback, awaited if it is a coroutine."""
    if not inspect.isawaitable(result):
        return result
    with asyncio.Runner() as runner:
        return runner.run(_finish(result))


async def _finish(result: Any) -> Any:
    return await result
