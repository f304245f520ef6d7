"""How the nodes of an EKS pool, and of its warm pool, split over its zones: one managed node group per zone.

An Auto Scaling group over several zones ends busy instances to balance them (AZRebalance), whatever runs there, and the EKS API
cannot turn that off (aws/containers-roadmap#1453). In a group of one zone there is nothing to balance.
A warm pool of EC2 Auto Scaling has machines that have booted once and wait outside of the cluster.

EKS user guide, nodes/warm-pools-managed-node-groups.adoc@8cd63e68; EC2 Auto Scaling API, PutWarmPool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from fleet.facts.bill import Warm, part
from fleet.settings.model import Model, Nodes, Scale


def zone_groups(zones: Sequence[str], nodes: Scale) -> dict[str, Nodes]:
    """The sizes of a pool's node groups by zone, in the order of `zones`. They sum to `nodes`.

    Each zone gets an equal share of min and of max. The first zones get one more each until nothing remains. A zone whose share
    of max is 0 gets no group, because EKS requires a maximum of 1 or more.
    """
    return {
        zone: Nodes(min=part(nodes.min, len(zones), index), max=most)
        for index, zone in enumerate(zones)
        if (most := part(nodes.max, len(zones), index))
    }


class WarmPool(Model):
    """A warm pool. A machine joins the cluster only when it leaves the pool, so it has pulled no image before."""

    min: Annotated[int, Field(ge=0)] = 0
    """Machines that the warm pool always has, however many nodes are in the cluster. Unit: machines. Example: `1`"""
    max_prepared: Annotated[int, Field(ge=1)]
    """The most nodes in the cluster and machines of the warm pool together. Without it EC2 would fill the warm pool up to
    `nodes.max`. Unit: machines. Example: `4`"""
    state: Literal["stopped", "running", "hibernated"] = "stopped"
    """How the machines wait. A stopped one costs only its disk. It holds no capacity: EC2 may have none when it starts. Example:
    `stopped`"""
    reuse_on_scale_in: bool = False
    """Whether a node that the autoscaler removes returns to the warm pool. Example: `true`"""

    def shares(self, zones: Mapping[str, Nodes]) -> dict[str, Nodes]:
        """`min` and `max_prepared` (as max) of each zone's node group, split as nodes are. Zones without a share are left out."""
        return zone_groups(tuple(zones), Scale.model_construct(min=self.min, max=self.max_prepared))

    def machines(self, zones: Mapping[str, Nodes]) -> dict[str, int]:
        """The machines that wait in each zone while every node group has its least nodes."""
        return {zone: max(share.min, share.max - zones[zone].min) for zone, share in self.shares(zones).items()}

    @property
    def paid(self) -> Warm:
        """The warm pool as the bill reads it. EC2 hibernates no GPU type, so all others are stopped."""
        return Warm(self.min, self.max_prepared, self.state == "running")
