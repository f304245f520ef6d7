"""GitHub's REST API for workflow runs on a loopback port. It answers as docs/rerun.md says that GitHub does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.workflows.github import REPOSITORY, GitHub

NOW = datetime.now(timezone.utc)  # noqa: UP017 - as the program


def ago(**span: float) -> str:
    """A time in the past, as GitHub writes it."""
    return f"{NOW - timedelta(**span):%Y-%m-%dT%H:%M:%SZ}"


def a_run(number: int, **changes: Any) -> dict[str, Any]:
    """A first attempt of train.yml that failed a moment ago."""
    return {
        "id": 1000 + number,
        "run_number": number,
        "run_attempt": 1,
        "status": "completed",
        "conclusion": "failure",
        "event": "push",
        "head_branch": "main",
        "head_repository": {"full_name": REPOSITORY},
        "workflow_id": 7,
        "created_at": ago(minutes=30),
        "updated_at": ago(minutes=1),
    } | changes


def a_job(number: int, conclusion: str = "failure", *annotations: str, labels: tuple[str, ...] = ("gpu-t4",)) -> dict[str, Any]:
    """A job with what GitHub annotates."""
    return {"id": number, "name": f"job {number}", "conclusion": conclusion, "labels": list(labels), "annotations": annotations}


@dataclass
class Runs(GitHub):
    """The runs of one repository, and their jobs by run."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    jobs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, run: dict[str, Any], *jobs: dict[str, Any]) -> int:
        """A run with its jobs; its number."""
        self.runs.append(run)
        self.jobs[run["id"]] = list(jobs)
        return int(run["id"])

    def run(self, identity: int) -> dict[str, Any]:
        """A run by its number."""
        return next(run for run in self.runs if run["id"] == identity)

    @property
    def reruns(self) -> list[int]:
        """The runs whose rerun was asked for, in order."""
        return [int(path.split("/")[-2]) for method, path, _ in self.requests if method == "POST"]

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], body: Any) -> tuple[int, Any]:
        """Status and answer of a request."""
        del body
        inside = path.removeprefix(f"/repos/{REPOSITORY}/")
        if found := re.fullmatch(r"actions/runs/(\d+)/rerun-failed-jobs", inside):
            return self._rerun(method, self.run(int(found[1])))
        assert method == "GET"
        if found := re.fullmatch(r"actions/runs/(\d+)", inside):
            return 200, self.run(int(found[1]))
        if found := re.fullmatch(r"actions/runs/(\d+)/attempts/1/jobs", inside):
            return 200, _page("jobs", self.jobs[int(found[1])], query)
        if re.fullmatch(r"actions/workflows/(train\.yml|7)/runs", inside):
            return 200, _page("workflow_runs", [run for run in self.runs if _matches(run, query)], query)
        if found := re.fullmatch(r"check-runs/(\d+)/annotations", inside):
            every = [job for jobs in self.jobs.values() for job in jobs if job["id"] == int(found[1])]
            return 200, _page("", [{"message": text} for job in every for text in job["annotations"]], query)
        return 404, {"message": "Not Found"}

    def _rerun(self, method: str, run: dict[str, Any]) -> tuple[int, Any]:
        assert method == "POST"
        if run["status"] != "completed":
            return 403, {"message": "The workflow run containing this job is already running"}
        run |= {"run_attempt": run["run_attempt"] + 1, "status": "queued", "conclusion": None}
        return 201, {}


def _matches(run: Mapping[str, Any], query: Mapping[str, list[str]]) -> bool:
    asked = {name: values[0] for name, values in query.items()}
    assert asked.keys() <= {"status", "created", "event", "branch", "per_page", "page"}, "GitHub ignores other parameters"
    assert asked["created"].startswith(">=")
    return bool(
        asked.get("status", run["conclusion"]) == run["conclusion"]
        and run["created_at"] >= asked["created"].removeprefix(">=")
        and asked.get("event", run["event"]) == run["event"]
        and asked.get("branch", run["head_branch"]) == run["head_branch"]
    )


def _page(name: str, entries: list[Any], query: Mapping[str, list[str]]) -> Any:
    size, page = int(query["per_page"][0]), int(query["page"][0])
    assert size <= 100, "GitHub's largest page"
    part = entries[size * (page - 1) : size * page]
    return {"total_count": len(entries), name: part} if name else part
