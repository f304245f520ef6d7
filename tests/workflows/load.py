"""Programs that are in no package as modules, such as those beside their action."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from tests.builders import ROOT


def script(path: Path, name: str) -> ModuleType:
    """A Python file as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def program(action: str, name: str) -> ModuleType:
    """A program of an action as a module."""
    return script(ROOT / ".github" / "actions" / action / f"{name}.py", f"action_{name}")
