"""The program of `pulumi -C bootstrap up`: the AWS roles, OIDC providers and state bucket that deploy the fleet's stacks."""

import sys
from pathlib import Path

import pulumi

# The repository has `fleet`. It comes last on the path, so that no file of the repository hides a package.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from bootstrap.config import read_settings
from bootstrap.declare import declare
from bootstrap.rights import Target
from fleet.facts.errors import FleetError, InputError

ROOT = Path(__file__).resolve().parent.parent

try:
    settings = read_settings()
    targets = [Target.of(settings.account, stack, ROOT) for stack in settings.stacks]
except (FleetError, InputError) as error:
    raise pulumi.RunError(str(error)) from error
for key, value in declare(settings, targets).items():
    pulumi.export(key, value)
