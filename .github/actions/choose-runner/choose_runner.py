"""Chooses the first runner set of an order for which no job waits for long (docs/fallback.md). Standard library only.

A job waits if GitHub shows it as queued, without a runner, and with the label of a set as its only label. Nothing here knows why:
the cloud may have no machine, or the set may be at its maximum. Either way the next set is the better choice.

Reads the runner's GITHUB_API_URL, GITHUB_OUTPUT and GITHUB_REPOSITORY; GITHUB_TOKEN; and CHOOSE_LABELS, CHOOSE_WORKFLOWS and
CHOOSE_MINUTES of the action. Exit status: 0, or 1 if an input is wrong. Without an answer of GitHub it chooses the first set.
Facts: docs.github.com, REST API (workflow runs, workflow jobs).
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import urllib.request
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

_MOST_RUNS = 40
"""A run costs a request, and the workflows of a repository have 1,000 an hour. The oldest runs have what waits longest."""
_SECONDS = 30
_MOST_ANSWER = 20_000_000


def longest_waits(get: Callable[[str], Any], labels: list[str], workflows: list[str], now: datetime) -> Mapping[str, timedelta]:
    """By label, how long the job waits that has waited longest for a runner; zero if none waits."""
    statuses = ((file, status) for file in workflows for status in ("queued", "in_progress"))
    listed = (get(f"/actions/workflows/{file}/runs?status={status}&per_page=100")["workflow_runs"] for file, status in statuses)
    runs = sorted((run for page in listed for run in page), key=lambda run: str(run["created_at"]))
    waits = dict.fromkeys(labels, timedelta())
    for run in runs[:_MOST_RUNS]:
        for job in get(f"/actions/runs/{int(run['id'])}/jobs?per_page=100")["jobs"]:
            names = [str(label).lower() for label in job["labels"]]
            # GitHub documents null for a job without a runner, and clients also expect 0.
            if len(names) == 1 and names[0] in waits and job["status"] == "queued" and not job["runner_id"]:
                since = now - datetime.fromisoformat(job["created_at"].replace("Z", "+00:00"))
                waits[names[0]] = max(waits[names[0]], since)
    return waits


def choose(waits: Mapping[str, timedelta], patience: timedelta) -> str:
    """The first label for which no job has waited so long. If jobs wait everywhere, the label with the shortest wait."""
    return min(waits, key=lambda label: waits[label] if waits[label] >= patience else timedelta())


def inputs(environment: Mapping[str, str]) -> tuple[list[str], list[str], timedelta]:
    """Labels in lower case, workflows, and how long a job may wait. Raises ValueError if one is wrong."""
    labels, workflows = environment["CHOOSE_LABELS"].lower().split(), environment["CHOOSE_WORKFLOWS"].split()
    minutes = environment["CHOOSE_MINUTES"]
    if len(set(labels)) < 2 or len(set(labels)) < len(labels) or not all(re.fullmatch(r"[\w.-]+", label) for label in labels):
        raise ValueError(f'labels must name two runner sets or more, each once, such as "gpu-t4-west gpu-t4-east"; got {labels}')
    if not workflows or not all(re.fullmatch(r"[\w.-]+\.ya?ml", name) for name in workflows):
        raise ValueError(f'workflows must name files such as "train.yml", separated by spaces; got {workflows}')
    if not re.fullmatch(r"[1-9][0-9]{0,3}", minutes):
        raise ValueError(f"minutes must be a whole number from 1 to 9999; got {minutes!r}")
    return labels, workflows, timedelta(minutes=int(minutes))


def github(url: str, token: str) -> Callable[[str], Any]:
    """What reads the JSON at a path of the repository."""

    def get(path: str) -> Any:
        request = urllib.request.Request(url + path)  # noqa: S310 - the runner's own API
        request.add_header("Accept", "application/vnd.github+json")
        request.add_header("X-GitHub-Api-Version", "2022-11-28")
        request.add_unredirected_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - as above
            return json.loads(answer.read(_MOST_ANSWER))

    return get


def main() -> int:
    """Write the chosen label to the output `runs-on`, and a line that says why."""
    try:
        labels, workflows, patience = inputs(os.environ)
    except ValueError as error:
        sys.stdout.write(f"::error::{error}\n")
        return 1
    api = f"{os.environ['GITHUB_API_URL'].rstrip('/')}/repos/{os.environ['GITHUB_REPOSITORY']}"
    try:
        waits = longest_waits(github(api, os.environ["GITHUB_TOKEN"]), labels, workflows, _now())
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        # The job must run somewhere, also while GitHub does not answer.
        sys.stdout.write(f"::warning::GitHub does not show what waits ({type(error).__name__}); the first set is chosen\n")
        waits = dict.fromkeys(labels, timedelta())
    label = choose(waits, patience)
    shown = ", ".join(f"{name} {wait // timedelta(minutes=1)} minutes" for name, wait in waits.items())
    sys.stdout.write(f"{label}: the longest waits for a runner are {shown}\n")
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as output:
        output.write(f"runs-on={label}\n")
    return 0


def _now() -> datetime:
    return datetime.now(timezone.utc)  # noqa: UP017 - Python 3.10


if __name__ == "__main__":
    sys.exit(main())
