"""What a plan shows of OCI, of machines that run jobs, and of machines that are paid always."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fleet.facts.remark import Remark, costs, todo
from fleet.facts.scheduling import BLOCK_TYPE_TAG
from fleet.loading.home import ROOT
from gpu_ci.cli import app
from gpu_ci.offline import words
from gpu_ci.offline.commands import plan as command
from gpu_ci.offline.report import detail
from tests.offline.rendered import plan_of

MACHINES = ("oci-machines", "--file", str(ROOT / "examples" / "Pulumi.oci-machines.yaml"))
RESERVED = ("reserved", "--file", str(ROOT / "examples" / "Pulumi.reserved.yaml"))


def run(*arguments: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "make_plan", lambda stack, _, file, *_more: plan_of(stack, file))
        result = CliRunner().invoke(app, ["plan", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def prod():
    return run("prod", "-v")


@pytest.fixture(scope="module")
def machines():
    return run(*MACHINES, "-v")


@pytest.fixture(scope="module")
def reserved():
    return run(*RESERVED, "-v")


def row(text: str, *start: str) -> list[str]:
    """The cells of the one line that begins with these."""
    lines = ([cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines())
    (found,) = [cells for cells in lines if cells[: len(start)] == list(start)]
    return found


def test_prod_plans_both_clouds_in_one_run(prod):
    for text in (
        "gpu-ci.GpuNodeGroup use1-a10g-spot",
        "gpu-ci.OkeGpuCluster sjc",
        "oci.ContainerEngine.Cluster sjc-control-plane  Kubernetes v1.36.1",
        "oci.ContainerEngine.NodePool sjc-system-nodes  VM.Standard.E5.Flex, 2 nodes at first",
        "oci.ContainerEngine.Addon sjc-gpu-plugin  NvidiaGpuPlugin",
        "≤: spot prices of EC2 change, and a spot price is at most the on-demand price, which counts here.",
    ):
        assert text in prod, text
    assert "billed whether used or not" not in prod, "every pool scales to zero"
    assert "OCI charges less" not in prod, "there is no OCI reservation"


def test_an_ec2_reservation_is_paid_whether_used_or_not_and_has_an_exact_price(reserved):
    assert "gpu-ci.GpuNodeGroup use1-a100-reserved" in reserved
    assert "billed whether used or not: use1/pool a100-reserved." in reserved
    assert "OCI charges less" not in reserved, "there is no OCI reservation"


def test_a_row_of_machines_says_what_runs_the_jobs_and_that_a_job_has_it_alone(prod, machines):
    boots = row(prod, "sjc/oracle-vm-gpu-a10-2")
    assert boots[2:] == ["2 GPU, a whole machine", "VM per job", "VM.GPU.A10.2: 1, one job", "0-20", "20", "4.000"]
    stands = row(machines, "iad/a10-standing")
    assert stands[2:] == ["1 GPU, a whole machine", "standing VMs", "VM.GPU.A10.1: 1, one job", "2", "2", "2.000"]


def test_a_row_of_a_reserved_pool_shares_the_full_price(reserved, machines):
    assert row(reserved, "use1/gpu-a100")[3:] == ["a100-reserved", "p4d.24xlarge: 8, GPUs", "0-8", "8", "2.745"]
    assert row(machines, "iad/gpu-a100")[3:] == ["a100-reserved", "BM.GPU4.8: 8, GPUs", "0-16", "16", "≤3.050"]


def test_no_runner_set_is_folded(prod):
    assert "sjc/oracle-vm-gpu-a10-1  " in prod, "a folded name cannot be found"


def test_what_stands_is_told_and_an_upper_bound_says_why(machines):
    assert "billed whether used or not: iad/pool a100-reserved, iad/machines a10-standing." in machines
    assert "≤: OCI charges less than the on-demand price for reserved machines that are not in use." in machines
    assert "spot prices of EC2 change" not in machines, "OCI's preemptible price is listed"
    assert row(machines, "iad", "machines a10-standing")[2:] == ["VM.GPU.A10.1 on-demand", "2", "2", "4.000", "4.000"]


def test_the_order_of_fallback_is_told(prod):
    said = "VM.GPU.A10.1 in US-SANJOSE-1-AD-1, US-ASHBURN-AD-2"
    assert f"- sjc/oracle-vm-gpu-a10-1: falls back in this order where OCI has no capacity: {said}" in prod


def test_nodes_say_their_shape_and_size(machines):
    assert "oci.ContainerEngine.NodePool iad-v100-spot-nodes  VM.GPU3.1, 0 nodes at first" in machines


def test_json_has_the_kinds_of_runners_and_how_their_machines_are_bought():
    plan = json.loads(run("prod", "--json"))
    placed = {found["runnerSet"]: found for found in plan["placement"]}
    assert {name: found["kind"] for name, found in placed.items() if found["kind"] != "pod"} == {
        "oracle-vm-gpu-a10-1": "vm-per-job",
        "oracle-vm-gpu-a10-2": "vm-per-job",
    }
    boots = placed["oracle-vm-gpu-a10-2"]
    assert (boots["pool"], boots["capacity"], boots["poolHolds"], boots["maxRunners"]) == ("VM per job", "on-demand", 20, 20)
    assert boots["fits"] == [{"instanceType": "VM.GPU.A10.2", "runners": 1, "limitedBy": "one job", "strandedGpus": 0}]
    assert [money["usd"] for money in boots["runnerHour"]] == [4.0, 4.0]
    assert boots["launcherRoom"] >= 40, "one for each machine of both sets"
    assert placed["gpu-t4-release"]["launcherRoom"] is None
    shapes = {resource["inputs"]["nodeShape"] for resource in plan["resources"] if "nodeShape" in resource["inputs"]}
    assert shapes == {"VM.Standard.E5.Flex"}, "OKE has no GPU pool, and launchers boot the machines"


def test_json_has_a_reserved_pool_at_one_price():
    plan = json.loads(run(*RESERVED, "--json"))
    (placed,) = [found for found in plan["placement"] if found["runnerSet"] == "gpu-a100"]
    assert placed["capacity"] == "reserved"
    assert placed["launcherRoom"] is None
    (line,) = [found for found in plan["price"]["lines"] if found["item"] == "pool a100-reserved"]
    assert line["count"] == [1, 1]
    assert line["idle"] == line["worst"]


# -- details of resources ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "inputs", "told"),
    [
        ("oci:ContainerEngine/cluster:Cluster", {"kubernetesVersion": "v1.34.2"}, "Kubernetes v1.34.2"),
        (
            "oci:ContainerEngine/nodePool:NodePool",
            {"nodeShape": "VM.GPU.A10.2", "nodeConfigDetails": {"size": 1.0}},
            "VM.GPU.A10.2, 1 nodes at first",
        ),
        (
            "kubernetes:argoproj.io/v1alpha1:Application",
            {"spec": {"destination": {"namespace": "kueue-system"}}},
            "in kueue-system, by ArgoCD",
        ),
        (
            "gpu-ci:index:TalosGpuNode",
            {"instanceType": "rig", "gpu": "RTX 3090", "gpus": 2, "address": "192.0.2.20"},
            "rig (2 RTX 3090) at 192.0.2.20",
        ),
        (
            "aws:eks/nodeGroup:NodeGroup",
            {"capacityType": "SPOT", "instanceTypes": ["g5.xlarge", "g5.2xlarge"], "scalingConfig": {"minSize": 0, "maxSize": 2}},
            "SPOT g5.xlarge, g5.2xlarge, 0-2 nodes",
        ),
        (
            "aws:eks/nodeGroup:NodeGroup",
            {
                "capacityType": "CAPACITY_BLOCK",
                "tags": {BLOCK_TYPE_TAG: "p5.48xlarge"},
                "scalingConfig": {"minSize": 0, "maxSize": 1},
            },
            "CAPACITY_BLOCK p5.48xlarge, 0-1 nodes",
        ),
        (
            "aws:eks/nodeGroup:NodeGroup",
            {"capacityType": "SPOT", "instanceTypes": ["g5.xlarge"], "scalingConfig": "[unknown]"},
            "",
        ),
        ("oci:Core/vcn:Vcn", {"cidrBlocks": ["10.0.0.0/16"]}, ""),
    ],
)
def test_the_tree_tells_shape_and_size(token, inputs, told):
    assert detail(token, inputs) == told


def test_a_note_says_whether_it_needs_an_action():
    assert [words.mark(note) for note in ("an end", todo("act"), costs("money"), costs("act", act=True), Remark("fact"))] == [
        *"!!$!-"
    ]
