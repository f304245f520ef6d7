"""Settings of deployments as plain data, and what the program in `deployments/` declares of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from fleet.loading import stackfile
from fleet.loading.deployments import NAMESPACE, Deployments, load
from fleet.loading.stackfile import StackConfig, json_text
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording
from tests.builders import ROOT

FOLDER = ROOT / "deployments"
PROGRAM = FOLDER / "__main__.py"
SECRET = "ociPrivateKey"  # noqa: S105 - a config key
ROLE = "arn:aws:iam::123456789012:role/deployer"
READER = "arn:aws:iam::123456789012:role/reader"


def deployment(**changes: Any) -> dict[str, Any]:
    """A stack that nothing but a person deploys; `changes` replace keys."""
    return {"deployOnPush": False} | changes


def settings(**changes: Any) -> dict[str, Any]:
    """Deployments of the one stack staging; `changes` replace keys."""
    return {
        "organization": "acme",
        "repository": "acme/fleet",
        "branch": "main",
        "stacks": {"staging": deployment()},
    } | changes


def checked_in() -> StackConfig:
    """The repository's own settings, with a placeholder for each secret."""
    return stackfile.with_stand_ins(stackfile.load("main", FOLDER), [f"{NAMESPACE}:{SECRET}"])


@cache
def ours() -> Deployments:
    """The repository's own settings, with or without the secrets that `pulumi config set` writes there."""
    held = checked_in()
    prefix = f"{NAMESPACE}:"
    objects = {key.removeprefix(prefix): value for key, value in held.objects.items()}
    return load(objects, [key.removeprefix(prefix) for key in held.secret_keys])


def as_config(held: dict[str, Any], secrets: dict[str, str] | None = None) -> StackConfig:
    """Settings as the CLI hands them to a program: text, or JSON."""
    values = {key: json_text(value) if isinstance(value, dict | list) else value for key, value in held.items()} | (secrets or {})
    full = {f"{NAMESPACE}:{key}": value for key, value in values.items()}
    hidden = frozenset(f"{NAMESPACE}:{key}" for key in secrets or ())
    return StackConfig(NAMESPACE, "main", FOLDER / "Pulumi.main.yaml", full, hidden, full)


def declared(config: StackConfig, preview: bool = True) -> Recording:
    """What the program registers."""
    return record(PROGRAM, config, preview=preview)


def inputs(recording: Recording) -> dict[tuple[str, str], Any]:
    """(type without package, logical name) → inputs, of everything but the stack."""
    return {
        (resource.type.rpartition(":")[2], resource.name): json.loads(json.dumps(dict(resource.inputs)))
        for resource in recording.resources[1:]
    }


def project(root: Path, held: dict[str, Any]) -> Path:
    """Writes a `deployments/` project with these settings below `root`; JSON is YAML."""
    folder = root / "deployments"
    folder.mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text((FOLDER / "Pulumi.yaml").read_text())
    lines = "".join(f"  {NAMESPACE}:{key}: {json.dumps(value)}\n" for key, value in held.items())
    (folder / "Pulumi.main.yaml").write_text(f"config:\n{lines}")
    return root
