"""What an audit reads of a folder, and what it says of runner sets, controllers and jobs, each with its place and a fix.

A file that cannot be read is a line of the report: many folders have Helm templates.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal, NamedTuple

from fleet.facts.errors import InputError, instead
from fleet.facts.lifecycle import RUNNER_REPOSITORY, numbers, of_image
from fleet.facts.tables import rows
from fleet.facts.yaml_text import Document
from fleet.loading.documents import documents
from gpu_ci.audit.parts import CONTAINER_MODES, Controller, RunnerSet, parts_of
from gpu_ci.offline.folders import files
from gpu_ci.workflows.job import Job
from gpu_ci.workflows.reader import Workflows

_FIX = "name a folder with workflows or Helm values, or one file"
Level = Literal["error", "warning", "undeterminable"]


class Finding(NamedTuple):
    """One line of an audit: `place` is file and line, `rule` what was checked."""

    place: str
    level: Level
    rule: str
    message: str


@dataclass(slots=True)
class Audit:
    """What a folder has, and a line for each file that could not be read."""

    sets: list[RunnerSet] = field(default_factory=list)
    controllers: list[Controller] = field(default_factory=list)
    workflows: Workflows = field(default_factory=Workflows)
    not_read: list[str] = field(default_factory=list)

    @property
    def jobs(self) -> list[Job]:
        """The jobs of all workflows."""
        return self.workflows.jobs

    def findings(self, day: date) -> list[Finding]:
        """Everything that is wrong or cannot be decided, as of a day, in the order of the files."""
        lines = [line for runner_set in self.sets for line in _runner_age(runner_set, day)]
        for parts in (self.sets, self.controllers):
            lines += [line for part in parts for line in _arc_age(part, day)]
        lines += [line for job in self.jobs for line in _placement(job, self.sets)]
        return list(dict.fromkeys(lines))


def audit(root: Path) -> Audit:
    """Read a folder or one file. Raises InputError if it does not exist or has nothing that an audit knows."""
    seen = Audit()
    for path in files("PATH", root, (".yaml", ".yml", ".json"), _FIX):
        # A link may lead to another file of the machine.
        if path != root and path.is_symlink():
            continue
        try:
            # The text after a last `---` is an empty document.
            for document in (entry for entry in documents(path) if entry.value is not None):
                _read(seen, path, document)
        except InputError as error:
            seen.not_read += str(error).splitlines()
        except OSError as error:
            seen.not_read.append(f"{path}: cannot be read ({error.strerror})")
    if not (seen.sets or seen.controllers or seen.jobs):
        raise InputError(f"PATH: {root} has no workflow and nothing of ARC; {_FIX}")
    return seen


def _read(seen: Audit, path: Path, document: Document) -> None:
    if path.parent.parts[-2:] == (".github", "workflows"):
        seen.workflows.add(path, document)
        return
    for part in parts_of(path, document):
        if isinstance(part, RunnerSet):
            seen.sets.append(part)
        else:
            seen.controllers.append(part)


def _runner_age(runner_set: RunnerSet, day: date) -> Iterator[Finding]:
    rule, image = "runner-age", runner_set.image
    if image.partition("@")[0].rpartition(":")[0] != RUNNER_REPOSITORY or image.endswith(":latest"):
        fix = f"pin {RUNNER_REPOSITORY}:VERSION, or look into the image"
        message = f"{image} does not say which version of the runner it has; {fix}"
        yield Finding(runner_set.place, "undeterminable", rule, message)
        return
    life = of_image(image, day)
    if life is None or (life.last is None and life.released is None):
        yield Finding(runner_set.place, "undeterminable", rule, f"{image}: no release of this version is on record")
    elif life.shown(day):
        fix = f"use the newest release in the image of the set {runner_set.name}".rstrip()
        yield Finding(runner_set.place, "error" if life.over(day) else "warning", rule, f"{life.words(day)}; {fix}")


def _arc_age(part: RunnerSet | Controller, day: date) -> Iterator[Finding]:
    releases = [row for row in rows("arc_releases.csv") if date.fromisoformat(row["released"]) <= day]
    newest = max(releases, key=lambda row: numbers(row["version"]), default=None)
    if newest is None:
        return
    if not numbers(part.version):
        message = "the file does not say which version of ARC runs; read it from the release in the cluster"
        yield Finding(part.place, "undeterminable", "arc-age", message)
    elif numbers(part.version) < numbers(newest["version"]):
        released = next((f" of {row['released']}" for row in releases if row["version"] == part.version), "")
        message = f"ARC {part.version}{released} is behind {newest['version']} of {newest['released']}"
        yield Finding(part.place, "warning", "arc-age", f"{message}; upgrade the controller and every set together")


def _placement(job: Job, sets: list[RunnerSet]) -> Iterator[Finding]:
    if job.unresolved:
        yield Finding(job.place, "undeterminable", "runs-on", f"job {job.name}: {job.unresolved}")
        return
    if job.runs_on.hosted:
        return
    serving = [runner_set for runner_set in sets if runner_set.serves(job.runs_on)]
    asked = job.wants
    if not serving:
        unnamed = [runner_set.place for runner_set in sets if not runner_set.name]
        if unnamed or not sets:
            why = f"the release name of {unnamed[0]} is not in the file" if unnamed else "no runner set is in the folder"
            yield Finding(job.place, "undeterminable", "runs-on", f"job {job.name}: whether a set serves {asked} is open: {why}")
            return
        served = {label for runner_set in sets for label in (runner_set.name, *runner_set.labels)}
        fix = instead(asked, served, f"name one of: {', '.join(sorted(served))}")
        message = f"job {job.name}: no set serves {asked}, so the job waits without end; {fix}"
        yield Finding(job.place, "error", "runs-on", message)
    for runner_set in serving:
        if job.open_image and not runner_set.runs_containers:
            message = f"job {job.name}: {job.image_in_words}, and set {runner_set.name} starts none ({runner_set.place})"
            yield Finding(job.place, "undeterminable", "containers", message)
        elif job.containers and not runner_set.runs_containers:
            needs = f"{job.containers} needs a runner that starts containers"
            message = f"job {job.name}: {needs}, and set {runner_set.name} has none"
            fix = f"set containerMode.type of the set to one of {', '.join(CONTAINER_MODES)}, or remove {job.containers}"
            yield Finding(job.place, "error", "containers", f"{message} ({runner_set.place}); {fix}")
        elif runner_set.needs_container and job.container is None:
            message = f"job {job.name}: set {runner_set.name} takes no job without container ({runner_set.place})"
            yield Finding(job.place, "error", "containers", f"{message}; write container: <image>, or another runs-on")
