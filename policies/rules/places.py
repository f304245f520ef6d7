"""Where a message sends its reader: to a property of a policy's config, or to the stack file.

A check writes `setting("maxGpus")`. `Rule` and `StackRule` fill in policy and file when they report: every URN has the stack's
name in it.
"""

from __future__ import annotations

import re

_MARK = "\x00"
"""Around what is filled in. `read.line` escapes the sign, so no value of a resource holds it."""
_MARKED = re.compile(f"{_MARK}([^{_MARK}]*){_MARK}")


def setting(name: str) -> str:
    """The config property of the policy that reports, as `stack-gpu-ceiling.maxGpus in policies/config/staging.json`."""
    return f"{_MARK}{name}{_MARK}"


def stack_file() -> str:
    """The stack file, as `Pulumi.staging.yaml`."""
    return f"{_MARK}{_MARK}"


def filled(message: str, policy: str, urn: str) -> str:
    """The message of a policy on the stack of this URN (urn:pulumi:<stack>::…), with its places filled in."""
    stack = urn.removeprefix("urn:pulumi:").partition("::")[0]

    def place(found: re.Match[str]) -> str:
        return f"{policy}.{found[1]} in policies/config/{stack}.json" if found[1] else f"Pulumi.{stack}.yaml"

    return _MARKED.sub(place, message)
