"""What is wrong with a job's arguments, and why no pool holds it."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.credentials import mask


@dataclass(frozen=True, slots=True)
class JobProblem:
    """One thing wrong: the argument, the short name of the rule, what is wrong and how to mend it, and what stands there.

    `value` is short JSON; empty where nothing stands there, or where it may be a secret.
    """

    field: str
    rule: str
    message: str
    value: str = ""

    def __post_init__(self) -> None:
        """Mask credentials in what may quote the caller's words."""
        object.__setattr__(self, "field", mask(self.field))
        object.__setattr__(self, "message", mask(self.message))

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" + (f" (got {self.value})" if self.value else "")


class JobError(ValueError):
    """Arguments that make no job. `problems` has every one found, in the order of the arguments; the message a line for each."""

    def __init__(self, problems: tuple[JobProblem, ...], head: str = "") -> None:
        super().__init__("\n".join([*([head] if head else []), *map(str, problems)]))
        self.problems = problems


class JobRefusedError(JobError):
    """A well-formed job that no pool of the stack can hold. `problems` has one for each pool, with the pool as its field."""
