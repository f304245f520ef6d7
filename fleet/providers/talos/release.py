"""What of a machine config differs between the Talos releases that are pinned."""

from __future__ import annotations

from fleet.facts.versions import minor

_DOCUMENTS_FROM = (1, 14)
"""Release from which node, kernel modules and CRI have documents of their own; beside `KubeNodeConfig`, which its generator
writes, the older fields are refused (siderolabs/talos v1.14.0-rc.1 CHANGELOG.md and pkg/machinery/config/types/k8s/node.go)."""
_CONTAINER_CLI_BELOW = (1, 13)
"""Release whose toolkit extension generates CDI and has no nvidia-container-cli (siderolabs/extensions v1.12.11 has it)."""


def has_documents(talos_version: str) -> bool:
    """Whether a Talos minor wants documents where older ones have fields of the v1alpha1 config."""
    return minor(talos_version) >= _DOCUMENTS_FROM


def has_container_cli(talos_version: str) -> bool:
    """Whether GPUs get into containers by nvidia-container-cli, which loads BPF programs."""
    return minor(talos_version) < _CONTAINER_CLI_BELOW
