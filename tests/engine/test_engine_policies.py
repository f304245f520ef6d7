"""The policy pack on the real engine: verdicts, remedies, exceptions and publishing, against the judge in this process."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fleet.loading import stackfile
from gpu_ci.offline.judge import Configured, Remedies, configure, judge
from gpu_ci.offline.pack import write_pack
from gpu_ci.offline.record import record
from policies.rules import RULES, Rule, StackRule
from tests.day import AS_OF
from tests.engine import staging, state, suites
from tests.engine.cli import ROOT, STACK_FILE, Cli, Outcome, environment, link_environment
from tests.engine.cloud import ORGANIZATION, cloud
from tests.engine.provider import attach, providers
from tests.engine.verdicts import STREAMED, Said, expected, remediated, said

pytestmark = pytest.mark.engine

PACK = ROOT / "policies"
TAINT_RULE = "gpu-node-taint"
REMEDIED = [rule for rule in RULES if isinstance(rule, Rule) and rule.remedy is not None]
STACK_RULES = {rule.id for rule in RULES if isinstance(rule, StackRule)}


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """The CLI in an empty folder, on the day of the tests."""
    base = tmp_path_factory.mktemp("policies")
    (base / "work").mkdir()
    return Cli(base / "work", environment(base / "home") | {"GPU_CI_AS_OF": AS_OF.isoformat()})


def analyze(cli: Cli, document: Mapping[str, Any], settings: Mapping[str, Any], pack: Path = PACK) -> Outcome:
    """What the CLI says of a state file."""
    (cli.folder / "state.json").write_text(json.dumps(document))
    (cli.folder / "config.json").write_text(json.dumps(settings))
    options = ("--policy-pack", str(pack), "--policy-pack-config", "config.json", "--file", "state.json")
    return cli("policy", "analyze", "--json", *options)


# -- verdicts ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pack as it is published."""
    folder = tmp_path_factory.mktemp("published") / "pack"
    write_pack(folder)
    return folder


@pytest.mark.parametrize("where", ["repository", "published"])
def test_the_engine_says_of_every_rules_cases_what_the_judge_says(cli, where, request):
    pack = request.getfixturevalue("published") if where == "published" else PACK
    # Published, it names no environment of its own: the Python on PATH runs it.
    with_python = cli.having(PATH=f"{sys.prefix}/bin{os.pathsep}{cli.environment['PATH']}")
    cases, settings = suites.recording(RULES), suites.settings(suites.mixed_levels())
    outcome = analyze(with_python, state.document(cases), settings, pack)
    theirs = said(outcome)
    assert theirs == expected(judge(cases, configure(RULES, settings, AS_OF)), state.stack_urn(cases))
    assert outcome.status != 0, "mandatory policies are broken"
    told = {each.policy for each in theirs}
    assert told >= {rule.id for rule in RULES} - STACK_RULES, "each rule's own cases break it"
    assert told & STACK_RULES
    assert {each.level for each in theirs} == {"mandatory", "advisory"}, "what no remedy fixes is mandatory"


def judged(document: Mapping[str, Any], policies: tuple[Configured, ...]) -> list[Said]:
    """What the judge says of a state: of a resource by its inputs, of the stack by its outputs."""
    of_stack = [each for each in policies if isinstance(each.policy, StackRule)]
    alone = [each for each in policies if each not in of_stack]
    shown = state.recording(document, "inputs")
    return expected((*judge(shown, alone), *judge(state.recording(document, "outputs"), of_stack)), state.stack_urn(shown))


def test_a_deployed_state_is_judged_as_in_this_process_and_passes(update, site, tmp_path):
    outcome = of_staging(site, update.document, tmp_path)
    assert outcome.status == 0, f"the state as it was deployed has to pass\n{outcome}"
    assert said(outcome) == judged(json.loads(update.opened), staging.policies(site.cli.folder))


