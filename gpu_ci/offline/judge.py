"""Judges a recording by the rules of the policy pack, in this process, and runs their remediations on each resource.

The rules get the data that the engine would send, as plain records. So the verdicts are the same as those that the pack gives
over gRPC. The judge is faster: the pack deserializes a resource once for each policy, the judge once for all rules of its type,
and not at all if no rule reads the type.

A violation that no edit made is distinguished: a day has passed. A preview and an update fail for both kinds. An offline plan
fails only for what the settings break, so a plan that passed never fails because time has passed. `offline.base` makes an
exception for what a pull request writes itself.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.facts.errors import InputError, instead, quoted
from fleet.facts.record import Record
from gpu_ci.offline import wire
from gpu_ci.offline.configschema import faults
from gpu_ci.offline.entries import plain as shown
from gpu_ci.offline.recording import Recording, Resource
from policies.rules import AnyRule, Rule, StackRule, record as records
from policies.rules.exceptions import unbounded
from policies.rules.rule import Level, Outcome, args_of

if TYPE_CHECKING:
    from google.protobuf import struct_pb2

ALL = "all"
ENDED = "ended"
"""The kind of a verdict that is a violation because of its day."""
_LEVELS = {level.value: level for level in Level}

Settings = Mapping[str, object]
"""policies/config/<stack>.json as data: policy id to level, or to {"enforcementLevel": level, property: value}."""


class Verdict(Record):
    """The verdict of one rule on one resource.

    `level` is the level of the rule, "mandatory" or "advisory"; the engine treats every undeterminable verdict as advisory.
    `kind` is "violation", "undeterminable" (the rule met an unknown value) or "excepted" (an exception hides a violation). `urn`
    is "" for a verdict of a stack policy on the stack. `message` is the rule's own text; the pack's diagnostic has the policy's
    description on a line before it.
    """

    rule: str
    level: str
    kind: str
    urn: str
    message: str


class Configured(NamedTuple):
    """One rule with its level and its complete config, as the CLI passes them to the pack, and the day that it judges."""

    policy: AnyRule
    level: Level
    config: Mapping[str, Any]
    as_of: date

    @property
    def reported(self) -> str:
        """The level of its verdicts. With level remediate, a violation that is left after the remediation is mandatory."""
        return "advisory" if self.level is Level.ADVISORY else "mandatory"


def judge(recording: Recording, policies: Iterable[Configured]) -> tuple[Verdict, ...]:
    """All verdicts, by resource in the order of the recording and by policy in the given order. Stack policies come last.

    Disabled policies give no verdict. If a rule raises an exception, it propagates with a note that names the rule and the URN.
    """
    enabled = [configured for configured in policies if configured.level is not Level.DISABLED]
    of_one = [(rule, configured) for configured in enabled if isinstance(rule := configured.policy, Rule)]
    of_stack = [(rule, configured) for configured in enabled if isinstance(rule := configured.policy, StackRule)]
    types = {resource.type for resource in recording.resources}
    policies_of = {token: [(rule, configured) for rule, configured in of_one if rule.sees(token)] for token in types}
    together = {token for token in types if any(rule.sees(token) for rule, _ in of_stack)}
    records_by_urn: dict[str, records.Resource] = {}
    verdicts: list[Verdict] = []
    for resource in recording.resources:
        # The engine does not analyze resources that are only read.
        if resource.read or not (policies_of[resource.type] or resource.type in together):
            continue
        record = record_of(resource, properties_of(resource))
        if resource.type in together:
            records_by_urn[resource.urn] = record
        for rule, configured in policies_of[resource.type]:
            try:
                outcome = rule.judge(args_of(record, configured.config), configured.as_of)
            except Exception as error:
                _note(error, rule, resource.urn)
                raise
            verdicts += _verdicts(configured, outcome, resource.urn)
    _link(recording, records_by_urn)
    for stack_rule, configured in of_stack:
        try:
            outcome = stack_rule.judge(records_by_urn.values(), configured.config, configured.as_of)
        except Exception as error:
            _note(error, stack_rule, "")
            raise
        verdicts += _verdicts(configured, outcome, "")
    return tuple(verdicts)


def resources_of(rule: StackRule, recording: Recording) -> list[records.Resource]:
    """The resources that a rule of the stack reads, with their parents and dependencies."""
    read = (resource for resource in recording.resources if rule.sees(resource.type) and not resource.read)
    records_by_urn = {resource.urn: record_of(resource, properties_of(resource)) for resource in read}
    _link(recording, records_by_urn)
    return [*records_by_urn.values()]


def _link(recording: Recording, records_by_urn: Mapping[str, records.Resource]) -> None:
    """Give the resources that stack policies read their parents and dependencies."""

    def records_of(urns: Iterable[str]) -> list[records.Resource]:
        return [records_by_urn[urn] for urn in urns if urn in records_by_urn]

    for urn, record in records_by_urn.items():
        resource = recording.by_urn[urn]
        record.parent = records_by_urn.get(resource.parent)
        record.dependencies = records_of(resource.dependencies)
        record.property_dependencies = {name: records_of(urns) for name, urns in resource.property_dependencies.items()}


def by_time(verdicts: Iterable[Verdict], judge_again: Callable[[Collection[str]], Iterable[Verdict]]) -> tuple[Verdict, ...]:
    """The verdicts, with kind `ENDED` for violations that are none on a day before all others.

    `judge_again` judges the same resources by the policies of these ids as of such a day. It is called only for violations.
    """
    judged = tuple(verdicts)
    rules = {verdict.rule for verdict in judged if verdict.kind == "violation"}
    timeless = tuple(judge_again(rules)) if rules else ()
    ended = {verdict for verdict in judged if verdict.kind == "violation" and verdict not in timeless}
    # A limit that fails on every day can have other figures in its message.
    others = (verdict for verdict in timeless if verdict.kind == "violation" and verdict not in judged)
    return (*(replace(verdict, kind=ENDED) if verdict in ended else verdict for verdict in judged), *others)


def configure(rules: Iterable[AnyRule], settings: Settings, as_of: date) -> tuple[Configured, ...]:
    """Each rule's policy with level and config: the schema's defaults, then the settings' "all", then its own entry.

    Raises InputError naming the entry for an unknown policy or property, an unknown level, or a value that violates the policy's
    schema. Facts: pulumi/pulumi, pkg/resource/analyzer/config.go, which accepts unknown names.
    """
    policies = list(rules)
    names = Counter(policy.id for policy in policies)
    if repeated := sorted(name for name in names if names[name] > 1):
        raise ValueError(f"two rules of one id: {', '.join(repeated)}")
    for name in settings:
        # The CLI takes the key "environments" out: it has the ESC environments of a pack's config.
        if name not in names and name not in (ALL, "environments"):
            fix = instead(name, names, f"give one of: {', '.join(sorted(names))}")
            raise InputError(f"policy config: {name}: no policy has this name; got {quoted(name)}; {fix}")
    level, properties = _entry(ALL, settings.get(ALL, {}))
    if properties:
        raise InputError(f"policy config: {ALL}: can set only the level; got {quoted(sorted(properties))}; set them per policy")
    return tuple(_configured(policy, level, settings.get(policy.id, {}), as_of) for policy in policies)


def _configured(policy: AnyRule, general: Level | None, entry: object, as_of: date) -> Configured:
    own, values = _entry(policy.id, entry)
    properties = policy.schemas
    for name in values:
        if name not in properties:
            there = ", ".join(sorted(properties)) or "none"
            why = f"policy config: {policy.id}.{name}: the policy does not have this property; got {quoted(values[name])}"
            raise InputError(f"{why}; {instead(name, properties, f'its properties: {there}')}")
    config = {name: part["default"] for name, part in properties.items() if "default" in part} | values
    if wrong := [*faults({"type": "object", "properties": properties}, config, policy.id)]:
        raise InputError("\n".join(f"policy config: {fault}; correct the value" for fault in wrong))
    if wrong := [*unbounded(config, as_of)]:
        raise InputError("\n".join(f"policy config: {policy.id}.{fault}" for fault in wrong))
    return Configured(policy, own or general or policy.level, MappingProxyType(wire.as_sent(config)), as_of)


def _entry(name: str, entry: object) -> tuple[Level | None, dict[str, Any]]:
    if isinstance(entry, str):
        return _level(name, entry), {}
    if not isinstance(entry, Mapping):
        raise InputError(f"policy config: {name}: must be a level or an object; got {quoted(entry)}; correct it")
    properties = dict(entry)
    level = properties.pop("enforcementLevel", None)
    return (None if level is None else _level(name, level)), properties


def _level(name: str, level: object) -> Level:
    if not isinstance(level, str) or level not in _LEVELS:
        why = f"policy config: {name}: a level is one of {', '.join(_LEVELS)}; got {quoted(level)}"
        raise InputError(f"{why}; {instead(str(level), _LEVELS, 'correct it')}")
    return _LEVELS[level]


def record_of(resource: Resource, props: Mapping[str, Any]) -> records.Resource:
    """A resource with these properties as rules read it."""
    made_by = resource.provider_resource
    options = records.Options(resource.protect, tuple(resource.ignore_changes))
    provider = records.Provider() if made_by is None else _provider(made_by)
    return records.Resource(resource.type, props, resource.urn, resource.name, options, provider)


@lru_cache(maxsize=64)
def _provider(resource: Resource) -> records.Provider:
    """A provider as a policy gets it. It is read once, because many resources share one."""
    return records.Provider(properties_of(resource), resource.urn, resource.name)


def properties_of(resource: Resource) -> dict[str, Any]:
    """The properties of a resource as a rule reads them."""
    props: dict[str, Any] = records.plain(wire.analyzed(wire.raw(resource.wire)))
    return props


def _verdicts(rule: Configured, outcome: Outcome, urn: str) -> list[Verdict]:
    """The verdicts on a resource, or with `urn` "" on the resources of a stack. The engine ignores a URN that a rule gives."""

    def verdict(kind: str, message: str, of: str = urn) -> Verdict:
        return Verdict(rule.policy.id, rule.reported, kind, of, message)

    verdicts = [verdict("violation", message, urn or of or "") for message, of in outcome.violations]
    if outcome.unknown is not None:
        verdicts.append(verdict("undeterminable", outcome.unknown.message))
    elif outcome.excepted:
        verdicts.append(verdict("excepted", outcome.excepted))
    return verdicts


def _note(error: Exception, policy: AnyRule, urn: str) -> None:
    """Add to an exception of a rule which one it is and what it judged."""
    error.add_note(f"raised by policy {policy.id} on {urn or 'the stack'}")


# -- remediations ------------------------------------------------------------------------------------------------------


class Remediation(NamedTuple):
    """The changes of one policy in one resource, one line each: "path: before → after". Secret values are never shown."""

    rule: str
    urn: str
    changes: tuple[str, ...]


class Remedies:
    """The policies with level remediate. A call with a resource returns its new inputs, or None if no policy changes it."""

    def __init__(self, policies: Iterable[Configured]) -> None:
        self.done: list[Remediation] = []
        active = (configured for configured in policies if configured.level is Level.REMEDIATE)
        self._policies = [(rule, one) for one in active if isinstance(rule := one.policy, Rule) and rule.remedy is not None]

    def __call__(self, resource: Resource) -> "struct_pb2.Struct | None":
        fixed: struct_pb2.Struct | None = None  # noqa: F823 - annotations of local names are not evaluated
        for rule, configured in self._policies:
            if not rule.sees(resource.type):
                continue
            before = wire.remediable(wire.raw(resource.wire if fixed is None else fixed))
            # Secrets stay marked, so that the new inputs are as secret as the old ones.
            record = record_of(resource, records.plain(before, secrets=True))
            if after := rule.remedied(args_of(record, configured.config), configured.as_of):
                from google.protobuf import struct_pb2  # noqa: PLC0415 - a plan without Pulumi's SDK lacks it

                fixed = struct_pb2.Struct()
                fixed.update(records.wired(after))
                changes = _changes(wire.view(before), wire.view(wire.raw(fixed)))
                self.done.append(Remediation(rule.id, resource.urn, tuple(changes)))
        return fixed


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    for path, old, new in wire.differing(before, after, lists=True):
        yield f"{path}: {shown(old, _scalar)} → {shown(new, _scalar)}"


def _scalar(value: object) -> str:
    if value is wire.ABSENT:
        return "not set"
    return f'"{value}"' if type(value) is str else str(value)
