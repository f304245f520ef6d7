"""What the docstrings below fields say: description, unit, source, example.

`use_attribute_docstrings` of pydantic is not used, because it reads the source of each class at every import.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from pydantic import BaseModel

from fleet.facts.yaml_text import kubernetes_documents

_PART = re.compile(r"\s(?=(?:Unit|Source|Example): )")


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
        description, *parts = _PART.split(" ".join(docstring.split()))
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
