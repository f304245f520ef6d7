"""What the pages ask a reader to paste, pasted: with the stack file and the policy values the plan is clean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gpu_ci.offline.policyconfig import STACKS
from tests.docs.markdown import ROOT, Fence, fences
from tests.docs.snippets import HEAD, Snippet, planned, snippets

HOOKS = {hook["id"] for hook in YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")}
EXAMPLES = {path.read_text() for path in (ROOT / "examples").glob("Pulumi.*.yaml")}
PROGRAMS = {path.read_text() for path in (ROOT / "examples" / "components").glob("*/Pulumi.yaml")}
ALL = [pytest.param(snippet, id=snippet.place) for snippet in snippets()]


def test_every_yaml_block_is_settings_a_manifest_or_a_workflow() -> None:
    unknown = [fence.place for fence in fences() if fence.language == "yaml" and not kinds(fence)]
    assert not unknown, (
        "start a block of settings with `# Pulumi.<stack>.yaml, below clusters.<cluster>`, so that a test plans it"
    )


def kinds(fence: Fence) -> list[str]:
    """What a YAML block is."""
    body = YAML(typ="safe", pure=True).load(fence.text)
    if body is None:
        return ["comment"]
    found = {
        "settings": bool(HEAD.match(fence.text)),
        "stack file": fence.text in EXAMPLES,
        "manifest": "apiVersion" in body,
        "workflow": bool({"jobs", "steps"} & body.keys()),
        "program": fence.text in PROGRAMS,
        "pre-commit": "repos" in body and {hook["id"] for repository in body["repos"] for hook in repository["hooks"]} <= HOOKS,
    }
    return [kind for kind, is_one in found.items() if is_one]


@pytest.mark.parametrize("snippet", ALL)
def test_a_snippet_plans_clean_with_its_policy_values_and_without_them_each_message_names_the_file(
    snippet: Snippet, tmp_path: Path
) -> None:
    with_policies, without = tmp_path / "with", tmp_path / "without"
    plan = planned(with_policies, snippet)
    assert [(verdict.rule, verdict.message) for verdict in plan.blocked()] == []
    assert plan.passes(), plan.refused
    assert snippet.runners <= {(found.cluster, found.runner_set) for found in plan.placements}
    if not (snippet.policies or snippet.agreed):
        return
    # In the same test, so that both plans have one recording.
    plan = planned(without, snippet, with_policies=False)
    assert plan.blocked(), "then the page needs no block of policy values"
    for verdict in plan.blocked():
        needed = snippet.policies.get(verdict.rule, {})
        assert snippet.agreed or needed
        assert "exceptions" in needed or re.search(rf"{STACKS}: {snippet.stack}\.{verdict.rule}\.\w+", verdict.message)
