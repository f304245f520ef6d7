"""How a cluster finds sick GPU nodes, and what happens to them."""

import math
from typing import Annotated

from pydantic import Field

from fleet.settings.alerts import Share, Time
from fleet.settings.model import Duration, Model
from fleet.settings.refusals import between

MISSING_FOR = 180
"""Seconds that GPUs must be missing: a device plugin that is updated is away for as long as its image is pulled."""
_WAIT = between("repair_wait", 60, 3600, step=60)
RepairWait = Annotated[Duration, _WAIT]


def nodes_at_once(share: float, nodes: int) -> int:
    """The nodes of a group that may be out of use at once: its share, rounded up, and at least one."""
    # 0.2 * 35 is slightly more than 7.
    return max(1, math.ceil(round(share * nodes, 6)))


class Health(Model):
    """Quarantine and startup gate of GPU nodes, and the timing of EKS' node repair. The defaults are this project's choice."""

    startup_gate: bool = False
    """Whether a new node takes pods only once it offers all its GPUs. Only EKS node groups can have it. Example: `true`"""
    rejected_pods: Annotated[int, Field(ge=1, le=1000)] = 3
    """Pods that a Ready node may reject within 10 minutes before it is quarantined. Unit: pods. Example: `5`"""
    start_within: Time = 480
    """Time after which a new node without all its GPUs is quarantined. Example: `10m`"""
    lift_after: Time = 600
    """Time that a node must be healthy before its quarantine ends. Example: `20m`"""
    max_share: Share = 0.2
    """Share of a pool's nodes that may be in quarantine at once, and of a node group's that EKS may repair. It is at least one
    node. Unit: share of 1. Example: `0.5`"""
    repair_wait: RepairWait = 300
    """Time that a GPU error must last before EKS repairs the node: whole minutes, from 1m to 60m. Example: `10m`"""

    @property
    def timing(self) -> str:
        """When a sick node is quarantined, as a clause."""
        return (
            f"quarantine {MISSING_FOR // 60} minutes after a node lost a GPU ({self.start_within // 60} if it is new), at once "
            f"after {self.rejected_pods} rejected pods or a GPU error"
        )
