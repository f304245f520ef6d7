"""What Git has of our own stacks, judged as files: by the same policies, with the same exceptions, as the plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpu_ci.offline.judge import Configured, configure, judge
from gpu_ci.offline.manifests.check import Check, make_check
from gpu_ci.offline.plan import blocked_of
from gpu_ci.offline.policyconfig import policy_settings
from policies.rules import RULES
from tests.components.recorded import ROOT
from tests.components.test_git_tree import DEPLOYED, both
from tests.day import TIMELESS
from tests.offline.git_tree import of

HOME = "homelab/gpu-ci-homelab-home"
WALLS = {"quota-declared", "runner-namespace-isolated"}
"""What these ask for `pulumi up` makes: namespaces of runner sets with their surroundings, quotas of the cloud."""


def checked(folder: Path, stack: str) -> Check:
    return make_check(str(folder), stack, ROOT, as_of=TIMELESS)


@pytest.mark.parametrize("folder", ["homelab", HOME, f"{HOME}/workloads", f"{HOME}/workloads/coral/deployment.yaml"])
def test_the_committed_tree_breaks_nothing_and_needs_each_exception_of_the_stack(folder):
    excepting = {
        name for name, entry in policy_settings("homelab", ROOT).items() if isinstance(entry, Mapping) and "exceptions" in entry
    }
    found = checked(ROOT / folder, "homelab").findings
    # The namespace is in a folder of its own.
    spaces = {("runner-no-privileged", "excepted", "Namespace coral")} if folder in ("homelab", HOME) else set()
    assert {(each.verdict.rule, each.verdict.kind, each.label) for each in found} == spaces | {
        (rule, "excepted", "Deployment coral/coral") for rule in excepting
    }


def timeless(stack: str) -> tuple[Configured, ...]:
    return configure(RULES, policy_settings(stack, ROOT), TIMELESS)


@pytest.mark.parametrize("stack", DEPLOYED)
def test_a_stack_that_changes_its_deliverer_breaks_nothing_but_by_the_names_of_its_exceptions(stack):
    found = {(each.rule, each.urn.rpartition("::")[2]) for each in blocked_of(judge(both(stack)[1], timeless(stack)), True)}
    assert {rule for rule, _ in found} <= {"images-pinned"}
    assert {name.partition("-")[2] for _, name in found} <= {"argocd-chart", "tree.kube-system.cluster-autoscaler"}


@pytest.mark.parametrize("cluster", ["use1", "sjc"])
def test_a_rented_clusters_tree_lacks_nothing_but_what_the_program_makes(cluster, tmp_path):
    folder = f"gpu-ci-gitops-{cluster}"
    for path, text in of("gitops").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    held = checked(tmp_path / folder, "gitops")
    assert held.passes(strict=True)
    assert {each.verdict.rule for each in held.findings} <= WALLS
    assert {each.rule for each in held.outcomes if each.judged} >= {"images-pinned", "runner-no-privileged", "github-app-auth"}
