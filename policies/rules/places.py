"""The file and key that a message asks people to change: a property of the policy's config, or the stack file.

A check writes `setting("maxGpus")`. When `Rule` and `StackRule` report, they fill in the policy and the file, because only the
URN names the stack. People edit `policies/stacks.toml` for a stack that is in it, or else the stack's own JSON.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

_STACKS = Path(__file__).resolve().parent.parent / "stacks.toml"
"""Beside the rules in the repository and in a published pack."""

_MARK = "\x00"
"""Marks the start and end of a place to fill in. `read.line` escapes this character, so no value of a resource contains it."""
_MARKED = re.compile(f"{_MARK}([^{_MARK}]*){_MARK}")


def setting(name: str) -> str:
    """The config property of the policy that reports, as `staging.stack-gpu-ceiling.maxGpus in policies/stacks.toml`."""
    return f"{_MARK}{name}{_MARK}"


def stack_file() -> str:
    """The stack file, as `Pulumi.staging.yaml`."""
    return f"{_MARK}{_MARK}"


def filled(message: str, policy: str, urn: str) -> str:
    """The message of a policy on the stack of this URN (urn:pulumi:<stack>::…), with its places filled in."""
    stack = urn.removeprefix("urn:pulumi:").partition("::")[0]

    def place(found: re.Match[str]) -> str:
        if not found[1]:
            return f"Pulumi.{stack}.yaml"
        key = f"{policy}.{found[1]}"
        return f"{stack}.{key} in policies/stacks.toml" if stack in _stacks() else f"{key} in policies/config/{stack}.json"

    return _MARKED.sub(place, message)


@cache
def _stacks() -> frozenset[str]:
    """The stacks in stacks.toml; empty if the file cannot be read, which `offline.policyconfig` reports."""
    try:
        return frozenset(tomllib.loads(_STACKS.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return frozenset()
