"""The program of `pulumi -C deployments up`: it configures how Pulumi Deployments runs the fleet's stacks."""

import sys
from pathlib import Path

import pulumi

# The repository has `fleet`. It comes last on the path, so that no file of the repository hides a package.
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
# Secret tokens with which agents join their pool.
pulumi.export("agentPoolTokens", {name: pool.token_value for name, pool in pools.items()})
