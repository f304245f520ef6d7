"""The script that comments at pull requests: one comment, the bot's, at the right place; no other wish of an artifact is met."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt

from gpu_ci.offline.base import Base
from gpu_ci.offline.markdown import markdown
from tests.builders import ROOT
from tests.offline.staging import TEXT, base, plan_of, staging, write
from tests.workflows.github import (
    BOT,
    FORK,
    NUMBER,
    OTHER_SHA,
    REPOSITORY,
    RUN,
    SHA,
    TOKEN,
    GitHub,
    archive,
    event,
    plan_artifact,
    serving,
)

SCRIPT = ROOT / ".github" / "scripts" / "comment.py"
GAP = "\u200b"


def load() -> ModuleType:
    """The script as a module."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("comment_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SCRIPT_MODULE = load()
MARKER = SCRIPT_MODULE.MARKER
PASSED = "✅ **The check passed.**"


@dataclass(frozen=True)
class Done:
    """How a run of the script ended."""

    status: int
    said: str


@pytest.fixture
def github() -> Iterator[GitHub]:
    with serving(GitHub()) as found:
        yield found


@pytest.fixture
def run(github, tmp_path, monkeypatch, capsys):
    """Runs the script's main against the stand-in; whatever happens, the token is in no output."""

    def call(told: dict[str, Any] | None = None) -> Done:
        path = tmp_path / "event.json"
        path.write_text(json.dumps(told or event()))
        for name, value in {
            "GITHUB_API_URL": github.url,
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_TOKEN": TOKEN,
        }.items():
            monkeypatch.setenv(name, value)
        status = SCRIPT_MODULE.main()
        said = "".join(capsys.readouterr())
        assert TOKEN not in said
        return Done(status, said)

    return call


def comment(body: str, user: Any = BOT, number: int = 1) -> dict[str, Any]:
    return {"id": number, "user": user, "body": body}


# -- one comment -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("head", "said"), [(FORK, f" **Code of the fork `{FORK}` wrote all text below.**"), (REPOSITORY, "")])
def test_the_first_run_makes_a_comment(run, github, head, said):
    github.pulls[NUMBER] = GitHub.pull(head=head)
    done = run(event(head_repository={"full_name": head}))
    assert (done.status, done.said) == (0, f"created a comment at #{NUMBER}\n")
    (made,) = github.comments
    link = f"https://github.example/{REPOSITORY}/actions/runs/{RUN}"
    assert made["body"] == f"{MARKER}\n{PASSED}\n\nPlan of {SHA[:12]}, made by [this run]({link}).{said}\n\n## plan"


@pytest.mark.parametrize("conclusion", ["failure", "timed_out", "action_required", "startup_failure"])
def test_a_fork_does_not_say_itself_that_its_check_passed(run, github, conclusion):
    github.content = plan_artifact("## ✅ `prod`: every proof holds\n\nReviewed by security")
    run(event(conclusion=conclusion))
    (made,) = github.comments
    first, _, said, *_ = made["body"].removeprefix(f"{MARKER}\n").splitlines()
    assert first == f"❌ **The check ended: {conclusion}.**"
    assert said.endswith(f"**Code of the fork `{FORK}` wrote all text below.**")


def test_what_the_base_says_comes_before_the_text_of_the_fork(run, github, tmp_path, monkeypatch):
    (tmp_path / "keys.md").write_text("## ⚠️ An owner must approve\n\n| @mallory | https://example.com |\n" + "x" * 100_000)
    monkeypatch.setenv("TWO_KEYS", str(tmp_path / "keys.md"))
    github.content = plan_artifact("## plan\n" * 10_000)
    run()
    (made,) = github.comments
    assert len(made["body"]) < 65_536, "GitHub's limit"
    base, fork = made["body"].split("Plan of ")
    assert base.startswith(f"{MARKER}\n{PASSED}\n\n## ⚠️ An owner must approve\n")
    assert "@mallory" not in base
    assert "https://" not in base
    assert "## plan" in fork


def test_without_a_word_of_the_base_there_is_the_plan(run, github, tmp_path, monkeypatch):
    monkeypatch.setenv("TWO_KEYS", str(tmp_path / "no-file"))
    run()
    assert github.comments[0]["body"].startswith(f"{MARKER}\n{PASSED}\n\nPlan of ")


