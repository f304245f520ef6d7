"""URNs of manifests. They have the file and the object, so that an exception can name one file or one object."""

PROJECT = "check"
"""Takes the place of the project's name."""
_OBJECT = "#"
"""Separates the file from the object. No URN of the program has this character."""


def urn_of(stack: str, token: str, file: str, name: str) -> str:
    """`urn:pulumi:<stack>::check::<type>::<file>#<namespace>/<name>`; `file` is relative to the folder."""
    return f"urn:pulumi:{stack}::{PROJECT}::{token}::{file}{_OBJECT}{name}"


def means_manifests(pattern: str) -> bool:
    """Whether the pattern of an exception is for checks of manifests, not for the program's resources."""
    return f"::{PROJECT}::" in pattern or _OBJECT in pattern
