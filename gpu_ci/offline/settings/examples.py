"""An example of each setting: a value in the stack files and examples of this repository."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fleet.facts.yaml_text import read_yaml
from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.loading.stackfile import load
from fleet.providers.fleet import NAMESPACE

_LONGEST = 70
"""Characters of an example. Longer mappings are written key by key."""


def stack_files() -> tuple[Path, ...]:
    """The stack files and the examples."""
    return (*sorted(ROOT.glob("Pulumi.*.yaml")), *sorted((ROOT / "examples").glob("Pulumi.*.yaml")))


def config_of(path: Path) -> dict[str, object]:
    """The settings in a stack file as written, by key without namespace."""
    content: Any = read_yaml(path).value
    return {key.removeprefix(f"{NAMESPACE}:"): value for key, value in content["config"].items()}


def example_of(model: type[BaseModel], field: str) -> list[object]:
    """The first value of a field in a file, as a list for the keyword `examples`: of the model itself, else of a similar one."""
    owner = next(base for base in model.__mro__ if field in inspect.get_annotations(base))
    similar = (values[field] for other_model, values in _examples().items() if field in values and issubclass(other_model, owner))
    examples = _examples().get(model, {}).get(field) or next(similar, [])
    return examples[:1]


@cache
def _examples() -> dict[type, dict[str, list[object]]]:
    values: dict[type, dict[str, list[object]]] = {}
    for path in stack_files():
        fleet = fleet_of(load(path.name.split(".")[1], ROOT, stack_file=path))
        for owner, field, value in _set(fleet, config_of(path)):
            if len(str(value)) <= _LONGEST:
                values.setdefault(owner, {}).setdefault(field, []).append(value)
    return values


def _set(settings: object, written: object) -> Iterator[tuple[type, str, object]]:
    """Class, field and value of every setting that a file has. `settings` is the model of the values in `written`."""
    if isinstance(settings, BaseModel) and isinstance(written, dict):
        for name, field in type(settings).model_fields.items():
            if (key := field.alias or name) in written:
                yield type(settings), name, written[key]
                yield from _set(getattr(settings, name), written[key])
    elif isinstance(settings, dict) and isinstance(written, dict):
        for key, value in settings.items():
            yield from _set(value, written.get(key))
    elif isinstance(settings, tuple) and isinstance(written, list):
        for value, item in zip(settings, written, strict=True):
            yield from _set(value, item)
