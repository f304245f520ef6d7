"""Resources on OCI that a destroyed stack left: those with its tag. Source: API reference of OCI Search."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fleet.facts.tables import beside
from fleet.providers.oke.cluster import OkePools
from fleet.providers.provider import GONE, Left, Leftovers, Search, left
from fleet.providers.tags import STACK_TAG

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
