"""The pack as a whole: its metadata, its files, and the same verdicts from the process that the engine starts."""

from __future__ import annotations

import json
import os
import re
import select
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpu_ci.offline.judge import configure
from gpu_ci.offline.policyconfig import policy_settings
from policies.rules import RULES, AnyRule, Rule, StackRule
from policies.rules.kinds import OKE_CLUSTER
from policies.rules.rule import STACK_KINDS
from tests.cases import naming
from tests.day import AS_OF
from tests.policies import fixtures
from tests.policies.cases import Case, Member, StackCase
from tests.policies.harness import (
    POLICIES,
    UNKNOWN,
    Diagnostic,
    Pack,
    Verdict,
    at,
    changed,
    judge,
    judge_stack,
    paths,
    secret,
    started,
)
from tests.policies.served import served
from tests.policies.suite import decided, few, suite_of
from tests.policies.test_own_stacks import MUTATIONS, all_broken, among, said_of

LEVELS = ("disabled", "advisory", "remediate", "mandatory")
"""From the weakest to the strictest."""
STAGING = json.loads((POLICIES / "config" / "staging.json").read_text())
FILES = sorted((POLICIES / "config").glob("*.json"))


def test_ids_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_a_rule_has_its_metadata_its_file_and_a_test_beside_it() -> None:
    for rule in RULES:
        with naming(rule.id):
            assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.id)
            stem = rule.id.replace("-", "_")
            assert Path(str(sys.modules[rule.check.__module__].__file__)).stem == stem
            assert (Path(__file__).parent / f"test_{stem}.py").is_file()
            for text in (rule.title, rule.rationale, rule.fix):
                assert len(text) > 15, "people read these"
                assert text.isprintable()
            assert rule.source.startswith("https://")
            assert rule.types or rule.others
            assert tuple(rule.levels) == STACK_KINDS
            assert set(rule.levels.values()) <= set(LEVELS)
            strictest = max(map(LEVELS.index, rule.levels.values()))
            assert LEVELS.index(rule.level) == strictest, "the pack is as strict as the strictest stack"


def test_every_rule_file_is_in_the_pack() -> None:
    shared = {
        "__init__",
        "admission",
        "always",
        "chart_gpus",
        "charts",
        "clusters",
        "draft",
        "exceptions",
        "groups",
        "node_groups",
        "embedded",
        "kinds",
        "networks",
        "node_labels",
        "pod_security",
        "pods",
        "pools",
        "principals",
        "read",
        "record",
        "releases",
        "rule",
        "runner_sets",
        "userdata",
        "volumes",
    }
    files = {path.stem for path in (POLICIES / "rules").glob("*.py")} - shared
    assert files == {rule.id.replace("-", "_") for rule in RULES}


def test_every_table_of_the_data_file_is_a_rule() -> None:
    assert list(tomllib.loads((POLICIES / "rules.toml").read_text())) == [rule.id for rule in RULES], "in the order of the pages"


def test_config_defaults_fit_their_schemas() -> None:
    # All rules have the same shared properties, so those of one are enough.
    for name, schema in {
        **RULES[0].schemas,
        **{f"{rule.id}.{name}": rule.config[name] for rule in RULES for name in rule.config},
    }.items():
        with naming(name):
            jsonschema.Draft7Validator.check_schema(schema)
            jsonschema.validate(schema["default"], schema)
            assert schema["description"]


@cache
def levels(stack: str) -> dict[str, str]:
    """What each policy enforces on a stack: as the CLI reconciles its file, or without one."""
    configured = configure(RULES, policy_settings(stack, POLICIES.parent), AS_OF)
    return {each.policy.id: each.level.value for each in configured}


def test_a_stack_file_names_only_what_there_is_and_says_why_a_value_differs_from_the_default() -> None:
    rules = {rule.id: rule for rule in RULES}
    for file in FILES:
        for name, entry in json.loads(file.read_text()).items():
            with naming(f"{file.name}: {name}"):
                assert name in rules, "no such policy"
                assert isinstance(entry, dict), "an object says that the entry is a level"
                properties = {key: value for key, value in entry.items() if key != "enforcementLevel"}
                for key, value in properties.items():
                    assert key in rules[name].schemas, "no such property"
                    jsonschema.validate(value, rules[name].schemas[key])
                own = {key: value for key, value in properties.items() if key not in ("why", "exceptions")}
                if any(value != rules[name].config[key]["default"] for key, value in own.items()):
                    assert len(entry.get("why", "")) > 15, "why"


