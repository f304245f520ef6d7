"""Settings of an OKE pool that its nodes apply at their first boot: kubelet's, and the array of local disks.

A managed node pool has no field for either, nor for the performance of its boot volume (OCI API, NodeSourceViaImageDetails: size
alone). Its cloud-init script passes kubelet's flags to OKE's own script (docs.oracle.com, custom cloud-init scripts;
oracle/terraform-provider-oci#1504). Containers run by CRI-O, so FastImagePull has no counterpart.
"""

from __future__ import annotations

from typing import Any, Literal

from fleet.settings.kubelet import KubeletFlags, owned_fields
from fleet.settings.model import Model

_FLAGS = {
    "podPidsLimit": "pod-max-pids",
    "cpuManagerPolicy": "cpu-manager-policy",
    "topologyManagerPolicy": "topology-manager-policy",
    "topologyManagerScope": "topology-manager-scope",
    "serializeImagePulls": "serialize-image-pulls",
    "registryPullQPS": "registry-qps",
    "registryBurst": "registry-burst",
    "imageGCHighThresholdPercent": "image-gc-high-threshold",
    "imageGCLowThresholdPercent": "image-gc-low-threshold",
    "containerLogMaxSize": "container-log-max-size",
    "containerLogMaxFiles": "container-log-max-files",
}
"""Flags of kubelet by field (kubernetes/kubernetes cmd/kubelet/app/options/options.go, AddKubeletConfigFlags)."""
_NO_FLAG = "is not a flag of kubelet, and an OKE pool passes only flags; an unknown flag would stop kubelet"
OKE_OWNED = owned_fields("OKE") | dict.fromkeys(
    ("maxParallelImagePulls", "shutdownGracePeriod", "shutdownGracePeriodCriticalPods"), _NO_FLAG
)
"""Fields that an OKE pool may not have, with the reason."""


class OkeLocalStorage(Model):
    """What a node does with the local disks of a bare metal machine. Without it they are not used."""

    strategy: Literal["RAID0"]
    """`RAID0`: one array of all local disks, on which kubelet, containers and pod logs have their files. Example: `RAID0`"""


def kubelet_flags(kubelet: KubeletFlags | None) -> tuple[str, ...]:
    """The settings as flags, such as --pod-max-pids=4096."""
    fields: dict[str, Any] = kubelet.model_dump(mode="json", by_alias=True, exclude_none=True) if kubelet else {}
    return tuple(f"--{_FLAGS[key]}={str(value).lower() if isinstance(value, bool) else value}" for key, value in fields.items())
