"""`gpu-ci` as one program: commands that are alike take alike options, and each command loads only what it needs."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from gpu_ci.cli import app
from tests.builders import ROOT

NO_STACK = (
    "audit",
    "probe",
    "policies",
    "policy-config",
    "policy-pack",
    "schema",
    "settings",
    "image build",
    "image test",
    "init",
)
"""Commands that read no stack: `init` takes the name of a new one, `audit` a folder of anybody."""
JOBS = "submit "
"""Its commands take a Job or the command of one, so the stack is an option there."""


def commands(group: Any = None, above: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its whole name."""
    top: Any = group or typer.main.get_command(app)
    for name, command in top.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


COMMANDS = dict(commands())


def options(command: Any) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Every spelling of an option, with what one has to know to write it."""
    for parameter in command.params:
        if parameter.param_type_name == "option":
            for word in parameter.opts:
                yield (
                    word,
                    (parameter.help, str(parameter.bare_type()), parameter.is_flag, parameter.multiple, tuple(parameter.opts)),
                )


def unlike(found: dict[str, Any]) -> list[str]:
    """Options that two commands spell alike and mean differently."""
    meanings: dict[str, dict[tuple[object, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, command in found.items():
        for word, meaning in options(command):
            meanings[word][meaning].append(name)
    return [f"{word}: {list(by.values())}" for word, by in meanings.items() if len(by) > 1]


def test_an_option_means_the_same_in_every_command():
    assert len(COMMANDS) > 25
    assert unlike(COMMANDS) == []


def test_an_option_of_another_meaning_is_found():
    other = typer.Typer()
    other.command("one")(lambda: None)

    @other.command("two")
    def two(file: int = typer.Option(0, "--file")) -> None:
        pass

    assert unlike(COMMANDS | dict(commands(typer.main.get_command(other)))) != []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in NO_STACK and not name.startswith(JOBS)])
def test_a_command_of_a_stack_takes_it_first_and_without_an_option(name):
    command = COMMANDS[name]
    assert "--stack" not in [word for word, _ in options(command)]
    first = next(parameter for parameter in command.params if parameter.param_type_name == "argument")
    assert first.name in ("stack", "stacks")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.startswith(JOBS)])
def test_a_command_of_a_job_takes_no_stack_as_an_argument(name):
    assert "stack" not in [parameter.name for parameter in COMMANDS[name].params if parameter.param_type_name == "argument"]


def run(program: str, *words: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of Python that runs a program, with these words as its arguments."""
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=100
    )


def loaded(*words: str) -> set[str]:
    """Modules of a process that runs `gpu-ci` with these words."""
    program = (
        "import atexit, sys; from gpu_ci.__main__ import main\n"
        "atexit.register(lambda: print(sorted(sys.modules), file=sys.stderr)); main()"
    )
    done = run(program, *words)
    assert done.returncode == 0, done.stderr
    return set(ast.literal_eval(done.stderr.splitlines()[-1]))


def test_a_command_loads_no_other_command():
    names = loaded("image", "matrix", "staging")
    assert "images.image" in names
    assert not {"pulumi", "kubernetes", "gpu_ci.offline.plan", "gpu_ci.submit.cli", "gpu_ci.acceptance.cli"} & names
    names = loaded("submit", "print", "--task-id", "a", "--image", "a:1")
    assert not {"pulumi", "kubernetes", "gpu_ci.offline.plan", "gpu_ci.image"} & names


# -- without Pulumi's SDK ------------------------------------------------------------------------------------------------

WITHOUT = """
import json, os, sys, tempfile
for name in ("pulumi", "pulumi_policy", "pulumi_aws", "pulumi_kubernetes", "google", "grpc"):
    sys.modules[name] = None
import gpu_ci.__main__, gpu_ci.offline.commands.plan
ended = []
for words in json.loads(sys.argv[1]):
    files = [tempfile.TemporaryFile("w+") for _ in range(2)]
    pid = os.fork()
    if not pid:
        for number, file in zip((1, 2), files):
            os.dup2(file.fileno(), number)
        sys.argv = ["gpu-ci", *words]
        gpu_ci.__main__.main()
        sys.exit()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for file in files:
        file.seek(0)
    ended.append([status, *(file.read() for file in files)])
print(json.dumps(ended))
"""
"""`gpu-ci` where no import of the extra `pulumi` succeeds: each command in a fork of one process, which loads the program."""
INSTALL = "resources and policies not judged: install gpu-ci[pulumi]"


def without(*commands: tuple[str, ...], folder: Path = ROOT, **environment: str) -> list[tuple[int, str, str]]:
    """The status, stdout and stderr of each of these commands of `gpu-ci` without the SDK."""
    done = run(WITHOUT, json.dumps(commands), folder=folder, **environment)
    assert done.returncode == 0, done.stderr
    return [(status, stdout, stderr) for status, stdout, stderr in json.loads(done.stdout)]


