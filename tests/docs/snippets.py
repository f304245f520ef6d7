"""Blocks of stack settings on the pages: each names its stack file and its place there, and this module pastes it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from fleet.facts.day import day_of
from gpu_ci.offline.agree import agreement
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.policyconfig import STACKS, settings_of
from tests.docs.markdown import ROOT, Fence, fences

HEAD = re.compile(r"# (?P<file>(?:examples/)?Pulumi\.(?P<stack>[\w-]+)\.yaml), below (?P<path>[\w.-]+)\n")
"""The first line of a block: the file that a reader pastes it into, and the keys above it. `config` are the file's top keys."""


@dataclass(frozen=True)
class Snippet:
    """Settings for one place of a stack file, and the values of the stack's policies that they need."""

    place: str
    file: str
    stack: str
    path: tuple[str, ...]
    settings: Mapping[str, Any]
    policies: Mapping[str, Mapping[str, Any]]
    agreed: bool
    """Whether the next block lets `make agree` write these values."""

    @property
    def runners(self) -> frozenset[tuple[str, str]]:
        """(cluster, name) of the runner sets in the block."""
        tree: Mapping[str, Any] = self.settings
        for key in reversed(self.path):
            tree = {key: tree}
        clusters = tree.get("gpu-ci:clusters", {})
        return frozenset((cluster, name) for cluster, held in clusters.items() for name in held.get("runners", {}))


def snippets() -> list[Snippet]:
    """Each block of stack settings, with the block of policy values that the text after it introduces by the file's name."""
    blocks = fences()
    return [
        _snippet(block, head, after)
        for block, after in zip(blocks, (*blocks[1:], None), strict=True)
        if block.language == "yaml" and (head := HEAD.match(block.text)) is not None
    ]


def _snippet(block: Fence, head: re.Match[str], after: Fence | None) -> Snippet:
    keys = tuple(head["path"].split("."))
    path = () if keys == ("config",) else (f"gpu-ci:{keys[0]}", *keys[1:])
    settings = YAML(typ="safe", pure=True).load(block.text)
    agreed = after is not None and after.page == block.page and after.text.strip() == f"make agree STACK={head['stack']}"
    return Snippet(block.place, head["file"], head["stack"], path, settings, _policies(block, after, head["stack"]), agreed)


def _policies(block: Fence, after: Fence | None, stack: str) -> Mapping[str, Mapping[str, Any]]:
    if after is None or after.page != block.page or after.language != "toml":
        return {}
    between = "\n".join(block.page.read_text().splitlines()[block.line : after.line])
    return tomllib.loads(after.text).get(stack, {}) if f"`{STACKS}`" in between else {}


def pasted(folder: Path, snippet: Snippet) -> Path:
    """A copy of the stack file and of what `make docs` writes, with both blocks pasted; returns the stack file.

    The block's keys are added where it names its place. A key that is there already is replaced, a mapping key by key.
    """
    yaml = YAML()
    document = yaml.load(ROOT / snippet.file)
    here = document["config"]
    for key in snippet.path:
        assert key in here, f"{snippet.place}: {snippet.file} has no {key}; correct the first line of the block"
        here = here[key]
    _merge(here, snippet.settings)
    folder.mkdir(exist_ok=True)
    stack_file = folder / f"Pulumi.{snippet.stack}.yaml"
    yaml.dump(document, stack_file)
    table = tomllib.loads((ROOT / STACKS).read_text())[snippet.stack]
    for policy, values in snippet.policies.items():
        table[policy] = {**table.get(policy, {}), **values}
    config = folder / f"policies/config/{snippet.stack}.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps(settings_of(table)))
    return stack_file


def _merge(into: Any, settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), Mapping):
            _merge(into[key], value)
        else:
            into[key] = value


def planned(folder: Path, snippet: Snippet, *, with_policies: bool = True) -> Plan:
    """The plan of the stack after pasting; without `with_policies` only the stack file has changed."""
    stack_file = pasted(folder, snippet)
    if snippet.agreed and with_policies:
        return agreement(snippet.stack, ROOT, stack_file, day_of()).after
    return make_plan(snippet.stack, ROOT, stack_file, policies_of=folder if with_policies else ROOT)
