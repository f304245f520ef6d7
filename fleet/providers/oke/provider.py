"""Oracle Kubernetes Engine, and machines of Oracle Cloud that run one job each.

What a destroyed stack left is listed by the API of OCI Search.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fleet.facts.scheduling import OKE_PROFILE
from fleet.facts.tables import beside
from fleet.providers.oke import doctor
from fleet.providers.oke.bill import oke_bill, oke_needs
from fleet.providers.oke.cluster import OkeCluster, OkePools
from fleet.providers.oke.existing import ExistingOkeCluster
from fleet.providers.oke.fallback import oke_moves
from fleet.providers.oke.gateway import gateway, push_remarks
from fleet.providers.oke.launcher_set import oke_charts
from fleet.providers.oke.machine.launch import user_data
from fleet.providers.oke.starter import OkeStarter
from fleet.providers.provider import GONE, Left, Leftovers, Provider, Search, Violation, left, violation
from fleet.providers.tags import OCI_TAGS, STACK_TAG
from fleet.settings.github import GitHub
from fleet.settings.model import Nodes
from fleet.settings.pool import SystemMachines

DELETE = beside(__file__, "leftovers.toml")
"""The command by OCI's resource type, as oci-cli 3.95.1 has it."""
_OF_NODES = ("BootVolume", "Instance", "LoadBalancer", "NetworkLoadBalancer", "PrivateIp", "Vnic", "Volume")
"""What node pools, launchers and Kubernetes create, and no resource of the program does."""


class OciLeftovers(Leftovers):
    """What a stack has on OCI. `search` gives the search client of a region."""

    cloud, package = "OCI", "oci"

    def __init__(
        self, project: str, stack: str, clusters: Mapping[str, OkePools], search: Callable[[str], Any] | None = None
    ) -> None:
        self._stack = stack
        self._client = search or _search
        used = ((one.home_region or one.region, one.region, *(group[1] for group in one.shapes())) for one in clusters.values())
        self._regions = sorted({region for regions in used for region in regions})

    def __iter__(self) -> Iterator[Left]:
        """As in the base class."""
        import oci  # noqa: PLC0415 - an optional extra

        query = f"query all resources where (freeformTags.key = '{STACK_TAG}' && freeformTags.value = '{self._stack}')"
        details = oci.resource_search.models.StructuredSearchDetails(query=query)
        for region in self._regions:
            for resource in oci.pagination.list_call_get_all_results(self._client(region).search_resources, details).data:
                if (resource.lifecycle_state or "").lower() not in GONE:
                    kind, own = resource.resource_type, resource.resource_type not in _OF_NODES
                    yield left(DELETE, region, kind, resource.identifier, title=resource.display_name or "", own=own)

    def errors(self) -> tuple[type[Exception], ...]:
        """As in the base class."""
        from oci import exceptions  # noqa: PLC0415 - an optional extra

        return (exceptions.ClientError, exceptions.RequestException, exceptions.ServiceError, ValueError, OSError)

    def search(self, kind: str, inputs: Mapping[str, Any], region: str) -> Search | None:
        """As in the base class. The second word of an OCID is its type in small letters (docs.oracle.com, OCIDs)."""
        title = inputs.get("displayName") or inputs.get("name")
        if not isinstance(title, str):
            return None
        query = f"query all resources where displayName = '{title}'"
        words = ["oci", "search", "resource", "structured-search", "--region", region or self._regions[0], "--query-text", query]
        start = f"ocid1.{kind.rpartition(':')[2].lower()}."
        return Search(
            shlex.join(words), lambda: [each.names[0] for each in self if each.title == title and each.names[0].startswith(start)]
        )


def _search(region: str) -> Any:
    import oci  # noqa: PLC0415 - an optional extra

    return oci.resource_search.ResourceSearchClient({**oci.config.from_file(), "region": region})


class Oke(Provider[OkePools]):
    """OKE: managed node pools of one shape, and Oracle's add-on for the autoscaler."""

    settings, existing = OkeCluster, ExistingOkeCluster
    cloud = "oci"
    starter = OkeStarter()
    profile = OKE_PROFILE
    tags = OCI_TAGS
    packages = ("pulumi-oci",)
    boots = "oci"
    orders = True
    # A password goes through a pipe: every user of the machine can read the arguments of a process.
    push = (Path(__file__).parent / "push.txt").read_text(encoding="ascii")

    bill = staticmethod(oke_bill)

    needs = staticmethod(oke_needs)
    """As in the base class: OCI has quotas per compartment."""

    charts = staticmethod(oke_charts)
    """The runner sets whose runners are machines. ARC starts a launcher for each machine."""

    def system_machines(self, cluster: OkePools) -> SystemMachines | None:
        """As in the base class. The autoscaler leaves their number alone."""
        if not isinstance(cluster, OkeCluster):
            return None
        system = cluster.system
        return (system.machine,), system.disk, Nodes(min=system.nodes, max=system.nodes)

    moves = staticmethod(oke_moves)

    def rules(self, clusters: Mapping[str, OkePools], github: GitHub) -> Iterator[Violation]:
        """The dynamic group of a registry has every machine of its compartment, and machines of jobs must have no rights."""
        created = {name: cluster for name, cluster in clusters.items() if isinstance(cluster, OkeCluster)}
        for name, owner in created.items():
            for other, second in created.items():
                shared = owner.registry and other != name and second.machines_in == owner.compartment
                if shared and any(second.machine_runners()):
                    yield violation("registry_readers", ("clusters", name, "registry"), other=other)

    def capacity_remarks(self, name: str, cluster: OkePools) -> Iterator[str]:
        """A line for each availability domain of a cluster, with the command that asks for a report on its GPU shapes.

        No offline source says whether OCI has machines now. A reservation holds its machines already, so reserved pools are left
        out. The compartment of a report must be the root (OCI API, CreateComputeCapacityReportDetails).
        """
        reserved = {f"pool {pool_name}" for pool_name, pool in cluster.pools.items() if pool.reservation is not None}
        shapes_of: dict[tuple[str, str], dict[str, None]] = {}
        for title, region, domains, shapes in cluster.shapes():
            for domain in domains if title not in reserved else ():
                shapes_of.setdefault((region, domain), {}).update(dict.fromkeys(shapes))
        for (region, domain), asked in shapes_of.items():
            listed = json.dumps([{"instanceShape": shape} for shape in asked])
            yield (
                f"{name}: capacity: undeterminable: whether OCI has {' and '.join(asked)} in {domain}; ask with oci compute "
                f"compute-capacity-report create --region {region} --compartment-id {cluster.tenancy or '<OCID of the tenancy>'} "
                f"--availability-domain {domain} --shape-availabilities '{listed}'"
            )

    gateway = staticmethod(gateway)

    push_remarks = staticmethod(push_remarks)

    def user_data(self, cluster: OkePools) -> Mapping[str, str]:
        """As in the base class. A set without an image uses CNCF's launcher, whose machines boot the owner's images."""
        return {name: user_data(runner) for name, runner in cluster.machine_runners() if runner.image is not None}

    findings = staticmethod(doctor.findings)

    leftovers = OciLeftovers
