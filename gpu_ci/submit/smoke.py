"""Smoke tests: of a cluster's GPU pools, which it prints or runs on the live cluster, and of GitHub's side.

The tests of a pool run one after another, so that a pool of whole GPUs starts one node. Different pools are tested at the same
time. Everything is deleted afterwards: the Jobs always, the namespace unless it existed before.

GitHub's side is the workflow test-gpu on one runner set, started by the name of the set and by its labels. The program `gh`
starts the runs, with its own login or GH_TOKEN. Whether GitHub gives a set a job that names several labels is disputed
(`fleet.prove.remarks`), so one job by name shows nothing about jobs by labels.
"""

import json
import re
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleet.facts.errors import quoted
from fleet.facts.yaml_text import yaml_text
from fleet.loading.files import listed
from fleet.prove.remarks import PAGE, ways
from fleet.providers.fleet import Fleet
from fleet.render.workloads.catalogue import TESTS, Smoke, UnknownPoolError, smoke_home, smoke_tests
from gpu_ci.submit.api import run_all
from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.errors import ApiError, InputError, SubmitError
from gpu_ci.submit.objects import JOBS, NAMESPACES, NETWORK_POLICIES, Kind, Object, name
from gpu_ci.submit.runs import Outcome, Output, Result, RunOptions, span

START = 1800
"""Seconds in which a test must start: a node has to start, and an image of 10 GB to be pulled."""
OPTIONS = RunOptions(existing="replace", cancel_on_interrupt=True, clean_up=True, start_within=START)
"""A test replaces one that an earlier run left behind, and is always deleted."""


class Row(NamedTuple):
    """One test of one pool: how it ended, or why it did not run."""

    pool: str
    test: str
    result: Result | None
    why: str = ""

    @property
    def state(self) -> str:
        """pass, fail or not run."""
        if self.result is None:
            return "not run"
        return "pass" if self.result.ok else "fail"

    @property
    def reason(self) -> str:
        """Why it did not pass."""
        if self.result is None or self.result.ok:
            return self.why
        return ": ".join(filter(None, (str(self.result.outcome), self.result.reason)))


class Chosen(NamedTuple):
    """A cluster of a stack, and the tests of its pools or of the chosen ones."""

    cluster: str
    tests: tuple[Smoke, ...]

    @property
    def refused(self) -> list[str]:
        """The tests that cannot run, and why."""
        impossible = [test for test in self.tests if test.job is None]
        return [f"{self.cluster}/{test.pool}: {test.test} cannot be run: {test.refused}" for test in impossible]

    def manifests(self) -> str:
        """All objects as YAML for kubectl: the namespace, its NetworkPolicy, then each test."""
        things: list[Object] = [*smoke_home(), *(test.job for test in self.tests if test.job is not None)]
        return f"# {self.cluster}\n" + "---\n".join(map(yaml_text, things))


def chosen(fleet: Fleet, cluster: str | None, pools: Collection[str]) -> list[Chosen]:
    """One cluster of a fleet by name, or all, in the order of the settings. Raises InputError if no test can run."""
    cluster = None if cluster is None else fleet.first_name("clusters", cluster)
    pools = [fleet.first_name("pools", pool) for pool in pools]
    names = list(fleet.clusters) if cluster is None else [cluster]
    if cluster is not None and cluster not in fleet.clusters:
        raise InputError(f"--cluster: the stack has no cluster {cluster!r}; give one of: {listed(fleet.clusters)}")
    if pools and len(names) > 1:
        raise InputError(f"--pool: the stack has several clusters; also pass --cluster, one of: {listed(names)}")
    try:
        clusters = [Chosen(name, smoke_tests(fleet.clusters[name], pools)) for name in names]
    except UnknownPoolError as error:
        raise InputError(f"--pool: {error}; give one of them") from None
    if not any(test.job is not None for member in clusters for test in member.tests):
        without = [f"{name}/{pool}" for name in names for pool in fleet.clusters[name].pools if pool in pools or not pools]
        usual = f"a test needs a GPU, and there is none in {listed(without)}" if without else "there is no pool"
        why = "; ".join(line for member in clusters for line in member.refused) or usual
        raise InputError(f"no test can be run: {why}; choose others")
    return clusters


def run_smoke(tests: Sequence[Smoke], cluster: Cluster, output: Output, options: RunOptions = OPTIONS) -> tuple[Row, ...]:
    """Run the tests in the namespace of `cluster`; the rows are in the order of the tests.

    A pool on which no test starts in time gets no further tests. Raises SubmitError if the namespace cannot be created.
    """
    rows = {(row.pool, row.test): Row(row.pool, row.test, None, row.refused) for row in tests if row.job is None}
    given_up: dict[str, str] = {}
    with _namespace(cluster, output):
        for test in TESTS:
            due = {smoke.pool: smoke.job for smoke in tests if smoke.test == test and smoke.job is not None}
            rows |= {(pool, test): Row(pool, test, None, given_up[pool]) for pool in due if pool in given_up}
            jobs = {pool: job for pool, job in due.items() if pool not in given_up}
            for pool, result in zip(jobs, run_all(list(jobs.values()), cluster, options, output), strict=True):
                rows[pool, test] = Row(pool, test, result)
                if result.outcome in (Outcome.LATE, Outcome.LOST):
                    given_up[pool] = f"{test} ended so: {result.outcome}"
                elif result.outcome is Outcome.INTERRUPTED:
                    given_up |= {smoke.pool: "interrupted" for smoke in tests}
                    # A Job whose sending was interrupted may exist.
                    with suppress(SubmitError):
                        cluster.delete(JOBS, result.job)
    return tuple(rows[smoke.pool, smoke.test] for smoke in tests)


