"""The last good day: of the runner, replayed over every documented refusal, and of everything else that is pinned."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from fleet.facts import lifecycle
from fleet.facts.lifecycle import INSTALL_WITHIN, WARN_AFTER, Life
from fleet.facts.support import EKS_SUPPORT
from fleet.facts.tables import rows
from fleet.loading.config import fleet_of, load
from fleet.prove.ends import ends
from tests import builders
from tests.cases import cases
from tests.components.recorded import stack_config

RELEASES = {row["version"]: date.fromisoformat(row["released"]) for row in rows("runner_releases.csv")}
BEFORE_REFUSAL = 7
"""Days before a refusal on which a plan must have warned."""


def refusals() -> list[tuple[str, date]]:
    """The documented refusals: version, and the day on which somebody reported it first."""
    with (Path(__file__).parent / "runner_refusals.csv").open(encoding="utf-8", newline="") as table:
        return [(row["version"], date.fromisoformat(row["refused"])) for row in csv.DictReader(table)]


def days(first: date, last: date) -> Iterator[date]:
    """Every day from the first to the last."""
    return (first + timedelta(number) for number in range((last - first).days + 1))


def warned(version: str, until: date) -> date | None:
    """The first day on which a plan warns about a runner, with what was published by then."""
    return next((day for day in days(RELEASES[version], until) if lifecycle.runner(version, day).shown(day)), None)


@cases(("version", "refused"), refusals())
def test_each_documented_refusal_was_announced_a_week_before(version: str, refused: date) -> None:
    first = warned(version, refused)
    assert first is not None
    assert (refused - first).days >= BEFORE_REFUSAL


def test_no_plan_warns_of_the_newest_release_while_it_is_young() -> None:
    checked = 0
    for version, released in RELEASES.items():
        for day in days(released, released + timedelta(WARN_AFTER - 1)):
            newer = [other for other, out in RELEASES.items() if out <= day and numbers(other) > numbers(version)]
            if not newer:
                assert not lifecycle.runner(version, day).shown(day), (version, day)
                checked += 1
    assert checked > len(RELEASES)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_a_runner_ends_thirty_days_after_the_next_release_and_a_patch_of_an_older_minor_is_none() -> None:
    # 2.320.1 came three months after 2.321.0.
    assert lifecycle.runner("2.320.0", date.max).last == RELEASES["2.321.0"] + timedelta(INSTALL_WITHIN)
    assert lifecycle.runner("2.322.0", date(2025, 3, 1)).last is None
    assert lifecycle.runner("2.335.0", date.max).last == RELEASES["2.335.1"] + timedelta(INSTALL_WITHIN), "a patch counts"


def test_a_runner_without_a_known_successor_may_end_thirty_days_after_its_release() -> None:
    released, day = RELEASES["2.337.0"], date(2026, 9, 20)
    life = lifecycle.runner("2.337.0", day)
    assert (life.last, life.may_end) == (None, released + timedelta(INSTALL_WITHIN))
    assert life.words(day).startswith("runner 2.337.0 may be refused from 2026-09-25: ")
    assert not life.over(date.max), "a day that is only possible refuses nothing"
    unknown = lifecycle.runner("2.999.0", day)
    assert (unknown.last, unknown.may_end, unknown.shown(date.max)) == (None, None, False)


@cases(
    ("life", "day", "words"),
    [
        (Life("x", date(2026, 1, 3), "it stops"), date(2026, 1, 1), "x is good until 2026-01-03, 2 more days: it stops"),
        (Life("x", date(2026, 1, 3), "it stops"), date(2026, 1, 2), "x is good until 2026-01-03, 1 more day: it stops"),
        (Life("x", date(2026, 1, 3), "it stops"), date(2026, 1, 3), "x is good until 2026-01-03, today: it stops"),
        (Life("x", date(2026, 1, 3), "it stops"), date(2026, 1, 4), "x ended on 2026-01-03: it stops"),
        (Life("x", None, "it stops"), date(2026, 1, 4), "x: no end published"),
    ],
)
def test_the_last_good_day_is_still_good(life: Life, day: date, words: str) -> None:
    assert life.words(day) == words
    assert life.over(day) == ("ended" in words)


def test_a_plan_names_an_end_ninety_days_before() -> None:
    life = Life("x", date(2026, 6, 1), "it stops")
    assert not life.shown(date(2026, 6, 1) - timedelta(91))
    assert life.shown(date(2026, 6, 1) - timedelta(90))


@cases("minor", EKS_SUPPORT)
def test_the_price_of_extended_support_begins_on_the_day_after_the_last_good_day(minor: str) -> None:
    standard, extended = lifecycle.of_eks(minor), lifecycle.of_eks(minor, extended=True)
    assert standard is not None
    assert extended is not None
    assert standard.last == EKS_SUPPORT[minor].standard_until - timedelta(1)
    assert extended.last == EKS_SUPPORT[minor].extended_until - timedelta(1)


def test_oracle_ends_a_minor_a_month_after_it_offers_the_third_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    table = [
        {"minor": "1.1", "released": "2025-01-01", "ended": "2026-02-28", "ends_after": ""},
        {"minor": "1.2", "released": "2025-05-01", "ended": "", "ends_after": "1.5"},
        {"minor": "1.3", "released": "2025-09-01", "ended": "", "ends_after": "1.6"},
        {"minor": "1.5", "released": "2026-05-01", "ended": "", "ends_after": "1.8"},
    ]
    monkeypatch.setattr(lifecycle, "rows", lambda _: table)
    last = {minor: life.last for minor in ("1.1", "1.2", "1.3") if (life := lifecycle.of_oke(minor)) is not None}
    assert last == {"1.1": date(2026, 2, 28), "1.2": date(2026, 5, 31), "1.3": None}
    assert lifecycle.of_oke("1.4") is None


@cases(
    ("reference", "what"),
    [
        ("ghcr.io/actions/actions-runner:2.330.0", "runner 2.330.0"),
        ("ghcr.io/actions/actions-runner:2.330.0@sha256:00", "runner 2.330.0"),
        ("registry.k8s.io/kueue/kueue:v0.19.2", "image registry.k8s.io/kueue/kueue:v0.19.2"),
        ("ghcr.io/actions/actions-runner:latest", None),
        ("registry.k8s.io/kueue/kueue:v9", None),
        ("", None),
    ],
)
def test_an_image_has_the_life_of_its_row(reference: str, what: str | None) -> None:
    life = lifecycle.of_image(reference, date.max)
    assert (life and life.what) == what


@pytest.mark.usefixtures("numbers")
def test_a_fleet_lists_what_it_has_pinned_the_first_end_first() -> None:
    day = date(2026, 11, 26)
    settings = builders.cluster(
        pools={
            "p4": builders.pool(
                instanceTypes=["p4d.24xlarge"],
                capacity="reserved",
                reservation={"id": "cr-0123456789abcdef0", "zone": "us-west-2a", "count": 2, "endDate": "2026-11-30"},
            )
        },
        runners={"gpu-p4": builders.runner(pool="p4", scale={"max": 1}, image="ghcr.io/actions/actions-runner:2.336.0")},
    )
    fleet = load(builders.config(clusters={"usw2": settings}))
    pinned = ends(fleet, day)
    assert [end.use.life.what for end in pinned if end.last is not None][:2] == [
        "runner 2.336.0",
        "reservation cr-0123456789abcdef0 of pool p4",
    ]
    known = [end.last for end in pinned if end.last is not None]
    assert known == sorted(known)
    assert [end.last for end in pinned[len(known) :]] == [None] * (len(pinned) - len(known))
    assert any("365 USD a month more" in end.line(day) for end in pinned)


def test_an_image_of_the_matrix_has_the_end_of_its_cuda() -> None:
    settings = builders.cluster(runners={"gpu-t4": builders.runner(image="ghcr.io/acme/runner-gpu:cuda12.4-ubuntu22.04-devel-7")})
    fleet = load(builders.config(clusters={"usw2": settings}))
    (end,) = [end for end in ends(fleet, date.max) if end.use.life.what == "runner image cuda12.4-ubuntu22.04"]
    assert end.last == date(2026, 6, 1)


def test_the_images_of_workloads_sweeps_and_launchers_are_pinned_too() -> None:
    lives = {end.use.life.what for end in ends(fleet_of(stack_config("homelab")), date.max)}
    assert {what for what in lives if "comfyui" in what or "library/python" in what} == {
        "image docker.io/yanwk/comfyui-boot:cu128-slim",
        "image docker.io/library/python:3.13.5-slim-bookworm",
    }
    machines = ends(fleet_of(stack_config("oci-machines")), date.max)
    assert any("oci-cli" in end.use.life.what for end in machines)
