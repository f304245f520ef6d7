"""The staging stack on the real engine: preview and update under the policies, against the offline plan."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pytest

from offline import stackfile
from offline.judge import Verdict, judge
from offline.policyfile import policy_settings
from offline.record import Recording, record
from policies.rules import RULES
from tests.engine.cli import STACK_FILE, Cli, Outcome, copy_project, environment
from tests.engine.compare import deployed, graph_differences, input_differences, on_default_provider, planned
from tests.engine.provider import Provider, attach, providers

pytestmark = pytest.mark.engine

STACK = "staging"
KEY = "gpu-ci:githubPrivateKey"
CLEAR = "clear-text-of-the-github-app-key"
PACKAGES = ("aws", "eks", "kubernetes")
PACK = ("--policy-pack", "policies", "--policy-pack-config", f"policies/config/{STACK}.json")
PREVIEW = ("preview", "--stack", STACK, *PACK, "--suppress-progress")
TAINT_RULE = "gpu-node-taint"

# The program, with the taints of every node group taken away.
UNTAINTED = """
import runpy
from pathlib import Path

import pulumi


def untainted(args):
    if args.type_ == "aws:eks/nodeGroup:NodeGroup":
        args.props["taints"] = None
    return pulumi.ResourceTransformationResult(args.props, args.opts)


pulumi.runtime.register_stack_transformation(untainted)
runpy.run_path(str(Path(__file__).with_name("program.py")), run_name="__main__")
"""


@dataclass(frozen=True)
class Site:
    """The project on a file backend with its stack and its secret; the providers that the engine attaches to."""

    cli: Cli
    serving: Mapping[str, Provider]

    def variant(self, name: str) -> Cli:
        """The CLI in a copy of the project that a test may change."""
        folder = self.cli.folder.with_name(name)
        shutil.copytree(self.cli.folder, folder, symlinks=True)
        return self.cli.at(folder)

    def checked(self, *, preview: bool) -> dict[str, Mapping[str, object]]:
        """URN to the inputs that the engine had checked."""
        return {urn: seen for provider in self.serving.values() for urn, seen in provider.checked(preview=preview).items()}


@dataclass(frozen=True)
class Deployment:
    """What an update left: the exported state as the CLI printed it."""

    export: str

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        """The state file's content."""
        parsed: dict[str, Any] = json.loads(self.export)
        return parsed

    @property
    def resources(self) -> list[dict[str, Any]]:
        """The resources of the state."""
        found: list[dict[str, Any]] = self.document["deployment"]["resources"]
        return found


def recorded(folder: Path) -> Recording:
    """The offline recording of the project in `folder`."""
    return record(folder / "__main__.py", stackfile.load(STACK, folder))


def broken(recording: Recording, folder: Path) -> list[Verdict]:
    """The violations of mandatory policies that the offline plan reports."""
    verdicts = judge(recording, RULES, policy_settings(STACK, folder))
    return [verdict for verdict in verdicts if verdict.kind == "violation" and verdict.level == "mandatory"]


