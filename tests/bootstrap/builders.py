"""Settings of the bootstrap as plain data, and what the program in `bootstrap/` declares of them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from bootstrap.config import NAMESPACE
from bootstrap.rights import Target
from fleet.loading.stackfile import StackConfig, json_text
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording
from tests.builders import ROOT

FOLDER = ROOT / "bootstrap"
ACCOUNT = "123456789012"
OPERATOR = f"arn:aws:iam::{ACCOUNT}:role/admin"


def settings(**changes: Any) -> dict[str, Any]:
    """A bootstrap of the one stack staging; `changes` replace keys, and None removes one."""
    held = {
        "account": ACCOUNT,
        "region": "us-west-2",
        "organization": "acme",
        "repository": "acme/fleet",
        "stacks": {"staging": {}},
    }
    return {key: value for key, value in (held | changes).items() if value is not None}


def declared(held: dict[str, Any], preview: bool = True, secret: frozenset[str] = frozenset()) -> Recording:
    """What the program registers with these settings, recorded once for all that read it."""
    return _recorded(json.dumps(held), preview, secret)


@cache
def _recorded(settings: str, preview: bool, secret: frozenset[str]) -> Recording:
    held = json.loads(settings)
    values = {key: json_text(value) if isinstance(value, dict | list) else value for key, value in held.items()}
    full = {f"{NAMESPACE}:{key}": value for key, value in values.items()}
    config = StackConfig(NAMESPACE, "main", FOLDER / "Pulumi.main.yaml", full, secret, full)
    return record(FOLDER / "__main__.py", config, preview=preview)


@cache
def target(stack: str = "staging") -> Target:
    """What the roles of one of the repository's stacks may change."""
    return Target.of(ACCOUNT, stack, ROOT)
