"""What Git has of our own stacks, judged as files: by the same policies, with the same exceptions, as the plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from offline.manifests.check import Check, make_check
from offline.policyfile import policy_settings
from tests.components.recorded import ROOT
from tests.offline.test_gitops import of
from tests.policies.harness import AS_OF

HOME = "homelab/gpu-ci-homelab-home"
WALLS = {"quota-declared", "runner-namespace-isolated"}
"""What these ask for `pulumi up` makes: namespaces of runner sets with what is around them, quotas of the cloud."""


def checked(folder: Path, stack: str) -> Check:
    return make_check(str(folder), stack, ROOT, as_of=AS_OF)


@pytest.mark.parametrize("folder", ["homelab", HOME, f"{HOME}/workloads", f"{HOME}/workloads/coral/deployment.yaml"])
def test_the_committed_tree_breaks_nothing_and_needs_each_exception_of_the_stack(folder):
    excepting = {
        name for name, entry in policy_settings("homelab", ROOT).items() if isinstance(entry, Mapping) and "exceptions" in entry
    }
    found = checked(ROOT / folder, "homelab").findings
    assert {(each.verdict.rule, each.verdict.kind, each.label) for each in found} == {
        (rule, "excepted", "Deployment coral/coral") for rule in excepting
    }


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
