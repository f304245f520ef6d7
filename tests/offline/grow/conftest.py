"""A project with a stack of `init` and the shipped stacks, which the tests of `add` and `remove` may change."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gpu_ci.cli import app
from gpu_ci.offline import agree
from gpu_ci.offline.grow.stack import GrowingStack
from gpu_ci.offline.init.answers import Answers
from gpu_ci.offline.init.files import prepared, write
from tests.builders import ROOT
from tests.day import AS_OF

SHIPPED = ("Pulumi.staging.yaml", "Pulumi.prod.yaml", "Pulumi.homelab.yaml")


@dataclass(frozen=True)
class Project:
    """The folder of a user."""

    root: Path

    def text(self, path: str = "Pulumi.acme.yaml") -> str:
        return (self.root / path).read_bytes().decode()

    def files(self) -> dict[str, bytes]:
        """Every file, without those of the program."""
        paths = (path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink() and path.suffix != ".pyc")
        return {str(path.relative_to(self.root)): path.read_bytes() for path in paths}

    def run(self, *words: str, answers: str | None = None) -> Result:
        return CliRunner().invoke(app, list(words), input=answers)

    def stack(self, name: str, file: Path | None = None) -> GrowingStack:
        return GrowingStack(name, self.root, file)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, with the stack acme."""
    root = tmp_path_factory.mktemp("project")
    (root / "docs").mkdir()
    shutil.copytree(ROOT / "policies" / "config", root / "policies" / "config")
    for name in (*SHIPPED, "policies/stacks.toml"):
        shutil.copy(ROOT / name, root / name)
    answers = Answers("acme", "eks", "us-west-2", "T4", "https://github.com/acme", ("tests", "release"), "staging")
    write(prepared(answers, None, root_of(root), AS_OF), root)
    (root / "docs/inventory-acme.md").write_text("of yesterday\n")
    return root


def root_of(root: Path) -> Path:
    """The project with links to the program, which plans read."""
    for name in ("Pulumi.yaml", "__main__.py"):
        if not (root / name).is_symlink():
            (root / name).symlink_to(ROOT / name)
    return root


@pytest.fixture
def project(tmp_path: Path, written: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    shutil.copytree(written, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.setattr(agree, "ROOT", tmp_path)
    return Project(tmp_path)
