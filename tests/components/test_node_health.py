"""The startup gate and the limits of node repair reach the node groups, and the sweep reaches the cluster."""

from __future__ import annotations

from typing import Any

from gpu_ci.offline.recording import Recording
from tests.builders import cluster, pool
from tests.components.built import built
from tests.components.recorded import named, of_type

GROUP = "aws:eks/nodeGroup:NodeGroup"


def of(**health: Any) -> Recording:
    """A cluster in two zones with ten nodes and these settings."""
    settings = cluster(pools={"t4": pool(nodes={"max": 10})}, health=health)
    return built(clusters={"usw2": settings})


def test_the_gate_is_a_taint_of_gpu_groups_that_the_device_plugin_tolerates_and_runners_do_not() -> None:
    found = of(startupGate=True)
    gate = {"key": "startup-taint.cluster-autoscaler.kubernetes.io/gpu-ci-gpus", "value": "pending", "effect": "NO_SCHEDULE"}
    for group in of_type(found, GROUP):
        assert (gate in group.inputs.get("taints", [])) == ("-t4-" in group.name), group.name
    charts = {each.name: str(each.inputs) for each in of_type(found, "kubernetes:helm.sh/v3:Release")}
    tolerating = {name for name, inputs in charts.items() if gate["key"] in inputs}
    assert tolerating == {"usw2-device-plugin-chart"}


def test_the_wait_and_the_share_of_the_settings_reach_eks() -> None:
    repair = named(of(repairWait="12m", maxShare=0.5), "usw2-t4-us-west-2a-nodes", GROUP).inputs["nodeRepairConfig"]
    assert repair["maxUnhealthyNodeThresholdCount"] == 3, "half of the five nodes of the zone, rounded up"
    assert {each["minRepairWaitTimeMins"] for each in repair["nodeRepairConfigOverrides"]} == {12}
    assert not any("gpu-ci-gpus" in str(each.inputs.get("taints")) for each in of_type(of(), GROUP)), "off by default"


def test_the_sweep_runs_on_the_system_pool_with_the_settings_of_the_cluster() -> None:
    found = of()
    deployment = named(found, "usw2-sweeps.gpu-quarantine", "kubernetes:apps/v1:Deployment").inputs
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"gpu-ci/pool": "system"}
    program = named(found, "usw2-sweeps.gpu-quarantine", "kubernetes:core/v1:ConfigMap").inputs["data"]
    assert '"units": 1' in program["settings.json"]
    assert "def decide(" in program["quarantine.py"]