def test_a_state_whose_pool_has_lost_its_taints_fails_as_in_this_process(update, site, tmp_path):
    outcome = of_staging(site, untainted(update.document), tmp_path)
    assert outcome.status != 0, outcome
    theirs = said(outcome)
    assert theirs == judged(untainted(json.loads(update.opened)), staging.policies(site.cli.folder))
    (fault,) = [each for each in theirs if each.policy == TAINT_RULE]
    assert fault.level == "mandatory"
    assert "nvidia.com/gpu" in fault.message
    assert "NO_SCHEDULE" in fault.message, "the message has to say what to write"


def of_staging(site: staging.Site, document: Mapping[str, Any], folder: Path) -> Outcome:
    """What the CLI says of a state of staging, under its own config."""
    file = folder / "state.json"
    file.write_text(json.dumps(document))
    return site.cli("policy", "analyze", "--json", *staging.PACK, "--file", str(file))


def untainted(document: Mapping[str, Any]) -> dict[str, Any]:
    """The state with the taints of one node group removed."""
    changed = copy.deepcopy(dict(document))
    (pool,) = [found for found in changed["deployment"]["resources"] if found["urn"].endswith("-t4-spot-us-west-2a-nodes")]
    for side in ("inputs", "outputs"):
        assert pool[side].pop("taints"), f"{side} of {pool['urn']} had no taint"
    return changed


def test_a_first_preview_says_of_each_resource_what_the_plan_says(previewed, site, plan):
    theirs = said(previewed)
    ours = expected(judge(plan, staging.policies(site.cli.folder)), state.stack_urn(plan))
    alone = [[each for each in side if each.policy not in STACK_RULES] for side in (theirs, ours)]
    assert alone[0] == alone[1]
    # A first preview shows nothing inside a cluster, so it may miss violations. It never adds one.
    mandatory = {(each.policy, each.urn) for each in theirs if each.policy in STACK_RULES and each.level == "mandatory"}
    assert mandatory <= {(each.policy, each.urn) for each in ours}


# -- remedies and exceptions, in previews of a small program -----------------------------------------------------------


def project(folder: Path, cases: str) -> Path:
    """A project whose program registers the cases."""
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(
        f"name: {suites.PROJECT}\nruntime: {{name: python, options: {{toolchain: pip, virtualenv: .venv}}}}\n"
    )
    (folder / STACK_FILE.format(suites.STACK)).write_text("config: {}\n")
    (folder / "__main__.py").write_text(suites.PROGRAM)
    (folder / "cases.json").write_text(cases)
    link_environment(folder)
    return folder


def preview(cli: Cli, settings: Mapping[str, Any], **given: str) -> Outcome:
    """A preview's events, under the pack with these settings."""
    (cli.folder / "config.json").write_text(json.dumps(settings))
    options = ("--policy-pack", str(PACK), "--policy-pack-config", "config.json", "--suppress-progress", "--json")
    return cli.having(**STREAMED, **given)("preview", "--stack", suites.STACK, *options)


def test_the_engine_changes_what_the_offline_remedies_change(tmp_path):
    folder = project(tmp_path / "project", suites.mendable(REMEDIED))
    levels = dict.fromkeys((rule.id for rule in RULES), "advisory") | dict.fromkeys((rule.id for rule in REMEDIED), "remediate")
    # On the engine a stack policy sees the resources in no order, and these cases are not a real stack.
    settings = suites.settings(levels | dict.fromkeys(STACK_RULES, "disabled"))
    policies = configure(RULES, settings, AS_OF)
    remedies = Remedies(policies)
    plan = record(folder / "__main__.py", stackfile.load(suites.STACK, folder), remedy=remedies)
    packages = {found.type.partition(":")[0] for found in plan.resources} - {"pulumi"}
    with providers(sorted(packages)) as serving:
        cli = Cli(folder, environment(tmp_path / "home", attach(serving)) | {"GPU_CI_AS_OF": AS_OF.isoformat()})
        cli.ok("stack", "init", suites.STACK, "--secrets-provider", "passphrase")
        outcome = preview(cli, settings)
        asked = {call.urn: call.inputs for provider in serving.values() for call in provider.asked if call.method == "Create"}
    assert {rule for rule, _ in remediated(outcome)} == {rule.id for rule in REMEDIED}
    assert by_resource(remediated(outcome)) == by_resource([(done.rule, done.urn) for done in remedies.done])
    declared = {found.urn: found.inputs for found in plan.resources if found.custom and not found.type.startswith("pulumi:")}
    assert asked == declared, "the inputs that providers are given are the remediated ones"
    theirs = said(outcome)
    assert theirs == expected(judge(plan, policies), state.stack_urn(plan))
    names = {rule.id for rule in REMEDIED}
    own = [each for each in theirs if each.policy in names and each.urn.rpartition("::")[2].startswith(f"{each.policy}-")]
    assert own == [], "a rule's own cases are fixed by its remedy"


