"""The real Kubernetes provider: staging comes up in a world's control plane, stays, changes and goes. AWS is simulated."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from gpu_ci.world.scale_sets import Job
from tests.conftest import SUMMARY
from tests.engine import staging
from tests.engine.cli import STACK_FILE
from tests.engine.live import Live
from tests.engine.replacing import RELEASE
from tests.world.nodes import NODE_GROUP
from tests.world.provided import Provided, missing, provided

pytestmark = [
    pytest.mark.world,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=f"not here: {', '.join(missing())}"),
]

SETS = "/apis/actions.github.com/v1alpha1/autoscalingrunnersets"
STACK = ("--stack", staging.STACK, "--suppress-progress")
EDITS = {
    "system: {instanceTypes: [m6i.large],": "system: {instanceTypes: [m6i.large], disk: 80Gi,",
    "          instanceTypes: [g4dn.2xlarge]\n          capacity: on-demand\n          role: release": (
        "          instanceTypes: [g4dn.4xlarge]\n          capacity: on-demand\n          role: release"
    ),
    "scale: {min: 0, max: 10}": "scale: {min: 0, max: 9}",
}
"""They roll the system nodes, replace the node groups of a pool, and change a runner set."""


@dataclass(frozen=True)
class State:
    """What is in the cluster: nodes by pool, Helm's revision by release, the most runners by set, and all objects."""

    nodes: Mapping[str, list[str]]
    revisions: Mapping[str, int]
    most: Mapping[str, int]
    objects: frozenset[str]


def state(world: Provided) -> State:
    api, objects = world.plane.api, world.objects()
    nodes: dict[str, list[str]] = {}
    for metadata in (node["metadata"] for node in api.list("/api/v1/nodes")):
        nodes.setdefault(metadata["labels"]["gpu-ci/pool"], []).append(metadata["name"])
    secrets = filter(None, (re.fullmatch(r"secrets \S+/sh\.helm\.release\.v1\.(.+)\.v(\d+)", each) for each in objects))
    most = {each["metadata"]["name"]: int(each["spec"]["maxRunners"]) for each in api.list(SETS)}
    return State(nodes, dict(sorted((secret[1], int(secret[2])) for secret in secrets)), most, objects)


def groups(world: Provided, pool: str) -> list[Live]:
    return world.cloud.live(NODE_GROUP, lambda group: group.inputs["labels"]["gpu-ci/pool"] == pool)


def wait(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 120
    while not ready():
        assert time.monotonic() < end, what
        time.sleep(0.2)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provided]:
    """Staging, not yet deployed."""
    with provided(tmp_path_factory.mktemp("provider")) as made:
        yield made


@pytest.fixture(scope="module")
def before(world: Provided) -> frozenset[str]:
    """The objects of a control plane without a stack."""
    return world.objects()


@dataclass(frozen=True)
class Up:
    """After the first update. `mended` counts listeners without a set."""

    state: State
    document: list[dict[str, Any]]
    seconds: float
    mended: int


@pytest.fixture(scope="module")
def up(world: Provided, before: frozenset[str]) -> Up:
    """The first update."""
    assert not any("runners-" in name for name in before)
    began = time.monotonic()
    world.site.up()
    seconds, mended = time.monotonic() - began, 0

    def listens() -> bool:
        nonlocal mended
        mended += world.mend()
        return [bool(of.session) for of in world.github.sets.values()] == [True, True]

    wait(listens, "both sets listen")
    return Up(state(world), world.site.deployment().resources, seconds, mended)


@dataclass(frozen=True)
class Edited:
    """After an edit with jobs that run. `old` are the nodes before it."""

    state: State
    jobs: list[Job]
    old: Mapping[str, list[str]]
    seconds: float


