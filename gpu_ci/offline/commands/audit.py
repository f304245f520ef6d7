"""`gpu-ci audit`: somebody's runner fleet and workflows, without a stack file and without Pulumi."""

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import typer

from fleet.facts.day import day_of
from gpu_ci.app import PROVE, AsOf, Json, app, program_version, reply
from gpu_ci.audit import report
from gpu_ci.audit.reading import audit
from gpu_ci.audit.rules import findings


class Format(StrEnum):
    """How an audit is printed."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    ANNOTATIONS = "annotations"


@app.command("audit", rich_help_panel=PROVE)
def audit_command(path: Path, form: Format = Format.TEXT, region: str = "", as_json: Json = False, as_of: AsOf = None) -> None:
    """Audit any fleet of GPU runners: where each class runs, what it costs, what stops jobs, with the smallest fix."""
    day, seen = day_of(as_of), audit(path)
    lines = findings(seen, day)
    policies: Mapping[str, tuple[str, ...]] = {}
    if any(one.where for one in seen.classes):
        from gpu_ci.offline.auditpolicies import broken  # noqa: PLC0415 - the policies load longer than all the rest

        policies = broken(seen.classes, day)
    rows = tuple(report.rows(seen, lines, day, region, policies))
    made = report.Report(seen, lines, rows, tuple(report.runs(seen, region)), program_version())
    match Format.JSON if as_json else form:
        case Format.JSON:
            reply(report.to_json(made))
        case Format.MARKDOWN:
            reply(report.markdown(made))
        case Format.SARIF:
            reply(json.dumps(report.sarif(made), indent=2) + "\n")
        case Format.ANNOTATIONS:
            reply(report.annotations(made))
        case Format.TEXT:
            reply(report.text(made))
    raise typer.Exit(1 if made.failed else 0)
