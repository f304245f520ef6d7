"""Actions Runner Controller: Helm values, releases of Argo CD, Flux, Kustomize and Helmfile, and the custom resource itself.

The keys are those of the charts gha-runner-scale-set and gha-runner-scale-set-controller (values.yaml of 0.14.2), also where they
are a dependency of another chart. A release may name files of values: `finish` lays them over each other as Helm does.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fleet.facts.nested import text_at
from fleet.facts.tables import beside
from fleet.facts.yaml_text import helm_values
from gpu_ci.audit.model import RUNNER_IMAGE, Controller, Keys, Release, RunnerClass, Seen, container, variables

SET_CHART, CONTROLLER_CHART = "gha-runner-scale-set", "gha-runner-scale-set-controller"
_SKIPPED = beside(__file__, "arc.toml")
_HOLE = re.compile(r"\{\{\s*\.?(\w+)\s*\}\}")
"""A value of a generator in the template of an ApplicationSet, in both of its template languages."""
CONTAINER_MODES = ("dind", "kubernetes", "kubernetes-novolume")
"""Values of `containerMode.type` with which a runner can start the containers of a job."""
_CONTAINER_VARIABLES = ("ACTIONS_RUNNER_CONTAINER_HOOKS", "DOCKER_HOST")
"""A runner with one of these variables has container hooks or a Docker daemon, whatever `containerMode` says."""
_REQUIRES = "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER"
"""With it a runner refuses jobs without `container`. The chart sets it for the modes kubernetes* (_helpers.tpl of 0.14.2)."""


def read(keys: Keys, seen: Seen) -> bool:
    """Read a document of ARC, or a release of one of its charts."""
    if keys.text("kind") == "AutoscalingRunnerSet":
        version = keys.text("metadata", "labels", "app.kubernetes.io/version")
        seen.classes.append(scale_set(keys.get("spec"), version, keys.text("metadata", "name"), namespace=_namespace(keys)))
        keys.skip("apiVersion", "metadata", "status")
        return True
    if keys.file.path.name == "Chart.yaml" and keys.items("dependencies"):
        seen.add("Chart", keys)
        return False
    if "apiVersion" not in keys:
        seen.files.setdefault(keys.file.path, keys)
    found = [release for release in releases(keys) if release.chart in (SET_CHART, CONTROLLER_CHART)]
    seen.releases += found
    return bool(found)


def releases(keys: Keys) -> Iterator[Release]:
    """The releases of a document of Helm, Argo CD, Flux, Kustomize or Helmfile."""
    name, spec = keys.text("metadata", "name"), keys.get("spec")
    match keys.text("kind"):
        case "Application":
            yield from _application(keys)
        case "ApplicationSet":
            _skip(keys, spec, "application")
            elements = [one.mapping() for one in spec.each("generators[].list.elements[]")] or [{}]
            for element in elements:
                template = spec.get("template")
                yield from _application(template.instead(filled(template.value, element)))
        case "HelmRelease":
            chart = spec.get("chart", "spec")
            _skip(keys, spec, "release")
            parts = (spec.get("values"),)
            yield Release(
                chart.get("chart"), _last(chart.text("chart")), chart.text("version"), spec.text("releaseName") or name, parts
            )
        case _ if "apiVersion" not in keys and "githubConfigUrl" in keys:
            yield Release(keys.get("githubConfigUrl"), SET_CHART, "", "", (keys,))
        case _ if "apiVersion" not in keys and keys.get(SET_CHART).entries():
            keys.skip(*(key for key in keys.entries() if key != SET_CHART))
            yield Release(keys.get(SET_CHART), SET_CHART, "", "", (keys.get(SET_CHART),))
        case _:
            for chart in keys.items("helmCharts"):
                chart.skip(*_SKIPPED["chart"])
                given = (chart.get("valuesFile"), *chart.items("additionalValuesFiles"), chart.get("valuesInline"))
                yield Release(chart, _last(chart.text("name")), chart.text("version"), chart.text("releaseName"), given)
            for one in keys.items("releases"):
                one.skip(*_SKIPPED["helmfile"])
                yield Release(one, _last(one.text("chart")), one.text("version"), one.text("name"), tuple(one.items("values")))


def _application(keys: Keys) -> Iterator[Release]:
    """The releases of an Application of Argo CD, or of the template of an ApplicationSet."""
    name, spec = keys.text("metadata", "name"), keys.get("spec")
    _skip(keys, spec, "application")
    for source in [spec.get("source"), *spec.items("sources")]:
        helm = source.get("helm")
        text = helm.get("values")
        given = helm.get("valuesObject") or text.parsed(helm_values(text.text()))
        release = helm.text("releaseName") or name
        parts = (*helm.items("valueFiles"), given)
        yield Release(source.get("chart"), _last(source.text("chart")), source.text("targetRevision"), _known(release), parts)
        source.skip(*_SKIPPED["source"])
        helm.skip(*_SKIPPED["helm"])


def _skip(keys: Keys, spec: Keys, what: str) -> None:
    keys.skip("apiVersion", "metadata", "status")
    spec.skip(*_SKIPPED[what])


def _known(name: str) -> str:
    return "" if "{{" in name else name


def filled(value: Any, element: Mapping[str, Any]) -> Any:
    """A template of an ApplicationSet with the values of one element of its list generator."""
    if isinstance(value, Mapping):
        return {key: filled(inner, element) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, element) for inner in value]
    return _HOLE.sub(lambda hole: str(element.get(hole[1], hole[0])), value) if isinstance(value, str) else value


def finish(seen: Seen) -> None:
    """Make classes and controllers of the releases, each with the values of all its files."""
    used: set[Path] = set()
    found = [*(one for chart in seen.of_kind("Chart") for one in _umbrella(chart, seen)), *seen.releases]
    # Files of values come last: one that a release names is not a set by itself.
    for release in sorted(found, key=lambda one: not (one.version or one.name)):
        if release.at.file.path in used and not (release.version or release.name):
            continue
        parts = [_values(part, seen.files) if isinstance(part.value, str) else part for part in release.parts]
        given = [part for part in parts if part is not None and part.value]
        elsewhere = [part for part in given if part.file.path != release.at.file.path]
        used.update(part.file.path for part in elsewhere)
        seen.read += [*elsewhere, *(part for part in given if part.inner)]
        if release.chart == CONTROLLER_CHART:
            seen.controllers.append(Controller(release.at, release.version))
            for part in given:
                part.whole()
            continue
        merged = given[0] if len(given) == 1 else release.at.laid(given)
        place = None if given and merged is release.parts[0] else release.at
        seen.classes.append(scale_set(merged, release.version, release.name, place, _namespace(object_of(release.at))))
        for part in given:
            part.note(merged)


def _umbrella(chart: Keys, seen: Seen) -> Iterator[Release]:
    """Releases of ARC's charts as dependencies of a chart: values are below the name, or the alias, of the dependency."""
    folder = {path: keys for path, keys in seen.files.items() if path.parent == chart.file.path.parent}
    for one in chart.items("dependencies"):
        key, name = one.text("alias") or one.text("name"), one.text("name")
        if name in (SET_CHART, CONTROLLER_CHART):
            parts = tuple(
                keys.get(key) for path, keys in sorted(folder.items(), key=lambda entry: len(entry[0].name)) if key in keys
            )
            yield Release(one, name, one.text("version"), "", parts)


