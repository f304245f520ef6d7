"""Reads the stack's config into a fleet."""

from __future__ import annotations

import pulumi

from fleet.loading.config import CONFIG_KEYS, check_keys, load
from fleet.prove.git_folders import require_folders
from fleet.providers.fleet import NAMESPACE, Fleet


def read_fleet(config: pulumi.Config) -> Fleet:
    """The fleet of the stack that runs. Raises FleetError, also for keys of our namespace that are unknown or wrongly secret."""
    held = _keys()
    check_keys(held, [key for key in held if pulumi.runtime.config.is_config_secret(f"{NAMESPACE}:{key}")])
    values = {key: _value(config, key) for key in CONFIG_KEYS}
    fleet = load({key: value for key, value in values.items() if value is not None})
    require_folders(fleet, pulumi.get_project(), pulumi.get_stack())
    return fleet


def _value(config: pulumi.Config, key: str) -> object:
    """A setting's value, as text where it is no JSON: the SDK's own error would quote all of it."""
    try:
        return config.get_object(key)
    except pulumi.ConfigTypeError:
        return config.get(key)


def _keys() -> list[str]:
    """Keys of our namespace that the stack's config holds."""
    prefix = f"{NAMESPACE}:"
    held = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    return [key.removeprefix(prefix) for key in held if key.startswith(prefix)]