def test_the_next_run_renews_it(run, github):
    run()
    github.content = plan_artifact("## another plan")
    done = run()
    assert (done.status, done.said) == (0, f"updated the comment at #{NUMBER}\n")
    (made,) = github.comments
    assert made["body"].endswith("## another plan")


def test_the_comment_is_found_on_a_later_page(run, github):
    github.comments = [comment(f"talk {number}", {"login": "a", "type": "User"}, number) for number in range(250)]
    github.comments[230] = comment(f"{MARKER}\nold", number=230)
    assert run().said == f"updated the comment at #{NUMBER}\n"
    assert len(github.comments) == 250
    assert github.written == [("PATCH", f"/repos/{REPOSITORY}/issues/comments/230")]


def test_a_full_last_page_is_not_the_end(run, github):
    github.comments = [comment("talk", {"login": "a", "type": "User"}, number) for number in range(100)]
    assert run().said == f"created a comment at #{NUMBER}\n"
    assert len([path for _, path, _ in github.requests if path.endswith(f"/issues/{NUMBER}/comments")]) == 3


def test_endless_comments_are_no_reason_for_a_second_one(run, github):
    github.comments = [comment("talk", {"login": "a", "type": "User"}, number) for number in range(5000)]
    done = run()
    assert done.status == 1
    assert "more than 5000 comments" in done.said
    assert github.written == []


@pytest.mark.parametrize(
    "user",
    [
        {"login": "mallory", "type": "User"},
        {"login": "github-actions", "type": "User"},
        {"login": "other[bot]", "type": "Bot"},
        {"login": "github-actions[bot]", "type": "User"},
        None,
    ],
)
def test_somebody_elses_comment_with_our_marker_is_left_alone(run, github, user):
    github.comments = [comment(f"{MARKER}\nmine", user)]
    assert run().said == f"created a comment at #{NUMBER}\n"
    assert github.comments[0]["body"] == f"{MARKER}\nmine"


@pytest.mark.parametrize("body", [f"hello {MARKER}", "", None, "<!-- another -->"])
def test_another_comment_of_the_bot_is_left_alone(run, github, body):
    github.comments = [comment(body)]
    assert run().said == f"created a comment at #{NUMBER}\n"
    assert github.comments[0]["body"] == body


def test_of_several_artifacts_the_newest_of_our_name_is_read(run, github):
    github.artifacts = [
        github.artifact(id=3),
        github.artifact(id=7),
        github.artifact(id=9, name="plan-comment-2"),
        github.artifact(id=8, expired=True),
    ]
    assert run().status == 0
    assert f"/repos/{REPOSITORY}/actions/artifacts/7/zip" in [path for _, path, _ in github.requests]


def test_the_token_goes_to_the_api_alone(run, github):
    run()
    tokens = {path.startswith("/storage/"): token for _, path, token in github.requests}
    assert tokens == {False: f"Bearer {TOKEN}", True: None}, "GitHub redirects the download to a host of others"


# -- whose pull request ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pull", "status", "said"),
    [
        (GitHub.pull(head="mallory/gpu-ci"), 1, f"#{NUMBER} does not come from {FORK}, which the run was for"),
        (GitHub.pull(base="example/other"), 1, f"#{NUMBER} does not come from {FORK}, which the run was for"),
        (GitHub.pull(sha=OTHER_SHA), 0, f"#{NUMBER} is not at {SHA}: a newer commit has its own run"),
        (GitHub.pull(state="closed"), 0, f"#{NUMBER} is closed"),
        (GitHub.pull() | {"head": {"sha": SHA, "repo": None}}, 1, f"#{NUMBER} does not come from {FORK}"),
    ],
)
def test_a_pull_request_that_is_not_the_runs_gets_no_comment(run, github, pull, status, said):
    github.pulls = {NUMBER: pull}
    done = run()
    assert done.status == status
    assert done.said.startswith("::error::" if status else "::notice::")
    assert said in done.said
    assert github.written == []


