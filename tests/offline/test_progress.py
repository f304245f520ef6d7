"""A line appears when a plan takes long, and only then."""

from __future__ import annotations

import threading

from gpu_ci.offline.progress import Progress


def test_a_quick_command_says_nothing(capsys):
    with Progress(after=60) as progress:
        progress("building")
    assert capsys.readouterr().err == ""


def test_a_late_command_says_where_it_is_and_goes_on_saying(capsys, monkeypatch):
    late = threading.Event()
    on_time = Progress._on_time

    def noticed(self):
        on_time(self)
        late.set()

    monkeypatch.setattr(Progress, "_on_time", noticed)
    with Progress(after=0.001) as progress:
        late.wait()
        progress("building")
        progress("judging")
    assert capsys.readouterr().err.splitlines() == ["… starting", "… building", "… judging"]