def test_a_plan_without_the_sdk_says_in_each_form_what_it_did_not_judge():
    """It has placement and bill, and is clean in no format."""
    plan = ("plan", "homelab")
    shown, as_json, as_markdown = without(plan, (*plan, "--json"), (*plan, "--markdown"))
    status, stdout, stderr = shown
    assert status == 0, stderr
    first = stdout.splitlines()[1]
    assert first.startswith("PLACED · idle ")
    assert first.endswith(INSTALL)
    assert "OK" not in stdout.split()
    assert all(f"\n{heading}" in stdout for heading in ("Placement", "Price"))
    plan = json.loads(as_json[1])
    assert (plan["clean"], plan["judged"], plan["result"]) == (False, False, "placed")
    head = as_markdown[1].splitlines()
    assert head[0] == "## ❔ `homelab`: the placement holds"
    assert INSTALL in head[2]


def test_a_command_without_the_sdk_fails_for_what_has_no_place_and_says_what_to_install(tmp_path):
    text = (ROOT / "Pulumi.homelab.yaml").read_text()
    path = tmp_path / "Pulumi.homelab.yaml"
    path.write_text(text.replace("memory: 128Gi", "memory: 8Gi"))
    assert path.read_text() != text
    needing = (("render", "staging", "--out", "build/none"), ("check", "staging", "homelab"))
    (status, stdout, stderr), *refused = without(("plan", "homelab", "--file", str(path)), *needing)
    assert status == 1, stdout + stderr
    assert stdout.splitlines()[1].startswith("FAILED: ")
    for words, ended in zip(needing, refused, strict=True):
        said = f"error: {words[0]}: needs the resources of a stack, and Pulumi's SDK records them; install gpu-ci[pulumi]\n"
        assert ended == (2, "", said)


# -- from a wheel, and in a bare clone -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A folder like an environment's, with the built wheel in it."""
    folder: Path = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("gpu_ci-*-py3-none-any.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


ENTRY = "from gpu_ci.__main__ import main; main()"
"""What the script of `[project.scripts]` does."""


def test_the_wheel_has_one_import_name(wheel):
    assert {path.name.partition("-")[0] for path in wheel.iterdir()} == {"gpu_ci"}
    script = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["gpu-ci"]
    assert script == "gpu_ci.__main__:main"


def test_a_wheel_makes_and_plans_a_stack_in_an_empty_folder(wheel, tmp_path):
    given = ("--provider", "eks", "--region", "us-west-2", "--gpu", "T4", "--organization", "acme", "--jobs", "tests")
    done = run(ENTRY, "init", "acme", *given, folder=tmp_path, PYTHONPATH=str(wheel))
    assert done.returncode == 0, done.stderr
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == [
        "Pulumi.acme.yaml",
        "policies/config/acme.json",
        "policies/stacks.toml",
    ]
    done = run(ENTRY, "plan", "acme", folder=tmp_path, PYTHONPATH=str(wheel))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split(" ")[0] == "OK", done.stdout
    (status, stdout, stderr), other = without(("plan", "acme"), ("plan", "staging"), folder=tmp_path, PYTHONPATH=str(wheel))
    assert status == 0, stderr
    assert stdout.splitlines()[1].split(" ")[0] == "PLACED", stdout
    assert other[0] == 2, "the stacks of the wheel's source are not those of the folder"


BARE = """
import json, os, sys
import pulumi
from pulumi.runtime import mocks

class Mocks(mocks.Mocks):
    def new_resource(self, args):
        kinds.append(args.typ)
        return args.resource_id or f"{args.name}-id", args.inputs
    def call(self, args):
        return {}

kinds = []
sys.path.insert(0, os.getcwd())
from fleet.loading.stackfile import load, with_stand_ins
config = with_stand_ins(load("staging", __import__("pathlib").Path.cwd()), ["gpu-ci:githubPrivateKey"])
mocks.set_mocks(Mocks(), project=config.project, stack="staging", preview=True)
pulumi.runtime.set_all_config(dict(config.values), sorted(config.secret_keys))
import runpy

@pulumi.runtime.test
def program():
    runpy.run_path("__main__.py", run_name="__main__")

program()
print(json.dumps(kinds))
"""


def test_the_program_runs_in_a_clone_without_gpu_ci(tmp_path):
    """After `pip install -r requirements.txt` alone: it imports no program, and no package that only another lock has."""
    for name in ("__main__.py", "Pulumi.yaml", "Pulumi.staging.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("fleet", "components"):
        # With the compiled files, which are valid for a copy that keeps the times. Another process may still write some.
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    done = run(BARE, folder=tmp_path, PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    assert "aws:eks/nodeGroup:NodeGroup" in json.loads(done.stdout.splitlines()[-1])


def test_the_root_has_at_most_30_entries():
    listed = subprocess.run([shutil.which("git") or "git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("a release has no git checkout")
    entries = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert 0 < len(entries) <= 30, sorted(entries)
