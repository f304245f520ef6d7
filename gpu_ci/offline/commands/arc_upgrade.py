"""`gpu-ci arc-upgrade`: how a deployed stack reaches another minor of Actions Runner Controller without ending a job."""

import re

from fleet.facts.errors import InputError
from fleet.facts.versions import CHARTS
from fleet.loading.config import read_fleet
from fleet.render.arc import SETS, upgrade
from gpu_ci.app import PROVE, File, Stack, app, reply


@app.command(name="arc-upgrade", rich_help_panel=PROVE)
def arc_upgrade(stack: Stack, before: str | None = None, after: str | None = None, file: File = None) -> None:
    """Print the commands that upgrade a deployed stack to another minor of Actions Runner Controller. No job ends.

    Exit status: 0 the commands are printed, or none are needed; 2 the input is wrong.
    """
    old, new = (_version(option, value) for option, value in (("--from", before), ("--to", after)))
    commands = upgrade(read_fleet(stack, file), stack, old, new)
    none = f"# ARC {old} -> {new}: the minor is the same, or the stack has no runner set. `pulumi up` alone is enough."
    reply(commands or (none,))


def _version(option: str, value: str | None) -> str:
    if value is None:
        return CHARTS[SETS].version
    if not re.fullmatch(r"\d+\.\d+\.\d+", value):
        why = f"{option}: must be a version of three numbers such as {CHARTS[SETS].version}; got {value!r}"
        raise InputError(f"{why}; correct it")
    return value
