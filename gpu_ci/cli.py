"""Importing this module registers every command of `gpu-ci` with the application."""

from gpu_ci import image  # noqa: F401
from gpu_ci.acceptance import cli as accept  # noqa: F401 - importing a command registers it
from gpu_ci.app import app
from gpu_ci.offline.commands import (  # noqa: F401
    arc_upgrade,
    audit,
    calendar,
    charts,
    check,
    doctor,
    explain,
    freshen,
    init,
    inventory,
    plan,
    policies,
    policy_config,
    policy_pack,
    probe,
    render,
    schema,
    settings,
    start,
)
from gpu_ci.submit import cli as submit  # noqa: F401

__all__ = ["app"]
