"""Every line of a log is shown exactly once, wherever its streams break."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_ci.submit.cluster import split_lines
from gpu_ci.submit.errors import ApiError, UnreachableError
from gpu_ci.submit.logs import ContainerState, LogEvent, LogReader, LogSource, Shown, timestamped
from gpu_ci.submit.options import Timing
from gpu_ci.submit.reader import Backoff
from tests.examples import examples
from tests.submit.server import stamp

AT_ONCE = Timing(first_pause=0, longest_pause=0)
SOURCE = LogSource("train-a", "uid", "worker")
BEGIN = datetime(2026, 3, 1, 11, 59, 58, tzinfo=UTC)


@dataclass
class Opening:
    """How one stream behaves: the number of lines by then, the byte where it breaks (None: it does not), the size of pieces.

    `restarts`: after it broke, the container has ended and runs again by the time that the log is opened again.
    """

    lines: int
    breaks: int | None
    piece: int
    refused: int = 0
    """An HTTP status instead of the stream."""
    restarts: bool = False
    clean: bool = False
    """A followed stream breaks without an error, as when a proxy before the kubelet ends it."""


@dataclass
class Kubelet:
    """A kubelet with the log of one container. Its streams break as planned, and not after the plan."""

    runs: list[list[tuple[datetime, str]]]
    plan: list[Opening]
    opened: list[dict[str, Any]] = field(default_factory=list)
    run: int = 0
    ended: bool = False

    def look(self) -> ContainerState:
        """The current state of the container."""
        return ContainerState(self.run, self.ended)

    @contextmanager
    def log(self, pod: str, container: str, *, since: str, previous: bool, follow: bool) -> Iterator[Iterator[bytes]]:
        self.opened.append({"since": since, "previous": previous, "follow": follow})
        way = self.plan.pop(0) if self.plan else Opening(10**6, None, 10**6)
        if way.refused:
            raise ApiError("get pods/log", way.refused, "Refused", "not now")
        lines = self.runs[self.run - 1 if previous else self.run]
        start = datetime.fromisoformat(since.replace("Z", "+00:00")) if since else datetime.min.replace(tzinfo=UTC)
        # The log is complete once the container has ended, or if this stream is not planned to break.
        there = lines if previous or self.ended or way.breaks is None else lines[: way.lines]
        whole = "".join(f"{stamp(moment)} {text}\n" for moment, text in there if moment >= start).encode()
        yield split_lines(self._pieces(whole, way, previous, follow))

    def _pieces(self, whole: bytes, way: Opening, previous: bool, follow: bool) -> Iterator[bytes]:
        there = whole if way.breaks is None else whole[: way.breaks]
        yield from (there[at : at + way.piece] for at in range(0, len(there), way.piece))
        last = self.run == len(self.runs) - 1
        if way.breaks is not None:
            if way.restarts and not last and not previous:
                self.run += 1
            if not way.clean or not follow:
                raise UnreachableError("broken")
            return
        if not previous:
            # The end of a stream is the end of this run: the container restarts, or has ended for good.
            self.run, self.ended = (self.run, True) if last else (self.run + 1, False)


def read(runs: list[list[tuple[datetime, str]]], plan: list[Opening]) -> tuple[list[str], Kubelet]:
    """The lines that a reader reports, and the kubelet."""
    kubelet = Kubelet(runs, plan)
    told: list[LogEvent] = []
    reader = LogReader(kubelet, told.append, Backoff(AT_ONCE), SOURCE, kubelet.look)  # type: ignore[arg-type]
    reader.run()
    assert told[-1] == LogEvent(SOURCE, "ended"), "and it says that this was all"
    return [event.text for event in told if event.what == "line"], kubelet


texts = st.sampled_from(["", "a", "b", "epoch 1\r", "zwei è 🙂", "2026-03-01T11:59:58Z not our time"])
gaps = st.sampled_from([0, 0, 1, 400, 999, 1000, 2500, -300, -900])
"""Milliseconds to the line before; stdout and stderr may be out of order by less than a second."""


@st.composite
def logs(draw: st.DrawFn) -> list[list[tuple[datetime, str]]]:
    moment, runs = BEGIN, []
    for _ in range(draw(st.integers(1, 3))):
        lines = []
        for gap, text in draw(st.lists(st.tuples(gaps, texts), max_size=12)):
            lines.append((moment + timedelta(milliseconds=gap), text))
            moment = max(moment, lines[-1][0])
        runs.append(lines)
        # A container runtime needs more than a second to restart a container.
        moment += timedelta(seconds=1)
    return runs


openings = st.builds(
    Opening,
    lines=st.integers(0, 12),
    breaks=st.none() | st.integers(0, 500),
    piece=st.integers(1, 40),
    refused=st.sampled_from([0, 0, 0, 500, 503]),
    restarts=st.booleans(),
    clean=st.booleans(),
)


@settings(max_examples=examples(300))
@given(logs(), st.lists(openings, max_size=6))
def test_every_line_once_and_in_order_wherever_streams_break(runs, plan):
    told, _ = read(runs, plan)
    assert told == [text for lines in runs for _, text in lines]


@pytest.mark.parametrize("clean", [False, True], ids=["broken off", "ended in good order"])
def test_a_break_at_each_byte(clean):
    lines = [(BEGIN + timedelta(milliseconds=index // 2), text) for index, text in enumerate(["same", "same", "same", ""])]
    for breaks in range(120):
        told, _ = read([lines], [Opening(4, breaks, 1, clean=clean)])
        assert told == ["same", "same", "same", ""], f"byte {breaks}: lines of the same time and text are counted"


def test_what_is_asked_again_is_little():
    lines = [(BEGIN + timedelta(seconds=index), f"line {index}") for index in range(100)]
    _, kubelet = read([lines], [Opening(100, 10**6, 10**6)])
    assert [opening["since"] for opening in kubelet.opened][:2] == ["", "2026-03-01T12:01:36Z"], "one second before the last"
    assert kubelet.opened[-1]["follow"] is False


def test_a_server_that_knows_no_since_shows_nothing_twice():
    shown = Shown()
    lines = [(index * 10**9, f"line {index}") for index in range(10)]
    assert all(shown.new(*line) for line in lines)
    shown.reopened()
    assert not any(shown.new(*line) for line in lines), "it gives all of it again"
    assert shown.new(10 * 10**9, "new")


def test_a_clock_that_is_set_back_loses_nothing_of_a_stream():
    shown = Shown()
    assert shown.new(100 * 10**9, "before")
    assert shown.new(40 * 10**9, "after the clock was set back")


def test_memory_holds_but_the_last_seconds():
    shown = Shown()
    for index in range(10_000):
        shown.new(index * 10**7, "line")
    assert len(shown._recent) <= 200


@pytest.mark.parametrize(
    ("line", "moment", "text"),
    [
        (b"2026-03-01T11:59:58.000000000Z a b", 1772366398 * 10**9, "a b"),
        (b"2026-03-01T11:59:58.123456789Z ", 1772366398 * 10**9 + 123456789, ""),
        (b"2026-03-01T12:59:58.5+01:00 x", 1772366398 * 10**9 + 5 * 10**8, "x"),
        (b"2026-03-01T11:59:58Z \xff", 1772366398 * 10**9, "\ufffd"),
        (b"unable to retrieve container logs", None, "unable to retrieve container logs"),
    ],
)
def test_a_time_is_told_from_its_line(line, moment, text):
    assert timestamped(line) == (moment, text)


def test_the_kubelets_own_words_are_shown_once():
    shown = Shown()
    assert [shown.new(None, text) for text in ("too many open files", "too many open files", "other")] == [True, False, True]


@pytest.mark.parametrize(
    ("code", "state", "why"),
    [
        (404, ContainerState(ended=True, gone=True), "its pod is gone, and the rest of its log is lost"),
        (403, ContainerState(), "get pods/log: 403 Refused: not now"),
        (400, ContainerState(ended=True), "get pods/log: 400 Refused: not now"),
    ],
)
def test_a_log_that_cannot_be_read_ends_with_the_reason(code, state, why):
    told: list[Any] = []
    kubelet = Kubelet([[]], [Opening(0, None, 1, refused=code)])
    reader = LogReader(kubelet, told.append, Backoff(AT_ONCE), SOURCE, kubelet.look)  # type: ignore[arg-type]
    reader.learn(state)
    reader.run()
    assert told == [LogEvent(SOURCE, "ended", why)]


def test_a_container_that_is_about_to_start_is_waited_for():
    told, kubelet = read([[(BEGIN, "hello")]], [Opening(0, None, 1, refused=400)] * 3)
    assert told == ["hello"]
    assert len(kubelet.opened) == 5, "three times refused, followed to its end, and read once more without following"


def test_news_that_comes_late_takes_nothing_back():
    told, kubelet = read([[(BEGIN, "one")], [(BEGIN + timedelta(seconds=2), "two")]], [])
    assert told == ["one", "two"]
    assert [opening["previous"] for opening in kubelet.opened] == [False, True, False, False]
    reader = LogReader(kubelet, print, Backoff(AT_ONCE), SOURCE, kubelet.look)  # type: ignore[arg-type]
    reader.learn(ContainerState(2, ended=True))
    reader.learn(ContainerState(1))
    assert reader._state == ContainerState(2, ended=True)
