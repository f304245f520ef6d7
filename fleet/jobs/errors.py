"""Errors: wrong arguments of a job, and a job that no pool holds."""

from fleet.facts.credentials import mask
from fleet.facts.errors import shown
from fleet.facts.record import Record
from fleet.settings.refusals import words


class JobProblem(Record):
    """One problem: the argument, the short name of the rule, what is wrong and how to fix it, and the value.

    `value` is short JSON. It is empty if there is no value, or if the value may be a secret.
    """

    field: str
    rule: str
    message: str
    value: str = ""

    def __post_init__(self) -> None:
        """Mask credentials, because both may quote the caller's words."""
        object.__setattr__(self, "field", mask(self.field))
        object.__setattr__(self, "message", mask(self.message))

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" + (f" (got {self.value})" if self.value else "")


def refused(rule: str, field: str, value: object = None, /, **context: object) -> JobProblem:
    """The problem with a row of refusals.toml, which `context` fills in."""
    return JobProblem(field, rule.partition("__")[0], words(rule, **context), "" if value is None else shown(value))


class JobError(ValueError):
    """Wrong arguments. `problems` has all of them, in the order of the arguments. The message has a line for each."""

    def __init__(self, problems: tuple[JobProblem, ...], head: str = "") -> None:
        super().__init__("\n".join([*([head] if head else []), *map(str, problems)]))
        self.problems = problems


class JobRefusedError(JobError):
    """A valid job that no pool of the stack can hold. `problems` has one for each pool, with the pool as its field."""
