"""The versions of a kind cluster with GPUs and Kubeflow Trainer, which a job creates: `fleet/facts/data/versions.toml`."""

from __future__ import annotations

from typing import Any

from fleet.facts.tables import toml

_ROWS: dict[str, Any] = toml("versions.toml")["kubeflow"]
NODE_IMAGE: str = _ROWS["node"]["reference"]
NODE_TOOLKIT: str = _ROWS["node-toolkit"]["version"]
"""The container toolkit of the kind nodes, not of the host."""
DRIVER_BRANCH: int = _ROWS["driver"]["branch"]
"""The oldest allowed branch of the host's driver."""
TRAINER: str = _ROWS["trainer"]["version"]
TRAINER_COMMIT: str = _ROWS["trainer"]["commit"]
