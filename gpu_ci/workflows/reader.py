"""Reads workflows. A job that calls a workflow of the same repository has that workflow's jobs, with the inputs filled in."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.facts.errors import InputError, quoted
from fleet.facts.nested import at, part
from fleet.facts.yaml_text import Document
from fleet.loading.documents import documents
from fleet.prove.runs_on import RunsOn
from gpu_ci.workflows.expressions import combinations, filled
from gpu_ci.workflows.job import LOCAL, Actions, File, Job, Step, job_of, steps_of

_DEEPEST = 10
"""Levels of workflows. Loops are refused (docs.github.com, "Reuse workflows", "Nesting reusable workflows")."""
_CALL = re.compile(r"[.$]/\.github/workflows/[^/\0\n]+")
"""`uses` of a workflow in the same repository (docs.github.com, "Reuse workflows", "Calling a reusable workflow")."""
_MOST_JOBS = 10_000
"""The most jobs and calls of one file: 39 matrices of the largest size."""
_MOST_STEPS = 100_000
"""The most steps of all these jobs that may need a line of the report."""


def is_workflow(value: object) -> bool:
    """Whether a document is a workflow, by its keys. YAML 1.1 reads the key `on` as true."""
    return isinstance(value, Mapping) and "jobs" in value and not value.keys().isdisjoint(("on", "true"))


def _triggers(workflow: object) -> object:
    return workflow.get("on", workflow.get("true")) if isinstance(workflow, Mapping) else None


def _events(workflow: object) -> frozenset[str]:
    """What starts a workflow."""
    triggers = _triggers(workflow)
    names = [triggers] if isinstance(triggers, str) else triggers if isinstance(triggers, Mapping | list) else []
    return frozenset(map(str, names))


@dataclass(slots=True)
class Workflows:
    """The workflows of a folder."""

    _jobs: dict[Path, list[Job]] = field(default_factory=dict)
    _only_called: set[Path] = field(default_factory=set)
    _callees: dict[Path, File | str] = field(default_factory=dict)
    _steps: dict[tuple[File, str], tuple[Step, ...]] = field(default_factory=dict)
    _actions: Actions = field(default_factory=dict)
    _jobs_read: int = 0
    _steps_read: int = 0

    @property
    def jobs(self) -> list[Job]:
        """The jobs in the order of the files. Those of a workflow that only others start are where it is called."""
        elsewhere = self._only_called & self._callees.keys()
        # Workflows that only call one another have no other place.
        shown = (jobs for path, jobs in self._jobs.items() if path not in elsewhere or elsewhere == self._jobs.keys())
        return [job for jobs in shown for job in jobs]

    def add(self, path: Path, document: Document) -> None:
        """Read a workflow and what it calls.

        Raises InputError if it has no jobs, or more than a workflow may have, or something else in the place of a job.
        """
        file = File(path, document)
        if not part(document.value, "jobs"):
            got = at(document.value, "jobs") if isinstance(document.value, Mapping) else document.value
            raise InputError(f"{file.place('jobs')}: jobs: a workflow needs at least one job; got {quoted(got)}; add one")
        if wrong := {key: job for key, job in part(document.value, "jobs").items() if not isinstance(job, Mapping)}:
            rule, fix = "a job is a mapping", "write its keys, or remove it"
            rows = ((file.place("jobs", key), key, quoted(job)) for key, job in wrong.items())
            raise InputError("\n".join(f"{place}: jobs.{key}: {rule}; got {got}; {fix}" for place, key, got in rows))
        if _events(document.value) == {"workflow_call"}:
            self._only_called.add(path)
        self._jobs_read = self._steps_read = 0
        self._jobs.setdefault(path, []).extend(dict.fromkeys(self._read(file)))

    def _read(
        self,
        file: File,
        inputs: Mapping[str, Any] | None = None,
        place: str = "",
        above: str = "",
        callers: tuple[Path, ...] = (),
        events: frozenset[str] | None = None,
    ) -> Iterator[Job]:
        """The jobs of a file, one for each combination of a matrix; without `inputs` only a call knows them."""
        known = {} if inputs is None else {"inputs": inputs}
        events = _events(file.document.value) if events is None else events
        for key, job in part(file.document.value, "jobs").items():
            if not isinstance(job, Mapping):
                continue
            by_caller = place and "inputs." in str(job.get("runs-on"))
            where = place if by_caller else file.place("jobs", key, "uses" if "uses" in job else "runs-on")
            for values in combinations(filled(at(job, "strategy", "matrix"), known)):
                self._jobs_read += 1
                if self._jobs_read > _MOST_JOBS or self._steps_read > _MOST_STEPS:
                    rule = f"a workflow has at most {_MOST_JOBS:,} jobs, and {_MOST_STEPS:,} steps with containers in all of them"
                    raise InputError(f"{file.path}: {rule}, with those that it calls; split it")
                contexts = {**known, "matrix": values}
                if "uses" in job:
                    inner = filled(part(job, "with"), contexts)
                    called = self._called(file, str(job["uses"]), inner, where, f"{above}{key}", (*callers, file.path), events)
                    yield from called
                else:
                    steps = self._steps_of(file, key)
                    self._steps_read += len(steps)
                    yield job_of(where, f"{above}{key}", job, contexts, steps, file, events)

    def _steps_of(self, file: File, key: str) -> tuple[Step, ...]:
        """The steps of a job, read once for all combinations and calls."""
        if (file, key) not in self._steps:
            self._steps[file, key] = tuple(steps_of(file, self._actions, "jobs", key, "steps"))
        return self._steps[file, key]

    def _called(
        self,
        file: File,
        uses: str,
        inputs: Mapping[str, Any],
        place: str,
        name: str,
        callers: tuple[Path, ...],
        events: frozenset[str],
    ) -> Iterator[Job]:
        callee = self._callee(file, uses) if len(callers) < _DEEPEST else f"more than {_DEEPEST} levels of workflows"
        if isinstance(callee, File) and callee.path in callers:
            callee = "it calls itself again, which GitHub refuses; remove the call"
        if isinstance(callee, str):
            yield Job(place, name, RunsOn(()), f"it calls {uses}: {callee}")
            return
        declared = part(_triggers(callee.document.value), "workflow_call", "inputs")
        defaults = {key: entry["default"] for key, entry in declared.items() if isinstance(entry, Mapping) and "default" in entry}
        yield from self._read(callee, {**defaults, **inputs}, place, f"{name} / ", callers, events)

    def _callee(self, file: File, uses: str) -> File | str:
        """The workflow that a job calls, or why it is not read."""
        if LOCAL.fullmatch(uses) is None:
            return "a workflow of another repository is not read; check it there"
        if _CALL.fullmatch(uses) is None:
            return "GitHub calls only files of .github/workflows; move it there"
        path = file.path.parent / Path(uses).name
        if path not in self._callees:
            self._callees[path] = _workflow(path)
        return self._callees[path]


def _workflow(path: Path) -> File | str:
    try:
        # A link may lead to another file of the machine.
        if path.is_symlink() or not path.is_file():
            return "there is no such file"
        found = [File(path, document) for document in documents(path) if is_workflow(document.value)]
    except InputError as error:
        return str(error)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return found[0] if found else "it is not a workflow"
