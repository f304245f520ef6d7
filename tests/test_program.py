"""`gpu-ci` as one program: commands that are alike take alike options, and each command loads only what it needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import typer

from gpu_ci.cli import app
from tests import warm
from tests.builders import ROOT
from tests.offline.order import order
from tests.package.wheel import unpacked
from tests.warm import FORKED, lend_compiled

Words = tuple[str, ...]

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
JOBS = ("submit ", "why", "worth")
"""These commands take a Job, the command of one, a run of GitHub, or an export of jobs. So the stack is an option there."""


TWO_MEANINGS = {"--jobs", "--from"}
"""A new stack names the kinds of its jobs, and a world is given jobs to run. It comes from files, and an upgrade from a version.
People would look for no other word."""


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
    return [f"{word}: {list(by.values())}" for word, by in meanings.items() if len(by) > 1 and word not in TWO_MEANINGS]


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


# -- in processes --------------------------------------------------------------------------------------------------------


def outside() -> list[str]:
    """What programs of this environment can import, and an installation of gpu-ci without extras cannot."""
    lock = (ROOT / ".ci" / "requirements" / "core.txt").read_text()
    core = set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE))
    names = packages_distributions()
    return sorted(name for name, of in names.items() if core.isdisjoint(re.sub("[-_.]+", "-", one).lower() for one in of))


FORKS = f"""
{FORKED}
import gpu_ci.__main__
first, whole, missing, core = json.loads(sys.argv[1])
ended = []
def run(words):
    def act(modules):
        sys.argv = ["gpu-ci", *words]
        try:
            gpu_ci.__main__.main()
        finally:
            json.dump(sorted(sys.modules), modules)
            modules.flush()
    ended.append(forked(act, 3))
if first:
    sys.argv = ["gpu-ci", *first]
    try:
        gpu_ci.__main__.main()
    except SystemExit as end:
        assert not end.code
else:
    # Every command loads it.
    import fleet.loading.config
for words in whole:
    run(words)
for name in missing:
    sys.modules[name] = None
import gpu_ci.offline.commands.plan
for words in core:
    run(words)
print(json.dumps(ended))
"""
"""`gpu-ci`: one command, then each of others in a fork. The last can import nothing that needs an extra, such as Pulumi's SDK."""
INSTALL = "resources and policies not judged: install gpu-ci[pulumi]"


@dataclass
class Ended:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str
    modules: str
    """JSON of the names of the modules that it had loaded."""


def arguments(first: Words, whole: Sequence[Words], core: Sequence[Words]) -> str:
    """The argument of `FORKS`."""
    return json.dumps([first, whole, outside(), core])


def results(stdout: str) -> list[Ended]:
    """What the commands did that ran in forks."""
    return [Ended(*each) for each in json.loads(stdout.splitlines()[-1])]


MATRIX = ("image", "matrix", "staging")
PRINT = ("submit", "print", "--task-id", "a", "--image", "a:1")
PLAN = ("plan", "homelab")
WORKFLOWS = ("check", "prod", ".github/workflows")
MANIFESTS = ("check", "staging", "homelab", "--json")
AUDIT = ("audit", ".github")
NEEDING = (("render", "staging", "--out", "build/none"), ("agree", "staging"))


