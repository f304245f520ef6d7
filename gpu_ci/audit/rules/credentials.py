"""Credentials by which ARC registers."""

from collections.abc import Iterator
from datetime import date

from gpu_ci.audit.finding import Finding, said
from gpu_ci.audit.model import Seen


def tokens(seen: Seen, _: date) -> Iterator[Finding]:
    """A token of a person ends on a day that no file says."""
    for one in seen.classes:
        if "github_token" in one.values.get("githubConfigSecret"):
            yield said("credential.token", one.values.get("githubConfigSecret"), one.name)
