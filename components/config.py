"""Reads the stack's config into a fleet."""

import pulumi

from fleet.loading.config import CONFIG_KEYS, load_fleet
from fleet.providers.fleet import NAMESPACE, Fleet


def read_fleet(config: pulumi.Config) -> Fleet:
    """The fleet of the current stack. Raises FleetError, also for a `gpu-ci` key that is unknown or must not be secret."""
    values = {key: _value(config, key) for key in _keys()}
    secret = [key for key in values if pulumi.runtime.config.is_config_secret(f"{NAMESPACE}:{key}")]
    return load_fleet(values, secret, pulumi.get_project(), pulumi.get_stack())


def _value(config: pulumi.Config, key: str) -> object:
    """A setting's value; None for an unknown key. A value that is not JSON is a string: the SDK's error would quote it."""
    if key not in CONFIG_KEYS:
        return None
    try:
        return config.get_object(key)
    except pulumi.ConfigTypeError:
        return config.get(key)


def _keys() -> list[str]:
    """The `gpu-ci` keys in the stack's config."""
    prefix = f"{NAMESPACE}:"
    values = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    return [key.removeprefix(prefix) for key in values if key.startswith(prefix)]
