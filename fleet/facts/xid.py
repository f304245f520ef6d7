"""NVIDIA's Xid errors: what each code means and what to do, and what EKS does with a node whose GPUs fail.

Source and date are in `data/xid.csv` and `data/eks_repair.csv`. EKS acts if the condition AcceleratedHardwareReady is False.
"""

from fleet.facts.record import Record
from fleet.facts.tables import entry, rows

FATAL = ("gpu-reset", "node-reboot", "hardware")
"""Categories in which the GPU cannot run jobs until somebody acts."""
APPLICATION = ("application",)
"""The category of faults in a job's own program. The GPU is healthy."""
UNCLEAR = ("software", "undecided")
"""Categories that need a person to read the kernel log."""


class Xid(Record):
    """One code. `action` is NVIDIA's immediate action, `investigation` the one after it; empty if NVIDIA names none.

    Category `information` needs no action.
    """

    code: str
    meaning: str
    action: str
    investigation: str
    category: str


XIDS = {row["code"]: entry(Xid, row) for row in rows("xid.csv")}
"""Every code that NVIDIA's catalog describes. It covers the A100 and newer GPUs; older GPUs use the same numbers."""

GPU_CONDITION = "AcceleratedHardwareReady"
"""The node condition by which the EKS node monitoring agent reports GPUs."""
GPU_WAIT, OTHER_WAIT = 600, 1800
"""Seconds after which EKS repairs a node by default: for that condition, and for every other one (awsdocs/amazon-eks-user-guide
@dbc0b729 nodes/node-repair.adoc)."""


class Reason(Record):
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
HEALTHY = tuple(reason.reason for reason in REASONS if reason.healthy)
"""Reasons that a failing test can cause on a healthy GPU."""
ENGINE_LOST = "DCGMError"
"""The agent lost its DCGM engine, which says nothing of the GPUs. EKS repairs nothing then (node-health-nma.adoc@518e5533)."""
