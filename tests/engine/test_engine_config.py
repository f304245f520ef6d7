"""The CLI and fleet/loading hand a program the same configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleet.facts.errors import InputError
from fleet.loading import stackfile
from fleet.loading.stackfile import STAND_IN, StackConfig
from tests.engine.cli import STACK_FILE, Cli, add_to_config, environment, link_environment

pytestmark = pytest.mark.engine

STACK = "dev"
CLEAR = "clear-text"
DUMP = "seen.json"

PROJECT = """
name: corner
runtime: {name: python, options: {toolchain: pip, virtualenv: .venv}}
config:
  size: 3
  zones: [a, b]
  note: {description: a falsy default, default: false}
  tags: {type: object, default: {b: 1, a: on}}
  corner:kept: {type: string, default: project}
  corner:replaced: {type: string, default: project}
  other:region: us-west-2
"""

PROGRAM = f"""
import json
from pathlib import Path

import pulumi
from pulumi.runtime import config

held = {{**config.get_config_env(), **config.CONFIG.get()}}
seen = {{
    "values": {{key: pulumi.Config(key.partition(":")[0]).get(key.partition(":")[2]) for key in held}},
    "secrets": sorted(key for key in held if pulumi.runtime.is_config_secret(key)),
}}
Path(__file__).with_name("{DUMP}").write_text(json.dumps(seen))
"""

CASES = {
    "wordOn": "on",
    "wordYes": "yes",
    "wordNo": "No",
    "letter": "y",
    "lowTrue": "true",
    "loudFalse": "FALSE",
    "quotedTrue": '"true"',
    "time": "9:00",
    "longTime": "1:30:00",
    "octal": "0777",
    "newOctal": "0o17",
    "hex": "0x1F",
    "binary": "0b101",
    "underscore": "1_000",
    "noOctal": "08",
    "negative": "-7",
    "minor": "1.30",
    "quotedMinor": '"1.30"',
    "patch": "1.34.2",
    "whole": "1.0",
    "thousand": "1e3",
    "point": ".5",
    "small": "1e-7",
    "large": "1e21",
    "unsigned": "18446744073709551615",
    "account": "123456789012",
    "quotedZeros": "'0123'",
    "wordNull": "null",
    "tilde": "~",
    "empty": "",
    "quotedNull": "'null'",
    "quotedDate": '"2026-01-31"',
    "cidr": "203.0.113.0/24",
    "list": "[1, on, 9:00, 1.50, null, 0777]",
    "emptyList": "[]",
    "emptyObject": "{}",
    "object": "{b: 1, a: {z: true, y: x}, c: [1.0, {d: ~}]}",
    "quotedKeys": '{"1": one, "true": two}',
    "html": '{q: "<a href=\\"x\\">&</a>"}',
    "text": "{name: Zürich}",
    "lines": "|\n  two\n  lines",
    "folded": ">-\n  one\n  line",
    "tag": "!!str 12",
    "corner:replaced": "stack",
    "corner:config:old": "2",
    "other:name": "elsewhere",
}


@dataclass(frozen=True)
class Seen:
    """What the program got: `values` are the texts by full key, `secrets` the full keys of secrets."""

    values: Mapping[str, Any]
    secrets: tuple[str, ...]


def run(cli: Cli) -> Seen:
    """Previews the project in the CLI's folder and reads what the program saw."""
    dump = cli.folder / DUMP
    dump.unlink(missing_ok=True)
    outcome = cli("preview", "--stack", STACK, "--suppress-progress")
    assert outcome.status == 0, outcome
    assert dump.is_file(), f"the program did not run\n{outcome}"
    seen = json.loads(dump.read_text())
    return Seen(seen["values"], tuple(seen["secrets"]))


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    base = tmp_path_factory.mktemp("config")
    folder = base / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(PROJECT)
    (folder / "__main__.py").write_text(PROGRAM)
    link_environment(folder)
    cli = Cli(folder, environment(base / "home"))
    cli.ok("stack", "init", STACK, "--secrets-provider", "passphrase")
    secret = ("config", "set", "--stack", STACK, "--secret")
    cli.ok(*secret, "token", given=CLEAR)
    cli.ok(*secret, "--path", "tree.inner", given=CLEAR)
    cli.ok(*secret, "--path", "items[0]", given=CLEAR)
    add_to_config(stack_file(cli), "\n".join(f"{key}: {text}" for key, text in CASES.items()))
    return cli


def stack_file(cli: Cli) -> Path:
    return cli.folder / STACK_FILE.format(STACK)


@pytest.fixture(scope="module")
def loaded(cli: Cli) -> StackConfig:
    return stackfile.load(STACK, cli.folder)


@pytest.fixture(scope="module")
def seen(cli: Cli, loaded: StackConfig) -> Seen:
    return run(cli)


@pytest.mark.parametrize("key", CASES)
def test_a_value_is_the_same_text_from_the_cli_and_from_the_loader(loaded, seen, key):
    full = ":".join([*(["corner"] if ":" not in key else []), *key.replace(":config:", ":").split(":")])
    assert loaded.values[full] == seen.values[full], f"`{key}: {CASES[key]}`: the loader's text is not the CLI's"


def test_the_projects_defaults_are_the_same_from_both(loaded, seen):
    for key in ("size", "zones", "note", "tags", "kept"):
        full = f"corner:{key}"
        assert loaded.values[full] == seen.values[full], full
    assert loaded.values["other:region"] == seen.values["other:region"]


def test_neither_hands_over_a_key_that_the_other_does_not(loaded, seen):
    assert set(loaded.values) == set(seen.values)


def test_both_call_the_same_keys_secret_and_differ_only_in_the_clear_text(loaded, seen):
    assert set(loaded.secret_keys) == set(seen.secrets) == {"corner:token", "corner:tree", "corner:items"}
    for key in seen.secrets:
        assert CLEAR in seen.values[key], "the CLI has to decrypt it"
        assert seen.values[key].replace(CLEAR, STAND_IN) == loaded.values[key]


def test_an_unquoted_date_which_the_loader_refuses_reaches_the_program_as_something_else(cli, seen):
    whole = stack_file(cli).read_text()
    try:
        add_to_config(stack_file(cli), "when: 2026-01-31")
        with pytest.raises(InputError, match="unquoted date"):
            stackfile.load(STACK, cli.folder)
        text = run(cli).values["corner:when"]
    finally:
        stack_file(cli).write_text(whole)
    assert text != "2026-01-31", "the CLI now keeps dates as they are written: the loader need not refuse them"
