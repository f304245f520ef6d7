"""Images of charts and manifests, pulled from the cluster's registry.

A chart runs images that its values need not name. `versions.CHART_IMAGES` has those of the pinned charts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fleet.charts.chart import merged
from fleet.facts import versions
from fleet.settings.registry import Mirror


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
    for path, image in versions.CHART_IMAGES.get(chart, {}).items():
        if (target := mirror.through(image.reference)) != image.reference:
            made = merged(made, path.split("."), replace(image, reference=target).values)
    return made
