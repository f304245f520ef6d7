"""Charts' values and the schemas of custom resources as their projects publish them; skips the test where there is no copy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.builders import reference
from tests.yaml12 import read


@cache
def chart_values(chart: str) -> dict[str, Any]:
    """The values of the newest version at hand, with those of the charts in it under their names."""
    return _values(max(reference(chart).iterdir(), key=lambda version: version.name.removeprefix("v")))


def _values(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = read((folder / "values.yaml").read_text(encoding="utf-8"))
    for inner in read((folder / "Chart.yaml").read_text(encoding="utf-8")).get("dependencies", []):
        name, inside = inner.get("alias", inner["name"]), folder / "charts" / inner["name"]
        below = _values(inside) if inside.is_dir() else chart_values(inner["name"])
        values[name] = over(below, values.get(name) or {})
    return values


def over(below: Any, above: Any) -> Any:
    """Values as Helm lays a chart's over those of a chart in it."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: over(below.get(key), value) for key, value in above.items()}


def skip_if_on(folder: Path, inner: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Skips the test if the values turn on a chart inside the published chart of a folder. The folder lacks the inner chart.

    A folder of GPU_CI_CHARTS has whole archives, so there the test fails.
    `inner` is its entry in Chart.yaml. As in Helm, the first path of its condition that has a flag decides; without
    one the chart is on.
    """
    merged = over(read((folder / "values.yaml").read_text(encoding="utf-8")), values)
    for path in inner.get("condition", "").split(","):
        flag = merged
        for step in path.split("."):
            flag = flag.get(step) if isinstance(flag, Mapping) else None
        if isinstance(flag, bool):
            if not flag:
                return
            break
    skip_or_fail(folder, f"lacks the subchart {inner['name']} {inner['version']}")


def skip_or_fail(folder: Path, why: str) -> NoReturn:
    """Skips the test, because a chart's folder is not whole. A folder of GPU_CI_CHARTS must be: there the test fails."""
    whole = folder.is_relative_to(os.environ.get("GPU_CI_CHARTS") or os.devnull)
    (pytest.fail if whole else pytest.skip)(f"{folder.parent.name}/{folder.name} {why}")


@cache
def resource_schema(group: str, kind: str, version: str) -> dict[str, Any]:
    """The strict JSON schema of a custom resource."""
    found: dict[str, Any] = json.loads(reference(f"schemas/{group}/{kind.lower()}_{version}.json").read_text(encoding="utf-8"))
    return found


def has_field(schema: dict[str, Any], *path: str) -> bool:
    """Whether a resource of the schema has a field at this path; items of lists are gone through."""
    for step in path:
        while "items" in schema:
            schema = schema["items"]
        if step not in schema.get("properties", {}):
            return False
        schema = schema["properties"][step]
    return True
