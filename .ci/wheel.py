"""Hatch's hook of the wheel: it adds the components a second time, below `gpu_ci`, for Pulumi programs of other people.

Such a program often has folders of its own that are called `components` or `fleet`. So every import in the copy names the copy.
"""

import ast
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("components", "fleet")
COPY = "gpu_ci._library"
"""The package of the copies."""
FACADE = Path("gpu_ci/components")
"""What programs import. In a clone it imports the folders themselves."""


class Library(BuildHookInterface[Any]):
    """Adds the copy to a wheel. An editable installation needs none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the copy to a temporary folder, and name its files to the build."""
        if version == "editable":
            return
        root = Path(self.root)
        folder = self._folder = tempfile.TemporaryDirectory()
        places = {root / name: Path(*COPY.split("."), name) for name in FOLDERS} | {root / FACADE: FACADE}
        for number, (source, place) in enumerate(_files(places)):
            text = source.read_bytes()
            if source.suffix == ".py":
                text = moved(text.decode("utf-8"), source).encode("utf-8")
            copy = Path(folder.name) / str(number)
            copy.write_bytes(text)
            build_data["force_include"][str(copy)] = str(place)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if version != "editable":
            self._folder.cleanup()


def _files(places: dict[Path, Path]) -> Iterator[tuple[Path, Path]]:
    for folder, place in places.items():
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path, place / path.relative_to(folder)


def moved(source: str, path: Path) -> str:
    """A module whose imports from `FOLDERS` name the copy. Raises ValueError for a form of import that this cannot change."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(_ours(alias.name) for alias in node.names):
            raise ValueError(f"{path}:{node.lineno}: write `from … import …`, which the wheel's build can change")
        if isinstance(node, ast.ImportFrom) and not node.level and _ours(node.module or ""):
            line, column = lines[node.lineno - 1], node.col_offset + len("from ")
            lines[node.lineno - 1] = f"{line[:column]}{COPY}.{line[column:]}"
    return "".join(lines)


def _ours(module: str) -> bool:
    return module.partition(".")[0] in FOLDERS