POD = """apiVersion: v1
kind: Pod
metadata: {name: a, namespace: gpu-jobs}
spec: {containers: [{name: a, image: "a:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> dict[Words, Ended]:
    """What the commands of these tests did."""
    text = (ROOT / "Pulumi.homelab.yaml").read_text()
    path = tmp_path_factory.mktemp("small") / "Pulumi.homelab.yaml"
    path.write_text(text.replace("memory: 128Gi", "memory: 8Gi"))
    assert path.read_text() != text
    small = (*PLAN, "--file", str(path))
    (pod := path.with_name("pod.yaml")).write_text(POD)
    explain = ("explain", "staging", str(pod))
    core = (PLAN, (*PLAN, "--json"), (*PLAN, "--markdown"), small, explain, WORKFLOWS, MANIFESTS, AUDIT, *NEEDING)
    command = [sys.executable, "-c", FORKS, arguments((), (MATRIX, PRINT, MANIFESTS), core)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    names = (MATRIX, PRINT, ("whole",), *core[:3], ("small",), ("explain",), *core[5:])
    return dict(zip(names, results(ran.stdout), strict=True))


def test_a_command_loads_no_other_command(done):
    assert (done[MATRIX].status, done[PRINT].status) == (0, 0), done[MATRIX].stderr + done[PRINT].stderr
    names = set(json.loads(done[MATRIX].modules))
    assert "images.image" in names
    assert not {"pulumi", "kubernetes", "gpu_ci.offline.plan", "gpu_ci.submit.cli", "gpu_ci.acceptance.cli"} & names
    names = set(json.loads(done[PRINT].modules))
    assert "gpu_ci.submit.cli" in names
    assert not {"pulumi", "kubernetes", "urllib3", "gpu_ci.offline.plan", "gpu_ci.image"} & names


def test_the_components_of_a_cluster_load_the_parts_of_the_sdk_that_few_stacks_use_with_the_first_of_these():
    """Types in annotations would load them, and each takes as long as many policies."""
    code = "import sys, components.eks.stack; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=100
    ).stdout
    few = ("pulumi_aws.imagebuilder", "pulumi_aws.ecr", "pulumi_aws.efs", "pulumi_aws.budgets", "pulumi_kubernetes.storage.v1")
    assert "pulumi_aws.eks._inputs" in loaded.split()
    assert not {f"{name}._inputs" for name in few} & set(loaded.split())


# -- without Pulumi's SDK ------------------------------------------------------------------------------------------------


def test_a_plan_without_the_sdk_says_in_each_form_what_it_did_not_judge(done):
    """It has placement and bill, and is clean in no format."""
    shown, as_json, as_markdown = (done[*PLAN, *form] for form in ((), ("--json",), ("--markdown",)))
    assert shown.status == 0, shown.stderr
    first = shown.stdout.splitlines()[1]
    assert first.startswith("PLACED · idle ")
    assert first.endswith(INSTALL)
    assert "OK" not in shown.stdout.split()
    assert all(f"\n{heading}" in shown.stdout for heading in ("Placement", "Price"))
    plan = json.loads(as_json.stdout)
    assert (plan["clean"], plan["judged"], plan["result"]) == (False, False, "placed")
    head = as_markdown.stdout.splitlines()
    assert head[0] == "## ❔ `homelab`: the placement holds"
    assert INSTALL in head[2]


def test_a_command_without_the_sdk_fails_for_what_has_no_place_and_says_what_to_install(done):
    small = done["small",]
    assert small.status == 1, small.stdout + small.stderr
    assert small.stdout.splitlines()[1].startswith("FAILED: ")
    for words in NEEDING:
        said = f"error: {words[0]}: needs the resources of a stack, and Pulumi's SDK records them; install gpu-ci[pulumi]\n"
        assert (done[words].status, done[words].stdout, done[words].stderr) == (2, "", said)


def test_a_check_of_workflows_and_of_manifests_needs_no_sdk(done):
    checked = done[WORKFLOWS]
    assert (checked.status, checked.stderr) == (0, "")
    assert "gpu-ddp.yml:17: job ddp: runs on oracle-vm-gpu-a10-2 of sjc\n" in checked.stdout
    judged, whole = done[MANIFESTS], done["whole",]
    assert (judged.status, judged.stdout) == (whole.status, whole.stdout), "the policies say the same with and without the SDK"
    assert len(json.loads(judged.stdout)["policies"]) > 10


def test_audit_and_explain_need_no_extra(done):
    explained, audited = done["explain",], done[AUDIT]
    assert (explained.status, explained.stderr) == (1, ""), "it tolerates no taint of a GPU node"
    assert "t4-spot" in explained.stdout
    assert audited.status in (0, 1), audited.stderr
    assert "jobs" in audited.stdout


# -- from a wheel, and in a bare clone -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A folder like an environment's, with the built wheel in it."""
    site = unpacked(tmp_path_factory.mktemp("wheel"))
    lend_compiled(site / "gpu_ci", ROOT / "gpu_ci")
    lend_compiled(site / "gpu_ci" / "_tree", ROOT)
    return site


def test_the_wheel_has_one_import_name(wheel):
    assert {path.name.partition("-")[0] for path in wheel.iterdir()} == {"gpu_ci"}
    script = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["gpu-ci"]
    assert script == "gpu_ci.__main__:main"


def test_a_wheel_makes_and_plans_a_stack_in_an_empty_folder(wheel, tmp_path):
    init = ("init", "acme", "--provider", "eks", "--region", "us-west-2", "--gpu", "T4", "--organization", "acme")
    commands = arguments((*init, "--jobs", "tests"), (("plan", "acme"),), (("plan", "acme"), ("plan", "staging")))
    status, stdout, stderr = warm.run(FORKS, commands, folder=tmp_path, path=wheel)
    assert status == 0, stderr
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == [
        "Pulumi.acme.yaml",
        "policies/config/acme.json",
        "policies/stacks.toml",
    ]
    whole, placed, other = results(stdout)
    assert whole.status == 0, whole.stderr
    assert whole.stdout.splitlines()[1].split(" ")[0] == "OK", whole.stdout
    names = set(json.loads(whole.modules))
    assert "components.eks.stack" in names, "it records an EKS stack"
    assert "pulumi_oci" not in names, "it costs every plan seconds and memory"
    assert placed.status == 0, placed.stderr
    assert placed.stdout.splitlines()[1].split(" ")[0] == "PLACED", placed.stdout
    assert other.status == 2, "the stacks of the wheel's source are not those of the folder"


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
    status, stdout, stderr = warm.run(BARE, folder=tmp_path, path=tmp_path)
    assert status == 0, stderr
    assert "aws:eks/nodeGroup:NodeGroup" in json.loads(stdout.splitlines()[-1])


def test_nothing_depends_on_the_seed_of_hashes():
    """What a recording has, and Git."""
    program = "import json\nfrom tests.offline.order import order\nprint(json.dumps(order()))"
    status, stdout, stderr = warm.run(program, folder=ROOT, path=ROOT)
    assert status == 0, stderr
    assert stdout == json.dumps(order()) + "\n", "order and content are the same in every process"


def test_the_root_has_at_most_31_entries():
    listed = subprocess.run([shutil.which("git") or "git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("a release has no git checkout")
    entries = {line.split("/")[0] for line in listed.stdout.splitlines()}
    # GitHub and pre-commit look for action.yml and .pre-commit-hooks.yaml in the root alone.
    assert 0 < len(entries) <= 31, sorted(entries)
