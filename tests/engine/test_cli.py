"""The environment of the CLI in the engine tests. A script replaces the CLI."""

from __future__ import annotations

import os

import pytest

from tests.engine.cli import ROOT, Cli, add_to_config, copy_project, environment


@pytest.fixture
def cli(tmp_path):
    """Makes a CLI whose `pulumi` is a shell script of the given lines."""

    def make(lines):
        script = tmp_path / "bin" / "pulumi"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\n{lines}\n")
        script.chmod(0o755)
        given = environment(tmp_path / "home")
        return Cli(tmp_path, given | {"PATH": f"{script.parent}:{given['PATH']}"})

    return make


def test_a_command_runs_in_the_folder_with_its_input_and_keeps_the_streams_apart(cli, tmp_path):
    runner = cli('read line; echo "$1 $line in $(pwd)"; echo "  a\n  b" >&2; exit 3')
    outcome = runner("preview", given="hello\n")
    assert (outcome.status, outcome.out) == (3, f"preview hello in {tmp_path}\n")
    assert outcome.text.endswith(f"in {tmp_path} a b"), "white space is one blank"
    assert runner.at(tmp_path / "home").history == [outcome], "copies share the history"


def test_a_failure_that_must_not_be_shows_command_status_and_both_streams(cli):
    with pytest.raises(AssertionError) as caught:
        cli("echo said; echo failed >&2; exit 7").ok("up", "--yes")
    for words in ("$ pulumi up --yes", "status 7", "said", "failed"):
        assert words in str(caught.value)


def test_a_command_that_takes_too_long_is_ended_with_its_children(cli, tmp_path):
    mark, pipe = tmp_path / "child-lived-on", tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as child:
        with pytest.raises(AssertionError, match="not done after") as caught:
            cli(f"(exec >{pipe} 2>&1; sleep 60; touch {mark}) & echo begun; wait")("up", timeout=0.5)
        assert "begun" in str(caught.value), "the output so far has to be shown"
        os.set_blocking(child.fileno(), True)
        assert child.read() == "", "the pipe ends with the child"
    assert not mark.exists(), "the language host would go on using the state"


def test_the_copied_project_has_the_program_its_packs_and_this_python(tmp_path):
    folder = copy_project(tmp_path / "project")
    for name in ("__main__.py", "Pulumi.yaml", "Pulumi.staging.yaml", "policies/PulumiPolicy.yaml", ".venv/bin/python"):
        assert (folder / name).exists(), name
    for name in (".git", "tests", "build"):
        assert not (folder / name).exists(), f"{name} should not be copied"
    assert (folder / "components" / "build.py").exists(), "only the top folder's names are left out"


def test_the_environment_of_the_cli_holds_nothing_of_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "token")
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    given = environment(tmp_path / "home", "aws:1")
    assert not given.keys() & {"PULUMI_ACCESS_TOKEN", "AWS_PROFILE", "PYTHONPATH"}
    assert given["PULUMI_DEBUG_PROVIDERS"] == "aws:1"
    assert given["PULUMI_BACKEND_URL"] == f"file://{tmp_path / 'home' / 'state'}"
    assert (tmp_path / "home" / "state").is_dir(), "the file backend wants its folder to be there"


@pytest.mark.parametrize("before", ["", "encryptionsalt: v1:x\n"])
def test_lines_are_added_to_a_config_with_its_own_indentation(tmp_path, before):
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(f"{before}config:\n    # first\n    a:b: 1\n")
    add_to_config(file, "c: |\n  text\nd: 2")
    assert file.read_text() == f"{before}config:\n    c: |\n      text\n    d: 2\n    # first\n    a:b: 1\n"
