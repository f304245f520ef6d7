"""URNs of manifests: the file stands in the place of a name, so that an exception can mean one file, or one object."""

from __future__ import annotations

PROJECT = "check"
"""Stands for a project."""
_OBJECT = "#"
"""Begins an object within its file; no URN of our program has the sign."""


def urn_of(stack: str, token: str, file: str, name: str) -> str:
    """`urn:pulumi:<stack>::check::<type>::<file>#<namespace>/<name>`; `file` is the path from the folder on."""
    return f"urn:pulumi:{stack}::{PROJECT}::{token}::{file}{_OBJECT}{name}"


def means_manifests(pattern: str) -> bool:
    """Whether an exception's pattern means what a check of manifests judges, and nothing of a program's."""
    return f"::{PROJECT}::" in pattern or _OBJECT in pattern
