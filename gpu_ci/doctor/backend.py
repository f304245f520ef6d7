"""Pulumi's backend: its login, the stack in it, and the secret that only its CLI decrypts."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from fleet.providers.finding import Finding, ok, skipped, wrong

AREA = "pulumi"


def findings(stack: str, root: Path) -> Iterator[Finding]:
    """Whether somebody is logged in and the backend has the stack."""
    printed, error = read(root, "stack", "ls", "--json")
    if printed is None:
        installed = shutil.which("pulumi") is not None
        yield wrong(AREA, f"no stacks can be listed: {error}", "pulumi login") if installed else skipped(AREA, error)
    elif stack in (name.rpartition("/")[2] for name in _names(printed)):
        yield ok(AREA, f"the backend has the stack {stack}")
    else:
        yield wrong(AREA, f"the backend has no stack {stack}", f"pulumi stack init {stack}")


def set_secret(stack: str, key: str) -> str:
    """The command that encrypts the App's key into the stack's config."""
    return f"pulumi config set --stack {stack} --secret {key} < app.private-key.pem"


def read(root: Path, *words: str) -> tuple[str | None, str]:
    """(output, "") of a command of the Pulumi CLI that only reads; (None, reason) if it fails."""
    if (pulumi := shutil.which("pulumi")) is None:
        return None, "the Pulumi CLI is not on PATH"
    quiet, command = os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true"}, [pulumi, *words, "--non-interactive"]
    try:
        # The words are ours and the stack's name, and no shell reads them.
        process = subprocess.run(command, cwd=root, env=quiet, input="", capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"pulumi {words[0]} fails: {type(error).__name__}"
    if process.returncode:
        return None, " ".join(process.stderr.split()) or f"pulumi {words[0]} fails with status {process.returncode}"
    return process.stdout, ""


def _names(printed: str) -> list[str]:
    try:
        return [entry["name"] for entry in json.loads(printed)]
    except (ValueError, TypeError, KeyError):
        return []
