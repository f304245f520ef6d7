"""What keeps a Job from being sent or followed, as text that is complete for the reader."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.credentials import mask


class SubmitError(Exception):
    """The base of what a person can fix. The text is one line, or one line and the causes below it.

    Credentials in it are masked. Of the cluster's answers it has the message alone.
    """

    def __init__(self, text: str) -> None:
        super().__init__(mask(text))


class InputError(SubmitError):
    """A manifest, an option or a kubeconfig that cannot be used."""


class UnreachableError(SubmitError):
    """No answer, or one that broke off. `quiet` says that only the wait for the next byte ended: nothing is known to be wrong."""

    def __init__(self, text: str, quiet: bool = False) -> None:
        super().__init__(text)
        self.quiet = quiet


@dataclass(frozen=True, slots=True)
class Answer:
    """A refusal as the API words it (a `Status` object).

    `action` is what was asked: `create jobs.batch "a" in namespace ml`. `wait` is the Retry-After that came with it, in seconds.
    """

    action: str
    code: int
    reason: str
    message: str
    causes: tuple[str, ...] = ()
    wait: float | None = None


class ApiError(SubmitError):
    """The API server refused."""

    def __init__(self, answer: Answer, mend: str = "") -> None:
        head = f"{answer.action}: {answer.code} {answer.reason}: {answer.message}{mend and f'; {mend}'}"
        super().__init__("\n".join((head, *(f"  {cause}" for cause in answer.causes))))
        self.answer = answer

    @property
    def code(self) -> int:
        """The HTTP status."""
        return self.answer.code

    @property
    def passing(self) -> bool:
        """Whether the same question may get another answer in a while: too many requests, a server that starts or fails."""
        return self.code == 429 or self.code >= 500
