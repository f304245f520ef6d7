"""How a Job is run: the options of the user, and the intervals of the follower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Existing = Literal["refuse", "follow", "replace"]
"""What to do about a Job of the same name: raise an error; follow it if it has the same contents; delete it and send this one."""
Propagation = Literal["Background", "Foreground"]
"""When the pods of a deleted Job are deleted: after the Job, or before it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Intervals in seconds.

    `first_pause`: before the first retry; it doubles with each retry up to `longest_pause`. `patience`: how long the cluster may
    be unreachable. `events`: between two queries for the events of pods that have not started. `remind`: repeat the last message
    after so long without a new one. `drain`: how long to wait for the rest of the logs of a Job that has ended. `tick`: longest
    sleep of the main loop.
    """

    first_pause: float = 0.5
    longest_pause: float = 30
    patience: float = 600
    events: float = 3
    remind: float = 300
    drain: float = 15
    tick: float = 1


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run; docs/submit.md describes them.

    `cancel_on_interrupt`: Ctrl-C deletes the Job. `propagation` holds for every deletion. `clean_up`: delete the Job when it has
    ended, however it ended. `stuck_after`: seconds until a container that cannot be created ends the run. `start_within`: seconds
    until the first container must run, queue and node start included; None: no limit.
    """

    existing: Existing = "refuse"
    cancel_on_interrupt: bool = False
    propagation: Propagation = "Background"
    clean_up: bool = False
    stuck_after: float = 180
    start_within: float | None = None
    timing: Timing = Timing()


DEFAULT = RunOptions()