def flat(text: str) -> str:
    """Text as Outcome.text has it."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    base = tmp_path_factory.mktemp("engine")
    folder = copy_project(base / "project")
    stack_file = folder / STACK_FILE.format(STACK)
    lines = stack_file.read_text().splitlines(keepends=True)
    # The salt belongs to the owner's passphrase, which nobody has here.
    stack_file.write_text("".join(line for line in lines if not line.startswith("encryptionsalt:")))
    with providers(PACKAGES) as serving:
        cli = Cli(folder, environment(base / "home", attach(serving)))
        cli.ok("stack", "init", STACK, "--secrets-provider", "passphrase")
        cli.ok("config", "set", "--stack", STACK, "--secret", KEY, given=CLEAR)
        yield Site(cli, serving)


@pytest.fixture(scope="module")
def plan(site: Site) -> Recording:
    return recorded(site.cli.folder)


@pytest.fixture(scope="module")
def previewed(site: Site) -> Outcome:
    return site.cli(*PREVIEW)


@pytest.fixture(scope="module")
def update(site: Site, previewed: Outcome) -> Deployment:
    """After the preview, which is to see an empty stack."""
    site.cli.ok("up", "--stack", STACK, "--yes", "--skip-preview", "--suppress-progress", timeout=600)
    return Deployment(site.cli.ok("stack", "export", "--stack", STACK).out)


def test_a_preview_of_staging_under_the_policies_succeeds(previewed, site, plan):
    assert previewed.status == 0, previewed
    assert broken(plan, site.cli.folder) == [], "the engine let pass what the plan refuses"
    assert f"{len(plan.resources) + 1} to create" in previewed.text, (
        f"the plan's resources, the stack and the simulated control plane's one child\n{previewed}"
    )


@pytest.mark.parametrize("preview", [True, False], ids=["preview", "update"])
def test_the_engine_asks_providers_for_what_the_plan_shows(previewed, site, plan, request, preview):
    if not preview:
        request.getfixturevalue("update")
    asked = site.checked(preview=preview)
    # In a preview the kubeconfig is unknown, so the engine leaves the Kubernetes provider alone.
    expected = {
        found.urn: found
        for found in plan.resources
        if found.provider and not found.remote and not (preview and found.type.startswith("kubernetes:"))
    }
    missing = sorted(expected.keys() - asked.keys())
    assert not missing, f"never asked for; the CLI said\n{previewed}"
    differences = {
        urn: lines for urn, found in expected.items() if (lines := input_differences(found.inputs, asked[urn], exact=preview))
    }
    assert differences == {}


def test_the_state_holds_the_plans_resources_parents_and_dependencies(update, plan):
    remote = [found.urn for found in plan.resources if found.remote]
    assert graph_differences(planned(plan), deployed(update.resources, remote)) == []
    assert len(update.resources) > len(plan.resources), "the simulated cluster's child should be there, to be left out"


def test_no_resource_is_on_a_default_provider(update):
    assert on_default_provider(update.resources) == []


def test_the_private_key_is_encrypted_in_the_state_and_shown_nowhere(update, site):
    opened = site.cli.ok("stack", "export", "--stack", STACK, "--show-secrets")
    site.cli.history.remove(opened)  # the one output that is meant to hold it
    assert CLEAR in opened.out, "the key never reached the state, so nothing is proved by its absence"
    secrets = [found for found in update.resources if found["type"] == "kubernetes:core/v1:Secret"]
    assert secrets
    for found in secrets:
        for side in ("inputs", "outputs"):
            assert '"ciphertext"' in json.dumps(found[side]["stringData"]), f"{found['urn']}: {side} hold no encrypted value"
    assert CLEAR not in update.export
    told = [outcome.command for outcome in site.cli.history if CLEAR in outcome.out + outcome.err]
    assert told == [], "these commands printed the key"
    folders = (site.cli.folder.with_name("home") / "state", site.cli.folder)
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and ".venv" not in path.parts]
    assert len(files) > 1, "neither state nor project lie where they were put"
    assert [path for path in files if CLEAR.encode() in path.read_bytes()] == [], "the key lies in clear text on disk"


def test_a_preview_without_the_taint_fails_with_the_plans_message(site):
    cli = site.variant("untainted")
    (cli.folder / "__main__.py").rename(cli.folder / "program.py")
    (cli.folder / "__main__.py").write_text(UNTAINTED)
    expected = [verdict for verdict in broken(recorded(cli.folder), cli.folder) if verdict.rule == TAINT_RULE]
    assert expected, "the offline plan has to refuse this program"
    outcome = cli(*PREVIEW)
    assert outcome.status != 0, outcome
    for verdict in expected:
        assert flat(verdict.message) in outcome.text, outcome
        assert verdict.urn.rpartition("::")[2] in outcome.text, outcome
    assert outcome.text.count(f"{TAINT_RULE} ") >= len(expected), outcome


@dataclass(frozen=True)
class Violation:
    """One policy violation as `pulumi policy analyze --json` prints it."""

    policy: str
    urn: str
    level: str
    message: str


def violations(outcome: Outcome) -> list[Violation]:
    """What the policies said, from the JSON events of standard output."""
    events = [json.loads(line) for line in outcome.out.splitlines() if line.startswith("{")]
    said = [event["policyEvent"] for event in events if "policyEvent" in event]
    return [Violation(one["policyName"], one["resourceUrn"], one["enforcementLevel"], one["message"]) for one in said]


def test_a_state_without_a_taint_fails_the_analysis_with_the_plans_message(update, site, tmp_path):
    if "--file" not in site.cli("policy", "analyze", "--help").out:
        pytest.skip("this pulumi CLI cannot analyze a state file")
    analyze = ("policy", "analyze", "--json", *PACK, "--file")
    file = tmp_path / "state.json"
    file.write_text(update.export)
    clean = site.cli(*analyze, str(file))
    assert clean.status == 0, f"the state as it was deployed has to pass\n{clean}"
    document = json.loads(update.export)
    [pool] = [found for found in document["deployment"]["resources"] if found["urn"].endswith("-t4-spot-nodes")]
    for side in ("inputs", "outputs"):
        assert pool[side].pop("taints"), f"{side} of {pool['urn']} had no taint"
    file.write_text(json.dumps(document))
    outcome = site.cli(*analyze, str(file))
    assert outcome.status != 0, outcome
    [said] = [one for one in violations(outcome) if one.policy == TAINT_RULE]
    assert (said.urn, said.level) == (pool["urn"], "mandatory"), outcome
    assert "nvidia.com/gpu" in said.message
    assert "NO_SCHEDULE" in said.message, "the message has to say what to write"


def test_a_broken_stack_file_ends_the_preview_with_the_path_rule_and_value(site):
    cli = site.variant("broken")
    stack_file = cli.folder / STACK_FILE.format(STACK)
    whole = stack_file.read_text()
    wrong = whole.replace('kubernetesVersion: "1.34"', "kubernetesVersion: 1.34")
    assert wrong != whole, "the stack file no longer quotes the version like this"
    stack_file.write_text(wrong)
    with pytest.raises(pulumi.RunError) as offline:
        recorded(cli.folder)
    outcome = cli(*PREVIEW)
    assert outcome.status != 0, outcome
    assert "gpu-ci:clusters.usw2.kubernetesVersion" in outcome.text, outcome
    assert flat(str(offline.value)) in outcome.text, outcome
    assert "Traceback" not in outcome.text, f"a user's mistake is told in a sentence\n{outcome}"
