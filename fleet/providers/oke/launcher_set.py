"""Values of runner scale sets whose runners are OCI machines: the runner pod is a launcher on the system pool.

ARC gives the launcher the registration of one job. The launcher passes it to one machine and runs until that machine is gone.
"""

from itertools import chain
from typing import Annotated, Any

from pydantic import Field

from fleet.charts.arc import LAUNCHER_POD
from fleet.charts.chart import Chart, part, resources
from fleet.charts.runner_sets import SetSettings, of_cluster
from fleet.facts.pods import CONFINED, CONFINED_POD, Level
from fleet.facts.scheduling import SYSTEM_SELECTOR, machine_annotations
from fleet.facts.versions import CNCF_LAUNCHER_IMAGE, LAUNCHER_IMAGE
from fleet.providers.oke.cluster import OkePools
from fleet.providers.oke.ocid import CompartmentId, Region, require_place, require_region
from fleet.providers.oke.vm_runner import MachineRunner, Place, VmPerJobRunner, VmRunner, require_own_network
from fleet.providers.tags import OCI_TAGS
from fleet.settings.github import GitHub
from fleet.settings.model import LabelKey, LabelValue, TagKey, TagValue
from fleet.settings.monitoring import REMOTE_WRITE
from fleet.settings.refusals import matching, refusal

LAUNCHER = "launcher"
"""Name of the launcher's ServiceAccount and of its ConfigMap, in the set's namespace."""
LAUNCHER_PROGRAM = "launcher.py"
LAUNCHER_SETTINGS = "launcher.json"
"""Keys of the ConfigMap. The settings hold ids that are unknown until the network exists, so they cannot be chart values."""
_USER = 10_001
"""A user that the image does not have: the files that the launcher reads are readable by all users of its pod."""
_PATIENCE = 600
"""Seconds that a launcher has to terminate its machine after Kubernetes asks its pod to stop."""


_KEY = matching("provider_tag", OCI_TAGS.key.pattern, allowed=OCI_TAGS.words)
FreeformTags = Annotated[dict[Annotated[TagKey, _KEY], TagValue], Field(max_length=OCI_TAGS.most)]


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
    level: Level = "restricted"
    if isinstance(made, PerJobSet) and not made.booted_here:
        level = "baseline"
        pod = _pod("cncf", made.launcher_image or CNCF_LAUNCHER_IMAGE, arguments=_cncf_arguments(made))
    else:
        security = CONFINED_POD | {"runAsUser": _USER, "runAsGroup": _USER}
        pod = _pod("own", made.launcher_image or LAUNCHER_IMAGE, region=made.region, security=security)
    common = {"nodeSelector": dict(made.launcher_node_selector), "terminationGracePeriodSeconds": _PATIENCE}
    return made.scale_set(common | pod, level=level, annotations=_machine(made))


def _machine(made: MachineSet) -> dict[str, str]:
    """The pod's annotations about the machine that it boots; none for a standing machine."""
    if not isinstance(made, PerJobSet):
        return {}
    regions = [place.region for place in made.places]
    return machine_annotations(shapes=made.shapes, capacity=made.capacity, disk_gb=made.disk // 1024, regions=regions)


def _pod(kind: str, image: str, **given: Any) -> dict[str, Any]:
    """A launcher's pod. `given` is what settings decide of it besides the image."""
    secure = CONFINED | {"readOnlyRootFilesystem": True}
    return part(__file__, kind, image=image, sizes=resources(LAUNCHER_POD), secure=secure, **given)


def _cncf_arguments(made: PerJobSet) -> list[str]:
    first, *rest = made.places
    return [
        "--arch=amd64",
        f"--shape={','.join(made.shapes)}",
        f"--compartment-id={made.compartment_id}",
        f"--region={first.region}",
        f"--availability-domain={','.join(first.availability_domains)}",
        f"--subnet-id={first.subnet}",
        # Without domains the launcher never tries the fallback. Without the arguments it would use CNCF's own defaults.
        *chain.from_iterable(map(_fallback, rest or (first.model_copy(update={"availability_domains": ()}),))),
        f"--preemptible={'true' if made.capacity == 'spot' else 'false'}",
        # Empty, because otherwise the launcher needs access to a ConfigMap and a job that restarts lost jobs.
        "--preemption-queue-configmap=",
        f"--boot-volume-size-gb={made.disk // 1024}",
    ]


def _fallback(place: Place) -> tuple[str, ...]:
    """The arguments for a second place."""
    return (
        f"--fallback-region={place.region}",
        f"--fallback-availability-domain={','.join(place.availability_domains)}",
        f"--fallback-subnet-id={place.subnet}",
    )


def oke_charts(cluster: OkePools, physical_name: str, github: GitHub) -> tuple[Chart, ...]:
    """The runner sets whose runners are machines. ARC starts a launcher for each machine."""
    sets = (machine_set_of(cluster, physical_name, name, runner, github) for name, runner in cluster.machine_runners())
    return tuple(map(machine_chart, sets))
