"""What the pages ask a reader to paste, pasted: with the stack file and the policy values the plan is clean."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from offline.plan import Plan, make_plan
from offline.policyconfig import STACKS, settings_of
from tests.docs.markdown import ROOT, Fence, fences

_BELOW = re.compile(r"# Pulumi\.(\w+)\.yaml, below clusters\.(\w+)")


@dataclass(frozen=True)
class Snippet:
    """Settings of one cluster of a stack, and the values of the stack's policies that they need."""

    place: str
    stack: str
    cluster: str
    settings: Mapping[str, Any]
    policies: Mapping[str, Mapping[str, Any]]


def snippets() -> list[Snippet]:
    """Each block of stack settings with the block of policy values that the text after it introduces by the file's name."""
    return [found for block, after in itertools.pairwise(fences()) if (found := _snippet(block, after)) is not None]


def _snippet(block: Fence, after: Fence) -> Snippet | None:
    named = _BELOW.match(block.text)
    if named is None or after.page != block.page or after.language != "toml":
        return None
    between = "\n".join(block.page.read_text().splitlines()[block.line : after.line])
    if f"`{STACKS}`" not in between:
        return None
    values = tomllib.loads(after.text).get(named[1])
    if values is None:
        return None
    settings = YAML(typ="safe", pure=True).load(block.text)
    return Snippet(block.place, named[1], named[2], settings, values)


def pasted(folder: Path, snippet: Snippet) -> Path:
    """A copy of the stack file and of what `make docs` writes, with both blocks pasted; returns the stack file."""
    yaml = YAML()
    document = yaml.load(ROOT / f"Pulumi.{snippet.stack}.yaml")
    cluster = document["config"]["gpu-ci:clusters"][snippet.cluster]
    for key, entries in snippet.settings.items():
        assert not set(cluster[key]) & set(entries), "the block adds entries"
        cluster[key].update(entries)
    stack_file = folder / f"Pulumi.{snippet.stack}.yaml"
    yaml.dump(document, stack_file)
    table = tomllib.loads((ROOT / STACKS).read_text())[snippet.stack]
    for policy, values in snippet.policies.items():
        table[policy] = {**table.get(policy, {}), **values}
    config = folder / f"policies/config/{snippet.stack}.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps(settings_of(table)))
    return stack_file


def planned(folder: Path, snippet: Snippet, *, with_policies: bool = True) -> Plan:
    stack_file = pasted(folder, snippet)
    return make_plan(snippet.stack, ROOT, stack_file, policies_of=folder if with_policies else ROOT)


def test_the_pages_have_the_snippets() -> None:
    found = [name for snippet in snippets() for name in snippet.settings["runners"]]
    assert found == ["gpu-l4", "oci-v100", "gpu-t4-day", "gpu-t4-quarter", "gpu-h100-seventh"]


@pytest.mark.parametrize("snippet", snippets(), ids=lambda snippet: snippet.place)
def test_a_snippet_and_its_policy_values_plan_clean(snippet: Snippet, tmp_path: Path) -> None:
    plan = planned(tmp_path, snippet)
    assert [(verdict.rule, verdict.message) for verdict in plan.broken] == []
    assert plan.passes()
    placed = {found.runner_set for found in plan.placements if found.cluster == snippet.cluster}
    assert set(snippet.settings["runners"]) <= placed


@pytest.mark.parametrize("snippet", snippets(), ids=lambda snippet: snippet.place)
def test_without_the_policy_values_each_message_names_the_file(snippet: Snippet, tmp_path: Path) -> None:
    plan = planned(tmp_path, snippet, with_policies=False)
    assert plan.broken, "then the page needs no block of policy values"
    for verdict in plan.broken:
        assert verdict.rule in snippet.policies
        assert re.search(rf"\b{snippet.stack}\.{verdict.rule}\.\w+ in {STACKS}", verdict.message)
