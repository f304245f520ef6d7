"""Sets how many runners of a set wait for jobs, by the schedules of its class.

It compares the set with its schedules and not with the time of the last change, so a pass that is missed does no harm.
"""

from __future__ import annotations

import json
import sys
import urllib.error
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from fleet.render.sweeps.api import Api, in_cluster, loop, say

INTERVAL = 30
"""Seconds between two passes."""
_SETS = "/apis/actions.github.com/v1alpha1/namespaces/{namespace}/autoscalingrunnersets/{name}"
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


def once(api: Api, sets: Mapping[str, Mapping[str, Any]], now: datetime) -> None:
    """One pass over the sets, by namespace. A set that cannot be read or changed is logged and does not stop the others."""
    for namespace, settings in sets.items():
        path, count = _SETS.format(namespace=namespace, name=settings["name"]), wanted(settings, now)
        try:
            if api.call("GET", path)["spec"].get("minRunners", 0) == count:
                continue
            api.call("PATCH", path, {"spec": {"minRunners": count}}, "application/merge-patch+json")
        except urllib.error.HTTPError as error:
            say(namespace=namespace, error=f"{error.code} {error.reason}")
        else:
            say(namespace=namespace, runners=count)


def main(settings: Path) -> None:
    """Follow the schedules until the program is stopped. `settings` is a JSON file with the schedules of each set."""
    sets: dict[str, Any] = json.loads(settings.read_text(encoding="utf-8"))["sets"]
    api = in_cluster()
    loop(lambda: once(api, sets, datetime.now(UTC)), INTERVAL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
