"""`gpu-ci audit`: somebody's runner sets and workflows, without a stack file and without Pulumi."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet.facts.day import day_of
from gpu_ci.app import PROVE, AsOf, Json, app, reply
from gpu_ci.audit.finding import Finding
from gpu_ci.audit.model import Seen
from gpu_ci.audit.reading import audit
from gpu_ci.audit.rules import findings
from gpu_ci.offline.jsontext import fields_of
from gpu_ci.offline.layout import log_line


@app.command("audit", rich_help_panel=PROVE)
def audit_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder of workflows, Helm values and manifests, or one file.")],
    as_json: Json = False,
    as_of: AsOf = None,
) -> None:
    """Audit ARC's runner sets and GitHub's workflows of any repository: versions, runs-on, containers."""
    day, seen = day_of(as_of), audit(path)
    lines = findings(seen, day)
    reply(_json(seen, lines) if as_json else _text(seen, lines))
    raise typer.Exit(1 if any(line.level == "error" for line in lines) else 0)


def _json(seen: Seen, lines: list[Finding]) -> dict[str, Any]:
    return {
        "sets": [fields_of(runner_set, "place", "name", "version", "image", "runs_containers") for runner_set in seen.classes],
        "controllers": [fields_of(controller, "place", "version") for controller in seen.controllers],
        "findings": [fields_of(line, "place", "level", "rule", "message") for line in lines],
        "notRead": seen.not_read,
    }


def _text(seen: Seen, lines: list[Finding]) -> Iterator[str]:
    counts = f"{len(seen.classes)} runner sets, {len(seen.controllers)} controllers, {len(seen.jobs)} jobs"
    errors, opened = (sum(line.level == level for line in lines) for level in ("error", "undeterminable"))
    rows = [f"{line.place}: {line.level} {line.rule}: {line.message}" for line in lines]
    rows += [f"not read: {line}" for line in seen.not_read]
    state = f"FAILED: {errors} errors" if errors else "no error"
    rows.append(f"{state} · {counts} · {opened} undeterminable · {len(seen.not_read)} files not read")
    # A label, or the name of a file, may have a line break or a command for the runner.
    return map(log_line, rows)
