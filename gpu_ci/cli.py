"""Importing this module registers every command of `gpu-ci` with the application."""

import importlib
import pkgutil

from gpu_ci import image  # noqa: F401
from gpu_ci.acceptance import cli as accept  # noqa: F401 - importing a command registers it
from gpu_ci.app import app
from gpu_ci.offline import commands
from gpu_ci.pending import cli as pending  # noqa: F401 - importing a command registers it
from gpu_ci.submit import cli as submit  # noqa: F401
from gpu_ci.world import cli as world  # noqa: F401

for module in pkgutil.iter_modules(commands.__path__, f"{commands.__name__}."):
    importlib.import_module(module.name)

__all__ = ["app"]
