"""Compares the verdicts of the pack through the CLI with those of the judge."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpu_ci.offline.judge import Verdict
from policies.rules import RULES
from tests.engine.cli import Outcome

STREAMED = {"PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"}
"""With it `pulumi preview --json` prints the engine's events as they come, one a line."""

_PACK = "gpu-ci@v0.0.1"
_BY_ID = {rule.id: rule for rule in RULES}


@dataclass(frozen=True, order=True)
class Said:
    """One diagnostic of a policy. `message` is what it reported, without the policy's description before it."""

    policy: str
    urn: str
    level: str
    severity: str
    message: str


def events(outcome: Outcome, kind: str) -> list[dict[str, Any]]:
    """The payloads of one kind of event on standard output."""
    lines = (json.loads(line) for line in outcome.out.splitlines() if line.startswith("{"))
    return [event[kind] for event in lines if kind in event]


def said(outcome: Outcome) -> list[Said]:
    """The diagnostics of the policies, sorted."""
    return sorted(
        Said(
            event["policyName"],
            event.get("resourceUrn", ""),
            event["enforcementLevel"],
            event.get("severity", ""),
            _bare(event["policyName"], event["message"]),
        )
        for event in events(outcome, "policyEvent")
    )


def remediated(outcome: Outcome) -> list[tuple[str, str]]:
    """(policy, URN) of what was remediated, in order."""
    return [(event["policyName"], event["resourceUrn"]) for event in events(outcome, "policyRemediationEvent")]


def expected(verdicts: Iterable[Verdict], stack: str) -> list[Said]:
    """The verdicts as the engine reports them, sorted; `stack` is the URN that what is said of the whole stack is put to."""
    return sorted(_expected(verdicts, stack))


def _expected(verdicts: Iterable[Verdict], stack: str) -> Iterator[Said]:
    for verdict in verdicts:
        severity = _BY_ID[verdict.rule].severity
        if verdict.kind == "violation":
            yield Said(verdict.rule, verdict.urn or stack, verdict.level, severity, verdict.message)
        elif verdict.kind == "undeterminable":
            yield Said(verdict.rule, verdict.urn or stack, "advisory", severity, verdict.message)


def _bare(policy: str, message: str) -> str:
    before, colon, rest = message.partition(" during preview: ")
    if colon and before.startswith(f"can't run policy '{policy}'"):
        return rest.rstrip("\n")
    return message.removeprefix(_BY_ID[policy].rationale).strip("\n")
