"""The configs that the machines of a cluster boot from, as files for Git."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleet.render.talos.files import talos_files
from fleet.settings.cluster import Cluster

_FILES: Mapping[str, Callable[[str, Any], Mapping[str, str]]] = {"talos": talos_files}
"""Functions by provider. The machines of other providers boot images of their cloud."""


def machine_files(name: str, cluster: Cluster) -> Mapping[str, str]:
    """The text of each file by its path, for the cluster `name`. Empty if the provider has no such files."""
    make = _FILES.get(cluster.provider)
    return make(name, cluster) if make else {}
