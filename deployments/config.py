"""Reads the project's config into the settings of deployments."""

from __future__ import annotations

from typing import Any

import pulumi

from fleet.loading.deployments import CONFIG_KEYS, NAMESPACE, Deployments, load


def read_deployments(config: pulumi.Config) -> Deployments:
    """The settings of the current stack. Raises FleetError, also for a plain-text secret and for unknown keys."""
    prefix = f"{NAMESPACE}:"
    values = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    keys = [key.removeprefix(prefix) for key in values if key.startswith(prefix)]
    secret = [key for key in keys if pulumi.runtime.config.is_config_secret(f"{prefix}{key}")]
    return load({key: _value(config, key) for key in keys}, secret)


def _value(config: pulumi.Config, key: str) -> Any:
    """A setting's value; a mapping or a list is JSON. Other keys are secrets, whose values are not needed here."""
    if key not in CONFIG_KEYS:
        return None
    text = config.get(key) or ""
    try:
        return config.get_object(key) if text.startswith(("{", "[")) else text
    except pulumi.ConfigTypeError:
        return text  # the model reports the mistake; the SDK's error would quote the whole value
