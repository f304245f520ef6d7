"""Resources that a destroyed stack left in a cloud."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

GONE = ("terminated", "deleted")
"""States in which a cloud still lists what it has deleted."""


@dataclass(frozen=True, slots=True)
class Left:
    """A thing that exists, and the command that deletes it."""

    what: str
    delete: str

    def __str__(self) -> str:
        return f"{self.what}\n    {self.delete}"


class Leftovers:
    """Lists what a stack has in one cloud. This base class is that of a cloud in which stacks create nothing."""

    def __iter__(self) -> Iterator[Left]:
        """Everything that exists. Raises ImportError if the cloud's SDK is missing."""
        return iter(())

    def delete_late(self) -> None:
        """Delete what the cloud creates again after its owner is gone."""


def left(commands: dict[str, str], region: str, kind: str, identity: str, arn: str = "") -> Left:
    """A thing of a kind. `commands` has the command for each kind, with the fields id and arn."""
    command = commands.get(kind, "").format(id=identity, arn=arn)
    fix = f"{command} --region {region}" if command else "no command is known here; look for it in the cloud's console"
    return Left(f"{region}: {kind} {arn or identity}", fix)
