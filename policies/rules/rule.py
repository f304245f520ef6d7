"""What a rule is, and how it becomes a policy of the SDK."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
)

STACK_KINDS = ("dev", "staging", "prod")

_BY_STRICTNESS = ("disabled", "advisory", "remediate", "mandatory")

Check = Callable[[ResourceValidationArgs, ReportViolation], None]
"""Reports each violation that it is sure of, then raises UnknownValueError if an unknown value could hide another."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One policy.

    `types` are the resource tokens that it judges; `levels` has one level for each of STACK_KINDS; `config` maps each
    property to its JSON schema, which has a default; `rationale`, `source` (a URL) and `fix` are for people.
    """

    id: str
    title: str
    severity: Severity
    types: frozenset[str]
    levels: Mapping[str, str]
    rationale: str
    source: str
    fix: str
    check: Check
    config: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def level(self) -> str:
        """The strictest of `levels`: what the pack enforces where no stack's file says otherwise."""
        return max(self.levels.values(), key=_BY_STRICTNESS.index)

    def policy(self) -> ResourceValidationPolicy:
        """The rule as the SDK's policy; its callable leaves a resource of another type unread."""

        def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
            if args.resource_type in self.types:
                self.check(args, report)

        properties = {name: copy.deepcopy(dict(schema)) for name, schema in self.config.items()}
        return ResourceValidationPolicy(
            name=self.id,
            description=self.rationale,
            validate=validate,
            enforcement_level=EnforcementLevel(self.level),
            config_schema=PolicyConfigSchema(properties) if properties else None,
            display_name=self.title,
            severity=self.severity,
            remediation_steps=self.fix,
            url=self.source,
        )
