"""What EKS does with a GPU node whose condition AcceleratedHardwareReady is False. `data/eks_repair.csv` has source and date."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.tables import entry, rows
from fleet.facts.xid import FATAL, XIDS

GPU_CONDITION = "AcceleratedHardwareReady"
"""The node condition by which the EKS node monitoring agent reports GPUs."""
GPU_WAIT, OTHER_WAIT = 600, 1800
"""Seconds after which EKS repairs a node by default: for that condition, and for every other one (awsdocs/amazon-eks-user-guide
@dbc0b729 nodes/node-repair.adoc)."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason of the condition. `xid` is NVIDIA's code, empty if it is none. `action` is what EKS does by default."""

    reason: str
    xid: str
    action: str

    @property
    def healthy(self) -> bool:
        """Whether NVIDIA's catalog says that the GPU is healthy: the job's own program failed, or nothing needs to be done."""
        return bool(self.xid) and XIDS[self.xid].category not in FATAL

    @property
    def ours(self) -> str:
        """What EKS must do: nothing to a healthy GPU, and a new machine where NVIDIA sends the owner to its support."""
        if self.healthy:
            return "NoAction"
        return "Replace" if self.xid and XIDS[self.xid].investigation == "CONTACT_SUPPORT" else self.action


REASONS = tuple(entry(Reason, row) for row in rows("eks_repair.csv"))
"""Every reason that EKS repairs."""
HEALTHY = tuple(each.reason for each in REASONS if each.healthy)
"""Reasons that a failing test can cause on a healthy GPU."""
ENGINE_LOST = "DCGMError"
"""The agent lost its DCGM engine, which says nothing of the GPUs. EKS repairs nothing then (node-health-nma.adoc@518e5533)."""
