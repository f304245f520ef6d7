"""What the reference says about each setting: the text of its docstring, and a value in the files of this repository.

`use_attribute_docstrings` of pydantic is not used, because it reads the source of each class at every import.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fleet.facts.yaml_text import kubernetes_documents, read_yaml
from fleet.loading.config import read_fleet
from fleet.loading.home import ROOT
from fleet.providers.fleet import NAMESPACE


@dataclass(frozen=True)
class Text:
    """The docstring of a field. `Unit:`, `Source:` and `Example:` are its last sentences; the example is YAML in backticks."""

    description: str = ""
    unit: str = ""
    source: str = ""
    example: str = ""

    @classmethod
    def read(cls, docstring: str) -> Text:
        """The parts of a docstring."""
        description, *parts = re.split(r"\s(?=(?:Unit|Source|Example): )", " ".join(docstring.split()))
        values = dict(part.split(": ", 1) for part in parts)
        return cls(description, *(values.get(name, "").removesuffix(".").strip("`") for name in ("Unit", "Source", "Example")))

    @property
    def examples(self) -> list[object]:
        """The example as a value."""
        return [document.value for document in kubernetes_documents("example", self.example)]

    @property
    def whole(self) -> str:
        """All but the example, as one text."""
        extras = ((name, text) for name, text in (("Unit", self.unit), ("Source", self.source)) if text)
        return " ".join([self.description, *(f"{name}: {text}." for name, text in extras)])


def text_of(model: type[BaseModel], field: str) -> Text:
    """The text of a field: that of the class itself, or of its nearest base that has one."""
    return next((found[field] for each in model.__mro__ if field in (found := _texts(each))), Text())


@cache
def _texts(model: type) -> dict[str, Text]:
    if not issubclass(model, BaseModel) or not model.__module__.startswith(("fleet.", "gpu_ci.")):
        return {}
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    texts = {}
    for pair in pairwise(body.body if isinstance(body, ast.ClassDef) else []):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=str(docstring))):
                texts[field] = Text.read(docstring)
    return texts


# -- examples ------------------------------------------------------------------------------------------------------------


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
        fleet = read_fleet(path.name.split(".")[1], path)
        for owner, field, value in _set(fleet, config_of(path)):
            # Longer mappings are written key by key.
            if len(str(value)) <= 70:
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
