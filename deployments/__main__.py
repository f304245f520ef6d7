"""What `pulumi -C deployments up` runs: how Pulumi Deployments runs the fleet's stacks."""

import sys
from pathlib import Path

import pulumi

# `fleet` lies beside this project; last, so that nothing of the repository hides a package.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from deployments.config import read_deployments
from deployments.declare import declare
from fleet.facts.errors import FleetError
from fleet.loading.deployments import NAMESPACE

config = pulumi.Config(NAMESPACE)
try:
    settings = read_deployments(config)
except FleetError as error:
    raise pulumi.RunError(str(error)) from error
pools = declare(settings, config)
pulumi.export("agentPools", {name: pool.agent_pool_id for name, pool in pools.items()})
# What an agent shows to be of its pool: secret.
pulumi.export("agentPoolTokens", {name: pool.token_value for name, pool in pools.items()})
