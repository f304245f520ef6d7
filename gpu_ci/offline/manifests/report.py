"""A check of manifests on the terminal, as GitHub annotations, and as JSON."""

from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from rich.console import Console

from gpu_ci.offline.annotations import shown_from
from gpu_ci.offline.data import outcome_json, verdict_json
from gpu_ci.offline.jsontext import fields_of
from gpu_ci.offline.judge import Verdict
from gpu_ci.offline.layout import show_line, show_table
from gpu_ci.offline.manifests.check import Check, Finding, Unjudged
from gpu_ci.offline.notes import Annotation
from gpu_ci.offline.words import counted, said, states, verdict_line


def report(check: Check, console: Console, strict: bool = False, verbose: bool = False, *, quiet: bool = False) -> None:
    """Print the result, a line for each verdict, what was not judged, and the result again.

    `verbose` lists the kinds that no policy reads and the files that were skipped; `quiet` leaves all but what fails and
    the result.
    """
    blocked = check.blocked(strict)
    if quiet:
        _list(console, [finding for finding in check.findings if finding.verdict in blocked])
        _result(check, console, blocked, strict)
        return
    show_line(console, f"gpu-ci check of {check.target} by the policies of stack {check.stack}", "bold")
    _result(check, console, blocked, strict)
    show_line(console, f"policy values: {check.policy_config}")
    _list(console, check.findings)
    for remark in (*check.remarks, *(_unread(kind) for kind in check.unjudged if kind.works)):
        show_line(console, f"! {remark}", "yellow", indent="  ", whole=True)
    idle = [f"{kind.label} ({kind.count})" for kind in check.unjudged if not kind.works]
    skipped = check.tree.passed_over
    if verbose:
        unread = [f"no policy reads: {', '.join(idle)}"] if idle else []
        notes = [*unread, *(f"skipped: {note}" for note in skipped)]
    else:
        counts = ((idle, "kind that no policy reads", "kinds that no policy reads"), (skipped, "skipped file", "skipped files"))
        notes = [f"{counted(len(items), one, many)} (-v lists them)" for items, one, many in counts if items]
    for note in notes:
        show_line(console, note, "dim", indent="  ", whole=True)
    console.print()
    headings = {"policies": "policies that judged", "broken": "broken, mandatory", "advisory": "broken, advisory"}
    counts_by_name = _counts(check)
    columns = tuple(f">{headings.get(name, name)}" for name in counts_by_name)
    show_table(console, columns, [tuple(map(str, counts_by_name.values()))])
    console.print()
    _result(check, console, blocked, strict)


def _list(console: Console, findings: Iterable[Finding]) -> None:
    for finding in findings:
        place = f"{finding.place}: " if finding.place else ""
        show_line(console, place + said(finding.verdict, [finding.label], 1), whole=True)


def _result(check: Check, console: Console, blocked: Collection[Verdict], strict: bool) -> None:
    # Policies without a resource here are left out.
    outcomes = [outcome for outcome in check.outcomes if outcome.judged or outcome.broken]
    found = f"{counted(len(check.tree.manifests), 'object', 'objects')} in {counted(check.tree.files, 'file', 'files')}"
    facts = f"{found}; policies that judged: {states(outcomes) or 'none'}."
    show_line(console, verdict_line(facts, blocked, check.unread(strict)), "bold green" if check.passes(strict) else "bold red")


def annotated(check: Check, strict: bool = False) -> tuple[Annotation, ...]:
    """The verdicts as GitHub annotations, errors first. Paths are relative to the current folder if they are below it."""
    blocked = check.blocked(strict)
    annotations = []
    for finding in check.findings:
        if (fails := finding.verdict in blocked) or finding.verdict.kind == "violation":
            file = shown_from(Path.cwd(), Path(finding.file)) if finding.file else ""
            message = f"{finding.label}: {finding.verdict.message}"
            level = "error" if fails else "warning"
            annotations.append(Annotation(level, finding.verdict.rule, message, file, finding.line or None))
    return tuple(sorted(annotations, key=lambda annotation: annotation.level))


def _unread(kind: Unjudged) -> str:
    more = f" and {kind.count - 1} more" if kind.count > 1 else ""
    return f"{kind.label} has containers or GPUs, and no policy reads it: {kind.first.place}{more}"


def _counts(check: Check) -> dict[str, int]:
    kinds = Counter((verdict.kind, verdict.level) for verdict in check.verdicts)
    unsure = {kind: kinds[kind, "mandatory"] + kinds[kind, "advisory"] for kind in ("undeterminable", "excepted")}
    broken = {"broken": kinds["violation", "mandatory"], "advisory": kinds["violation", "advisory"]}
    read = {"objects": len(check.tree.manifests), "policies": sum(bool(outcome.judged) for outcome in check.outcomes)}
    return fields_of(check.tree, "files", "documents") | read | broken | unsure


_OBJECT = ("file", "line", "urn=resource.urn", "type=resource.type", "kind", "namespace", "name")
_NOT_JUDGED = ("type=first.resource.type", "count", "file=first.file", "line=first.line", "works")


def to_json(check: Check, strict: bool = False) -> dict[str, Any]:
    """The check as plain data. Of each manifest it has the name and the place only."""
    return {
        "stack": check.stack,
        "folder": check.target,
        "policyConfig": check.policy_config,
        "passes": check.passes(strict),
        "counts": _counts(check),
        "objects": [fields_of(manifest, *_OBJECT) for manifest in check.tree.manifests],
        "verdicts": [fields_of(finding, "file", "line") | verdict_json(finding.verdict) for finding in check.findings],
        "policies": [outcome_json(outcome) for outcome in check.outcomes],
        "notJudged": [fields_of(kind, *_NOT_JUDGED) for kind in check.unjudged],
        "remarks": list(check.remarks),
        "passedOver": list(check.tree.passed_over),
    }
