"""How fast the root disks of nodes are: limits of EBS gp3 volumes and of the EC2 types that use them.

Standard library only, because the policy pack contains this module. Local NVMe disks have no figure: no source was found.
"""

from fleet.facts.hardware import Machine

GP3_IOPS, GP3_MIBPS = 3_000, 125
"""The IOPS and MiB/s that every gp3 volume has and that its price includes."""
GP3_MOST_IOPS, GP3_MOST_MIBPS = 80_000, 2_000
"""EC2 API, LaunchTemplateEbsBlockDeviceRequest. Until September 2025 the limits were 16,000 and 1,000."""
GP3_IOPS_PER_GIB, GP3_IOPS_PER_MIBPS = 500, 4
"""docs.aws.amazon.com, EBS general purpose volumes: at most 500 IOPS per GiB, and at most 0.25 MiB/s per IOPS."""

FAST_PULL_MIBPS = 600
"""The least throughput for FastImagePull, by AWS: below it a pull can be slower (awslabs/amazon-eks-ami 81fec2e8, nodeadm)."""


def write_seconds(gib: float, mibps: float) -> float:
    """The least seconds in which a disk of `mibps` MiB/s takes `gib` GiB: bytes over throughput."""
    return gib * 1024 / mibps


def ebs_mibps(machine: Machine) -> int | None:
    """The most MiB/s between an EC2 machine and its EBS volumes. None if it is not known."""
    return machine.ebs_mbps * 10**6 // (8 * 2**20) or None


def gp3_on(machine: Machine, throughput: int) -> int | None:
    """The MiB/s of a gp3 volume with this throughput on a machine, at most. None if the limit of the machine is not known."""
    return None if (limit := ebs_mibps(machine)) is None else min(throughput, limit)
