"""The directory that is published starts by itself and says what the pack in the repository says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.facts.errors import InputError
from gpu_ci.cli import app
from gpu_ci.offline.pack import write_pack
from policies.rules import RULES
from tests.builders import ROOT
from tests.policies import fixtures
from tests.policies.harness import POLICIES, started

STAGING = json.loads((POLICIES / "config" / "staging.json").read_text())


def test_the_directory_alone_starts_and_says_the_same(tmp_path: Path) -> None:
    write_pack(tmp_path / "alone" / "pack")
    said = []
    for folder, log in ((tmp_path / "alone" / "pack", "alone.log"), (POLICIES, "repository.log")):
        with started(folder, tmp_path / log) as pack:
            pack.configure(STAGING)
            names = [rule.id for rule in RULES]
            assert [each.name for each in pack.info().policies] == [*names, "types-judged"]
            said.append([pack.analyze(token, props) for token, props in fixtures.BAD])
    assert said[0] == said[1]
    assert all(said[0]), "each bad fixture breaks something"


def test_nothing_of_the_project_outside_of_the_directory_is_read(tmp_path: Path) -> None:
    files = write_pack(tmp_path / "pack")
    names = {str(path.relative_to(tmp_path / "pack")) for path in files}
    assert {
        "PulumiPolicy.yaml",
        "__main__.py",
        "requirements.txt",
        "fleet/facts/data/instances.csv",
        "fleet/facts/data/prices.csv",
    } <= names
    facts = {str(path.relative_to(ROOT)) for path in (ROOT / "fleet" / "facts").glob("*.py")}
    assert {name for name in names if name.startswith("fleet/") and name.endswith(".py")} == facts | {"fleet/__init__.py"}
    assert {f"config/{path.name}" for path in (POLICIES / "config").glob("*.json")} <= names
    settings = (tmp_path / "pack" / "PulumiPolicy.yaml").read_text()
    assert ".." not in settings, "it has no project beside it"
    assert "virtualenv" not in settings, "what is published would have to hold it"
    assert "__pycache__/" in (tmp_path / "pack" / ".gitignore").read_text().splitlines(), "publishing runs the pack first"
    assert re.search(r"^version: \d+\.\d+\.\d+$", settings, re.M), "what is published has a version"


def test_a_second_run_replaces_the_first_whole(tmp_path: Path) -> None:
    out = tmp_path / "pack"
    first = write_pack(out)
    (out / "rules" / "old.py").write_text("stale")
    assert write_pack(out) == first
    assert not (out / "rules" / "old.py").exists()


@pytest.mark.parametrize("held", ["a file", "a folder with something else"])
def test_what_something_else_filled_is_left_alone(tmp_path: Path, held: str) -> None:
    out = tmp_path / "out"
    if held == "a file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "mine").write_text("mine")
    with pytest.raises(InputError, match="OUT"):
        write_pack(out)
    assert (out if held == "a file" else out / "mine").read_text() == "mine"


def test_where_an_ignore_file_above_would_empty_the_archive_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build/\n")
    with pytest.raises(InputError, match=r"OUT: .*/build/pack is below .*/\.gitignore"):
        write_pack(tmp_path / "build" / "pack")
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize("out", [POLICIES, POLICIES.parent, POLICIES.parent.parent])
def test_the_project_itself_is_never_replaced(out: Path) -> None:
    with pytest.raises(InputError, match="contains the project itself"):
        write_pack(out)
    assert (POLICIES / "rules" / "rule.py").exists()


def test_the_command_tells_how_to_publish_what_it_wrote(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["policy-pack", "--out", str(tmp_path / "my pack")])
    assert done.exit_code == 0, done.output
    *files, last = done.stdout.splitlines()
    assert all(Path(line).is_file() for line in files)
    assert last == f"publish it: pulumi -C '{tmp_path / 'my pack'}' policy publish YOUR-ORGANIZATION"
    assert CliRunner().invoke(app, ["policy-pack", "--out", str(POLICIES)]).exit_code == 2
