"""What an audit reads of a folder, and what it says of runner sets, controllers and jobs, each with its place and a fix.

A file that cannot be read is a line of the report: many folders have Helm templates. Sets and controllers are in Helm values,
Argo CD, Flux, Kustomize and manifests. The keys are those of the charts gha-runner-scale-set and gha-runner-scale-set-controller
(values.yaml of 0.14.2), of Argo CD's Application, of Flux' HelmRelease and of kustomization.yaml's `helmCharts`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fleet.facts.errors import InputError, instead
from fleet.facts.lifecycle import RUNNER_REPOSITORY, numbers, of_image
from fleet.facts.nested import items, part, text_at
from fleet.facts.tables import rows
from fleet.facts.yaml_text import Document, helm_values
from fleet.loading.documents import documents
from fleet.prove.runs_on import RunsOn
from gpu_ci.offline.folders import files
from gpu_ci.workflows.job import File, Job
from gpu_ci.workflows.reader import Workflows

SET_CHART, CONTROLLER_CHART = "gha-runner-scale-set", "gha-runner-scale-set-controller"
CONTAINER_MODES = ("dind", "kubernetes", "kubernetes-novolume")
"""Values of `containerMode.type` with which a runner can start the containers of a job."""
_CONTAINER_VARIABLES = ("ACTIONS_RUNNER_CONTAINER_HOOKS", "DOCKER_HOST")
"""A runner with one of these variables has container hooks or a Docker daemon, whatever `containerMode` says."""

_REQUIRES = "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER"
"""With it a runner refuses jobs without `container`. The chart sets it for the modes kubernetes* (_helpers.tpl of 0.14.2)."""


class Controller(NamedTuple):
    """A controller of ARC. `version` is empty if the file does not say it."""

    place: str
    version: str


class RunnerSet(NamedTuple):
    """A runner scale set. `name` and `version` are empty if the file does not say them.

    `needs_container`: it takes no job without `container`.
    """

    place: str
    name: str
    labels: frozenset[str]
    group: str
    version: str
    image: str
    runs_containers: bool
    needs_container: bool

    def serves(self, asked: RunsOn) -> bool:
        """Whether a job with this `runs-on` may run here."""
        return asked.matches((self.name, *self.labels), self.group)


def _parts_of(path: Path, document: Document) -> Iterator[RunnerSet | Controller]:
    """What a document declares of ARC."""
    value = document.value
    if not isinstance(value, Mapping):
        return
    place = File(path, document).place
    match value.get("kind"):
        case "Application":
            spec = part(value, "spec")
            sources: list[tuple[tuple[str | int, ...], Any]] = [(("spec", "source"), spec.get("source"))]
            sources += [(("spec", "sources", number), source) for number, source in enumerate(items(spec, "sources"))]
            for keys, source in sources:
                helm = part(source, "helm")
                values = part(helm, "valuesObject") or _parsed(helm.get("values"))
                name = text_at(helm, "releaseName") or text_at(value, "metadata", "name")
                chart_name, version = (text_at(source, key) for key in ("chart", "targetRevision"))
                yield from _of_chart(place(*keys, "chart"), chart_name, version, name, values)
        case "HelmRelease":
            spec = part(value, "spec")
            chart = part(spec, "chart", "spec")
            name = text_at(spec, "releaseName") or text_at(value, "metadata", "name")
            where = place("spec", "chart", "spec", "chart")
            yield from _of_chart(where, text_at(chart, "chart"), text_at(chart, "version"), name, part(spec, "values"))
        case "AutoscalingRunnerSet":
            version = text_at(value, "metadata", "labels", "app.kubernetes.io/version")
            settings = {**part(value, "spec"), "scaleSetLabels": items(value, "spec", "runnerScaleSetLabels")}
            yield _runner_set(place("spec"), version, text_at(value, "metadata", "name"), settings)
        case _ if "helmCharts" in value:
            for number, chart in enumerate(items(value, "helmCharts")):
                where, name = place("helmCharts", number), text_at(chart, "releaseName")
                yield from _of_chart(where, text_at(chart, "name"), text_at(chart, "version"), name, part(chart, "valuesInline"))
        case _ if "githubConfigUrl" in value and "apiVersion" not in value:
            yield _runner_set(place("githubConfigUrl"), "", "", value)


def _of_chart(place: str, chart: str, version: str, release: str, values: Mapping[str, Any]) -> Iterator[RunnerSet | Controller]:
    name = chart.rpartition("/")[2]
    if name == CONTROLLER_CHART:
        yield Controller(place, version)
    elif name == SET_CHART:
        yield _runner_set(place, version, release, values)


def _runner_set(place: str, version: str, release: str, values: Mapping[str, Any]) -> RunnerSet:
    containers = [entry for entry in items(values, "template", "spec", "containers") if text_at(entry, "name")]
    runner: Mapping[str, Any] = next((entry for entry in containers if entry["name"] == "runner"), {})
    variables = {text_at(entry, "name"): text_at(entry, "value") for entry in items(runner, "env")}
    mode = text_at(values, "containerMode", "type")
    return RunnerSet(
        place,
        text_at(values, "runnerScaleSetName") or release,
        frozenset(label for label in items(values, "scaleSetLabels") if isinstance(label, str)),
        text_at(values, "runnerGroup") or "Default",
        version,
        text_at(runner, "image") or "ghcr.io/actions/actions-runner:latest",
        mode in CONTAINER_MODES or not variables.keys().isdisjoint(_CONTAINER_VARIABLES),
        variables.get(_REQUIRES, str(mode.startswith("kubernetes"))).lower() == "true",
    )


def _parsed(text: object) -> Mapping[str, Any]:
    """The values of an Application's text; empty if Helm could not read it."""
    return part({"values": helm_values(text) if isinstance(text, str) else None}, "values")


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
    for found in _parts_of(path, document):
        if isinstance(found, RunnerSet):
            seen.sets.append(found)
        else:
            seen.controllers.append(found)


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