def _values(part: Keys, files: Mapping[Path, Keys]) -> Keys | None:
    """The file with values that a release names: near it, or below the root of a repository. None if it was not read."""
    name = re.sub(r"^(?:\$\w+/|\./)", "", str(part.value))
    near = part.file.path.parent / name
    found = [path for path in files if path == near] or [path for path in files if path.as_posix().endswith(f"/{name}")]
    if not found:
        return None
    part.whole()
    return files[found[0]]


def _last(chart: str) -> str:
    return chart.rpartition("/")[2]


def object_of(at: Keys) -> Keys:
    """The object that a value is in: an item of a List of Kubernetes, or the document."""
    top = Keys(at.file, at.file.document.value)
    number = at.path[1] if at.path[:1] == ("items",) else None
    return top.items("items")[number] if isinstance(number, int) else top


def _namespace(keys: Keys) -> str:
    """The namespace into which a release of Argo CD or Flux goes, or that of an object."""
    target = keys.text("spec", "destination", "namespace") or keys.text("spec", "targetNamespace")
    return target or keys.text("metadata", "namespace")


def scale_set(values: Keys, version: str, release: str, at: Keys | None = None, namespace: str = "") -> RunnerClass:
    """A runner scale set from the values of its chart, or from the spec of its resource."""
    pod, mode = values.mapping("template", "spec"), values.text("containerMode", "type")
    environment = variables(pod)
    name = values.text("runnerScaleSetName") or release
    labels = values.texts("scaleSetLabels") + values.texts("runnerScaleSetLabels")
    group = values.text("runnerGroup") or "Default"
    values.skip("containerMode", "template", *_SKIPPED["values"])
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
        namespace=namespace,
        listener=values.mapping("listenerTemplate", "spec"),
        values=values,
    )
