"""Arguments for each packaged component, with the names that they have on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

GITOPS = {"repository": "https://git.example.com/fleet.git", "path": "clusters/own", "revision": "main"}
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoExecute"}
SHARED = {"sharing": {"strategy": "time-slicing", "replicas": 4.0, "rename": True, "allowSeveral": False}, "cdi": False}

SPANS = {"cpu": {"request": "4", "limit": "4"}, "memory": {"request": "16Gi", "limit": "16Gi"}}
RUNNERS = {"githubUrl": "https://github.com/example", "maxRunners": 4.0, **SPANS}
APP = {"appId": "123456", "installationId": "456789", "privateKey": "the-key-of-the-app"}

ARGUMENTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "ArcRunnerSet": [
        RUNNERS,
        {
            **RUNNERS,
            "githubApp": APP,
            "githubSecret": "own-app",
            "runnerScaleSetName": "gpu-l4",
            "labels": ["l4"],
            "runnerGroup": "GPUs",
            "minRunners": 1.0,
            "gpus": 2.0,
            "gpuResource": "nvidia.com/gpu.shared",
            "shm": "4Gi",
            "mountsShm": False,
            "scratch": "40Gi",
            "image": "ghcr.io/actions/actions-runner:2.330.0",
            "nodeSelector": {"node.kubernetes.io/instance-type": "g6.xlarge"},
            "tolerations": [TOLERATION],
            "runtimeClass": "nvidia",
            "listenerNodeSelector": {"kubernetes.io/os": "linux"},
            "priorityClass": "ci",
            "namespace": "gpu-runners",
            "createNamespace": False,
            "isolate": True,
            "closedNetworks": ["10.0.0.0/8"],
            "openNetworks": ["10.1.2.0/24"],
            "controllerNamespace": "arc",
            "controllerServiceAccount": "arc-gha-rs-controller",
        },
        {
            **RUNNERS,
            "manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}, "data": {"a_key": "value"}}],
            "installChart": True,
            "gitops": GITOPS,
        },
    ],
    "DevicePluginStack": [
        {},
        {"tolerations": [TOLERATION], "access": [SHARED], "runtimeHandler": "nvidia"},
        {"access": [{"sharing": {"strategy": "mig", "profile": "1g.10gb", "naming": "mixed"}}], "gitops": GITOPS},
    ],
    "GpuOperator": [
        {},
        {
            "installDriver": True,
            "installToolkit": True,
            "devicePlugin": True,
            "driver": {"version": "580.65.06", "repository": "registry.example.com/nvidia", "pullSecrets": ["registry"]},
            "containerd": {"config": "/etc/containerd/config.toml", "socket": "/run/containerd/containerd.sock"},
            "serviceMonitor": True,
            "cdi": True,
            "migStrategy": "single",
            "tolerations": [TOLERATION],
            "access": [SHARED],
            "controllerNodeSelector": {"gpu-ci/system": "true"},
        },
        {"driverRoot": "/run/nvidia/driver", "gitops": GITOPS},
    ],
}
"""Each component's arguments: first the smallest set that works. Together they have every argument."""

WRONG: Mapping[str, Sequence[tuple[Mapping[str, Any], str, str]]] = {
    "ArcRunnerSet": [
        ({"maxRunners": "many"}, "maxRunners", "whole number"),
        ({"maxRunners": 2.5}, "maxRunners", "whole number"),
        ({"cpu": {"request": "4"}}, "cpu.limit", "add it"),
        ({"githubUrl": "git@github.com:example"}, "githubUrl", "https://"),
        ({"closedNetworks": ["10.0.0.0/33"]}, "closedNetworks[0]", "CIDR"),
    ],
    "DevicePluginStack": [
        (
            {"access": [{"sharing": {"strategy": "time-slicing", "replicas": "many"}}]},
            "access[0].sharing.replicas",
            "whole number",
        ),
        ({"tolerations": [{"operator": "Exists"}]}, "tolerations[0].key", "add it"),
        ({"tolerations": {"key": "gpu"}}, "tolerations", "must be a list"),
        ({"runtime": "nvidia"}, "runtime", "unknown argument"),
    ],
    "GpuOperator": [
        ({"migStrategy": "all"}, "migStrategy", "none"),
        ({"driver": "580"}, "driver", "not a mapping"),
        ({"installDriver": "yes"}, "installDriver", "true or false"),
        ({"gitops": {"path": "own"}}, "gitops.repository", "add it"),
    ],
}
"""Arguments that a component refuses, the path in its error, and words of the rule."""
