"""GitHub's answers about the runs of example/app, on loopback.

The answers have the fields of GitHub's OpenAPI description that `why` reads, and some that it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from gpu_ci.cli import app
from gpu_ci.doctor.sources import web
from tests.doctor.loopback import Loopback, serve

API = "https://api.github.com"
URL = "https://github.com/example/app/actions/runs/7"
TOKEN = "a-token-of-a-person"  # noqa: S105 - of nobody
NOW = datetime(2026, 12, 1, tzinfo=UTC)
ANSWERED = tuple[Any, ...]


def job(number: int, name: str = "train", *labels: str, status: str = "queued", **changes: Any) -> dict[str, Any]:
    """A job that asks for gpu-t4, or for `labels`. Its number is the minute of its creation. One that runs has a runner."""
    created = f"2026-11-27T{10 + number // 60:02}:{number % 60:02}:00Z"
    runner = None if status not in ("in_progress", "completed") else f"gpu-t4-abcde-runner-{number}"
    return {
        "id": number,
        "name": name,
        "status": status,
        "conclusion": None,
        "created_at": created,
        "started_at": created,
        "completed_at": None,
        "labels": list(labels or ("gpu-t4",)),
        "runner_id": number if runner else 0,
        "runner_name": runner,
        "runner_group_name": "gpu" if runner else None,
        "steps": [],
    } | changes


def pages(path: str, key: str, entries: Iterable[Any], size: int = 100) -> dict[str, ANSWERED]:
    """The pages of a list, of `size` entries each, and an empty one after them."""
    listed = list(entries)
    parts = [listed[start : start + size] for start in range(0, len(listed), size)]
    return {
        f"{path}&per_page=100&page={number}": (200, {"total_count": len(listed), key: part})
        for number, part in enumerate([*parts, []], 1)
    }


def answers(
    jobs: Iterable[Any],
    others: Mapping[int, Iterable[Any]] = {},
    groups: Iterable[str] | None = ("GPU", "gpu-releases"),
    run: Any = None,
    size: int = 100,
    base: str = "",
) -> dict[str, ANSWERED]:
    """Run 7 with its jobs, and other runs in progress with theirs. `groups` are those of the repository; None: 403."""
    repository = f"{base}/repos/example/app/actions/runs"
    active = [{"id": number, "status": "in_progress", "conclusion": None} for number in (7, *others)]
    found = {f"{repository}/7": (200, run or active[0])}
    found |= pages(f"{repository}/7/jobs?filter=latest", "jobs", jobs, size)
    found |= pages(f"{repository}?status=in_progress", "workflow_runs", active)
    found |= pages(f"{repository}?status=queued", "workflow_runs", [])
    for number, entries in others.items():
        found |= pages(f"{repository}/{number}/jobs?filter=latest", "jobs", entries)
    path = f"{base}/orgs/example/actions/runner-groups?visible_to_repository=app"
    listed = [{"id": number, "name": name, "visibility": "selected"} for number, name in enumerate(groups or ())]
    return found | (pages(path, "runner_groups", listed) if groups is not None else {path: (403, {"message": "no"})})


@contextmanager
def github(given: Mapping[str, ANSWERED], host: str = API, token: str = TOKEN, now: datetime = NOW) -> Iterator[Loopback]:
    """A server in the place of GitHub's API, at this time."""
    with serve(given) as server, pytest.MonkeyPatch.context() as patch:
        patch.setitem(web.INSTEAD, host, server.url)
        for name in ("GITHUB_TOKEN", "GITHUB_SERVER_URL", "GH_HOST", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"):
            patch.delenv(name, raising=False)
        patch.setenv("GH_TOKEN", token)
        patch.setattr("gpu_ci.offline.commands.why._now", lambda: now)
        yield server


def why(given: Mapping[str, ANSWERED], *words: str, target: str = URL, token: str = TOKEN, now: datetime = NOW) -> Any:
    """The command about a run, or with `--report` about the repository."""
    with github(given, token=token, now=now):
        return invoke(target, *words)


def invoke(*words: str) -> Any:
    """The command, at the server that runs."""
    return CliRunner().invoke(app, ["why", *words])
