"""Resources on OCI that a destroyed stack left: those with its tag. Source: API reference of OCI Search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fleet.providers.oke.cluster import OkePools
from fleet.providers.provider import GONE, Left, Leftovers, left
from fleet.providers.tags import STACK_TAG

DELETE = {
    "BootVolume": "oci bv boot-volume delete --boot-volume-id {id}",
    "Instance": "oci compute instance terminate --instance-id {id}",
    "LoadBalancer": "oci lb load-balancer delete --load-balancer-id {id}",
    "Vcn": "oci network vcn delete --vcn-id {id}",
    "Volume": "oci bv volume delete --volume-id {id}",
}
"""The command by OCI's resource type, as oci-cli 3.95.1 has it."""


class OciLeftovers(Leftovers):
    """What a stack has on OCI. `search` gives the search client of a region."""

    def __init__(self, stack: str, clusters: Mapping[str, OkePools], search: Callable[[str], Any] | None = None) -> None:
        self._stack = stack
        self._search = search or _search
        used = (
            (each.home_region or each.region, each.region, *(group[1] for group in each.shapes())) for each in clusters.values()
        )
        self._regions = sorted({region for regions in used for region in regions})

    def __iter__(self) -> Iterator[Left]:
        """As in the base class."""
        import oci  # noqa: PLC0415 - an optional extra

        query = f"query all resources where (freeformTags.key = '{STACK_TAG}' && freeformTags.value = '{self._stack}')"
        details = oci.resource_search.models.StructuredSearchDetails(query=query)
        for region in self._regions:
            for resource in oci.pagination.list_call_get_all_results(self._search(region).search_resources, details).data:
                if (resource.lifecycle_state or "").lower() not in GONE:
                    yield left(DELETE, region, resource.resource_type, resource.identifier)


def _search(region: str) -> Any:
    import oci  # noqa: PLC0415 - an optional extra

    return oci.resource_search.ResourceSearchClient({**oci.config.from_file(), "region": region})
