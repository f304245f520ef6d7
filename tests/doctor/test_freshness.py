"""Whether what a fleet pins is still good, against sources on loopback."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleet.facts.support import EKS_SUPPORT, Support
from fleet.facts.versions import CHARTS, RUNNER_IMAGE
from fleet.providers.eks import sources as eks
from fleet.providers.finding import Finding, SourceError
from gpu_ci.doctor import freshness
from gpu_ci.doctor.sources.web import Web
from tests.doctor.fleets import edited, lines, shipped
from tests.doctor.loopback import Answers, serve
from tests.doctor.test_sources import TOKEN, release

DAY = date(2099, 12, 24)
VERSION = RUNNER_IMAGE.partition("@")[0].rpartition(":")[2]
ARC = CHARTS["gha-runner-scale-set"].version
END = f"/orgs/example/actions/runners/deprecations/{VERSION}"
RUNNERS = "/repos/actions/runner/releases"


def no_session() -> Any:
    """AWS without credentials."""
    raise SourceError("there are no AWS credentials")


def ask(answers: Answers, fleet: Any = None, token: str = TOKEN, session: Any = no_session) -> list[Finding]:
    """The findings on `DAY`."""
    with serve(answers) as server:
        web = Web(token, {"https://api.github.com": server.url})
        return list(freshness.findings(fleet or shipped("staging"), web, DAY, session))


def end(day: date | None) -> Answers:
    """GitHub's answer for the pinned runner."""
    return {END: (200, {"runner_version": VERSION, "runtime_deprecates_at": day and f"{day}T08:00:00Z"})}


@pytest.mark.parametrize(
    ("days", "line"),
    [
        (-1, "wrong: runner {v}: GitHub gives it no jobs from {day} on, over (by GitHub's REST API)"),
        (0, "wrong: runner {v}: GitHub gives it no jobs from {day} on, over (by GitHub's REST API)"),
        (7, "wrong: runner {v}: GitHub gives it no jobs from {day} on, in 7 days (by GitHub's REST API)"),
        (8, "ok: runner {v}: GitHub gives it no jobs from {day} on, in 8 days (by GitHub's REST API)"),
        (None, "ok: runner {v}: no last day is set (by GitHub's REST API)"),
    ],
)
def test_the_last_day_of_the_pinned_runner_is_githubs(days: int | None, line: str) -> None:
    day = None if days is None else DAY + timedelta(days)
    first = ask(end(day))[0]
    assert lines([first]) == [line.format(v=VERSION, day=day)]
    assert first.fix == ("gpu-ci freshen --only runner, then pulumi up" if first.state == "wrong" else "")


@pytest.mark.parametrize(
    ("releases", "line"),
    [
        (
            [release("v999.1.0", "2099-12-20"), release("v999.0.0", "2099-11-20")],
            "wrong: runner {v}: GitHub gives it no jobs from 2099-12-20",
        ),
        (
            [release("v999.0.0", "2099-12-20")],
            "ok: runner {v}: GitHub gives it no jobs from 2100-01-19 on, in 26 days (by the rule",
        ),
        ([release(f"v{VERSION}")], "ok: runner {v}: no last day is set (by the rule"),
    ],
)
def test_without_a_token_the_next_release_and_the_rule_of_30_days_count(releases: list[Any], line: str) -> None:
    said = lines(ask({RUNNERS: (200, releases)}, token=""))[0]
    assert said.startswith(line.format(v=VERSION))
    assert "GH_TOKEN is not set" in said


def test_what_cannot_be_asked_is_skipped_with_each_reason() -> None:
    assert lines(ask({})) == [
        f"skipped: the runner: api.github.com answers 404 to {END}; api.github.com answers 404 to {RUNNERS}",
        "skipped: ARC: api.github.com answers 404 to /repos/actions/actions-runner-controller/releases",
        "skipped: EKS: there are no AWS credentials",
    ]


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("https://git.acme.io/platform", "skipped: the runner: git.acme.io is a server of your own"),
        ("https://acme.ghe.com/platform", f"ok: runner {VERSION}: no last day is set (by the rule"),
        ("https://github.com/acme/tools", f"ok: runner {VERSION}: no last day is set (by GitHub's REST API)"),
    ],
)
def test_each_kind_of_github_is_asked_as_far_as_it_has_an_answer(url: str, line: str, tmp_path: Path) -> None:
    fleet = edited("staging", tmp_path, ("https://github.com/example", url))
    repository = f"/repos/acme/tools/actions/runners/deprecations/{VERSION}"
    answers = {repository: end(None)[END], RUNNERS: (200, [])}
    assert lines(ask(answers, fleet))[0].startswith(line)


@pytest.mark.parametrize(
    ("tags", "line"),
    [
        (
            ["gha-runner-scale-set-999.1.0", f"gha-runner-scale-set-{ARC}"],
            f"ARC {ARC} is pinned, and 999.1.0 of 2026-10-06 is the newest",
        ),
        ([f"gha-runner-scale-set-{ARC}", "gha-runner-scale-set-0.0.1", "v999.0.0"], f"ARC {ARC} is the newest"),
    ],
)
def test_the_newest_arc_is_named(tags: list[str], line: str) -> None:
    answers = {"/repos/actions/actions-runner-controller/releases": (200, [release(tag) for tag in tags])}
    assert lines(ask(answers))[1].startswith(f"ok: {line}")


@pytest.mark.parametrize(
    ("change", "build", "said"),
    [
        (
            0,
            "20200101",
            [
                "ok: usw2: AWS ends standard support of {m} on {day}, as the table has it",
                "ok: usw2: node image {r} is the newest",
            ],
        ),
        (
            1,
            "20991201",
            [
                "wrong: usw2: AWS ends standard support of {m} on {day}, and all support on {last}; "
                "fleet/facts/data/eks_support.csv has other days",
                "ok: usw2: node image {r} is pinned, and AWS recommends {m}.99-20991201",
            ],
        ),
        (None, "20991201", ["wrong: usw2: EKS has no Kubernetes {m} any more", "ok: usw2: node image {r} is pinned"]),
    ],
)
def test_eks_itself_says_how_long_a_minor_has_support(
    change: int | None, build: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kubernetes = shipped("staging").clusters["usw2"].kubernetes
    minor, row = kubernetes.minor, EKS_SUPPORT[kubernetes.minor]
    days = row.standard_until + timedelta(change or 0), row.extended_until
    monkeypatch.setattr(eks, "client", lambda *_: None)
    monkeypatch.setattr(eks, "minors", lambda _: [] if change is None else [Support(minor, row.standard_until, *days)])
    monkeypatch.setattr(eks, "recommended", lambda *_: f"{minor}.99-{build}")
    found = lines(ask({}, session=lambda: None))[2:]
    words = {"m": minor, "r": kubernetes.ami_release, "day": days[0], "last": days[1]}
    assert [line.startswith(text.format(**words)) for line, text in zip(found, said, strict=True)] == [True, True], found
