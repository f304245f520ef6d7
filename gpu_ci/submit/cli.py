"""`gpu-ci submit`: prints the manifest of a GPU Job, or sends it to a cluster and follows it.

Exit status: 0 complete, 1 the Job failed, 2 the input is wrong or the cluster refuses it, 3 the cluster is unreachable and the
outcome not known. 130: interrupted; 141: the reader of stdout has ended; 70: a bug of this program. Progress goes to stderr, logs
and manifests to stdout.
"""

import logging
import re
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from fleet.facts.record import Record
from fleet.facts.yaml_text import yaml_text
from fleet.loading.config import read_fleet
from fleet.loading.files import listed
from fleet.settings.namespaces import SMOKE_NAMESPACE
from gpu_ci.app import RUN, Cluster, File, OfStack, Pools, Program, Repository, Stack, app as program, reply
from gpu_ci.submit import api, smoke
from gpu_ci.submit.cluster import Cluster as Live
from gpu_ci.submit.describe import Described
from gpu_ci.submit.errors import InputError
from gpu_ci.submit.explain import explain_live
from gpu_ci.submit.objects import name, text
from gpu_ci.submit.runs import STATUS, Existing, Outcome, Output, Propagation, Result, RunOptions

app = Program(no_args_is_help=True, help=__doc__)
program.add_typer(app, name="submit", rich_help_panel=RUN)


class Connection(Record, kw_only=True):
    """Options that select a namespace of a cluster."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: Path | None = None

    def open(self, default_namespace: str = "") -> Live:
        """Connect; `default_namespace` goes before the one of the context."""
        return api.connect(self.kubeconfig, self.context, self.namespace or default_namespace)


class Following(Record, kw_only=True):
    """Options of following a Job."""

    cancel_on_interrupt: bool = False
    foreground: bool = False
    clean_up: bool = False
    start_within: str | None = None
    stuck_after: str = "3m"

    def options(self, existing: Existing = "refuse") -> RunOptions:
        """The same as options of the Python API. Raises InputError."""
        stuck_after = _seconds("--stuck-after", self.stuck_after)
        start_within = None if self.start_within is None else _seconds("--start-within", self.start_within)
        propagation: Propagation = "Foreground" if self.foreground else "Background"
        return RunOptions(existing, self.cancel_on_interrupt, propagation, self.clean_up, stuck_after, start_within)


def command(function: Callable[..., Sequence[Result]]) -> Callable[..., None]:
    """A command of a function that returns results. They become the exit status."""

    @wraps(function)
    def run_command(**values: Any) -> None:
        # A CI system that cancels a job sends SIGTERM; it counts as Ctrl-C.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        # The client logs every broken connection; `submit` shows those that matter itself.
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        try:
            status = api.status_of(function(**values))
        except KeyboardInterrupt:
            status = STATUS[Outcome.INTERRUPTED]
        finally:
            signal.signal(signal.SIGTERM, before)
        raise typer.Exit(status)

    return run_command


@app.command("print")
@command
def print_manifest(described: Described, namespace: str | None = None) -> Sequence[Result]:
    """Print the Job's manifest, as kubectl takes it. Asks no cluster."""
    job, remarks = described.manifest(namespace)
    reply(remarks, err=True)
    sys.stdout.write(yaml_text(job))
    return ()


@app.command()
@command
def run(described: Described, following: Following, connection: Connection, existing: Existing = "refuse") -> Sequence[Result]:
    """Send the Job and follow it to its end."""
    job, remarks = described.manifest(connection.namespace)
    options, output = following.options(existing), Output()
    for line in remarks:
        output.progress(name(job), line)
    return [api.run(job, connection.open(text(job, "metadata", "namespace")), options, output)]


@app.command()
@command
def follow(job: str, following: Following, connection: Connection) -> Sequence[Result]:
    """Follow an existing Job, from the first line of its log to its end."""
    return [api.follow(job, connection.open(), following.options())]


@app.command()
@command
def delete(job: str, connection: Connection, foreground: bool = False) -> Sequence[Result]:
    """Delete a Job and its pods."""
    cluster = connection.open()
    api.delete(job, cluster, "Foreground" if foreground else "Background")
    reply((f"{job}: deleted from namespace {cluster.namespace}",))
    return ()


