"""OKE's add-ons that the program installs, and their versions."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator

from fleet.settings.model import problem

AUTOSCALER_ADDON: Literal["ClusterAutoscaler"] = "ClusterAutoscaler"
PLUGIN_ADDON: Literal["NvidiaGpuPlugin"] = "NvidiaGpuPlugin"
_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+([.-][\w.-]+)?")


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise problem(
            "addon_version", "not an add-on's version; write one that `oci ce addon-option list` shows, for example v1.34.2"
        )
    return text


AddonVersions = dict[Literal["ClusterAutoscaler", "NvidiaGpuPlugin"], Annotated[str, AfterValidator(_version)]]
"""By OKE's name of the add-on. Oracle updates by itself what has none (docs.oracle.com, updating a cluster add-on)."""
