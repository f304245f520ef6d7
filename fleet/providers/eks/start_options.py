"""What the node options of a pool cost, and which seconds of a cold start they save."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.facts.disks import GP3_MIBPS, write_seconds
from fleet.facts.pricing import bundle
from fleet.facts.remark import costs
from fleet.providers.eks.nodes import EksPool
from fleet.settings.pool import unused_disks

IMAGE_GIB = 25
"""An unpacked image, for the seconds of writing it. CUDA images are 10-20 GB each as they are pulled."""


def options(pool: EksPool, region: str) -> Iterator[str]:
    """What a faster root disk costs and saves, and a remark on local disks that the pool does not use."""
    if extra := pool.root_disk.extra:
        usd = bundle("", "", "", extra, region, 1, 1).dear
        yield costs(f"{pool.root_disk} costs {usd} USD an hour per node and saves {_written(pool)}")
    config = pool.node_config
    if pool.image == "al2023-nvidia" and (config is None or config.instance is None):
        yield from unused_disks(pool, "nodeConfig.instance.localStorage")


def _written(pool: EksPool) -> str:
    """The seconds that a faster disk saves at most. It saves none where the network or the processor is slower than the disk."""
    reached = [pool.disk_throughput(machine) for machine in pool.machines]
    speeds = [speed for speed in reached if speed is not None]
    if not speeds:
        return "unknown seconds (no source has the EBS limit)"
    most = write_seconds(IMAGE_GIB, GP3_MIBPS) - write_seconds(IMAGE_GIB, max(speeds))
    return f"0-{most:.0f} s of writing {IMAGE_GIB} GiB (derived: bytes over throughput)"
