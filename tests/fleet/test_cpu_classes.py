"""Classes without GPUs, on pools without: what may be written, the pod, placement, price, quotas, start, and why a pod waits."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import TypeAdapter

from fleet.charts.runner_sets import PodSet
from fleet.facts.errors import FleetError
from fleet.facts.hardware import machine, machines, price
from fleet.facts.pricing import range_text
from fleet.facts.remark import CANNOT_WORK, kind_of
from fleet.facts.scheduling import CPU_TAINT, EKS_PROFILE, GPU_TOLERATION
from fleet.loading.config import load
from fleet.prove.bill import lines, runner_hour
from fleet.prove.pending import explain
from fleet.prove.placement import Placement, place, pool_host
from fleet.prove.pod import pod_of
from fleet.prove.start import starts
from fleet.prove.works import remarks as works
from fleet.providers.eks.bill import vcpus_needed
from fleet.providers.fleet import Fleet
from fleet.providers.installed import image_of, pod_set, runner_prices, tolerations_of
from fleet.render.monitoring.rules import rule_groups
from fleet.render.monitoring.rules.cost import cost_groups
from fleet.render.workloads.catalogue import smoke_tests
from tests.builders import ROOT, cluster, config, pool, read_stack, runner
from tests.examples import examples

DAY = date(2026, 11, 27)
EXAMPLE = load(read_stack(ROOT / "examples" / "Pulumi.cpu-classes.yaml"))
BUILDS = pool(instanceTypes=["m6i.2xlarge"], nodes={"max": 4})
EC2 = [row for row in machines("aws") if row.gpus == 0 or (row.gpu is not None and not row.capacity_block)]


def _fleet(pools: dict[str, Any], runners: dict[str, Any], **changes: Any) -> Fleet:
    return load(config(clusters={"usw2": cluster(pools=pools, runners=runners, **changes)}))


def _both(**changes: Any) -> Fleet:
    build = runner(pool="builds", gpus=0, **changes)
    return _fleet({"builds": BUILDS, "t4": pool()}, {"cpu-build": build, "gpu-t4": runner()})


def _spec(fleet: Fleet, name: str) -> dict[str, Any]:
    usw2 = fleet.clusters["usw2"]
    spec: dict[str, Any] = pod_set(usw2, name, usw2.runners[name], fleet.github).values["template"]["spec"]
    return spec


def _placed(fleet: Fleet) -> dict[str, Placement]:
    return {placement.runner_set: placement for placement in place(fleet)}


@given(st.sampled_from(EC2), st.integers(0, 2))
@settings(max_examples=examples(60))
def test_a_class_takes_pools_with_gpus_if_and_only_if_it_takes_gpus(bought: Any, gpus: int) -> None:
    pools = {"one": pool(instanceTypes=[bought.name])}
    classes = {"set": runner(pool="one", gpus=gpus)}
    if (gpus == 0) == (bought.gpus == 0):
        assert _fleet(pools, classes).clusters["usw2"].pools["one"].has_gpus == (gpus > 0)
        return
    with pytest.raises(FleetError) as caught:
        _fleet(pools, classes)
    (wrong,) = caught.value.problems
    assert wrong.rule == ("pool_without_gpus" if gpus else "pool_with_gpus")
    assert wrong.where == "gpu-ci:clusters.usw2.runners.set.pool"


def test_the_pod_of_a_class_without_gpus_asks_for_no_gpu_and_tolerates_only_its_own_taint() -> None:
    spec = _spec(_both(), "cpu-build")
    (container,) = spec["containers"]
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert set(container["resources"]["requests"]) == {"cpu", "memory", "ephemeral-storage"}
    assert [toleration["key"] for toleration in spec["tolerations"]] == [CPU_TAINT.key]
    assert spec["nodeSelector"] == {"gpu-ci/pool": "builds"}
    assert "runtimeClassName" not in spec
    assert [variable["name"] for variable in container["env"]] == ["GPU_CI_USD_PER_HOUR"]


def test_a_class_with_gpus_stays_the_same_beside_a_pool_without() -> None:
    alone = _fleet({"t4": pool()}, {"gpu-t4": runner()})
    assert _spec(alone, "gpu-t4") == _spec(_both(), "gpu-t4")
    assert tolerations_of(_both().clusters["usw2"]) == tolerations_of(alone.clusters["usw2"]) == (GPU_TOLERATION,)


def test_the_operators_runtime_class_is_for_pods_with_gpus_alone() -> None:
    fleet = _fleet(
        {"builds": BUILDS, "t4": pool()},
        {"cpu-build": runner(pool="builds", gpus=0), "gpu-t4": runner()},
        enablement="gpu-operator",
    )
    first = image_of(fleet.clusters["usw2"])
    assert first is not None
    assert first.name == "al2023-nvidia"
    assert "runtimeClassName" not in _spec(fleet, "cpu-build")


def test_nodes_without_gpus_have_their_own_taint_and_no_label_of_gpus() -> None:
    builds = _both().clusters["usw2"].pools["builds"]
    assert not builds.has_gpus
    assert builds.node_taints(EKS_PROFILE) == (CPU_TAINT,)
    assert builds.node_labels("usw2", "builds", EKS_PROFILE) == {
        "gpu-ci/cluster": "usw2",
        "gpu-ci/pool": "builds",
        "gpu-ci/role": "burst",
        "gpu-ci/capacity": "on-demand",
    }


def test_the_pods_of_gpu_nodes_take_no_room_on_nodes_without() -> None:
    usw2 = _both().clusters["usw2"]
    of_gpus = {pod.name for pod in pool_host(usw2, "t4").daemonsets} - {pod.name for pod in pool_host(usw2, "builds").daemonsets}
    assert of_gpus == {"nvidia-device-plugin"}


def test_placement_counts_cpu_and_memory_and_names_the_smallest_type_that_fits() -> None:
    row = _placed(EXAMPLE)["cpu-build"]
    assert (row.asks, row.worst.count, row.worst.limited_by, row.capacity) == ("3 CPU, 12Gi", 2, "CPU", 8)
    large = _placed(_both(cpu={"request": 6, "limit": 6}, memory={"request": "8Gi", "limit": "8Gi"}))["cpu-build"]
    assert large.error == ""
    small = _fleet(
        {"builds": pool(instanceTypes=["m6i.large"])},
        {"cpu-build": runner(pool="builds", gpus=0, cpu={"request": 6, "limit": 6}, memory={"request": "8Gi", "limit": "8Gi"})},
    )
    told = _placed(small)["cpu-build"].error
    assert "asks for 6 CPU and 8Gi, m6i.large leaves pods" in told
    assert "the smallest type that is large enough is m5.2xlarge" in told
    huge = _both(cpu={"request": 64, "limit": 64})
    assert _placed(huge)["cpu-build"].error.endswith("no type without GPU in this cloud is large enough: ask for less")


SIDECAR = {
    "name": "cache",
    "image": "example:1",
    "resources": {size: {"cpu": "500m", "memory": "1Gi"} for size in ("requests", "limits")},
}


@pytest.mark.parametrize(
    ("template", "cpus"),
    [
        ({}, 2),
        ({"containers": [SIDECAR]}, 2.5),
        ({"initContainers": [SIDECAR | {"restartPolicy": "Always"}]}, 2.5),
    ],
)
def test_the_price_of_a_runner_is_its_part_of_the_cpus_in_the_plan_and_in_the_job(template: dict[str, Any], cpus: float) -> None:
    # Memory limits the node to one runner, and two types have two prices.
    sizes = {"cpu": {"request": 2, "limit": 4}, "memory": {"request": "16Gi", "limit": "16Gi"}}
    pools = {"builds": pool(instanceTypes=["m6i.2xlarge", "m5.2xlarge"], nodes={"max": 4})}
    fleet = _fleet(pools, {"cpu-build": runner(pool="builds", gpus=0, template=template, **sizes)})
    usw2 = fleet.clusters["usw2"]
    hours = [price(name, "us-west-2", "on-demand") for name in usw2.pools["builds"].instance_types]
    parts = sorted(hour.usd_per_hour * cpus / 8 for hour in hours if hour is not None)
    asked = sorted(money.usd for money in runner_prices(usw2, usw2.pod_runners["cpu-build"]))
    planned = [money.usd for money in runner_hour(_placed(fleet)["cpu-build"], "us-west-2")]
    assert asked == pytest.approx(parts)
    assert planned == pytest.approx([parts[0], parts[-1]])
    told = range_text(runner_prices(usw2, usw2.pod_runners["cpu-build"]))
    assert _spec(fleet, "cpu-build")["containers"][0]["env"] == [{"name": "GPU_CI_USD_PER_HOUR", "value": told}]


def test_the_plan_of_the_example_has_the_price_that_its_jobs_have() -> None:
    usw2 = EXAMPLE.clusters["usw2"]
    _, most = runner_hour(_placed(EXAMPLE)["cpu-build"], "us-west-2")
    assert (str(most), range_text(runner_prices(usw2, usw2.pod_runners["cpu-build"]))) == ("≤0.144", "0-0.144")


def test_the_bill_has_the_pool() -> None:
    hour = price("m6i.2xlarge", "us-west-2", "on-demand")
    assert hour is not None
    (line,) = [line for line in lines("usw2", _both().clusters["usw2"], DAY) if line.item == "pool builds"]
    assert line.worst.usd == pytest.approx(4 * hour.usd_per_hour)


def test_quotas_of_the_standard_families_count_the_pool_and_the_system_pool_with_it() -> None:
    with_pool, without = _both(), _fleet({"t4": pool()}, {"gpu-t4": runner()})
    clusters = [fleet.clusters["usw2"] for fleet in (with_pool, without)]
    builds, system = 4 * machine("m6i.2xlarge").vcpus, 4 * machine("m6i.large").vcpus
    assert vcpus_needed(clusters[0], [clusters[0]])["L-1216C47A"] == builds + system
    assert "L-1216C47A" not in vcpus_needed(clusters[1], [clusters[1]])


def test_a_start_waits_for_no_driver_and_no_plugin_and_a_waiting_runner_may_fill_the_node_that_runs() -> None:
    (cold,) = [row.cold for row in starts(EXAMPLE, DAY) if row.runner_set == "cpu-build"]
    assert cold.gaps == ()
    assert [phase.high for phase in cold.phases if phase.name in ("driver", "plugin")] == [0, 0]
    other = runner(pool="builds", gpus=0, scale={"min": 1, "max": 2})
    pools = {"builds": pool(instanceTypes=["m6i.2xlarge"], nodes={"min": 1, "max": 4})}
    alone = _fleet(pools, {"cpu-build": runner(pool="builds", gpus=0)})
    beside = _fleet(pools, {"cpu-build": runner(pool="builds", gpus=0), "other": other})
    finds = [next(row.finds for row in starts(fleet, DAY) if row.runner_set == "cpu-build") for fleet in (alone, beside)]
    assert finds == ["a node that is ready", "nothing"]


def test_a_pod_is_told_which_pools_it_misses_without_gpus() -> None:
    spec = {
        "nodeSelector": {"gpu-ci/pool": "builds"},
        "containers": [{"name": "c", "image": "busybox:1.36", "resources": {"requests": {"cpu": "1"}}}],
    }
    (pod,) = [pod_of("build", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "build"}, "spec": spec})]
    assert pod is not None
    answer = explain(EXAMPLE, pod)
    builds = next(each for each in answer.answers if each.nodes.host.name == "builds")
    assert any(str(CPU_TAINT) in str(reason) for reason in builds.reasons)
    assert not any("GPU" in line for line in answer.unknown)


def test_what_watches_gpus_leaves_nodes_without_alone() -> None:
    monitored = {"prometheus": "install", "storageClass": "gp3"}
    pools = {"builds": BUILDS, "t4": pool()}
    classes = {"cpu-build": runner(pool="builds", gpus=0), "gpu-t4": runner()}
    fleet = _fleet(pools, classes, monitoring=monitored)
    assert {test.pool for test in smoke_tests(fleet.clusters["usw2"])} == {"t4"}
    missing = [
        rule["expr"] for group in rule_groups(fleet, "usw2") for rule in group["rules"] if rule.get("alert") == "GpuCiGpuMissing"
    ]
    assert missing
    assert not any("builds" in expr for expr in missing)
    only = _fleet({"builds": BUILDS}, {"cpu-build": classes["cpu-build"]}, monitoring=monitored)
    alerts = {rule.get("alert", "") for group in rule_groups(only, "usw2") for rule in group["rules"]}
    assert not {name for name in alerts if name.startswith(("GpuCiGpu", "GpuCiXid", "GpuCiEcc"))}


def test_the_cost_of_a_pod_without_gpus_is_its_part_of_the_cpus_of_its_pool() -> None:
    (group,) = cost_groups(_both(), "usw2")
    exprs = [rule["expr"] for rule in group["rules"] if rule["record"] == "gpu_ci:pod_usd_per_hour"]
    assert [('resource=~"cpu"' in expr, 'pool=~"builds"' in expr) for expr in exprs] == [(False, False), (True, True)]
    (alone,) = cost_groups(_fleet({"t4": pool()}, {"gpu-t4": runner()}), "usw2")
    assert [rule["record"] for rule in alone["rules"]].count("gpu_ci:pod_usd_per_hour") == 1


def test_no_workload_fills_a_pool_without_gpus() -> None:
    assert not [remark for remark in works(EXAMPLE, DAY) if kind_of(remark) == CANNOT_WORK]


def test_a_set_of_the_component_without_gpus_tolerates_what_it_is_given_or_the_taint_of_pools_without() -> None:
    size = {"cpu": {"request": 1, "limit": 1}, "memory": {"request": "2Gi", "limit": "4Gi"}, "scale": {"max": 1}}
    told = {"githubUrl": "https://github.com/example", "runnerScaleSetName": "cpu-build", "nodeSelector": {"a": "b"}, **size}

    def keys(**changes: Any) -> list[str]:
        made = TypeAdapter(PodSet).validate_json(json.dumps(told | changes))
        return [each["key"] for each in made.chart.values["template"]["spec"]["tolerations"]]

    assert keys() == ["nvidia.com/gpu"]
    assert keys(gpus=0) == [CPU_TAINT.key]
    assert keys(gpus=0, tolerations=[{"key": "team", "operator": "Exists"}]) == ["team"]
