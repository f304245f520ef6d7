"""The programs that a world is made of: which are on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet.facts.errors import InputError

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "helm", "arc-manager", "ghalistener")
"""Programs without which no world starts."""
OPTIONAL = {
    "cluster-autoscaler": "the cloud makes nodes by a simple rule of ours",
    "prometheus": "no alert is evaluated",
    "kube-state-metrics": "alerts read no state of objects",
    "kueue": "queues are not installed",
}
"""Programs that may be missing, and what that means."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The programs by name."""

    paths: Mapping[str, Path]

    def __getitem__(self, name: str) -> str:
        return str(self.paths[name])

    def __contains__(self, name: str) -> bool:
        return name in self.paths

    @property
    def missing(self) -> list[str]:
        """Needed programs that this machine does not have."""
        return [name for name in NEEDED if name not in self]

    def require(self) -> None:
        """Raise InputError if a needed program is missing."""
        if self.missing:
            raise InputError(f"programs: {', '.join(self.missing)} are not on PATH; `gpu-ci world --get` downloads or names each")


def cache() -> Path:
    """The folder of downloaded programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-ci" / "world"


def find(folder: Path | None = None) -> Parts:
    """Search PATH, and then the folder of downloads."""
    path = os.pathsep.join([os.environ.get("PATH", ""), str(folder or cache())])
    named = ((name, shutil.which(name, path=path)) for name in (*NEEDED, *OPTIONAL))
    return Parts({name: Path(place) for name, place in named if place is not None})
