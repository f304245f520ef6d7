"""A real API server's answer at a ResourceQuota: which runner waits until there is room, and which job fails instead.

No controller runs here. So the test writes the status of quotas, as kube-controller-manager does.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from fleet.charts.chart import Chart
from fleet.facts.manifest import manifest
from fleet.facts.scheduling import RUNNER_PRIORITY
from fleet.loading.config import load
from fleet.prove.namespace_limits import limit_range, resource_quota
from tests.builders import cluster, config, runner
from tests.fleet.conformance import cluster_charts
from tests.fleet.test_container_jobs import JOBS, pods
from tests.kwok.server import ServerApi, api_server, apply, missing
from tests.kwok.test_job_admission import install, made, refusal

ARC_WAITS_FOR = "exceeded quota:"
"""In the text of a refusal with status 403. ARC then asks again after 30 seconds. For any other text the runner fails.

Source: actions-runner-controller gha-runner-scale-set-0.14.2, controllers/actions.github.com/ephemeralrunner_controller.go.
"""
GPU = "requests.nvidia.com/gpu"
_MERGE = "application/merge-patch+json"

needs_server = pytest.mark.skipif(bool(missing()), reason=f"not on PATH: {', '.join(missing())}")


def of_two_runners() -> Chart:
    """The chart of a class with at most two runners of one GPU."""
    fleet = load(config(clusters={"usw2": cluster(runners={"gpu-t4": runner(scale={"max": 2})})}))
    (chart,) = (chart for chart in cluster_charts(fleet, "usw2").values() if chart.chart == "gha-runner-scale-set")
    return chart


def a_pod(chart: Chart, number: int) -> dict[str, Any]:
    """The pod of a runner, as ARC creates it from the chart's template."""
    template = copy.deepcopy(chart.values["template"])
    return manifest("v1", "Pod", f"runner-{number}", chart.namespace) | {"spec": template["spec"] | {"restartPolicy": "Never"}}


def quota(api: ServerApi, name: str, namespace: str, spec: dict[str, Any]) -> None:
    """A quota of which nothing is in use."""
    apply(api, [manifest("v1", "ResourceQuota", name, namespace) | {"spec": spec}])
    count(api, name, namespace, spec["hard"], dict.fromkeys(spec["hard"], "0"))


def count(api: ServerApi, name: str, namespace: str, hard: dict[str, str], used: dict[str, str]) -> None:
    """Write what is in use, as kube-controller-manager does when a pod has gone."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/{name}/status"
    api.call("PATCH", path, {"status": {"hard": hard, "used": used}}, _MERGE)


def walls(api: ServerApi, chart: Chart) -> None:
    """The namespace of a class as the program renders it."""
    priority = manifest("scheduling.k8s.io/v1", "PriorityClass", RUNNER_PRIORITY.name) | {"value": RUNNER_PRIORITY.value}
    limits = manifest("v1", "LimitRange", "runners", chart.namespace) | {"spec": limit_range(chart)}
    apply(api, [priority, manifest("v1", "Namespace", chart.namespace), limits])
    quota(api, "runners", chart.namespace, resource_quota(chart))


@pytest.mark.kwok
@needs_server
def test_a_runner_waits_at_a_quota_and_starts_when_there_is_room(tmp_path: Path) -> None:
    chart = of_two_runners()
    space = chart.namespace
    with api_server(tmp_path) as api:
        walls(api, chart)
        for number in range(4):
            assert refusal(api, a_pod(chart, number), space, "") == "", "the own quota admits as many that stop"
        assert ARC_WAITS_FOR in refusal(api, a_pod(chart, 4), space, "")

        of_team = {GPU: "1"}
        quota(api, "team", space, {"hard": of_team})
        count(api, "runners", space, resource_quota(chart)["hard"], {GPU: "0", "pods": "0"})
        assert refusal(api, a_pod(chart, 5), space, "") == ""
        waits = refusal(api, a_pod(chart, 6), space, "")
        assert '"code":403' in waits
        assert f"{ARC_WAITS_FOR} team, requested: {GPU}=1, used: {GPU}=1, limited: {GPU}=1" in waits
        count(api, "team", space, of_team, {GPU: "0"})
        assert refusal(api, a_pod(chart, 6), space, "") == "", "the runner that waited has its pod"


@pytest.mark.kwok
@needs_server
def test_whatever_else_is_refused_ends_the_runner(tmp_path: Path) -> None:
    chart = of_two_runners()
    with api_server(tmp_path) as api:
        walls(api, chart)
        large = a_pod(chart, 1)
        large["spec"]["containers"][0]["resources"]["limits"]["memory"] = "999Gi"
        refused = refusal(api, large, chart.namespace)
        assert "maximum memory usage per Container" in refused
        assert ARC_WAITS_FOR not in refused


@pytest.mark.kwok
@needs_server
def test_the_own_quota_of_jobs_in_containers_refuses_no_job_of_the_class_and_one_of_gpus_would(tmp_path: Path) -> None:
    of_set = pods(podSecurity="baseline")
    with api_server(tmp_path) as api:
        install(api, of_set)
        (own,) = api.list(f"/api/v1/namespaces/{JOBS}/resourcequotas")
        count(api, own["metadata"]["name"], JOBS, own["spec"]["hard"], {"pods": "0"})

        def pod(number: int, file: str = "job.json") -> dict[str, Any]:
            one = made(of_set, file=file)
            return one | {"metadata": one["metadata"] | {"name": f"runner-{number}-{file[:3]}"}}

        for number in range(of_set.scale.max):
            for file in ("job.json", "step.json"):
                assert refusal(api, pod(number, file), JOBS, "") == ""
        quota(api, "team", JOBS, {"hard": {GPU: "0"}})
        assert ARC_WAITS_FOR in refusal(api, pod(99), JOBS), "the hooks do not ask again, so the job fails"
