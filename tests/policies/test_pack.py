"""The pack as a whole: its metadata, its files, and the same verdicts from the process that the engine starts."""

from __future__ import annotations

import json
import os
import re
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from offline.judge import configure
from offline.policyfile import policy_settings
from policies.rules import RULES, Rule
from policies.rules.rule import STACK_KINDS
from tests.policies import fixtures
from tests.policies.harness import (
    POLICIES,
    UNKNOWN,
    Diagnostic,
    Pack,
    at,
    changed,
    judge,
    paths,
    secret,
    started,
)

LEVELS = ("advisory", "mandatory", "remediate", "disabled")
STAGING = json.loads((POLICIES / "config" / "staging.json").read_text())
EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
FILES = sorted((POLICIES / "config").glob("*.json"))


def test_ids_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


@EACH_RULE
def test_an_id_is_kebab_case_and_names_its_file(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.id)
    module = sys.modules[rule.check.__module__]
    assert Path(str(module.__file__)).stem == rule.id.replace("-", "_")


def test_every_rule_file_is_in_the_pack() -> None:
    shared = {"__init__", "rule", "read", "kinds", "labels", "pools"}
    files = {path.stem for path in (POLICIES / "rules").glob("*.py")} - shared
    assert files == {rule.id.replace("-", "_") for rule in RULES}


@EACH_RULE
def test_a_rule_has_its_metadata(rule: Rule) -> None:
    for text in (rule.title, rule.rationale, rule.fix):
        assert len(text) > 15, "people read these"
        assert text.isprintable()
    assert rule.source.startswith("https://")
    assert rule.types
    assert tuple(rule.levels) == STACK_KINDS
    assert set(rule.levels.values()) <= set(LEVELS)


@EACH_RULE
def test_a_rule_has_a_test_beside_it(rule: Rule) -> None:
    assert (Path(__file__).parent / f"test_{rule.id.replace('-', '_')}.py").is_file()


@EACH_RULE
def test_the_pack_is_as_strict_as_the_strictest_stack(rule: Rule) -> None:
    assert rule.level == "mandatory"
    assert rule.level in rule.levels.values()


@EACH_RULE
def test_config_defaults_fit_their_schemas(rule: Rule) -> None:
    for name, schema in rule.config.items():
        jsonschema.Draft7Validator.check_schema(schema)
        jsonschema.validate(schema["default"], schema)
        assert schema["description"], name


EACH_FILE = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def levels(stack: str) -> dict[str, str]:
    """What each policy enforces on a stack: as the CLI reconciles its file, or without one."""
    configured = configure(RULES, policy_settings(stack, POLICIES.parent))
    return {each.policy.name: each.level.value for each in configured}


@EACH_FILE
def test_a_stack_file_names_only_what_there_is(file: Path) -> None:
    known = {rule.id: rule for rule in RULES}
    for name, entry in json.loads(file.read_text()).items():
        assert name in known, "no such policy"
        assert isinstance(entry, dict), "an object says that the entry is a level"
        properties = {key: value for key, value in entry.items() if key != "enforcementLevel"}
        for key, value in properties.items():
            assert key in known[name].config, "no such property"
            jsonschema.validate(value, known[name].config[key])


@EACH_FILE
def test_a_stack_file_has_the_levels_of_one_kind_of_stack(file: Path) -> None:
    kinds = [kind for kind in STACK_KINDS if levels(file.stem) == {rule.id: rule.levels[kind] for rule in RULES}]
    assert kinds, "levels that the rules give to no kind of stack"


@pytest.mark.parametrize("kind", STACK_KINDS)
def test_a_stack_named_after_its_kind_has_the_levels_that_the_rules_give_it(kind: str) -> None:
    assert levels(kind) == {rule.id: rule.levels[kind] for rule in RULES}


def test_a_stack_without_a_file_is_held_to_the_strictest_levels() -> None:
    assert levels("no-such-stack") == {rule.id: rule.level for rule in RULES}


def test_prod_leaves_spot_to_its_owner_and_is_held_to_all_else() -> None:
    assert levels("prod") == {rule.id: "mandatory" for rule in RULES} | {"spot-required-nonprod": "disabled"}


def test_no_module_of_the_pack_takes_a_name_of_the_standard_library() -> None:
    names = {path.stem for path in POLICIES.rglob("*.py")} | {path.name for path in POLICIES.iterdir() if path.is_dir()}
    assert not names & set(sys.stdlib_module_names), "the pack's folder comes first on sys.path"


