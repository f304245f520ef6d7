"""`.ci/plans`: every stack's plan in one comment, whatever fails. A stand-in for make says what it was asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from tests.builders import ROOT

MAKE = """#!/bin/sh
printf '%s ' "$@" >> "$ASKED"
echo >> "$ASKED"
case "$*" in
  *STACK=broken*) echo '## broken'; exit 2 ;;
  *STACK=silent*) exit 2 ;;
  *STACK=*) echo '## fine' ;;
  *) echo 'Installing' ;;
esac
"""
SHA = "0123456789abcdef0123456789abcdef01234567"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


@pytest.fixture
def plans(tmp_path):
    """Runs the script in a project of these stacks; gives its status, the comment, the other file and what make was asked."""

    def run(*stacks: str, base: tuple[str, ...] = ()):
        project = tmp_path / "project"
        (project / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "plans", project / ".ci")
        for folder, names in ((project, stacks), (project / "build" / "base", base)):
            folder.mkdir(parents=True, exist_ok=True)
            for name in names:
                (folder / f"Pulumi.{name}.yaml").touch()
        (project / "Pulumi.yaml").touch()
        make = tmp_path / "bin" / "make"
        make.parent.mkdir()
        make.write_text(MAKE)
        make.chmod(0o755)
        asked = tmp_path / "asked"
        path = f"{make.parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "ASKED": str(asked), "NUMBER": "12", "HEAD_SHA": SHA}
        done = subprocess.run(
            [str(project / ".ci" / "plans"), "build/base", "build/comment"],  # as the workflow calls it
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        out = project / "build" / "comment"
        assert {path.name for path in out.iterdir()} == {"comment.md", "pull-request.json"}
        about = json.loads((out / "pull-request.json").read_text())
        return done.returncode, (out / "comment.md").read_text(), about, asked.read_text().splitlines()

    return run


def test_every_stack_that_has_a_file_is_planned_against_the_base(plans):
    status, comment, about, asked = plans("prod", "staging", base=("prod", "staging"))
    assert (status, comment) == (0, "## fine\n\n## fine\n\n")
    assert about == {"number": 12, "headSha": SHA}
    assert [line.strip() for line in asked] == [
        "--silent .venv/run",
        "--silent plan STACK=prod BASE=build/base ARGS=--markdown --annotations",
        "--silent plan STACK=staging BASE=build/base ARGS=--markdown --annotations",
    ]


def test_a_plan_that_fails_fails_the_check_and_the_others_are_made(plans):
    status, comment, _, asked = plans("broken", "staging", base=("broken", "staging"))
    assert status == 1
    assert comment == "## broken\n\n## fine\n\n"
    assert len(asked) == 3


def test_a_plan_that_breaks_off_is_told(plans):
    status, comment, _, _ = plans("silent")
    assert status == 1
    assert comment == "## ❌ A plan failed; the log of the run shows why\n\n"


def test_a_stack_that_goes_is_told(plans):
    status, comment, _, _ = plans("staging", base=("old", "staging"))
    assert (status, comment) == (0, "## fine\n\n## ⚠️ A stack is removed: Pulumi.old.yaml\n\n")


def test_what_the_installation_says_is_not_in_the_comment(plans):
    assert "Installing" not in plans("staging")[1]
