"""Disk sizes: settings are in MiB, both clouds use whole GiB, which OCI calls GB."""

from __future__ import annotations


def disk_gb(mebibytes: int) -> int:
    """Size of a disk in GiB. The settings allow only whole GiB (fleet.settings.pool.Disk)."""
    return mebibytes // 1024
