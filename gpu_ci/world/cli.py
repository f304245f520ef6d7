"""`gpu-ci world STACK`: see docs/world.md."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fleet.facts.errors import InputError
from fleet.loading.stackfile import name_of_file
from gpu_ci.app import RUN, Cluster, File, RecordFile, app
from gpu_ci.offline.plan import require_sdk
from gpu_ci.offline.progress import Progress


@app.command(rich_help_panel=RUN)
def world(
    stack: Annotated[str | None, typer.Argument(metavar="STACK", callback=name_of_file, help="Name of the stack.")] = None,
    file: File = None,
    cluster: Cluster = None,
    jobs: str = "100",
    faults: str | None = None,
    factor: float = 60,
    charts: Path | None = None,
    record: RecordFile = None,
    get: bool = False,
) -> None:
    """Run the Kubernetes half of a stack on this machine with its real controllers, and queue jobs. It costs nothing.

    Exit status: 0 every check holds, 1 one fails, 2 the input is wrong: nothing was started.
    """
    with Progress() as progress:
        if stack is None and not get:
            raise InputError("STACK: is missing; name a stack, or give --get")
        require_sdk("world")
        if find_spec("cryptography") is None:
            raise InputError("world: makes keys of its own with cryptography; install gpu-ci[pulumi,doctor]")

        from gpu_ci.world.session import Asked, download, run  # noqa: PLC0415 - it loads the SDK, which may not be installed

        if get:
            download(progress)
        if stack is not None and not run(Asked(stack, file, cluster, jobs, faults, factor, charts, record), progress):
            raise typer.Exit(1)
