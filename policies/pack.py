"""The rules as policies of Pulumi's policy SDK. Only this module and `__main__.py` import the SDK."""

import copy
from collections import Counter
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Any

import pulumi_policy as sdk
from pulumi_policy.deserialize import deserialize_properties, serialize_properties
from pulumi_policy.proxy import UnknownValueError

from policies.rules import RULES, AnyRule, Rule
from policies.rules.record import Options, Provider, Resource, plain, wired
from policies.rules.rule import Args, Outcome, StackRule


def policy(rule: AnyRule, as_of: date) -> sdk.Policy:
    """The rule as a policy. `as_of` is the day that decides prices, ends of support, and whether an exception is valid."""
    described: dict[str, Any] = {
        "name": rule.id,
        "description": rule.rationale,
        "enforcement_level": sdk.EnforcementLevel(rule.level),
        "config_schema": sdk.PolicyConfigSchema({name: copy.deepcopy(dict(schema)) for name, schema in rule.schemas.items()}),
        "display_name": rule.title,
        "severity": sdk.Severity(rule.severity),
        "remediation_steps": rule.fix,
        "url": rule.source,
    }
    if isinstance(rule, StackRule):
        return sdk.StackValidationPolicy(validate=partial(_validate_stack, rule, as_of), **described)
    # The SDK's type allows only awaitables here, but the SDK also calls a plain function.
    remediate: Any = partial(_remediate, rule, as_of) if rule.remedy is not None else None
    return sdk.ResourceValidationPolicy(validate=partial(_validate, rule, as_of), remediate=remediate, **described)


def types_judged() -> sdk.StackValidationPolicy:
    """The remark that a plan has, too: the types of resources that no policy judges. It says nothing where there are none."""
    return sdk.StackValidationPolicy(
        name="types-judged",
        description="No policy sees what is wrong with a resource of a type that it does not judge.",
        enforcement_level=sdk.EnforcementLevel.ADVISORY,
        validate=_count_types,
    )


def _count_types(args: sdk.StackValidationArgs, report: sdk.ReportViolation) -> None:
    # A component has no provider. Its children are what a cloud gets.
    types = Counter(seen.resource_type for seen in args.resources if seen.provider is not None)
    rules = [rule for rule in RULES if not rule.partly]
    if names := sorted(token for token in types if not any(rule.judges(token) for rule in rules)):
        of = f"{len(names)} of {len(types)} types of resources ({', '.join(names)})"
        report(f"No policy judges {of}, of which the stack has {sum(types[name] for name in names)}", None)


def _validate(rule: Rule, as_of: date, args: sdk.ResourceValidationArgs, report: sdk.ReportViolation) -> None:
    if rule.sees(args.resource_type):
        _say(rule.judge(Args(*_fields(args), config=args.get_config()), as_of), args, report)


def _remediate(rule: Rule, as_of: date, args: sdk.ResourceValidationArgs) -> Mapping[str, Any] | None:
    if not rule.judges(args.resource_type):
        return None
    after = rule.remedied(Args(*_fields(args, secrets=True), config=args.get_config()), as_of)
    return None if after is None else deserialize_properties(wired(after), True)


def _validate_stack(rule: StackRule, as_of: date, args: sdk.StackValidationArgs, report: sdk.ReportViolation) -> None:
    records = {id(seen): _record(seen, rule) for seen in args.resources}
    for seen in args.resources:
        record = records[id(seen)]
        record.parent = records[id(seen.parent)] if seen.parent is not None else None
        record.dependencies = [records[id(above)] for above in seen.dependencies]
        dependencies = seen.property_dependencies.items()
        record.property_dependencies = {key: [records[id(above)] for above in aboves] for key, aboves in dependencies}
    _say(rule.judge(list(records.values()), args.get_config(), as_of), args, report)


def _record(seen: sdk.PolicyResource, rule: StackRule) -> Resource:
    """A resource of a stack. One that the rule does not read has no properties: only the dependencies of others name it."""
    if rule.sees(seen.resource_type):
        return Resource(*_fields(seen))
    return Resource(seen.resource_type, {}, seen.urn, seen.name)


def _fields(source: sdk.ResourceValidationArgs | sdk.PolicyResource, *, secrets: bool = False) -> tuple[Any, ...]:
    """The fields that a record shares with what the SDK shows. The SDK unwraps its own proxies when it serializes them."""
    provider = source.provider
    return (
        source.resource_type,
        plain(serialize_properties(source.props), secrets=secrets),
        source.urn,
        source.name,
        Options(source.opts.protect, tuple(source.opts.ignore_changes)),
        Provider() if provider is None else Provider(plain(serialize_properties(provider.props)), provider.urn, provider.name),
    )


def _say(outcome: Outcome, args: Any, report: sdk.ReportViolation) -> None:
    """Hands an outcome to the SDK, which knows unknown values and exceptions as Python exceptions."""
    for message, urn in outcome.violations:
        report(message, urn)
    if outcome.unknown is not None:
        unknown = UnknownValueError(outcome.unknown.value.sentinel, list(map(str, outcome.unknown.value.path)))
        unknown.message = outcome.unknown.message
        raise unknown
    if outcome.excepted:
        args.not_applicable(outcome.excepted)
