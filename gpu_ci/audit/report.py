"""An audit as text, JSON, Markdown, SARIF and annotations of GitHub.

SARIF is version 2.1.0 of OASIS' Static Analysis Results Interchange Format, with what GitHub's code scanning reads of it
(docs.github.com, "SARIF support for code scanning"). A run shows ten annotations of each level, so errors come first.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fleet.facts.groups import grouped
from fleet.facts.pricing import Money
from gpu_ci.audit.finding import Finding, relative
from gpu_ci.audit.model import Seen
from gpu_ci.audit.summary import Row, Run
from gpu_ci.offline import gfm
from gpu_ci.offline.jsontext import fields_of
from gpu_ci.offline.layout import log_line, shown_text
from gpu_ci.offline.notes import Annotation

PAGE = "https://github.com/example/gpu-ci/blob/main/docs/audit.md"
_LEVELS = {"error": "error", "warning": "warning", "undeterminable": "note"}
"""Our levels as SARIF's."""
_FEW = 5
"""Keys of one file that the text lists; JSON has all."""


class Report(NamedTuple):
    """Everything that an audit says. `version` is that of this program."""

    seen: Seen
    findings: Sequence[Finding]
    rows: Sequence[Row]
    runs: Sequence[Run]
    version: str

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return any(finding.level == "error" for finding in self.findings)

    @property
    def counts(self) -> str:
        """What was read, on one line."""
        seen = self.seen
        found = f"{len(seen.classes)} runner classes, {len(seen.pools)} node pools, {len(seen.controllers)} controllers"
        errors, opened = (sum(line.level == level for line in self.findings) for level in ("error", "undeterminable"))
        state = f"FAILED: {errors} error{'s' * (errors != 1)}" if errors else "no error"
        skipped = f"{len(seen.not_read)} files and {len(seen.unread)} keys not read"
        return f"{state} · {found}, {len(seen.jobs)} jobs · {opened} undeterminable · {skipped}"


def text(report: Report) -> Iterator[str]:
    """The audit for people and logs: a line for each class, each finding with its diff, what was not read, and the result."""
    for row in report.rows:
        yield log_line(f"class {row.one.name or '(no name)'} ({row.one.place}): {'; '.join(_facts(row))}")
    for run in (run for run in report.runs if not run.usd.unknown):
        yield log_line(f"job {run.job.name} ({run.job.place}): on {run.one.name}, at most {run.usd} USD a run")
    for finding in report.findings:
        yield log_line(f"{finding.place}: {finding.level} {finding.rule}: {finding.message}")
        yield from (f"    {shown_text(line)}" for line in finding.diff.splitlines())
    yield from (log_line(f"not read: {line}") for line in report.seen.not_read)
    for file, keys in grouped((place.rpartition(":")[0], key) for place, key in report.seen.unread).items():
        more = f" and {len(keys) - _FEW} more" if len(keys) > _FEW else ""
        yield log_line(f"keys not read: {file}: {', '.join(keys[:_FEW])}{more}")
    yield report.counts


def _facts(row: Row) -> Iterator[str]:
    """What is known of a class, in short sentences."""
    yield f"{row.gpus} GPU{'s' * (row.gpus != 1)} a job" if row.gpus is not None else "GPUs of its machine not known"
    if row.where:
        yield f"runs in {', '.join(row.where)}{' from zero nodes' if row.zero else ''}"
    else:
        yield "runs in no pool" if row.zero is False else "no pool in the folder"
    if row.stranded:
        yield f"{row.stranded} GPUs of a full node stay idle"
    if not row.node.unknown:
        yield f"a node costs {row.node} USD an hour, a job {row.job}"
    yield from (f"{what} ends on {day}" for day, what in row.ends)
    if row.policies:
        yield f"breaks {', '.join(row.policies)}"


def to_json(report: Report) -> dict[str, Any]:
    """The audit as plain data."""
    return {
        "classes": [_class(row) for row in report.rows],
        "pools": [
            {"place": pool.at.place} | fields_of(pool, "name", "scaler", "types", "minimum", "maximum")
            for pool in report.seen.pools
        ],
        "controllers": [fields_of(controller, "place", "version") for controller in report.seen.controllers],
        "jobs": [
            fields_of(run.job, "place", "name") | {"class": run.one.name, "usdPerRunAtMost": _usd(run.usd)} for run in report.runs
        ],
        "findings": [fields_of(line, "place", "level", "rule", "message", "subject", "diff") for line in report.findings],
        "unreadKeys": [{"place": place, "key": key} for place, key in report.seen.unread],
        "notRead": report.seen.not_read,
    }


