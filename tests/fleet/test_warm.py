"""Warm pools and placeholders: how they split and count, what the bill has of them, which pods end which."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given, strategies as st
from moto.ec2.models.instance_types import INSTANCE_TYPES

from fleet.facts.pricing import Line
from fleet.facts.scheduling import JOB_PRIORITIES, PLACEHOLDER_PRIORITY, PREEMPTING_PRIORITY, RUNNER_PRIORITY
from fleet.facts.versions import RUNNER_IMAGE
from fleet.loading.config import load
from fleet.prove.bill import bill
from fleet.prove.pod import pod_of
from fleet.providers.eks.groups import WarmPool, zone_groups
from fleet.providers.installed import pod_set, pod_set_of
from fleet.render.placeholders import placeholders
from fleet.settings.cluster import Cluster
from fleet.settings.model import Nodes
from tests.builders import cluster, config, oke_cluster, oke_pool, pool, runner


def of(**changes: Any) -> Any:
    """A cluster in two zones whose pool t4 has these changes."""
    return load(config(clusters={"usw2": cluster(pools={"t4": pool(**changes)})})).clusters["usw2"]


def lines(**changes: Any) -> dict[str, Line]:
    """Its bill by item."""
    fleet = load(config(clusters={"usw2": cluster(pools={"t4": pool(**changes)})}))
    return {line.item: line for line in bill(fleet, date(2026, 11, 23))}


# -- warm pools --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(0, 20), st.integers(1, 40), st.data())
def test_the_shares_of_the_zones_sum_to_the_warm_pool(zones: int, least: int, most: int, data: st.DataObject) -> None:
    nodes = Nodes.model_construct(min=min(least, most), max=most)
    prepared = data.draw(st.integers(1, most))
    warm = WarmPool.model_construct(min=data.draw(st.integers(0, prepared)), max_prepared=prepared)
    groups = zone_groups([f"us-west-2{letter}" for letter in "abcdef"[:zones]], nodes)
    shares = warm.shares(groups)
    assert sum(each.max for each in shares.values()) == prepared
    assert sum(each.min for each in shares.values()) == warm.min
    assert all(shares[zone].max <= groups[zone].max for zone in shares), "a machine beyond the group's maximum never joins"
    assert sum(warm.machines(groups).values()) >= max(warm.min, prepared - nodes.min)


@pytest.mark.usefixtures("numbers")
def test_stopped_machines_cost_their_disks_and_running_ones_also_their_price() -> None:
    none, stopped = lines(), lines(warm={"maxPrepared": 2})
    assert stopped.keys() == none.keys()
    assert (stopped["disks"].least - none["disks"].least, stopped["disks"].most) == (400, none["disks"].most)
    running = lines(warm={"maxPrepared": 2, "min": 1, "state": "running"})
    assert (running["warm pool t4"].least, running["warm pool t4"].most) == (2, 1)
    assert running["warm pool t4"].idle.usd == pytest.approx(2 * 0.752)
    assert running["disks"].most == none["disks"].most + 200, "min machines wait even while all nodes work"


def test_nodes_in_the_cluster_count_as_prepared() -> None:
    warm = {"maxPrepared": 2, "state": "running"}
    assert lines(nodes={"min": 1, "max": 2}, warm=warm)["warm pool t4"].least == 1
    held = lines(placeholders=1, warm=warm)
    assert (held["pool t4"].least, held["warm pool t4"].least) == (1, 1), "EC2 counts the node of a placeholder, too"


def test_a_zone_without_a_machine_and_local_disks_are_told() -> None:
    assert not [each for each in of(warm={"maxPrepared": 2}).remarks if "warm" in each]
    (bare,) = [each for each in of(warm={"maxPrepared": 1}).remarks if "warm" in each]
    assert "no machine waits in us-west-2b" in bare
    assert "raise maxPrepared to 2, or write one zone in zones" in bare
    local = {"instance": {"localStorage": {"strategy": "RAID0"}}}
    (lost,) = [
        each
        for each in of(instanceTypes=["g4dn.8xlarge"], nodeConfig=local, warm={"maxPrepared": 2}).remarks
        if "warm: a stopped machine loses its local disks" in each
    ]
    assert "keeps no image" in lost
    assert not [
        each
        for each in of(instanceTypes=["g4dn.8xlarge"], nodeConfig=local, warm={"maxPrepared": 2, "state": "running"}).remarks
        if "loses" in each
    ]


def test_ec2_hibernates_no_gpu_type() -> None:
    gpu = {name: found["HibernationSupported"] for name, found in INSTANCE_TYPES.items() if "GpuInfo" in found}
    assert len(gpu) > 50
    assert not any(gpu.values()), "state hibernated is refused for all of them"


# -- placeholders ------------------------------------------------------------------------------------------------------


def test_a_placeholder_takes_the_gpus_of_a_node_and_has_the_image_of_each_set() -> None:
    two = {"instanceTypes": ["g4dn.12xlarge"], "placeholders": 2}
    sets = {"gpu-t4": runner(), "other": runner(labels=["other"], image="example.com/ci:1"), "same": runner(labels=["same"])}
    found = load(config(clusters={"usw2": cluster(pools={"t4": pool(**two)}, runners=sets)})).clusters["usw2"]
    made = placeholders(found)["t4"]
    assert made["spec"]["replicas"] == 2
    spec = made["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == 0, "a runner waits for no grace period"
    assert spec["priorityClassName"] == PLACEHOLDER_PRIORITY.name
    (holder,), (other,) = spec["containers"], spec["initContainers"]
    assert (holder["image"], other["image"], other["command"]) == (RUNNER_IMAGE, "example.com/ci:1", ["true"])
    assert holder["resources"]["requests"] == {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "80Gi", "nvidia.com/gpu": 4}
    assert holder["resources"]["limits"] == {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": 4}
    assert pod_of("", made) is not None


def test_placeholders_tolerate_and_select_as_runners_do() -> None:
    spot = load(
        config(
            clusters={"sjc": oke_cluster(pools={"a10": oke_pool(instanceTypes=["VM.GPU3.1"], capacity="spot", placeholders=1)})}
        )
    )
    made = placeholders(spot.clusters["sjc"])["a10"]["spec"]["template"]["spec"]
    chart = pod_set(spot.clusters["sjc"], "oci-a10", spot.clusters["sjc"].runners["oci-a10"], spot.github)
    of_runner = chart.values["template"]["spec"]
    assert (made["nodeSelector"], made["tolerations"]) == (of_runner["nodeSelector"], of_runner["tolerations"])
    assert len(made["tolerations"]) == 2, "the taint of spot nodes too"


def test_only_runners_of_a_pool_with_stand_ins_end_pods_and_only_placeholders() -> None:
    pools = {"t4": pool(placeholders=1), "plain": pool()}
    fleet = load(
        config(clusters={"usw2": cluster(pools=pools, runners={"a": runner(), "b": runner(pool="plain", labels=["b"])})})
    )
    found: Cluster = fleet.clusters["usw2"]
    sets = {name: pod_set_of(found, name, each, fleet.github) for name, each in found.pod_runners.items()}
    assert sets["a"].priority_class == PREEMPTING_PRIORITY.name
    assert sets["b"].priority_class == RUNNER_PRIORITY.name
    assert found.priorities == (PLACEHOLDER_PRIORITY, PREEMPTING_PRIORITY)
    assert PREEMPTING_PRIORITY.preempts
    assert -10 < PLACEHOLDER_PRIORITY.value < 0, "below -10 the autoscaler starts no node; pods without a class have 0"
    below = [each.name for each in (RUNNER_PRIORITY, *JOB_PRIORITIES) if each.value <= PREEMPTING_PRIORITY.value]
    assert below == [], "a runner would end their pods"


def test_the_bill_counts_the_nodes_of_placeholders_while_no_job_runs() -> None:
    assert (lines(placeholders=1)["pool t4"].least, lines(placeholders=1)["pool t4"].most) == (1, 2)
    assert lines(placeholders=1, nodes={"min": 1, "max": 2})["pool t4"].least == 1, "a placeholder takes a node of nodes.min"
    assert lines(placeholders=1)["disks"].least == lines(nodes={"min": 1, "max": 2})["disks"].least


def test_gpu_jobs_beside_placeholders_are_told_what_is_left_for_them() -> None:
    workloads = {"smi": {"kind": "nvidia-smi", "pool": "t4"}}
    held = cluster(pools={"t4": pool(placeholders=1)}, workloads=workloads)
    found = load(config(clusters={"usw2": held})).clusters["usw2"]
    assert "pool t4: only runners end placeholders, so for GPU Jobs and workloads it has 1 nodes at most" in found.remarks
    assert not [each for each in of(placeholders=1).remarks if "placeholders" in each]
