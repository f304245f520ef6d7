"""The page of queues: its example is settings that load, and its numbers are what Kueue would do with them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from ruamel.yaml import YAML

from fleet.charts.kueue import KUEUE, NAMESPACE as KUEUE_NAMESPACE
from fleet.facts.scheduling import DEFAULT_QUEUE, JOB_PRIORITIES, QUEUE_LABEL, QUEUE_PRIORITY_LABEL
from fleet.render.queues import queue_objects
from fleet.settings.cluster import Cluster
from fleet.settings.queues import Flavor, Preemption, Quota, Team
from tests.builders import pool
from tests.docs.inside import stack
from tests.docs.markdown import ROOT, fences
from tests.fleet.kueue_admission import Job, Kueue
from tests.fleet.queue_configs import of
from tests.fleet.test_pod_security import violations

PAGE = ROOT / "docs" / "queues.md"
TEXT = PAGE.read_text(encoding="utf-8")
SETTINGS, FLAVORS, MANIFEST = (
    YAML(typ="safe", pure=True).load(fence.text) for fence in fences() if fence.page == PAGE and fence.language == "yaml"
)
JOB = Job({"cpu": Fraction(4), "memory": Fraction(16 * 2**30), "nvidia.com/gpu": Fraction(1)})


def cluster() -> Cluster:
    """The cluster of the example: the pool that its first line names, and its queues."""
    found: Cluster = of(SETTINGS["queues"], {"a10g": pool(instanceTypes=["g5.2xlarge"], nodes={"max": 12})}).clusters["usw2"]
    return found


def kueue() -> Kueue:
    held = cluster()
    assert held.queues is not None
    return Kueue([queue.cluster_queue for queue in queue_objects("usw2", held, held.queues).teams.values()])


def rows(heading: str) -> dict[str, tuple[int, int]]:
    """Team → (own, runs) of the table below a heading of the example."""
    table = TEXT.split(f"**{heading}")[1].split("|---|---|---|---|\n")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {team: (int(own), int(runs)) for team, own, runs, _ in cells}


def runs(made: Kueue) -> dict[str, int]:
    """GPUs that each team's Jobs use."""
    return {name: int(queue.uses(("a10g", "nvidia.com/gpu"))) for name, queue in made.queues.items()}


def owns(made: Kueue) -> dict[str, int]:
    return {name: int(queue.limits["a10g", "nvidia.com/gpu"].nominal) for name, queue in made.queues.items()}


def test_the_flavor_of_several_pools_loads_and_has_the_units_of_both() -> None:
    held = of(FLAVORS["queues"], {"t4-spot": pool(nodes={"max": 3}, capacity="spot"), "t4-ondemand": pool(nodes={"max": 1})})
    queues = held.clusters["usw2"].queues
    assert queues is not None
    assert (queues.pools_of("t4"), queues.nominal("t4")) == (("t4-spot", "t4-ondemand"), 4)


def test_one_team_with_work_gets_what_the_others_lend():
    made = kueue()
    for _ in range(12):
        made.submit("vision", JOB)
    told = rows("Only vision has work")
    assert told == {team: (owns(made)[team], running) for team, running in runs(made).items()}
    assert sum(running for _, running in told.values()) < 12, "what audio keeps stays free"

    assert "**Then audio submits 2 Jobs.** 1 starts at once" in TEXT
    assert [made.submit("audio", JOB) for _ in range(2)] == ["a10g", None]


def test_two_teams_with_work_share_by_weight_what_a_third_lends():
    made = kueue()
    made.run({"vision": [JOB] * 12, "research": [JOB] * 12, "audio": []})
    assert rows("Another day") == {team: (owns(made)[team], running) for team, running in runs(made).items()}
    other = kueue()
    other.run({"research": [JOB] * 12, "vision": [JOB] * 12, "audio": []})
    assert runs(other) == runs(made), "it does not matter who came first"


def test_without_fair_sharing_the_numbers_would_be_others():
    """Otherwise the example would not show weights: each team would get unused GPUs in the order of its requests."""
    made = kueue()
    for _ in range(12):
        made.submit("vision", JOB)
        made.submit("research", JOB)
    assert runs(made) != {team: running for team, (_, running) in rows("Another day").items()}


def test_the_page_names_every_key_of_the_settings():
    keys = {field.alias for model in (Team, Quota, Preemption, Flavor) for field in model.model_fields.values()}
    assert [key for key in keys if f"`{key}`" not in TEXT and f".{key}`" not in TEXT] == []


def test_the_job_of_the_page_waits_in_a_queue_of_its_namespace():
    held = cluster()
    assert held.queues is not None
    metadata: dict[str, Any] = MANIFEST["metadata"]
    queues = queue_objects("usw2", held, held.queues)
    (local,) = [
        queue.local_queues[metadata["namespace"]]
        for queue in queues.teams.values()
        if metadata["namespace"] in queue.local_queues
    ]
    assert metadata["labels"][QUEUE_LABEL] in {each["metadata"]["name"] for each in local}
    names = {each.name for each in JOB_PRIORITIES}
    pod = MANIFEST["spec"]["template"]["spec"]
    assert {metadata["labels"][QUEUE_PRIORITY_LABEL], pod["priorityClassName"]} == names
    assert pod["nodeSelector"]["gpu-ci/pool"] in held.pools
    assert violations(pod) == [], "the namespace enforces the restricted standard"
    assert f"`{DEFAULT_QUEUE}`" in TEXT


def test_the_pages_remark_is_that_of_the_plan():
    remarks = stack("prod").clusters["use1"].remarks
    (told,) = [fence.text.strip() for fence in fences() if fence.page == PAGE and fence.language == "text"]
    assert told in remarks


def test_the_page_looks_into_kueues_namespace():
    assert f"kubectl -n {KUEUE_NAMESPACE} logs deployment/{KUEUE}-controller-manager" in TEXT


@pytest.mark.parametrize("name", [each.name for each in JOB_PRIORITIES])
def test_the_page_tells_each_class_with_its_value(name: str):
    value = next(each.value for each in JOB_PRIORITIES if each.name == name)
    assert f"`{name}` {value}" in TEXT
