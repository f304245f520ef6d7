"""What an audit knows of ARC: runner scale sets and controllers.

They are in Helm values, Argo CD, Flux, Kustomize and manifests. The keys are those of the charts
gha-runner-scale-set and gha-runner-scale-set-controller (values.yaml of 0.14.2), of Argo CD's Application, of Flux' HelmRelease
and of kustomization.yaml's `helmCharts`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fleet.facts.nested import items, part, text_at
from fleet.facts.yaml_text import Document, helm_values
from fleet.prove.runs_on import RunsOn
from gpu_ci.workflows.job import File

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


def parts_of(path: Path, document: Document) -> Iterator[RunnerSet | Controller]:
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
