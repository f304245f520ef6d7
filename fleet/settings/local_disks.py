"""Local NVMe disks of a pool's machines as one array (RAID0) for images, logs and files of pods."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.facts.hardware import Machine
from fleet.facts.remark import todo
from fleet.settings.model import problem
from fleet.settings.pool import Pool


def array_gib(machine: Machine) -> int:
    """Whole GiB of all local disks of a machine together."""
    return machine.nvme_gb * 10**9 // 2**30


def require_local_disks(pool: Pool, *, array: bool, at: tuple[str, ...]) -> None:
    """Refuse local storage on a machine without local disks, and an array smaller than `disk`. Raises a settings problem."""
    for machine in pool.machines:
        if machine.nvme_gb == 0:
            raise problem("local_storage", f"{machine.name} has no local disk; remove localStorage, or use another type", at=at)
        gib = array_gib(machine)
        if array and gib < pool.disk // 1024:
            message = (
                f"RAID0 puts the files of pods on the local disks, {machine.name} has {gib}Gi of them, and disk is "
                f"{pool.disk // 1024}Gi; write disk: {gib}Gi or less"
            )
            raise problem("local_storage_size", message, at=at)


def unused_disks(pool: Pool, key: str) -> Iterator[str]:
    """A remark on a pool whose machines have local disks that it does not use. `key` is the setting that would use them."""
    least = min(pool.machines, key=lambda machine: machine.nvme_gb)
    if least.nvme_gb:
        smaller = f" with disk {array_gib(least)}Gi or less" if pool.disk // 1024 > array_gib(least) else ""
        # No source has the throughput of local disks (docs/eks-nodes.md).
        yield todo(
            f"{least.nvme_gb} GB of local NVMe on {least.name} are unused; {key} RAID0{smaller} puts images there at no charge "
            "(no source says how many seconds that saves)"
        )
