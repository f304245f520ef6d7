"""What OCI needs for the caches of an OKE cluster: a mount target of File Storage, and rights. Every cluster has the drivers."""

from collections.abc import Callable

import pulumi
import pulumi_oci as oci

from components.component import Component
from components.kubernetes.in_cluster import Backing
from components.oci.in_cluster import NewCluster
from components.oci.rights import file_system_network_rights, file_system_rights
from components.oci.security import IN, OUT, TCP, UDP, ports, rule, security_group
from fleet.settings.egress import INTERNET


class OkeCaches(Component[NewCluster]):
    """One mount target for all file systems, which the driver makes with an export there for each claim.

    Left to itself the driver makes a mount target a claim, of which an availability domain has two until Oracle raises its limit.
    """

    backings: dict[str, Backing]
    """The storage of each cache, by the cache's name."""

    def declare(self, name: str, here: NewCluster) -> None:
        self._here, settings = here, here.settings
        target, stands = self._file_storage() if settings.shares_files else (None, ())
        domain, source = settings.zones[0], settings.own_cidr or INTERNET
        self.backings = {
            cache_name: Backing(
                cache.file_systems(here.tags, domain, settings.compartment, source), {"mountTargetOcid": target.id}, stands
            )
            if cache.shared and target is not None
            else Backing(cache.block_volumes(here.tags, settings.attachment), ready=here.cluster.ready)
            for cache_name, cache in settings.caches.items()
        }

    def _file_storage(self) -> tuple[oci.filestorage.MountTarget, tuple[pulumi.Resource, ...]]:
        """The mount target, and all that must exist before a job can mount a file system."""
        here, settings = self._here, self._here.settings
        group = security_group(f"{self._name}-nfs", settings.compartment, here.cluster.vcn_id, here.tags, parent=self)
        place = {"availability_domain": settings.zones[0], "subnet_id": here.cluster.node_subnet_id, "nsg_ids": [group.id]}
        about = {"compartment_id": settings.compartment, "display_name": self._name, "freeform_tags": here.tags}
        # With it go the exports, and with them every mount.
        opts = self._below(protect=settings.protect)
        target = oci.filestorage.MountTarget(f"{self._name}-files", **place, **about, opts=opts)
        return target, (target, *self._rules(group), *self._policies(), *here.cluster.ready)

    def _rules(self, group: oci.core.NetworkSecurityGroup) -> list[pulumi.Resource]:
        """Ports of port mapper, NFS and NFS with TLS, for nodes only (docs.oracle.com, security rules for File Storage)."""
        admitted = [("tcp", TCP, 111, 111), ("tcp", TCP, 2048, 2050), ("udp", UDP, 111, 111), ("udp", UDP, 2048, 2048)]
        if any(cache.encrypt_in_transit for cache in self._here.settings.caches.values()):
            admitted.append(("tcp", TCP, 2051, 2051))
        nodes, rules = self._here.cluster.node_security_group_id, list[pulumi.Resource]()
        # Where a connection goes to, or where an answer comes from.
        for end, here in ((IN, "destination"), (OUT, "source")):
            for name, protocol, first, last in admitted:
                called = f"{self._name}-nfs-{end[0].lower()}-{name}-{first}"
                opened = {f"{name}_options": ports(first, last, here)}
                rules.append(rule(called, end, group.id, nodes, protocol, "NFS of nodes", parent=self, **opened))
        return rules

    def _policies(self) -> list[pulumi.Resource]:
        """Rights of the cluster, whose control plane runs the driver."""
        here, why = self._here, f"The driver of {self._name} makes file systems for claims"
        cluster = pulumi.Output.from_input(here.cluster.cluster_id)

        def declare(role: str, right: Callable[[str, str], str], compartment: str) -> oci.identity.Policy:
            statements = cluster.apply(lambda ocid: [right(ocid, compartment)])
            return here.policy(f"{self._name}-{role}", statements, compartment, why, parent=self)

        own, of_network = here.settings.compartment, here.network
        return [declare("rights", file_system_rights, own), declare("network-rights", file_system_network_rights, of_network)]
