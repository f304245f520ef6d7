"""The program of `pulumi -C deployments up`: it configures how Pulumi Deployments runs the fleet's stacks."""

import sys
from pathlib import Path
from typing import Any

import pulumi

# The repository has `fleet`. It comes last on the path, so that no file of the repository hides a package.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from deployments.declare import declare
from fleet.facts.errors import FleetError
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


config = pulumi.Config(NAMESPACE)
try:
    settings = read_deployments(config)
except FleetError as error:
    raise pulumi.RunError(str(error)) from error
pools = declare(settings, config)
pulumi.export("agentPools", {name: pool.agent_pool_id for name, pool in pools.items()})
# Secret tokens with which agents join their pool.
pulumi.export("agentPoolTokens", {name: pool.token_value for name, pool in pools.items()})
