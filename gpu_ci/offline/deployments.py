"""Checks that the runners of Pulumi Deployments can reach the endpoints of a stack.

The settings are those of the project in `deployments/`. They are read in the same way as a stack file.
"""

from __future__ import annotations

from pathlib import Path

from fleet.facts.errors import FleetError
from fleet.loading import stackfile
from fleet.loading.deployments import FILE, NAMESPACE, load
from fleet.loading.stackfile import StackConfig
from fleet.providers.fleet import Fleet


def reach(config: StackConfig, fleet: Fleet, root: Path) -> tuple[str, ...]:
    """Remarks on how deployments of a stack reach its endpoints; none for a project without deployments.

    Raises InputError for wrong settings, with their lines, and for a private endpoint that no deployment can reach, with its line
    in the stack file.
    """
    path = root / FILE
    if not path.parent.exists():
        return ()
    settings = stackfile.load("main", path.parent, stack_file=path)
    try:
        deployments = load(*settings.of(NAMESPACE))
    except FleetError as error:
        raise stackfile.wrong(settings, error) from error
    try:
        deployments.require_reach(config.stack, fleet)
    except FleetError as error:
        raise stackfile.wrong(config, error) from error
    return tuple(deployments.remarks(config.stack, fleet))
