"""`init --from` makes a stack of a foreign fleet, which plans clean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.facts.yaml_text import read_yaml
from gpu_ci.cli import app
from tests.audit.test_report import POOL, TOLERATES, VALUES
from tests.offline.init.conftest import Project

ONE = VALUES.replace("    nodeSelector", TOLERATES).replace("cpu: 20", "cpu: 6")
SPOT = POOL.replace("values: [g4dn.12xlarge]", "values: [g4dn.2xlarge, g4dn.4xlarge]").replace(
    "      taints:", "        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}\n      taints:"
)


def made(folder: Path, project: Project, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["init", "acme", "--from", str(folder), *options])
    return result.exit_code, result.output


def fleet(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_pools_and_classes_become_those_of_the_stack(tmp_path, project):
    project.judged = True
    name = "runnerScaleSetName: A-long-prefix-of-a-cluster-T4_Release\nscaleSetLabels: [nightly]"
    release = ONE.replace("runnerScaleSetName: gpu-t4", name).replace("maxRunners: 8\n", "")
    status, out = made(fleet(tmp_path, values=ONE, more=release, pool=SPOT), project)
    assert status == 0, out
    document: Any = read_yaml(project.root / "Pulumi.acme.yaml").value
    (cluster,) = document["config"]["gpu-ci:clusters"].values()
    assert cluster["region"] == "us-east-1"
    spot, behind = cluster["pools"].values()
    assert (spot["capacity"], spot["instanceTypes"]) == ("spot", ["g4dn.2xlarge", "g4dn.4xlarge"])
    assert (behind["capacity"], behind["role"]) == ("on-demand", "fallback")
    first, second = cluster["runners"].values()
    assert (second["cpu"]["limit"], second["memory"]["limit"], second["scale"]["max"]) == (6, "15Gi", 5)
    assert list(cluster["runners"]) == ["of-a-cluster-t4-release", "gpu-t4"]
    kept = ["A-long-prefix-of-a-cluster-T4_Release", "nightly"]
    assert (first["pools"], first["labels"]) == (list(cluster["pools"]), kept), "jobs go on asking for the old name"
    assert "labels" not in second


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"values": ONE}, "no pool of the folder with a GPU machine of EC2 runs it"),
        ({"values": ONE.replace("nvidia.com/gpu: 1, ", ""), "pool": POOL}, "it asks for no GPU"),
        ({"pool": POOL}, "it has no runner class"),
    ],
)
def test_a_fleet_without_a_class_on_a_gpu_of_ours_is_refused_with_the_reason(tmp_path, project, files, why):
    status, out = made(fleet(tmp_path, **files), project)
    assert (status, why in out, project.files == {"policies/stacks.toml": project.files["policies/stacks.toml"]}) == (
        2,
        True,
        True,
    )
