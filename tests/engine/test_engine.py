"""The staging stack on the real engine: preview and update under the policies, against the offline plan."""

from __future__ import annotations

import json
from datetime import timedelta

import pulumi
import pytest

from fleet.facts.support import EKS_SUPPORT
from gpu_ci.offline.judge import ENDED
from gpu_ci.offline.plan import Plan, make_plan
from tests.engine import staging
from tests.engine.cli import STACK_FILE, Cli, Outcome
from tests.engine.compare import deployed, graph_differences, input_differences, on_default_provider, planned
from tests.engine.eks_cluster import ROLE
from tests.engine.staging import CLEAR, PREVIEW, STACK, broken, recorded
from tests.engine.verdicts import events

pytestmark = pytest.mark.engine

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


def flat(text: str) -> str:
    """Text as Outcome.text has it."""
    return " ".join(text.split())


def test_a_preview_of_staging_under_the_policies_succeeds(previewed, site, plan):
    assert previewed.status == 0, previewed
    assert broken(plan, site.cli.folder) == [], "the engine let pass what the plan refuses"
    (summary,) = events(previewed, "summaryEvent")
    assert summary["resourceChanges"] == {"create": len(plan.resources) + 2}, "the plan's, and two children of the control plane"


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


def test_every_role_has_the_boundary_also_the_one_of_the_remote_component(update):
    roles = {each["urn"]: each["inputs"].get("permissionsBoundary") for each in update.resources if each["type"] == ROLE}
    assert any("$eks:index:Cluster$" in urn for urn in roles)
    assert set(roles.values()) == {"arn:aws:iam::123456789012:policy/gpu-ci-staging-boundary"}


def test_no_resource_is_on_a_default_provider(update):
    assert on_default_provider(update.resources) == []


def test_the_private_key_is_encrypted_in_the_state_and_shown_nowhere(update, site):
    assert CLEAR in update.opened, "the key never reached the state, so nothing is proved by its absence"
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


def _extended(cli: Cli) -> tuple[list[Outcome], Plan]:
    """The previews of the day before extended support and of its first day, and the plan of that day."""
    stack_file = cli.folder / STACK_FILE.format(STACK)
    stack_file.write_text(stack_file.read_text().replace('kubernetesVersion: "1.36"', 'kubernetesVersion: "1.34"'))
    day = EKS_SUPPORT["1.34"].standard_until
    outcomes = [cli.having(GPU_CI_AS_OF=each.isoformat())(*PREVIEW) for each in (day - timedelta(days=1), day)]
    return outcomes, make_plan(STACK, cli.folder, as_of=day)


def test_extended_support_is_priced_as_in_the_plan(tmp_path):
    """On the engine the component of the control plane has no inputs, so its child's version counts."""
    # Of a deployed stack the groups of the other minor would stay until they are empty, and count too.
    with staging.built(tmp_path) as fresh:
        outcomes, plan = _extended(fresh.cli)
    assert "stack-cost-ceiling" not in outcomes[0].text, outcomes[0]
    (fault,) = [found.message for found in plan.verdicts if (found.rule, found.kind) == ("stack-cost-ceiling", ENDED)]
    assert plan.passes(), "the engine alone fails because a day has passed"
    assert flat(fault) in outcomes[1].text, outcomes[1]
    assert fault.startswith("hour without jobs "), "the worst hour has room for it"
    assert "EKS control planes in extended support" in fault


def test_a_broken_stack_file_ends_the_preview_with_the_path_rule_and_value(site):
    cli = site.variant("broken")
    stack_file = cli.folder / STACK_FILE.format(STACK)
    whole = stack_file.read_text()
    wrong = whole.replace('kubernetesVersion: "1.36"', "kubernetesVersion: 1.36")
    assert wrong != whole, "the stack file no longer quotes the version like this"
    stack_file.write_text(wrong)
    with pytest.raises(pulumi.RunError) as offline:
        recorded(cli.folder)
    outcome = cli(*PREVIEW)
    assert outcome.status != 0, outcome
    assert "gpu-ci:clusters.usw2.kubernetesVersion" in outcome.text, outcome
    assert flat(str(offline.value)) in outcome.text, outcome
    assert "Traceback" not in outcome.text, f"a user's mistake is reported in a sentence\n{outcome}"
