"""Differences in machine configs between the pinned Talos releases."""

from fleet.facts.versions import minor

_DOCUMENTS_FROM = (1, 14)
"""The first release with separate documents for node, kernel modules and CRI. Its generator writes `KubeNodeConfig`, and with
that Talos rejects the older fields (siderolabs/talos v1.14.0-rc.1 CHANGELOG.md and pkg/machinery/config/types/k8s/node.go)."""
_CONTAINER_CLI_BELOW = (1, 13)
"""The first release whose toolkit extension generates CDI and has no nvidia-container-cli. The extension of v1.12.11 still has
it (siderolabs/extensions)."""


def has_documents(talos_version: str) -> bool:
    """Whether a Talos minor needs documents in place of some fields of the v1alpha1 config."""
    return minor(talos_version) >= _DOCUMENTS_FROM


def has_container_cli(talos_version: str) -> bool:
    """Whether nvidia-container-cli gives GPUs to containers. It loads BPF programs."""
    return minor(talos_version) < _CONTAINER_CLI_BELOW
