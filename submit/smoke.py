"""Smoke tests of a cluster's GPU pools: printed, or run on the live cluster and reported, test by test.

On each pool the tests run one after another, so that a pool of whole GPUs starts one node; the pools are tested side by side.
Everything that was made is deleted again: the Jobs always, the namespace if it was not there before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleet.facts.yaml_text import yaml_text
from fleet.providers.fleet import Fleet
from fleet.render.workloads.smoke import TESTS, Smoke, UnknownPoolError, smoke_home, smoke_tests
from submit.api import Ways, run_all
from submit.errors import ApiError, InputError, SubmitError
from submit.kinds import NAMESPACES, NETWORK_POLICIES, Kind
from submit.objects import Object, listed, name
from submit.result import Outcome, Result, span
from submit.story import Limits
from submit.view import Teller

if TYPE_CHECKING:
    from submit.cluster import Cluster

START = 1800
"""Seconds in which a test must begin: a node has to start and an image of 10 GB to come."""
WAYS = Ways(existing="replace", cancel=True, clean_up=True, limits=Limits(start=START))
"""A test that was left behind gives way, and none is left behind."""
_EXISTS = 409


@dataclass(frozen=True, slots=True)
class Row:
    """One test of one pool: how it ended, or why it was not run."""

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


@dataclass(frozen=True, slots=True)
class Chosen:
    """A cluster of a stack and the tests of its pools, or of those that were named."""

    cluster: str
    tests: tuple[Smoke, ...]

    @property
    def refused(self) -> list[str]:
        """What cannot be run, and why."""
        return [
            f"{self.cluster}/{each.pool}: {each.test} cannot be run: {each.refused}" for each in self.tests if each.job is None
        ]

    def manifests(self) -> str:
        """All objects as YAML, as kubectl takes them: the namespace, its wall, then each test."""
        found: list[Object] = [*smoke_home(), *(each.job for each in self.tests if each.job is not None)]
        return f"# {self.cluster}\n" + "---\n".join(map(yaml_text, found))


def chosen(fleet: Fleet, cluster: str | None, pools: Collection[str]) -> list[Chosen]:
    """One cluster of a fleet by name, or all, in the order of the settings. Raises InputError where nothing can be run."""
    names = list(fleet.clusters) if cluster is None else [cluster]
    if cluster is not None and cluster not in fleet.clusters:
        raise InputError(f"--cluster: the stack has no cluster {cluster!r}; give one of: {listed(fleet.clusters)}")
    if pools and len(names) > 1:
        raise InputError(f"--pool: the stack has several clusters; give --cluster too, one of: {listed(names)}")
    try:
        found = [Chosen(name, smoke_tests(fleet.clusters[name], pools)) for name in names]
    except UnknownPoolError as error:
        raise InputError(f"--pool: {error}; give one of them") from None
    if not any(each.job is not None for one in found for each in one.tests):
        why = "; ".join(line for one in found for line in one.refused) or "there is no pool"
        raise InputError(f"no test can be run: {why}; choose others")
    return found


def run_smoke(tests: Sequence[Smoke], cluster: Cluster, teller: Teller, ways: Ways = WAYS) -> tuple[Row, ...]:
    """Run the tests on a cluster, whose namespace is that of smoke tests; the rows are in the order of the tests.

    A pool on which nothing begins in time is not asked again. Raises SubmitError where the namespace cannot be made.
    """
    rows = {(each.pool, each.test): Row(each.pool, each.test, None, each.refused) for each in tests if each.job is None}
    given_up: dict[str, str] = {}
    with _home(cluster, teller):
        for test in TESTS:
            due = [each for each in tests if each.test == test and each.job is not None]
            for each in due:
                if each.pool in given_up:
                    rows[each.pool, test] = Row(each.pool, test, None, given_up[each.pool])
            asked = [each for each in due if each.pool not in given_up]
            results = run_all([each.job for each in asked if each.job is not None], cluster, ways, teller, together=True)
            for each, result in zip(asked, results, strict=True):
                rows[each.pool, test] = Row(each.pool, test, result)
                if result.outcome in (Outcome.LATE, Outcome.LOST):
                    given_up[each.pool] = f"{each.test} ended so: {result.outcome}"
                elif result.outcome is Outcome.INTERRUPTED:
                    given_up |= {one.pool: "interrupted" for one in tests}
                    _swept(cluster, result.job)
    return tuple(rows[each.pool, each.test] for each in tests)


def _swept(cluster: Cluster, job: str) -> None:
    """Delete a Job that Ctrl-C may have left: while it is sent nobody knows whether it was made."""
    with suppress(SubmitError):
        cluster.delete_job(job)


@contextmanager
def _home(cluster: Cluster, teller: Teller) -> Iterator[None]:
    """The namespace of the tests, for as long as they run, unless it was there before."""
    namespace, wall = smoke_home()
    made = _made(cluster, NAMESPACES, namespace)
    try:
        _made(cluster, NETWORK_POLICIES, wall)
        yield
    finally:
        if made:
            try:
                cluster.delete(NAMESPACES, name(namespace))
            except SubmitError as error:
                teller.say(
                    name(namespace), f"{str(error).splitlines()[0]}; delete it: kubectl delete namespace {name(namespace)}"
                )


def _made(cluster: Cluster, kind: Kind, thing: Object) -> bool:
    """Make an object; whether it was not there before."""
    try:
        cluster.create(kind, thing)
    except ApiError as error:
        if error.code == _EXISTS and error.answer.reason == "AlreadyExists":
            return False
        raise
    return True


def report(cluster: str, rows: Sequence[Row], console: Console) -> None:
    """The table of pools and tests."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("pool", "test", "", "time", "why"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("pool", "test", "", "time"))
    for row in rows:
        time = span(row.result.seconds) if row.result is not None else ""
        style = {"pass": "green", "fail": "bold red"}.get(row.state, "yellow")
        table.add_row(row.pool, row.test, Text(row.state, style=style), time, Text(row.reason))
    console.print(table)
    passed, ran = sum(row.state == "pass" for row in rows), sum(row.result is not None for row in rows)
    console.print(
        Text(f"{cluster}: {passed} of {ran} smoke tests passed" + (f", {len(rows) - ran} not run" if ran < len(rows) else ""))
    )
