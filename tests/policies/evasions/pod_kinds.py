"""Kinds of other projects that make pods: where each has the spec of a pod, and how it multiplies it.

The shapes are those of the CRDs of the projects.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.policies.evasions.objects import GPU, IMAGE, Manifest, Object, case, container, gpu_spec, on_gpu, thing

ARC = "actions.github.com/v1alpha1"
REPOSITORY = {"githubConfigUrl": "https://github.com/example", "githubConfigSecret": "github-app"}


def _template(body: Object) -> Object:
    return {"metadata": {"labels": {"app": "train"}}, "spec": body}


def _ray(body: Object) -> Object:
    workers = {"groupName": "gpu", "replicas": 500, "minReplicas": 500, "maxReplicas": 500, "rayStartParams": {}}
    head = {"rayStartParams": {}, "template": _template(body)}
    return {"rayVersion": "2.46.0", "headGroupSpec": head, "workerGroupSpecs": [workers | {"template": _template(body)}]}


def _workflow(body: Object) -> Object:
    # A template of Argo has one container, and the fields of the pod beside it.
    (main, *_), rest = body["containers"], {key: value for key, value in body.items() if key in _OF_TEMPLATE}
    patch = {key: value for key, value in body.items() if key not in (*_OF_TEMPLATE, "containers", "restartPolicy")}
    fan = {"withSequence": {"count": "500"}, "name": "all", "template": "main"}
    steps: Object = {"name": "fan", "steps": [[fan]]}
    return {"entrypoint": "fan", "templates": [steps, {"name": "main", "container": main} | rest]} | (
        {"podSpecPatch": json.dumps(patch)} if patch.keys() & {"hostPID", "hostNetwork", "hostIPC"} else {}
    )


_OF_TEMPLATE = ("nodeSelector", "tolerations", "volumes", "initContainers", "securityContext", "priorityClassName")


def _replicas(kind: str) -> Callable[[Object], Object]:
    return lambda body: {kind: {"Worker": {"replicas": 500, "restartPolicy": "Never", "template": _template(body)}}}


def _job(body: Object) -> Object:
    return {"parallelism": 500, "completions": 500, "template": _template(body)}


def _ephemeral(body: Object) -> Object:
    return REPOSITORY | {"runnerScaleSetId": 1, "metadata": {}, "spec": body}


def _task(body: Object) -> Object:
    steps = [{key: value for key, value in one.items() if key != "resources"} for one in body["containers"]]
    requests = body["containers"][0].get("resources", {})
    pods = {key: body[key] for key in ("nodeSelector", "tolerations", "hostNetwork", "securityContext") if key in body}
    volumes = {"volumes": body["volumes"]} if "volumes" in body else {}
    return {"taskSpec": {"steps": [one | {"computeResources": requests} for one in steps]} | volumes, "podTemplate": pods}


def _of_runner(body: Object) -> Object:
    """The fields that ARC's legacy runner shares with a pod."""
    return {key: value for key, value in body.items() if key != "restartPolicy"}


