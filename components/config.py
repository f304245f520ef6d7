"""Reads the stack's config into a fleet."""

from __future__ import annotations

import pulumi

from fleet.errors import FleetError, Problem
from fleet.settings import CONFIG_KEYS, NAMESPACE, SECRETS, Fleet, load


def read_fleet(config: pulumi.Config) -> Fleet:
    """The fleet of the stack that runs. Raises FleetError, also for a key of our namespace that does not exist."""
    known = {*CONFIG_KEYS, *SECRETS}
    unknown = [key for key in _keys() if key not in known]
    if unknown:
        raise FleetError(
            tuple(Problem((f"{NAMESPACE}:{key}",), f"unknown key; known keys: {', '.join(sorted(known))}", "") for key in unknown)
        )
    values = {key: config.get_object(key) for key in CONFIG_KEYS}
    return load({key: value for key, value in values.items() if value is not None})


def _keys() -> list[str]:
    """Keys of our namespace that the stack's config holds."""
    prefix = f"{NAMESPACE}:"
    held = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    return [key.removeprefix(prefix) for key in held if key.startswith(prefix)]
