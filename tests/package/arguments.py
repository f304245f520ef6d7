"""Arguments for each packaged component, with the names that they have on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

GITOPS = {"repository": "https://git.example.com/fleet.git", "path": "clusters/own", "revision": "main"}
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoExecute"}
SHARED = {"sharing": {"strategy": "time-slicing", "replicas": 4.0, "rename": True, "allowSeveral": False}, "cdi": False}

ARGUMENTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
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