def test_a_stack_file_has_the_levels_of_one_kind_of_stack() -> None:
    kinds = [{rule.id: rule.levels[kind] for rule in RULES} for kind in STACK_KINDS]
    for file in FILES:
        assert levels(file.stem) in kinds, f"{file.name}: levels that the rules give to no kind of stack"


@pytest.mark.parametrize("kind", STACK_KINDS)
def test_a_stack_named_after_its_kind_has_the_levels_that_the_rules_give_it(kind: str) -> None:
    assert levels(kind) == {rule.id: rule.levels[kind] for rule in RULES}


def test_a_stack_without_a_file_is_held_to_the_strictest_levels() -> None:
    assert levels("no-such-stack") == {rule.id: rule.level for rule in RULES}


def test_no_module_of_the_pack_takes_a_name_of_the_standard_library() -> None:
    names = {path.stem for path in POLICIES.rglob("*.py")} | {path.name for path in POLICIES.iterdir() if path.is_dir()}
    assert not names & set(sys.stdlib_module_names), "the pack's folder comes first on sys.path"


def test_the_pack_needs_what_the_project_has_locked() -> None:
    wanted, locked = (
        {*re.findall(r"^(\S+)==(\S+) \\$", path.read_text(), re.M)}
        for path in (POLICIES / "requirements.txt", POLICIES.parent / "requirements.txt")
    )
    assert {name for name, _ in wanted} >= {"pulumi", "pulumi-policy"}
    assert wanted <= locked, "one version for both"


# -- the process -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pack]:
    with started(POLICIES, tmp_path_factory.mktemp("pack") / "stderr") as running:
        running.configure(STAGING)
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[Pack]:
    """The same server in this process: the other one is slow, and a test below shows that it says the same."""
    with served() as running:
        running.configure(STAGING)
        yield running


def test_the_pack_writes_its_port_first(pack: Pack) -> None:
    assert 0 < int(pack.first_line) < 2**16


def test_the_process_lists_the_same_policies(pack: Pack) -> None:
    info = pack.info()
    assert info.name == "gpu-ci"
    assert info.supportsConfig
    *policies, remark = info.policies
    assert remark.name == "types-judged"
    listed = [(each.name, each.description, each.displayName, each.remediation_steps, each.url) for each in policies]
    assert listed == [(rule.id, rule.rationale, rule.title, rule.fix, rule.source) for rule in RULES]


def test_a_stack_file_reaches_the_policies_with_every_default(server: Pack) -> None:
    try:
        for file in FILES:
            server.configure(json.loads(file.read_text()))
            expected = levels(file.stem)
            for rule in RULES:
                level, config = server.configured[rule.id]
                assert level == expected[rule.id], (file.name, rule.id)
                assert set(config) == set(rule.schemas), (file.name, rule.id)
                case = next(iter(suite_of(rule).violating), None)
                if level == "disabled" and isinstance(case, Case):
                    said = {diagnostic.policy for diagnostic in server.analyze(case.token, case.props)}
                    assert not {policy for policy in said if expected[policy] == "disabled"}, (file.name, rule.id)
    finally:
        server.configure(STAGING)


def corpus() -> list[tuple[str, dict[str, Any]]]:
    """Each of `every_case` once: rules have some in common."""
    return [*{f"{token} {json.dumps(props, sort_keys=True)}": (token, props) for token, props in every_case()}.values()]


