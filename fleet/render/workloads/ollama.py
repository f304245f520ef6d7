"""Ollama: language models for what runs beside it (seed 004)."""

from __future__ import annotations

from fleet.facts.scheduling import HIGH_PRIORITY
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import WORKLOAD_IMAGES, OllamaWorkload

IMAGE = WORKLOAD_IMAGES["ollama"]
PORT = 11434
_HOME = "/ollama"


def ollama(meta: parts.Meta, workload: OllamaWorkload, target: Target) -> tuple[parts.Manifest, ...]:
    """A Deployment, its Service and the volume of its models.

    It asks for no password, so only its own namespace reaches it. Its home is the volume instead of /root: it is not root.
    """
    container = parts.gpu_container(
        workload,
        target,
        "ollama",
        IMAGE.reference,
        {"HOME": _HOME, "OLLAMA_MODELS": f"{_HOME}/models", "OLLAMA_HOST": f"0.0.0.0:{PORT}"},
        ports=[{"name": "http", "containerPort": PORT}],
        **parts.probes("/", startup_seconds=120),
    )
    mounts = [parts.claimed("models", _HOME, workload.claim(meta.name)), *parts.shared_memory(workload, target)]
    return (
        parts.claim(meta, workload.KEPT, workload.storage),
        parts.service(meta, PORT, "http"),
        parts.deployment(meta, parts.gpu_pod(target, container, mounts, HIGH_PRIORITY)),
    )
