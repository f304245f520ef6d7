"""A Helm chart as data, and values that several charts share.

No value depends on an answer of the cloud: pods get cloud permissions by their identity, and secrets by name. So policies see
every value in a preview, and Git can hold them. Helm ignores keys that a chart does not know, so a test compares every key with
the chart's own values.
"""

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from fleet.facts import versions
from fleet.facts.pods import Amount, Level, Requests
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.record import Record
from fleet.facts.scheduling import Toleration
from fleet.facts.tables import beside, entries
from fleet.facts.yaml_text import read_yaml
from fleet.settings.registry import Mirror

KUBE_SYSTEM = "kube-system"
_read = cache(read_yaml)

Where = Literal["system pool", "GPU nodes", "all nodes"]
"""Where a chart's pod runs: once on the system pool, or as a DaemonSet on each GPU node or on each node of the cluster."""


class Pod(Record):
    """A pod that a chart creates, and its requests with sidecars: `cpu` in millicores, `memory` in MiB.

    With a `strategy` the DaemonSet runs only on nodes of pools that share their GPUs by this strategy.
    """

    name: str
    cpu: int
    memory: int
    on: Where = "system pool"
    strategy: str = ""

    def times(self, containers: int) -> "Pod":
        """The same pod with this number of containers, each with the same requests."""
        return replace(self, cpu=self.cpu * containers, memory=self.memory * containers)


class Chart(Record):
    """The release `name` of a published chart, at its pinned version, with the images that `versions.CHART_IMAGES` has for it.

    `pods` are the pods that it creates, without those that run jobs. `folder` is where Git has its Application, below the
    cluster's folder. `wave` is ArgoCD's sync wave. `needs` names the releases that must exist before it and outlive it.
    `pod_security` is the standard of its namespace, if the chart has its own namespace.
    """

    chart: str
    name: str
    namespace: str
    values: dict[str, Any]
    pods: tuple[Pod, ...]
    folder: str
    wave: int = 0
    needs: tuple[str, ...] = ()
    pod_security: Level = "restricted"

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _with_images(self.chart, self.values))

    @property
    def repository(self) -> str:
        """The chart's repository: an https index, or an oci:// registry path without the chart's name."""
        return versions.CHARTS[self.chart].repository

    @property
    def version(self) -> str:
        """The pinned version."""
        return versions.CHARTS[self.chart].version


def _with_images(chart: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values with the chart's images by digest, except those of a part that the values turn off."""
    for path, image in versions.CHART_IMAGES.get(chart, {}).items():
        if image.pinned and values.get(path.partition(".")[0], {}).get("enabled", True):
            values = merged(values, path.split("."), image.values)
    return values


def merged(values: Mapping[str, Any], steps: list[str], more: Mapping[str, str]) -> dict[str, Any]:
    """A copy of the values in which the mapping at the path `steps` has the values of `more` too."""
    return {**values, steps[0]: merged(values.get(steps[0], {}), steps[1:], more)} if steps else {**values, **more}


# A chart runs images that its values need not name. `versions.CHART_IMAGES` has those of the pinned charts.


def mirrored(mirror: Mirror, part: Any) -> Any:
    """A manifest, or a part of it, whose images come from the registry.

    It may be a release or an Application: `chart` names the chart, and `values` or `helm` has its values.
    """
    if isinstance(part, list | tuple):
        return [mirrored(mirror, entry) for entry in part]
    if not isinstance(part, Mapping):
        return part
    made = {key: mirrored(mirror, value) for key, value in part.items()}
    if isinstance(image := made.get("image"), str):
        made["image"] = mirror.through(image)
    # The chart of a release may have its repository before its name.
    chart = str(made.get("chart", "")).rpartition("/")[2]
    if isinstance(values := made.get("values"), Mapping):
        made["values"] = chart_values(mirror, chart, values)
    if isinstance(helm := made.get("helm"), Mapping) and "valuesObject" in helm:
        made["helm"] = {**helm, "valuesObject": chart_values(mirror, chart, helm["valuesObject"])}
    return made


def chart_values(mirror: Mirror, chart: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a chart, with the values that move its own images to the registry."""
    made = dict(values)
    for path, image in versions.CHART_IMAGES.get(chart, {}).items():
        if (target := mirror.through(image.reference)) != image.reference:
            made = merged(made, path.split("."), replace(image, reference=target).values)
    return made


def fixed(name: str, beside: str = __file__, /, **given: Any) -> dict[str, Any]:
    """What a YAML file beside this module or another one says, with the values that it names, as in `image: $image`.

    A key whose given value is None is left out. Raises what `read_yaml` raises, and KeyError for a name without a value.
    """
    return cast("dict[str, Any]", _with_given(_read(Path(beside).with_name(f"{name}.yaml")).value, given))


def part(module: str, name: str, /, **given: Any) -> dict[str, Any]:
    """As `fixed`, for one part of the YAML file that a module has beside it: `part(__file__, "service", port=80)`."""
    parts: Any = _read(Path(module).with_suffix(".yaml")).value
    return cast("dict[str, Any]", _with_given(parts[name], given))


def _with_given(part: Any, given: Mapping[str, Any]) -> Any:
    if isinstance(part, str) and re.fullmatch(r"\$[A-Za-z_-]+", part):
        return deepcopy(given[part[1:]])
    if isinstance(part, dict):
        made = {key: _with_given(value, given) for key, value in part.items()}
        return {key: value for key, value in made.items() if value is not None or part[key] is None}
    return [_with_given(item, given) for item in part] if isinstance(part, list) else part


def pods_of(chart: str) -> dict[str, Pod]:
    """The pods of a chart by their names, from pods.toml."""
    return entries(Pod, beside(__file__, "pods.toml")[chart], "name")


def requests(pod: Requests) -> dict[str, Any]:
    """Requests in the form of a container's resources."""
    return {"requests": {"cpu": cpu_text(pod.cpu), "memory": memory_text(pod.memory)}}


def resources(pod: Requests) -> dict[str, Any]:
    """Requests, and a memory limit of twice the request. There is no CPU limit, because it would only throttle a controller."""
    return requests(pod) | {"limits": {"memory": memory_text(pod.memory * 2)}}


def amounts(cpu: Amount, memory: Amount, scratch: int, extended: Mapping[str, Any]) -> dict[str, Any]:
    """Requests and limits. The API server requires that both are the same for extended resources."""
    requests = {"cpu": cpu_text(cpu.request), "memory": memory_text(memory.request), "ephemeral-storage": memory_text(scratch)}
    limits = {"cpu": cpu_text(cpu.limit), "memory": memory_text(memory.limit)}
    return {"requests": {**requests, **extended}, "limits": {**limits, **extended}}


def manifests(tolerations: Iterable[Toleration]) -> list[dict[str, str]]:
    """Tolerations in the form of a pod spec."""
    return [toleration.manifest() for toleration in tolerations]
