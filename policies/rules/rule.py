"""What a rule is, and how it becomes a policy of the SDK.

A `Rule` judges one resource at a time, a `StackRule` the resources of a stack together. Exceptions (`exceptions.py`) and remedies
(`draft.py`) work alike for all rules, so no rule handles them itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import wraps
from typing import Any, Self

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

from . import exceptions
from .draft import Draft
from .exceptions import EXCEPTIONS
from .kinds import EXISTING_CLUSTER
from .node_groups import Pool, pooled
from .places import filled, key_of
from .read import Later, UndeterminableError, line, text, walk

__all__ = ["PolicyResource", "Severity"]
"""The SDK's names that rules import from here."""

Args = ResourceValidationArgs
STACK_KINDS = ("dev", "staging", "prod", "homelab")


class Section(StrEnum):
    """The sections of docs/policies.md, in order. A plan lists the policies in the same order."""

    SCHEDULING = "GPU limits and scheduling"
    TAINTS = "Taints"
    COST = "Spot, cost and scale"
    SUPPLY_CHAIN = "Supply chain and tokens"
    HARDENING = "Hardening"


WHY = "why"
"""Config property of every rule: why the values of a stack differ from the defaults."""

_LONGEST = 160
"""A message shows an OCID whole."""
_BY_STRICTNESS = ("disabled", "advisory", "remediate", "mandatory")
_SHARED: Mapping[str, Mapping[str, Any]] = {
    WHY: {"type": "string", "default": "", "description": "Why this stack's values differ from the defaults; for people."},
    exceptions.PROPERTY: EXCEPTIONS,
}

Check = Callable[[ResourceValidationArgs, Later], Iterable[str]]
"""Gives the message of each certain violation. An unknown value that could hide another goes to `Later`, or is raised."""

Remedy = Callable[[ResourceValidationArgs, Draft], None]
"""Fixes in the draft what is safe and unambiguous, and leaves unknown values alone. The check then judges the result."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The input of a stack rule: the resources of its types in order of URN, its config, and the day that it judges.

    Follow parents and dependencies only to resources of these types, because an offline plan has no others.
    """

    resources: tuple[PolicyResource, ...]
    config: Mapping[str, Any]
    as_of: date
    existing: Mapping[str, str] = field(default_factory=dict)
    """The providers of clusters that the stack did not create, by the name, OCID or context of the cluster."""

    def may_be(self, cluster: str) -> str:
        """The existing cluster that `cluster` is, or may be if it is unknown (""); "" if the stack created it."""
        if cluster in self.existing:
            return cluster
        return "" if cluster else next(iter(self.existing), "")

    def of(self, *types: str | frozenset[str]) -> Iterator[PolicyResource]:
        """The resources of these tokens or sets of tokens."""
        wanted = frozenset[str]().union(*(each if isinstance(each, frozenset) else {each} for each in types))
        return (each for each in self.resources if each.resource_type in wanted)


Violation = tuple[str, str | None]
"""A message, and the URN of the resource that it is about; None for the stack."""

StackCheck = Callable[[Stack, Later], Iterable[Violation]]
"""Gives each certain violation. Unknown values go to `Later`, or are raised."""

