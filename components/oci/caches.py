"""What OCI needs for the caches of an OKE cluster: a mount target of File Storage, and rights. Every cluster has the drivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_oci as oci

from components.component import Component
from components.kubernetes.model_cache import Backing
from components.oci.in_cluster import InCluster
from components.oci.oke_gpu_cluster import OkeGpuCluster
from components.oci.rights import file_system_network_rights, file_system_rights, policy
from components.oci.security import GROUP, TCP, security_group
from fleet.providers.oke.cluster import OkeCluster
from fleet.settings.egress import INTERNET

_UDP = "17"
_PORTMAPPER, _NFS, _NFS_TLS = 111, (2048, 2050), 2051


@dataclass(frozen=True, slots=True)
class OkeCachesArgs:
    """`settings` and `cluster` are those of the new cluster `here`."""

    here: InCluster
    settings: OkeCluster
    cluster: OkeGpuCluster


class OkeCaches(Component[OkeCachesArgs]):
    """One mount target for all file systems, which the driver makes with an export there for each claim.

    Left to itself the driver makes a mount target a claim, of which an availability domain has two until Oracle raises its limit.
    """

    backings: dict[str, Backing]
    """The storage of each cache, by the cache's name."""

    def declare(self, name: str, args: OkeCachesArgs) -> None:
        settings = args.settings
        target, stands = self._file_storage() if settings.shares_files else (None, ())
        domain, source = settings.zones[0], settings.own_cidr or INTERNET
        self.backings = {
            cache_name: Backing(
                cache.file_systems(args.here.tags, domain, settings.compartment, source), {"mountTargetOcid": target.id}, stands
            )
            if cache.shared and target is not None
            else Backing(cache.block_volumes(args.here.tags, settings.attachment), ready=args.cluster.ready)
            for cache_name, cache in settings.caches.items()
        }

    def _file_storage(self) -> tuple[oci.filestorage.MountTarget, tuple[pulumi.Resource, ...]]:
        """The mount target, and all that must exist before a job can mount a file system."""
        args, settings = self._args, self._args.settings
        group = security_group(f"{self._name}-nfs", settings.compartment, args.cluster.vcn_id, args.here.tags, parent=self)
        target = oci.filestorage.MountTarget(
            f"{self._name}-files",
            availability_domain=settings.zones[0],
            compartment_id=settings.compartment,
            subnet_id=args.cluster.node_subnet_id,
            nsg_ids=[group.id],
            display_name=self._name,
            freeform_tags=args.here.tags,
            # With it go the exports, and with them every mount.
            opts=self._below(protect=settings.protect),
        )
        return target, (target, *self._rules(group), *self._policies(), *args.cluster.ready)

    def _rules(self, group: oci.core.NetworkSecurityGroup) -> list[pulumi.Resource]:
        """Ports of NFS, open to nodes only (docs.oracle.com, security rules for File Storage)."""
        ports = [(TCP, _PORTMAPPER, _PORTMAPPER), (TCP, *_NFS), (_UDP, _PORTMAPPER, _PORTMAPPER), (_UDP, _NFS[0], _NFS[0])]
        if any(cache.encrypt_in_transit for cache in self._args.settings.caches.values()):
            ports.append((TCP, _NFS_TLS, _NFS_TLS))
        return [
            self._rule(group, direction, protocol, first, last)
            for direction in ("INGRESS", "EGRESS")
            for protocol, first, last in ports
        ]

    def _rule(
        self, group: oci.core.NetworkSecurityGroup, direction: str, protocol: str, first: int, last: int
    ) -> oci.core.NetworkSecurityGroupSecurityRule:
        """Stateful, between nodes and a port here: where a connection goes to, or where an answer comes from."""
        name = "tcp" if protocol == TCP else "udp"
        here, there = ("destination", "source") if direction == "INGRESS" else ("source", "destination")
        ends: dict[str, Any] = {
            f"{name}_options": {f"{here}_port_range": {"min": first, "max": last}},
            there: self._args.cluster.node_security_group_id,
            f"{there}_type": GROUP,
        }
        return oci.core.NetworkSecurityGroupSecurityRule(
            f"{self._name}-nfs-{direction.lower()}-{name}-{first}",
            network_security_group_id=group.id,
            direction=direction,
            protocol=protocol,
            stateless=False,
            description="NFS of nodes",
            opts=self._child,
            **ends,
        )

    def _policies(self) -> list[pulumi.Resource]:
        """Rights of the cluster, whose control plane runs the driver."""
        settings = self._args.settings
        network = self._args.here.network
        return [
            self._policy(f"{self._name}-rights", file_system_rights, settings.compartment),
            self._policy(f"{self._name}-network-rights", file_system_network_rights, network),
        ]

    def _policy(self, name: str, rights: Callable[[str, str], str], compartment: str) -> oci.identity.Policy:
        return policy(
            name,
            pulumi.Output.from_input(self._args.cluster.cluster_id).apply(lambda cluster: [rights(cluster, compartment)]),
            compartment=compartment,
            description=f"The driver of {self._name} makes file systems for claims",
            tags=self._args.here.tags,
            iam=self._args.here.iam,
            parent=self,
        )
