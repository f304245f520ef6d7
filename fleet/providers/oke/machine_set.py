"""What the chart of a set of OCI machines is made of. The chart, and the component that installs it, read these settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from fleet.charts.chart import Chart
from fleet.charts.runner_sets import SetSettings, of_cluster
from fleet.facts.scheduling import SYSTEM_SELECTOR
from fleet.providers.oke.cluster import OkePools
from fleet.providers.oke.launcher_set import launcher_set
from fleet.providers.oke.ocid import CompartmentId, Region, require_place, require_region
from fleet.providers.oke.vm_runner import MachineRunner, VmPerJobRunner, VmRunner, require_own_network
from fleet.providers.tags import OCI_TAGS
from fleet.settings.github import GitHub
from fleet.settings.model import LabelKey, LabelValue, TagKey, TagValue, problem, refusal
from fleet.settings.monitoring import REMOTE_WRITE


def _key(key: str) -> str:
    if not OCI_TAGS.key.fullmatch(key):
        raise problem("provider_tag", f"OCI has tags with keys of {OCI_TAGS.words}; rename it")
    return key


FreeformTags = Annotated[dict[Annotated[TagKey, AfterValidator(_key)], TagValue], Field(max_length=OCI_TAGS.most)]


class Surroundings(SetSettings):
    """What a set of machines finds in cluster and network."""

    region: Region
    home_region: Region | None = None
    compartment_id: CompartmentId
    network_compartment_ids: tuple[CompartmentId, ...] = ()
    machine_set_name: Annotated[TagValue, Field(min_length=1)]
    metrics_url: Annotated[str, REMOTE_WRITE] | None = None
    launcher_node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    tags: FreeformTags = Field(default_factory=dict)
    stack_tag: TagValue | None = None


class StandingSet(VmRunner, Surroundings):
    """A set of standing machines."""

    @refusal
    def _region_rules(self) -> None:
        """Refuse domains and an image of another region."""
        require_place(self.availability_domains, self.region)
        require_region(self.image.id, self.region, at=("image", "id"))


class PerJobSet(VmPerJobRunner, Surroundings):
    """A set with a machine for each job."""

    @refusal
    def _region_rules(self) -> None:
        """Refuse places in other regions without network and image."""
        require_own_network(self, self.region, at=())


MachineSet = StandingSet | PerJobSet


def machine_set_of(cluster: OkePools, physical_name: str, name: str, runner: MachineRunner, github: GitHub) -> MachineSet:
    """The set of a runner class of a cluster, without what only the program knows. `physical_name` is the cluster's."""
    kind: type[MachineSet] = StandingSet if isinstance(runner, VmRunner) else PerJobSet
    made: MachineSet = kind.model_construct(
        **runner.set_fields(type(runner)) | of_cluster(cluster, name, runner, github),
        region=cluster.region,
        compartment_id=cluster.machines_in,
        machine_set_name=f"{physical_name}-{name}",
        launcher_node_selector=dict(SYSTEM_SELECTOR),
    )
    return made


def machine_chart(made: MachineSet) -> Chart:
    """The chart of a set."""
    return launcher_set(
        made.runner_scale_set_name,
        made,
        made.github_url,
        made.group or "default",
        region=made.region,
        compartment=made.compartment_id,
        selector=made.launcher_node_selector,
        place=made.place,
    )


def oke_charts(cluster: OkePools, physical_name: str, github: GitHub) -> tuple[Chart, ...]:
    """The runner sets whose runners are machines. ARC starts a launcher for each machine."""
    return tuple(
        machine_chart(machine_set_of(cluster, physical_name, name, runner, github)) for name, runner in cluster.machine_runners()
    )
