"""A project folder in which `init` may write. The plan runs the program of this repository.

No plan records and judges resources, which is most of its time, unless a test sets `judged`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpu_ci.offline import plan
from gpu_ci.offline.commands import init
from gpu_ci.offline.init import files
from gpu_ci.offline.init.files import New
from gpu_ci.offline.policyconfig import STACKS, stacks_text
from tests.builders import ROOT

_PREPARED: dict[tuple[Any, ...], New] = {}
"""Stacks that a test of this process prepared before, by the answers and by all that the plan depends on beside them."""
OTHERS = """\
# The stacks of a project that has one.

[other]
kind = "prod"

[other.stack-gpu-ceiling]
maxGpus = 4 # two nodes
why = "Two nodes of two GPUs."
"""


@dataclass(slots=True)
class Project:
    """The folder, and the stacks that were planned."""

    root: Path
    made: list[New] = field(default_factory=list)
    judged: bool = False

    @property
    def files(self) -> dict[str, str]:
        """Every file by its path."""
        return {str(path.relative_to(self.root)): path.read_text() for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    found = Project(tmp_path / "project")
    (found.root / "policies" / "config").mkdir(parents=True)
    (found.root / STACKS).write_text(OTHERS)

    def prepared(answers, cluster, _, day, sets=()):
        asked = (repr(answers), repr(cluster), day, repr(sets), stacks_text(found.root), files.tables, found.judged)
        if asked not in _PREPARED:
            _PREPARED[asked] = files.prepared(answers, cluster, ROOT, day, sets)
        found.made.append(_PREPARED[asked])
        return found.made[-1]

    monkeypatch.setattr(init, "ROOT", found.root)
    monkeypatch.setattr(init, "prepared", prepared)
    monkeypatch.setattr(files, "stacks_text", lambda _: stacks_text(found.root))
    monkeypatch.setattr(plan, "has_sdk", lambda: found.judged)
    return found
