"""The jobs of an export: answers of GitHub's REST API, or a CSV.

Sources: docs.github.com, REST API, workflow jobs. A job in containers has the step "Initialize containers" (actions/runner,
JobExtension.cs). A rerun shows jobs of an earlier attempt that started before it (tenstorrent/tt-metal#12010).
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from fleet.facts.errors import Fault, InputError, quoted, reachable
from fleet.facts.limits import read_bytes
from gpu_ci.doctor.sources.actions import ENDED, Job

_MOST_BYTES = 500_000_000
_COLUMNS = ("created_at", "started_at", "completed_at", "labels")
_OTHERS = ("id", "name", "status", "conclusion", "runner_name", "runner_group_name", "container")
_CONTAINERS = "Initialize containers"


class _Step(BaseModel):
    name: str


_Moment = Annotated[AwareDatetime, Field(ge=datetime(2018, 1, 1, tzinfo=UTC), le=datetime(2100, 1, 1, tzinfo=UTC))]
"""GitHub Actions began in 2018."""


class Past(Job):
    """A job of an export."""

    created_at: _Moment
    started_at: _Moment | None = None
    completed_at: _Moment | None = None
    conclusion: str | None = None
    steps: tuple[_Step, ...] | None = None

    @property
    def container(self) -> bool:
        """Whether it had `container` or `services`."""
        return any(step.name == _CONTAINERS for step in self.steps or ())

    @cached_property
    def came(self) -> float:
        """When it was created, in seconds since 1970."""
        return self.created_at.timestamp()

    @cached_property
    def waited(self) -> float:
        """Seconds in the queue, for a job that started."""
        return (self.started_at - self.created_at).total_seconds() if self.started_at else 0

    @cached_property
    def took(self) -> float:
        """Seconds of work, for a job that ended."""
        return (self.completed_at - self.started_at).total_seconds() if self.started_at and self.completed_at else 0


def read(path: Path) -> tuple[tuple[Past, ...], Counter[str]]:
    """The jobs of an export that used a runner, the oldest first, and how many others it has, by reason.

    Raises InputError with file, row, field, value and fix.
    """
    with reachable(f"HISTORY: cannot read {path}", "name a file with GitHub's answers about jobs, or a CSV of them"):
        text = read_bytes(path, _MOST_BYTES).decode("utf-8-sig", errors="replace").strip()
    others, jobs = Counter[str](), dict[int, Past]()
    for line, where, row in _json(path, text) if text[:1] in ("[", "{") else _csv(path, text):
        try:
            job = Past.model_validate(row)
        except ValidationError as error:
            raise _fault(path, line, where, error) from None
        if reason := "the same job again" if job.id in jobs else _unused(job):
            others[reason] += 1
        else:
            jobs[job.id] = job
    return tuple(sorted(jobs.values(), key=lambda job: (job.created_at, job.id))), others


def _unused(job: Past) -> str:
    """Why a job used no runner; empty if it did."""
    if job.conclusion == "skipped" or job.status != ENDED:
        return "skipped" if job.conclusion == "skipped" else "not ended"
    if not (job.runner_name and job.started_at and job.completed_at) or job.took < 0:
        return "ended without a runner"
    return "a copy of an earlier attempt" if job.waited < 0 else ""


def _json(path: Path, text: str) -> Iterator[tuple[int | None, str, object]]:
    """The jobs of one document or of several, one after another: a page, a list of pages or jobs, or a job."""
    at, number = 0, 0
    while at < len(text):
        try:
            value, at = json.JSONDecoder().raw_decode(text, at)
        # A number of thousands of digits is a ValueError, too.
        except (ValueError, RecursionError) as error:
            line, why = text.count("\n", 0, getattr(error, "pos", at)) + 1, getattr(error, "msg", "too deep or too long")
            raise InputError(f"{path}:{line}: not JSON: {why}; export it again") from None
        for page in value if isinstance(value, list) else [value]:
            for job in page["jobs"] if isinstance(page, dict) and isinstance(page.get("jobs"), list) else [page]:
                number += 1
                yield None, f"job {number}", job
        while at < len(text) and text[at].isspace():
            at += 1


def _csv(path: Path, text: str) -> Iterator[tuple[int | None, str, object]]:
    """The jobs of a CSV. An empty cell has no value."""
    reader = csv.DictReader(io.StringIO(text), restkey="")
    columns = set(reader.fieldnames or ())
    lacks = [f"it lacks column {name}" for name in _COLUMNS if name not in columns]
    if wrong := lacks or [f"unknown column {quoted(name)}" for name in sorted(columns - {*_COLUMNS, *_OTHERS})]:
        fix = f"the first line names {', '.join(_COLUMNS)}, and may name {', '.join(_OTHERS)}"
        raise InputError(f"{path}:1: {wrong[0]}; {fix}")
    known = {"name": "", "status": ENDED} | ({} if "runner_name" in columns else {"runner_name": "not exported"})
    for number, cells in enumerate(reader, 1):
        if "" in cells:
            raise InputError(
                f"{path}:{reader.line_num}: row {number} has more cells than the first line; quote texts with commas"
            )
        row = {"id": number, **known, **{name: cell for name, cell in cells.items() if cell}}
        row["labels"] = [label.strip() for label in str(row.get("labels", "")).split(";") if label.strip()]
        if (held := row.get("container", "false")) not in ("true", "false"):
            raise InputError(f"{path}:{reader.line_num}: row {number}.container: write true or false; got {quoted(held)}")
        row["steps"] = [{"name": _CONTAINERS}] if row.get("container") == "true" else None
        yield reader.line_num, f"row {number}", row


def _fault(path: Path, line: int | None, where: str, error: ValidationError) -> InputError:
    first = error.errors(include_url=False)[0]
    fix = (
        "write a time such as 2026-11-02T09:00:00Z"
        if any(str(name).endswith("_at") for name in first["loc"])
        else "export jobs, not runs"
    )
    got = "" if first["type"] == "missing" else quoted(first["input"])
    fault = Fault(f"{first['msg']}; {fix}", str(path), line, ".".join(map(str, (where, *first["loc"]))), "history", got)
    return InputError(str(fault), (fault,))
