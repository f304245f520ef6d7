"""What an audit knows of ARC: runner scale sets and controllers.

They are in Helm values, Argo CD, Flux, Kustomize and manifests. The keys are those of the charts
gha-runner-scale-set and gha-runner-scale-set-controller (values.yaml of 0.14.2), of Argo CD's Application, of Flux' HelmRelease
and of kustomization.yaml's `helmCharts`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.facts.yaml_text import Document, helm_values
from fleet.prove.runs_on import RunsOn
from gpu_ci.workflows.job import mapping_in as _mapping, text_in as _text

SET_CHART, CONTROLLER_CHART = "gha-runner-scale-set", "gha-runner-scale-set-controller"
CONTAINER_MODES = ("dind", "kubernetes", "kubernetes-novolume")
"""Values of `containerMode.type` with which a runner can start the containers of a job."""
_CONTAINER_VARIABLES = ("ACTIONS_RUNNER_CONTAINER_HOOKS", "DOCKER_HOST")
"""A runner with one of these variables has container hooks or a Docker daemon, whatever `containerMode` says."""

_REQUIRES = "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER"
"""With it a runner refuses jobs without `container`. The chart sets it for the modes kubernetes* (_helpers.tpl of 0.14.2)."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller of ARC. `version` is empty if the file does not say it."""

    place: str
    version: str


@dataclass(frozen=True, slots=True)
class RunnerSet:
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
    variables = {_text(entry, "name"): _text(entry, "value") for entry in _list(runner, "env")}
    mode = _text(_mapping(values, "containerMode"), "type")
    return RunnerSet(
        place,
        _text(values, "runnerScaleSetName") or release,
        frozenset(label for label in _list(values, "scaleSetLabels") if isinstance(label, str)),
        _text(values, "runnerGroup") or "Default",
        version,
        _text(runner, "image") or "ghcr.io/actions/actions-runner:latest",
        mode in CONTAINER_MODES or not variables.keys().isdisjoint(_CONTAINER_VARIABLES),
        variables.get(_REQUIRES, str(mode.startswith("kubernetes"))).lower() == "true",
    )


def _parsed(text: object) -> Mapping[str, Any]:
    """The values of an Application's text; empty if Helm could not read it."""
    values = helm_values(text) if isinstance(text, str) else None
    return values if isinstance(values, Mapping) else {}


def _list(value: object, key: str) -> list[Any]:
    inner = value.get(key) if isinstance(value, Mapping) else None
    return inner if isinstance(inner, list) else []
