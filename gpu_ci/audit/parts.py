"""What an audit knows: runner scale sets and controllers of ARC, and the jobs of GitHub Actions workflows.

Sets and controllers are in Helm values, Argo CD, Flux, Kustomize and manifests. The keys are those of the charts
gha-runner-scale-set and gha-runner-scale-set-controller (values.yaml of 0.14.2), of Argo CD's Application, of Flux' HelmRelease
and of kustomization.yaml's `helmCharts`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.facts.yaml_text import Document, helm_values
from fleet.prove.runs_on import RunsOn

SET_CHART, CONTROLLER_CHART = "gha-runner-scale-set", "gha-runner-scale-set-controller"
CONTAINER_MODES = ("dind", "kubernetes", "kubernetes-novolume")
"""Values of `containerMode.type` with which a runner can start the containers of a job."""
_CONTAINER_VARIABLES = ("ACTIONS_RUNNER_CONTAINER_HOOKS", "DOCKER_HOST")
"""A runner with one of these variables has container hooks or a Docker daemon, whatever `containerMode` says."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller of ARC. `version` is empty if the file does not say it."""

    place: str
    version: str


@dataclass(frozen=True, slots=True)
class RunnerSet:
    """A runner scale set. `name` and `version` are empty if the file does not say them."""

    place: str
    name: str
    labels: frozenset[str]
    group: str
    version: str
    image: str
    runs_containers: bool

    def serves(self, asked: RunsOn) -> bool:
        """Whether a job with this `runs-on` may run here."""
        return asked.matches((self.name, *self.labels), self.group)


def parts_of(path: str, document: Document) -> Iterator[RunnerSet | Controller]:
    """What a document declares of ARC."""
    value = document.value
    if not isinstance(value, Mapping):
        return

    def place(*keys: str | int) -> str:
        while keys and keys not in document.lines:
            keys = keys[:-1]
        return f"{path}:{document.lines[keys]}"

    match value.get("kind"):
        case "Application":
            spec = _mapping(value, "spec")
            sources: list[tuple[tuple[str | int, ...], Any]] = [(("spec", "source"), spec.get("source"))]
            sources += [(("spec", "sources", number), source) for number, source in enumerate(_list(spec, "sources"))]
            for keys, source in sources:
                helm = _mapping(source, "helm")
                values = _mapping(helm, "valuesObject") or _parsed(helm.get("values"))
                name = _text(helm, "releaseName") or _text(_mapping(value, "metadata"), "name")
                yield from _of_chart(place(*keys, "chart"), _text(source, "chart"), _text(source, "targetRevision"), name, values)
        case "HelmRelease":
            spec = _mapping(value, "spec")
            chart = _mapping(_mapping(spec, "chart"), "spec")
            name = _text(spec, "releaseName") or _text(_mapping(value, "metadata"), "name")
            where = place("spec", "chart", "spec", "chart")
            yield from _of_chart(where, _text(chart, "chart"), _text(chart, "version"), name, _mapping(spec, "values"))
        case "AutoscalingRunnerSet":
            metadata, spec = _mapping(value, "metadata"), _mapping(value, "spec")
            version = _text(_mapping(metadata, "labels"), "app.kubernetes.io/version")
            labels = {"scaleSetLabels": _list(spec, "runnerScaleSetLabels")}
            yield _runner_set(place("spec"), version, _text(metadata, "name"), {**spec, **labels})
        case _ if "helmCharts" in value:
            for number, chart in enumerate(_list(value, "helmCharts")):
                where, name = place("helmCharts", number), _text(chart, "releaseName")
                yield from _of_chart(where, _text(chart, "name"), _text(chart, "version"), name, _mapping(chart, "valuesInline"))
        case _ if "githubConfigUrl" in value and "apiVersion" not in value:
            yield _runner_set(place("githubConfigUrl"), "", "", value)


def _of_chart(place: str, chart: str, version: str, release: str, values: Mapping[str, Any]) -> Iterator[RunnerSet | Controller]:
    name = chart.rpartition("/")[2]
    if name == CONTROLLER_CHART:
        yield Controller(place, version)
    elif name == SET_CHART:
        yield _runner_set(place, version, release, values)


