"""`gpu-ci agree`: a fleet grows by one edit of its stack file, and the command allows what that needs."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from fleet.facts.errors import InputError
from gpu_ci.cli import app
from gpu_ci.offline import words
from gpu_ci.offline.agree import agreement, replace_files, with_entries
from gpu_ci.offline.commands import agree as command
from gpu_ci.offline.init import questions
from gpu_ci.offline.init.answers import Answers
from gpu_ci.offline.init.files import prepared, write
from gpu_ci.offline.markdown import markdown
from gpu_ci.offline.policyconfig import STACKS, require_current
from gpu_ci.offline.policyvalues import why
from tests.builders import ROOT
from tests.day import AS_OF

FILE, CONFIG, PAGE = "Pulumi.acme.yaml", "policies/config/acme.json", "docs/inventory-acme.md"
POOL = "role: burst, nodes: {max: 4}}\n"
CLASS = "          scale: {max: 5}\n"
L4 = """\
        l4-spot: {instanceTypes: [g6.2xlarge, g6.4xlarge], capacity: spot, role: burst, nodes: {max: 3}}
        l4-ondemand: {instanceTypes: [g6.2xlarge], capacity: on-demand, role: fallback, nodes: {max: 1}}
      runners:
        gpu-l4:
          {pools: [l4-spot, l4-ondemand], cpu: {request: 6, limit: 8}, memory: {request: 24Gi, limit: 28Gi}, scale: {max: 6}}
"""
VPC = "      network: {vpcId: vpc-0a1b2c3d4e5f60718, privateSubnets: {"
VPC += ", ".join(f"us-west-2{zone}: subnet-0a1b2c3d4e5f6000{zone}" for zone in "abc") + "}}\n"
SCHEDULE = ', schedules: {timeZone: Etc/UTC, windows: {work: {days: [mon, tue], start: "09:00", end: "18:00", nodes: 3}}}}\n'
EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    "monitoring": (("      health: {}\n", "      health: {}\n      monitoring: {prometheus: install}\n"),),
    "scratch": ((CLASS, f"{CLASS}          scratch: 60Gi\n"),),
    "a server's URL": (("https://github.com/acme,", "https://ghe.example.net/acme,"),),
    "a URL of ghe.com": (("https://github.com/acme,", "https://acme.ghe.com/acme,"),),
    "an own VPC": (("      health: {}\n", f"      health: {{}}\n{VPC}"),),
    "a rename": (("t4-spot", "t4-burst"),),
    "a runner group": (("group: gpu}", "group: gpu-trusted}"),),
    "more nodes": ((POOL, POOL.replace("4}", "20}")), (CLASS, CLASS.replace("5}", "21}"))),
    "a schedule": ((POOL, POOL.replace("}\n", SCHEDULE)),),
    "an L4 pool": (("      runners:\n", L4),),
    "an own image": ((CLASS, f"{CLASS}          image: ghcr.io/acme/runner:1.2\n"),),
    "a warm runner": ((CLASS, CLASS.replace("max", "min: 1, max")), (POOL, POOL.replace("max", "min: 1, max"))),
}
"""The twelve wishes of a user in the second week: texts of the stack file that `init` writes, and their replacements."""
QUEUE = '[acme.gpu-limit-ceiling] # jobs\nmaxPerWorkload = 6\nmaxPerQueue = 2\nwhy = "Bob needs it."\n'
SPOT_ONLY = (("pools: [t4-spot, t4-ondemand]", "pools: [t4-spot]"), ("role: fallback", "role: release"))
WITH_VALUES = {"more nodes", "a schedule", "an L4 pool", "an own image", "a warm runner"}


@dataclass(frozen=True)
class Project:
    """The folder of a user, with a stack of init."""

    root: Path

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def edit(self, *replacements: tuple[str, str], path: str = FILE) -> None:
        """Replace texts, by hand."""
        text = self.text(path)
        for old, new in replacements:
            assert old in text, f"{path} has no {old!r} any more"
            text = text.replace(old, new)
        (self.root / path).write_text(text)

    def files(self) -> dict[str, str]:
        """Every file, without those of the program."""
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in self.root.rglob("*")
            if path.is_file() and not path.is_symlink() and path.suffix != ".pyc"
        }

    @property
    def values(self) -> dict[str, Any]:
        return dict(tomllib.loads(self.text(STACKS))["acme"])


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a new stack of kind staging, and others of the project."""
    root = tmp_path_factory.mktemp("new")
    (root / "policies/config").mkdir(parents=True)
    (root / STACKS).write_text('# Ours.\n\n[other]\nkind = "prod" # strict\n')
    answers = Answers("acme", "eks", "us-west-2", "T4", "https://github.com/acme", ("tests", "release"), "staging")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpu_ci.offline.init.files.stacks_text", lambda _: (root / STACKS).read_text())
        write(prepared(answers, None, ROOT, AS_OF), root)
    (root / "docs").mkdir()
    (root / PAGE).write_text("of yesterday\n")
    return Project(root).files()


