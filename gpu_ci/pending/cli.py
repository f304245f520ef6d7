"""`gpu-ci pending STACK`: see docs/interrupted.md."""

import json
from pathlib import Path

import typer
from rich.text import Text

from fleet.facts.errors import InputError
from fleet.loading.config import read_stack
from fleet.loading.home import ROOT
from gpu_ci.app import RUN, File, Json, Stack, app, console, reply
from gpu_ci.offline.jsontext import fields_of
from gpu_ci.pending import state
from gpu_ci.pending.findings import UNKNOWN, Clouds, Entry, Findings

DEFAULT = "pending.json"
"""The import file of the printed commands if none is named."""


@app.command(rich_help_panel=RUN)
def pending(
    stack: Stack, file: File = None, state_file: Path | None = None, import_file: Path | None = None, as_json: Json = False
) -> None:
    """List what an interrupted pulumi up left in clouds and clusters, with the commands that settle it. Changes nothing.

    A cloud or cluster without credentials is not asked; a line says so.
    Exit status: 0 nothing is pending, 1 something is, 2 the input is wrong.
    """
    config, fleet = read_stack(stack, file)
    text, source = (state.export(stack, ROOT), "stack") if state_file is None else (state.read(state_file), "--state")
    held = state.parse(text, source)
    clouds = [provider.leftovers(config.project, stack, clusters) for provider, clusters in fleet.by_provider()]
    findings = Findings(held, Clouds(held, clouds))
    if import_file is not None:
        _write(import_file, findings)
    commands = findings.commands(stack, str(import_file or DEFAULT))
    if as_json:
        _print_json(stack, findings, commands)
    else:
        _print(stack, findings, commands, import_file)
    raise typer.Exit(1 if findings.entries else 0)


def _write(path: Path, findings: Findings) -> None:
    try:
        path.write_text(json.dumps(findings.import_file(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"--import-file: cannot write {path} ({type(error).__name__}); give a path that you may write") from None


def _print(stack: str, findings: Findings, commands: list[str], import_file: Path | None) -> None:
    out = console()

    def say(line: str) -> None:
        out.print(Text(line), soft_wrap=True)

    for entry in findings.entries:
        kind = f" ({entry.type})" if entry.type else ""
        say(f"{entry.what}: {entry.name}{kind}: {entry.says}: {entry.needs}")
        if entry.look and entry.needs == UNKNOWN:
            say(f"  look: {entry.look}")
    for where, why in findings.clouds.not_asked.items():
        say(f"not asked: {where}: {why}")
    if not findings.entries:
        say("nothing is pending")
        return
    say(f"\n{len(findings.entries)} pending{f'. If no run of {stack} is under way, run in this order:' if commands else ''}")
    if import_file is None and findings.import_file()["resources"]:
        say(f"  gpu-ci pending {stack} --import-file {DEFAULT}")
    for command in commands:
        say(f"  {command}")
    if count := sum(entry.needs == UNKNOWN for entry in findings.entries):
        say(f"{count} may exist. Log in and run this again, or look, before you clear: pulumi refresh would forget them.")


def _print_json(stack: str, findings: Findings, commands: list[str]) -> None:
    entries = [fields_of(entry, *Entry._fields) for entry in findings.entries]
    not_asked = [{"where": where, "why": why} for where, why in findings.clouds.not_asked.items()]
    content = {"stack": stack, "pending": entries, "notAsked": not_asked, "commands": commands}
    reply(content | {"importFile": findings.import_file()})
