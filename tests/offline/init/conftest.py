"""A project folder in which `init` may write. The plan runs the program of this repository."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpu_ci.offline.commands import init
from gpu_ci.offline.init import files
from gpu_ci.offline.init.files import New
from tests.builders import ROOT


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
        found.made.append(files.prepared(answers, cluster, ROOT, day))
        return found.made[-1]

    monkeypatch.setattr(init, "ROOT", found.root)
    monkeypatch.setattr(init, "prepared", prepared)
    return found
