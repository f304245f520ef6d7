"""How fast a follower asks again, and for how long it goes on asking."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from submit.errors import ApiError, SubmitError, UnreachableError


@dataclass(frozen=True, slots=True)
class Pace:
    """All in seconds.

    `first` and `most`: the pause before a second try, doubled with each further one, and the longest. `patience`: how long the
    cluster may be out of reach before it is given up. `look`: between two looks at the events of what does not run yet.
    `remind`: after so long without news, the last is told again. `drain`: for the rest of the logs when a Job has ended.
    `tick`: the longest sleep of the follower itself.
    """

    first: float = 0.5
    most: float = 30
    patience: float = 600
    look: float = 3
    remind: float = 300
    drain: float = 15
    tick: float = 1


class Pause:
    """The growing pauses of one thing that is tried again and again; a try that works starts them anew.

    `wake` ends a pause early: everything stops, or there is news.
    """

    def __init__(self, pace: Pace, wake: threading.Event) -> None:
        self._pace = pace
        self._wake = wake
        self._next = pace.first

    def reset(self) -> None:
        """It worked."""
        self._next = self._pace.first

    def wait(self, error: SubmitError | None = None) -> None:
        """Sleep before the next try; as long as the server asked for in its error, if that is longer."""
        asked = error.answer.wait if isinstance(error, ApiError) else None
        self._wake.wait(min(max(self._next, asked or 0), self._pace.most))
        self._next = min(self._next * 2, self._pace.most)


def passes(error: SubmitError) -> bool:
    """Whether a try later may do better."""
    return isinstance(error, UnreachableError) or (isinstance(error, ApiError) and error.passing)
