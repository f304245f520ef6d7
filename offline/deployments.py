"""How Pulumi Deployments runs a stack, as far as a plan can tell: whether its runners reach the stack's endpoints.

The settings are those of the project in `deployments/`, read as the stack's own file is.
"""

from __future__ import annotations

from pathlib import Path

from fleet.facts.errors import FleetError
from fleet.loading import stackfile
from fleet.loading.deployments import FILE, NAMESPACE, Deployments, load
from fleet.loading.stackfile import StackConfig
from fleet.providers.fleet import Fleet


def reach(config: StackConfig, fleet: Fleet, root: Path) -> tuple[str, ...]:
    """What is doubtful about how deployments of a stack reach its endpoints; nothing for a project without deployments.

    Raises InputError for settings that cannot be used, at their lines, and for a private endpoint that no deployment reaches, at
    the stack file's.
    """
    deployments = _deployments(root)
    if deployments is None:
        return ()
    try:
        deployments.require_reach(config.stack, fleet)
    except FleetError as error:
        raise stackfile.wrong(config, error) from error
    return tuple(deployments.remarks(config.stack, fleet))


def _deployments(root: Path) -> Deployments | None:
    """The settings of the project at `root`, or None where it has none."""
    path = root / FILE
    if not path.parent.exists():
        return None
    config = stackfile.load("main", path.parent, stack_file=path)
    try:
        return load(*config.of(NAMESPACE))
    except FleetError as error:
        raise stackfile.wrong(config, error, FILE) from error
