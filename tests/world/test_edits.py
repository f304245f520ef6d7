"""What a run of edits is judged by, without its programs; and the page that has the record of one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fleet.facts.scheduling import POOL_LABEL
from fleet.prove.pod import Pod, pod_of
from gpu_ci.offline.changes import CLOUD
from tests.docs.markdown import ROOT, assert_written
from tests.engine import refusals
from tests.world.edit_record import LEAST, RECORD, Run, Step, parts, table
from tests.world.editing import EDITS, EVICTING, NOT_RUN, changed, chosen
from tests.world.scaling import LEAVING, takes

FINE = Step("disk", "nodes-rolled", ("usw2: jobs end",), leaving=("a",))
QUIET = Step("tag value", "updated")
KEPT = json.loads(RECORD.read_text()) if RECORD.exists() else {"steps": []}
PAGE = ROOT / "docs/edits-with-jobs.md"
PLANE = "aws:eks/cluster:Cluster"


def against(*steps: Step, **more: Any) -> list[str]:
    return [check.claim for check in Run(steps, **more).checks() if check.against]


def test_a_run_without_an_ended_job_holds() -> None:
    assert against(FINE, QUIET, Step("network", CLOUD, status=1), Step("network, taken back", CLOUD)) == []


@pytest.mark.parametrize(
    ("step", "claims"),
    [
        (replace(QUIET, status=1), ["an update fails if and only if the plan says that the cloud refuses it"]),
        (Step("network", CLOUD), ["an update fails if and only if the plan says that the cloud refuses it"]),
        (replace(QUIET, ended=1), ["no job ends that the plan did not name", "with the default settings no job ends"]),
        (replace(FINE, ended=1), ["with the default settings no job ends"]),
        (replace(FINE, edit="disk, taken back", ended=1), ["with the default settings no job ends"]),
        (replace(QUIET, stayed=("a",)), ["an update deletes groups that left and are empty, or needs them again"]),
        (replace(QUIET, again=1), ["no job is assigned twice"]),
    ],
)
def test_each_harm_to_jobs_shows(step: Step, claims: list[str]) -> None:
    assert against(FINE, step) == claims


def test_an_edit_with_a_reason_may_end_jobs_that_the_plan_names() -> None:
    evicting = replace(FINE, edit=EVICTING, ended=4)
    assert against(evicting, ending={EVICTING: "it says so"}) == []
    assert against(replace(evicting, said=()), ending={EVICTING: "it says so"}) == ["no job ends that the plan did not name"]


def test_a_runner_on_a_node_that_leaves_and_a_job_that_never_runs_show() -> None:
    assert against(FINE, astray=frozenset({"runner"}), lasting=2) == [
        "a node that leaves gets no runner",
        "each job runs after all",
    ]


def test_a_later_run_replaces_its_edits_in_the_record() -> None:
    first = Run([FINE, replace(FINE, edit="disk, taken back"), replace(QUIET, ended=1)]).document()
    again = Run([replace(QUIET, ran=7)]).after(json.loads(json.dumps(first)))
    assert again.steps == [FINE, replace(FINE, edit="disk, taken back"), replace(QUIET, ran=7)]
    assert again.document()["checks"].values() != first["checks"].values()
    assert {*again.document()["checks"].values()} == {"holds"}


def test_each_edit_changes_the_stack_file() -> None:
    text = (ROOT / "Pulumi.staging.yaml").read_text()
    assert all(changed(text, name) != text for name in EDITS)
    assert "replaceNodes: evict" in changed(text, EVICTING)
    assert changed(text, "cpu+memory") == changed(changed(text, "cpu"), "memory")
    assert not EDITS.keys() & NOT_RUN.keys()


def test_a_variable_names_the_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_CI_EDITS", raising=False)
    assert chosen(["disk"]) == ["disk"]
    monkeypatch.setenv("GPU_CI_EDITS", "url+cpu,disk")
    assert chosen([]) == ["url+cpu", "disk"]
    monkeypatch.setenv("GPU_CI_EDITS", "all")
    assert chosen([]) == [*EDITS]
    monkeypatch.setenv("GPU_CI_EDITS", "discs")
    with pytest.raises(AssertionError, match=r"no edit is called \['discs'\]"):
        chosen([])


def runner(**spec: Any) -> Pod:
    made = pod_of("a runner", {"kind": "Pod", "spec": {"containers": [{"name": "runner"}], **spec}})
    assert made is not None
    return made


def test_the_autoscaler_gives_a_pod_only_a_group_that_it_may_use() -> None:
    gpu = {"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}
    group: dict[str, Any] = {"labels": {POOL_LABEL: "t4"}, "taints": [gpu]}
    tolerates = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    terms = [{"matchExpressions": [{"key": POOL_LABEL, "operator": "In", "values": ["t4", "l4"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert takes(group, runner(nodeSelector={POOL_LABEL: "t4"}, tolerations=tolerates))
    assert takes(group, runner(affinity=affinity, tolerations=tolerates))
    assert not takes(group, runner(nodeSelector={POOL_LABEL: "l4"}, tolerations=tolerates))
    assert not takes(group | {"labels": {POOL_LABEL: "a10g"}}, runner(affinity=affinity, tolerations=tolerates))
    assert not takes(group, runner(nodeSelector={POOL_LABEL: "t4"}))
    leaving = {"key": LEAVING, "value": "true", "effect": "NO_SCHEDULE"}
    assert not takes(group | {"taints": [gpu, leaving]}, runner(nodeSelector={POOL_LABEL: "t4"}, tolerations=tolerates))


@pytest.mark.parametrize(("after", "refused"), [("1.35", True), ("1.36", False), ("1.37", False), ("1.38", True)])
def test_the_simulated_cloud_takes_no_version_but_the_next(after: str, refused: bool) -> None:
    assert bool(refusals.refusal(PLANE, {"version": after}, {"version": "1.36"}, {})) is refused


@pytest.mark.skipif(not KEPT["steps"], reason="no run is recorded")
def test_the_page_has_what_the_record_has() -> None:
    steps = KEPT["steps"]
    missing = sorted(EDITS.keys() - {part for step in steps for part in parts(step["edit"])})
    assert KEPT["jobs"]["ran"] >= LEAST
    assert all(step["ended"] for step in steps if step["edit"] == EVICTING)
    assert_written(PAGE, "edits:staging", table(steps))
    assert_written(PAGE, "missing:staging", "".join(f"- `{name}`\n" for name in missing))
