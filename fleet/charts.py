"""Each Helm chart as plain data, made by pure functions of the fleet.

No value here is known late: cloud rights come by EKS Pod Identity, secrets by name. So policies see every value in a preview, and
Git can hold them. A chart ignores keys that it does not know, so a test holds every key against the chart's own values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet import versions
from fleet.model import cpu_text, memory_text
from fleet.runner import PodRunner
from fleet.scheduling import (
    GPU_PRESENT_LABEL,
    GPU_RESOURCE,
    GPU_TOLERATION,
    SAFE_TO_EVICT,
    SYSTEM_POOL,
    pool_selector,
)
from fleet.versions import DAEMONSETS, RUNNER_IMAGE

KUBE_SYSTEM = "kube-system"
DEVICE_PLUGIN_NAMESPACE = "nvidia-device-plugin"
CONTROLLER_NAMESPACE = "arc-systems"
CONTROLLER = "arc-controller"
AUTOSCALER = "cluster-autoscaler"
APP_SECRET = "github-app"  # noqa: S105 - the name of a Kubernetes Secret, not a secret
RUNNER_UID = 1001
"""User `runner` of the upstream runner image (actions/runner, images/Dockerfile)."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One release: `needs` names the releases that must stand before it and outlive it."""

    name: str
    namespace: str
    repository: str
    chart: str
    version: str
    values: dict[str, Any]
    needs: tuple[str, ...] = ()


def _chart(published: str, name: str, namespace: str, values: dict[str, Any], needs: tuple[str, ...] = ()) -> Chart:
    row = versions.CHARTS[published]
    return Chart(name, namespace, row.repository, row.name, row.version, values, needs)


def _resources(cpu: int, memory: int) -> dict[str, Any]:
    """Requests and a memory limit; no CPU limit, which only throttles a controller."""
    return {
        "requests": {"cpu": cpu_text(cpu), "memory": memory_text(memory)},
        "limits": {"memory": memory_text(memory * 2)},
    }


_CONFINED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""What the Pod Security Standard `restricted` asks of a pod and of a container; the namespaces enforce it."""


def device_plugin() -> Chart:
    """NVIDIA's device plugin: the one advertiser of `nvidia.com/gpu` on nodes whose image brings driver and toolkit."""
    ours = DAEMONSETS["nvidia-device-plugin"]
    on_gpu_nodes = {"key": GPU_PRESENT_LABEL, "operator": "In", "values": ["true"]}
    return _chart(
        "nvidia-device-plugin",
        "nvidia-device-plugin",
        DEVICE_PLUGIN_NAMESPACE,
        {
            # Stated, though close to the defaults: the default affinity also accepts labels that only NFD sets.
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [on_gpu_nodes]}]
                    }
                }
            },
            "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, GPU_TOLERATION.manifest()],
            "resources": _resources(ours.cpu, ours.memory),
            "gfd": {"enabled": False},
        },
    )


def cluster_autoscaler(cluster: str, region: str, kubernetes: str) -> Chart:
    """Cluster Autoscaler of the cluster's own minor, on the system pool, with rights by Pod Identity."""
    return _chart(
        "cluster-autoscaler",
        AUTOSCALER,
        KUBE_SYSTEM,
        {
            "fullnameOverride": AUTOSCALER,
            # Without both the chart renders no Deployment and says nothing.
            "autoDiscovery": {"clusterName": cluster},
            "awsRegion": region,
            "image": {"tag": versions.KUBERNETES[kubernetes].cluster_autoscaler},
            "rbac": {"serviceAccount": {"name": AUTOSCALER}},
            "extraArgs": {
                "expander": "least-waste",
                "skip-nodes-with-system-pods": False,
                # A GPU node boots, joins and pulls in five to ten minutes.
                "max-node-provision-time": "20m",
                # Ten minutes by default, for all pools: a pool's own shorter idleDelay would mean nothing.
                "scale-down-delay-after-add": "1m",
            },
            "nodeSelector": pool_selector(SYSTEM_POOL),
            "resources": _resources(100, 600),
        },
    )


def arc_controller() -> Chart:
    """The controller of runner scale sets, once a cluster."""
    return _chart(
        "gha-runner-scale-set-controller",
        CONTROLLER,
        CONTROLLER_NAMESPACE,
        {
            "fullnameOverride": CONTROLLER,
            "serviceAccount": {"name": CONTROLLER},
            "nodeSelector": pool_selector(SYSTEM_POOL),
            "resources": _resources(100, 256),
            "podSecurityContext": _CONFINED_POD,
            "securityContext": _CONFINED,
            "flags": {"logLevel": "info", "logFormat": "json"},
        },
    )


def runner_namespace(runner_set: str) -> str:
    """The namespace that holds one set's runners and its GitHub App secret, and nothing else."""
    return f"runners-{runner_set}"


def runner_set(name: str, runner: PodRunner, github_url: str, group: str) -> Chart:
    """One runner scale set: ephemeral runners as pods of one pool."""
    return _chart(
        "gha-runner-scale-set",
        name,
        runner_namespace(name),
        {
            "githubConfigUrl": github_url,
            "githubConfigSecret": APP_SECRET,
            "runnerScaleSetName": name,
            # The name is a label by itself; the chart adds it.
            "scaleSetLabels": list(runner.labels),
            "runnerGroup": group,
            "minRunners": runner.scale.min,
            "maxRunners": runner.scale.max,
            # Given, because the chart otherwise looks for it in a cluster that a preview does not have.
            "controllerServiceAccount": {"namespace": CONTROLLER_NAMESPACE, "name": CONTROLLER},
            "template": {
                "metadata": {"annotations": {SAFE_TO_EVICT: "false"}},
                "spec": _runner_pod(runner),
            },
            "listenerTemplate": {
                "spec": {
                    "nodeSelector": pool_selector(SYSTEM_POOL),
                    "securityContext": _CONFINED_POD,
                    "containers": [{"name": "listener", "resources": _resources(50, 128), "securityContext": _CONFINED}],
                }
            },
        },
        needs=(CONTROLLER,),
    )


def _runner_pod(runner: PodRunner) -> dict[str, Any]:
    gpu = {GPU_RESOURCE: runner.gpus}
    scratch = {"ephemeral-storage": memory_text(runner.scratch)}
    return {
        "automountServiceAccountToken": False,
        "nodeSelector": pool_selector(runner.pool),
        "tolerations": [GPU_TOLERATION.manifest()],
        "securityContext": _CONFINED_POD | {"runAsUser": RUNNER_UID, "fsGroup": RUNNER_UID},
        "containers": [
            {
                # The chart finds the runner by this name.
                "name": "runner",
                "image": runner.image or RUNNER_IMAGE,
                "command": ["/home/runner/run.sh"],
                "env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}],
                "resources": {
                    "requests": {"cpu": cpu_text(runner.cpu.request), "memory": memory_text(runner.memory.request)}
                    | gpu
                    | scratch,
                    "limits": {"cpu": cpu_text(runner.cpu.limit), "memory": memory_text(runner.memory.limit)} | gpu,
                },
                "securityContext": _CONFINED,
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - a mount point, not a temporary file
            }
        ],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": memory_text(runner.shm)}}],
    }
