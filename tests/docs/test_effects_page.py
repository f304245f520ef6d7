"""The table of docs/operate.md says of each edit what a plan with a base says. GPU_CI_RENEW=1 writes it anew."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

import gpu_ci.offline.plan
from fleet.loading.home import ROOT
from gpu_ci.offline.changes import CLASSES, Change
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.entries import NEW_NAME
from gpu_ci.offline.plan import Plan, make_plan
from tests.docs.markdown import assert_written
from tests.edits import EDITS, edited, stack_file

PAGE = ROOT / "docs" / "operate.md"
_BELOW = {"pool": "pools.<pool>.", "runner set": "runners.<runner>.", "cache": "caches.<cache>."}


@cache
def plan(stack: str) -> Plan:
    return make_plan(stack, ROOT, stack_file(stack))


def worst(tmp: pytest.TempPathFactory) -> Iterator[tuple[str, Change]]:
    """Each edit, with the most harmful thing that it does."""
    folder = tmp.mktemp("edits")
    for stack, edits in EDITS.items():
        for name in edits:
            file = folder / f"Pulumi.{stack}.yaml"
            file.write_text(edited(stack_file(stack).read_text(), stack, name))
            yield f"{stack}: {name}", Comparison(plan(stack), make_plan(stack, ROOT, file)).changes[0]


def settings(change: Change) -> str:
    edit = change.edit
    if edit.state != "changed":
        return f"a {edit.kind} {edit.state}"
    if NEW_NAME in edit.values:
        return f"a {edit.kind} renamed, with `was`"
    return ", ".join(f"`{_BELOW.get(edit.kind, '')}{setting}`" for setting in edit.values)


def table(found: list[tuple[str, Change]]) -> Iterator[str]:
    yield "| what happens | running jobs | edits |"
    yield "|---|---|---|"
    for effect, words in CLASSES.items():
        of_class = [(name, change) for name, change in found if change.effect == effect]
        for ends in (True, False):
            said: dict[str, list[str]] = {}
            for name, change in of_class:
                if change.ends_jobs is ends:
                    said.setdefault(settings(change), []).append(name.partition(": ")[2])
            cells = [f"{setting} ({', '.join(dict.fromkeys(names))})" for setting, names in said.items()]
            if cells:
                yield f"| {words} | {'end' if ends else 'go on'} | {'; '.join(cells)} |"


def test_the_table_of_edits_is_what_plans_say(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: {"all": "disabled"})
    found = list(worst(tmp_path_factory))
    assert len(found) >= 60
    assert_written(PAGE, "effects:edits", "\n".join(table(found)) + "\n")


def test_the_page_of_pull_requests_has_every_class() -> None:
    rows = [f"| `{effect}` | {words} |\n" for effect, words in CLASSES.items()]
    assert_written(ROOT / "docs" / "pull-requests.md", "effects:classes", "".join(("| class | in words |\n|---|---|\n", *rows)))
