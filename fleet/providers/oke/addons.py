"""The OKE add-ons that the program installs, and their versions."""

from typing import Annotated, Literal

from fleet.settings.refusals import matching

AUTOSCALER_ADDON: Literal["ClusterAutoscaler"] = "ClusterAutoscaler"
PLUGIN_ADDON: Literal["NvidiaGpuPlugin"] = "NvidiaGpuPlugin"
_VERSION = matching("addon_version", r"v[0-9]+\.[0-9]+\.[0-9]+([.-][\w.-]+)?")
AddonVersion = Annotated[str, _VERSION]
AddonVersions = dict[Literal["ClusterAutoscaler", "NvidiaGpuPlugin"], AddonVersion]
"""Versions by OKE's name of the add-on. Oracle automatically updates an add-on without a version (docs.oracle.com, updating a
cluster add-on)."""
