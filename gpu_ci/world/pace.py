"""Rules of Prometheus in the time of a world, in which jobs and boots are shorter than on a cluster by a factor.

Prometheus keeps a real clock, so the times in the rules are divided by the factor. The second that ARC or the scheduler needs is
as long as ever, so it counts `factor` times as much.
"""

import re
from collections.abc import Iterable
from typing import Any

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000}
_PART = r"(\d+)(ms|[smhdwy])"
_TIME = re.compile(r"(?:\d+(?:ms|[smhdwy]))+")
_PLACES = re.compile(rf""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\[[^]]*\]|\boffset\s+-?{_TIME.pattern}""")
"""Texts of a query, which stay, and where it has times: ranges, steps of subqueries, offsets."""
_AGE = re.compile(r"(?:.*time\(\) - kube_pod_created|gpu_ci:queue_seconds).* > \d+", re.DOTALL)
"""Queries that compare an age with seconds."""


def shorter(text: str, factor: float, least: int = 1) -> str:
    """The text with each time in it, such as 1h30m, divided by `factor`, in whole milliseconds and not below `least`."""

    def divided(found: re.Match[str]) -> str:
        whole = sum(int(number) * _UNITS[unit] for number, unit in re.findall(_PART, found[0]))
        return f"{max(least, round(whole / factor))}ms"

    return _TIME.sub(divided, text)


def in_world_time(groups: Iterable[dict[str, Any]], factor: float) -> list[dict[str, Any]]:
    """The groups with `interval`, `for` and `keep_firing_for` divided by `factor`, and in queries all ranges, steps and offsets.

    Seconds that a query compares an age with are divided too. Days of the calendar, labels and words stay. A group is evaluated
    once a second at most.
    """

    def of_rule(rule: dict[str, Any]) -> dict[str, Any]:
        query = _PLACES.sub(lambda found: found[0] if found[0][0] in "\"'" else shorter(found[0], factor), rule["expr"])
        waits = {key: shorter(rule[key], factor) for key in ("for", "keep_firing_for") if key in rule}
        return rule | waits | {"expr": f"{query} / {factor:g}" if _AGE.fullmatch(query) else query}

    return [
        group | {"interval": shorter(group["interval"], factor, 1000), "rules": [of_rule(rule) for rule in group["rules"]]}
        for group in groups
    ]