def test_the_number_of_somebody_elses_pull_request_is_refused(run, github):
    github.pulls[13] = GitHub.pull(sha=OTHER_SHA, head="victim/gpu-ci")
    github.content = plan_artifact(number=13)
    assert run().status == 1
    assert github.written == []


def test_a_number_that_there_is_not_is_refused(run, github):
    github.content = plan_artifact(number=404)
    done = run()
    assert done.status == 1
    assert f"GET /repos/{REPOSITORY}/pulls/404: 404 Not Found" in done.said


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "12", "12/comments", None, [12], 2**31])
def test_what_is_no_number_is_refused(run, github, number):
    github.content = plan_artifact(number=number)
    done = run()
    assert done.status == 1
    assert "must name a pull request by a positive number" in done.said
    assert github.written == []
    assert not [path for _, path, _ in github.requests if "/pulls/" in path]


@pytest.mark.parametrize("sha", [OTHER_SHA, "", None, SHA[:12]])
def test_the_commit_must_be_the_runs(run, github, sha):
    github.content = plan_artifact(sha=sha)
    done = run()
    assert done.status == 1
    assert f"pull-request.json names another commit than the run, {SHA}" in done.said
    assert github.written == []


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (event(event="push"), "the run was made for push"),
        (event(head_repository=None), "the repository of the pull request is gone"),
    ],
)
def test_a_run_of_no_pull_request_is_left_alone(run, github, told, said):
    done = run(told)
    assert (done.status, github.requests) == (0, [])
    assert said in done.said


# -- the artifact ------------------------------------------------------------------------------------------------------

ABOUT = json.dumps({"number": NUMBER, "headSha": SHA})


def test_a_run_without_a_plan_is_nothing_to_say(run, github):
    github.artifacts = []
    done = run()
    assert (done.status, github.written) == (0, [])
    assert "::notice::the run has no plan" in done.said


