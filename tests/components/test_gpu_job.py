"""A stack's jobs as resources: after all that they need, never waited for, and another run when they change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.build import build
from components.kubernetes.gpu_workload import GpuJob
from fleet.facts.scheduling import DELETION_PROPAGATION, JOB_PRIORITIES, RUNNER_PRIORITY, SKIP_AWAIT
from fleet.facts.versions import IMAGES
from fleet.jobs import gpu_job, place_job
from fleet.jobs.stack import place_stack_job
from fleet.loading.config import load
from fleet.prove.placement import PlacementError
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.recording import Recording, Resource
from policies.rules import RULES
from tests.builders import cluster, config, pool
from tests.cases import cases
from tests.components.recorded import before, build_alone, named, of_type
from tests.day import AS_OF
from tests.fleet.test_isolation import MINORS
from tests.fleet.test_pod_security import violations

JOB = "kubernetes:batch/v1:Job"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
NAMESPACE = "kubernetes:core/v1:Namespace"
NETWORK = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
KUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:"

TRAIN = {
    "namespace": "research",
    "image": IMAGES["pytorch"].reference,
    "command": ["python"],
    "pool": "t4",
    "cache": "models",
}
DESCRIBED = config(
    clusters={
        "usw2": cluster(
            pools={"t4": pool(nodes={"max": 4})},
            runners={},
            caches={"models": {"storage": "efs", "size": "500Gi", "namespaces": ["research"]}},
            queues={"teams": {"ml": {"namespaces": ["queued"], "quotas": [{"pool": "t4", "nominal": 2}]}}},
            jobs={"train": TRAIN, "wait": TRAIN | {"namespace": "queued", "queue": "ml", "cache": None}},
        )
    }
)
for held in DESCRIBED["clusters"]["usw2"]["jobs"].values():
    if held["cache"] is None:
        del held["cache"]


def _build(described: dict[str, Any]) -> None:
    build(load(described), "gpu-ci", "test", {"default": pulumi.Output.secret("a made-up key")})


@pytest.fixture(scope="module", params=["planned", "updated"])
def recording(request: pytest.FixtureRequest) -> Recording:
    """A cluster with a job that mounts a cache and one that waits in a queue: in preview, and as an update."""
    if request.param == "planned":
        return build_alone(lambda: _build(DESCRIBED), "described")
    return build_alone(lambda: _build(DESCRIBED), "described", preview=False)


def jobs(recording: Recording) -> Iterator[Resource]:
    found = of_type(recording, JOB)
    assert [each.name for each in found] == ["usw2-train-job", "usw2-wait-job"]
    yield from found


TTL = "ttlSecondsAfterFinished"


def test_it_is_the_manifest_without_its_time_to_live_and_two_words_to_pulumi(recording: Recording) -> None:
    for each in jobs(recording):
        name = each.name.split("-")[1]
        expected = place_stack_job(load(DESCRIBED), "usw2", name).manifest()
        words = {SKIP_AWAIT: "true", DELETION_PROPAGATION: "background"}
        assert each.inputs["spec"] | {TTL: 3600} == expected["spec"]
        assert TTL not in each.inputs["spec"], "Kubernetes would delete it, and the next update would run it again"
        assert each.inputs["metadata"] == expected["metadata"] | {"annotations": expected["metadata"]["annotations"] | words}


def test_no_update_waits_for_its_end(recording: Recording) -> None:
    for each in jobs(recording):
        assert each.inputs["metadata"]["annotations"][SKIP_AWAIT] == "true"


def test_a_change_of_anything_is_another_run_under_the_same_name(recording: Recording) -> None:
    # With restartPolicy Never the spec has a field more.
    never = gpu_job("never", "trainer:1.0", gpu_type="t4", restart_policy="Never")
    fields = place_job(load(DESCRIBED), never, cluster="usw2", pool="t4").manifest()["spec"].keys() - {TTL}
    for each in jobs(recording):
        assert {"metadata.labels", "metadata.annotations"} <= set(each.replace_on_changes)
        of_spec = {path.removeprefix("spec.") for path in each.replace_on_changes if path.startswith("spec.")}
        assert of_spec == fields | each.inputs["spec"].keys() - {"suspend"}
        assert each.delete_before_replace is True
        assert each.inputs["metadata"]["annotations"][DELETION_PROPAGATION] == "background", "the name is free at once"


def test_a_job_that_kueue_let_in_is_not_run_again_by_a_refresh(recording: Recording) -> None:
    waiting = named(recording, "usw2-wait-job", JOB)
    assert waiting.inputs["spec"]["suspend"] is True
    assert all(tuple(each.ignore_changes) == ("spec.suspend",) for each in jobs(recording))


def test_the_end_of_its_time_to_live_is_no_new_run(recording: Recording) -> None:
    """Stacks of version 0.1.0 have it in their state."""
    for each in jobs(recording):
        assert not [path for path in each.replace_on_changes if f"spec.{TTL}".startswith(path)]


def test_a_workload_that_is_a_job_stays_too() -> None:
    test = {"kind": "nvidia-smi", "pool": "t4", "namespace": "tests"}
    (job,) = of_type(build_alone(lambda: _build(config(clusters={"usw2": cluster(workloads={"smi": test})}))), JOB)
    assert job.inputs["spec"]["activeDeadlineSeconds"] == 3600
    assert TTL not in job.inputs["spec"]


def test_it_waits_for_namespace_wall_priority_and_its_claim(recording: Recording) -> None:
    for each in jobs(recording):
        stands = [found for found in recording.resources if found.urn in before(recording, each)]
        namespace = each.inputs["metadata"]["namespace"]
        assert [found for found in stands if found.type == NAMESPACE and found.inputs["metadata"]["name"] == namespace]
        assert [found for found in stands if found.type == NETWORK and found.inputs["metadata"]["namespace"] == namespace], (
            "its pods would start without a wall"
        )
        own = each.inputs["spec"]["template"]["spec"]["priorityClassName"]
        made = {found.inputs["metadata"]["name"] for found in stands if found.type == PRIORITY}
        assert own in made, "the API server refuses a pod of a class that is not there"
    claims = [
        found.name
        for found in of_type(recording, CLAIM)
        if found.urn in before(recording, named(recording, "usw2-train-job", JOB))
    ]
    assert claims == ["usw2-models.research"]


def test_a_job_of_a_queue_waits_for_that(recording: Recording) -> None:
    stands = before(recording, named(recording, "usw2-wait-job", JOB))
    queues = [each for each in recording.resources if each.type == f"{KUEUE}LocalQueue"]
    assert queues
    assert all(each.urn in stands for each in queues)


def test_nothing_waits_for_a_job(recording: Recording) -> None:
    for each in jobs(recording):
        waiting = [found.name for found in recording.resources if each.urn in found.dependencies]
        assert waiting == []


@cases("minor", MINORS)
def test_kubernetes_takes_it(recording: Recording, minor: str) -> None:
    for each in jobs(recording):
        kubernetes_validate.validate(dict(each.inputs), minor, strict=True)


def test_its_pods_may_be_in_its_namespace(recording: Recording) -> None:
    for each in jobs(recording):
        home = next(
            found
            for found in of_type(recording, NAMESPACE)
            if found.inputs["metadata"]["name"] == each.inputs["metadata"]["namespace"]
        )
        level = home.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        assert level == "restricted"
        assert list(violations(each.inputs["spec"]["template"]["spec"])) == []


def test_our_own_policies_have_nothing_against_it(recording: Recording) -> None:
    verdicts = judge(recording, configure(RULES, {"all": "mandatory"}, AS_OF))
    assert [each for each in verdicts if ":Job::" in str(each.urn)] == []


def test_where_no_queues_are_the_classes_of_jobs_are_made_for_them() -> None:
    alone = config(clusters={"usw2": cluster(runners={}, jobs={"train": {**TRAIN, "priority": "high-priority"}})})
    del alone["clusters"]["usw2"]["jobs"]["train"]["cache"]
    recording = build_alone(lambda: _build(alone))
    (job,) = of_type(recording, JOB)
    made = {each.inputs["metadata"]["name"] for each in of_type(recording, PRIORITY)}
    assert made == {RUNNER_PRIORITY.name, *(each.name for each in JOB_PRIORITIES)}
    classes = [each for each in of_type(recording, PRIORITY) if each.inputs["metadata"]["name"] == "high-priority"]
    assert classes[0].urn in before(recording, job)


def test_a_job_that_no_pool_holds_stops_the_program_before_the_first_resource() -> None:
    none = config(
        clusters={
            "usw2": cluster(
                jobs={"train": {**TRAIN, "cache": "models", "gpus": 8}},
                caches={"models": {"storage": "efs", "size": "1Gi", "namespaces": ["research"]}},
            )
        }
    )
    with pytest.raises(PlacementError, match=r"usw2\.jobs\.train: "):
        build_alone(lambda: _build(none))


def test_its_output_is_the_name_that_kubectl_wants() -> None:
    manifest = place_stack_job(load(DESCRIBED), "usw2", "train").manifest()
    seen: list[Any] = []

    def program() -> None:
        cloud = kubernetes.Provider("here", kubeconfig="{}")
        made = GpuJob("usw2-train", pulumi.ResourceOptions(providers=[cloud]), manifest, ())
        made.job_name.apply(seen.append)

    build_alone(program)
    assert seen == ["train"]
