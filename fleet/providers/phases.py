"""The phases of the start of a pod on a node of a pool, and how long a runner waits for the pod of its job.

The figures are public ones (`data/starts.csv`), not measurements of your fleet. A phase without a figure makes every sum a
lower bound.
"""

import math
from collections.abc import Iterator

from fleet.charts.cluster_autoscaler import PROVISION_MINUTES
from fleet.facts.disks import write_seconds
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.quantities import memory_text
from fleet.facts.record import Record
from fleet.facts.scheduling import GPU_RESOURCE
from fleet.facts.tables import entry, rows
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner


class Row(Record):
    """One figure, in seconds. `kind` is measured, stated or derived. A row without seconds is a gap: `kind` is empty."""

    phase: str
    means: str
    low_s: int | None
    high_s: int | None
    kind: str
    note: str
    source: str


ROWS = tuple(entry(Row, row) for row in rows("starts.csv"))


class Phase(Record):
    """The seconds of one phase, from `low` to `high`. `high` is None if no source has a figure; `low` is then 0."""

    name: str
    low: float
    high: float | None
    note: str
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "not measured" if self.high is None else seconds(self.low, self.high)


def seconds(low: float, high: float) -> str:
    """A range of seconds: "80-120 s", or "80 s" if both ends are equal."""
    return f"{low:.0f} s" if round(low) == round(high) else f"{low:.0f}-{high:.0f} s"


def phase(name: str, means: str) -> Phase:
    """The phase as all rows of `means` give it together: from the least to the greatest figure.

    Raises KeyError if the table has no row.
    """
    if not (figures := [row for row in ROWS if (row.phase, row.means) == (name, means)]):
        raise KeyError(f"{name}, {means}")
    note = "; ".join(f"{row.note} ({row.kind})" if row.kind else row.note for row in figures)
    low = min((row.low_s for row in figures if row.low_s is not None), default=0)
    high = max((row.high_s for row in figures if row.high_s is not None), default=None)
    return Phase(name, low, high, note, tuple(row.source for row in figures if row.source))


def done(name: str, note: str = "done before the job") -> Phase:
    """A phase that a start does not wait for."""
    return Phase(name, 0, 0, note)


NEW, READY, PLACEHOLDER, WAITING = "nothing", "a node that is ready", "a placeholder", "a waiting runner"
STOPPED, RUNNING = "a stopped machine of the warm pool", "a running machine of the warm pool"
"""What a job finds when it starts."""
OF_MACHINES = {"stopped": STOPPED, "running": RUNNING}
"""What it finds by the state of machines that wait outside of the cluster."""


def node_phases(cluster: Cluster, pool: Pool | None, finds: str) -> Iterator[Phase]:
    """Capacity, boot, driver and plugin of a node of a pool, or of a node of the system pool, which is ready."""
    if pool is None or finds in (READY, PLACEHOLDER):
        yield phase("capacity", "ready" if finds == READY else "placeholder")
        yield from map(done, ("boot", "driver", "plugin"))
    else:
        # It knows GPUs by this name alone (utils/gpu/gpu.go at 1.36.1, GPUVendorResourceNames), and not by those of shares.
        yield phase("capacity", "autoscaler-gpus" if pool.has_gpus and pool.resource == GPU_RESOURCE else "autoscaler")
        means = {STOPPED: "ec2-stopped", RUNNING: "ec2-running"}.get(finds, PROVIDERS[cluster.provider].boots)
        yield phase("boot", means)
        if pool.has_gpus:
            yield phase("driver", "image" if NODE_IMAGES[pool.image].driver else "operator")
            yield phase("plugin", "device-plugin")
        else:
            yield from (done(name, "a node without GPUs needs none") for name in ("driver", "plugin"))


def pull(pool: Pool, runner: PodRunner) -> Phase:
    """The pull of the image. With its size, the disk gives the least time: bytes over throughput of the fastest machine."""
    if pool.images_on_array:
        return phase("pull", "local-disk")
    found = phase("pull", "image")
    if runner.image_size is None:
        return Phase("pull", 0, found.high, f"imageSize is not set; published pulls: {found.note}", found.sources)
    speeds = [pool.disk_throughput(machine) for machine in pool.machines]
    known = [speed for speed in speeds if speed is not None]
    least = write_seconds(runner.image_size / 1024, max(known)) if known and len(known) == len(speeds) else 0
    how = f"at least {memory_text(runner.image_size)} at {max(known)} MiB/s of the root disk (derived); " if least else ""
    return Phase("pull", least, max(least, found.high or 0), f"{how}published pulls: {found.note}", found.sources)


LEAST_TIMEOUT = 600
"""Seconds for which GitHub's hooks wait by default (runner-container-hooks v0.8.1, DEFAULT_WAIT_FOR_POD_TIME_SECONDS)."""


def prepare_timeout(cluster: Cluster, runner: PodRunner) -> int:
    """Seconds for which a runner waits until the pod of its job runs: twice the longest known start, in whole minutes.

    That is a start on a new node of the last pool, after the autoscaler has given up a node of each pool before it. It is at
    least what the hooks wait by default, and at most the lifetime of the runner.
    """
    longest = max(
        place * PROVISION_MINUTES * 60 + sum(each.high or 0 for each in (*node_phases(cluster, pool, NEW), pull(pool, runner)))
        for place, pool in enumerate(cluster.pools[name] for name in runner.ordered)
    )
    return min(max(LEAST_TIMEOUT, math.ceil(2 * longest / 60) * 60), runner.max_lifetime)
