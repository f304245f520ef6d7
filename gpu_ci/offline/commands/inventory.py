"""`gpu-ci inventory`: the page docs/inventory-STACK.md."""

import sys

import typer

from fleet.facts.credentials import mask
from fleet.jobs.stack import refusals
from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.loading.stackfile import load
from fleet.prove import placement
from gpu_ci.app import DOCUMENT, File, Stack, app
from gpu_ci.offline.inventory.page import document
from gpu_ci.offline.words import refusal


@app.command(rich_help_panel=DOCUMENT)
def inventory(stack: Stack, file: File = None) -> None:
    """Print docs/inventory-STACK.md: every GPU pool and GPU workload of a stack, and what it needs of the nodes."""
    config = load(stack, ROOT, stack_file=file)
    fleet = fleet_of(config)
    refused = tuple(refusals(fleet, placement.place(fleet)))
    page = "" if refused else document(stack, fleet)
    sys.stderr.writelines(f"error: {mask(str(refusal(config, each)))}\n" for each in refused)
    sys.stdout.write(mask(page))
    raise typer.Exit(1 if refused else 0)
