"""ComfyUI: images by a graph of models (seed 004)."""

from __future__ import annotations

from fleet.facts.manifest import Manifest
from fleet.facts.pods import claimed
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import ComfyuiWorkload

PORT = 8188
_BUNDLE = "/default-comfyui-bundle/ComfyUI"
_DATA = "/data"


def comfyui(meta: parts.Meta, workload: ComfyuiWorkload, target: Target) -> tuple[Manifest, ...]:
    """A Deployment, its Service and the volume with models, inputs, outputs and custom nodes.

    The pod does not run the image's own script. That script copies the program to /root once, as root, so a newer image would
    still run the old program. It also starts the manager of nodes, which installs code from the internet while ComfyUI runs.
    """
    main = [
        f"{_BUNDLE}/main.py",
        "--listen=0.0.0.0",
        f"--port={PORT}",
        f"--base-directory={_DATA}",
        # By default the database is beside the program, where only root can write.
        f"--database-url=sqlite:///{_DATA}/comfyui.db",
    ]
    container = parts.gpu_container(
        workload,
        target,
        {"HOME": _DATA, "USER": "comfyui", "PYTHONDONTWRITEBYTECODE": "1"},
        # ComfyUI lists custom_nodes before it creates any folder.
        command=["sh", "-c", f'mkdir -p {_DATA}/custom_nodes && exec python3 "$@"', "sh", *main],
        **parts.serves(PORT, "/system_stats", startup_seconds=600),
    )
    volume = claimed("data", _DATA, workload.claim(meta.name))
    return parts.model_server(meta, workload, target, container, volume, workload.storage, PORT)
