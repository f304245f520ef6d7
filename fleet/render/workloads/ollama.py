"""Ollama: language models for the workloads of the same namespace (seed 004)."""

from __future__ import annotations

from fleet.facts.manifest import Manifest
from fleet.facts.pods import claimed
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import OllamaWorkload

PORT = 11434
_HOME = "/ollama"


def ollama(meta: parts.Meta, workload: OllamaWorkload, target: Target) -> tuple[Manifest, ...]:
    """A Deployment, its Service and the volume of its models.

    Ollama asks for no password, so only its own namespace can reach it. It does not run as root, so its home is the volume
    instead of /root.
    """
    env = {"HOME": _HOME, "OLLAMA_MODELS": f"{_HOME}/models", "OLLAMA_HOST": f"0.0.0.0:{PORT}"}
    container = parts.gpu_container(workload, target, env, **parts.serves(PORT, "/", startup_seconds=120))
    volume = claimed("models", _HOME, workload.claim(meta.name))
    return parts.model_server(meta, workload, target, container, volume, workload.storage, PORT)
