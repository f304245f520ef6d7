"""Schedules: hours where clocks change, holidays, actions of EC2 Auto Scaling, prices, and the sweep for waiting runners."""

from __future__ import annotations

import json
import urllib.error
from datetime import UTC, date, datetime, timedelta
from email.message import Message
from typing import Any

import pytest

from fleet.facts.pricing import average, total
from fleet.loading.config import load
from fleet.prove.bill import bill, weeks
from fleet.providers.eks.groups import Action, zone_actions
from fleet.render.sweeps.api import Api
from fleet.render.sweeps.scheduler import once, wanted
from fleet.render.sweeps.sweep import scheduler
from fleet.settings.model import Nodes
from fleet.settings.namespaces import runner_namespace
from fleet.settings.schedules import PoolSchedules, RunnerSchedules
from tests.builders import cluster, config, pool, runner

pytestmark = pytest.mark.usefixtures("catalogue")
WORKDAYS = ["mon", "tue", "wed", "thu", "fri"]
ZONE = "America/Los_Angeles"
SPRING, AUTUMN, USUAL = date(2027, 3, 14), date(2026, 11, 1), date(2026, 11, 23)
"""Sundays on which clocks go forward and back in Los Angeles, and a Monday."""
SEED = {"days": WORKDAYS, "start": "09:00", "end": "18:00", "nodes": 5}
"""Seed 001's rule, with an end."""


def schedules(*, time_zone: str = ZONE, holidays: tuple[str, ...] = (), **windows: dict[str, Any]) -> dict[str, Any]:
    return {"timeZone": time_zone, "holidays": list(holidays), "windows": windows}


def of(**settings: Any) -> PoolSchedules:
    return PoolSchedules.model_validate_json(json.dumps(schedules(**settings)))


def hours(found: PoolSchedules, first: date, days: int = 7) -> float:
    return sum(each.hours for each in found.openings(first, days))


def test_an_opening_follows_the_wall_clock_through_the_changes_of_the_year() -> None:
    """09:00 in Los Angeles is 17:00 UTC in winter and 16:00 UTC in summer."""
    found = of(work=SEED)
    before, after = (next(found.openings(SPRING + timedelta(days=shift), 1)) for shift in (-2, 1))
    assert (before.start, after.start) == (datetime(2027, 3, 12, 17, tzinfo=UTC), datetime(2027, 3, 15, 16, tzinfo=UTC))
    assert before.hours == after.hours == 9, "clocks change at night, so the window keeps its length"


@pytest.mark.parametrize(("day", "expected"), [(SPRING, 7), (AUTUMN, 9), (USUAL, 8)])
def test_a_window_over_the_change_of_clocks_is_an_hour_shorter_or_longer(day: date, expected: int) -> None:
    night = {"days": ["sat", "mon"], "start": "22:00", "end": "06:00", "nodes": 1}
    first = day if day == USUAL else day - timedelta(days=1)
    assert [each.hours for each in of(night=night).openings(first, 1)] == [expected]


def test_a_time_that_a_day_skips_moves_as_clocks_do_and_the_plan_warns_of_it() -> None:
    early = {"days": ["sun"], "start": "02:30", "end": "04:00", "nodes": 1}
    found = of(early=early)
    (opening,) = found.openings(SPRING, 1)
    assert opening.start == datetime(2027, 3, 14, 10, 30, tzinfo=UTC), "03:30 in summer time"
    assert list(found.remarks_on(USUAL)) == [
        "window early: on 2027-03-14 clocks change in America/Los_Angeles, and 02:30 does not exist or occurs twice; "
        "AWS does not document when EC2 Auto Scaling acts then; change start"
    ]
    twice = of(early=early | {"start": "01:30"})
    (opening,) = twice.openings(AUTUMN, 1)
    assert opening.start == datetime(2026, 11, 1, 8, 30, tzinfo=UTC), "the first 01:30 of the day"
    assert [text.split(" clocks")[0] for text in twice.remarks_on(USUAL)] == ["window early: on 2027-11-07"]


def test_seed_001s_rule_has_no_remark() -> None:
    assert list(of(work=SEED, holidays=("2026-11-26",)).remarks_on(USUAL)) == []


def test_a_holiday_has_no_window_and_a_past_one_is_a_remark() -> None:
    found = of(work=SEED, holidays=("2026-11-26",))
    assert hours(found, USUAL) == 36
    assert hours(found, USUAL + timedelta(days=7)) == 45
    (remark,) = found.remarks_on(date(2026, 11, 27))
    assert remark == "holiday 2026-11-26 is past; remove it, because EC2 Auto Scaling repeats it each year"


