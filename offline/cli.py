"""`python -m offline`: importing this module registers every command of `offline/commands` with the application."""

from offline.app import ROOT, app
from offline.commands import (
    arc_upgrade,
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
    render,
    schema,
    settings,
    start,
)

__all__ = [
    "ROOT",
    "app",
    "arc_upgrade",
    "calendar",
    "charts",
    "check",
    "doctor",
    "explain",
    "freshen",
    "init",
    "inventory",
    "plan",
    "policies",
    "policy_config",
    "policy_pack",
    "render",
    "schema",
    "settings",
    "start",
]
