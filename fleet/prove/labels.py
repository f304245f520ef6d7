"""Runner sets that jobs reach by several labels, and whether GitHub gives them such a job.

ARC sends the labels of a set to GitHub only when it creates the set (actions-runner-controller gha-runner-scale-set-0.14.2,
autoscalingrunnerset_controller.go). Whether a job with several labels always reaches the set is disputed: README.md of
actions/scaleset says so, and actions-runner-controller#4425 and onedr0p/home-ops#11330 report jobs that wait. A job that names
the set alone always reaches it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from fleet.providers.fleet import Fleet
from fleet.settings.runner import Runner

PAGE = "docs/troubleshooting.md#by-name-it-runs-by-labels-it-waits"


def ways(fleet: Fleet, name: str, runner: Runner) -> Mapping[str, str]:
    """The `runs-on` of a job that reaches a set, as JSON: by its name and, if the set has labels, by all its labels."""
    group = fleet.group_of(runner)
    labels: dict[str, str | list[str]] = {"name": name} | ({"labels": list(runner.labels)} if runner.labels else {})
    return {way: json.dumps({"labels": value, "group": group}) for way, value in labels.items()}


def remarks(fleet: Fleet) -> Iterator[str]:
    """A line for all sets with labels. What can go wrong depends on the GitHub server."""
    labeled = [f"{cluster}/{name}" for cluster, name, runner in fleet.runner_sets() if runner.labels]
    if not labeled:
        return
    host = urlsplit(fleet.github.url).hostname or ""
    if host == "github.com":
        doubt = "whether github.com gives a set every job that names several of its labels is disputed"
    elif host.endswith(".ghe.com"):
        doubt = "users of GitHub Enterprise report that jobs with labels wait (actions-runner-controller#4425)"
    else:
        doubt = (
            "GitHub Enterprise Server takes labels from 3.18 on, with the feature flag "
            "DistributedTask.AllowRunnerScaleSetCustomLabels; otherwise it drops them without an error"
        )
    yield (
        f"labels of {' and '.join(labeled)}: {doubt}; a job that names the set alone always reaches it; GitHub learns new labels "
        f"only when the set is created again ({PAGE})"
    )
