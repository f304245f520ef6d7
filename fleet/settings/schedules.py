"""Schedules: warm capacity in windows of the week, except on holidays.

Times are wall-clock times of an IANA time zone. So a window that is open while clocks change is an hour shorter or longer.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, ClassVar, Literal, get_args
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, Field

from fleet.facts import bill
from fleet.facts.record import Record
from fleet.facts.remark import said, todo
from fleet.settings.model import IN_ANY_ORDER, Day, DnsLabel, Model, QuotedText
from fleet.settings.refusals import matching, problem, refusal, refuse, refuse_if, refuses, require_once

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[str, ...] = get_args(Weekday)
"""In the order of `date.weekday`."""


def _through_the_week(days: tuple[str, ...]) -> tuple[str, ...]:
    """The days from Monday on: their order in a file means nothing."""
    return tuple(sorted(days, key=WEEKDAYS.index))


_DAY = 24 * 60
_SHORTEST = 5
"""Minutes of the shortest window. EC2 Auto Scaling may act up to two minutes late (user guide, scheduled scaling)."""
_GAP = 2
"""Minutes between two windows. EC2 Auto Scaling refuses two actions at one time, and a holiday's action is a minute later."""
_AREAS = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific", "Etc")


def _time_zone(name: str) -> None:
    # EC2 Auto Scaling takes canonical names alone (PutScheduledUpdateGroupAction). US/Pacific is an old alias.
    refuse(time_zone=name.partition("/")[0] not in _AREAS or name not in available_timezones())


Clock = Annotated[QuotedText, matching("clock", r"([01]\d|2[0-3]):[0-5]\d")]
"""A wall-clock time, such as 09:00."""


class Opening(Record):
    """One time that a window is open: `day` is the local day on which it starts, `start` and `end` are in UTC."""

    window: str
    day: date
    start: datetime
    end: datetime

    @property
    def hours(self) -> float:
        """Its real hours: one less or more if clocks change meanwhile."""
        return (self.end - self.start).total_seconds() / 3600


class Window(Model):
    """A part of the week. It starts on each of `days`. If `end` is not after `start`, it ends on the next day."""

    days: Annotated[tuple[Weekday, ...], Field(min_length=1), AfterValidator(_through_the_week)]
    """Days on which the window starts. Example: `[mon, tue, wed, thu, fri]`"""
    start: Clock
    """Local time at which the window starts, in quotes. Example: `"09:00"`"""
    end: Clock
    """Local time at which the window ends, in quotes. If it is before `start`, the window ends on the next day. Example:
    `"18:00"`"""
    KEY: ClassVar[str] = ""
    """The key that has its capacity."""

    @refusal
    def _window_rules(self) -> None:
        """Refuse a day given twice, and a window of no or all hours."""
        require_once("repeated_day", self.days, at=("days",))
        refuse_if("short_window", 0 < self.minutes < _SHORTEST, at=("end",), least=_SHORTEST)
        refuse("end", empty_window=self.start == self.end)

    @property
    def count(self) -> int:
        """Its nodes or runners."""
        return int(getattr(self, self.KEY))

    @property
    def minutes(self) -> int:
        """Its length on a day on which clocks do not change."""
        return (_minute(self.end) - _minute(self.start)) % _DAY

    @property
    def overnight(self) -> bool:
        """Whether it ends on the day after it starts."""
        return self.end < self.start

    def __str__(self) -> str:
        return f"{','.join(each for each in WEEKDAYS if each in self.days)} {self.start}-{self.end}"


class PoolWindow(Window):
    """Nodes that a pool keeps, working or not."""

    nodes: Annotated[int, Field(ge=1)]
    """Nodes that the pool keeps in the window, working or not: more than `nodes.min`, at most `nodes.max`. Unit: nodes. Example:
    `5`"""
    KEY: ClassVar[str] = "nodes"


class RunnerWindow(Window):
    """Runners that wait for jobs, beside those that work."""

    runners: Annotated[int, Field(ge=1)]
    """Runners that wait in the window, beside those that work: more than `scale.min`, at most `scale.max`. Unit: runners.
    Example: `2`"""
    KEY: ClassVar[str] = "runners"


