"""Ways to read a chart's values in tests: keys against the published chart, quantities, tolerations, a pod's rights."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fleet.charts.chart import Chart
from fleet.facts.scheduling import Toleration
from tests.builders import reference
from tests.policies.published import over, skip_if_on
from tests.yaml12 import read

# Maps that a chart hands on whole, to a pod or a command line; a map that is empty in its values.yaml is one too.
FREE = {
    "affinity",
    "extraArgs",
    "template.spec",
    "listenerTemplate.spec",
    "operator.nodeSelector",
    "global.nodeSelector",
    "configs.cm",
    "configs.params",
}
# Read by gha-runner-scale-set's templates/autoscalingrunnerset.yaml, though its values.yaml names only template.spec.
IN_TEMPLATES = {"template.metadata"}


def folder(chart: Chart) -> Path:
    """Where the published chart's values are."""
    return reference(f"{chart.chart}/{chart.version}")


@cache
def read_yaml(path: Path) -> Any:
    """The one document of a YAML file."""
    return read(path.read_text(encoding="utf-8"))


def unknown_keys(chart: Chart, values: dict[str, Any]) -> list[str]:
    """Key paths that neither the published chart's values, nor those of the charts in it, nor the comments in them have."""
    defaults = dict(read_yaml(folder(chart) / "values.yaml"))
    for inner in read_yaml(folder(chart) / "Chart.yaml").get("dependencies", []):
        name = inner.get("alias", inner["name"])
        if name not in values:
            continue
        inside = folder(chart) / "charts" / inner["name"]
        if not inside.is_dir() and os.environ.get("GPU_CI_REFERENCE"):
            inside = reference(f"{inner['name']}/{inner['version']}")
        if not inside.is_dir():
            skip_if_on(folder(chart), inner, values)
        defaults[name] = over(read_yaml(inside / "values.yaml") if inside.is_dir() else {}, defaults.get(name, {}))
    return list(_unknown(values, defaults, (folder(chart) / "values.yaml").read_text(encoding="utf-8")))


def _unknown(values: dict[str, Any], defaults: object, text: str, at: str = "") -> Iterator[str]:
    for key, value in values.items():
        path = f"{at}{key}"
        known = isinstance(defaults, dict) and key in defaults
        if not known and path not in IN_TEMPLATES and not re.search(rf"^\s*#\s*{key}:", text, re.MULTILINE):
            yield path
        elif isinstance(value, dict) and path not in FREE | IN_TEMPLATES:
            inner = defaults[key] if isinstance(defaults, dict) and key in defaults else None
            if inner != {}:
                yield from _unknown(value, inner, text, f"{path}.")


def leaves(value: object, at: str = "") -> Iterator[tuple[str, object]]:
    """(key path, value) of everything that is neither a map nor a list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, at)
    else:
        yield at, value


def millicores(text: str) -> int:
    """A CPU quantity in millicores."""
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def mebibytes(text: str) -> int:
    """A memory quantity in MiB."""
    return int(text[:-2]) * {"Mi": 1, "Gi": 1024}[text[-2:]]


def asks(resources: dict[str, Any]) -> tuple[int, int]:
    """Requested millicores and MiB."""
    return millicores(resources["requests"]["cpu"]), mebibytes(resources["requests"]["memory"])


def toleration(manifest: dict[str, str]) -> Toleration:
    """A pod's toleration as Kubernetes reads it."""
    return Toleration(
        manifest.get("key", ""), manifest.get("operator", "Equal"), manifest.get("value", ""), manifest.get("effect", "")
    )


def pod_of(chart: Chart) -> dict[str, Any]:
    """The runner pod of a scale set, completed as the chart's template does."""
    template = chart.values["template"]
    spec = {"restartPolicy": "Never", "serviceAccountName": f"{chart.name}-gha-rs-no-permission"} | template["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runner"} | template["metadata"], "spec": spec}


def runner_of_pod(pod: dict[str, Any]) -> dict[str, Any]:
    """The container that the controller takes for the runner."""
    (found,) = [each for each in pod["spec"]["containers"] if each["name"] == "runner"]
    return dict(found)


def autoscaling_runner_set(chart: Chart) -> dict[str, Any]:
    """The custom resource that gha-runner-scale-set creates from its values, for the fields that ours set."""
    values = chart.values
    copied = ("githubConfigUrl", "githubConfigSecret", "runnerGroup", "runnerScaleSetName", "minRunners", "maxRunners")
    spec = {key: values[key] for key in (*copied, "listenerTemplate")}
    spec |= {"runnerScaleSetLabels": values["scaleSetLabels"], "template": {"spec": pod_of(chart)["spec"]}}
    spec |= {"proxy": values["proxy"]} if "proxy" in values else {}
    if (tls := values.get("githubServerTLS")) is not None:
        # The chart mounts the file at `runnerMountPath` and does not pass that on.
        spec["githubServerTLS"] = {"certificateFrom": tls["certificateFrom"]}
    kind = {"apiVersion": "actions.github.com/v1alpha1", "kind": "AutoscalingRunnerSet"}
    return kind | {"metadata": {"name": chart.name}, "spec": spec}
