"""Rights in OCI: policies, and their statements for one service account of one cluster and for OKE itself.

Workload identity needs no dynamic group: a statement names the namespace, the service account and the cluster.
"""

from collections.abc import Sequence

import pulumi
import pulumi_oci as oci

from components.component import Tags
from fleet.facts.tables import beside

Statements = pulumi.Input[Sequence[pulumi.Input[str]]]


def policy(
    name: str, statements: Statements, compartment: str, why: str, tags: Tags, opts: pulumi.ResourceOptions
) -> oci.identity.Policy:
    """Statements for one compartment. `why` is the description.

    `opts` name the provider of the tenancy's home region, because OCI accepts policies only there.
    """
    about = {"compartment_id": compartment, "description": why, "freeform_tags": dict(tags)}
    return oci.identity.Policy(name, statements=statements, **about, opts=opts)


def allowed(namespace: str, account: str, needs: Sequence[str], compartment: str, cluster: str) -> list[str]:
    """A statement for each need, for the pods of one service account in the cluster with this OCID only.

    A need is a verb and a resource type, or permissions in braces.
    """
    asks = {"type": "workload", "namespace": namespace, "service_account": account, "cluster_id": cluster}
    pods = ", ".join(f"request.principal.{key} = '{value}'" for key, value in asks.items())
    return [f"Allow any-user to {what} in compartment id {compartment} where all {{{pods}}}" for what in needs]


AUTOSCALER_NETWORK = ("use subnets", "read virtual-network-family", "use vnics", "inspect compartments")
AUTOSCALER = ("manage cluster-node-pools", "manage instance-family", *AUTOSCALER_NETWORK)
"""What OKE's autoscaler needs (kubernetes/autoscaler 55c37cd5, cloudprovider/oci/README.md); a network in another compartment
asks for its part there too (docs.oracle.com, using the cluster autoscaler)."""


_CALLS: dict[str, list[str]] = beside(__file__, "launcher-rights.toml")
NETWORK = (*_CALLS["join-network"], *_CALLS["leave-network"])
"""Permissions that are also needed in the network's compartment."""
PER_JOB = (*_CALLS["console"], *_CALLS["terminate"], "INSTANCE_CREATE", *NETWORK)
"""Permissions of a launcher that launches and terminates VMs. ListInstances and GetInstance need INSTANCE_READ only."""
STANDING = (*_CALLS["console"], *_CALLS["terminate"], *_CALLS["leave-network"], *_CALLS["pool"])
"""Permissions of a launcher that claims VMs of a pool, detaches them and sets the pool's size again."""


def calls(permissions: Sequence[str]) -> str:
    """What a launcher needs: the permissions of the calls that it makes.

    docs.oracle.com, details for the core services, permissions required for each API operation. A policy cannot test
    free-form tags of instances. Put the VMs in their own compartment, so that the launcher has no rights on the nodes.
    """
    return f"{{{', '.join(sorted(set(permissions)))}}}"


def reservation_rights(compartment: str) -> Sequence[str]:
    """Statements by which OKE launches nodes in capacity reservations of a compartment.

    docs.oracle.com, capacity reservations for managed nodes, grants this for the whole tenancy. The reservations' own
    compartment is enough.
    """
    use = f"to use compute-capacity-reservations in compartment id {compartment}"
    return f"Allow service oke {use}", f"Allow any-user {use} where request.principal.type = 'nodepool'"


def file_system_rights(cluster: str, compartment: str) -> str:
    """The statement by which the cluster's driver makes file systems and exports in a compartment.

    docs.oracle.com, provisioning claims on File Storage: the cluster itself is who asks.
    """
    return f"Allow any-user to manage file-family in compartment id {compartment} where {_as_cluster(cluster)}"


def file_system_network_rights(cluster: str, compartment: str) -> str:
    """The statement by which it learns the mount target's address, in the network's compartment."""
    return f"Allow any-user to use virtual-network-family in compartment id {compartment} where {_as_cluster(cluster)}"


def _as_cluster(cluster: str) -> str:
    return f"all {{request.principal.type = 'cluster', request.principal.id = '{cluster}'}}"
