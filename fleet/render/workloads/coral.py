"""A Google Coral at a USB port (seed 004)."""

from __future__ import annotations

from pathlib import Path

from fleet.charts.chart import amounts, manifests
from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import Toleration
from fleet.render.workloads import parts
from fleet.settings.workloads import WORKLOAD_IMAGES, CoralWorkload

USB = "/dev/bus/usb"
CHECK = (Path(__file__).parent / "run" / "coral_check.py").read_text(encoding="utf-8")


def coral(meta: parts.Meta, workload: CoralWorkload, tolerations: tuple[Toleration, ...] = ()) -> tuple[Manifest, ...]:
    """A Deployment of one pod on the node that has the stick. `tolerations` are those of the node's pool, if it is in a pool.

    The container is root and privileged, and mounts a folder of the host, so it needs the Pod Security level `privileged`. The
    kernel's device cgroup lets no other container open a USB device that a hostPath shows (kubernetes/kubernetes#105761,
    google-coral/edgetpu#488), and the device files belong to root. The pod mounts the whole folder because the stick gets another
    device file when it loads its firmware.
    """
    container = {
        "name": "coral",
        "image": workload.image or WORKLOAD_IMAGES["coral"].reference,
        "command": list(workload.command or ("python3", "-u", "-c", CHECK)),
        "resources": amounts(workload.cpu, workload.memory, workload.scratch, {}),
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
