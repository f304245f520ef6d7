"""Progress on stderr, logs on stdout; on a terminal with what goes on below them."""

from __future__ import annotations

import io
import sys

from rich.console import Console

from submit.result import span
from submit.view import Live, Plain, Quiet, teller


def test_progress_and_logs_go_their_own_ways(capsys):
    tell = Plain()
    tell.say("train", "running")
    tell.log("[a/worker] ", "epoch 1")
    assert capsys.readouterr() == ("[a/worker] epoch 1\n", "train: running\n")


def test_a_terminal_shows_lines_and_what_goes_on():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, highlight=False, markup=False, emoji=False, color_system=None)
    with Live(console) as tell:
        tell.say("train-a", "pending: [red]no node[/red] for it yet " + "x" * 80)
        tell.log("[a/worker] ", "\x1b[31mred\x1b[0m [bold] :smile:")
        shown = out.getvalue()
    assert "train-a: pending: [red]no node[/red] for it yet" in shown, "words are no markup"
    assert shown.count("x" * 80) == 1, "what goes on is one line, cut to the width"
    assert "red [bold] :smile:" in shown
    assert "\x1b[?25h" in out.getvalue(), "the cursor is back"


def test_logs_that_are_piped_stay_as_they_are():
    progress, logs = io.StringIO(), io.StringIO()
    with Live(Console(file=progress, force_terminal=True), logs) as tell:
        tell.log("", "\x1b[31mred\x1b[0m\r100%")
    assert logs.getvalue() == "\x1b[31mred\x1b[0m\r100%\n"


def test_the_form_follows_where_stderr_goes(monkeypatch):
    assert isinstance(teller(), Plain)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert isinstance(teller(), Live)


def test_quiet_is_quiet(capsys):
    Quiet().say("a", "b")
    Quiet().log("a", "b")
    assert capsys.readouterr() == ("", "")


def test_times_are_told_as_people_say_them():
    assert [span(seconds) for seconds in (0.4, 59.9, 60, 192, 3599, 3600, 7500)] == [
        "0s",
        "59s",
        "1m00s",
        "3m12s",
        "59m59s",
        "1h00m",
        "2h05m",
    ]