NOTHING: tuple[frozenset[str], StackCheck] = (frozenset(), lambda _, __: ())
"""Types and check of a stack rule that does not apply to manifests alone."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Common:
    """What both kinds of rule have.

    `order` is the section and the place in it. `types` are the resource tokens that the rule judges; `levels` has one level for
    each of STACK_KINDS; `config` maps each property to its JSON schema, which has a default; `rationale`, `source` (a URL) and
    `fix` are for people. `settings` is the key of the stack file that changes what the rule judges, for all resources or by type
    ("" for all other types); it is "" if no setting does. A strict plan fails where a `critical` rule is undeterminable.
    `of_existing` says, by provider, what the rule would have to see of a cluster that the stack did not create. Such a cluster
    makes the rule undeterminable. With `partly` the rule bounds single values of an object, and reads no more of it.
    """

    id: str
    order: tuple[Section, int]
    title: str
    severity: Severity
    types: frozenset[str]
    levels: Mapping[str, str]
    rationale: str
    source: str
    fix: str
    settings: str | Mapping[str, str] = ""
    critical: bool = False
    config: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    of_existing: Mapping[str, str] = field(default_factory=dict)
    partly: bool = False

    @property
    def reads(self) -> frozenset[str]:
        """The resource tokens that the rule must get: those that it judges, and that of existing clusters."""
        return self.types | {EXISTING_CLUSTER}

    @property
    def counted(self) -> frozenset[str]:
        """The resource tokens that it has a verdict on."""
        return self.reads if self.of_existing else self.types

    def _unseen(self, existing: Mapping[str, str]) -> Later:
        """What the rule cannot see of the existing clusters."""
        later = Later()
        for cluster, provider in existing.items():
            if provider in self.of_existing:
                later.note(unseen(cluster, self.of_existing[provider]))
        return later

    @property
    def level(self) -> str:
        """The strictest of `levels`. The pack enforces it for a stack without a policy config."""
        return max(self.levels.values(), key=_BY_STRICTNESS.index)

    @property
    def of_manifests(self) -> Self:
        """The rule for manifests without a program: the same, unless it needs resources that only a cloud's program declares."""
        return self

    @property
    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON schema of each config property, with those that all rules share."""
        return {**self.config, **_SHARED}

    def _metadata(self) -> dict[str, Any]:
        return {
            "name": self.id,
            "description": self.rationale,
            "enforcement_level": EnforcementLevel(self.level),
            "config_schema": PolicyConfigSchema({name: copy.deepcopy(dict(schema)) for name, schema in self.schemas.items()}),
            "display_name": self.title,
            "severity": self.severity,
            "remediation_steps": self.fix,
            "url": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule(_Common):
    """One policy that judges each resource by itself."""

    check: Check
    remedy: Remedy | None = None

    def policy(self, as_of: date) -> ResourceValidationPolicy:
        """The rule as the SDK's policy; its callables do not read a resource of another type.

        `as_of` is the day that decides whether an exception is valid.
        """

        def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
            if args.resource_type in self.reads:
                self._judge(args, report, as_of)

        def remediate(args: ResourceValidationArgs) -> Mapping[str, Any] | None:
            if self.remedy is None or args.resource_type not in self.types:
                return None
            if exceptions.exemption(args.get_config(), args.urn, as_of).excused:
                return None
            draft = Draft(args.props)
            with Later():
                self.remedy(_reading(args, draft.reading), draft)
            return draft.changed

        # The SDK's type allows only awaitables here, but the SDK also calls a plain function.
        remediation: Any = remediate if self.remedy is not None else None
        return ResourceValidationPolicy(validate=validate, remediate=remediation, **self._metadata())

    def _judge(self, args: ResourceValidationArgs, report: ReportViolation, as_of: date) -> None:
        exemption = exceptions.exemption(args.get_config(), args.urn, as_of)
        for fault in exemption.faults:
            report(fault, None)
        hidden: list[str] = []
        later = Later()
        try:
            with later:
                if args.resource_type == EXISTING_CLUSTER:
                    self._unseen(_existing([args])).settle()
                    return
                for message in self.check(args, later):
                    filled_in = filled(message, self.id, args.urn, key_of(self.settings, args.urn))
                    if exemption.excused:
                        hidden.append(filled_in)
                    else:
                        report(filled_in, None)
            later.settle()
        except UnknownValueError as unknown:
            if not exemption.excused:
                raise
            hidden.append(unknown.message)
        if hidden:
            args.not_applicable(exemption.reason(hidden))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StackRule(_Common):
    """One policy that judges resources of a stack together. The stack's own exceptions have the URN pattern `stack`.

    Some rules need resources that only a cloud's program declares: a budget, a quota, a provider's pool. For manifests without
    a program such a rule has the types and the check of `in_manifests`; None means no difference.
    """

    check: StackCheck
    in_manifests: tuple[frozenset[str], StackCheck] | None = None

    @property
    def of_manifests(self) -> Self:
        types, check = self.in_manifests or (self.types, self.check)
        return replace(self, types=types, check=check)

    def policy(self, as_of: date) -> StackValidationPolicy:
        """The rule as the SDK's policy; `as_of` is the day for prices and exceptions."""

        def validate(args: StackValidationArgs, report: ReportViolation) -> None:
            config = args.get_config()
            hidden: dict[str, str] = {}
            any_urn = args.resources[0].urn if args.resources else ""
            for fault in exceptions.expired(config, as_of):
                report(fault, None)

            later = Later()
            try:
                for message, urn in self.check(_stack(args, self.types, as_of), later):
                    exemption = exceptions.exemption(config, urn or exceptions.STACK, as_of)
                    filled_in = filled(message, self.id, urn or any_urn, key_of(self.settings, urn or ""))
                    if exemption.excused:
                        hidden.setdefault(exemption.name, exemption.reason([filled_in]))
                    else:
                        report(filled_in, urn)
                # Report this before unknown values: an update does not resolve it.
                self._unseen(_existing(args.resources)).settle()
                later.settle()
            except UnknownValueError:
                # The unknown value may belong to any resource, so only an exception of the whole stack covers it.
                if not (hidden and exceptions.exemption(config, exceptions.STACK, as_of).excused):
                    raise
            if hidden:
                args.not_applicable("; ".join(hidden.values()))

        return StackValidationPolicy(validate=validate, **self._metadata())


