"""Pods in objects of any kind: where each project has them, and how many its numbers make."""

from __future__ import annotations

import pytest

from policies.rules.embedded import embedded
from policies.rules.read import Later
from tests.policies.evasions.objects import gpu_spec, on_gpu
from tests.policies.evasions.pod_kinds import KINDS, moved

OTHERS = {
    "workflow": ("spec.templates[1]", 500),
    "cron-workflow": ("spec.workflowSpec.templates[1]", 500),
    "ray-job": ("spec.rayClusterSpec.workerGroupSpecs[0].template.spec", 500),
    "ray-cluster": ("spec.workerGroupSpecs[0].template.spec", 500),
    "job-set": ("spec.replicatedJobs[0].template.spec.template.spec", 25000),
    "leader-worker-set": ("spec.leaderWorkerTemplate.workerTemplate.spec", 500),
    "pytorch-job": ("spec.pytorchReplicaSpecs.Worker.template.spec", 500),
    "mpi-job": ("spec.mpiReplicaSpecs.Worker.template.spec", 500),
    "notebook": ("spec.template.spec", 1),
    "train-job": ("spec", 500),
    "inference-service": ("spec.predictor", 500),
    "scaled-job": ("spec.jobTargetRef.template.spec", 500),
    "volcano-job": ("spec.tasks[0].template.spec", 500),
    "task-run": ("spec.taskSpec", 1),
    "ephemeral-runner": ("spec.spec", 1),
    "ephemeral-runner-set": ("spec.ephemeralRunnerSpec.spec", 500),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_pod_of_each_kind_has_its_path_and_its_number(kind: str) -> None:
    later = Later()
    *_, pod = embedded(moved(kind, gpu_spec(on_gpu(1))), later)
    assert (pod.path, pod.times, bool(later)) == (*OTHERS.get(kind, ("spec.template.spec", 500)), False)


def test_a_patch_of_argo_is_written_over_the_pod_unless_nobody_can_read_it() -> None:
    template = {"container": {"image": "a:1"}, "podSpecPatch": '{"hostPID": true}'}
    (pod,) = embedded({"spec": {"templates": [template]}}, Later())
    assert pod.spec["hostPID"] is True
    later = Later()
    list(embedded({"spec": {"templates": [template | {"podSpecPatch": "hostPID: true"}]}}, later))
    assert later.first is not None
    assert later.first.message == "spec.templates[0].podSpecPatch is not JSON, so nothing shows the pod that it makes"


def test_a_decoy_hides_no_pod_below_it() -> None:
    decoy = {"containers": [{"name": "a"}], "template": {"spec": {"containers": [{"name": "b"}]}}}
    assert [pod.path for pod in embedded({"spec": decoy}, Later())] == ["spec", "spec.template.spec"]
    inline = {"steps": [[{"name": "a", "inline": {"container": {"image": "a:1"}}}]]}
    assert [pod.path for pod in embedded({"spec": inline}, Later())] == ["spec.steps[0][0].inline"]


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"containers": [{"name": "a"}]}},
        {"status": {"containers": [{"name": "a"}]}},
        {"spec": {"strategy": {"canary": {"steps": [{"setWeight": 20}]}}}},
        {"spec": {"versions": [{"schema": {"properties": {"containers": {"type": "array"}}}}]}},
        {"spec": {"driver": {"image": "driver", "resources": {}}}},
        {"data": {"containers": "text"}},
        {},
    ],
)
def test_what_runs_nothing_has_no_pod(body: dict[str, object]) -> None:
    assert list(embedded(body, Later())) == []


def test_texts_with_units_are_no_numbers_of_pods() -> None:
    (pod,) = embedded({"spec": {"size": "10Gi", "replicas": "3", "template": {"spec": {"containers": [{"name": "a"}]}}}}, Later())
    assert pod.times == 3