def test_the_night_before_a_holiday_stays_open() -> None:
    night = {"days": WORKDAYS, "start": "22:00", "end": "06:00", "nodes": 1}
    days = [each.day for each in of(night=night, holidays=("2026-11-26",)).openings(USUAL)]
    assert [each.day for each in days] == [23, 24, 25, 27]


@pytest.mark.parametrize(("first", "expected"), [(SPRING, 167), (AUTUMN, 169), (USUAL, 168)])
def test_a_week_of_full_days_has_the_hours_of_that_week(first: date, expected: int) -> None:
    """A minute short of a day each day: the sum shows the hour that the week lacks or has more."""
    all_day = {"days": [*WORKDAYS, "sat", "sun"], "start": "00:00", "end": "23:59", "nodes": 1}
    assert hours(of(always=all_day), first) == pytest.approx(expected - 7 / 60)


# -- actions of EC2 Auto Scaling -------------------------------------------------------------------------------------------


def test_seed_001s_rule_is_two_actions_in_each_zone_whose_sizes_sum_to_the_windows() -> None:
    found = zone_actions(of(work=SEED), ["a", "b"], Nodes(max=6))
    assert found == {
        "a": (Action("work-start", "0 9 * * 1,2,3,4,5", 3, 3), Action("work-end", "0 18 * * 1,2,3,4,5", 0, 3)),
        "b": (Action("work-start", "0 9 * * 1,2,3,4,5", 2, 3), Action("work-end", "0 18 * * 1,2,3,4,5", 0, 3)),
    }


def test_a_window_over_midnight_ends_on_the_next_day() -> None:
    night = {"days": ["fri", "sat", "sun"], "start": "22:05", "end": "06:00", "nodes": 1}
    start, end = zone_actions(of(night=night), ["a"], Nodes(max=2))["a"]
    assert (start.recurrence, end.recurrence) == ("5 22 * * 0,5,6", "0 6 * * 0,1,6")


def test_a_holiday_undoes_the_start_a_minute_later_and_only_where_the_window_would_start() -> None:
    late = SEED | {"start": "23:59", "end": "02:00"}
    found = zone_actions(of(late=late, holidays=("2026-12-31", "2026-12-26")), ["a"], Nodes(min=1, max=6))["a"]
    assert found[2:] == (Action("late-not-2026-12-31", "0 0 1 1 *", 1, 6),), "2026-12-26 is a Saturday"


def test_no_two_actions_of_a_group_have_one_time_in_a_year() -> None:
    """EC2 Auto Scaling refuses an action at the time of another one."""
    windows = {
        "work": SEED,
        "night": {"days": WORKDAYS, "start": "18:02", "end": "08:58", "nodes": 2},
        "weekend": {"days": ["sat", "sun"], "start": "10:00", "end": "12:00", "nodes": 2},
    }
    holidays = tuple((USUAL + timedelta(days=each)).isoformat() for each in range(0, 60, 2))
    (actions,) = zone_actions(of(holidays=holidays, **windows), ["a"], Nodes(max=6)).values()
    assert len(actions) <= 125, "the most actions of a group"
    times = [(minute, each.name) for each in actions for minute in _fires(each.recurrence)]
    assert len({minute for minute, _ in times}) == len(times)


def _fires(recurrence: str) -> list[datetime]:
    """The times of a cron expression in the year from USUAL, as crontab has it."""
    minute, hour, day, month, weekdays = recurrence.split()
    days = (datetime.combine(USUAL, datetime.min.time()) + timedelta(days=each) for each in range(365))
    if weekdays == "*":
        chosen = [each for each in days if (each.day, each.month) == (int(day), int(month))]
    else:
        chosen = [each for each in days if str(each.isoweekday() % 7) in weekdays.split(",")]
    return [each.replace(hour=int(hour), minute=int(minute)) for each in chosen]


# -- price -----------------------------------------------------------------------------------------------------------------


def scheduled_fleet(**changes: Any) -> Any:
    # A p3.2xlarge costs 3.06 USD an hour.
    v100 = pool(instanceTypes=["p3.2xlarge"], nodes={"max": 6}) | changes
    return load(config(clusters={"usw2": cluster(pools={"t4": v100})}))


def test_a_week_costs_its_real_hours_times_the_nodes_that_the_window_adds() -> None:
    fleet = scheduled_fleet(schedules=schedules(work=SEED, holidays=("2026-11-26",)))
    (usual,), (holiday,) = (list(weeks(fleet, USUAL + timedelta(days=shift))) for shift in (7, 0))
    assert [usual.hours, holiday.hours] == [45, 36]
    assert usual.nodes == holiday.nodes == (5, 5)
    assert [usual.usd[1].usd, holiday.usd[1].usd] == pytest.approx([5 * 45 * 3.06, 5 * 36 * 3.06])
    assert (usual.name, usual.opens) == ("usw2/pool t4/work", "mon,tue,wed,thu,fri 09:00-18:00 America/Los_Angeles")