def _stack(args: StackValidationArgs, types: frozenset[str], as_of: date) -> Stack:
    """The resources of these types, sorted, because an engine gives them in no fixed order."""
    wanted = sorted((each for each in args.resources if each.resource_type in types), key=lambda each: each.urn)
    return Stack(tuple(wanted), args.get_config(), as_of, _existing(args.resources))


def _existing(resources: Iterable[PolicyResource | ResourceValidationArgs]) -> dict[str, str]:
    """The providers of the clusters that exist already, by cluster. Both are text that the program knows."""
    found: dict[str, str] = {}
    for each in resources:
        if each.resource_type == EXISTING_CLUSTER:
            with Later():
                found[text(walk(each.props, "clusterName"))] = text(walk(each.props, "provider"))
    return dict(sorted(found.items()))


def unseen(cluster: str, what: str) -> UndeterminableError:
    """Why a rule is undeterminable for a cluster that the stack did not create."""
    return UndeterminableError(f"cluster {line(cluster, _LONGEST)} exists already, and nothing in the stack shows {what}")


def each(check: Check) -> StackCheck:
    """The check of a stack rule that judges each resource by itself, and the node groups of a pool as one."""

    @wraps(check)
    def judge(stack: Stack, later: Later) -> Iterator[Violation]:
        for resource in pooled(stack.resources):
            args = ResourceValidationArgs(
                resource.resource_type,
                resource.props,
                resource.urn,
                resource.name,
                resource.opts,
                resource.provider,
                stack.config,
                {},
            )
            together = f" (its {resource.groups} node groups together)" if isinstance(resource, Pool) else ""
            with later:
                for message in check(args, later):
                    yield f"{message}{together}", resource.urn

    return judge


def _reading(args: ResourceValidationArgs, props: Any) -> ResourceValidationArgs:
    """The arguments with properties that raise on unknowns: the SDK gives a remediation bare ones."""
    return ResourceValidationArgs(
        args.resource_type, props, args.urn, args.name, args.opts, args.provider, args.get_config(), args.stack_tags
    )
