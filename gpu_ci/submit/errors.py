"""The errors of `submit`. Their text is complete: a user needs nothing else to fix the problem."""

from collections.abc import Sequence

from fleet.facts import errors
from fleet.facts.credentials import mask

_MOST_CHARACTERS, _MOST_CAUSES = 1000, 20
"""Of a message and of its causes: a proxy may answer with a whole page."""


def _cut(words: str) -> str:
    """Text without credentials, and without its end if it is long."""
    words = mask(words)
    return words if len(words) <= _MOST_CHARACTERS else f"{words[:_MOST_CHARACTERS]}…"


class SubmitError(errors.InputError):
    """Base class of errors that a user can fix. The text is one line, or one line with its causes below it.

    Credentials in the text are masked. Of an API response it contains the message only. `code` is the HTTP status of a refusal,
    else 0. `temporary`: the same request can succeed later, after `retry_after` seconds at the earliest.
    """

    code = 0
    temporary = False
    retry_after = 0.0

    @property
    def headline(self) -> str:
        """The first line."""
        return str(self).splitlines()[0]


class InputError(SubmitError):
    """A manifest, an option or a kubeconfig that cannot be used."""


class UnreachableError(SubmitError):
    """No response, or one that broke off."""

    temporary = True


class ApiError(SubmitError):
    """The API server refused a request: its answer as a `Status` object gives it.

    `request` describes the request: `create jobs.batch a in namespace ml`.
    """

    def __init__(self, request: str, code: int, reason: str, message: str, causes: Sequence[str] = ()) -> None:
        hint = ""
        if code == 401:
            hint = "; the credentials of the kubeconfig are invalid or expired: log in again"
        elif code == 403 and "cannot" in message:
            hint = "; ask for the Role in docs/submit.md"
        lines = (f"{request}: {code} {reason}: {_cut(message)}{hint}", *map(_cut, causes[:_MOST_CAUSES]))
        super().__init__("\n  ".join(lines))
        self.code = code
        self.reason = reason
        # Too many requests, or a server that is starting or failing.
        self.temporary = code == 429 or code >= 500
