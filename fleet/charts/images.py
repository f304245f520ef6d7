"""Images of charts and manifests, pulled from the cluster's registry.

A chart runs images that its values do not name. `chart-images.csv` lists them for the pinned charts: the path of the value, which
part of the reference it has, and the reference by default. Sources are the charts' own values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fleet.facts.tables import entry, rows
from fleet.settings.registry import Mirror, parts


@dataclass(frozen=True, slots=True)
class ChartImage:
    """An image that a chart runs. `path` is the value's path with dots.

    `part`: the value has the reference without version (`name`), without its last part (`folder`), or its host (`registry`).
    """

    chart: str
    path: str
    part: Literal["name", "folder", "registry"]
    reference: str


CHART_IMAGES = tuple(entry(ChartImage, row) for row in rows("chart-images.csv"))


def mirrored(mirror: Mirror, found: Any) -> Any:
    """A manifest, or a part of it, whose images come from the registry.

    It may be a release or an Application: `chart` names the chart, and `values` or `helm` has its values.
    """
    if isinstance(found, list | tuple):
        return [mirrored(mirror, each) for each in found]
    if not isinstance(found, Mapping):
        return found
    made = {key: mirrored(mirror, value) for key, value in found.items()}
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
    for image in CHART_IMAGES:
        if image.chart == chart and (target := mirror.through(image.reference)) != image.reference:
            made = _put(made, image.path.split("."), _part(image, target))
    return made


def _part(image: ChartImage, target: str) -> str:
    """The part of the new reference that the value has."""
    found = parts(image.reference)
    name = target.removesuffix(found.version)
    if image.part == "registry":
        return name.removesuffix(f"/{found.path}")
    return name.rpartition("/")[0] if image.part == "folder" else name


def _put(values: Mapping[str, Any], path: list[str], value: str) -> dict[str, Any]:
    """The values with a value at a path."""
    first, *rest = path
    return {**values, first: _put(values.get(first, {}), rest, value) if rest else value}
