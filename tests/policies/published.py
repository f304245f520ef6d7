"""Charts' values and the schemas of custom resources as their projects publish them; skips the test where there is no copy."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.builders import reference
from tests.yaml12 import read


@cache
def chart_values(chart: str) -> dict[str, Any]:
    """The values of the newest version at hand, with those of the charts in it under their names."""
    folder = max(reference(chart).iterdir(), key=lambda version: version.name.removeprefix("v"))
    values: dict[str, Any] = read((folder / "values.yaml").read_text(encoding="utf-8"))
    for inner in read((folder / "Chart.yaml").read_text(encoding="utf-8")).get("dependencies", []):
        name = inner.get("alias", inner["name"])
        values[name] = _over(chart_values(inner["name"]), values.get(name) or {})
    return values


def _over(below: Any, above: Any) -> Any:
    """Values as Helm lays a chart's over those of a chart in it."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: _over(below.get(key), value) for key, value in above.items()}


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