KINDS: dict[str, tuple[str, str, Callable[[Object], Object]]] = {
    "ray-job": ("ray.io/v1", "RayJob", lambda body: {"entrypoint": "python train.py", "rayClusterSpec": _ray(body)}),
    "ray-cluster": ("ray.io/v1", "RayCluster", _ray),
    "workflow": ("argoproj.io/v1alpha1", "Workflow", _workflow),
    "cron-workflow": (
        "argoproj.io/v1alpha1",
        "CronWorkflow",
        lambda body: {"schedules": ["*/5 * * * *"], "workflowSpec": _workflow(body)},
    ),
    "rollout": ("argoproj.io/v1alpha1", "Rollout", lambda body: {"replicas": 500, "template": _template(body)}),
    "job-set": (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        lambda body: {"replicatedJobs": [{"name": "train", "replicas": 50, "template": {"spec": _job(body)}}]},
    ),
    "leader-worker-set": (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        lambda body: {"replicas": 50, "leaderWorkerTemplate": {"size": 10, "workerTemplate": _template(body)}},
    ),
    "pytorch-job": ("kubeflow.org/v1", "PyTorchJob", _replicas("pytorchReplicaSpecs")),
    "mpi-job": ("kubeflow.org/v2beta1", "MPIJob", _replicas("mpiReplicaSpecs")),
    "notebook": ("kubeflow.org/v1", "Notebook", lambda body: {"template": {"spec": body}}),
    "train-job": (
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        lambda body: {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {
                "image": body["containers"][0]["image"],
                "numNodes": 500,
                "resourcesPerNode": body["containers"][0]["resources"],
            },
            "podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": {**body, "containers": [{"name": "node"}]}}],
        },
    ),
    "knative-service": (
        "serving.knative.dev/v1",
        "Service",
        lambda body: {"template": {"metadata": {"annotations": {"autoscaling.knative.dev/min-scale": "500"}}, "spec": body}},
    ),
    "inference-service": (
        "serving.kserve.io/v1beta1",
        "InferenceService",
        lambda body: {"predictor": body | {"minReplicas": 500}},
    ),
    "clone-set": ("apps.kruise.io/v1alpha1", "CloneSet", lambda body: {"replicas": 500, "template": _template(body)}),
    "scaled-job": (
        "keda.sh/v1alpha1",
        "ScaledJob",
        lambda body: {
            "jobTargetRef": {"template": _template(body)},
            "maxReplicaCount": 500,
            "triggers": [{"type": "cron", "metadata": {"timezone": "UTC", "start": "0 6 * * *", "end": "0 20 * * *"}}],
        },
    ),
    "volcano-job": (
        "batch.volcano.sh/v1alpha1",
        "Job",
        lambda body: {"minAvailable": 1, "tasks": [{"name": "train", "replicas": 500, "template": _template(body)}]},
    ),
    "task-run": ("tekton.dev/v1", "TaskRun", _task),
    "ephemeral-runner": (ARC, "EphemeralRunner", _ephemeral),
    "ephemeral-runner-set": (
        ARC,
        "EphemeralRunnerSet",
        lambda body: {"replicas": 500, "patchID": 0, "ephemeralRunnerSpec": _ephemeral(body)},
    ),
    "runner-set-of-another-version": (
        "actions.github.com/v1beta1",
        "AutoscalingRunnerSet",
        lambda body: REPOSITORY | {"minRunners": 500, "template": _template(body)},
    ),
    "runner-set-of-another-group": (
        "actions.example.com/v1alpha1",
        "AutoscalingRunnerSet",
        lambda body: REPOSITORY | {"minRunners": 500, "template": _template(body)},
    ),
    "runner-deployment": (
        "actions.summerwind.dev/v1alpha1",
        "RunnerDeployment",
        lambda body: {"replicas": 500, "template": {"spec": {"repository": "example/app", "ephemeral": True} | _of_runner(body)}},
    ),
}
"""By id of a case: API version, kind, and the object's `spec` around the spec of a pod."""


def moved(kind: str, body: Object) -> Object:
    """An object of one of `KINDS` with these pods."""
    version, name, around = KINDS[kind]
    return thing(version, name, around(body))


_ROOT = on_gpu(8, image="docker.io/evil/miner:latest", securityContext={"privileged": True})
CASES: tuple[Manifest, ...] = (
    *(
        case(name, f"runs privileged pods with 8 GPUs by {kind} of {version}", "S4", moved(name, gpu_spec(_ROOT)))
        for name, (version, kind, _) in KINDS.items()
    ),
    case(
        "helm-release-of-flux",
        "lets Flux install a chart whose values ask for 500 privileged pods",
        "S4",
        thing(
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            {
                "interval": "5m",
                "chart": {
                    "spec": {"chart": "train", "version": "1.2.3", "sourceRef": {"kind": "HelmRepository", "name": "evil"}}
                },
                "values": {"replicaCount": 500, "securityContext": {"privileged": True}, "resources": {"limits": {GPU: 8}}},
            },
        ),
    ),
    case(
        "train-job-by-words",
        "gives a TrainJob an image and GPUs, and writes no container",
        "S4",
        thing(
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            {
                "runtimeRef": {"name": "torch-distributed"},
                "trainer": {"image": IMAGE, "numNodes": 500, "resourcesPerNode": {"limits": {GPU: 8}}},
            },
        ),
    ),
    case(
        "unknown-kind",
        "writes a kind that no project has, with the template of a pod deep inside",
        "S4",
        thing("example.com/v1", "Batch", {"stages": [{"workers": [{"pod": {"spec": gpu_spec(_ROOT)}}]}]}),
    ),
    case(
        "runner-set-listener",
        "runs a privileged listener by an EphemeralRunner without GPUs",
        "S4",
        moved("ephemeral-runner", {"containers": [container(name="runner", securityContext={"privileged": True})]}),
    ),
)
