"""The action job-cost: time of the job times the price of the runner's part of its machine, in the job's summary."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.builders import ROOT

SCRIPT = ROOT / ".github" / "actions" / "job-cost" / "job_cost.sh"
STARTED, UPTIME = 100_000, 1_750.25
"""The worker started 1000 seconds after boot, in hundredths; the machine is up for 1750 seconds."""


def stat(pid: int, name: str, parent: int, start: int) -> str:
    """A line of /proc/<pid>/stat (man 5 proc_pid_stat): the start is field 22."""
    return f"{pid} ({name}) S {parent} {' '.join(['0'] * 17)} {start} 0 0\n"


@pytest.fixture
def run(tmp_path: Path):
    """Runs the script below these processes; gives what it says and the summary."""

    def call(price: str | None, *, worker: str = "Runner.Worker") -> tuple[str, str]:
        # The script, a shell with a strange name, the worker, the listener of an earlier start.
        chain = [("self", "job_cost.sh", 30, 170_000), ("30", "sh) S 1 (", 20, 169_000), ("20", worker, 10, STARTED)]
        for pid, name, parent, start in [*chain, ("10", "Runner.Listener", 0, 50_000)]:
            (tmp_path / "proc" / pid).mkdir(parents=True)
            (tmp_path / "proc" / pid / "stat").write_text(stat(40, name, parent, start))
        (tmp_path / "proc" / "uptime").write_text(f"{UPTIME} 3000.00\n")
        summary = tmp_path / "summary"
        summary.write_text("# Before\n")
        known = {} if price is None else {"GPU_CI_USD_PER_HOUR": price}
        done = subprocess.run(
            [SCRIPT],
            env={
                "PATH": "/usr/bin:/bin",
                "GPU_CI_PROC": str(tmp_path / "proc"),
                "GITHUB_JOB": "test-gpu",
                "GITHUB_STEP_SUMMARY": str(summary),
            }
            | known,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), "the cost never fails a job"
        return done.stdout, summary.read_text()

    return call


def test_the_summary_has_the_time_since_the_worker_started_and_its_cost(run):
    said, summary = run("0.376")
    assert said == "Cost of this job: 12 min 30 s | 0.376 | 0.0783\n"
    assert summary.startswith(
        "# Before\n### Cost of this job\n\n| Job | Time | USD per hour | USD |\n| --- | ---: | ---: | ---: |\n"
    )
    assert "\n| test-gpu | 12 min 30 s | 0.376 | 0.0783 |\n" in summary


@pytest.mark.parametrize(
    ("price", "row"),
    [
        ("0.188-0.376", "0.188 to 0.376 | 0.0392 to 0.0783"),
        ("0-0.376", "at most 0.376 | at most 0.0783"),
        ("32.7726", "32.7726 | 6.8276"),
    ],
)
def test_a_price_may_be_a_range_or_an_upper_bound(run, price, row):
    assert f"| test-gpu | 12 min 30 s | {row} |\n" in run(price)[1]


@pytest.mark.parametrize("price", [None, "", "unknown", "1; rm -rf /", "1-", "-1", "1-2-3", "$(id)"])
def test_without_a_price_a_notice_says_so_and_the_summary_stays(run, price):
    assert run(price) == (
        "::notice title=job-cost::the runner does not know its price, so the cost of the job is unknown\n",
        "# Before\n",
    )


def test_without_the_worker_the_cost_is_unknown(run):
    said, summary = run("0.376", worker="docker-init")
    assert said.startswith("::notice title=job-cost::the start of the job is unknown here, ")
    assert summary == "# Before\n"