def lying_about_its_size(compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip whose directory and header claim a small file where a great one is packed."""
    made = bytearray(archive({"comment.md": b"0" * 5_000_000, "pull-request.json": ABOUT}, compression))
    for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = made.index(signature) + offset
        made[at : at + 4] = struct.pack("<I", 10)
    return bytes(made)


def encrypted() -> bytes:
    """A zip whose first file says that it is encrypted."""
    made = bytearray(plan_artifact())
    for signature, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        made[made.index(signature) + offset] |= 1
    return bytes(made)


def of_a_strange_kind() -> bytes:
    """A zip whose first file is packed in a way that does not exist."""
    made = bytearray(plan_artifact())
    for signature, offset in ((b"PK\x01\x02", 10), (b"PK\x03\x04", 8)):
        at = made.index(signature) + offset
        made[at : at + 2] = struct.pack("<H", 77)
    return bytes(made)


def twice() -> bytes:
    """A zip with one name twice."""
    return archive({"comment.md": "a", "comment.mx": "b", "pull-request.json": ABOUT}).replace(b"comment.mx", b"comment.md")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda: b"no zip at all", "the artifact is not a readable zip"),
        (lambda: plan_artifact()[:-30], "the artifact is not a readable zip"),
        (encrypted, "the artifact is not a readable zip"),
        (of_a_strange_kind, "comment.md is packed in a way that GitHub does not use: 77"),
        (lambda: lying_about_its_size(zipfile.ZIP_BZIP2), "comment.md is packed in a way that GitHub does not use: 12"),
        (lambda: lying_about_its_size(zipfile.ZIP_LZMA), "comment.md is packed in a way that GitHub does not use: 14"),
        (lying_about_its_size, "the artifact is not a readable zip"),
        (twice, "pull-request.json; got 3 files"),
        (lambda: archive({"comment.md": "a"}), "pull-request.json; got 1 files"),
        (lambda: archive({"comment.md": "a", "pull-request.json": ABOUT, "x.sh": ""}), "pull-request.json; got 3 files"),
        (lambda: archive({"../comment.md": "a", "pull-request.json": ABOUT}), "pull-request.json; got 2 files"),
        (lambda: archive({"/etc/passwd": "a", "pull-request.json": ABOUT}), "pull-request.json; got 2 files"),
        (lambda: archive({"comment.md/": "", "pull-request.json": ABOUT}), "pull-request.json; got 2 files"),
        (lambda: archive({f"{number}": "" for number in range(2000)}), "pull-request.json; got 2000 files"),
        (lambda: archive({"comment.md": b"0" * 50_000_000, "pull-request.json": ABOUT}), "comment.md has 50000000 bytes"),
        (lambda: archive({"comment.md": "a", "pull-request.json": " " * 2_000_000}), "pull-request.json has 2000000 bytes"),
        (lambda: archive({"comment.md": b"\xff\xfe", "pull-request.json": ABOUT}), "comment.md is not UTF-8 text"),
        (lambda: archive({"comment.md": "a", "pull-request.json": b"\xff"}), "pull-request.json is not UTF-8 text"),
        (lambda: archive({"comment.md": "a", "pull-request.json": "{"}), "pull-request.json is not JSON"),
        (lambda: archive({"comment.md": "a", "pull-request.json": "[" * 100_000}), "pull-request.json is not JSON"),
        (lambda: archive({"comment.md": "a", "pull-request.json": "[1]"}), "must name a pull request"),
    ],
)
def test_an_artifact_that_is_not_ours_is_refused(run, github, content, said):
    github.content = content()
    github.artifacts = [github.artifact(size_in_bytes=100)]
    done = run()
    assert done.status == 1
    assert said in done.said
    assert done.said.count("\n") == 1, "one line, whatever the names are"
    assert github.written == []


def test_a_great_artifact_is_not_even_asked_for(run, github):
    github.artifacts = [github.artifact(size_in_bytes=2_000_000)]
    done = run()
    assert done.status == 1
    assert "the artifact has 2000000 bytes, at most 1000000 are read" in done.said
    assert not [path for _, path, _ in github.requests if "zip" in path]


def test_an_artifact_greater_than_it_says_is_not_read_to_its_end(run, github):
    github.content = archive({"comment.md": os.urandom(1_200_000), "pull-request.json": ABOUT}, zipfile.ZIP_STORED)
    github.artifacts = [github.artifact(size_in_bytes=10)]
    done = run()
    assert done.status == 1
    assert "more than 1000000 bytes" in done.said


def test_nothing_is_written_to_disk(run, github, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    github.content = archive({"../comment.md": "a", "pull-request.json": ABOUT})
    run()
    assert [path.name for path in tmp_path.iterdir()] == ["event.json"]


# -- when GitHub fails -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 404, 422, 500, 503])
@pytest.mark.parametrize(
    "request_line",
    [
        f"GET /repos/{REPOSITORY}/actions/runs/{RUN}/artifacts",
        f"GET /repos/{REPOSITORY}/actions/artifacts/1/zip",
        "GET /storage/1",
        f"GET /repos/{REPOSITORY}/pulls/{NUMBER}",
        f"GET /repos/{REPOSITORY}/issues/{NUMBER}/comments",
        f"POST /repos/{REPOSITORY}/issues/{NUMBER}/comments",
    ],
)
def test_an_error_of_the_api_is_one_line_and_fails(run, github, request_line, status):
    github.failing = {request_line: (status, f'{{"message": "bad token {TOKEN}"}}'.encode())}
    done = run()
    assert done.status == 1
    assert done.said.startswith("::error::")
    assert str(status) in done.said
    assert github.comments == []


def test_an_answer_that_is_no_json_fails(run, github):
    github.failing = {f"GET /repos/{REPOSITORY}/pulls/{NUMBER}": (200, b"<html>")}
    done = run()
    assert (done.status, "the response is not JSON" in done.said) == (1, True)


def test_a_server_that_is_not_there_fails(run, github):
    github.url = "http://127.0.0.1:9"
    done = run()
    assert done.status == 1
    assert "URLError" in done.said or "ConnectionRefused" in done.said


# -- the text ----------------------------------------------------------------------------------------------------------

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
ALLOWED = {"<details>", "</details>", "<summary>", "</summary>", "<br>"}
lively = st.one_of(st.text(max_size=200), st.text("@#[]()!<>&;:/w.a1 \n`|\\-*GHhtps\u200b", max_size=60))


@given(lively)
def test_whatever_the_text_is_nothing_in_it_pings_links_or_is_html(text):
    made = SCRIPT_MODULE.neutral(text)
    assert "\r" not in made
    for token in MARKDOWN.parse(made):
        for piece in (token, *(token.children or ())):
            assert piece.type not in ("link_open", "image")
            if piece.type == "html_inline":
                assert piece.content in ALLOWED
            if piece.type in ("text", "inline", "code_inline", "html_block"):
                assert not any(live in piece.content for live in ("@a", "@1", "#1", "://", "<a", "<!--", "<s", "www."))


@pytest.mark.parametrize(
    ("text", "tame"),
    [
        ("@team", f"@{GAP}team"),
        (f"@{GAP}team", f"@{GAP}team"),
        ("&#64;team &commat;team", f"&{GAP}#{GAP}64;team &{GAP}commat;team"),
        ("fixes #12, GH-12", f"fixes #{GAP}12, GH-{GAP}12"),
        ("[x](y) [x][y] [x]: y ![x](y)", f"[x]{GAP}(y) [x]{GAP}[y] [x]{GAP}: y !{GAP}[x]{GAP}(y)"),
        ("https://x www.x.y <https://x>", f"https:{GAP}//x www{GAP}.x.y <{GAP}https:{GAP}//x>"),
        (f"{MARKER} <script> <DETAILS open> </b>", f"<{GAP}!-- gpu-ci plan --> <{GAP}script> <{GAP}DETAILS open> <{GAP}/b>"),
        ("a\u202eb\x00c\r\nd", "a\ufffdb\ufffdc\nd"),
        ("<details><summary>x</summary>\n\na<br>b\n\n</details>", "<details><summary>x</summary>\n\na<br>b\n\n</details>"),
    ],
)
def test_what_is_live_is_made_tame(text, tame):
    assert SCRIPT_MODULE.neutral(text) == tame


def test_our_own_plan_reads_the_same_afterwards():
    text = markdown(staging(), Base(TEXT, staging()))
    assert SCRIPT_MODULE.neutral(text).replace(GAP, "") == "\n".join(text.splitlines()).replace(GAP, "")
    assert "Policies: " in SCRIPT_MODULE.neutral(text)


def test_a_long_text_is_cut_at_a_line_and_says_so(run, github):
    github.content = plan_artifact("a line\n" * 20_000)
    assert run().status == 0
    body = github.comments[0]["body"]
    assert len(body) < 65_536
    assert body.splitlines()[3].endswith("It is cut here; the run's summary shows all of it.")
    assert body.endswith("a line\n")


@pytest.mark.parametrize("opening", ["<details>\n\n", "```diff\n", "  ~~~\n", "````diff\n```\n<details>\n"])
def test_a_text_that_is_cut_leaves_no_fold_and_no_code_open(opening):
    assert SCRIPT_MODULE.cut("head\n" + opening + "-a\n" * 30_000) == "head\n"


def test_a_text_that_is_cut_keeps_which_jobs_end(tmp_path):
    gone = plan_of(write(tmp_path, ("    usw2:\n", "    usw3:\n")))
    shown = markdown(gone, base()).replace("### What changes", "x" * SCRIPT_MODULE.MOST_CHARACTERS)
    kept = SCRIPT_MODULE.cut(SCRIPT_MODULE.neutral(shown))
    assert "### ⚠️ `pulumi up` ends running jobs\n\n- usw2: removal of cluster usw2 deletes cluster usw2" in kept


def test_a_long_text_of_one_line_is_cut_within_it():
    assert SCRIPT_MODULE.cut("a" * 70_000).strip() == "a" * SCRIPT_MODULE.MOST_CHARACTERS


def test_the_script_runs_by_itself_as_the_workflow_calls_it(github, tmp_path):
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event()))
    done = subprocess.run(
        [sys.executable, "-I", str(SCRIPT)],
        env={
            "GITHUB_API_URL": github.url,
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_TOKEN": TOKEN,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"created a comment at #{NUMBER}\n", "")


def test_the_script_needs_the_standard_library_alone():
    import ast

    tree = ast.parse(SCRIPT.read_text())
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in named} <= sys.stdlib_module_names
    assert Path(SCRIPT).read_text().startswith('"""'), "a program says what it is"
