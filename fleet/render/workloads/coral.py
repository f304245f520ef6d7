"""A Google Coral at a USB port (seed 004)."""

from __future__ import annotations

from pathlib import Path

from fleet.charts.chart import manifests
from fleet.facts.scheduling import Toleration
from fleet.render.workloads import parts
from fleet.settings.workloads import WORKLOAD_IMAGES, CoralWorkload

IMAGE = WORKLOAD_IMAGES["coral"]
USB = "/dev/bus/usb"
CHECK = (Path(__file__).parent / "run" / "coral_check.py").read_text(encoding="utf-8")


def coral(meta: parts.Meta, workload: CoralWorkload, tolerations: tuple[Toleration, ...] = ()) -> tuple[parts.Manifest, ...]:
    """A Deployment of one pod on the node with the stick; `tolerations` are those of the node's pool, if it is of one.

    Root, privileged and with a folder of the host, so of the Pod Security level `privileged`: the kernel's device cgroup lets no
    other container open a USB device that a hostPath shows (kubernetes/kubernetes#105761, google-coral/edgetpu#488), the files
    belong to root, and the stick gets another file when it loads its firmware, so one file of it would not do.
    """
    container = {
        "name": "coral",
        "image": workload.image or IMAGE.reference,
        "command": list(workload.command or ("python3", "-u", "-c", CHECK)),
        "resources": parts.resources(workload, {}),
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "usb", "mountPath": USB}],
    }
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": dict(workload.node),
        "tolerations": manifests(tolerations),
        "containers": [container],
        "volumes": [{"name": "usb", "hostPath": {"path": USB, "type": "Directory"}}],
    }
    return (parts.deployment(meta, pod),)