def _class(row: Row) -> dict[str, Any]:
    return fields_of(row.one, "place", "name", "group", "version", "image", "runs_containers") | {
        "labels": sorted(row.one.labels),
        **fields_of(row, "gpus", "where", "stranded", "policies", "fix"),
        "fromZero": row.zero,
        "nodeUsdPerHour": _usd(row.node),
        "jobUsdPerHour": _usd(row.job),
        "ends": [{"day": day, "what": what} for day, what in row.ends],
    }


def _usd(amount: Money) -> float | None:
    return None if amount.unknown else round(amount.usd, 6)


def markdown(report: Report) -> str:
    """The audit as GitHub Markdown, for a comment or a job summary."""
    columns = ("Class", ">GPUs", "Runs in", "From zero", ">Idle GPUs", ">Node USD/h", ">Job USD/h", "Ends", "Policies")
    parts = [f"## {'❌' if report.failed else '✅'} Audit: {gfm.text(report.counts)}"]
    if report.rows:
        parts.append(gfm.table(columns, map(_cells, report.rows)))
    for level in _LEVELS:
        lines = [line for line in report.findings if line.level == level]
        body = "\n".join(_item(line) for line in lines)
        parts += [gfm.fold(f"{level}: {len(lines)}", body) if level == "undeterminable" else body] if lines else []
    if unread := [f"- {gfm.code(place)} {gfm.code(key)}" for place, key in report.seen.unread]:
        parts.append(gfm.fold(f"keys not read: {len(unread)}", "\n".join(unread)))
    return "\n\n".join(parts) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    zero = {True: "yes", False: "no", None: ""}[row.zero]
    ends = ", ".join(f"{what}: {day}" for day, what in row.ends)
    gpus, stranded = ("" if number is None else str(number) for number in (row.gpus, row.stranded))
    where, policies = (", ".join(map(gfm.text, texts)) for texts in (row.where, row.policies))
    return gfm.code(row.one.name), gpus, where, zero, stranded, str(row.node), str(row.job), gfm.text(ends), policies


def _item(line: Finding) -> str:
    diff = f"\n\n{gfm.fenced(line.diff, 'diff')}\n" if line.diff else ""
    return f"- **{line.level}** {gfm.code(line.rule)} {gfm.code(line.place)}: {gfm.text(line.message)}{diff}"


def sarif(report: Report) -> dict[str, Any]:
    """The audit as SARIF 2.1.0, with paths relative to the folder in which the command runs."""
    rules = sorted({line.rule for line in report.findings})
    driver = {
        "name": "gpu-ci",
        "version": report.version,
        "informationUri": PAGE,
        "rules": [{"id": rule, "shortDescription": {"text": rule}, "helpUri": f"{PAGE}#what-it-says"} for rule in rules],
    }
    results = [_result(line, rules) for line in report.findings]
    schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(line: Finding, rules: list[str]) -> dict[str, Any]:
    file, number = _at(line.place)
    found: dict[str, Any] = {
        "ruleId": line.rule,
        "ruleIndex": rules.index(line.rule),
        "level": _LEVELS[line.level],
        "message": {"text": line.message},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": file}, "region": {"startLine": number}}}],
        # The line moves when something is added above it; the rule and what it is about do not.
        "partialFingerprints": {"finding/v1": f"{line.rule}:{file}:{line.subject}"},
    }
    return found | ({"properties": {"diff": line.diff}} if line.diff else {})


def annotations(report: Report) -> Iterator[str]:
    """The audit as workflow commands, errors first."""
    for line in sorted(report.findings, key=lambda line: [*_LEVELS].index(line.level)):
        file, number = _at(line.place)
        level = "notice" if line.level == "undeterminable" else line.level
        yield str(Annotation(level, line.rule, line.message, file, number))


def _at(place: str) -> tuple[str, int]:
    """File and line of a place. The file is relative to the current folder, if it is below it."""
    match = re.fullmatch(r"(?P<file>.*):(?P<line>\d+)", place, re.DOTALL)
    return (relative(Path(match["file"])), int(match["line"])) if match else (relative(Path(place)), 1)
