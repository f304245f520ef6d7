"""The arguments of OciGpuRunner as settings: a runner class of OCI machines, and what it finds in cluster and network."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from components.arguments import checked, require, settings
from components.kubernetes.set_settings import SetSettings
from components.oci.tags import FreeformTags
from fleet.providers.oke.ocid import CompartmentId, Region, require_place, require_region
from fleet.providers.oke.vm_runner import VmPerJobRunner, VmRunner, require_own_network
from fleet.settings.model import LabelKey, LabelValue, TagValue
from fleet.settings.monitoring import REMOTE_WRITE


class _Surroundings(SetSettings):
    region: Region
    home_region: Region | None = None
    compartment_id: CompartmentId
    network_compartment_ids: tuple[CompartmentId, ...] = ()
    machine_set_name: Annotated[TagValue, Field(min_length=1)]
    metrics_url: Annotated[str, REMOTE_WRITE] | None = None
    launcher_node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    tags: FreeformTags = Field(default_factory=dict)
    stack_tag: TagValue | None = None


class StandingSet(VmRunner, _Surroundings):
    """A set of standing machines."""

    @model_validator(mode="after")
    def _region_rules(self) -> Self:
        """Refuse domains and an image of another region."""
        require_place(self.availability_domains, self.region)
        require_region(self.image.id, self.region, at=("image", "id"))
        return self


class PerJobSet(VmPerJobRunner, _Surroundings):
    """A set with a machine for each job."""

    @model_validator(mode="after")
    def _region_rules(self) -> Self:
        """Refuse places in other regions without network and image."""
        require_own_network(self, self.region, at=())
        return self


MachineSet = StandingSet | PerJobSet


_NAMES = {"group": "runnerGroup", "capacity": "capacityType"}
_SPAN = {"scale.min": "minRunners", "scale.max": "maxRunners"}
_OF_KIND = {
    "vm": ("count", "availabilityDomains"),
    "vm-per-job": ("places", "launcher", "lifetime", *_SPAN.values()),
}
"""Arguments that only sets of one kind have."""
_OF_OWN_LAUNCHER = ("clusterId", "subnetId", "securityGroupId")
"""Arguments that this project's launcher needs. CNCF's launcher has its own API key, and each of its places names a subnet."""


def machine_set(inputs: dict[str, Any]) -> MachineSet:
    """The settings of a set from its inputs. Raises InputPropertyError for the first broken rule."""
    kind = inputs["kind"]
    checked("kind", kind, _OF_KIND.__contains__, f"must be {' or '.join(_OF_KIND)}; write one of them")
    for other, keys in _OF_KIND.items():
        for key in keys:
            require(other == kind or key not in inputs, key, f"only a set of kind {other} has this argument; remove it")
    found: MachineSet
    if kind == "vm":
        found = settings(StandingSet, inputs, _NAMES)
    else:
        require("maxRunners" in inputs, "maxRunners", "required argument is missing; add it")
        found = settings(PerJobSet, inputs, _NAMES | _SPAN)
    for key in _OF_OWN_LAUNCHER:
        require(not found.booted_here or key in inputs, key, "this project's launcher needs it; add it")
    pushes = found.metrics_url is not None
    require(found.booted_here or not pushes, "metricsUrl", "CNCF's launcher cannot pass it to its machines; remove it")
    require(
        pushes == ("metricsSecurityGroupId" in inputs), "metricsSecurityGroupId", "it goes with metricsUrl; give both or neither"
    )
    return found
