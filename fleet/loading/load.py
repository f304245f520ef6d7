"""From a stack's configuration to its fleet."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fleet.facts.errors import FleetError
from fleet.loading.config import CONFIG_KEYS, check_keys, load
from fleet.loading.stackfile import StackConfig, wrong
from fleet.prove.git_folders import require_folders
from fleet.providers.fleet import NAMESPACE, Fleet


def load_fleet(config: Mapping[str, object], secret: Collection[str], project: str, stack: str) -> Fleet:
    """The fleet from the parsed config of our namespace, by key without namespace; `secret` are the encrypted keys.

    Raises FleetError, also for keys that are unknown or wrongly secret.
    """
    check_keys(sorted(config), secret)
    fleet = load({key: config[key] for key in CONFIG_KEYS if config.get(key) is not None})
    require_folders(fleet, project, stack)
    return fleet


def fleet_of(config: StackConfig) -> Fleet:
    """The fleet of a stack file. Raises InputError, a line for each problem with its place in the file."""
    try:
        return load_fleet(*config.of(NAMESPACE), config.project, config.stack)
    except FleetError as error:
        raise wrong(config, error) from error
