"""The fleet of a stack, without Pulumi and without the stack's secrets."""

from __future__ import annotations

from pathlib import Path

from fleet.facts import errors
from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.loading.stackfile import load
from fleet.providers.fleet import Fleet
from gpu_ci.submit.errors import InputError


def read_fleet(stack: str, file: Path | None = None, root: Path = ROOT) -> Fleet:
    """The fleet of a stack of the project in `root`; `file` names another stack file.

    Raises InputError, a line for each problem.
    """
    try:
        return fleet_of(load(stack, root, stack_file=file))
    except errors.InputError as error:
        raise InputError(str(error)) from None
