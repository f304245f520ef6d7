"""The arguments of OciGpuRunner from a program as settings."""

from __future__ import annotations

from typing import Any

from components.arguments import checked, require, settings
from fleet.providers.oke.machine_set import MachineSet, PerJobSet, StandingSet

PATHS = {"group": "runnerGroup", "capacity": "capacityType"}
SPAN = {"scale.min": "minRunners", "scale.max": "maxRunners"}
_OF_KIND = {
    "vm": ("count", "availabilityDomains"),
    "vm-per-job": ("places", "launcher", "lifetime", *SPAN.values()),
}
"""Arguments that only sets of one kind have."""
_OF_OWN_LAUNCHER = ("clusterId", "subnetId", "securityGroupId")
"""Arguments that this project's launcher needs. CNCF's launcher has its own API key, and each of its places names a subnet."""


def machine_set(inputs: dict[str, Any]) -> MachineSet:
    """The settings of a set from its inputs. Raises InputPropertyError for the first broken rule."""
    kind = inputs["kind"]
    checked("kind", kind, _OF_KIND.__contains__, f"must be {' or '.join(_OF_KIND)}; write one of them")
    for only, keys in _OF_KIND.items():
        for key in keys:
            require(only == kind or key not in inputs, key, f"only a set of kind {only} has this argument; remove it")
    runners: MachineSet
    if kind == "vm":
        runners = settings(StandingSet, inputs, PATHS)
    else:
        require("maxRunners" in inputs, "maxRunners", "required argument is missing; add it")
        runners = settings(PerJobSet, inputs, PATHS | SPAN)
    for key in _OF_OWN_LAUNCHER:
        require(not runners.booted_here or key in inputs, key, "this project's launcher needs it; add it")
    pushes = runners.metrics_url is not None
    require(runners.booted_here or not pushes, "metricsUrl", "CNCF's launcher cannot pass it to its machines; remove it")
    require(
        pushes == ("metricsSecurityGroupId" in inputs), "metricsSecurityGroupId", "it goes with metricsUrl; give both or neither"
    )
    return runners
