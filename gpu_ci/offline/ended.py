"""Distinguishes violations that no edit made: a day has passed.

A preview and an update fail for both kinds. An offline plan fails only for what the settings break, so a plan that passed never
fails because time has passed. `offline.touched` makes an exception for what a pull request writes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from gpu_ci.offline.judge import Verdict

ENDED = "ended"
"""The kind of a verdict that is a violation because of its day."""


def by_time(verdicts: Iterable[Verdict], judge: Callable[[Collection[str]], Iterable[Verdict]]) -> tuple[Verdict, ...]:
    """The verdicts, with kind `ENDED` for violations that are none on a day before all others.

    `judge` judges the same resources by the policies of these ids as of such a day. It is called only if there are violations.
    """
    judged = tuple(verdicts)
    rules = {verdict.rule for verdict in judged if verdict.kind == "violation"}
    timeless = tuple(judge(rules)) if rules else ()
    return (
        *(replace(verdict, kind=ENDED) if _is_late(verdict, timeless) else verdict for verdict in judged),
        # A limit that fails on every day can have other figures in its message.
        *(verdict for verdict in timeless if verdict.kind == "violation" and verdict not in judged),
    )


def _is_late(verdict: Verdict, timeless: Collection[Verdict]) -> bool:
    return verdict.kind == "violation" and verdict not in timeless
