"""Oracle's own services of a region, as routes and security rules name them."""

from __future__ import annotations

import pulumi
import pulumi_oci as oci


def oracle_services(
    *, parent: pulumi.Resource, after: pulumi.Resource
) -> pulumi.Output[oci.core.outputs.GetServicesServiceResult]:
    """Id and CIDR label of "All … Services In Oracle Services Network".

    The id is nothing but the cloud's to tell. The question waits for `after`: a plan of what does not exist yet asks nobody.
    """
    found = oci.core.get_services_output(
        filters=[
            oci.core.GetServicesFilterArgs(name="name", values=["All .* Services In Oracle Services Network"], regex=True),
        ],
        opts=pulumi.InvokeOutputOptions(parent=parent, depends_on=[after]),
    )
    services: pulumi.Output[oci.core.outputs.GetServicesServiceResult] = found.services[0]
    return services