@pytest.fixture(scope="module")
def edited(world: Provided, quiet: State) -> Edited:
    """An edit, while four jobs run on two nodes of t4-spot."""
    for group in groups(world, "t4-spot")[:2]:
        world.cloud.scale(group, 1)
    for group in groups(world, "t4-release")[:1]:
        world.cloud.scale(group, 1)
    jobs = [world.github.queue(["self-hosted", "gpu"], seconds=25) for _ in range(4)]
    wait(lambda: sum(job.state == "running" for job in jobs) >= 2, "two jobs run")
    old, path = state(world).nodes, world.site.cli.folder / STACK_FILE.format(staging.STACK)
    text = path.read_text()
    for words, other in EDITS.items():
        assert text.count(words) == 1, words
        text = text.replace(words, other)
    path.write_text(text)
    began = time.monotonic()
    world.site.up()
    seconds = time.monotonic() - began
    wait(lambda: world.mend() == 0 and all(job.state == "completed" for job in jobs), "all jobs end")
    return Edited(state(world), jobs, old, seconds)


@pytest.fixture(scope="module")
def quiet(world: Provided, up: Up) -> State:
    """A second update, a refresh and a preview that change nothing."""
    world.site.up("--expect-no-changes")
    world.site.cli.ok("refresh", *STACK, "--yes", "--skip-preview", "--expect-no-changes")
    world.site.cli.ok("preview", *STACK, "--expect-no-changes")
    return state(world)


@pytest.fixture(scope="module")
def destroyed(world: Provided, edited: Edited) -> tuple[frozenset[str], float]:
    """The objects that are left after everything, and the seconds that it took."""
    began = time.monotonic()
    world.site.cli.ok("destroy", *STACK, "--yes", "--skip-preview", timeout=900)
    return world.objects(), time.monotonic() - began


def test_an_update_creates_each_object_and_release_in_the_cluster(
    world: Provided, up: Up, record_property: Callable[[str, object], None]
) -> None:
    of_kubernetes = [each for each in up.document if each["type"].startswith("kubernetes:")]
    releases = [each for each in of_kubernetes if each["type"] == RELEASE]
    assert up.state.revisions == dict.fromkeys((each["outputs"]["name"] for each in releases), 1)
    assert {world.named(each["outputs"]) for each in of_kubernetes if each["type"] != RELEASE} <= up.state.objects
    assert len(up.state.nodes["system"]) == 2
    assert up.state.nodes.keys() == {"system"}
    record_property(SUMMARY, f"real provider: {len(up.document)} resources up in {up.seconds:.0f} s, {up.mended} listeners fixed")


def test_a_second_update_and_a_refresh_find_no_drift(up: Up, quiet: State) -> None:
    assert quiet.revisions == up.state.revisions
    assert quiet.nodes == up.state.nodes


def test_an_edit_with_jobs_changes_what_it_names_and_ends_no_job(
    quiet: State, edited: Edited, record_property: Callable[[str, object], None]
) -> None:
    assert [(job.state, job.result, job.assignments) for job in edited.jobs] == [("completed", "succeeded", 1)] * 4
    assert edited.state.most == {**quiet.most, "gpu-t4": 9}
    changed = {name for name, revision in edited.state.revisions.items() if revision != quiet.revisions[name]}
    assert changed == {"gpu-t4", "gpu-t4-release"}, "a runner of a pool knows its price"
    system, release = edited.state.nodes["system"], edited.state.nodes.get("t4-release", [])
    assert len(system) == 2
    assert not set(system) & set(quiet.nodes["system"]), "the system nodes are new"
    assert not set(release) & set(edited.old["t4-release"]), "the old group took its nodes with it"
    assert edited.state.nodes["t4-spot"] == edited.old["t4-spot"]
    record_property(SUMMARY, f"real provider: 4 of 4 jobs succeeded during an edit of {edited.seconds:.0f} s")


def test_destroy_leaves_the_cluster_as_it_was_but_the_definitions_of_runner_sets(
    before: frozenset[str], destroyed: tuple[frozenset[str], float], record_property: Callable[[str, object], None]
) -> None:
    left, seconds = destroyed
    assert before <= left
    assert {name.partition(" ")[0] for name in left - before} == {"apiservices", "customresourcedefinitions"}
    assert all("actions.github.com" in name for name in left - before)
    record_property(SUMMARY, f"real provider: destroyed in {seconds:.0f} s")
