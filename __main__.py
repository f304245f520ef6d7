"""What `pulumi up` runs: load the fleet, build it, export its outputs."""

import pulumi

from components.build import build, require_deployable
from components.config import read_fleet
from fleet.facts.errors import FleetError
from fleet.prove.placement import PlacementError
from fleet.providers.fleet import NAMESPACE

config = pulumi.Config(NAMESPACE)
try:
    fleet = read_fleet(config)
    # Before keys are asked for, which such a stack has not.
    require_deployable(fleet, pulumi.get_stack())
    keys = {scope: config.require_secret(key) for scope, key in fleet.secrets.items()}
    outputs = build(fleet, pulumi.get_project(), pulumi.get_stack(), keys)
except (FleetError, PlacementError) as error:
    raise pulumi.RunError(str(error)) from error
for name, value in outputs.items():
    pulumi.export(name, value)
