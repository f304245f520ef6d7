"""`gpu-ci world STACK`: see docs/world.md."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from fleet.facts.errors import InputError, listed, quoted
from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.loading.stackfile import load
from gpu_ci.app import RUN, Cluster, File, app, console, exit_status
from gpu_ci.offline.day import day_of
from gpu_ci.offline.layout import show_line, show_table
from gpu_ci.offline.plan import require_sdk
from gpu_ci.offline.progress import Progress
from gpu_ci.world import get, parts
from gpu_ci.world.faults import DRILLS, Drill, drilled
from gpu_ci.world.jobs import batches
from gpu_ci.world.processes import WorldError
from gpu_ci.world.record import document, write
from gpu_ci.world.run import Options, World, live


@app.command(rich_help_panel=RUN)
def world(
    stack: Annotated[str | None, typer.Argument(metavar="STACK", help="Name of the stack; none for --get.")] = None,
    file: File = None,
    cluster: Cluster = None,
    jobs: Annotated[str, typer.Option("--jobs", help="Queue so many jobs, or those of a YAML file.")] = "100",
    faults: Annotated[str | None, typer.Option("--faults", help="Run this drill, or `all`, while jobs run.")] = None,
    factor: Annotated[float, typer.Option("--factor", min=1, help="Jobs and boots are so many times shorter.")] = 60,
    charts: Annotated[Path | None, typer.Option("--charts", help="Folder of charts; default: that of the downloads.")] = None,
    record_file: Annotated[Path | None, typer.Option("--record", help="Write the record of the run here.")] = None,
    download: Annotated[bool, typer.Option("--get", help="Download the programs, and say how to get the others.")] = False,
) -> None:
    """Run a stack's Kubernetes half on this machine, with real controllers, and queue jobs. It costs nothing.

    Exit status: 0 every check holds, 1 one fails, 2 the input is wrong.
    """
    with exit_status(), Progress() as progress:
        if download:
            get.get(parts.cache())
        if stack is None:
            if not download:
                raise InputError("STACK: is missing; give the name of a stack, or --get")
            return
        require_sdk("world")
        config = load(stack, ROOT, file)
        fleet, day = fleet_of(config), day_of()
        names = [name for name, _ in fleet.clusters_by_name()]
        if cluster is not None and cluster not in names:
            raise InputError(f"--cluster: the stack has no such cluster; got {quoted(cluster)}; give one of: {listed(names)}")
        drills = chosen(faults)
        programs = parts.find()
        programs.require()
        ok = True
        for name in [cluster] if cluster else names:
            settings = fleet.clusters[name]
            queued = batches(jobs, settings)
            with tempfile.TemporaryDirectory(prefix="gpu-ci-world-") as folder:
                options = Options(factor, charts or parts.cache() / "charts", programs, Path(folder), day)
                ok &= _run(World(config, fleet, name, options), queued, drills, progress, record_file)
        raise typer.Exit(0 if ok else 1)