def every_case() -> Iterator[tuple[str, dict[str, Any]]]:
    """A few cases of each rule; of one that breaks it also with some parts unknown or secret; types that no rule judges."""
    for rule in decided():
        for case in (*suite_of(rule).passing[:1], *suite_of(rule).violating[:2]):
            if isinstance(case, Case):
                yield case.token, json.loads(json.dumps(case.props))
        case = suite_of(rule).violating[0]
        if isinstance(case, Case):
            props = json.loads(json.dumps(case.props))
            every = [*paths(props)]
            for path, part in ((every[len(every) // 2], every[len(every) // 3]), (every[-1], every[0])) if every else ():
                yield case.token, changed(props, *path, UNKNOWN)
                yield case.token, changed(props, *part, secret(at(props, part)))
    yield "gpu-ci:index:GpuNodeGroup", {"taints": []}
    yield "pulumi:pulumi:Stack", {}


CANNOT = (
    "can't run policy '{}' from policy pack 'gpu-ci@v0.0.1' during preview: string value at .{} can't be known during preview"
)


def as_told(rule: AnyRule, verdict: Verdict) -> list[Diagnostic]:
    """What the process does with a verdict at the levels of staging."""
    # What a remediation leaves wrong is mandatory.
    level = {"remediate": "mandatory"}.get(rule.levels["staging"], rule.levels["staging"])
    found = [Diagnostic(rule.id, f"{rule.rationale}\n{message}", level, rule.severity) for message in verdict.whole]
    if verdict.unknown:
        found.append(Diagnostic(rule.id, CANNOT.format(rule.id, verdict.unknown), "advisory", "unspecified"))
    return found


def in_process(token: str, props: dict[str, Any]) -> list[Diagnostic]:
    return [
        diagnostic
        for rule in RULES
        # The process shows that the other rules report nothing.
        if isinstance(rule, Rule) and rule.levels["staging"] != "disabled" and rule.judges(token)
        for diagnostic in as_told(rule, judge(rule, token, props, STAGING_CONFIG.get(rule.id)))
    ]


STAGING_CONFIG = {
    name: {key: value for key, value in entry.items() if key != "enforcementLevel"} for name, entry in STAGING.items()
}


def test_the_process_says_what_the_rules_say_in_process(pack: Pack, server: Pack) -> None:
    seen: set[str] = set()
    for number, (token, props) in enumerate(corpus()):
        expected = in_process(token, props)
        for running in (server, pack) if number % 8 == 0 else (server,):
            assert running.analyze(token, props) == expected, f"{token} {props}"
        seen |= {each.policy for each in expected}
    wanted = {rule.id for rule in RULES if isinstance(rule, Rule) and rule.levels["staging"] != "disabled"}
    assert seen == wanted, "every rule is broken in the corpus, else it would prove nothing of that rule"


def test_the_server_says_what_a_stack_rule_says_by_itself(server: Pack) -> None:
    try:
        for rule in (rule for rule in RULES if isinstance(rule, StackRule)):
            level = rule.levels["staging"]
            server.configure({"all": "disabled", rule.id: "advisory" if level == "disabled" else level})
            for case in (*suite_of(rule).passing[:2], *few(suite_of(rule).violating)):
                assert isinstance(case, StackCase)
                if case.config:
                    continue
                verdict = judge_stack(rule, case.members)
                expected = [f"{rule.rationale}\n{message}" for message in verdict.whole]
                said = [(diagnostic.message, diagnostic.urn) for diagnostic in server.analyze_stack(case.members)]
                assert said == list(zip(expected, verdict.urns, strict=True)), rule.id
    finally:
        server.configure(STAGING)


def test_what_no_value_shows_is_an_advisory_of_the_server(server: Pack) -> None:
    rule = next(rule for rule in RULES if rule.id == "runner-namespace-isolated")
    case = suite_of(rule).passing[0]
    assert isinstance(case, StackCase)
    there = tuple(replace(each, provider={"clusterIdentifier": "sjc"}) if each.provider else each for each in case.members)
    try:
        server.configure({"all": "disabled", rule.id: "mandatory"})
        (said,) = server.analyze_stack((*there, Member(OKE_CLUSTER, "oke", {"name": "sjc"})))
    finally:
        server.configure(STAGING)
    assert said.level == "advisory", "it stops no update"
    assert said.message.endswith(
        ": nothing in the stack shows whether jobs of gpu-t4 are isolated: OKE enforces no NetworkPolicy until Calico is "
        "installed in the cluster"
    )


def test_a_preview_counts_the_resources_of_types_that_no_policy_judges(server: Pack) -> None:
    provider = {"region": "us-west-2"}
    there = [Member("aws:ec2/route:Route", name, {}, provider=provider) for name in ("a", "b")]
    others = [Member("aws:iam/role:Role", "role", {}, provider=provider), Member("example:index:Component", "own", {})]
    try:
        server.configure({"all": "disabled", "types-judged": "advisory"})
        (said,) = server.analyze_stack([*there, *others])
        assert server.analyze_stack(others) == []
    finally:
        server.configure(STAGING)
    assert said.level == "advisory"
    assert said.message.endswith("No policy judges 1 of 2 types of resources (aws:ec2/route:Route), of which the stack has 2")


def test_the_process_says_what_the_same_server_says_here_of_a_stack(pack: Pack, server: Pack) -> None:
    stack = "homelab"
    mutation = MUTATIONS["a machine of one's own without its taint"]
    recording = among(all_broken(mutation, stack), stack)
    told = []
    for running in (pack, server):
        try:
            running.configure(policy_settings(stack, POLICIES.parent))
            told.append(said_of(running, recording))
        finally:
            running.configure(STAGING)
    assert told[0] == told[1]
    assert mutation.rule in {policy for policy, *_ in told[0]}


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