def by_resource(done: list[tuple[str, str]]) -> dict[str, list[str]]:
    """URN to the policies that changed it, in order; of resources there is no order."""
    found = defaultdict(list)
    for rule, urn in done:
        found[urn].append(rule)
    return dict(found)


def test_an_exception_holds_on_the_engine_until_the_day_it_names(tmp_path):
    (rule,) = [rule for rule in REMEDIED if rule.id == TAINT_RULE]
    folder = project(tmp_path / "project", suites.mendable([rule]))
    until = {"reason": "The pools of this test have no taints.", "expires": AS_OF.isoformat()}
    excepted = [{"urn": f"*{token}::{TAINT_RULE}-*", **until} for token in sorted(rule.types)]
    entry = suites.settings(dict.fromkeys((each.id for each in RULES), "mandatory"))[TAINT_RULE] | {"exceptions": excepted}
    settings = {"all": "disabled", TAINT_RULE: entry}
    with providers(("aws", "kubernetes", "oci")) as serving:
        cli = Cli(folder, environment(tmp_path / "home", attach(serving)))
        cli.ok("stack", "init", suites.STACK, "--secrets-provider", "passphrase")
        before = preview(cli, settings, GPU_CI_AS_OF=AS_OF.isoformat())
        after = preview(cli, settings, GPU_CI_AS_OF=AS_OF.replace(day=AS_OF.day + 1).isoformat())
    assert (before.status, said(before)) == (0, [])
    assert after.status != 0
    messages = [each.message for each in said(after)]
    assert any(f"expired on {AS_OF}" in message for message in messages)
    assert any("nvidia.com/gpu" in message for message in messages), "what it hid is reported again"


# -- publishing --------------------------------------------------------------------------------------------------------


def test_publishing_uploads_the_packs_files_and_announces_every_rule(published, cli):
    files = [path for path in published.rglob("*") if path.is_file()]
    with cloud() as (address, given):
        python = f"{sys.prefix}/bin{os.pathsep}{cli.environment['PATH']}"
        service = {"PULUMI_BACKEND_URL": address, "PULUMI_ACCESS_TOKEN": "simulated"}
        cli.at(published).having(PATH=python, **service).ok("policy", "publish", ORGANIZATION, timeout=100)
    assert given.complete
    assert given.files == {f"package/{path.relative_to(published)}": path.read_bytes() for path in files}
    announced = {policy["name"]: policy for policy in given.pack["policies"]}
    assert announced.keys() == {*(rule.id for rule in RULES), "types-judged"}
    for rule in RULES:
        policy = announced[rule.id]
        assert (policy["enforcementLevel"], policy["severity"]) == (rule.level, rule.severity)
        assert policy["configSchema"]["properties"].keys() == {*rule.schemas, "enforcementLevel"}
    assert given.pack["runtime"] == "python"
    assert f"version: {given.pack['versionTag']}" in (published / "PulumiPolicy.yaml").read_text().splitlines()
