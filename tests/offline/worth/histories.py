"""Histories of made-up repositories, as GitHub's REST API answers. The same numbers give the same jobs."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

LABELS = ("self-hosted", "gpu")
FIRST = datetime(2026, 10, 1, tzinfo=UTC)
SHARED = """\
config:
  pulumi:disable-default-providers: ["*"]
  gpu-ci:github: {url: https://github.com/example, appId: "123456", installationId: "12345678", group: gpu}
  gpu-ci:tags: {owner: ci-platform, cost-center: ci, stack: shared, ttl: permanent}
  gpu-ci:clusters:
    usw2:
      provider: eks
      region: us-west-2
      kubernetesVersion: "1.36"
      endpoint: {publicCidrs: [203.0.113.0/24]}
      budget: {monthlyUsd: 9000, emails: [ci-alerts@example.com]}
      health: {}
      pools:
        a100: {instanceTypes: [p4d.24xlarge], capacity: on-demand, role: burst, nodes: {max: 4}}
      runners:
        gpu-a100:
          pool: a100
          cpu: {request: 8, limit: 12}
          memory: {request: 64Gi, limit: 128Gi}
          labels: [self-hosted, linux, x64, gpu, cuda]
          scale: {max: 32}
"""
"""A fleet whose nodes hold eight jobs, while AWS sells no machine with fewer A100."""


def job(number: int, start: float, seconds: float, wait: float = 30, **more: Any) -> dict[str, Any]:
    """A job that is created so many seconds after the first day begins, and ran."""
    created = FIRST + timedelta(seconds=start)
    began = created + timedelta(seconds=wait)
    times = {"created_at": created, "started_at": began, "completed_at": began + timedelta(seconds=seconds)}
    texts = {key: f"{moment:%Y-%m-%dT%H:%M:%SZ}" for key, moment in times.items()}
    whole = {
        "id": number,
        "run_id": 1,
        "name": f"test {number}",
        "status": "completed",
        "conclusion": "success",
        "labels": LABELS,
    }
    return {**whole, **texts, "runner_name": "runner", "runner_group_name": "gpu", **more}


def repository(jobs: int, days: int = 31, median: float = 600, seed: int = 1) -> list[dict[str, Any]]:
    """Jobs of some days, at any time of them, with lognormal lengths."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    starts = sorted(dice.randrange(days * 86_400 - 7200) for _ in range(jobs))
    return [
        job(at, start, round(median * dice.lognormvariate(0, 0.5)), dice.randrange(10, 60)) for at, start in enumerate(starts)
    ]


def written(path: Path, jobs: list[dict[str, Any]]) -> str:
    """The path of a file with one page of jobs."""
    path.write_text(json.dumps({"total_count": len(jobs), "jobs": jobs}))
    return str(path)
