"""GitHub's REST API for workflow runs on a loopback port. It answers as docs/rerun.md says that GitHub does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.rerun.world import RERUN
from tests.workflows.github import BOT, REPOSITORY, GitHub

NOW = datetime(2026, 7, 15, 12, 0, tzinfo=timezone.utc)  # noqa: UP017 - as the program


def ago(since: datetime = NOW, **span: float) -> str:
    """A time in the past, as GitHub writes it."""
    return f"{since - timedelta(**span):%Y-%m-%dT%H:%M:%SZ}"


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
        "triggering_actor": {"login": "ann"},
        "created_at": ago(minutes=30),
        "updated_at": ago(minutes=1),
    } | changes


def a_job(number: int, conclusion: str = "failure", *annotations: str, labels: tuple[str, ...] = ("gpu-t4",)) -> dict[str, Any]:
    """A job with what GitHub annotates."""
    job = {"id": number, "name": f"job {number}", "conclusion": conclusion, "labels": list(labels), "annotations": annotations}
    return job | {"status": "completed", "runner_id": 3}


def a_waiting_job(**changes: Any) -> dict[str, Any]:
    """A job of a second attempt that has no runner for 40 minutes."""
    return a_job(90, labels=RERUN) | {"status": "queued", "runner_id": None, "created_at": ago(minutes=40)} | changes


def a_wake(number: int = 500, **changes: Any) -> dict[str, Any]:
    """A run of wake.yml that our workflow started an hour ago, and that waits for a runner."""
    made = {"id": number, "display_title": 'wake ["gpu-t4-rerun"]', "created_at": ago(hours=1), "event": "workflow_dispatch"}
    return made | {"status": "queued", "conclusion": None, "triggering_actor": BOT} | changes


@dataclass
class Runs(GitHub):
    """The runs of one repository, and their jobs by run. A runner set at zero runs the reruns: a node starts in four minutes."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    jobs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    again: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """Jobs of the last attempts that are reruns."""
    wakes: list[dict[str, Any]] = field(default_factory=list)
    dispatches: list[Any] = field(default_factory=list)
    unheard: int = 0
    """Of how many new jobs the runner set never hears. Its first runner takes the job that waits longest, then the next one."""
    now: datetime = NOW
    starts: datetime | None = None
    """When the runner set has runners for all jobs that wait."""

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
        return self._posts("rerun-failed-jobs")

    @property
    def cancelled(self) -> list[int]:
        """The runs whose end was asked for, in order."""
        return self._posts("cancel")

    def _posts(self, what: str) -> list[int]:
        return [int(path.split("/")[-2]) for method, path, _ in self.requests if method == "POST" and path.endswith(f"/{what}")]

    def pass_time(self, span: timedelta) -> None:
        """Later, the runner set may have its runners."""
        self.now += span
        if self.starts and self.now >= self.starts:
            self.starts = None
            for job in (job for jobs in self.again.values() for job in jobs if job["status"] == "queued"):
                job |= {"status": "in_progress", "runner_id": 5}

    def _heard(self) -> None:
        if self.unheard:
            self.unheard -= 1
        else:
            self.starts = self.now + timedelta(minutes=4)

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], body: Any) -> tuple[int, Any]:
        """Status and answer of a request."""
        inside = path.removeprefix(f"/repos/{REPOSITORY}/")
        if found := re.fullmatch(r"actions/runs/(\d+)/rerun-failed-jobs", inside):
            return self._rerun(method, self.run(int(found[1])))
        if method == "POST":
            return self._wake(inside, body)
        assert method == "GET"
        if found := re.fullmatch(r"actions/runs/(\d+)", inside):
            return 200, self.run(int(found[1]))
        if found := re.fullmatch(r"actions/runs/(\d+)/attempts/(\d)/jobs", inside):
            run, attempt = int(found[1]), int(found[2])
            assert attempt in (1, self.run(run)["run_attempt"]), "the stand-in keeps the first attempt and the last"
            return 200, _page("jobs", (self.jobs if attempt == 1 else self.again)[run], query)
        return self._listed(inside, query)

    def _listed(self, inside: str, query: Mapping[str, list[str]]) -> tuple[int, Any]:
        if inside == "actions/workflows/wake.yml/runs":
            assert query["event"] == ["workflow_dispatch"]
            return 200, _page("workflow_runs", [run for run in self.wakes if run["created_at"] >= query["created"][0][2:]], query)
        if re.fullmatch(r"actions/workflows/(train\.yml|7)/runs", inside):
            return 200, _page("workflow_runs", [run for run in self.runs if _matches(run, query)], query)
        if found := re.fullmatch(r"check-runs/(\d+)/annotations", inside):
            of_runs = (*self.jobs.values(), *self.again.values())
            every = [job for jobs in of_runs for job in jobs if job["id"] == int(found[1])]
            return 200, _page("", [{"message": text} for job in every for text in job["annotations"]], query)
        return 404, {"message": "Not Found"}

    def _rerun(self, method: str, run: dict[str, Any]) -> tuple[int, Any]:
        assert method == "POST"
        if run["status"] != "completed":
            return 403, {"message": "The workflow run containing this job is already running"}
        run |= {"run_attempt": run["run_attempt"] + 1, "status": "queued", "conclusion": None, "triggering_actor": BOT}
        killed = [job for job in self.jobs[run["id"]] if job["conclusion"] != "success"]
        self.again[run["id"]] = [a_waiting_job(id=job["id"] + 1000, created_at=ago(self.now)) for job in killed]
        self._heard()
        return 201, {}

    def _wake(self, inside: str, body: Any) -> tuple[int, Any]:
        if found := re.fullmatch(r"actions/runs/(\d+)/cancel", inside):
            (run,) = [run for run in self.wakes if run["id"] == int(found[1])]
            if run["status"] == "completed":
                return 409, {"message": "Cannot cancel a workflow run that is completed."}
            run |= {"status": "completed", "conclusion": "cancelled"}
            return 202, {}
        assert inside == "actions/workflows/wake.yml/dispatches"
        self.dispatches.append(body)
        name = f"wake {body['inputs']['runs-on']}"
        for run in self.wakes:
            # The concurrency group of wake.yml.
            if run["display_title"] == name:
                run |= {"status": "completed", "conclusion": "cancelled"}
        self.wakes.append(a_wake(501 + len(self.wakes), display_title=name, created_at=ago(self.now)))
        self._heard()
        return 204, b""


def _matches(run: Mapping[str, Any], query: Mapping[str, list[str]]) -> bool:
    asked = {name: values[0] for name, values in query.items()}
    assert asked.keys() <= {"status", "created", "event", "branch", "per_page", "page"}, "GitHub ignores other parameters"
    assert asked["created"].startswith(">=")
    return bool(
        asked.get("status", run["status"]) in (run["status"], run["conclusion"])
        and run["created_at"] >= asked["created"].removeprefix(">=")
        and asked.get("event", run["event"]) == run["event"]
        and asked.get("branch", run["head_branch"]) == run["head_branch"]
    )


def _page(name: str, entries: list[Any], query: Mapping[str, list[str]]) -> Any:
    size, page = int(query["per_page"][0]), int(query["page"][0])
    assert size <= 100, "GitHub's largest page"
    part = entries[size * (page - 1) : size * page]
    return {"total_count": len(entries), name: part} if name else part
