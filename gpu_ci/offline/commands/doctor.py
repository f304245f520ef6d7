"""`gpu-ci doctor`: what this machine, the clouds and GitHub lack for `pulumi up` of a stack."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import typer
from rich.text import Text

from fleet.facts.day import day_of
from fleet.facts.errors import InputError
from fleet.facts.limits import read_bytes
from fleet.loading.config import read_stack
from fleet.loading.home import ROOT, project_file
from fleet.loading.project import Project
from fleet.loading.stackfile import StackConfig
from fleet.providers.finding import OK, SKIPPED, WRONG, Finding, ok, skipped, wrong
from fleet.providers.fleet import NAMESPACE, Fleet
from gpu_ci.app import PROVE, File, Json, Quiet, Stack, Texts, app, console, reply
from gpu_ci.doctor import backend, freshness, github, network, settings, tools
from gpu_ci.doctor.sources.web import Web
from gpu_ci.offline.jsontext import fields_of
from gpu_ci.offline.policyconfig import STACKS, require_current

_STYLES = {OK: "green", WRONG: "bold red", SKIPPED: "dim"}


@app.command(name="doctor", rich_help_panel=PROVE)
def doctor(
    stack: Stack,
    file: File = None,
    address: str | None = None,
    key_file: Texts = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check tools, settings, credentials, quotas and offers before `pulumi up`. Changes nothing.

    Each line is ok, wrong with the fix, or skipped with the reason.
    Exit status: 0 nothing is wrong, 1 something is wrong, 2 the input is wrong.
    """
    findings = []
    for finding in _findings(*read_stack(stack, file), address, key_file or ()):
        findings.append(finding)
        if not as_json and (finding.state == WRONG or not quiet):
            _print(finding)
    counts = Counter(finding.state for finding in findings)
    if as_json:
        lines = [fields_of(finding, "state", "area", "said", "fix") for finding in findings]
        reply({"stack": stack, "ok": not counts[WRONG], "findings": lines})
    else:
        totals = ", ".join(f"{counts[state]} {state}" for state in (OK, WRONG, SKIPPED))
        console().print(Text(f"{'FAILED' if counts[WRONG] else 'OK'}: {totals}", style=_STYLES[WRONG if counts[WRONG] else OK]))
    raise typer.Exit(1 if counts[WRONG] else 0)


def _findings(config: StackConfig, fleet: Fleet, address: str | None, key_files: Sequence[str]) -> Iterator[Finding]:
    settled = fleet.clusters.values()
    minors = {cluster.kubernetes_version for cluster in settled}
    yield from tools.findings({cluster.provider for cluster in settled}, Project.read(project_file(ROOT)).needed, minors)
    yield from settings.findings(config, fleet)
    yield from _policies(config.stack)
    if fleet.deployable:
        yield from backend.findings(config.stack, ROOT)
    yield from network.findings(fleet, address)
    for provider, clusters in fleet.by_provider():
        yield from provider.findings(clusters)
    token = os.environ.get("GH_TOKEN") or os.environ.get("GITHUB_TOKEN") or ""
    yield from github.findings(config.stack, fleet, partial(_key, config, fleet, _files(fleet, key_files)), token)
    yield from freshness.findings(fleet, Web(token), day_of())


def _files(fleet: Fleet, options: Sequence[str]) -> dict[str, Path]:
    """The files of --key-file by the config key of the App's private key. One without a scope is for the first App."""
    first, files = next(iter(fleet.scopes)), dict[str, Path]()
    for option in options:
        name, _, path = option.partition("=")
        scope, file = (name, path) if path and name in fleet.scopes else (first, option)
        files[fleet.github.secret_of(scope)] = Path(file)
    return files


def _key(config: StackConfig, fleet: Fleet, files: Mapping[str, Path], secret: str) -> tuple[str, str]:
    """(an App's key, "") from a file or from Pulumi's CLI; ("", reason) if neither gives it. Raises InputError.

    `secret` is the config key of the App's private key.
    """
    if (file := files.get(secret)) is not None:
        try:
            return read_bytes(file).decode(), ""
        except (OSError, ValueError) as error:
            raise InputError(f"--key-file: cannot read {file} ({type(error).__name__}); give a file in PEM form") from None
    name, way = f"{NAMESPACE}:{secret}", "--key-file FILE" if len(fleet.scopes) == 1 else "--key-file SCOPE=FILE"
    if secret not in fleet.secrets.values() or name not in config.secret_keys:
        return "", f"the stack's config has no key of the App; give it: {way}"
    printed, why = backend.read(ROOT, "config", "get", name, "--stack", config.stack)
    return printed or "", f"{why}; give the key: {way}"


def _policies(stack: str) -> Iterator[Finding]:
    if not (ROOT / "policies" / "config" / f"{stack}.json").is_file():
        yield skipped("policies", f"{STACKS} has no table [{stack}]: every policy has its own level")
        return
    try:
        require_current(stack, ROOT)
    except InputError as error:
        yield wrong("policies", str(error), "make docs")
    else:
        yield ok("policies", f"policies/config/{stack}.json is current")


def _print(finding: Finding) -> None:
    """One line, and one for the fix, neither folded nor cut: people copy the command."""
    out = console()
    head = Text(f"{finding.state:<8}{finding.area:<10}", style=_STYLES[finding.state])
    out.print(head, Text(finding.said), sep="", soft_wrap=True)
    if finding.fix:
        out.print(Text(f"{'':<18}fix: {finding.fix}"), soft_wrap=True)