@pytest.fixture
def project(tmp_path: Path, shipped: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Project:
    for path, text in shipped.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for program in ("Pulumi.yaml", "__main__.py"):
        (tmp_path / program).symlink_to(ROOT / program)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    return Project(tmp_path)


def agree(*words: str) -> Any:
    return CliRunner().invoke(app, ["agree", "acme", *words])


# -- growth --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wish", EDITS)
def test_a_fleet_grows_by_one_edit_of_one_file(wish: str, project: Project) -> None:
    project.edit(*EDITS[wish])
    before = project.files()
    done = agree("--yes")
    assert done.exit_code == 0, done.output
    assert "\nOK · " in f"\n{done.stdout}"
    changed = {path for path, text in project.files().items() if text != before.get(path)}
    assert changed == {PAGE, *({STACKS, CONFIG} if wish in WITH_VALUES else ())}, done.output
    assert project.text(STACKS).startswith('# Ours.\n\n[other]\nkind = "prod" # strict\n')
    require_current("acme", project.root)
    for path in changed - {PAGE}:
        assert path in done.stdout


def test_a_plan_that_lacks_values_names_the_command_and_the_policies(project: Project) -> None:
    project.edit(*EDITS["more nodes"], *SPOT_ONLY)
    plan = agreement("acme", project.root, None, AS_OF).before
    line = (
        "make agree STACK=acme proposes values that admit this fleet, of: "
        "gpu-limit-ceiling, gpu-pool-max-size, stack-gpu-ceiling, stack-cost-ceiling"
    )
    assert words.agreeing(plan) == [line], "spot-with-fallback has no value that a program may choose"
    assert f"\n- {line}\n" in markdown(plan)


def test_a_price_that_rose_with_a_day_is_agreed_to(project: Project) -> None:
    late = "2027-11-27"  # the control plane has extended support
    refused = CliRunner().invoke(app, ["agree", "acme", "--as-of", late])
    assert "idleUsdPerHour = 1.1\n" in refused.stdout, refused.output
    assert (
        agree("--yes", "--as-of", late).stdout.partition("Wrote ")[2].partition("\n")[2].startswith("OK · idle 630 USD a month")
    )


def test_the_reason_of_a_bound_has_the_amount_that_the_plan_shows(project: Project) -> None:
    project.edit(*EDITS["more nodes"])
    agreed = agreement("acme", project.root, None, AS_OF)
    shown = str(agreed.after.cost[1]).removeprefix("≤")
    assert f"The worst hour costs {shown} USD" in agreed.diff


def test_the_wishes_are_those_of_the_finding() -> None:
    assert (len(EDITS), len(WITH_VALUES)) == (12, 5)


def test_a_second_run_has_nothing_to_agree(project: Project) -> None:
    project.edit(*EDITS["more nodes"])
    assert agree("--yes").exit_code == 0
    after = project.files()
    done = agree()
    assert (done.exit_code, project.files()) == (0, after)
    assert done.stdout.startswith("Nothing to agree: no policy value refuses the fleet.\nOK · ")


def test_the_change_is_printed_with_reasons_and_price_and_that_is_what_is_written(project: Project) -> None:
    project.edit(*EDITS["more nodes"])
    before = project.text(STACKS)
    done = agree("--yes")
    for line in (
        "-maxGpusPerPool = 5",
        '-why = "maxGpusPerPool: The largest pool, usw2/t4-spot, has 4 GPUs, and 25 % more are headroom."',
        "+maxGpusPerPool = 25",
        '+why = "maxGpusPerPool: The largest pool, usw2/t4-spot, has 20 GPUs, and 25 % more are headroom."',
    ):
        assert f"\n{line}\n" in done.stdout
    assert "The fleet costs 0.363 USD an hour without jobs (265 a month), ≤" in done.stdout
    assert "Its limits, USD an hour: idle 0.50, worst 16.00 → " in done.stdout
    printed = [line[1:] for line in done.stdout.splitlines() if re.match(r"\+[^+]", line)]
    written = project.text(STACKS).splitlines()
    assert [line for line in written if line not in before.splitlines()] == printed
    assert json.loads(project.text(CONFIG))["stack-gpu-ceiling"]["maxGpus"] == 28, "22 and a quarter"


def test_without_a_terminal_it_needs_yes(project: Project) -> None:
    project.edit(*EDITS["an L4 pool"])
    before = project.files()
    done = agree()
    assert (done.exit_code, project.files()) == (2, before)
    assert "+maxGpus = 13" in done.stdout, "ten and a quarter"
    assert done.stderr.endswith("error: --yes: required without a terminal; read the change above, then add --yes\n")


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_on_a_terminal_it_asks(answer: str, status: int, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "on_terminal", lambda: True)
    project.edit(*EDITS["an own image"])
    before = project.files()
    done = CliRunner().invoke(app, ["agree", "acme"], input=answer)
    assert (done.exit_code, project.files() == before) == (status, bool(status)), done.output


def test_what_no_value_admits_is_named_and_nothing_is_written(project: Project) -> None:
    project.edit(*SPOT_ONLY, *EDITS["more nodes"])
    before = project.files()
    done = agree("--yes")
    assert (done.exit_code, project.files()) == (1, before)
    assert "mandatory spot-with-fallback: usw2-gpu-t4-chart: its runners can run in spot pool" in done.stdout
    assert "gpu-pool-max-size" not in done.stdout, "that a value admits"
    left = f"Edit {project.root}/{FILE}, or [acme.spot-with-fallback] in policies/stacks.toml (docs/policies.md)."
    assert done.stdout.endswith(f"agree has no value for this, and wrote nothing. {left}\n")


def test_spot_only_needs_the_words_of_a_person(project: Project) -> None:
    project.edit(*SPOT_ONLY)
    refused = agree("--yes")
    assert refused.exit_code == 1
    assert "write pool t4-spot and why in policies/stacks.toml: acme.spot-with-fallback.spotOnly" in refused.stdout
    consent = '[acme.spot-with-fallback]\nspotOnly = [{pool = "t4-spot", why = "Nightly jobs may wait."}]\nwhy = "See there."\n'
    (project.root / STACKS).write_text(f"{project.text(STACKS)}\n{consent}")
    assert agree().exit_code == 0
    plan = agreement("acme", project.root, None, AS_OF).after
    said = "policy spot-with-fallback: spotOnly: pool t4-spot has no fallback, so its jobs may wait while spot has no capacity"
    assert f"{said}: Nightly jobs may wait." in plan.remarks
    project.edit(("t4-spot", "t4-burst"))
    plan = agreement("acme", project.root, None, AS_OF).after
    assert not plan.passes()
    assert "policy spot-with-fallback: spotOnly: pool t4-spot is not a pool of this stack; remove it" in plan.remarks


def test_a_job_that_fits_nowhere_is_refused_too(project: Project) -> None:
    project.edit(("cpu: {request: 4, limit: 8}", "cpu: {request: 64, limit: 64}"))
    done = agree("--yes")
    assert done.exit_code == 1
    assert done.stdout.endswith(f"agree has no value for this, and wrote nothing. Edit {project.root}/{FILE}.\n")


def test_words_of_a_person_stay_with_the_values_that_stay(project: Project) -> None:
    project.edit(
        ('why = "maxGpus: Full pools have 6 GPUs, and 25 % more are headroom."', 'why = "Ann agreed. # May" # ann@'),
        ("maxGpus = 8\n", "maxGpus = 8 # six\n"),
        ("[acme.stack-cost-ceiling]", f"{QUEUE}\n[acme.stack-cost-ceiling]"),
        path=STACKS,
    )
    project.edit(*EDITS["more nodes"])
    done = agree("--yes")
    assert done.exit_code == 0, done.output
    assert '\n-why = "Ann agreed. # May" # ann@\n' in done.stdout
    assert "maxGpus = 28 # six\n" in project.text(STACKS), "a comment is a person's too"
    assert project.values["stack-gpu-ceiling"]["why"].startswith("maxGpus: Full pools have 22 GPUs")
    assert project.values["gpu-limit-ceiling"] == {
        "maxPerWorkload": 27,
        "maxPerQueue": 2,
        "why": "maxPerWorkload: All runners of the largest set take 21 GPUs, and 25 % more are headroom. "
        "maxPerQueue: Bob needs it.",
    }
    assert "[acme.gpu-limit-ceiling] # jobs\n" in project.text(STACKS)


def test_registries_and_types_are_added_to_the_lists(project: Project) -> None:
    project.edit(*EDITS["an own image"])
    project.edit(("instanceTypes: [g4dn.2xlarge, g4dn.4xlarge]", "instanceTypes: [g4dn.8xlarge, g4dn.16xlarge]"))
    agreed = agreement("acme", project.root, None, AS_OF)
    values = tomllib.loads(agreed.files[STACKS][1])["acme"]
    assert values["images-pinned"]["extraRegistries"] == ["ghcr.io/acme/runner"]
    assert values["instance-type-allowed"]["extraTypes"] == ["g4dn.8xlarge", "g4dn.16xlarge"]
    assert {*values["images-pinned"], *values["instance-type-allowed"]} == {"extraRegistries", "extraTypes", "why"}


def test_a_stack_of_a_config_that_a_person_wrote(project: Project) -> None:
    config = json.loads(project.text(CONFIG)) | {"monitoring-complete": "disabled"}
    (project.root / CONFIG).write_text(json.dumps(config, indent=2))
    (project.root / STACKS).write_text("")
    project.edit(*EDITS["more nodes"])
    done = agree("--yes")
    assert done.exit_code == 0, done.output
    assert f"--- a/{CONFIG}" in done.stdout
    after = json.loads(project.text(CONFIG))
    assert (after["stack-gpu-ceiling"]["maxGpus"], after["monitoring-complete"]) == (28, "disabled")
    assert project.text(STACKS) == ""


def test_a_stack_without_policy_values_is_refused(project: Project) -> None:
    (project.root / CONFIG).unlink()
    (project.root / STACKS).write_text("")
    done = agree("--yes")
    assert done.exit_code == 2
    assert (
        f"error: {STACKS}: has no [acme], and there is no {CONFIG}; write the header [acme] with the stack's kind" in done.stderr
    )


def test_a_stack_file_of_another_name(project: Project) -> None:
    project.edit(*EDITS["more nodes"])
    (project.root / FILE).rename(project.root / "mine.yaml")
    done = agree("--yes", "--file", str(project.root / "mine.yaml"))
    assert done.exit_code == 0, done.output
    assert project.values["stack-gpu-ceiling"]["maxGpus"] == 28
    assert project.text(PAGE) == "of yesterday\n", "the page is that of Pulumi.acme.yaml"


def test_values_that_a_person_set_reach_the_config_too(project: Project) -> None:
    project.edit(("maxGpus = 8", "maxGpus = 9"), path=STACKS)
    assert agree().exit_code == 0
    assert json.loads(project.text(CONFIG))["stack-gpu-ceiling"]["maxGpus"] == 9


def test_files_are_written_all_or_none(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    before = project.files()
    replace = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target.name == "acme.json":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    files = {STACKS: (before[STACKS], "new"), "new.txt": ("", "new"), CONFIG: (before[CONFIG], "new")}
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing)
        with pytest.raises(InputError, match="No space left"):
            replace_files(files, project.root)
    assert project.files() == before
    with pytest.raises(InputError, match="changed since it was read; run the command again"):
        replace_files({CONFIG: (before[CONFIG], "new"), STACKS: ("older", "new")}, project.root)
    assert project.files() == before
    replace_files(files, project.root)
    assert {project.text(path) for path in files} == {"new"}


def test_a_new_file_never_replaces_one_that_appears_meanwhile(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    before, write = project.files(), Path.write_text

    def late(self: Path, text: str, **options: str) -> int:
        if self.name.startswith("new.txt."):
            write(project.root / "new.txt", "mine")
        return write(self, text, **options)

    monkeypatch.setattr(Path, "write_text", late)
    with pytest.raises(InputError, match="cannot be written"):
        replace_files({STACKS: (before[STACKS], "new"), "new.txt": ("", "new")}, project.root)
    assert project.text("new.txt") == "mine"
    assert project.text(STACKS) == before[STACKS]


# -- tables and reasons --------------------------------------------------------------------------------------------------

TABLES = """\
[a]
kind = "dev" # k

[a.p]
number = 4 # four
list = [
  "x", # one
  "y",
]
why = "Two # nodes."

[[a.p.exceptions]]
urn = "x"

# Of b.
[b]
kind = "dev"
"""


def test_a_table_keeps_everything_but_its_values() -> None:
    entries: dict[str, dict[str, Any]] = {"p": {"number": 5, "list": ["z", "x", "y"], "new": 2, "why": "So."}, "q": {"number": 1}}
    assert with_entries(TABLES, "a", entries) == (
        TABLES.replace("= 4", "= 5")
        .replace('  "x"', '  "z",\n  "x"')
        .replace('why = "Two # nodes."', 'new = 2\nwhy = "So."')
        .replace("# Of b", "[a.q]\nnumber = 1\n\n# Of b")
    )


def test_line_ends_stay_as_they_are() -> None:
    entries = {"p": {"number": 5}, "q": {"number": 1}}
    windows = with_entries(TABLES.replace("\n", "\r\n"), "a", entries)
    assert windows == with_entries(TABLES, "a", entries).replace("\n", "\r\n")


@pytest.mark.parametrize("form", ['a = {kind = "dev", p = {number = 4}}', '[a]\nkind = "dev"\np = {number = 4}'])
def test_a_table_without_a_header_is_refused(form: str) -> None:
    with pytest.raises(InputError, match=r"stacks.toml: a: cannot be edited in the form that it has; write \[a.p\]"):
        with_entries(f"{form}\n", "a", {"p": {"number": 5}})


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), min_size=1), st.text("#\"'\\é\n", max_size=6))
def test_any_entry_can_be_written(values: dict[str, int], words: str) -> None:
    entry: dict[str, Any] = {**values, "why": words}
    again = with_entries(with_entries(TABLES, "a", {"p": entry}), "a", {"p": entry})
    assert tomllib.loads(again)["a"]["p"] == {**tomllib.loads(TABLES)["a"]["p"], **entry}


def test_a_reason_goes_with_its_value_and_no_other_one_does() -> None:
    old = {"maxGpus": 4, "list": ["x"], "other": 2, "why": "Two nodes."}
    once = why(old, {"maxGpus": "Five GPUs."})
    assert once == "maxGpus: Five GPUs. list and other: Two nodes."
    assert why({**old, "why": once}, {"maxGpus": "Six GPUs."}) == "maxGpus: Six GPUs. list and other: Two nodes."
    twice = why({**old, "why": once}, {"other": "Three."})
    assert twice == "maxGpus: Five GPUs. list: Two nodes. other: Three."
    assert why({**old, "why": twice}, {"list": "And y."}) == ("maxGpus: Five GPUs. list: Two nodes. And y. other: Three."), (
        "x is still there"
    )
    assert why({"maxGpus": 4, "why": "Two nodes."}, {"maxGpus": "Five GPUs."}) == "maxGpus: Five GPUs."
