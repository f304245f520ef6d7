"""Jobs as Kubernetes takes them: seed 001's examples, and what each argument does."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.jobs import JobError, create_gpu_job, gpu_job, manifest
from fleet.loading.config import load
from fleet.providers.installed import pool_target
from tests.builders import cluster, config, oke_cluster, oke_pool, pool

IMAGE = "registry.example.com/agent_bus:1.4.2"
NOT_SPOT = {"key": "gpu-ci/capacity", "operator": "NotIn", "values": ["spot"]}
ANY_GPU_NODE = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def made(**given: Any) -> dict[str, Any]:
    return create_gpu_job("task", IMAGE, **given)


def pod(job: dict[str, Any]) -> Any:
    return job["spec"]["template"]["spec"]


def container(job: dict[str, Any]) -> Any:
    (found,) = pod(job)["containers"]
    return found


def env(job: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(job)["env"]}


def required(job: dict[str, Any]) -> Any:
    (term,) = pod(job)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return term["matchExpressions"]


# -- seed 001 ------------------------------------------------------------------------------------------------------------


CALL: dict[str, Any] = {
    "task_id": "ml_task_123",
    "image": "agent_bus:latest",
    "gpu_count": 1,
    "gpu_type": "v100",
    "memory": "16Gi",
    "cpu": "8000m",
    "command": ["python", "-m", "src.workers.worker"],
    "env": {"WORKER_TYPE": "gpu", "TASK_ID": "ml_task_123"},
}
"""The seed's call of `create_gpu_job`, word for word."""


def test_the_very_call_of_seed_001_is_refused_for_its_image_alone() -> None:
    with pytest.raises(JobError) as error:
        create_gpu_job(**CALL)
    assert [(each.field, each.value) for each in error.value.problems] == [("image", '"agent_bus:latest"')]


def test_the_call_of_seed_001_makes_its_job() -> None:
    job = create_gpu_job(**CALL | {"image": IMAGE})
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert job["metadata"]["name"].startswith("ml-task-123-"), "underscores are not part of a name"
    assert job["metadata"]["labels"] == {"gpu-ci/task-id": "ml_task_123"}
    assert container(job)["command"] == ["python", "-m", "src.workers.worker"]
    assert container(job)["resources"] == {
        "requests": {"memory": "8Gi", "cpu": "4", "nvidia.com/gpu": "1", "ephemeral-storage": "20Gi"},
        "limits": {"memory": "16Gi", "cpu": "8", "nvidia.com/gpu": "1"},
    }
    assert pod(job)["nodeSelector"] == {"accelerator": "nvidia-tesla-v100"}
    assert pod(job)["tolerations"] == [ANY_GPU_NODE], "which covers the seed's taint nvidia.com/gpu=true, and OKE's =present"
    assert env(job) == {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility", "WORKER_TYPE": "gpu", "TASK_ID": "ml_task_123"}


def test_the_complete_job_of_seed_001() -> None:
    job = create_gpu_job(
        "ml-training-job",
        IMAGE,
        gpu_type="a100",
        env={"WORKER_TYPE": "gpu", "CUDA_VISIBLE_DEVICES": "0"},
        shm="4Gi",
        workspace="ml-workspace",
        instance_type="p4d.24xlarge",
    )
    spec = job["spec"]
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (3, 3600)
    assert spec["activeDeadlineSeconds"] == 7200, "a stuck job ends"
    assert pod(job)["restartPolicy"] == "OnFailure"
    assert container(job)["resources"]["requests"] == {
        "memory": "16Gi",
        "cpu": "8",
        "nvidia.com/gpu": "1",
        "ephemeral-storage": "20Gi",
    }
    assert container(job)["resources"]["limits"] == {"memory": "32Gi", "cpu": "16", "nvidia.com/gpu": "1"}
    assert container(job)["volumeMounts"] == [
        {"name": "workspace", "mountPath": "/workspace"},
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
    ]
    assert pod(job)["volumes"] == [
        {"name": "workspace", "persistentVolumeClaim": {"claimName": "ml-workspace"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}},
    ]
    assert pod(job)["nodeSelector"] == {
        "accelerator": "nvidia-tesla-a100",
        "node.kubernetes.io/instance-type": "p4d.24xlarge",
    }
    assert env(job)["CUDA_VISIBLE_DEVICES"] == "0"


def test_the_preferences_of_seed_001_are_weighted_among_what_is_required() -> None:
    job = made(gpu_type="v100", prefer={"v100": 50, "A100": 100})
    assert "nodeSelector" not in pod(job), "a selector takes one value"
    both = {"key": "accelerator", "operator": "In", "values": ["nvidia-tesla-a100", "nvidia-tesla-v100"]}
    assert required(job) == [both, NOT_SPOT], "any other GPU is none of the preferred"
    assert pod(job)["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "accelerator", "operator": "In", "values": [f"nvidia-tesla-{gpu}"]}]},
        }
        for weight, gpu in ((100, "a100"), (50, "v100"))
    ]


