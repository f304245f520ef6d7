"""A check of manifests on the terminal, as GitHub annotations, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from gpu_ci.offline.annotations import Annotation, shown_from
from gpu_ci.offline.data import document, fields_of, outcome_json, verdict_json
from gpu_ci.offline.layout import show_line, show_table
from gpu_ci.offline.manifests.check import Check, Finding
from gpu_ci.offline.manifests.objects import Manifest
from gpu_ci.offline.manifests.remarks import Unjudged
from gpu_ci.offline.words import counted, states, verdict_line


def report(check: Check, console: Console, strict: bool = False, verbose: bool = False) -> None:
    """Print the result, a line for each verdict, what was not judged, and the result again.

    `verbose` lists the kinds that no policy reads and the files that were skipped.
    """
    show_line(console, f"gpu-ci check of {check.target} by the policies of stack {check.stack}", "bold")
    _result(check, console, strict)
    show_line(console, f"policy values: {check.policy_config}")
    for found in check.findings:
        show_line(console, _line(found), whole=True)
    for remark in (*check.remarks, *(_unread(each) for each in check.unjudged if each.works)):
        show_line(console, f"! {remark}", "yellow", indent="  ", whole=True)
    idle = [f"{each.label} ({each.count})" for each in check.unjudged if not each.works]
    skipped = check.tree.passed_over
    if verbose:
        unread = [f"no policy reads: {', '.join(idle)}"] if idle else []
        notes = [*unread, *(f"skipped: {note}" for note in skipped)]
    else:
        counts = ((idle, "kind that no policy reads", "kinds that no policy reads"), (skipped, "skipped file", "skipped files"))
        notes = [f"{counted(len(found), one, many)} (-v lists them)" for found, one, many in counts if found]
    for note in notes:
        show_line(console, note, "dim", indent="  ", whole=True)
    console.print()
    headings = {"policies": "policies that judged", "broken": "broken, mandatory", "advisory": "broken, advisory"}
    counts_by_name = _counts(check)
    columns = tuple(f">{headings.get(name, name)}" for name in counts_by_name)
    show_table(console, columns, [tuple(map(str, counts_by_name.values()))])
    console.print()
    _result(check, console, strict)


def _result(check: Check, console: Console, strict: bool) -> None:
    # Policies without a resource here are left out.
    asked = [found for found in check.outcomes if found.judged or found.broken]
    facts = f"{_objects(check)}; policies that judged: {states(asked) or 'none'}."
    blocked = check.blocked(strict)
    show_line(console, verdict_line(facts, blocked), "bold red" if blocked else "bold green")


def annotated(check: Check, strict: bool = False) -> tuple[Annotation, ...]:
    """The verdicts as GitHub annotations, errors first. Paths are relative to the current folder if they are below it."""
    return tuple(sorted(_annotations(check, strict), key=lambda each: each.level))


def to_json(check: Check, strict: bool = False) -> str:
    """The check as one JSON document. Of each manifest it has the name and the place only."""
    return document(_check(check, strict))


def _line(found: Finding) -> str:
    verdict = found.verdict
    kind = "" if verdict.kind == "violation" else f" ({verdict.kind})"
    place = f"{found.place}: " if found.place else ""
    return f"{place}{verdict.level} {verdict.rule}{kind}: {found.label}: {verdict.message}"


def _unread(each: Unjudged) -> str:
    more = f" and {each.count - 1} more" if each.count > 1 else ""
    return f"{each.label} has containers or GPUs, and no policy reads it: {each.first.place}{more}"


def _objects(check: Check) -> str:
    tree = check.tree
    return f"{counted(len(tree.manifests), 'object', 'objects')} in {counted(tree.files, 'file', 'files')}"


def _counts(check: Check) -> dict[str, int]:
    kinds = Counter((verdict.kind, verdict.level) for verdict in check.verdicts)
    others = {kind: kinds[kind, "mandatory"] + kinds[kind, "advisory"] for kind in ("undeterminable", "excepted")}
    return {
        "files": check.tree.files,
        "documents": check.tree.documents,
        "objects": len(check.tree.manifests),
        "policies": sum(bool(found.judged) for found in check.outcomes),
        "broken": kinds["violation", "mandatory"],
        "advisory": kinds["violation", "advisory"],
    } | others


def _annotations(check: Check, strict: bool) -> Iterator[Annotation]:
    blocked = check.blocked(strict)
    for found in check.findings:
        fails = found.verdict in blocked
        if fails or found.verdict.kind == "violation":
            file = shown_from(Path.cwd(), Path(found.manifest.file)) if found.manifest is not None else ""
            message = f"{found.label}: {found.verdict.message}"
            yield Annotation("error" if fails else "warning", found.verdict.rule, message, file, found.line or None)


def _check(check: Check, strict: bool) -> dict[str, Any]:
    return {
        "stack": check.stack,
        "folder": check.target,
        "policyConfig": check.policy_config,
        "passes": check.passes(strict),
        "counts": _counts(check),
        "objects": [
            _place(each) | fields_of(each.resource, "urn", "type") | fields_of(each, "kind", "namespace", "name")
            for each in check.tree.manifests
        ],
        "verdicts": [
            {"file": found.manifest.file if found.manifest is not None else "", "line": found.line} | verdict_json(found.verdict)
            for found in check.findings
        ],
        "policies": [outcome_json(found) for found in check.outcomes],
        "notJudged": [
            {"type": each.first.resource.type, "count": each.count} | _place(each.first) | {"works": each.works}
            for each in check.unjudged
        ],
        "remarks": list(check.remarks),
        "passedOver": list(check.tree.passed_over),
    }


def _place(manifest: Manifest) -> dict[str, Any]:
    return fields_of(manifest, "file", "line")
