"""policies/stacks.toml is what people edit; policies/config/<stack>.json is written from it and is always current."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.facts.errors import InputError
from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from gpu_ci import cli
from gpu_ci.offline.commands import documents as command
from gpu_ci.offline.manifests.check import make_check
from gpu_ci.offline.plan import make_plan
from gpu_ci.offline.policyconfig import STACKS, policy_configs, require_current, settings_of, with_owners, write_policy_configs
from policies.rules import RULES
from policies.rules.rule import STACK_KINDS
from tests.builders import ROOT


def project(root: Path, text: str) -> Path:
    (root / STACKS).parent.mkdir(parents=True, exist_ok=True)
    (root / STACKS).write_text(text)
    return root


def test_every_file_is_current() -> None:
    configs = policy_configs(ROOT)
    assert configs.keys() == {f"policies/config/{path.name}" for path in (ROOT / "policies" / "config").iterdir()}
    for name, text in configs.items():
        assert (ROOT / name).read_text() == text, "run `make docs`"


@pytest.mark.parametrize("kind", STACK_KINDS)
def test_a_stack_without_tables_has_the_levels_of_its_kind(kind: str) -> None:
    found = settings_of({"kind": kind})
    assert {rule.id: found.get(rule.id, {}).get("enforcementLevel", rule.level) for rule in RULES} == {
        rule.id: rule.levels[kind] for rule in RULES
    }


def test_a_table_overrides_level_and_values_of_one_policy() -> None:
    plain = settings_of({"kind": "dev"})
    own = settings_of({"kind": "dev", "stack-gpu-ceiling": {"maxGpus": 3, "enforcementLevel": "mandatory"}})
    assert own == {**plain, "stack-gpu-ceiling": {"enforcementLevel": "mandatory", "maxGpus": 3}}
    assert settings_of({"kind": "dev", "stack-gpu-ceiling": {"maxGpus": 3}})["stack-gpu-ceiling"] == {
        "enforcementLevel": "advisory",
        "maxGpus": 3,
    }


def test_a_policy_without_owners_has_those_of_the_scopes_and_of_the_git_repositories(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.homelab.yaml"
    file.write_text(
        (ROOT / file.name).read_text().replace("https://github.com/example/gpu-ci", "git@git.example.com:infra/tree.git")
    )
    fleet = fleet_of(stackfile.load("homelab", ROOT, stack_file=file))
    entries = with_owners({"sources-allowed": "advisory"}, fleet)
    assert entries == {
        "runner-group-scoped": {"owners": ["github.com/example"]},
        "sources-allowed": {"enforcementLevel": "advisory", "owners": ["github.com/example", "git.example.com/infra"]},
    }
    listed = {"runner-group-scoped": {"owners": ["github.com/acme"]}}
    assert with_owners(listed, fleet)["runner-group-scoped"] == listed["runner-group-scoped"], "a list of the config stays"


def test_writing_leaves_the_file_of_a_stack_that_is_not_in_the_toml(tmp_path: Path) -> None:
    root = project(tmp_path, '[lab]\nkind = "prod"\n[lab.stack-gpu-ceiling]\nmaxGpus = 3\nwhy = "three GPUs are what there is"\n')
    own = root / "policies" / "config" / "mine.json"
    own.parent.mkdir()
    own.write_text('{"all": "advisory"}')
    assert write_policy_configs(root) == ("policies/config/lab.json",)
    found = json.loads((own.parent / "lab.json").read_text())
    assert found["stack-gpu-ceiling"] == {"maxGpus": 3, "why": "three GPUs are what there is"}
    assert own.read_text() == '{"all": "advisory"}'
    require_current("mine", root)
    require_current("lab", root)


def test_the_command_writes_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ROOT", project(tmp_path, '[lab]\nkind = "dev"\n'))
    done = CliRunner().invoke(cli.app, ["policy-config"])
    assert (done.exit_code, done.stdout) == (0, "policies/config/lab.json\n")
    assert json.loads((tmp_path / "policies" / "config" / "lab.json").read_text()) == settings_of({"kind": "dev"})


def test_without_the_toml_every_file_is_hand_written(tmp_path: Path) -> None:
    assert policy_configs(tmp_path) == {}
    require_current("staging", tmp_path)


@pytest.mark.parametrize("held", [None, "{}\n"], ids=["no file", "another file"])
def test_a_file_that_is_not_current_is_refused(tmp_path: Path, held: str | None) -> None:
    root = project(tmp_path, '[lab]\nkind = "dev"\n')
    if held is not None:
        (root / "policies" / "config").mkdir()
        (root / "policies" / "config" / "lab.json").write_text(held)
    wanted = (
        r"^policies/config/lab\.json:1: must be the config that policies/stacks\.toml generates for stack lab; "
        r"edit .*, then run `make docs`$"
    )
    with pytest.raises(InputError, match=wanted):
        require_current("lab", root)


def test_plan_and_check_refuse_a_file_that_is_not_current(tmp_path: Path) -> None:
    root = project(tmp_path, '[staging]\nkind = "dev"\n')
    for name in ("Pulumi.yaml", "Pulumi.staging.yaml"):
        (root / name).write_text((ROOT / name).read_text())
    (root / "policies" / "config").mkdir()
    (root / "policies" / "config" / "staging.json").write_text("{}")
    for run in (lambda: make_plan("staging", root), lambda: make_check(str(tmp_path), "staging", root)):
        with pytest.raises(
            InputError, match=r"policies/config/staging\.json:1: must be the config that policies/stacks\.toml generates"
        ):
            run()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[lab", "policies/stacks.toml: must be TOML in UTF-8, and cannot be read: "),
        (
            "[lab]\n[lab]",
            "policies/stacks.toml: must be TOML in UTF-8, and cannot be read: Cannot declare ('lab',) twice "
            "(at line 2, column 5); write the keys of both tables below one header",
        ),
        ("a = " + "[" * 100_000, "policies/stacks.toml: must be TOML in UTF-8, and cannot be read: "),
        ("[lab]\nkind = nan", "policies/stacks.toml: must be TOML in UTF-8, and cannot be read: the number nan; fix the file"),
        ("lab = 1", "policies/stacks.toml:1: lab: must be a table; got 1; write [lab] with the stack's kind"),
        (
            '\n[lab]\nkind = "moon"',
            "policies/stacks.toml:2: lab.kind: must be a kind of stack; got 'moon'; give one of: dev, staging, prod, homelab",
        ),
        ('[lab]\nkind = "Prod"', "policies/stacks.toml:1: lab.kind: must be a kind of stack; got 'Prod'; did you mean prod?"),
        (
            '[lab]\nkind = "dev"\n[lab.stack-gpu-ceilin]\na = 1',
            "policies/stacks.toml:3: lab.stack-gpu-ceilin: no policy has this name; got {'a': 1}; "
            "did you mean stack-gpu-ceiling?",
        ),
        ("[lab.stack-gpu-ceiling]", "policies/stacks.toml:1: lab.kind: must be a kind of stack; got None; give one of: "),
        (
            '[lab]\nkind = "dev"\n[lab.no-such]\na = 1',
            "policies/stacks.toml:3: lab.no-such: no policy has this name; got {'a': 1}; give one of: access-least-privilege, ",
        ),
        ('[lab]\nkind = "dev"\nall = "disabled"', "policies/stacks.toml:1: lab.all: no policy has this name; got 'disabled'; "),
        (
            '[lab]\nkind = "dev"\nscale-to-zero = "advisory"',
            "policies/stacks.toml:1: lab.scale-to-zero: must be a table; got 'advisory'; write the level as ",
        ),
        (
            '[lab]\nkind = "dev"\n\n["lab".stack-gpu-ceiling]\nmaxGpu = 3',
            "policies/stacks.toml:4: lab.stack-gpu-ceiling.maxGpu: the policy does not have this property; got 3; "
            "did you mean maxGpus?",
        ),
        (
            '[lab]\nkind="dev"\n[[lab.stack-gpu-ceiling.exceptions]]\nurn="*::a"\nreason="just a test"\nexpires = 2027-01-31',
            "policies/stacks.toml:3: lab.stack-gpu-ceiling.exceptions[0].expires: must be of type string; got datetime.date(",
        ),
        (
            '[lab]\nkind = "dev"\n[lab.stack-gpu-ceiling]\nenforcementLevel = "loud"',
            "policies/stacks.toml:3: lab.stack-gpu-ceiling: a level is one of ",
        ),
    ],
)
def test_a_wrong_toml_file_is_one_error_with_file_line_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        policy_configs(project(tmp_path, text))
    message = str(caught.value)
    assert message.startswith(said), message
    assert len(message.splitlines()) == 1


def test_a_toml_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    project(tmp_path, "")
    (tmp_path / STACKS).write_bytes(b'[lab]\nkind = "\xff"')
    with pytest.raises(InputError, match=re.escape(f"{STACKS}: must be TOML in UTF-8, and cannot be read: ")):
        policy_configs(tmp_path)
