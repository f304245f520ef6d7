"""The Makefile passes its variables to the command unchanged, and runs nothing in them. A fake Python prints its arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.builders import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

NASTY = [
    "a b",
    "$(touch pwned)",
    "`touch pwned`",
    "a; touch pwned",
    "a'b",
    'a"b',
    "$HOME",
    "-v",
    "*",
    "$(shell touch pwned)",
    "a\\b",
]
OURS = (
    "STACK",
    "OUT",
    "FILE",
    "BASE",
    "CLUSTER",
    "POOL",
    "CONTEXT",
    "CHECK",
    "BUDGET_USD",
    "DIR",
    "REPOSITORY",
    "CUDA",
    "UBUNTU",
    "FLAVOUR",
    "ARGS",
)
MADE = ("made", "run", "dev", "doctor")
MAKES_OWN = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES", *OURS)


@pytest.fixture
def make(tmp_path):
    """Runs make on our Makefile, everything set up; gives the words that Python was called with."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (
        "requirements.txt",
        ".ci/install.py",
        ".ci/requirements/dev.txt",
        ".ci/requirements/doctor.txt",
        *(f".venv/{each}" for each in MADE),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    python.chmod(0o755)
    shutil.copy(python, python.parent / "gpu-ci")

    def run(*words: str, **environment: str) -> list[str]:
        clean = {name: value for name, value in os.environ.items() if name not in MAKES_OWN}
        command = ["make", "--silent", *words]
        done = subprocess.run(command, cwd=tmp_path, env=clean | environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert not list(tmp_path.rglob("pwned")), "make or the shell ran what was only a name"
        return done.stdout.split("\0")[:-1]

    return run


SYSTEM_PYTHON = """#!/bin/sh
echo "made by $*" >> log
mkdir -p .venv/bin
printf '#!/bin/sh\\necho "$*" >> log\\n[ ! -e fails ]\\n' > .venv/bin/python
chmod +x .venv/bin/python
cp .venv/bin/python .venv/bin/gpu-ci
"""


def test_the_first_run_installs_and_the_second_does_not(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    locks = [tmp_path / name for name in ("requirements.txt", ".ci/requirements/dev.txt", ".ci/requirements/doctor.txt")]
    for path in (*locks, tmp_path / ".ci" / "install.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    python = tmp_path / "python"
    python.write_text(SYSTEM_PYTHON)
    python.chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if name not in MAKES_OWN}

    def calls(target: str, status: int = 0) -> list[str]:
        command = ["make", "PYTHON=./python", target]
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) == bool(status), done.stderr
        assert "Installing" not in done.stdout, "stdout is for what a command prints: a plan as JSON, for one"
        log = tmp_path / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.write_text("")
        return lines

    made, run, dev = "made by -m venv .venv", ".ci/install.py requirements.txt", ".ci/install.py .ci/requirements/dev.txt"
    plan = "plan -- staging"
    assert calls("plan") == [made, run, plan]
    assert calls("plan") == [plan]
    assert calls("doctor") == [".ci/install.py .ci/requirements/doctor.txt", "doctor -- staging"]
    assert calls("doctor") == ["doctor -- staging"]
    assert calls(".venv/dev") == [dev]
    assert calls(".venv/dev") == []
    later = locks[0].stat().st_mtime + 60
    os.utime(locks[0], (later, later))
    (tmp_path / "fails").touch()
    assert calls("plan", status=2) == [run], "a changed lock is installed"
    (tmp_path / "fails").unlink()
    assert calls("plan") == [run, plan], "what failed or was interrupted is done again"


def test_the_image_targets(make):
    row = ["--cuda", "12.1", "--ubuntu", "22.04", "--flavour", "devel"]
    assert make("image") == ["image", "build", *row]
    assert make("image-test", "ARGS=--on-gpu") == ["image", "test", *row, "--on-gpu"]
    pushed = ["image", "push", "--cuda", "a b", *row[2:], "--run", "--", "-v"]
    assert make("image-push", "CUDA=a b", "STACK=-v", "ARGS=--run") == pushed


@pytest.mark.parametrize("target", ["add", "remove"])
def test_what_grows_is_a_kind_and_a_name(make, target):
    words = make(target, "STACK=a b", "FILE=-v", "ARGS=pool l4 --gpu 'RTX A6000'")
    assert words == [target, "pool", "--file", "-v", "--gpu", "RTX A6000", "--", "a b", "l4"]
    assert make(target) == [target, "", "--", "staging", ""], "it says what is missing"


def test_the_defaults(make):
    assert make("plan") == ["plan", "--", "staging"]
    assert make("render") == ["render", "--out", "build/staging", "--", "staging"]
    assert make("render", "CHECK=1") == ["render", "--out", "build/staging", "--check", "--", "staging"]
    assert make("check", "DIR=deploy") == ["check", "--", "staging", "deploy"]
    assert make("check") == ["check", "--", "staging", ""], "it says what is missing"
    assert make("smoke") == ["smoke", "--", "staging"]
    assert make("doctor", "ARGS=--json") == ["doctor", "--json", "--", "staging"]
    assert make("acceptance") == ["accept", "--budget-usd", "", "--", "staging"], "it says what is missing"
    assert make("render", "STACK=prod") == ["render", "--out", "build/prod", "--", "prod"]


def test_a_stack_that_is_given_as_a_target_starts_nothing(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    command = ["make", "plan", "prod"]
    clean = {name: value for name, value in os.environ.items() if name not in MAKES_OWN}
    done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'No rule to make target "prod"; nothing was done. A stack is a variable: make plan STACK=prod.' in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"], "no environment is built either"


@pytest.mark.parametrize(
    "target",
    ["plan", "render", "doctor", "check", "smoke", "acceptance", "image", "image-push", "test-code", "test-pages", "bench"],
)
def test_the_environment_sets_none_of_them(make, target):
    elsewhere = dict.fromkeys(OURS, "/elsewhere")
    words = make(target, "-o", "lint", **elsewhere)
    assert words == make(target, "-o", "lint"), (
        "the names are common ones: CI systems set OUT, FILE and BASE for ends of their own"
    )


@pytest.mark.parametrize("value", NASTY)
def test_a_value_is_one_word_and_is_not_run(make, value):
    words = make("render", f"STACK={value}", f"OUT=out/{value}", f"FILE={value}.yaml")
    assert words == ["render", "--out", f"out/{value}", "--file", f"{value}.yaml", "--", value]
    assert make("plan", f"STACK={value}", f"FILE={value}") == ["plan", "--file", value, "--", value]
    assert make("plan", f"STACK={value}", f"BASE={value}") == ["plan", "--base", value, "--", value]
    assert make("render", f"STACK={value}")[2] == f"build/{value}"
    words = make("acceptance", f"STACK={value}", f"BUDGET_USD={value}")
    assert words == ["accept", "--budget-usd", value, "--", value]
    assert make("check", f"STACK={value}", f"DIR={value}") == ["check", "--", value, value]


@pytest.mark.parametrize("value", NASTY)
def test_what_a_smoke_test_is_of_is_one_word_each(make, value):
    words = make("smoke", f"STACK={value}", f"FILE={value}", f"CONTEXT={value}", f"CLUSTER={value}", f"POOL={value}")
    assert words[1:] == ["--file", value, "--context", value, "--cluster", value, "--pool", value, "--", value]
    assert make("smoke", f"REPOSITORY={value}")[1:] == ["--repository", value, "--", "staging"]
    assert make("smoke", "CONTEXT=", "POOL=t4")[1:] == ["--pool", "t4", "--", "staging"], "no context is guessed"


def test_a_base_that_is_not_named_is_no_word(make):
    assert make("plan", "BASE=") == make("plan")
    words = make("plan", "BASE=build/base", "FILE=a.yaml", "ARGS=--markdown --annotations")
    assert words[1:] == ["--file", "a.yaml", "--base", "build/base", "--markdown", "--annotations", "--", "staging"]


def test_the_pages_of_all_stack_files_are_written(make, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (tmp_path / "schema").mkdir()
    for name in ("Pulumi.yaml", "Pulumi.one.yaml", "Pulumi.on.e-2.yaml"):
        (tmp_path / name).touch()
    assert make("docs") == ["-m", "package.reference", "settings", "--out", "docs"]
    called = {path.name: path.read_text().split("\0")[:-1] for path in docs.iterdir()}
    assert called == {
        "policies.md": ["policies"],
        "inventory-one.md": ["inventory", "--", "one"],
        "inventory-on.e-2.md": ["inventory", "--", "on.e-2"],
    }
    assert (tmp_path / "schema" / "stack.schema.json").read_text().split("\0")[:-1] == ["schema"]


def test_a_page_that_cannot_be_written_stays_as_it_was_and_fails_make(tmp_path, make):
    (tmp_path / ".venv" / "bin" / "gpu-ci").write_text('#!/bin/sh\necho half\n[ "$1" != inventory ]\n')
    docs = tmp_path / "docs"
    docs.mkdir()
    (tmp_path / "schema").mkdir()
    (tmp_path / "Pulumi.one.yaml").touch()
    (docs / "inventory-one.md").write_text("before")
    with pytest.raises(AssertionError, match="Error 1"):
        make("docs")
    assert (docs / "inventory-one.md").read_text() == "before"


def test_args_are_several_words(make):
    words = make("plan", "FILE=", "ARGS=--json --file 'a b.yaml'")
    assert words == ["plan", "--json", "--file", "a b.yaml", "--", "staging"]


UNCHECKED = {
    "policies/__main__.py": "imports its rules as the engine starts it, from its own folder, where no type checker looks",
}


def test_the_types_of_every_program_are_checked():
    files = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
    packages = {path.parent for path in ROOT.glob("*/__init__.py")} | {ROOT}
    modules = {path.relative_to(ROOT) for folder in packages for path in folder.glob("*.py") if path.name != "__init__.py"}
    assert Path("__main__.py") in modules
    unchecked = {str(path) for path in modules if not any(path.is_relative_to(name) for name in files)}
    assert unchecked == set(UNCHECKED)
