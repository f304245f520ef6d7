"""How `init` writes an EKS cluster."""

from __future__ import annotations

from pathlib import Path

from fleet.facts import versions
from fleet.facts.yaml_text import scalar
from fleet.providers.starter import Starter, Values, Wanted


class EksStarter(Starter):
    """EKS, and an EKS cluster that exists already."""

    templates = Path(__file__).parent / "templates"
    answers = ("eks", "existing-eks")
    where = "on EKS"
    node_ids = ("aws",)
    on_disks = (
        "# Images, logs and scratch are on the machine's NVMe disk: docs/eks-nodes.md#faster-starts.",
        "nodeConfig: {instance: {localStorage: {strategy: RAID0}}}",
    )

    def cluster_name(self, region: str) -> str:
        """As in the base class: usw2 for us-west-2."""
        area, side, number = region.split("-")
        return f"{area}{side[0]}{number}"

    def values(self, wanted: Wanted) -> Values:
        """As in the base class."""
        zones = wanted.zones or wanted.known_zones
        return {
            "version": wanted.version or max(versions.KUBERNETES, key=versions.minor),
            "subnets": [f"{scalar(zone)}: subnet-0aaaaaaaaaaaaaaa{number}" for number, zone in enumerate(zones, 1)],
        }
