"""Each workflow that `check` accepts, with GitHub's hooks on a real API server: its pods, its steps, and nothing left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml

from fleet.loading.config import load
from gpu_ci.workflows.expressions import combinations
from tests.builders import config
from tests.conftest import SUMMARY
from tests.hooks.needs import HOOKS, NEEDS
from tests.hooks.runner import Runner, Step
from tests.hooks.world import World, world
from tests.workflows.moved import FLEET, FOLDER, RUNS_ON
from tests.workflows.test_container_jobs import ACCEPTED

pytestmark = NEEDS
_FILES = {str(path.relative_to(FOLDER)): path.read_text(encoding="utf-8") for path in FOLDER.rglob("*") if path.is_file()}
_CLASSES = {label.strip("[]"): name for label, name in RUNS_ON.items()}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("cluster"), HOOKS, load(config(clusters={"usw2": FLEET}))) as made:
        yield made


def jobs_of(workflow: Mapping[str, Any], **contexts: Any) -> Iterator[tuple[str, Mapping[str, Any], dict[str, Any]]]:
    """Each job of a workflow that a class takes, with its name and its contexts."""
    for name, job in workflow["jobs"].items():
        for matrix in combinations(job.get("strategy", {}).get("matrix")) or [{}]:
            own = contexts | {"matrix": matrix}
            if "uses" in job:
                inputs = {
                    key: str(value).replace("${{ matrix.image }}", str(matrix.get("image"))) for key, value in job["with"].items()
                }
                yield from jobs_of(yaml.safe_load(_FILES[job["uses"].removeprefix("./")]), inputs={"suite": "unit"} | inputs)
            elif job["runs-on"] != "ubuntu-latest":
                yield name, job, own


def class_of(job: Mapping[str, Any], contexts: Mapping[str, Any]) -> str:
    """The class that takes a job."""
    label = job["runs-on"] if isinstance(job["runs-on"], str) else ", ".join(job["runs-on"])
    return _CLASSES[contexts["inputs"]["runner"] if label.startswith("${{") else label]


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_workflow_runs_as_it_is(cluster: World, name: str, record_property: Callable[[str, object], None]) -> None:
    workflow, needs = yaml.safe_load(_FILES[f".github/workflows/{name}"]), dict[str, Any]()
    for key, job, contexts in jobs_of(workflow):
        with cluster.runner(class_of(job, contexts), _FILES) as runner:
            steps = list(runner.run(job, workflow.get("env"), needs=needs, **contexts))
            pods = pods_of(cluster, runner)
            needs[key] = {"outputs": runner.value(job.get("outputs", {}))}
        assert [one for one in steps if one.status and not one.expected] == []
        assert len(steps) == len(job["steps"]) + 2, "a step did not run"
        assert cluster.left == []
        record_property(SUMMARY, line(name, key, steps, pods))


def pods_of(cluster: World, runner: Runner) -> list[Mapping[str, Any]]:
    """The pods that the hooks made for a runner."""
    mine = runner.pod["metadata"]["name"]
    return [pod for pod in cluster.nodes.made.values() if pod["metadata"].get("labels", {}).get("runner-pod") == mine]


def line(name: str, job: str, steps: list[Step], pods: list[Mapping[str, Any]]) -> str:
    """A line of the table: workflow, job, steps, and the node and the containers of each pod."""
    rows = [f"{pod['spec']['nodeName']}: {', '.join(one['name'] for one in pod['spec']['containers'])}" for pod in pods]
    return f"{name:22} {job:12} {len(steps) - 2} steps  {'; '.join(rows)}"
