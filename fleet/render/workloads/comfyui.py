"""ComfyUI: images by a graph of models (seed 004)."""

from __future__ import annotations

from fleet.facts.scheduling import HIGH_PRIORITY
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import WORKLOAD_IMAGES, ComfyuiWorkload

IMAGE = WORKLOAD_IMAGES["comfyui"]
PORT = 8188
_BUNDLE = "/default-comfyui-bundle/ComfyUI"
_DATA = "/data"


def comfyui(meta: parts.Meta, workload: ComfyuiWorkload, target: Target) -> tuple[parts.Manifest, ...]:
    """A Deployment, its Service and the volume with models, inputs, outputs and nodes of one's own.

    The image's script is passed over: it copies the program to /root as root, once, so that a newer image would run the old one.
    The manager of nodes stays behind with it: it installs code from the internet while ComfyUI runs.
    """
    container = parts.gpu_container(
        workload,
        target,
        "comfyui",
        IMAGE.reference,
        {"HOME": _DATA, "USER": "comfyui", "PYTHONDONTWRITEBYTECODE": "1"},
        command=[
            "sh",
            "-c",
            # It lists this folder before it makes any.
            f'mkdir -p {_DATA}/custom_nodes && exec python3 "$@"',
            "sh",
            f"{_BUNDLE}/main.py",
            "--listen=0.0.0.0",
            f"--port={PORT}",
            f"--base-directory={_DATA}",
            # By itself it is beside the program, where only root writes.
            f"--database-url=sqlite:///{_DATA}/comfyui.db",
        ],
        ports=[{"name": "http", "containerPort": PORT}],
        **parts.probes("/system_stats", startup_seconds=600),
    )
    mounts = [parts.claimed("data", _DATA, workload.claim(meta.name)), *parts.shared_memory(workload, target)]
    return (
        parts.claim(meta, workload.KEPT, workload.storage),
        parts.service(meta, PORT, "http"),
        parts.deployment(meta, parts.gpu_pod(target, container, mounts, HIGH_PRIORITY)),
    )
