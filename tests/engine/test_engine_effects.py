"""What the plan says of each edit against what the engine does to the deployed stacks. GPU_CI_EFFECTS_OUT gets the table."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

import gpu_ci.offline.plan
from fleet.facts.tables import rows
from fleet.loading.home import ROOT
from gpu_ci.offline import effects
from gpu_ci.offline.changes import BESIDE, CLASSES, DRAINS, LEAVES, PROTECT, Change
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.plan import Plan, make_plan
from tests.edits import EDITS, edited
from tests.engine import staging
from tests.engine.cli import STACK_FILE, Cli
from tests.engine.operations import Seen, mismatches, seen
from tests.engine.verdicts import STREAMED

pytestmark = pytest.mark.engine

Case = tuple[str, str]
CASES: list[Case] = [(stack, name) for stack, edits in EDITS.items() for name in edits]


@dataclass(frozen=True)
class Edited:
    """An edited stack file of a deployed stack: the plan before it, and the engine's preview, which may still run."""

    before: Plan
    file: Path
    preview: Future[Seen]

    @cached_property
    def after(self) -> Plan:
        return make_plan(self.before.config.stack, ROOT, self.file)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        return Comparison(self.before, self.after).changes

    @property
    def is_protected(self) -> bool:
        return any(change.effect == PROTECT for change in self.changes)

    @property
    def mismatches(self) -> dict[str, tuple[str, str]]:
        left = [urn for change in self.changes if change.effect in (LEAVES, BESIDE, DRAINS) for urn in change.urns]
        return mismatches(self.before.resources, self.after.resources, self.preview.result(), left)

    @cached_property
    def agrees(self) -> bool:
        """Whether the engine does what the plan says."""
        return not (self.is_protected or self.mismatches)

    def row(self, case: Case) -> str:
        """A row of the table: the edit, its most harmful class, what the engine did, the jobs that end."""
        preview = self.preview.result()
        many = Counter(name for name in preview.operations.values() if name != "same")
        did = "refused by protection" if preview.is_protected else ", ".join(f"{many[name]} {name}" for name in many)
        ended = {name: None for change in self.changes if change.ends_jobs for name in change.pools or change.sets}
        cells = (": ".join(case), CLASSES[self.changes[0].effect], did or "nothing", ", ".join(ended) or "none")
        return f"| {' | '.join(cells)} |\n"


Edits = Callable[[str], Mapping[Case, Edited]]


@pytest.fixture(scope="module")
def edits(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edits]:
    """By stack the edits of the chosen tests, or all. Previews change nothing, so two run at a time."""
    params = (getattr(item, "callspec", None) for item in request.session.items)
    chosen = dict.fromkeys(spec.params["case"] for spec in params if spec is not None and "case" in spec.params) or CASES
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: NO_POLICY)
        pool = stack.enter_context(ThreadPoolExecutor(2))
        stack.callback(pool.shutdown, cancel_futures=True)

        @cache
        def deployed(name: str) -> Mapping[Case, Edited]:
            cases = [case for case in chosen if case[0] == name]
            if not cases:
                return {}
            site = stack.enter_context(staging.built(tmp_path_factory.mktemp(name), name))
            site.up()
            before = make_plan(name, ROOT, site.cli.folder / STACK_FILE.format(name))
            return {case: _begun(site, before, case, pool) for case in cases}

        yield deployed


NO_POLICY = {"all": "disabled"}


def _begun(site: staging.Site, before: Plan, case: Case, pool: ThreadPoolExecutor) -> Edited:
    cli = site.variant("-".join(case).replace(" ", "-"))
    file = cli.folder / STACK_FILE.format(case[0])
    file.write_text(edited(file.read_text(), *case))
    return Edited(before, file, pool.submit(_preview, cli, case[0]))


def _preview(cli: Cli, stack: str) -> Seen:
    command = ("preview", "--stack", stack, "--json", "--suppress-progress")
    return seen(cli.having(**STREAMED)(*command, timeout=800))


@pytest.mark.parametrize("case", CASES, ids=": ".join)
def test_the_engine_does_what_the_plan_says(case: Case, edits: Edits) -> None:
    edit = edits(case[0])[case]
    assert edit.preview.result().is_protected is edit.is_protected
    if not edit.is_protected:  # the engine stops at the first thing that is protected
        assert edit.mismatches == {}


def test_the_table_of_edits_has_at_least_sixty(edits: Edits) -> None:
    found = [edit.row(case) for name in EDITS for case, edit in edits(name).items()]
    assert len(CASES) >= 60
    if out := os.environ.get("GPU_CI_EFFECTS_OUT"):
        head = "| edit | class said by the plan | what the engine did | jobs ended on |\n|---|---|---|---|\n"
        Path(out).write_text(head + "".join(found))


GROUP, TEMPLATE = "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate"
MAP, RELEASE = "kubernetes:core/v1:ConfigMap", "kubernetes:helm.sh/v3:Release"
MISSING = [
    (GROUP, "instanceTypes", "replaces"),
    (GROUP, "capacityType", "replaces"),
    (GROUP, "amiType", "replaces"),
    (GROUP, "subnetIds", "replaces"),
    (GROUP, "launchTemplate.version", "rolls"),
    ("aws:ec2/vpc:Vpc", "cidrBlock", "replaces"),
    ("aws:ec2/natGateway:NatGateway", "subnetId", "replaces"),
    ("aws:autoscaling/tag:Tag", "autoscalingGroupName", "replaces"),
    ("kubernetes:core/v1:Secret", "stringData", "replaces"),
    (MAP, "data", "replaces"),
]
TOO_MUCH = [
    (GROUP, "labels", "replaces"),
    (GROUP, "scalingConfig", "rolls"),
    (TEMPLATE, "userData", "quiet"),
    (TEMPLATE, "userData", "replaces"),
    (RELEASE, "values", "replaces"),
    ("aws:budgets/budget:Budget", "limitAmount", "replaces"),
    ("eks:index:Cluster", "publicAccessCidrs", "replaces"),
]
Row = tuple[str, str, str]


@pytest.mark.parametrize(
    ("missing", "added"),
    [*(([row], []) for row in MISSING), *(([], [row]) for row in TOO_MUCH)],
    ids=[*(f"no {' '.join(row)}" for row in MISSING), *(" ".join(row) for row in TOO_MUCH)],
)
def test_a_wrong_row_is_caught(missing: list[Row], added: list[Row], edits: Edits, monkeypatch: pytest.MonkeyPatch) -> None:
    right = [(row["type"], row["input"], row["effect"]) for row in rows("effects.csv")]
    assert set(missing) <= set(right)
    assert not set(added) & set(right)
    table = [
        {"type": kind, "input": name, "effect": effect}
        for kind, name, effect in right + added
        if (kind, name, effect) not in missing
    ]
    agreeing = [edit for edit in edits("staging").values() if edit.agrees]
    monkeypatch.setattr(effects, "rows", lambda _: table)
    effects.inputs.cache_clear()
    try:
        assert any(edit.mismatches for edit in agreeing)
    finally:
        effects.inputs.cache_clear()