@pytest.mark.parametrize("count", [2, 4, 8])
def test_several_gpus_are_asked_of_one_pod_with_as_much_of_all_else(count: int) -> None:
    job = made(gpu_count=count, gpu_type="A100", visible_devices=True)
    resources = container(job)["resources"]
    assert {resources[kind]["nvidia.com/gpu"] for kind in ("requests", "limits")} == {str(count)}
    assert resources["limits"]["memory"] == f"{32 * count}Gi"
    assert env(job)["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, range(count)))
    assert job["spec"].keys().isdisjoint({"parallelism", "completions"}), "one pod"


# -- selectors and tolerations -------------------------------------------------------------------------------------------


def test_a_job_that_may_not_be_interrupted_stays_off_spot_wherever_it_lands() -> None:
    assert required(made()) == [NOT_SPOT]
    assert "affinity" not in pod(made(spot=True))


def test_a_job_on_spot_tolerates_what_any_provider_puts_there() -> None:
    preemptible = {"key": "oci.oraclecloud.com/oke-is-preemptible", "operator": "Exists", "effect": "NoSchedule"}
    assert pod(made(spot=True))["tolerations"] == [ANY_GPU_NODE, preemptible]
    assert pod(made())["tolerations"] == [ANY_GPU_NODE]


def test_several_instance_types_are_alternatives() -> None:
    job = made(instance_type=["p3.2xlarge", "p3.8xlarge", "p3.2xlarge"])
    assert required(job)[0] == {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": ["p3.2xlarge", "p3.8xlarge"],
    }
    assert pod(job)["nodeSelector"] == {"accelerator": "nvidia-tesla-v100"}


def test_a_share_is_asked_by_its_own_name() -> None:
    for given, name in (
        ({"shared": True}, "nvidia.com/gpu.shared"),
        ({"resource": "nvidia.com/gpu.shared"}, "nvidia.com/gpu.shared"),
        ({"resource": "nvidia.com/mig-1g.5gb", "gpu_count": 2}, "nvidia.com/mig-1g.5gb"),
        ({"shared": True, "resource": "nvidia.com/gpu"}, "nvidia.com/gpu"),
    ):
        limits = container(made(gpu_type="a100", **given))["resources"]["limits"]
        assert [each for each in limits if each.startswith("nvidia.com/")] == [name]


def _bound(held: dict[str, Any], **given: Any) -> dict[str, Any]:
    fleet = load(config(clusters={"c": held}))
    (name,) = fleet.clusters["c"].pools
    return manifest(gpu_job("task", IMAGE, **given), pool_target(fleet.clusters["c"], name))


def test_a_bound_job_selects_its_pool_and_nothing_else() -> None:
    job = _bound(cluster(pools={"t4-spot": pool(capacity="spot")}, runners={}), gpu_type="t4", spot=True, prefer={"t4": 9})
    assert pod(job)["nodeSelector"] == {"gpu-ci/pool": "t4-spot"}
    assert "affinity" not in pod(job), "there is one GPU in a pool"
    assert pod(job)["tolerations"] == [ANY_GPU_NODE], "EKS has no taint for spot"


def test_a_bound_job_tolerates_the_taint_of_its_providers_spot_nodes() -> None:
    spot = oke_pool(instanceTypes=["VM.GPU3.1"], capacity="spot")
    job = _bound(oke_cluster(pools={"v100": spot}, runners={}), spot=True)
    assert [each["key"] for each in pod(job)["tolerations"]] == ["nvidia.com/gpu", "oci.oraclecloud.com/oke-is-preemptible"]


def test_under_mps_the_device_plugin_mounts_shared_memory_and_the_pod_does_not() -> None:
    shares = pool(sharing={"strategy": "mps", "replicas": 4})
    job = _bound(cluster(pools={"t4": shares}, runners={}), gpu_type="t4", shared=True)
    assert container(job)["resources"]["limits"]["nvidia.com/gpu.shared"] == "1"
    assert "volumes" not in pod(job)
    assert "volumeMounts" not in container(job)


def test_a_bound_job_names_the_runtime_class_where_the_operator_installs_the_runtime() -> None:
    held = oke_cluster(
        enablement="gpu-operator",
        operator={"driver": {"version": "580.173.02"}, "containerd": {"defaultRuntime": False}},
        pools={"a10": oke_pool(image="ubuntu")},
        runners={},
    )
    assert pod(_bound(held, gpu_type="a10"))["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in pod(made())


# -- the rest of the Job -------------------------------------------------------------------------------------------------


def test_a_job_with_a_queue_waits_until_the_queue_lets_it_go() -> None:
    job = made(queue="research", namespace="ml")
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
    assert "kueue.x-k8s.io/queue-name" not in job["spec"]["template"]["metadata"]["labels"], "the Job waits, not its pods"
    assert job["metadata"]["namespace"] == "ml"
    assert "suspend" not in made()["spec"]


def test_lost_nodes_are_no_failures_of_a_job_that_never_restarts_in_place() -> None:
    rules = made(restart_policy="Never")["spec"]["podFailurePolicy"]["rules"]
    assert rules == [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    assert "podFailurePolicy" not in made(restart_policy="OnFailure")["spec"], "the API takes it with Never alone"


def test_a_cache_of_models_is_where_the_libraries_look() -> None:
    job = made(cache="models", cache_path="/data/models", cache_read_only=True)
    assert {"name": "models", "mountPath": "/data/models", "readOnly": True} in container(job)["volumeMounts"]
    claim = {"claimName": "models", "readOnly": True}
    assert {"name": "models", "persistentVolumeClaim": claim} in pod(job)["volumes"]
    assert env(job)["HF_HOME"] == "/data/models/huggingface"
    assert env(job)["TORCH_HOME"] == "/data/models/torch"
    assert env(made(cache="models", env={"HF_HOME": "/workspace/hf"}))["HF_HOME"] == "/workspace/hf", "the job's own word counts"
    assert "HF_HOME" not in env(made())


def test_a_secret_is_named_and_not_told() -> None:
    job = made(secret_env={"HF_TOKEN": ("hugging-face", "token")})
    assert env(job)["HF_TOKEN"] == {"secretKeyRef": {"name": "hugging-face", "key": "token"}}


def test_a_secret_takes_the_place_of_a_default() -> None:
    names = [each["name"] for each in container(made(cache="c", secret_env={"HF_HOME": ("s", "k")}))["env"]]
    assert names.count("HF_HOME") == 1


def test_the_pod_has_no_right_that_it_does_not_need() -> None:
    job = made(user=2000, group=3000)
    assert pod(job)["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 2000,
        "runAsGroup": 3000,
        "fsGroup": 3000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container(job)["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert pod(job)["automountServiceAccountToken"] is False


def test_times_tries_and_tags_are_the_jobs_own() -> None:
    job = made(
        deadline="6h",
        ttl=60,
        backoff_limit=0,
        pull_secrets="registry",
        labels={"example.com/team": "vision"},
        annotations={"example.com/why": "because, of course"},
        args=["--epochs", "3"],
    )
    spec = job["spec"]
    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"], spec["backoffLimit"]) == (21_600, 60, 0)
    assert pod(job)["imagePullSecrets"] == [{"name": "registry"}]
    for metadata in (job["metadata"], spec["template"]["metadata"]):
        assert metadata["labels"]["example.com/team"] == "vision"
        assert metadata["annotations"]["example.com/why"] == "because, of course"
    assert container(job)["args"] == ["--epochs", "3"]
    assert "command" not in container(job), "the image's own"


def test_the_autoscaler_leaves_the_node_of_a_running_job_alone() -> None:
    annotations = made()["spec"]["template"]["metadata"]["annotations"]
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def test_a_task_that_is_no_labels_value_is_found_by_its_annotation() -> None:
    job = create_gpu_job("Übung 7: A100", IMAGE)
    assert job["metadata"]["annotations"]["gpu-ci/task-id"] == "Übung 7: A100"
    assert "labels" not in job["metadata"]
    assert "labels" not in job["spec"]["template"]["metadata"]


def test_each_job_is_the_callers_own() -> None:
    one = made()
    container(one)["securityContext"]["capabilities"]["drop"].clear()
    pod(one)["securityContext"]["seccompProfile"]["type"] = "Unconfined"
    assert container(made())["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert pod(made())["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
