"""The ids of Oracle's own services in a region, for routes and security rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_oci as oci

Listed = Sequence[oci.core.outputs.GetServicesServiceResult] | None


@dataclass(frozen=True, slots=True)
class OracleServices:
    """Id and CIDR label of "All … Services In Oracle Services Network"."""

    id: pulumi.Output[str]
    cidr_block: pulumi.Output[str]


def oracle_services(*, parent: pulumi.Resource, after: pulumi.Resource) -> OracleServices:
    """Read from the cloud, because only the cloud knows the id.

    The request waits for `after`, so a plan of a new network makes no request.
    """
    request = oci.core.get_services_output(
        filters=[oci.core.GetServicesFilterArgs(name="name", values=["All .* Services In Oracle Services Network"], regex=True)],
        opts=pulumi.InvokeOutputOptions(parent=parent, depends_on=[after]),
    )
    return OracleServices(request.services.apply(_id), request.services.apply(_cidr_block))


def _id(listed: Listed) -> str | None:
    """None if a simulated cloud lists none, which OCI would reject."""
    return listed[0].id if listed else None


def _cidr_block(listed: Listed) -> str | None:
    return listed[0].cidr_block if listed else None
