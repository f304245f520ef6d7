"""The errors of `submit`. Their text is complete: a user needs nothing else to fix the problem."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.facts.credentials import mask


class SubmitError(Exception):
    """Base class of errors that a user can fix. The text is one line, or one line with its causes below it.

    Credentials in the text are masked. Of an API response it contains the message only. `temporary` is True if the same request
    can succeed later.
    """

    temporary = False

    def __init__(self, text: str) -> None:
        super().__init__(mask(text))

    @property
    def headline(self) -> str:
        """The first line."""
        return str(self).splitlines()[0]


class InputError(SubmitError):
    """A manifest, an option or a kubeconfig that cannot be used."""


class UnreachableError(SubmitError):
    """No response, or one that broke off. `idle`: only the wait for the next byte of a stream timed out, which is no failure."""

    temporary = True

    def __init__(self, text: str, idle: bool = False) -> None:
        super().__init__(text)
        self.idle = idle


class ApiError(SubmitError):
    """The API server refused a request: its answer as a `Status` object gives it.

    `request` is what was asked: `create jobs.batch a in namespace ml`. `retry_after` is the header of that name, in seconds.
    """

    def __init__(
        self,
        request: str,
        code: int,
        reason: str,
        message: str,
        causes: Sequence[str] = (),
        retry_after: float | None = None,
    ) -> None:
        hint = ""
        if code == 401:
            hint = "; the credentials of the kubeconfig are not valid (any more): log in again"
        elif code == 403 and "cannot" in message:
            hint = "; ask for the Role in docs/submit.md"
        super().__init__("\n  ".join((f"{request}: {code} {reason}: {message}{hint}", *causes)))
        self.code = code
        self.reason = reason
        self.retry_after = retry_after
        # Too many requests, or a server that is starting or failing.
        self.temporary = code == 429 or code >= 500