def test_a_week_in_which_clocks_change_has_another_price() -> None:
    night = {"days": ["sat"], "start": "22:00", "end": "06:00", "nodes": 1}
    fleet = scheduled_fleet(schedules=schedules(night=night))
    prices = [next(weeks(fleet, day - timedelta(days=1))).usd[0].usd for day in (SPRING, AUTUMN, USUAL)]
    assert prices == pytest.approx([7 * 3.06, 9 * 3.06, 8 * 3.06])


def test_the_average_hour_has_the_windows_of_a_week_for_nodes_and_disks() -> None:
    at = {"nodes": {"min": 1, "max": 6}}
    plain, scheduled = (bill(scheduled_fleet(**at, **more), USUAL) for more in ({}, {"schedules": schedules(work=SEED)}))
    before, after = ({line.item: line for line in lines} for lines in (plain, scheduled))
    average = 4 * 45 / 168
    assert after["pool t4"].usual - before["pool t4"].usual == pytest.approx(average)
    assert after["disks"].usual - before["disks"].usual == pytest.approx(average * 200)
    assert [after[item].least - before[item].least for item in after] == [0] * len(after), "no window is open in an idle hour"
    assert after["pool t4"].most == before["pool t4"].most, "the worst hour has the pool's maximum anyhow"


def test_waiting_runners_cost_the_nodes_that_they_need_with_disks() -> None:
    window = {"days": WORKDAYS, "start": "09:00", "end": "18:00", "runners": 3}
    waiting = runner(scale={"min": 1, "max": 8}, schedules=schedules(work=window))
    four = pool(instanceTypes=["g4dn.12xlarge"])
    fleet = load(config(clusters={"usw2": cluster(pools={"t4": pool(nodes={"max": 6})}, runners={"gpu-t4": waiting})}))
    lines = {line.item: line for line in bill(fleet, USUAL)}
    nodes = 1 + 2 * 45 / 168
    assert [lines["pool t4"].least, lines["pool t4"].usual] == pytest.approx([1, nodes]), "one waits always"
    assert [lines["disks"].least, lines["disks"].usual] == pytest.approx([2 * 50 + 200, 2 * 50 + nodes * 200])
    (week,) = weeks(fleet, USUAL)
    assert (week.keeps, week.nodes) == ("3 runners", (2, 2))
    assert week.usd[0].usd == pytest.approx(2 * 45 * 0.752)
    shared = load(config(clusters={"usw2": cluster(pools={"t4": four}, runners={"gpu-t4": waiting})}))
    (week,) = weeks(shared, USUAL)
    assert week.nodes == (0, 0), "the node of the runner that waits always has room for three"


def test_only_pools_have_remarks_about_ec2s_actions() -> None:
    window = {"days": ["sun"], "start": "02:30", "end": "04:00"}
    past = ("2026-01-01",)
    found = load(
        config(
            clusters={
                "usw2": cluster(
                    pools={"t4": pool(schedules=schedules(holidays=past, work=window | {"nodes": 1}))},
                    runners={"gpu-t4": runner(schedules=schedules(holidays=past, work=window | {"runners": 1}))},
                )
            }
        )
    )
    said = [remark for remark in found.clusters["usw2"].remarks_on(USUAL) if "schedules" in remark]
    assert [remark.split(": ")[0] for remark in said] == ["pool t4"] * 2


def test_runners_wait_on_no_more_nodes_than_the_worst_hour_has() -> None:
    window = {"days": [*WORKDAYS, "sat", "sun"], "start": "00:00", "end": "23:58", "runners": 3}
    waiting = runner(pool=None, pools=["t4", "l4"], scale={"min": 0, "max": 4}, schedules=schedules(work=window))
    pools = {"t4": pool(nodes={"min": 1, "max": 2}), "l4": pool(instanceTypes=["g6.2xlarge"], nodes={"max": 2})}
    lines = bill(load(config(clusters={"usw2": cluster(pools=pools, runners={"gpu-t4": waiting})})), USUAL)
    share = 1 - 14 / 60 / 168
    of_pools = [line for line in lines if line.item.startswith("pool")]
    assert [line.item for line in of_pools] == ["pool t4", "pool l4"]
    assert [line.least for line in of_pools] == [1, 0]
    # The most expensive pool is full, and the third waits on the node of the other that always runs.
    assert [line.usual for line in of_pools] == pytest.approx([1, 2 * share])
    idle, worst = total(lines)
    assert idle.usd <= average(lines).usd <= worst.usd