class Schedules(Model):
    """The windows of a pool or runner class, in one time zone. On a holiday no window starts."""

    time_zone: Annotated[str, refuses(_time_zone)]
    """IANA name of the time zone of all windows. Daylight saving time follows it. Example: `Europe/Berlin`"""
    holidays: Annotated[tuple[Day, ...], Field(max_length=30), IN_ANY_ORDER] = ()
    """Local days on which no window starts, at most 30. A window of the night before stays open. Source: EC2 Auto Scaling quotas
    (125 scheduled actions per group). Example: `["2026-12-25"]`"""
    windows: Mapping[DnsLabel, Window]
    """One to three windows, by name. At least two minutes are between them."""

    @refusal
    def _schedule_rules(self) -> None:
        """Refuse no or many windows, windows that meet, and a holiday given twice."""
        refuse("windows", windows=not 1 <= len(self.windows) <= 3)
        require_once("repeated_holiday", self.holidays, at=("holidays",))
        owners: dict[int, str] = {}
        for name, window in self.windows.items():
            for day in window.days:
                first = WEEKDAYS.index(day) * _DAY + _minute(window.start)
                for minute in range(first, first + window.minutes + _GAP):
                    if (owner := owners.setdefault(minute % (7 * _DAY), name)) != name:
                        raise problem("overlapping_windows", at=("windows", name), owner=owner, gap=_GAP)

    @property
    def zone(self) -> ZoneInfo:
        """The time zone."""
        return ZoneInfo(self.time_zone)

    def openings(self, first: date, days: int = 7) -> Iterator[Opening]:
        """The times that windows open on `days` local days from `first`, holidays left out, day by day.

        A time that occurs twice on a day means its first occurrence. A time that a day skips is as much later as clocks jump.
        """
        for day in (first + timedelta(days=each) for each in range(days)):
            for name, window in self.windows.items():
                if WEEKDAYS[day.weekday()] in window.days and day.isoformat() not in self.holidays:
                    last = day + timedelta(days=window.overnight)
                    yield Opening(name, day, self._utc(day, window.start), self._utc(last, window.end))

    @property
    def kept(self) -> tuple[bill.Window, ...]:
        """The windows as the bill reads them."""
        return tuple(bill.window(one.count, one.days, one.start, one.end, self.time_zone) for one in self.windows.values())

    def require_within(self, least: int, most: int, key: str) -> None:
        """Refuse windows that do not raise the minimum `least`, or exceed `most`; `key` has both. Raises a settings problem."""
        for name, window in self.windows.items():
            at = ("schedules", "windows", name, window.KEY)
            refuse_if("window_above_max", window.count > most, at=at, key=key, most=most)
            refuse_if("window_below_min", window.count <= least, at=at, key=key, least=least)

    def _utc(self, day: date, text: str) -> datetime:
        return datetime.combine(day, time.fromisoformat(text), self.zone).astimezone(UTC)


class PoolSchedules(Schedules):
    """Windows in which a pool has a larger minimum. EC2 Auto Scaling carries them out, and repeats holidays each year."""

    windows: Mapping[DnsLabel, PoolWindow]
    """One to three windows, by name. At least two minutes are between them. Example: `{work: {days: [mon, tue], start: "09:00",
    end: "18:00", nodes: 5}}`"""

    def remarks_on(self, day: date) -> Iterator[str]:
        """Warnings about holidays that are past, and about times that do not exist, or occur twice, within a year from `day`."""
        for past in (holiday for holiday in self.holidays if holiday < day.isoformat()):
            yield todo(f"holiday {past} is past; remove it, because EC2 Auto Scaling repeats it each year")
        for name, window in self.windows.items():
            for key, text in (("start", window.start), ("end", window.end)):
                for candidate in (day + timedelta(days=ahead) for ahead in range(366)):
                    starts = candidate - timedelta(days=window.overnight and key == "end")
                    if WEEKDAYS[starts.weekday()] not in window.days:
                        continue
                    local = datetime.combine(candidate, time.fromisoformat(text), self.zone)
                    if local.utcoffset() != local.replace(fold=1).utcoffset():
                        yield todo(said("clocks_change", name=name, day=candidate, zone=self.time_zone, time=text, key=key))
                        break


class RunnerSchedules(Schedules):
    """Windows in which more runners wait. The sweep `runner-scheduler` follows `openings`, so no day needs a remark."""

    windows: Mapping[DnsLabel, RunnerWindow]
    """One to three windows, by name. At least two minutes are between them. Example: `{work: {days: [mon, tue], start: "09:00",
    end: "18:00", runners: 2}}`"""


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
