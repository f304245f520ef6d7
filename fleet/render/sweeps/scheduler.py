"""Sets how many runners of a set wait for jobs, by the schedules of its class.

It compares the set with its schedules and not with the time of the last change, so a pass that is missed does no harm. It watches
its sets: a pass compares what is in memory and sends a request only to change a set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from fleet.render.sweeps.api import Api, Collection, Object, main, picked

INTERVAL = 30
"""Seconds between two passes. A change of a set starts one at once."""
_SETS = "/apis/actions.github.com/v1alpha1/namespaces/{}/autoscalingrunnersets"
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def wanted(settings: Mapping[str, Any], now: datetime) -> int:
    """The runners that wait at a moment: those of the window that is open, or `usual`.

    The rules are those of `fleet.settings.schedules.Schedules.openings`.
    """
    zone = ZoneInfo(settings["time_zone"])
    today = now.astimezone(zone).date()
    for window in settings["windows"].values():
        overnight = window["end"] < window["start"]
        # A window of yesterday may still be open.
        for day in (today, today - timedelta(days=1)):
            if _WEEKDAYS[day.weekday()] not in window["days"] or day.isoformat() in settings["holidays"]:
                continue
            start, end = _utc(day, window["start"], zone), _utc(day + timedelta(days=overnight), window["end"], zone)
            if start <= now < end:
                return int(window["runners"])
    return int(settings["usual"])


def _utc(day: date, text: str, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time.fromisoformat(text), zone).astimezone(UTC)


def own(api: Api, namespace: str) -> Collection:
    """The generations of one runner set: a namespace has no other."""
    return Collection(
        api, _SETS.format(namespace), lambda found: picked(found, metadata=["name"], spec=["minRunners", "maxRunners"])
    )


def once(api: Api, sets: Mapping[str, Mapping[str, Any]], runner_sets: Mapping[str, Iterable[Object]], now: datetime) -> None:
    """One pass over the sets, by namespace. `runner_sets` is what the cluster has of each. A failed change stops no other."""
    for namespace, settings in sets.items():
        count = wanted(settings, now)
        for runner_set in runner_sets[namespace]:
            spec = runner_set["spec"]
            # A maximum of 0 is that of a generation that leaves. Its listener would refuse a minimum above it.
            if spec.get("minRunners", 0) != count and spec.get("maxRunners") != 0:
                path = f"{_SETS.format(namespace)}/{runner_set['metadata']['name']}"
                api.patch(path, {"spec": {"minRunners": count}}, {"namespace": namespace}, {"runners": count})


def start(api: Api, settings: Mapping[str, Any]) -> tuple[tuple[Collection, ...], Callable[[], None], float]:
    """Follows the schedules of each set."""
    sets: Mapping[str, Mapping[str, Any]] = settings["sets"]
    watched = {namespace: own(api, namespace) for namespace in sets}

    def look() -> None:
        once(api, sets, {namespace: own_set.values() for namespace, own_set in watched.items()}, datetime.now(UTC))

    return tuple(watched.values()), look, INTERVAL


if __name__ == "__main__":
    main(start)
