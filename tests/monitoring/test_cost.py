"""The rules of costs, by promtool on the series of a small fleet: the parts add up to its nodes, and the total is its bill."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fleet.charts import chart
from fleet.charts.kube_prometheus import STACK, node_labels
from fleet.facts.pricing import USD_PER_HOUR, total
from fleet.facts.yaml_text import read_yaml
from fleet.loading import stackfile
from fleet.loading.config import fleet_of, load
from fleet.prove.bill import bill
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set, pod_set_of
from fleet.render.monitoring.rules.cost import cost_groups
from gpu_ci.offline.data import to_json
from gpu_ci.offline.judge import configure
from gpu_ci.offline.plan import Plan
from policies.rules import RULES
from tests import builders
from tests.monitoring.promtool import ENVIRONMENT

DAY = date(2026, 11, 23)
JOB_INFO = "kube_customresource_ephemeralrunner_job_info"
MONITORING = {"prometheus": "install", "repositories": ["example/app"]}
SHARE = {"strategy": "time-slicing", "replicas": 4}


def settings() -> dict[str, Any]:
    """A cluster of four pools: 4 GPUs per node, a GPU in four slices, spot of two types, two reserved machines."""
    pools = {
        "t4": builders.pool(instanceTypes=["g4dn.12xlarge"], nodes={"min": 2, "max": 2}),
        "slices": builders.pool(instanceTypes=["g4dn.xlarge"], nodes={"min": 1, "max": 1}, sharing=SHARE),
        "spot": builders.pool(instanceTypes=["g4dn.xlarge", "g4dn.2xlarge"], capacity="spot", nodes={"min": 1, "max": 3}),
        "kept": builders.pool(
            instanceTypes=["g5.xlarge"],
            capacity="reserved",
            reservation={"id": "cr-0123456789abcdef0", "zone": "us-east-1a", "count": 2},
            nodes={"min": 1, "max": 2},
        ),
    }
    runners = {"gpu-t4": builders.runner(), "gpu-slice": builders.runner(pool="slices", cpu={"request": 1, "limit": 1})}
    runners["gpu-slice"]["memory"] = {"request": "3Gi", "limit": "3Gi"}
    queues = {"teams": {"research": {"namespaces": ["research"], "quotas": [{"pool": "slices", "nominal": 1}]}}}
    cluster = builders.cluster(
        region="us-east-1", zones=["us-east-1a", "us-east-1b"], pools=pools, runners=runners, queues=queues, monitoring=MONITORING
    )
    return builders.config(clusters={"use1": cluster})


@cache
def use1() -> Fleet:
    """The same cluster as a fleet."""
    return load(settings())


ALWAYS, FROM_31 = "1+0x60", "_x31 1+0x29"
"""Values of each minute of an hour: all the time, and in its second half."""


def node(name: str, pool: str, kind: str, resource: str, units: int) -> dict[str, str]:
    labels = f'label_gpu_ci_pool="{pool}",label_node_kubernetes_io_instance_type="{kind}"'
    return {
        f'kube_node_labels{{node="{name}",{labels}}}': ALWAYS,
        f'kube_node_status_capacity{{node="{name}",resource="{resource}"}}': f"{units}+0x60",
        # One GPU of each node is broken: allocatable is lower, and no rule uses it.
        f'kube_node_status_allocatable{{node="{name}",resource="{resource}"}}': f"{units - 1}+0x60",
        # A CPU is not a GPU, so it is not part of any ratio.
        f'kube_node_status_capacity{{node="{name}",resource="cpu"}}': "48+0x60",
    }


def pod(
    name: str,
    namespace: str,
    node: str,
    resource: str,
    *,
    phase: str = "Running",
    gpus: int = 1,
    repository: str = "",
    **when: str,
) -> dict[str, str]:
    of = f'namespace="{namespace}",pod="{name}"'
    found = {
        f'kube_pod_container_resource_requests{{{of},container="c",node="{node}",resource="{resource}"}}': f"{gpus}+0x60",
        f'kube_pod_container_resource_requests{{{of},container="c",node="{node}",resource="cpu"}}': "4+0x60",
        f'kube_pod_status_phase{{{of},phase="{phase}"}}': ALWAYS,
        f'kube_pod_status_phase{{{of},phase="Failed"}}': "0+0x60",
    }
    if repository:
        runner = name.removesuffix("-workflow")
        info = f'{JOB_INFO}{{namespace="{namespace}",name="{runner}",repository="{repository}"}}'
        found[info] = when.get("job", ALWAYS)
    return found


GPU, SLICE, CLASS, SLICED = "nvidia_com_gpu", "nvidia_com_gpu_shared", "runners-gpu-t4", "runners-gpu-slice"
SERIES = (
    node("full", "t4", "g4dn.12xlarge", GPU, 4)
    | node("empty", "t4", "g4dn.12xlarge", GPU, 4)
    | node("sliced", "slices", "g4dn.xlarge", SLICE, 4)
    # The autoscaler took the more expensive type, as the bill assumes.
    | node("cheap", "spot", "g4dn.2xlarge", GPU, 1)
    | node("bought", "kept", "g5.xlarge", GPU, 1)
    | {'kube_node_labels{node="system",label_gpu_ci_pool="system"}': ALWAYS}
    # Two jobs on one node, and a runner that gets its job after half an hour. The fourth GPU is idle.
    | pod("gpu-t4-a", CLASS, "full", GPU, repository="example/app")
    | pod("gpu-t4-b-workflow", CLASS, "full", GPU, repository="example/unlisted")
    | pod("gpu-t4-c", CLASS, "full", GPU, repository="Example/App", job=FROM_31)
    # A finished pod keeps its requests, and a pod without a node has none yet.
    | pod("gpu-t4-d", CLASS, "full", GPU, phase="Succeeded", repository="example/app")
    | pod("gpu-t4-e", CLASS, "", GPU, phase="Pending")
    # A runner whose image is pulled holds its GPU.
    | pod("gpu-t4-f", CLASS, "bought", GPU, phase="Pending")
    | pod("gpu-slice-a", SLICED, "sliced", SLICE, repository="example/app")
    | pod("train", "research", "sliced", SLICE)
    | pod("ollama", "ai", "sliced", SLICE)
)


def holds(tmp_path: Path, *claims: str, fleet: Fleet | None = None, series: dict[str, str] = SERIES) -> str:
    """Empty if every claim is 1 after an hour of the series; otherwise what promtool says. Uses the promtool on PATH."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on PATH: install the package prometheus")
    found = fleet or use1()
    [name] = found.clusters
    (tmp_path / "rules.json").write_text(json.dumps({"groups": cost_groups(found, name)}))
    # At half a minute, ranges of Prometheus 2 and 3 have the same samples.
    cases = [{"expr": claim, "eval_time": "60m30s", "exp_samples": [{"labels": "{}", "value": 1}]} for claim in claims]
    given = [{"series": key, "values": values} for key, values in series.items()]
    tests = [{"interval": "1m", "input_series": given, "promql_expr_test": cases}]
    case = {"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "case.json").write_text(json.dumps(case))
    command = [promtool, "test", "rules", str(tmp_path / "case.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def hour(expr: str) -> str:
    """USD of the hour: the rules run once a minute."""
    return f"(sum(sum_over_time({expr}[1h])) / 60)"


def equal(left: str, right: str | float, within: float = 1e-6) -> str:
    return f"abs({left} - {right}) < bool {within}"


JOBS, START, IDLE = (f"gpu_ci:{part}_usd_per_hour" for part in ("job", "start", "idle"))
NODES, SHARED = "gpu_ci:node_usd_per_hour", "gpu_ci:shared_usd_per_hour"
T4, XLARGE, LARGER, KEPT = 3.912, 0.526, 0.752, 1.006
"""Rows of the price table for us-east-1. A spot price is not known: the on-demand price is its upper bound."""


def price_of_the_plan(folder: Path) -> dict[str, Any]:
    """The price in the JSON of the plan of this fleet, without its resources."""
    file = folder / "Pulumi.yaml"
    file.write_text(json.dumps({"config": builders.GUARD | {f"gpu-ci:{key}": value for key, value in settings().items()}}))
    config = stackfile.load("staging", builders.ROOT, stack_file=file)
    fleet = fleet_of(config)
    found = Plan(config, fleet, (), (), bill(fleet, DAY), configure(RULES, {}, DAY), "", DAY)
    return dict(json.loads(to_json(found))["price"])


def test_jobs_start_and_idle_are_the_node_lines_of_the_bill_and_the_total_is_the_bill(tmp_path):
    price = price_of_the_plan(tmp_path)
    nodes = sum(line["idle"]["usd"] for line in price["lines"] if line["item"].startswith("pool "))
    everything, worst = price["idle"]["usd"], price["worst"]["usd"]
    assert nodes == pytest.approx(2 * T4 + XLARGE + LARGER + 2 * KEPT)
    assert not holds(
        tmp_path,
        equal(f"{hour(JOBS)} + {hour(START)} + {hour(IDLE)}", hour(NODES)),
        equal(hour(NODES), nodes),
        equal(f"{hour(NODES)} + {hour(SHARED)}", everything, within=0.01),
        equal("gpu_ci:planned_idle_usd_per_hour", everything, within=0.01),
        equal("gpu_ci:planned_worst_usd_per_hour", worst, within=0.01),
    )


def test_a_job_costs_its_part_of_the_node_and_a_runner_without_one_is_start(tmp_path):
    assert not holds(
        tmp_path,
        equal(hour(f'{JOBS}{{repository="example/app",scale_set="gpu-t4"}}'), T4 / 4),
        equal(hour(f'{JOBS}{{repository="Example/App"}}'), T4 / 4 / 2),
        equal(hour(f'{START}{{scale_set="gpu-t4",pool="t4"}}'), T4 / 4 / 2),
        equal(hour(f'{START}{{scale_set="gpu-t4",pool="kept"}}'), KEPT),
        equal(hour(f'{IDLE}{{pool="t4"}}'), T4 + T4 / 4),
        equal(hour(f'{IDLE}{{pool="spot"}}'), LARGER),
        equal(hour('gpu_ci:pod_usd_per_hour{pod="gpu-t4-a"}'), T4 / 4),
    )


def test_both_pods_of_a_job_in_a_container_are_its_cost_once(tmp_path):
    pools = {
        "t4": builders.pool(instanceTypes=["g4dn.12xlarge"], nodes={"min": 1, "max": 2}),
        "cpu": builders.pool(instanceTypes=["m6i.2xlarge"], nodes={"min": 1, "max": 2}),
    }
    sets = {"gpu-t4": builders.runner(containers="job", runnerPool="cpu")}
    zones = {"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]}
    fleet = load(builders.config(clusters={"use1": builders.cluster(**zones, pools=pools, runners=sets, monitoring=MONITORING)}))
    own = 'namespace="runners-gpu-t4",pod="gpu-t4-a"'
    series = (
        node("full", "t4", "g4dn.12xlarge", GPU, 4)
        | {
            'kube_node_labels{node="cpus",label_gpu_ci_pool="cpu",label_node_kubernetes_io_instance_type="m6i.2xlarge"}': ALWAYS,
            'kube_node_status_capacity{node="cpus",resource="cpu"}': "8+0x60",
            f'kube_pod_container_resource_requests{{{own},container="runner",node="cpus",resource="cpu"}}': "0.25+0x60",
            f'kube_pod_status_phase{{{own},phase="Running"}}': ALWAYS,
            f'{JOB_INFO}{{namespace="runners-gpu-t4",name="gpu-t4-a",repository="example/app"}}': ALWAYS,
        }
        | pod("gpu-t4-a-workflow", "runners-gpu-t4-jobs", "full", GPU)
        # A container action has no GPU. On a pool without GPUs it has CPUs.
        | pod("gpu-t4-a-step-0a1b2c3d", "runners-gpu-t4-jobs", "cpus", "none")
    )
    cpus = 0.384
    assert not holds(
        tmp_path,
        equal(hour(f'{JOBS}{{repository="example/app",scale_set="gpu-t4",pool="t4"}}'), T4 / 4),
        equal(hour(f'{JOBS}{{repository="example/app",scale_set="gpu-t4",pool="cpu"}}'), cpus * (0.25 + 4) / 8),
        equal(hour('gpu_ci:team_usd_per_hour{team="default"}'), T4 / 4 + cpus * 4.25 / 8),
        f"absent(sum({START}))",
        equal(f"{hour(JOBS)} + {hour(IDLE)}", hour(NODES)),
        equal(hour(NODES), T4 + cpus),
        fleet=fleet,
        series=series,
    )


def test_slices_of_a_gpu_add_up_to_it(tmp_path):
    assert not holds(
        tmp_path,
        equal(hour(f'{JOBS}{{pool="slices"}}'), XLARGE * 3 / 4),
        equal(hour(f'{JOBS}{{repository="example/app",scale_set="gpu-slice"}}'), XLARGE / 4),
        equal(hour(f'{IDLE}{{pool="slices"}}'), XLARGE / 4),
    )


def test_a_repository_that_is_not_listed_is_other(tmp_path):
    assert not holds(
        tmp_path,
        equal(hour(f'{JOBS}{{repository="other"}}'), T4 / 4),
        f'absent(sum({JOBS}{{repository="example/unlisted"}}))',
    )


def test_a_fleet_of_one_repository_keeps_its_name_without_a_list():
    github = builders.config()["github"] | {"url": "https://github.com/example/app"}
    own = load(builders.config(github=github))
    [info] = [rule["expr"] for rule in cost_groups(own, "usw2")[0]["rules"] if rule["record"] == "gpu_ci:job_info"]
    assert "(?i:example/app)" in info
    [info] = [
        rule["expr"] for rule in cost_groups(load(builders.config()), "usw2")[0]["rules"] if rule["record"] == "gpu_ci:job_info"
    ]
    assert "(?i:" not in info


def test_teams_own_the_namespaces_of_their_queues_and_the_sets_of_their_runner_group(tmp_path):
    assert not holds(
        tmp_path,
        equal(hour('gpu_ci:team_usd_per_hour{team="research"}'), XLARGE / 4),
        equal(hour('gpu_ci:team_usd_per_hour{team="default"}'), T4 / 4 * 2.5 + XLARGE / 4),
        equal(hour('gpu_ci:team_usd_per_hour{team="other"}'), XLARGE / 4),
        equal(hour("gpu_ci:team_usd_per_hour"), hour(JOBS)),
    )


def test_a_machine_that_is_reserved_and_no_node_is_idle(tmp_path):
    assert not holds(
        tmp_path,
        equal(hour(f'{NODES}{{pool="kept",node="bought"}}'), KEPT),
        equal(hour(f'{NODES}{{pool="kept",node=""}}'), KEPT),
        equal(hour(f'{IDLE}{{pool="kept"}}'), KEPT),
    )


def test_nodes_beyond_the_minimum_cost_themselves_and_their_disks(tmp_path):
    more = SERIES | node("second", "spot", "g4dn.xlarge", GPU, 1)
    fleet = use1()
    two = {"nodes": fleet.clusters["use1"].pools["spot"].nodes.model_copy(update={"min": 2})}
    pools = fleet.clusters["use1"].pools
    cluster = fleet.clusters["use1"].model_copy(update={"pools": pools | {"spot": pools["spot"].model_copy(update=two)}})
    larger = total(bill(fleet.model_copy(update={"clusters": {"use1": cluster}}), DAY))[0].usd
    # The bill takes the more expensive type for both, and one of them is the cheaper one.
    measured = f"{hour(NODES)} + {hour(SHARED)}"
    assert not holds(tmp_path, equal(measured, larger - LARGER + XLARGE, within=1e-6), series=more)


def test_a_node_whose_type_no_label_says_has_the_price_of_the_most_expensive_type(tmp_path):
    series = {'kube_node_labels{node="own",label_gpu_ci_pool="spot"}': ALWAYS}
    assert not holds(tmp_path, equal(hour(f'{NODES}{{node="own"}}'), LARGER), series=series)


def test_the_rules_of_every_stack_and_example_are_valid(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on PATH: install the package prometheus")
    for path in (*builders.ROOT.glob("Pulumi.*.yaml"), *builders.ROOT.glob("examples/Pulumi.*.yaml")):
        fleet = load(builders.read_stack(path))
        for name, _ in fleet.clusters_by_name():
            (tmp_path / f"{path.stem}-{name}.json").write_text(json.dumps({"groups": cost_groups(fleet, name)}))
    files = sorted(tmp_path.glob("*.json"))
    assert len(files) > len(list(builders.ROOT.glob("examples/Pulumi.*.yaml")))
    done = subprocess.run([promtool, "check", "rules", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_described_nodes_are_found_by_their_selector_and_cost_what_the_settings_state(tmp_path):
    described = load(builders.config(clusters={"lab": builders.existing_context(usdPerHour=0.5)}))
    series = node("lab-0", "", "k3s", GPU, 2) | pod("gpu-t4-a", CLASS, "lab-0", GPU, repository="example/app")
    own = {key.replace('label_gpu_ci_pool=""', 'label_nvidia_com_gpu_product="Tesla-T4"'): value for key, value in series.items()}
    assert not holds(
        tmp_path, equal(hour(JOBS), 0.25), equal(hour(IDLE), 0.25), equal(hour(SHARED), 0), fleet=described, series=own
    )
    assert "nvidia.com/gpu.product" in node_labels(described.clusters["lab"])


def test_a_node_without_a_known_price_has_no_cost_and_not_the_cost_zero(tmp_path):
    unknown = load(builders.config(clusters={"lab": builders.existing_context()}))
    assert not [rule for rule in cost_groups(unknown, "lab")[0]["rules"] if rule["record"] == NODES]


def test_the_control_plane_costs_more_from_the_day_on_which_extended_support_begins(tmp_path):
    late = load(builders.config(clusters={"usw2": builders.cluster(kubernetesVersion="1.34", monitoring=MONITORING)}))
    [expr] = [rule["expr"] for rule in cost_groups(late, "usw2")[0]["rules"] if "planned_idle" in rule["record"]]
    found = re.fullmatch(r"vector\((.+)\) \+ (.+) \* \(vector\(time\(\)\) >= bool (\d+)\)", expr)
    assert found
    before, more, start = float(found[1]), float(found[2]), date.fromtimestamp(int(found[3]))
    assert before == pytest.approx(total(bill(late, date(start.year - 1, 1, 1)))[0].usd)
    assert before + more == pytest.approx(total(bill(late, start))[0].usd)
    assert more == pytest.approx(0.5)


def test_a_runner_knows_the_price_of_its_part_of_a_node_for_the_action_job_cost():
    cluster = use1().clusters["use1"]

    def usd(**changes: Any) -> str | None:
        runner = builders.runner_of(**changes)
        [container] = pod_set(cluster, "gpu", runner, use1().github).values["template"]["spec"]["containers"]
        return {each["name"]: each["value"] for each in container["env"]}.get(USD_PER_HOUR)

    assert float(usd(pool="t4", gpus=2) or 0) == T4 / 2
    assert float(usd(pool="slices") or 0) == XLARGE / 4
    assert usd(pool="spot") == f"0-{LARGER}", (
        "a spot price is not known, so the on-demand price of the larger type is its upper bound"
    )
    unknown = load(builders.config(clusters={"lab": builders.existing_context()})).clusters["lab"]
    made = pod_set_of(cluster, "gpu", builders.runner_of(pool="t4", gpus=2, containers="job"), use1().github)
    job = made.templates["job.json"]["spec"]["containers"][0]
    assert {"name": USD_PER_HOUR, "value": str(T4 / 2)} in job["env"], "the job's container has it"
    assert USD_PER_HOUR not in str(made.chart.values), "the runner's own pod runs no step"
    assert USD_PER_HOUR not in str(pod_set(unknown, "gpu", builders.runner_of(), use1().github).values)


def state_metrics() -> Any:
    """The values of kube-state-metrics, as the file has them."""
    return read_yaml(Path(chart.__file__).with_name(f"{STACK}.yaml")).value["kube-state-metrics"]  # type: ignore[index]


def test_kube_state_metrics_exports_the_repository_alone_and_may_read_runners():
    values = state_metrics()
    resource, sets = values["customResourceState"]["config"]["spec"]["resources"]
    metric, *times = resource["metrics"]
    names = [f"{resource['metricNamePrefix']}_{each['name']}" for each in (metric, *times)]
    assert names == [JOB_INFO, *(f"kube_customresource_ephemeralrunner_{time}" for time in ("created", "job_started"))]
    assert all(each["labelsFromPath"].keys() == {"namespace", "pod"} for each in times)
    labels: dict[str, Any] = metric["labelsFromPath"] | metric["each"]["info"]["labelsFromPath"]
    assert set(labels) == {"namespace", "name", "repository"}, "a job's id, branch and workflow are unbounded"
    [phase] = sets["metrics"]
    assert f"{sets['metricNamePrefix']}_{phase['name']}" == "kube_customresource_autoscalingrunnerset_info"
    assert phase["labelsFromPath"].keys() | phase["each"]["info"]["labelsFromPath"].keys() == {"namespace", "name", "phase"}
    kinds = {each["groupVersionKind"]["kind"].lower() + "s" for each in (resource, sets)}
    [granted] = [rule for rule in values["rbac"]["extraRules"] if rule["apiGroups"] == [resource["groupVersionKind"]["group"]]]
    assert (set(granted["resources"]), granted["verbs"]) == (kinds, ["list", "watch"]), "exactly what it reads"


@pytest.mark.parametrize(("at", "label", "field"), [(0, "repository", "jobRepositoryName"), (1, "phase", "phase")])
def test_the_exported_field_is_in_the_schema_of_the_resource(at: int, label: str, field: str):
    resource = state_metrics()["customResourceState"]["config"]["spec"]["resources"][at]
    kind = resource["groupVersionKind"]["kind"].lower()
    schema = json.loads(builders.reference(f"schemas/actions.github.com/{kind}_v1alpha1.json").read_text())
    info = resource["metrics"][0]["each"]["info"]
    assert (info["path"], info["labelsFromPath"]) == (["status"], {label: [field]})
    assert schema["properties"]["status"]["properties"][field]["type"] == "string"


def test_the_times_of_a_runner_are_those_of_its_creation_and_of_the_listeners_write():
    resource, _ = state_metrics()["customResourceState"]["config"]["spec"]["resources"]
    created, started = (each["each"]["gauge"]["path"] for each in resource["metrics"][1:])
    written = [
        {"manager": "manager", "subresource": "status", "time": "2026-11-23T10:00:02Z"},
        {"manager": "ghalistener", "subresource": "status", "time": "2026-11-23T10:03:00Z"},
    ]
    runner = {"metadata": {"creationTimestamp": "2026-11-23T10:00:00Z", "managedFields": written}}
    assert _found(runner, created) == "2026-11-23T10:00:00Z"
    assert _found(runner, started) == "2026-11-23T10:03:00Z"
    written.pop()
    assert _found(runner, started) is None, "the runner has no job yet"


def _found(resource: Any, path: list[str]) -> Any:
    """What kube-state-metrics finds by registry_factory.go, compilePath: `[key=value]` is the first entry with that value."""
    for part in path:
        if part.startswith("["):
            key, value = part.strip("[]").split("=", 1)
            resource = next((each for each in resource if each[key] == value), {})
        else:
            resource = resource.get(part)
    return resource
