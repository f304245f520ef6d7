"""What a run of edits with jobs must show, its record in docs/world/, and the table of docs/edits-with-jobs.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import Any

from fleet.loading.home import ROOT
from gpu_ci.offline.changes import CLASSES, CLOUD, NO_EFFECT
from gpu_ci.world.parts import find
from gpu_ci.world.record import MISSING, REAL, SIMULATED, Check

RECORD = ROOT / "docs" / "world" / "edits-staging.json"
LEAST = 200
"""Jobs of a run of all edits."""
_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "arc-manager", "ghalistener")
_PARTS = {
    **dict.fromkeys(("pulumi", "pulumi-resource-kubernetes", *_PROGRAMS), REAL),
    **dict.fromkeys(("AWS", "nodes and kubelets", "autoscaler", "GitHub", "runners"), SIMULATED),
    "containers, images, GPUs, drivers, networks": MISSING,
}


@dataclass(frozen=True)
class Step:
    """One edit, which takes the one before it back; or an edit that is taken back alone.

    `effect` is the worst one that a plan with a base says of the edit, and `said` are its lines on running jobs. The update took
    `seconds` and ended with `status`. `running` jobs ran when it began. Until the next step `ran` jobs succeeded, `ended` ones
    failed, and `again` ones were assigned a second time. `leaving` are the node groups that began to leave. Those of the step
    before were empty after `drained` seconds, and `stayed` are those of them that still leave after this update.
    """

    edit: str
    effect: str
    said: tuple[str, ...] = ()
    status: int = 0
    seconds: float = 0
    running: int = 0
    ran: int = 0
    ended: int = 0
    again: int = 0
    leaving: tuple[str, ...] = ()
    stayed: tuple[str, ...] = ()
    drained: float = 0
    error: str = ""


@dataclass(frozen=True)
class Run:
    """The steps of a run. `ending` are edits that may end jobs, with the reason. `astray` runners came to nodes that leave."""

    steps: Sequence[Step]
    ending: Mapping[str, str] = field(default_factory=dict)
    astray: frozenset[str] = frozenset()
    lasting: int | None = None
    """Jobs that were still not done a while after the last step; None for a run that was cut short."""

    def checks(self) -> Iterator[Check]:
        """What must hold."""
        refused = {step.edit for step in self.steps if step.effect == CLOUD and not step.edit.endswith(BACK)}
        wrong = {step.edit for step in self.steps if (step.status != 0) != (step.edit in refused)}
        yield Check("an update fails if and only if the plan says that the cloud refuses it", ", ".join(sorted(wrong)))
        yield Check("no job ends that the plan did not name", _counted(step for step in self.steps if not step.said))
        default = (step for step in self.steps if not self.ending.keys() & {*parts(step.edit)})
        yield Check("with the default settings no job ends", _counted(default))
        stayed = ", ".join(name for step in self.steps for name in step.stayed if not step.status)
        yield Check("an update deletes groups that left and are empty, or needs them again", stayed)
        twice = [step.edit for step in self.steps if step.again]
        yield Check("no job is assigned twice", ", ".join(twice))
        yield Check("a node that leaves gets no runner", ", ".join(sorted(self.astray)))
        if self.lasting is not None:
            yield Check("each job runs after all", f"{self.lasting} jobs wait" if self.lasting else "")

    def after(self, record: Mapping[str, Any]) -> Run:
        """This run and what an earlier record has of other edits."""
        mine = {part for step in self.steps for part in parts(step.edit)} | {NOTHING}
        steps = map(_step, record["steps"])
        return replace(self, steps=[*(step for step in steps if not mine & {*parts(step.edit)}), *self.steps])

    def document(self) -> dict[str, Any]:
        """The record. It names no person, account or organization."""
        return {
            "date": date.today().isoformat(),
            "stack": "staging",
            "cluster": "usw2",
            "provider": "eks",
            "machine": {"cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"},
            "parts": _PARTS,
            "versions": {name: text for name, text in find().versions().items() if name in _PROGRAMS},
            "jobs": {key: sum(getattr(step, key) for step in self.steps) for key in ("ran", "ended", "again")},
            "steps": [asdict(step) for step in self.steps],
            "checks": {check.claim: check.against or "holds" for check in self.checks()},
        }


BACK, NOTHING, AND = ", taken back", "no edit", "+"
"""What follows an edit that an update takes back alone; an update that only deletes groups; what is between edits of one."""


def parts(name: str) -> list[str]:
    """The edits of a step."""
    return name.removesuffix(BACK).split(AND)


def _step(entry: Mapping[str, Any]) -> Step:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    return Step(**values)


def _counted(steps: Iterator[Step]) -> str:
    return ", ".join(f"{step.edit}: {step.ended}" for step in steps if step.ended)


def table(steps: Sequence[Mapping[str, Any]]) -> str:
    """The table of a record's steps."""
    head = "| edit | the plan says | running jobs | seconds | groups that leave | jobs at the start | succeeded | ended |\n"
    return head + f"|{'---|' * 8}\n" + "".join(map(_row, steps))


def _row(step: Mapping[str, Any]) -> str:
    took = f"{step['seconds']:.0f}" + (", refused" if step["status"] else "")
    says = CLASSES[step["effect"] or NO_EFFECT], "end" if step["said"] else "go on"
    cells = step["edit"].replace(AND, ", "), *says, took, len(step["leaving"]), step["running"], step["ran"], step["ended"]
    return "| " + " | ".join(map(str, cells)) + " |\n"