@app.command("explain")
@command
def explain_command(
    name: str, connection: Connection, stack: OfStack = None, cluster: Cluster = None, file: File = None
) -> Sequence[Result]:
    """Explain why a Job or a pod waits: what the cluster says, and a fix for each reason.

    With --stack the pod is also compared with the pools of the stack. Exit status 1: it waits.
    """
    if stack is None and (cluster is not None or file is not None):
        raise InputError("--cluster, --file: name a part of a stack; also pass --stack")
    fleet = None if stack is None else read_fleet(stack, file)
    live = connection.open()
    lines, waits = explain_live(name, live, fleet, cluster)
    reply(lines)
    return [Result(name, live.namespace, Outcome.LATE, "it waits")] if waits else []


@program.command("smoke", rich_help_panel=RUN)
@command
def smoke_command(
    stack: Stack,
    cluster: Cluster = None,
    pool: Pools = None,
    file: File = None,
    start_within: str | None = None,
    context: str | None = None,
    kubeconfig: Path | None = None,
    repository: Repository = None,
) -> Sequence[Result]:
    """Test that pods of each GPU pool get GPUs that work, and that GitHub's jobs reach a runner set.

    Without --context no cluster is asked, and without --repository GitHub is not: the tests are printed.
    """
    fleet = read_fleet(stack, file)
    start = smoke.START if start_within is None else _seconds("--start-within", start_within)
    jobs = smoke.github_jobs(fleet, cluster, repository or "")
    if repository is not None:
        smoke.require_repository(repository)
        if not jobs:
            raise InputError("--repository: no runner set takes jobs of this repository; leave the option out")
        if context is None:
            return _on_github(jobs, repository, start)
    chosen = smoke.chosen(fleet, cluster, pool or ())
    if context is None:
        refused = [line for tests in chosen for line in tests.refused]
        told = "the tests are only printed; with --context (make smoke CONTEXT=…) they run on the live cluster of that name"
        commands = (f"{job.runner_set}, {job.test}: {shlex.join(job.start('OWNER/REPOSITORY'))}" for job in jobs)
        reply((*refused, told, *commands), err=True)
        sys.stdout.write("---\n".join(tests.manifests() for tests in chosen))
        return ()
    if not context:
        # The client would use the current context.
        raise InputError("--context: is empty; name the cluster's context")
    if len(chosen) > 1:
        why = "--context: selects one cluster"
        raise InputError(f"{why}; also pass --cluster, one of: {listed(tests.cluster for tests in chosen)}")
    live, options = api.connect(kubeconfig, context, SMOKE_NAMESPACE), replace(smoke.OPTIONS, start_within=start)
    # Only the report goes to stdout.
    rows = smoke.run_smoke(chosen[0].tests, live, Output(logs=sys.stderr), options)
    smoke.report(chosen[0].cluster, rows, Console(file=sys.stdout))
    results = [row.result for row in rows if row.result is not None]
    return results if repository is None else [*results, *_on_github(jobs, repository, start)]


def _on_github(jobs: list[smoke.GitHubJob], repository: str, start: float) -> list[Result]:
    """Run the jobs one after another and report them. A job by labels follows only a job by name that ran."""
    rows: list[smoke.Row] = []
    for job in jobs:
        passed = all(row.state == "pass" for row in rows)
        result = smoke.run_job(job, repository, Output(logs=sys.stderr), start) if passed else None
        rows.append(smoke.Row(job.runner_set, job.test, result, "" if passed else "the job by name did not pass"))
    smoke.report(repository, rows, Console(file=sys.stdout))
    return [row.result for row in rows if row.result is not None]


def _seconds(option: str, words: str) -> float:
    if (duration := re.fullmatch(r"([0-9]{1,6})(s|m|h)?", words)) is None:
        raise InputError(f"{option}: must be a whole number of seconds, or with a unit, s, m or h; got {words!r}; write 10m")
    return float(int(duration[1]) * {None: 1, "s": 1, "m": 60, "h": 3600}[duration[2]])
