"""Every line of a log is shown exactly once, wherever its pieces begin and break."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gpu_ci.submit.cluster import split_lines
from gpu_ci.submit.errors import ApiError, SubmitError, UnreachableError
from gpu_ci.submit.follower import Log
from gpu_ci.submit.pods import ContainerState, LogSource
from tests.examples import examples
from tests.submit.server import stamp

SOURCE = LogSource("train-a", "uid", "worker")
BEGIN = datetime(2026, 3, 1, 11, 59, 58, tzinfo=UTC)
Lines = list[tuple[datetime, str]]


@dataclass
class Piece:
    """One request: how many lines there are by then, and the byte where the answer breaks (None: it does not)."""

    lines: int
    breaks: int | None = None
    refused: int = 0
    """An HTTP status instead of the lines."""


@dataclass
class Kubelet:
    """A kubelet with the logs of the runs of one container, of which the last runs."""

    runs: list[Lines]
    piece: Piece
    asked: list[dict[str, Any]]

    @contextmanager
    def log(self, pod: str, container: str, *, since: str, previous: bool) -> Iterator[Iterator[bytes]]:
        self.asked.append({"since": since, "previous": previous})
        if self.piece.refused:
            raise ApiError("get pods/log", self.piece.refused, "Refused", "not now")
        if previous and len(self.runs) < 2:
            raise ApiError("get pods/log", 400, "BadRequest", "previous terminated container not found")
        lines = self.runs[-2] if previous else self.runs[-1][: self.piece.lines]
        start = datetime.fromisoformat(since.replace("Z", "+00:00")) if since else datetime.min.replace(tzinfo=UTC)
        whole = "".join(f"{stamp(moment)} {text}\n" for moment, text in lines if moment >= start).encode()
        yield split_lines(self._pieces(whole))

    def _pieces(self, whole: bytes) -> Iterator[bytes]:
        yield whole if self.piece.breaks is None else whole[: self.piece.breaks]
        if self.piece.breaks is not None:
            raise UnreachableError("broken")


def read(runs: list[Lines], plan: list[Piece]) -> tuple[list[str], list[dict[str, Any]]]:
    """The lines that are shown, and what was asked: each run is read by the pieces of the plan, then its end is."""
    kubelet = Kubelet([], Piece(0), [])
    log, shown = Log(kubelet, SOURCE), []  # type: ignore[arg-type]
    for restarts, run in enumerate(runs):
        kubelet.runs.append(run)
        for kubelet.piece in plan:
            with suppress(SubmitError):
                for line in log.read(ContainerState(restarts)):
                    shown.append(line)
    kubelet.piece = Piece(10**6)
    shown += log.read(ContainerState(len(runs) - 1, ended=True))
    assert log.over
    return shown, kubelet.asked


texts = st.sampled_from(["", "a", "b", "epoch 1\r", "zwei è 🙂", "2026-03-01T11:59:58Z not our time"])
gaps = st.sampled_from([0, 0, 1, 400, 999, 1000, 2500, -300, -900])
"""Milliseconds to the line before; stdout and stderr may be out of order by less than a second."""


@st.composite
def logs(draw: st.DrawFn) -> list[Lines]:
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


pieces = st.builds(
    Piece, lines=st.integers(0, 12), breaks=st.none() | st.integers(0, 500), refused=st.sampled_from([0, 0, 0, 500, 503])
)


@settings(max_examples=examples(300))
@given(logs(), st.lists(pieces, max_size=6))
def test_every_line_once_and_in_order_wherever_pieces_break(runs, plan):
    assert read(runs, [*plan, Piece(0)])[0] == [text for lines in runs for _, text in lines]


def test_a_break_at_each_byte():
    lines = [(BEGIN + timedelta(milliseconds=index // 2), text) for index, text in enumerate(["same", "same", "same", ""])]
    for breaks in range(120):
        assert read([lines], [Piece(4, breaks)])[0] == ["same", "same", "same", ""], f"byte {breaks}: equal lines are counted"


def test_what_is_asked_again_is_little():
    lines = [(BEGIN + timedelta(seconds=index), f"line {index}") for index in range(100)]
    _, asked = read([lines], [Piece(100)])
    assert [each["since"] for each in asked] == ["", "2026-03-01T12:01:36Z"], "one second before the last"


def test_a_clock_that_is_set_back_loses_nothing_of_a_piece():
    lines = [(BEGIN + timedelta(seconds=100), "before"), (BEGIN, "after the clock was set back")]
    assert read([lines], [])[0] == ["before", "after the clock was set back"]


def test_memory_holds_but_the_last_seconds():
    kubelet = Kubelet([[(BEGIN + timedelta(milliseconds=10 * index), "line") for index in range(10_000)]], Piece(10**6), [])
    log = Log(kubelet, SOURCE)  # type: ignore[arg-type]
    assert len(list(log.read(ContainerState()))) == 10_000
    assert len(log._recent) <= 200


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"2026-03-01T11:59:58.000000000Z a b", "a b"),
        (b"2026-03-01T11:59:58.123456789Z ", ""),
        (b"2026-03-01T12:59:58.5+01:00 x", "x"),
        (b"2026-03-01T11:59:58Z \xff", "\ufffd"),
        (b"unable to retrieve container logs", "unable to retrieve container logs"),
    ],
)
def test_a_time_is_no_part_of_a_line(line, text):
    assert Log(None, SOURCE)._taken(line) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "state", "why"),
    [
        (404, ContainerState(ended=True, gone=True), "its pod is gone, and the rest of its log is lost"),
        (403, ContainerState(), "get pods/log: 403 Refused: not now"),
        (400, ContainerState(ended=True), "get pods/log: 400 Refused: not now"),
        (400, ContainerState(), ""),
        (503, ContainerState(ended=True), ""),
    ],
)
def test_a_log_that_cannot_be_read_ends_with_the_reason_or_is_read_again(code, state, why):
    log = Log(Kubelet([[]], Piece(0, refused=code), []), SOURCE)  # type: ignore[arg-type]
    with pytest.raises(ApiError) as caught:
        list(log.read(state))
    assert log.broken(caught.value, state) == why
