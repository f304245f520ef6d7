"""A project folder in which `init` may write. The plan runs the program of this repository."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpu_ci.offline.commands import init
from gpu_ci.offline.init import files
from gpu_ci.offline.init.files import New
from tests.builders import ROOT

_PREPARED: dict[tuple[Any, ...], New] = {}
"""Stacks that a test of this process prepared before, by the answers and by how the policy values are made."""


@dataclass(slots=True)
class Project:
    """The folder, and the stacks that were planned."""

    root: Path
    made: list[New] = field(default_factory=list)

    @property
    def files(self) -> dict[str, str]:
        """Every file by its path."""
        return {str(path.relative_to(self.root)): path.read_text() for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    found = Project(tmp_path / "project")
    (found.root / "policies" / "config").mkdir(parents=True)
    shutil.copy(ROOT / "policies" / "stacks.toml", found.root / "policies")

    def prepared(answers, cluster, _, day):
        asked = (repr(answers), repr(cluster), day, files.tables)
        if asked not in _PREPARED:
            _PREPARED[asked] = files.prepared(answers, cluster, ROOT, day)
        found.made.append(_PREPARED[asked])
        return found.made[-1]

    monkeypatch.setattr(init, "ROOT", found.root)
    monkeypatch.setattr(init, "prepared", prepared)
    return found