def test_runners_that_wait_on_a_reservation_cost_nothing_more() -> None:
    window = {"days": WORKDAYS, "start": "09:00", "end": "18:00", "runners": 1}
    reserved = pool(
        capacity="reserved",
        nodes={"min": 1, "max": 1},
        reservation={"id": "cr-0123456789abcdef0", "zone": "us-west-2a", "count": 1},
    )
    runners = {"gpu-t4": runner(scale={"min": 0, "max": 1}, schedules=schedules(work=window))}
    fleet = load(config(clusters={"usw2": cluster(pools={"t4": reserved}, runners=runners)}))
    (line,) = (line for line in bill(fleet, USUAL) if line.item == "pool t4")
    assert (line.least, line.usual, line.most) == (1, 1, 1)
    (week,) = weeks(fleet, USUAL)
    assert (week.nodes, week.usd[1].usd) == ((0, 0), 0)


# -- runners that wait ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [SPRING, AUTUMN, date(2026, 12, 24)])
def test_the_sweep_and_the_plan_agree_on_every_minute_of_a_week(first: date) -> None:
    work = {"days": WORKDAYS, "start": "09:00", "end": "18:00", "runners": 5}
    night = {"days": ["sat", "sun"], "start": "21:30", "end": "02:30", "runners": 2}
    made = RunnerSchedules.model_validate_json(json.dumps(schedules(holidays=("2026-12-25",), work=work, night=night)))
    settings = {"usual": 1, **made.model_dump(mode="json")}
    openings = list(made.openings(first - timedelta(days=2), 11))
    start = datetime(first.year, first.month, first.day, tzinfo=UTC)
    seen = set()
    for moment in (start + timedelta(minutes=each) for each in range(-60, 7 * 1440, 15)):
        inside = [made.windows[each.window].runners for each in openings if each.start <= moment < each.end]
        assert wanted(settings, moment) == (inside or [1])[0], moment
        seen.add(wanted(settings, moment))
    assert seen == {1, 2, 5}


def test_the_sweep_may_read_and_change_the_scheduled_sets_alone() -> None:
    window = {"days": ["mon"], "start": "09:00", "end": "18:00", "runners": 2}
    runners = {"gpu-t4": runner(schedules=schedules(work=window)), "other": runner()}
    settings = load(config(clusters={"usw2": cluster(runners=runners)})).clusters["usw2"]
    sweep = scheduler(settings)
    assert sweep.rules.keys() == {runner_namespace("gpu-t4")}
    assert sweep.cluster_rules == ()


def test_a_pass_changes_a_set_only_if_its_runners_differ_and_goes_on_after_a_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    class Answers(Api):
        """An API server that takes changes of all sets except `gone`."""

        def __init__(self) -> None:
            self.patched: list[tuple[str, Any]] = []

        def call(self, method: str, path: str, body: Any = None, kind: str = "application/json", accept: str = "") -> Any:
            name = path.rpartition("/")[2]
            if name == "gone":
                raise urllib.error.HTTPError(path, 404, "Not Found", Message(), None)
            assert (method, kind) == ("PATCH", "application/merge-patch+json")
            self.patched.append((name, body))
            return {}

    monday = datetime(2026, 11, 23, 18, tzinfo=UTC)
    window = {"days": ["mon"], "start": "09:00", "end": "18:00", "runners": 2}
    settings = {"time_zone": ZONE, "holidays": [], "windows": {"work": window}, "usual": 0}
    sets = {f"runners-{name}": settings for name in ("absent", "gone", "idle", "ready")}
    found: dict[str, Any] = {f"runners-{name}": [{"metadata": {"name": name}, "spec": {}}] for name in ("gone", "idle", "ready")}
    found["runners-absent"], found["runners-ready"][0]["spec"] = [], {"minRunners": 2}
    found["runners-idle"] += [{"metadata": {"name": "leaving"}, "spec": {"minRunners": 0, "maxRunners": 0}}]
    api = Answers()
    once(api, sets, found, monday)
    assert api.patched == [("idle", {"spec": {"minRunners": 2}})]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"namespace": "runners-gone", "error": "404 Not Found"},
        {"namespace": "runners-idle", "runners": 2},
    ]
    api = Answers()
    once(api, sets, found, monday + timedelta(hours=9))
    assert api.patched == [("ready", {"spec": {"minRunners": 0}})], "the window is closed; no field means none"
