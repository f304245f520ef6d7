"""The schedules of an EKS pool as actions of EC2 Auto Scaling.

EC2 Auto Scaling guide, scheduled scaling: a group has at most 125 actions, runs them in order, and takes no two at one time. An
action may be two minutes late. A recurring action has no exceptions. One that runs once vanishes afterwards, so the next update
would ask for it again in the past. Therefore a holiday is a yearly action that undoes the start of a window a minute later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleet.providers.eks.groups import zone_groups
from fleet.settings.model import Scale
from fleet.settings.schedules import WEEKDAYS, PoolSchedules, PoolWindow


@dataclass(frozen=True, slots=True)
class Action:
    """`recurrence` is a cron expression in the time zone of the schedules. From then on the group has `least` to `most` nodes."""

    name: str
    recurrence: str
    least: int
    most: int


def zone_actions(schedules: PoolSchedules, zones: Sequence[str], nodes: Scale) -> dict[str, tuple[Action, ...]]:
    """The actions of each zone's node group. In a window its nodes split over the zones as `nodes` do."""
    usual = zone_groups(zones, nodes)
    made: dict[str, list[Action]] = {zone: [] for zone in usual}
    for name, window in schedules.windows.items():
        shares = zone_groups(zones, Scale.model_construct(min=window.nodes, max=nodes.max))
        for suffix, recurrence in _recurrences(window, schedules.holidays):
            for zone, share in (shares if suffix == "start" else usual).items():
                made[zone].append(Action(f"{name}-{suffix}", recurrence, share.min, share.max))
    return {zone: tuple(actions) for zone, actions in made.items()}


def _recurrences(window: PoolWindow, holidays: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(suffix of the name, cron expression) of a window's start, of its end, and of each holiday on which it would start."""
    days = [WEEKDAYS.index(day) for day in window.days]
    yield "start", f"{_at(window.start)} * * {_weekdays(days)}"
    yield "end", f"{_at(window.end)} * * {_weekdays(day + window.overnight for day in days)}"
    for holiday in holidays:
        undone = datetime.fromisoformat(f"{holiday}T{window.start}") + timedelta(minutes=1)
        if datetime.fromisoformat(holiday).weekday() in days:
            yield f"not-{holiday}", f"{undone.minute} {undone.hour} {undone.day} {undone.month} *"


def _at(text: str) -> str:
    hours, minutes = text.split(":")
    return f"{int(minutes)} {int(hours)}"


def _weekdays(days: Iterable[int]) -> str:
    """Days from Monday = 0 as cron has them, where Sunday is 0."""
    return ",".join(str(number) for number in sorted({(day + 1) % 7 for day in days}))
