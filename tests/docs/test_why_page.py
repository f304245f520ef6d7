"""The page of `gpu-ci why`: its answers are those of the command about runs on loopback, and its tables are complete."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from gpu_ci.offline.why import causes, seen, usage
from tests.docs.markdown import ROOT, fences
from tests.offline.actions_server import ANSWERED, URL, answers, job, why
from tests.offline.test_why_report import of_runs, ran

PAGE = ROOT / "docs" / "why.md"
TEXT = PAGE.read_text(encoding="utf-8")
ANSWERS, REPORT = (fence.text for fence in fences() if fence.page == PAGE and fence.language == "text")


def waits() -> dict[str, ANSWERED]:
    """Three jobs of a run that wait, and four of another run that run."""
    jobs = [job(20, "build (gpu-t5)", "gpu-t5"), job(21, "release", "gpu-t4-release"), job(22, "train (3)")]
    working = [job(number, "a", *labels, status="in_progress") for number, labels in enumerate([("gpu-t4-release",), ()] * 2)]
    return answers(jobs, {8: [*working, job(9, "b")]})


def week() -> dict[str, ANSWERED]:
    """A week of two runner sets and of GitHub's runners."""
    jobs = [ran(number, 40 + 13 * number, 1.5) for number in range(40)]
    jobs += [ran(100 + number, 300 * number, 6, "gpu-t4-release") for number in range(12)]
    jobs += [ran(200 + number, 4, 0.1, "ubuntu-24.04", runner_group_name="GitHub Actions") for number in range(30)]
    return of_runs([*jobs, job(300)], runs=31)


@pytest.mark.parametrize(
    ("shown", "content", "words", "target"),
    [
        (ANSWERS, waits(), ("--stack", "staging"), URL),
        (REPORT, week(), ("--report", "--stack", "staging", "--as-of", "2026-11-27"), "example/app"),
    ],
)
def test_an_answer_of_the_page_is_that_of_the_command(shown: str, content: Any, words: tuple[str, ...], target: str) -> None:
    done = why(content, *words, target=target)
    assert shown.rstrip("\n") == f"$ gpu-ci why {target} {' '.join(words)}\n{done.stdout}".rstrip("\n")


def test_the_table_of_causes_has_them_all() -> None:
    table = TEXT.split("| cause | ")[1].split("\n\n")[0]
    shown = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    names = ("NO_LABEL", "REFUSED", "FULL", "BEHIND", "NO_CAPACITY", "NO_RUNNER", "UNDETERMINABLE")
    assert shown == [getattr(causes, name) for name in names]


def test_the_limits_of_the_page_are_those_of_the_program() -> None:
    assert f"the newest {seen._MOST_RUNS} runs of each status" in TEXT
    assert f"the newest {usage._MOST_RUNS} runs" in TEXT


def test_the_table_of_inputs_is_that_of_the_action() -> None:
    action = YAML(typ="safe", pure=True).load(ROOT / ".github" / "actions" / "why-waiting" / "action.yml")
    table = TEXT.split("| input | ")[1].split("\n\n")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(action["inputs"])
