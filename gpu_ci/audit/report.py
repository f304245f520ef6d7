"""What an audit says of each runner class and of each job, in rows, and all of it as text, JSON, Markdown, SARIF and annotations
of GitHub.

SARIF is version 2.1.0 of OASIS' Static Analysis Results Interchange Format, with what GitHub's code scanning reads of it
(docs.github.com, "SARIF support for code scanning"). A run shows ten annotations of each level, so errors come first.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from fleet.facts.groups import grouped
from fleet.facts.lifecycle import of_image
from fleet.facts.pricing import Money
from fleet.facts.record import Record
from fleet.facts.support import EKS_SUPPORT
from gpu_ci.audit.finding import Finding, diff_of, relative
from gpu_ci.audit.homes import answer, homes, price_of
from gpu_ci.audit.model import RunnerClass, Seen, gpus_of
from gpu_ci.offline import gfm
from gpu_ci.offline.jsontext import fields_of
from gpu_ci.offline.layout import log_line, shown_text
from gpu_ci.offline.notes import Annotation
from gpu_ci.workflows.job import Job


class Row(Record):
    """One runner class. `where` has each pool with the jobs on a node, `zero` whether it starts from no node; None: not known.

    `stranded` are the GPUs that stay idle on a full node of the first pool, None if that is not known. `node` and `job` are USD
    an hour of a node of the first pool, and of a job on a full node. `ends` have the day, empty if it is none.
    """

    one: RunnerClass
    gpus: int | None
    where: tuple[str, ...]
    zero: bool | None
    stranded: int | None
    node: Money
    job: Money
    ends: tuple[tuple[str, str], ...]
    policies: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def fix(self) -> str:
        """The edits of its findings as one diff, errors first; "" if no edit of a file is known."""
        return diff_of(edit for finding in self.findings for edit in finding.edits)


class Run(Record):
    """One job on the class that takes it: USD at most for a run, until its timeout."""

    job: Job
    one: RunnerClass
    usd: Money


def rows(
    seen: Seen, findings: Iterable[Finding], day: date, region: str, policies: Mapping[str, tuple[str, ...]]
) -> Iterator[Row]:
    """The runner classes in the order of the files. `region`: whose prices count if the file names none."""
    lines = sorted(findings, key=lambda line: line.level != "error")
    for one in seen.classes:
        found = homes(one, seen)
        own = tuple(line for line in lines if line.subject == one.name and line.place == one.place)
        first = found[0] if found else None
        proved = answer(one, seen)
        zero: bool | None
        stranded: int | None
        if one.machines:
            where, zero, stranded = one.machines, not one.minimum, 0
            node = job = price_of(one.machines[0], one.region or region, one.capacities)
        else:
            where = tuple(f"{home.pool.name} ({home.words})" for home in found)
            zero = first.from_zero if first else None if proved is None else False
            stranded = first.stranded if first and first.held is not None else None
            node, job = (first.node_price(region), first.price(region)) if first else (Money(unknown=1), Money(unknown=1))
        ends = tuple(sorted(_ends(one, seen, day, [home.pool.name for home in found])))
        yield Row(one, gpus_of(one), where, zero, stranded, node, job, ends, policies.get(one.place, ()), own)


def runs(seen: Seen, region: str) -> Iterator[Run]:
    """The jobs whose class and timeout are known, with what a run costs at most."""
    for job in seen.jobs:
        serving = [one for one in seen.classes if not job.unresolved and one.serves(job.runs_on)]
        if len(serving) == 1 and job.timeout is not None:
            (one,) = serving
            found = homes(one, seen)
            machine = price_of(one.machines[0], one.region or region, one.capacities) if one.machines else None
            hour = machine or (found[0].price(region) if found else Money(unknown=1))
            yield Run(job, one, hour.times(job.timeout / 60))


def _ends(one: RunnerClass, seen: Seen, day: date, pools: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What a class uses and the last good day of each."""
    life = of_image(one.image, day) if one.image else None
    if life is not None and (last := life.last or life.may_end):
        yield str(last), life.what if life.last else f"{life.what}, at the earliest,"
    ids = {name for pool in seen.pools if pool.name in pools for name in pool.reservations}
    for keys in seen.of_kind("CapacityReservation"):
        if (name := keys.text("CapacityReservationId")) in ids:
            yield keys.text("EndDate")[:10], f"reservation {name}"
    for version in {pool.kubernetes for pool in seen.pools if pool.name in pools and pool.kubernetes}:
        if row := EKS_SUPPORT.get(".".join(version.removeprefix("v").split(".")[:2])):
            yield str(row.standard_until), f"standard support of Kubernetes {row.minor} on EKS"


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
