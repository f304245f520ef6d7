"""`gpu-ci why` against a server on loopback: the cause of each job that waits, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fleet.facts.errors import InputError
from gpu_ci.doctor.sources.actions import repository_of, run_of, token_for
from tests.builders import ROOT
from tests.examples import examples
from tests.offline.actions_server import TOKEN, URL, answers, github, invoke, job, pages, why

DAY = ("--stack", "staging", "--as-of", "2026-11-20")
"""A day on which the runner of staging has not ended."""
RELEASE = "gpu-t4-release"
"""A set of at most two runners."""


def waiting(content: Any, *words: str) -> list[dict[str, Any]]:
    """The jobs that wait, as JSON has them."""
    done = why(content, *(words or DAY), "--json")
    assert done.exit_code in (0, 1), done.output
    listed: list[dict[str, Any]] = json.loads(done.stdout)["waiting"]
    return listed


def only(content: Any, *words: str) -> dict[str, Any]:
    """The one job that waits."""
    [entry] = waiting(content, *words)
    return entry


def edited(folder: Path, *changes: tuple[str, str]) -> tuple[str, ...]:
    """Words for staging with these texts replaced."""
    text = (ROOT / "Pulumi.staging.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "Pulumi.staging.yaml"
    path.write_text(text)
    return (*DAY, "--file", str(path))


# -- causes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "fix"),
    [
        (("gpu-t5",), "did you mean gpu-t4?"),
        (("zzzz",), "its sets are gpu-t4, gpu-t4-release"),
        (("gpu-t4", RELEASE), "did you mean"),
    ],
)
def test_labels_that_no_set_has_are_the_cause_with_the_fix_and_the_owner(labels: tuple[str, ...], fix: str) -> None:
    entry = only(answers([job(1, "train", *labels)]))
    assert entry["cause"] == "no such label"
    assert fix in entry["text"]
    assert entry["ask"] == "ci-platform (tag owner of stack staging)"


def test_a_stuck_job_exits_with_1_and_a_queue_with_0() -> None:
    assert why(answers([job(1, "train", "gpu-t5")]), *DAY).exit_code == 1
    assert why(answers([job(1)]), *DAY).exit_code == 0


@pytest.mark.parametrize(
    ("running", "ahead", "cause"),
    [(2, 0, "set at its maximum"), (3, 1, "set at its maximum"), (1, 1, "behind other jobs"), (0, 2, "behind other jobs")],
)
def test_the_jobs_of_the_repository_that_fill_a_set_are_counted(running: int, ahead: int, cause: str) -> None:
    others = [job(10 + number, "other", RELEASE, status="in_progress") for number in range(running)]
    others += [job(20 + number, "other", RELEASE) for number in range(ahead)]
    later = job(60, "later", RELEASE)
    entry = only(answers([job(50, "train", RELEASE)], {8: [*others, later, job(1, "of another set")]}))
    assert entry["cause"] == cause
    text = f"this repository uses {running} of the 2 runners of set usw2/{RELEASE}, with {ahead} of its jobs ahead of this one"
    assert entry["text"] == text


def test_pools_that_hold_fewer_runners_than_the_maximum_are_no_capacity() -> None:
    others = [job(10 + number, status="in_progress") for number in range(7)]
    entry = only(answers([job(50)], {8: others}))
    assert entry["cause"] == "no capacity"
    assert entry["text"].endswith(
        "uses 7 of the 10 runners of set usw2/gpu-t4, with 0 of its jobs ahead of this one, and the pools hold only 7 runners"
    )


def test_a_set_that_keeps_failed_jobs_is_full_for_longer(tmp_path: Path) -> None:
    kept = f"        {RELEASE}:\n          keepFailed: {{time: 90s, group: gpu-ci-debug}}\n"
    others = [job(10 + number, "other", RELEASE, status="in_progress") for number in range(2)]
    entry = only(answers([job(50, "train", RELEASE)], {8: others}), *edited(tmp_path, (f"        {RELEASE}:\n", kept)))
    assert entry["cause"] == "set at its maximum"
    assert entry["text"].endswith(" (a job that failed may hold its runner for 1.5 more minutes: keepFailed)")


def test_what_neither_source_shows_is_undeterminable_with_the_commands() -> None:
    entry = only(answers([job(50, "train", "self-hosted", "gpu")], {8: [job(1, status="in_progress")]}))
    assert entry["cause"] == "undeterminable"
    assert "only the cluster shows whether a node starts or has no capacity" in entry["text"]
    assert "a job that names the set alone always reaches it" in entry["text"]
    assert entry["commands"] == ["kubectl describe pods --namespace runners-gpu-t4 # cluster usw2", "gpu-ci doctor staging"]


def test_a_runner_version_that_has_ended_refuses_unless_the_set_runs_a_job() -> None:
    late = ("--stack", "staging", "--as-of", "2026-11-26")
    entry = only(answers([job(50)]), *late)
    assert entry["cause"] == "runner refused"
    assert entry["text"].startswith("runner 2.338.0 ended on 2026-11-22")
    assert only(answers([job(50)], {8: [job(1, status="in_progress")]}), *late)["cause"] == "undeterminable"


def test_an_image_that_hides_its_runners_version_refuses_nothing(tmp_path: Path) -> None:
    words = edited(tmp_path, ("        gpu-t4:\n", "        gpu-t4:\n          image: ghcr.io/acme/runner:1\n"))
    assert only(answers([job(50)]), *words[:2], "--as-of", "2026-11-26", *words[4:])["cause"] == "undeterminable"


@pytest.mark.parametrize(
    ("groups", "cause"), [(("Default",), "runner refused"), (("GPU", "x"), "undeterminable"), (None, "undeterminable")]
)
def test_a_group_that_the_repository_may_not_use_refuses(groups: Any, cause: str) -> None:
    entry = only(answers([job(50)], groups=groups))
    assert entry["cause"] == cause
    assert (entry["text"] == "example/app may not use runner group gpu, or there is no such group") is (cause == "runner refused")
    asked = "gh api 'orgs/example/actions/runner-groups?visible_to_repository=app' --jq '.runner_groups[].name'"
    assert (asked in entry["commands"]) is (groups is None)


@pytest.mark.parametrize(
    ("scope", "refuses"),
    [
        ("https://github.com/Example", False),
        ("https://github.com/example/app", False),
        ("https://github.com/example/ap", True),
        ("https://github.com/exam", True),
        ("https://git.example.com/example", True),
    ],
)
def test_runners_of_another_organization_or_repository_refuse(tmp_path: Path, scope: str, refuses: bool) -> None:
    entry = only(answers([job(50)]), *edited(tmp_path, ("https://github.com/example", scope)))
    assert (entry["cause"] == "runner refused") is refuses
    assert (f"belong to {scope}, and the run to example/app" in entry["text"]) is refuses


def test_the_runners_of_a_repository_are_in_no_group(tmp_path: Path) -> None:
    words = edited(tmp_path, ("https://github.com/example", "https://github.com/example/app"))
    for groups in (("Default",), None):
        entry = only(answers([job(50)], groups=groups), *words)
        assert (entry["cause"], len(entry["commands"])) == ("undeterminable", 2)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("waiting", "a protection rule of its environment"),
        ("pending", "another run holds its concurrency group"),
        ("requested", "GitHub has not queued it"),
    ],
)
def test_a_job_that_waits_for_no_runner_says_so(state: str, text: str) -> None:
    entry = only(answers([job(50, status=state)]))
    assert (entry["cause"], text in entry["text"]) == ("not a matter of runners", True)


def test_a_label_of_github_and_a_group_alone_are_no_missing_labels() -> None:
    hosted, group = waiting(answers([job(1, "lint", "ubuntu-24.04"), job(2, labels=[])]))
    assert (hosted["cause"], hosted["ask"]) == ("not a matter of runners", "GitHub (githubstatus.com)")
    assert (group["cause"], group["commands"]) == ("undeterminable", ["gpu-ci audit ."])


def test_without_a_stack_only_the_queue_of_the_same_labels_is_known() -> None:
    others = [job(1, "a", "GPU", "b"), job(2, "b", "b", "gpu", status="in_progress"), job(3, "c", "b", "gpu", "x")]
    done = why(answers([job(50, "train", "b", "GPU")], {8: [*others, job(4, "d", "b", "GPU", status="in_progress")]}), "--json")
    [entry] = json.loads(done.stdout)["waiting"]
    assert "jobs with these labels 2 run and 1 are ahead" in entry["text"]
    assert entry["commands"] == [f"gpu-ci why {URL} --stack STACK"]


@pytest.mark.parametrize("form", [(), ("--markdown",)])
def test_a_time_with_an_offset_is_shown_in_utc(form: tuple[str, ...]) -> None:
    shown = why(answers([job(50, created_at="2026-11-27T15:30:00+05:00")]), *DAY, *form).stdout
    assert "2026-11-27 10:30 UTC" in shown


def test_a_stack_without_owner_names_the_scope(tmp_path: Path) -> None:
    words = edited(tmp_path, ("    owner: ci-platform\n", ""))
    assert only(answers([job(1, "train", "gpu-t5")]), *words)["ask"] == "the administrators of https://github.com/example"


# -- what GitHub sends -------------------------------------------------------------------------------------------------------


def test_a_matrix_of_60_jobs_on_two_pages_is_read_whole() -> None:
    content = answers([job(number, f"test ({number})", RELEASE) for number in range(60)], size=30)
    entries = waiting(content)
    assert [entry["name"] for entry in entries] == [f"test ({number})" for number in range(60)]
    assert [entry["cause"] for entry in entries] == ["undeterminable"] * 2 + ["behind other jobs"] * 58
    assert "with 59 of its jobs ahead" in entries[59]["text"]


def test_more_runs_than_are_read_give_a_lower_bound() -> None:
    content = answers([job(50, "train", RELEASE)], {8: [job(number, "x", RELEASE) for number in (1, 2)]})
    path = "/repos/example/app/actions/runs?status=in_progress"
    many = [{"id": number, "status": "in_progress"} for number in (7, 8, *range(100, 200))]
    content |= pages(path, "workflow_runs", many)
    for number in range(100, 200):
        content |= pages(f"/repos/example/app/actions/runs/{number}/jobs?filter=latest", "jobs", [])
    text = only(content)["text"]
    assert text.startswith("this repository uses at least 0 of the 2 runners of set")
    assert "with at least 2 of its jobs ahead" in text
    assert "at least 0 run and at least 2 are ahead" in only(content, "--as-of", "2026-11-20")["text"]


def test_a_run_that_was_deleted_meanwhile_is_left_out_and_named() -> None:
    content = answers([job(50, "train", RELEASE)], {8: [job(1, "x", RELEASE)], 9: [job(2, "x", RELEASE)]})
    del content["/repos/example/app/actions/runs/9/jobs?filter=latest&per_page=100&page=1"]
    del content["/repos/example/app/actions/runs/9/jobs?filter=latest&per_page=100&page=2"]
    text = "at least 1 of its jobs ahead of this one (not read: 1 run that GitHub no longer has)"
    assert text in only(content)["text"]
    assert "(not read: 1 run that GitHub no longer has)" in only(content, "--as-of", "2026-11-20")["text"]


def test_the_asked_run_that_was_deleted_is_one_line() -> None:
    path = "/repos/example/app/actions/runs/7/jobs?filter=latest&per_page=100&page=1"
    content = answers([job(50)]) | {path: (404, {})}
    done = why(content, *DAY)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "404 Not Found to GET /repos/example/app/actions/runs/7/jobs; it does not exist" in done.stderr


def test_another_refusal_of_the_jobs_of_another_run_ends_the_command() -> None:
    content = answers([job(50)], {8: []})
    content["/repos/example/app/actions/runs/8/jobs?filter=latest&per_page=100&page=1"] = (500, "")
    assert why(content, *DAY).exit_code == 2


@pytest.mark.parametrize(
    ("run", "text"),
    [
        ({"id": 7, "status": "completed", "conclusion": "success"}, "The run has ended (success), so no job waits.\n"),
        ({"id": 7, "status": "completed", "conclusion": "action_required"}, "The run waits until a maintainer approves it.\n"),
        ({"id": 7, "status": "pending", "conclusion": None}, "No job of the run waits; GitHub shows the run as pending.\n"),
    ],
)
def test_a_run_without_a_job_that_waits_is_one_sentence_and_two_requests(run: Any, text: str) -> None:
    with github(answers([job(1, status="completed")], run=run)) as server:
        done = invoke(URL, *DAY)
    assert (done.exit_code, done.stdout) == (0, text)
    assert len(server.asked) <= 2


HOSTILE = "@team <img src=x> [a](https://x.y) | `c`\n::error::x ##[error]y\x1b[31m \u202e ghp_" + "a" * 36


def test_a_hostile_name_of_a_job_is_only_text() -> None:
    content = answers([job(1, HOSTILE, "gpu-t5")])
    shown, marked, plain = (why(content, *DAY, *form).stdout for form in ((), ("--markdown",), ("--json",)))
    assert all("ghp_a" not in text for text in (shown, marked, plain))
    assert "\x1b" not in shown + marked
    assert "\u202e" not in shown + marked
    assert [line[:6] for line in shown.splitlines()] == ["no suc", "  wait"], "no line begins with a command of the runner"
    assert "##[" not in shown
    assert "@team" not in marked, "it would mention a team"
    assert not re.search(r"(?<!\\)[<\[`]", marked)
    assert len([line for line in marked.splitlines() if line.startswith("|")]) == 3


@settings(max_examples=examples(30), deadline=None)
@given(st.text(min_size=1, max_size=60))
def test_any_name_stays_one_row_and_two_lines(name: str) -> None:
    content = answers([job(1, name, "gpu-t5")])
    assert len(why(content, *DAY).stdout.split("\n")) == 3
    assert len(why(content, *DAY, "--markdown").stdout.splitlines()) == 5


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            (404, {}),
            "answers 404 Not Found to GET /repos/example/app/actions/runs/7; it does not exist, or is private: correct it",
        ),
        (
            (401, {}),
            "answers 401 Unauthorized to GET /repos/example/app/actions/runs/7; GH_TOKEN has no valid token; set it again",
        ),
        (
            (403, {}),
            "answers 403 Forbidden to GET /repos/example/app/actions/runs/7; set GH_TOKEN: a token that may read Actions",
        ),
        (
            (403, {}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795791600"}),
            "the rate limit is used up until 2026-11-27 15:00 UTC; run the command again then",
        ),
        (
            (403, {}, {"X-RateLimit-Remaining": "5", "X-RateLimit-Reset": "1795791600"}),
            "GET /repos/example/app/actions/runs/7; set GH_TOKEN: a token that may read Actions",
        ),
        ((429, {}, {"Retry-After": "60"}), "the rate limit is used up for 60 s; run the command again then"),
        (
            (403, {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}),
            "the secondary rate limit is used up for at least 60 s; run the command again then",
        ),
        (
            (404, {"message": "You have exceeded a secondary rate limit."}),
            "GET /repos/example/app/actions/runs/7; it does not exist",
        ),
        ((200, {"id": 7}), "an answer is refused: status: Field required; try again later"),
        ((200, "[]"), "an answer is refused"),
        ((500, "<html>"), "answers 500 Internal Server Error"),
    ],
)
def test_a_refusal_of_github_is_one_line_with_its_fix_and_without_the_token(answer: Any, text: str) -> None:
    done = why(answers([job(1)]) | {"/repos/example/app/actions/runs/7": answer}, *DAY)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: TARGET: ")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert TOKEN not in done.output


def test_a_rate_limit_at_the_groups_is_no_missing_right() -> None:
    path = "/orgs/example/actions/runner-groups?visible_to_repository=app&per_page=100&page=1"
    secondary = {"message": "You have exceeded a secondary rate limit."}
    for answer, text in (((403, {}, {"Retry-After": "9"}), "used up for 9 s"), ((403, secondary), "for at least 60 s")):
        done = why(answers([job(1)]) | {path: answer}, *DAY)
        assert done.exit_code == 2
        assert text in done.stderr


# -- where a token goes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://github.com/example/app",
        "https://github.com/example/app/actions/runs/x",
        "http://github.com/example/app/actions/runs/7",
        "https://github.com/example/app/../b/actions/runs/7",
        "https://github.com/example/../actions/runs/7",
        "https://u:p@github.com/example/app/actions/runs/7",
        "https://github.com/example/app/actions/runs/7/../../8",
    ],
)
def test_a_text_that_is_no_url_of_a_run_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"^TARGET: not the URL of a run; write https://github\.com/"):
        run_of(url, {})


@pytest.mark.parametrize("rest", ["", "/", "/job/12", "/attempts/2", "/job/12?pr=3#step:2:1"])
def test_the_addresses_of_a_run_and_its_jobs_name_it(rest: str) -> None:
    repository, number = run_of(f"{URL}{rest}", {})
    assert (repository.path, number) == ("example/app", 7)


@pytest.mark.parametrize("text", ["", "app", "a/b/c", "-x/app", "example/app?x", "example/..", "example/."])
def test_a_text_that_is_no_repository_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^TARGET: not a repository; write OWNER/REPOSITORY"):
        repository_of(text, {})


def test_a_token_goes_to_its_own_host_alone() -> None:
    environment = {"GH_TOKEN": "public", "GH_ENTERPRISE_TOKEN": "server", "GH_HOST": "git.acme.io"}
    hosts = ("github.com", "acme.ghe.com", "git.acme.io", "evil.example", "github.com.evil.example", "evilghe.com")
    for more in ({}, {"GITHUB_SERVER_URL": "https://github.com"}):
        assert [token_for(host, environment | more) for host in hosts] == ["public", "public", "server", "", "", ""]
    inside = {"GITHUB_TOKEN": "workflow", "GITHUB_SERVER_URL": "https://git.acme.io"}
    assert [token_for(host, inside) for host in ("git.acme.io", "git.acme.io.evil.example")] == ["workflow", ""]


def test_the_token_of_a_server_stays_there_and_a_bare_repository_is_one_of_it() -> None:
    inside = {"GITHUB_TOKEN": "workflow", "GH_TOKEN": "public", "GITHUB_SERVER_URL": "https://Git.acme.io/"}
    bare = repository_of("example/app", inside)
    assert (bare.host, bare.token) == ("git.acme.io", "workflow")
    del inside["GH_TOKEN"]
    hosts = ("github.com", "acme.ghe.com", "other.ghe.com")
    assert [token_for(host, inside) for host in hosts] == ["", "", ""]
    inside["GITHUB_SERVER_URL"] = "https://acme.ghe.com"
    assert [token_for(host, inside) for host in hosts] == ["", "workflow", ""]
    assert repository_of("https://github.com/example/app", inside).host == "github.com"
    assert repository_of("example/app", {"GITHUB_TOKEN": "person"}).token == "person"  # noqa: S105 - of nobody
    with pytest.raises(InputError, match=r"^GITHUB_SERVER_URL: not the URL of a server"):
        repository_of("example/app", {"GITHUB_TOKEN": "t", "GITHUB_SERVER_URL": "git.acme.io"})


def test_a_run_of_a_github_enterprise_server_is_asked_there_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    content = answers([job(1)], base="/api/v3")
    with github(content, host="https://git.acme.io") as server:
        monkeypatch.setenv("GH_HOST", "git.acme.io")
        monkeypatch.setenv("GH_ENTERPRISE_TOKEN", "of-the-server")
        done = invoke("https://git.acme.io/example/app/actions/runs/7")
    assert done.exit_code == 0, done.output
    assert "undeterminable" in done.stdout
    assert {sent["Authorization"] for sent in server.sent} == {"Bearer of-the-server"}
    assert {method for method, _ in server.asked} == {"GET"}


TWO = (
    "--stack",
    "two-organizations",
    "--as-of",
    "2026-11-20",
    "--file",
    str(ROOT / "examples" / "Pulumi.two-organizations.yaml"),
)


def test_a_job_on_a_set_of_another_organization_is_refused_and_the_organization_is_named() -> None:
    entry = only(answers([job(1, "train", "gpu-t4-research")]), *TWO)
    assert entry["cause"] == "runner refused"
    assert entry["text"].startswith("the runners of stack two-organizations belong to https://github.com/example-research, and")
    assert only(answers([job(1, "train", "gpu-t4")]), *TWO)["cause"] != "runner refused"
