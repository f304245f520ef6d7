"""Disks: settings hold MiB, and both clouds take whole GiB, which OCI calls GB."""

from __future__ import annotations


def disk_gb(mebibytes: int) -> int:
    """A disk's size as a cloud takes it. The settings admit whole GiB alone (fleet.settings.pool.Disk)."""
    return mebibytes // 1024
