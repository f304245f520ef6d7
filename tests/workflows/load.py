"""Programs of actions as modules: they lie beside their action and are in no package."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from tests.builders import ROOT


def program(action: str, name: str) -> ModuleType:
    """A program of an action as a module."""
    spec = importlib.util.spec_from_file_location(f"action_{name}", ROOT / ".github" / "actions" / action / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
