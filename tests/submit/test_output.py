"""Progress goes to stderr, logs go to stdout."""

from __future__ import annotations

import io

from gpu_ci.submit import Output
from gpu_ci.submit.runs import span


def test_progress_and_logs_go_to_different_streams(capsys):
    output = Output()
    output.progress("train", "pending: [red]no node[/red] for it yet")
    output.log("[a/worker] ", "epoch 1 [bold] :smile:")
    assert capsys.readouterr() == ("[a/worker] epoch 1 [bold] :smile:\n", "train: pending: [red]no node[/red] for it yet\n")


def test_logs_are_written_unchanged():
    logs = io.StringIO()
    Output(logs).log("", "\x1b[31mred\x1b[0m\r100%")
    assert logs.getvalue() == "\x1b[31mred\x1b[0m\r100%\n"


def test_durations_are_shown_in_short_form():
    assert [span(seconds) for seconds in (0.4, 59.9, 60, 192, 3599, 3600, 7500)] == [
        "0s",
        "59s",
        "1m00s",
        "3m12s",
        "59m59s",
        "1h00m",
        "2h05m",
    ]
