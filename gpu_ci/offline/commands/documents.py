"""The commands that `make docs` runs: pages, schemas, each stack's policy config; and the policy pack to publish."""

import shlex
import sys

import typer

from fleet.facts.errors import reachable
from fleet.jobs.stack import refusals
from fleet.loading.config import read_stack
from fleet.loading.home import ROOT
from fleet.prove import placement
from gpu_ci.app import DOCUMENT, WRITE, File, Folder, Stack, app, reply
from gpu_ci.offline.inventory.page import document
from gpu_ci.offline.pack import write_pack
from gpu_ci.offline.policyconfig import write_policy_configs
from gpu_ci.offline.policydocs import document as policies_page
from gpu_ci.offline.settings.page import pages
from gpu_ci.offline.settings.schema import schema_text
from gpu_ci.offline.words import refusal


@app.command(rich_help_panel=DOCUMENT)
def inventory(stack: Stack, file: File = None) -> None:
    """Print docs/inventory-STACK.md: every GPU pool and GPU workload of a stack, and what it needs of the nodes."""
    config, fleet = read_stack(stack, file)
    refused = tuple(refusals(fleet, placement.place(fleet)))
    page = "" if refused else document(stack, fleet)
    reply((f"error: {refusal(config, each)}" for each in refused), err=True)
    reply(page)
    raise typer.Exit(1 if refused else 0)


@app.command(rich_help_panel=DOCUMENT)
def policies() -> None:
    """Print docs/policies.md: every policy with its levels, reasons and fixes."""
    sys.stdout.write(policies_page())


@app.command(name="policy-config", rich_help_panel=WRITE)
def policy_config() -> None:
    """Write policies/config/STACK.json for each stack in policies/stacks.toml."""
    reply(map(str, write_policy_configs(ROOT)))


@app.command(name="policy-pack", rich_help_panel=WRITE)
def policy_pack(out: Folder) -> None:
    """Write the policy pack as a folder that `pulumi policy publish` accepts."""
    publish = f"pulumi -C {shlex.quote(str(out.resolve()))} policy publish YOUR-ORGANIZATION"
    reply((*map(str, write_pack(out)), f"publish it: {publish}"))


@app.command(rich_help_panel=DOCUMENT)
def schema() -> None:
    """Print schema/stack.schema.json: the JSON Schema of stack files, for editors."""
    sys.stdout.write(schema_text())


@app.command(rich_help_panel=DOCUMENT)
def settings(out: Folder) -> None:
    """Write settings.md, with the settings to begin with, and in settings/ the pages with every key of a stack file."""
    with reachable(f"--out: {out} cannot be written", "name a folder that can"):
        (out / "settings").mkdir(parents=True, exist_ok=True)
        for page, text in pages().items():
            (out / page).write_text(text, encoding="utf-8")
