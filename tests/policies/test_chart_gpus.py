"""GPUs by the values of charts: what one container and all pods ask for."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.gpu_limit_ceiling import RULE
from policies.rules.kinds import APPLICATION, RELEASE
from tests.policies.applications import application
from tests.policies.cases import Member
from tests.policies.harness import NAME, judge_stack
from tests.policies.suite import SCALE_SET

GPU = "nvidia.com/gpu"
LIMITS = {"resources": {"limits": {GPU: 1}}}
CEILINGS = {"maxPerContainer": 2, "maxPerWorkload": 8}


def told(values: Any, chart: str = "oci://example.com/train") -> tuple[str, ...]:
    return judge_stack(RULE, [Member(RELEASE, NAME, {"chart": chart, "version": "1", "values": values})], CEILINGS).messages


@pytest.mark.parametrize(
    ("values", "number"),
    [
        (LIMITS | {"replicaCount": 8}, 0),
        (LIMITS | {"replicaCount": 9}, 9),
        (LIMITS | {"replicaCount": "9"}, 9),
        ({"worker": LIMITS | {"replicas": 9}}, 9),
        ({"replicas": 3, "worker": [LIMITS | {"replicas": 3}]}, 9),
        ({"workers": [LIMITS] * 9}, 9),
        (LIMITS | {"autoscaling": {"enabled": True, "maxReplicas": 9}}, 9),
        (LIMITS | {"autoscaling": {"enabled": False, "maxReplicas": 100}}, 0),
        ({"resources": {"limits": {GPU: 2}, "requests": {GPU: 2}}, "replicaCount": 4}, 0),
        ({"resources": {"requests": {"amd.com/gpu": 2}}, "replicaCount": 5}, 10),
        (LIMITS | {"job": {"parallelism": 40}}, 40),
        (LIMITS | {"redis": {"replicas": 40}}, 0),
        ({"nodes": 40, "gpusPerNode": 1}, 40),
        ({"replicas": 5, "gpu": {"count": 2}}, 10),
        ({"modelSpec": [{"replicaCount": 8, "requestGPU": 2}]}, 16),
        ({"replicaCount": 100, "nodeSelector": {GPU: "4"}, "gpu": {"enabled": True}, "gpuMemoryUtilization": 9}, 0),
    ],
)
def test_all_pods_of_a_chart_together_stay_below_the_ceiling(values: Any, number: int) -> None:
    whole = f"values asks for {number} GPUs with all pods: together they take at most 8"
    assert [said.partition(";")[0] for said in told(values)] == ([whole] if number else [])


def test_one_container_of_a_chart_stays_below_its_ceiling() -> None:
    (message,) = told({"gpu": {"resources": {"limits": {GPU: 3}}}})
    assert message.startswith("values.gpu.resources asks for 3 GPUs: a container takes at most 2; ask for fewer, or raise ")


def test_the_paths_are_those_of_the_kind_and_a_scale_set_is_judged_by_its_pods() -> None:
    props = application({"chart": "oci://example.com/train", "version": "1", "values": LIMITS | {"replicaCount": 9}})
    (message,) = judge_stack(RULE, [Member(APPLICATION, NAME, props)], CEILINGS).messages
    assert message.startswith("spec.source.helm.valuesObject asks for 9 GPUs")
    pods = {"spec": {"containers": [{"name": "runner", **LIMITS}]}}
    assert told({"maxRunners": 8, "template": pods}, SCALE_SET) == ()