@contextmanager
def _namespace(cluster: Cluster, output: Output) -> Iterator[None]:
    """Create the namespace of the tests; delete it afterwards unless it existed before."""
    namespace, network_policy = smoke_home()
    created = _create(cluster, NAMESPACES, namespace)
    try:
        _create(cluster, NETWORK_POLICIES, network_policy)
        yield
    finally:
        title = name(namespace)
        if created:
            try:
                cluster.delete(NAMESPACES, title)
            except SubmitError as error:
                output.progress(title, f"{error.headline}; delete it: kubectl delete namespace {title}")


def _create(cluster: Cluster, kind: Kind, thing: Object) -> bool:
    """Create an object; False if it existed before."""
    try:
        cluster.create(kind, thing)
    except ApiError as error:
        if error.code == 409 and error.reason == "AlreadyExists":
            return False
        raise
    return True


def report(cluster: str, rows: Sequence[Row], console: Console) -> None:
    """Print the table of pools and tests."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("pool", "test", "", "time", "why"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "why")
    for row in rows:
        time = span(row.result.seconds) if row.result is not None else ""
        style = {"pass": "green", "fail": "bold red"}.get(row.state, "yellow")
        table.add_row(row.pool, row.test, Text(row.state, style=style), time, Text(row.reason))
    console.print(table)
    passed, ran = sum(row.state == "pass" for row in rows), sum(row.result is not None for row in rows)
    rest = f", {len(rows) - ran} not run" if ran < len(rows) else ""
    console.print(Text(f"{cluster}: {passed} of {ran} smoke tests passed{rest}"))


# -- GitHub's side -------------------------------------------------------------------------------------------------------

WORKFLOW = "test-gpu.yml"
GH = "gh"
"""The program that talks to GitHub."""


class GitHubJob(NamedTuple):
    """One job of the workflow. `way` is name or labels, and `runs_on` the input of the workflow."""

    runner_set: str
    way: str
    runs_on: str

    @property
    def test(self) -> str:
        """What the job tests, for people."""
        return f"GitHub job by {self.way}"

    def start(self, repository: str) -> list[str]:
        """The command that starts it."""
        return ["gh", "workflow", "run", WORKFLOW, "--repo", repository, "-f", f"runs-on={self.runs_on}"]


def github_jobs(fleet: Fleet, cluster: str | None, repository: str = "") -> list[GitHubJob]:
    """The jobs for the first runner set with labels, or else for the first set, of one cluster or of all. None without a set.

    With `repository`, as owner/name, only for sets that its jobs reach.
    """
    sets = [member for member in fleet.reached_by(repository) if cluster in (None, member[0])]
    for of, runner_set, runner in sorted(sets, key=lambda member: not member[2].labels)[:1]:
        return [GitHubJob(f"{of}/{runner_set}", way, runs_on) for way, runs_on in ways(fleet, of, runner_set, runner).items()]
    return []


def require_repository(repository: str) -> None:
    """Raise InputError for a text that does not name a repository."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.-]{1,100}", repository):
        raise InputError(f"--repository: must be OWNER/REPOSITORY; got {quoted(repository)}")


def run_job(job: GitHubJob, repository: str, output: Output, start_within: float, poll: float = 15) -> Result:
    """Start a job and follow it to its end. A job that does not start in time is canceled. Raises SubmitError if gh fails."""
    began, last = time.monotonic(), _newest(repository)
    output.progress(job.runner_set, f"{job.test}: starting {WORKFLOW} of {repository}")
    _gh(job.start(repository))
    while (run := _newest(repository)) == last:
        # GitHub must list a run that was started within five minutes.
        if time.monotonic() - began > 300:
            raise SubmitError(f"GitHub shows no run of {WORKFLOW} in {repository}; check its Actions page")
        time.sleep(poll)
    try:
        return _follow(job, repository, run, began, start_within, poll)
    except KeyboardInterrupt:
        _gh(["gh", "run", "cancel", run, "--repo", repository])
        raise


def _follow(job: GitHubJob, repository: str, run: str, began: float, start_within: float, poll: float) -> Result:
    while True:
        view = _gh(["gh", "run", "view", run, "--repo", repository, "--json", "status,conclusion,url"])
        status, conclusion, url = (str(view[key]) for key in ("status", "conclusion", "url"))
        seconds = time.monotonic() - began
        if status == "completed":
            ended = Outcome.COMPLETE if conclusion == "success" else Outcome.FAILED
            why = "" if ended is Outcome.COMPLETE else f"{conclusion}: {url}"
            return Result(job.test, repository, ended, why, seconds=seconds)
        if status != "in_progress" and seconds > start_within:
            _gh(["gh", "run", "cancel", run, "--repo", repository])
            why = f"no runner took the job, so it was canceled: {url}"
            hint = f"; by name it ran: see {PAGE}" if job.way == "labels" else ""
            return Result(job.test, repository, Outcome.LATE, why + hint, seconds=seconds)
        time.sleep(poll)


def _newest(repository: str) -> str:
    options = ["--workflow", WORKFLOW, "--event", "workflow_dispatch", "--limit", "1", "--json", "databaseId"]
    runs = _gh(["gh", "run", "list", "--repo", repository, *options])
    return str(runs[0]["databaseId"]) if runs else ""


def _gh(words: list[str]) -> Any:
    """The JSON that gh prints; None for a command that prints none. Raises SubmitError."""
    try:
        process = subprocess.run([GH, *words[1:]], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 - no shell
    except OSError as error:
        why = f"--repository: gh cannot be started: {type(error).__name__}"
        raise InputError(f"{why}; install it, or leave the option out") from None
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise SubmitError(f"{' '.join(words[:3])} ended with status {process.returncode}: {last}")
    return json.loads(process.stdout) if "--json" in words else None
