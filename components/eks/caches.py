"""What AWS has for the caches of an EKS cluster: drivers with their rights, and file systems."""

from __future__ import annotations

from typing import Any

import pulumi_aws as aws

from components.component import Component, Resources, Text
from components.eks.iam import pod_identity
from components.eks.in_cluster import InCluster
from components.eks.parts import declare_addon, open_port
from components.kubernetes.in_cluster import Backing
from fleet.charts.chart import KUBE_SYSTEM
from fleet.providers.eks.caches import EBS_DRIVER, EFS_DRIVER, EksCache

_NFS = 2049


DRIVERS = {
    # For clusters with Pod Identity: it lets the driver at volumes of its own cluster alone, by the session's tag (AWS managed
    # policy reference, 2026-05-28). The older AmazonEBSCSIDriverPolicy is for every volume that some driver made.
    EBS_DRIVER: ("ebs", "AmazonEBSCSIDriverEKSClusterScopedPolicy"),
    EFS_DRIVER: ("efs", "service-role/AmazonEFSCSIDriverPolicy"),
}
"""The short name of each driver, and AWS' policy for the service account of its controller."""


class EksCaches(Component[InCluster]):
    """A driver for each storage that a cache has, as an EKS add-on; an EFS file system for each cache that is one.

    The drivers put the cluster's fixed tags on volumes. They are parameters of storage classes, so a change replaces the class.
    The drivers' DaemonSets tolerate every taint by themselves, so they run on GPU nodes (values.yaml of both charts:
    node.tolerateAllTaints, node.tolerations). Names of what the settings name have a dot before them.
    """

    backings: dict[str, Backing]
    """The storage of each cache, by the cache's name."""

    def declare(self, name: str, here: InCluster) -> None:
        self._here = here
        drivers = {addon: self._driver(addon) for addon in here.settings.drivers}
        doors = self._doors() if EFS_DRIVER in drivers else None
        self.backings = {}
        for cache_name, cache in here.settings.caches.items():
            volumes, driver = cache.volumes(here.disk_tags), drivers[cache.driver]
            if cache.driver == EFS_DRIVER and doors is not None:
                file_system, targets = self._files(cache_name, cache, doors)
                self.backings[cache_name] = Backing(volumes, {"fileSystemId": file_system}, [driver, *targets])
            else:
                self.backings[cache_name] = Backing(volumes, ready=[driver])

    def _driver(self, addon: str) -> aws.eks.Addon:
        """The add-on. Its controller has its own role instead of the nodes' rights."""
        (short, policy), cluster_name = DRIVERS[addon], self._here.cluster.cluster_name
        name, account = f"{self._name}-{short}", f"{short}-csi-controller-sa"
        _, before = pod_identity(name, cluster_name, KUBE_SYSTEM, account, parent=self, policy=policy)
        version, opts = self._here.settings.kubernetes.drivers[addon], self._below(*before, *self._here.cluster.ready)
        return declare_addon(f"{name}-addon", cluster_name, addon, version, opts)

    def _doors(self) -> aws.vpc.SecurityGroupIngressRule:
        """The security group of all mount targets. Only nodes reach them; the function returns its one rule."""
        about = "File systems of the cluster's caches"
        group = aws.ec2.SecurityGroup(f"{self._name}-nfs", vpc_id=self._here.cluster.vpc_id, description=about, opts=self._child)
        name, nodes = f"{self._name}-nfs-from-nodes", {"referenced_security_group_id": self._here.cluster.security_group_id}
        return open_port(name, group.id, _NFS, "NFS from nodes", self._child, **nodes)

    def _files(self, cache_name: str, cache: EksCache, doors: aws.vpc.SecurityGroupIngressRule) -> tuple[Text, Resources]:
        """The id of a file system with a mount target in each zone, and these."""
        settings, name = self._here.settings, f"{self._name}.{cache_name}"
        files = aws.efs.FileSystem(
            f"{name}-files",
            encrypted=True,
            performance_mode="generalPurpose",
            # Throughput grows with use and is paid by use: a cache is read in bursts.
            throughput_mode="elastic",
            # What no job has read for a month costs less, and is back with the first that does. EFS takes one key an entry.
            lifecycle_policies=[{"transition_to_ia": "AFTER_30_DAYS"}, {"transition_to_primary_storage_class": "AFTER_1_ACCESS"}],
            tags={"Name": name},
            opts=self._below(protect=settings.protect, retain_on_delete=cache.retain),
        )
        shared: dict[str, Any] = {"file_system_id": files.id, "security_groups": [doors.security_group_id]}
        subnets, opts = self._here.cluster.subnets.items(), self._below(doors)
        return files.id, [aws.efs.MountTarget(f"{name}-{zone}", subnet_id=one, **shared, opts=opts) for zone, one in subnets]