def _runner_set(place: str, version: str, release: str, values: Mapping[str, Any]) -> RunnerSet:
    containers = [entry for entry in _list(_mapping(_mapping(values, "template"), "spec"), "containers") if _text(entry, "name")]
    runner: Mapping[str, Any] = next((entry for entry in containers if entry["name"] == "runner"), {})
    variables = {_text(entry, "name") for entry in _list(runner, "env")}
    mode = _text(_mapping(values, "containerMode"), "type")
    return RunnerSet(
        place,
        _text(values, "runnerScaleSetName") or release,
        frozenset(label for label in _list(values, "scaleSetLabels") if isinstance(label, str)),
        _text(values, "runnerGroup") or "Default",
        version,
        _text(runner, "image") or "ghcr.io/actions/actions-runner:latest",
        mode in CONTAINER_MODES or not variables.isdisjoint(_CONTAINER_VARIABLES),
    )


def _parsed(text: object) -> Mapping[str, Any]:
    """The values of an Application's text; empty if Helm could not read it."""
    values = helm_values(text) if isinstance(text, str) else None
    return values if isinstance(values, Mapping) else {}


def _mapping(value: object, key: str) -> Mapping[str, Any]:
    inner = value.get(key) if isinstance(value, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _list(value: object, key: str) -> list[Any]:
    inner = value.get(key) if isinstance(value, Mapping) else None
    return inner if isinstance(inner, list) else []


def _text(value: object, key: str) -> str:
    inner = value.get(key) if isinstance(value, Mapping) else None
    return inner if isinstance(inner, str) else ""


_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_OF_MATRIX = re.compile(r"\s*matrix\.([\w-]+)\s*")


@dataclass(frozen=True, slots=True)
class Job:
    """A job. `unresolved` is the expression that only GitHub can evaluate; `runs_on` is then unknown. `containers` is the key,
    `container` or `services`, that needs a runner with containers; empty without one.
    """

    place: str
    name: str
    runs_on: RunsOn
    unresolved: str
    containers: str


def jobs_of(path: str, document: Document) -> Iterator[Job]:
    """The jobs of a workflow, one for each combination of a matrix that `runs-on` reads. Jobs that call a workflow have none."""
    for name, job in _mapping(document.value, "jobs").items():
        if not isinstance(job, Mapping) or "runs-on" not in job:
            continue
        place = f"{path}:{document.lines['jobs', name, 'runs-on']}"
        containers = next((key for key in ("container", "services") if job.get(key)), "")
        for asked in dict.fromkeys(_resolved(job["runs-on"], _mapping(_mapping(job, "strategy"), "matrix"))):
            yield Job(place, str(name), *asked, containers)


def _resolved(runs_on: object, matrix: Mapping[str, Any]) -> Iterator[tuple[RunsOn, str]]:
    """`runs-on` and its unresolved expression, for each combination of the matrix' lists."""
    group = runs_on.get("group", "") if isinstance(runs_on, Mapping) else ""
    labels = runs_on.get("labels", ()) if isinstance(runs_on, Mapping) else runs_on
    texts = [str(label) for label in (labels if isinstance(labels, list | tuple) else [labels])]
    keys = dict.fromkeys(
        match[1]
        for text in (*texts, str(group))
        for expression in _EXPRESSION.findall(text)
        if (match := _OF_MATRIX.fullmatch(expression))
    )
    lists = [values if isinstance(values := matrix.get(key), list) else [None] for key in keys]
    # The most jobs of a matrix (docs.github.com, usage limits of Actions). GitHub starts no job of a larger one.
    if math.prod(map(len, lists)) > 256:
        lists = [[None]] * len(keys)
    for combination in itertools.product(*lists):
        values = {key: value for key, value in zip(keys, combination, strict=True) if isinstance(value, str | int | float)}
        # A combination may be an `include` or an object, which only GitHub can resolve.
        filled = [_filled(text, values) for text in texts]
        unresolved = next((text for text in (*filled, _filled(str(group), values)) if "${{" in text), "")
        yield RunsOn(tuple(sorted({label.lower() for label in filled})), _filled(str(group), values)), unresolved


def _filled(text: str, values: Mapping[str, Any]) -> str:
    def value(expression: re.Match[str]) -> str:
        key = _OF_MATRIX.fullmatch(expression[1])
        return str(values[key[1]]) if key and key[1] in values else expression[0]

    return _EXPRESSION.sub(value, text)
