"""Workflows of public GPU projects on a fleet that starts containers: only their `runs-on` is another.

The files keep the labels that they have elsewhere. `moved` writes them with the classes of `FLEET`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.builders import GUARD, cluster, config, pool, runner

FOLDER = Path(__file__).parent / "container_jobs"
STACK = "moved"
RUNS_ON = {
    "linux.4xlarge.nvidia.gpu": "gpu-t4",
    "[self-hosted, linux, gpu]": "gpu-t4",
    "gpu-runner": "gpu-t4",
    "ubuntu-latest-8-cores": "cpu-build",
}
"""The class that takes the jobs of a label. Jobs of ubuntu-latest stay on GitHub's runners."""
_LINE = re.compile(r"^( +(?:runs-on|runner): )(\S.*)$", re.MULTILINE)
FLEET: dict[str, Any] = cluster(
    pools={
        "builds": pool(instanceTypes=["m6i.2xlarge"], nodes={"max": 4}),
        "t4": pool(instanceTypes=["g4dn.4xlarge"], nodes={"max": 4}),
    },
    runners={
        "gpu-t4": runner(containers="job", runnerPool="builds", shm="8Gi", services={"memory": "1Gi"}),
        "gpu-t4-bare": runner(),
        "cpu-build": runner(containers="job", pool="builds", gpus=0, runnerPool="builds"),
    },
)
"""A class for tests on a T4, one for builds without a GPU, both with containers, and a class for jobs without a container."""


def fleet_in(folder: Path, fleet: Mapping[str, Any] = FLEET) -> Path:
    """A project in the folder whose stack has one cluster, usw2."""
    ours = {f"gpu-ci:{key}": value for key, value in config(clusters={"usw2": fleet}).items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Pulumi.yaml").write_text("name: gpu-ci\nruntime: python\n")
    # JSON is YAML.
    (folder / f"Pulumi.{STACK}.yaml").write_text(json.dumps({"config": GUARD | ours}, indent=1))
    return folder


def moved(folder: Path) -> Path:
    """The repository of the workflows in the folder, with the labels of `RUNS_ON` replaced; returns its folder of workflows."""
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    workflows = folder / ".github" / "workflows"
    for path in workflows.glob("*.yml"):
        path.write_text(_LINE.sub(lambda line: line[1] + RUNS_ON.get(line[2], line[2]), path.read_text()))
    return workflows