def test_the_pack_needs_what_the_project_has_locked() -> None:
    wanted = (POLICIES / "requirements.txt").read_text().split()
    locked = (POLICIES.parent / "requirements.txt").read_text()
    assert wanted == [
        pin for pin in re.findall(r"^(\S+==\S+)", locked, re.M) if pin.split("==")[0] in ("pulumi", "pulumi-policy")
    ]


# -- the process -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pack]:
    with started(POLICIES, tmp_path_factory.mktemp("pack") / "stderr") as running:
        running.configure(STAGING)
        yield running


def test_the_pack_writes_its_port_first(pack: Pack) -> None:
    assert 0 < int(pack.first_line) < 2**16


def test_the_process_lists_the_same_policies(pack: Pack) -> None:
    info = pack.info()
    assert info.name == "gpu-ci"
    assert info.supportsConfig
    listed = [(each.name, each.description, each.displayName, each.remediation_steps, each.url) for each in info.policies]
    assert listed == [(rule.id, rule.rationale, rule.title, rule.fix, rule.source) for rule in RULES]


@EACH_FILE
def test_a_stack_file_reaches_the_policies_with_every_default(pack: Pack, file: Path) -> None:
    wanted = levels(file.stem)
    try:
        pack.configure(json.loads(file.read_text()))
        for rule in RULES:
            level, config = pack.configured[rule.id]
            assert level == wanted[rule.id]
            assert set(config) == set(rule.config)
        said = {each.policy for token, props in fixtures.BAD for each in pack.analyze(token, props)}
        assert said == {rule.id for rule in RULES if wanted[rule.id] != "disabled"}
    finally:
        pack.configure(STAGING)


def corpus() -> Iterator[tuple[str, dict[str, Any]]]:
    """Good and bad resources; with a third of their parts unknown or secret in turn; of types that no rule judges."""
    for token, props in (*fixtures.GOOD, *fixtures.BAD):
        yield token, props
    for token, props in fixtures.BAD:
        for path in [*paths(props)][::3]:
            yield token, changed(props, *path, UNKNOWN)
            yield token, changed(props, *path, secret(at(props, path)))
    yield "gpu-ci:index:GpuNodeGroup", {"taints": []}
    yield "pulumi:pulumi:Stack", {}


def in_process(token: str, props: dict[str, Any]) -> list[Diagnostic]:
    found = []
    for rule in RULES:
        verdict = judge(rule, token, props, STAGING_CONFIG.get(rule.id))
        level, severity = rule.levels["staging"], rule.severity.value
        found += [Diagnostic(rule.id, f"{rule.rationale}\n{message}", level, severity) for message in verdict.messages]
        if verdict.unknown:
            message = (
                f"can't run policy '{rule.id}' from policy pack 'gpu-ci@v0.0.1' during preview: "
                f"string value at .{verdict.unknown} can't be known during preview"
            )
            found.append(Diagnostic(rule.id, message, "advisory", "unspecified"))
    return found


STAGING_CONFIG = {
    name: {key: value for key, value in entry.items() if key != "enforcementLevel"} for name, entry in STAGING.items()
}


def test_the_process_says_what_the_rules_say_in_process(pack: Pack) -> None:
    seen: set[tuple[str, str]] = set()
    for token, props in corpus():
        expected = in_process(token, props)
        assert pack.analyze(token, props) == expected, f"{token} {props}"
        seen |= {(each.policy, each.level) for each in expected}
    assert seen == {(rule.id, level) for rule in RULES for level in ("mandatory", "advisory")}, (
        "every rule is broken and left undetermined in the corpus, else it would prove nothing of that rule"
    )


def test_a_disabled_policy_is_silent(pack: Pack) -> None:
    token, props = fixtures.BAD[0]
    try:
        pack.configure({"all": "disabled"})
        assert pack.analyze(token, props) == []
        pack.configure({"all": "disabled", "gpu-limits-required": "advisory"})
        assert [each.level for each in pack.analyze(token, props)] == ["advisory"]
    finally:
        pack.configure(STAGING)


def test_the_pack_writes_nothing_to_stdout_but_its_port(pack: Pack) -> None:
    token, props = fixtures.BAD[0]
    assert pack.analyze(token, props)
    assert pack.process.stdout is not None
    ready, _, _ = select.select([pack.process.stdout], [], [], 0)
    assert not ready or os.read(pack.process.stdout.fileno(), 80) == b"", "the engine reads the port there and nothing else"
    assert pack.process.poll() is None, "the pack serves until it is ended"
