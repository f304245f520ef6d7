"""Edits of a deployed staging while a steady stream of jobs runs, and what each did to the jobs."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Event

from fleet.loading.home import ROOT
from gpu_ci.offline.changes import NO_EFFECT
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.world.plane import Followed, passes
from gpu_ci.world.scale_sets import Job
from tests.edits import STAGING
from tests.engine import staging
from tests.engine.cli import STACK_FILE
from tests.world.edit_record import AND, BACK, NOTHING, Run, Step
from tests.world.provided import Provided
from tests.world.scaling import Scaler, is_leaving

STREAMS: Mapping[tuple[str, ...], int] = {("self-hosted", "gpu"): 4, ("gpu-t4-release",): 2}
"""Jobs that run or wait at each moment, by what they ask for."""
SECONDS, IDLE = 8, 4
"""How long a job takes, and how long an idle node stays."""
ANOTHER_PLANE = "it makes a second control plane, and a world has one"
NOT_RUN = {"region": ANOTHER_PLANE, "cluster renamed": ANOTHER_PLANE}
"""Edits that a world cannot show, with the reason."""
_EVICTS = ('      kubernetesVersion: "1.36"\n', '      kubernetesVersion: "1.36"\n      replaceNodes: evict\n')
EVICTING = "disk with replaceNodes: evict"
ENDING = {EVICTING: "`evict` asks for it"}
"""Edits that may end jobs, with the reason."""
_STUCK = "network"
"""AWS refuses it after the new VPC is there. The engine then has no way back: it would make a third one. So it comes last."""
_OTHERS = {name: edit for name, edit in STAGING.items() if name not in (*NOT_RUN, _STUCK)}
EDITS = {**_OTHERS, EVICTING: (*STAGING["disk"], _EVICTS), _STUCK: STAGING[_STUCK]}
"""Those of the page, and one that must end jobs."""
_UP = ("up", "--stack", staging.STACK, "--yes", "--skip-preview", "--suppress-progress")


class Flow:
    """Jobs that never stop, until the context of `flowing` ends."""

    def __init__(self, world: Provided) -> None:
        self._world, self._calm = world, time.monotonic()
        self.jobs: list[Job] = []
        self.streams = STREAMS

    def once(self) -> None:
        """Queues what is missing, and frees a listener that is stuck."""
        for runs_on, count in self.streams.items():
            for _ in range(count - sum(job.runs_on == runs_on and job.state != "completed" for job in self.jobs[-200:])):
                self.jobs.append(self._world.github.queue(runs_on, seconds=SECONDS))
        if self.running:
            self._calm = time.monotonic()
        elif time.monotonic() - self._calm > 5:
            self._world.mend()

    @property
    def running(self) -> list[Job]:
        """Jobs that run now."""
        return [job for job in self.jobs if job.state == "running"]

    def results(self) -> tuple[int, int, int]:
        """How many jobs succeeded, failed, and were assigned again."""
        ended = [job for job in self.jobs if job.state == "completed"]
        good = sum(job.result == "succeeded" for job in ended)
        return good, len(ended) - good, sum(job.assignments > 1 for job in self.jobs)


@dataclass(frozen=True)
class Site:
    """Staging, deployed, with its stream of jobs and its autoscaler."""

    world: Provided
    flow: Flow
    scaler: Scaler

    @cached_property
    def text(self) -> str:
        """The stack file before any edit."""
        return self.path.read_text()

    @property
    def path(self) -> Path:
        """The stack file."""
        return self.world.site.cli.folder / STACK_FILE.format(staging.STACK)

    def run(self, names: Sequence[str], keep: Callable[[Run], object]) -> Run:
        """Applies the edits one after the other, each from the one before, and goes back in the end. `keep` gets each state."""
        # The engine has no way back from the last one.
        after = [*names[1:], *([""] if names[-1] != _STUCK else [])]
        run = Run([], ENDING)
        for before, name in zip(["", *names], [names[0], *after], strict=False):
            run = replace(run, steps=[*run.steps, self.apply(before, name)], astray=frozenset(self.scaler.astray))
            sys.stderr.write(f"{run.steps[-1]}\n")
            keep(run)
        if run.steps[-1].leaving:
            run = replace(run, steps=[*run.steps, self.apply("", "")])
        self.flow.streams = {}
        with suppress(AssertionError):
            self.wait(lambda: all(job.state == "completed" for job in self.flow.jobs), "all jobs end", 60)
        run = replace(run, lasting=sum(job.state != "completed" for job in self.flow.jobs))
        keep(run)
        return run

    def apply(self, before: str, name: str) -> Step:
        """The step from one edit to another, or from or to the file as it was, which is named by an empty text."""
        comparison = compared("", name) if name else compared(before, "")
        old = self.leaving()
        drained = time.monotonic()
        self.wait(lambda: not any(map(self.world.cloud.nodes, filter(is_leaving, self.scaler.groups()))), "groups are empty")
        drained = time.monotonic() - drained
        self.path.write_text(changed(self.text, name))
        self.wait(lambda: len(self.flow.running) >= 2, "two jobs run")
        running, (good, bad, again), began = len(self.flow.running), self.flow.results(), time.monotonic()
        outcome = self.world.site.cli(*_UP, timeout=900)
        seconds = time.monotonic() - began
        # The program needs groups again if their edit is taken back.
        stay = {*self.leaving()} & {*old}
        # A runner that vanished is noticed after some seconds.
        time.sleep(self.world.github.lost_after + 1)
        good, bad, again = (now - then for now, then in zip(self.flow.results(), (good, bad, again), strict=True))
        errors = re.findall(r"error: (.+)", f"{outcome.out}\n{outcome.err}") if outcome.status else []
        return Step(
            name or (before + BACK if before else NOTHING),
            comparison.changes[0].effect if comparison.changes else NO_EFFECT,
            comparison.ended_jobs,
            outcome.status,
            round(seconds, 1),
            running,
            good,
            bad,
            again,
            tuple(name for name in self.leaving() if name not in old),
            tuple(sorted(stay)),
            round(drained, 1),
            next((error for error in errors if "Exception" in error), errors[-1] if errors else ""),
        )

    def leaving(self) -> tuple[str, ...]:
        """The node groups that stay until their jobs end."""
        return tuple(group.outputs["nodeGroupName"] for group in self.scaler.groups() if is_leaving(group))

    def wait(self, ready: Callable[[], bool], what: str, patience: float = 180) -> None:
        """Waits until something is so. Raises AssertionError if it takes longer."""
        end = time.monotonic() + patience
        while not ready():
            assert time.monotonic() < end, what
            time.sleep(0.2)


@contextmanager
def flowing(world: Provided) -> Iterator[Site]:
    """Deploys staging, and lets jobs flow until the context ends."""
    stop = Event()
    world.github.lost_after, world.github.poll, world.github.session_expires = 2, 5, 15
    world.site.up()
    api = world.plane.api
    flow, scaler = Flow(world), Scaler(world.cloud, api, world.pods, Followed(api, "/api/v1/nodes", stop), IDLE)
    threads = [passes(one.once, Event(), stop, 0.3) for one in (flow, scaler)]
    try:
        site = Site(world, flow, scaler)
        site.wait(lambda: {job.runs_on for job in flow.running} == {*STREAMS}, "jobs of both classes run")
        assert "max: 5}" in site.text
        yield site
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def changed(text: str, name: str) -> str:
    """The text of a stack file with an edit; without a name as it is."""
    for before, after in (pair for each in name.split(AND) if each for pair in EDITS[each]):
        assert before in text, f"staging no longer has {before!r}"
        text = text.replace(before, after, 1)
    return text


def compared(before: str, after: str) -> Comparison:
    """What a plan with base says of a step."""
    return Comparison(_plan(before), _plan(after))


_PLANS: dict[str, Plan] = {}


def _plan(name: str) -> Plan:
    if name not in _PLANS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / STACK_FILE.format(staging.STACK)
            file.write_text(changed((ROOT / file.name).read_text(), name))
            _PLANS[name] = make_plan(staging.STACK, ROOT, file)
    return _PLANS[name]


def chosen(default: Iterable[str]) -> list[str]:
    """The edits that GPU_CI_EDITS names, separated by commas, or `all`. Edits with a plus between them get one update."""
    text = os.environ.get("GPU_CI_EDITS", "")
    names = [*EDITS] if text == "all" else text.split(",") if text else [*default]
    unknown = sorted({part for name in names for part in name.split(AND)} - EDITS.keys())
    assert not unknown, f"GPU_CI_EDITS: no edit is called {unknown}; give some of {', '.join(EDITS)}"
    return names
