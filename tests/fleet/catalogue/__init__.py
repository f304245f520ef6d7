"""A catalogue of a few machines, prices and pods, which stays as it is whatever clouds sell and charts request.

Tests of numbers use it: a new row of the project's own tables moves none of them. Those tables have one test for each shipped
stack (tests/fleet/test_shipped_stacks.py). The names are real, so that the settings accept them; the numbers are never renewed.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.charts.chart import KUBE_SYSTEM, Chart, Pod, resources
from fleet.facts import hardware, spot, tables, versions
from fleet.facts.hardware import Machine
from fleet.facts.tables import entry
from fleet.facts.versions import DaemonSet
from fleet.providers import installed
from fleet.settings.cluster import Cluster

_FOLDER = Path(__file__).parent
_TABLES = ("instances.csv", "prices.csv", "spot.csv")
DAEMONSETS = {
    each.name: each
    for each in (
        DaemonSet("network", 50, 0, ("eks",)),
        DaemonSet("proxy", 100, 0, ("eks", "talos")),
        DaemonSet("node-monitor", 10, 30, ("eks",)),
        DaemonSet("node-identity", 0, 0, ("eks",)),
        DaemonSet("network-rules", 50, 0, feature="network-policy", replaces="network"),
        DaemonSet("disks", 30, 104, feature="aws-ebs-csi-driver"),
        DaemonSet("files", 0, 0, feature="aws-efs-csi-driver"),
        DaemonSet("overlay", 100, 50, ("oke", "talos")),
        DaemonSet("node-proxy", 50, 64, ("oke",)),
    )
}
"""What runs on each node, in millicores and MiB."""
_POD = Pod("metrics", 100, 200)


def _plain_chart(cluster: Cluster) -> Chart:
    """The one chart that each cluster gets."""
    return Chart("metrics", "metrics-server", KUBE_SYSTEM, {"resources": resources(_POD)}, (_POD,), "infrastructure/metrics")


def _rows(name: str) -> list[dict[str, str]]:
    if name not in _TABLES:
        return tables.rows(name)
    with (_FOLDER / name).open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def machines(cloud: str) -> list[Machine]:
    """The catalogue's machines of a cloud."""
    every = (entry(Machine, row, gpu=hardware.gpus().get(row["gpu"])) for row in _rows("instances.csv"))
    return [machine for machine in every if machine.cloud == cloud]


def daemonsets(provider: str) -> tuple[DaemonSet, ...]:
    """The DaemonSets of a provider's nodes without any feature."""
    return tuple(row for row in DAEMONSETS.values() if provider in row.providers)


@contextmanager
def in_use() -> Iterator[None]:
    """Let the product read the catalogue."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hardware, "rows", _rows)
            patch.setattr(spot, "rows", _rows)
            patch.setattr(versions, "DAEMONSETS", DAEMONSETS)
            patch.setattr(installed, "PLAIN", (_plain_chart,))
            _forget()
            yield
    finally:
        _forget()


def _forget() -> None:
    """Empty each cache of the product: it may hold what another table says."""
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "fleet"]:
        for value in list(vars(module).values()):
            if callable(clear := getattr(value, "cache_clear", None)):
                clear()
