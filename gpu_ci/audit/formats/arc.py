"""Actions Runner Controller: Helm values, Argo CD, Flux, Kustomize's `helmCharts`, and the custom resource itself.

The keys are those of the charts gha-runner-scale-set and gha-runner-scale-set-controller (values.yaml of 0.14.2), of Argo CD's
Application, of Flux' HelmRelease and of kustomization.yaml's `helmCharts`.
"""

from collections.abc import Iterator

from fleet.facts.nested import text_at
from fleet.facts.yaml_text import helm_values
from gpu_ci.audit.keys import Keys
from gpu_ci.audit.model import RUNNER_IMAGE, Controller, RunnerClass, Seen, container, variables

SET_CHART, CONTROLLER_CHART = "gha-runner-scale-set", "gha-runner-scale-set-controller"
CONTAINER_MODES = ("dind", "kubernetes", "kubernetes-novolume")
"""Values of `containerMode.type` with which a runner can start the containers of a job."""
_CONTAINER_VARIABLES = ("ACTIONS_RUNNER_CONTAINER_HOOKS", "DOCKER_HOST")
"""A runner with one of these variables has container hooks or a Docker daemon, whatever `containerMode` says."""
_REQUIRES = "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER"
"""With it a runner refuses jobs without `container`. The chart sets it for the modes kubernetes* (_helpers.tpl of 0.14.2)."""


def read(keys: Keys, seen: Seen) -> bool:
    """Read a document of ARC, or a release of one of its charts."""
    match keys.text("kind"):
        case "AutoscalingRunnerSet":
            version = keys.text("metadata", "labels", "app.kubernetes.io/version")
            seen.classes.append(_set(keys.get("spec"), version, keys.text("metadata", "name")))
            keys.skip("apiVersion", "metadata", "status")
            return True
        case _ if "githubConfigUrl" in keys and "apiVersion" not in keys:
            seen.classes.append(_set(keys, "", ""))
            return True
    found = False
    for at, chart, version, release, values in releases(keys):
        if chart == CONTROLLER_CHART:
            seen.controllers.append(Controller(at, version))
            values.whole()
        elif chart == SET_CHART:
            seen.classes.append(_set(values, version, release, at))
        else:
            continue
        found = True
    return found


def releases(keys: Keys) -> Iterator[tuple[Keys, str, str, str, Keys]]:
    """Place, chart, version, name and values of each release of a document of Argo CD, Flux or Kustomize."""
    name = keys.text("metadata", "name")
    match keys.text("kind"):
        case "Application":
            for source in [keys.get("spec", "source"), *keys.items("spec", "sources")]:
                helm = source.get("helm")
                values = helm.get("valuesObject") or helm.get("values").parsed(helm_values(helm.text("values")))
                release = helm.text("releaseName") or name
                yield source.get("chart"), _last(source.text("chart")), source.text("targetRevision"), release, values
        case "HelmRelease":
            chart = keys.get("spec", "chart", "spec")
            release = keys.text("spec", "releaseName") or name
            yield chart.get("chart"), _last(chart.text("chart")), chart.text("version"), release, keys.get("spec", "values")
        case _:
            for chart in keys.items("helmCharts"):
                release = chart.text("releaseName")
                yield chart, _last(chart.text("name")), chart.text("version"), release, chart.get("valuesInline")


def _last(chart: str) -> str:
    return chart.rpartition("/")[2]


def _set(values: Keys, version: str, release: str, at: Keys | None = None) -> RunnerClass:
    """A runner scale set from the values of its chart, or from the spec of its resource."""
    pod, mode = values.mapping("template", "spec"), values.text("containerMode", "type")
    environment = variables(pod)
    name = values.text("runnerScaleSetName") or release
    labels = values.texts("scaleSetLabels") + values.texts("runnerScaleSetLabels")
    group = values.text("runnerGroup") or "Default"
    values.skip("githubConfigSecret", "controllerServiceAccount", "template", "listenerTemplate")
    return RunnerClass(
        at=at or values.get("githubConfigUrl"),
        name=name,
        labels=frozenset(labels),
        group=group,
        version=version,
        image=text_at(container(pod), "image") or RUNNER_IMAGE,
        mode=mode,
        runs_containers=mode in CONTAINER_MODES or not environment.keys().isdisjoint(_CONTAINER_VARIABLES),
        needs_container=environment.get(_REQUIRES, str(mode.startswith("kubernetes"))).lower() == "true",
        minimum=values.count("minRunners") or 0,
        maximum=values.count("maxRunners"),
        url=values.text("githubConfigUrl"),
        pod=pod,
        pod_at=("template",),
        values=values,
    )
