"""A fifth provider for the tests, of the shape of GKE. A real one has all of this in its own folder. Its facts are invented."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from fleet.charts.chart import Chart
from fleet.facts import hardware, offer
from fleet.facts.bill import Paid
from fleet.facts.hardware import Machine, Price
from fleet.facts.node_image import NODE_IMAGES, NodeImage
from fleet.facts.pricing import Line, nodes, units
from fleet.facts.remark import todo
from fleet.facts.scheduling import EKS_PROFILE, Effect, SchedulingProfile, Taint
from fleet.facts.tables import toml
from fleet.providers.provider import Claim, Need, Provider, Violation, conflicts, needs
from fleet.providers.registry import PROVIDERS
from fleet.providers.tags import NO_TAGS
from fleet.settings.caches import Cache
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import Enablement
from fleet.settings.github import GitHub
from fleet.settings.model import DnsLabel, QuotedText
from fleet.settings.pool import Pool, SystemMachines, SystemPool
from fleet.settings.runner import PodRunner, SetName

L4 = Machine(
    name="g2-standard-8",
    cloud="gcp",
    gpus=1,
    gpu=hardware.gpus()["L4"],
    gpu_memory_mib=23034,
    vcpus=8,
    memory_mib=32768,
    arch="x86_64",
    sockets=1,
    max_pods=110,
)
SYSTEM = Machine(name="e2-standard-4", cloud="gcp", vcpus=4, memory_mib=16384, arch="x86_64", sockets=1, max_pods=110)


class GkePool(Pool):
    """A node pool of one machine type."""

    image: Literal["cos-gpu"] = "cos-gpu"
    accelerator_driver: QuotedText = "580"


class GkeSystem(SystemPool):
    """The pool of CPU nodes."""

    instance_types: tuple[str, ...] = (SYSTEM.name,)


class GkeCluster(Cluster):
    """A cluster of the invented cloud."""

    provider: Literal["gke"]
    project: Annotated[str, Field(min_length=6)]
    zones: Annotated[tuple[str, ...], Field(min_length=1)]
    enablement: Enablement = "device-plugin"
    system: GkeSystem = GkeSystem()
    caches: dict[DnsLabel, Cache] = Field(default_factory=dict)
    pools: dict[DnsLabel, GkePool] = Field(default_factory=dict)
    runners: dict[SetName, PodRunner]

    @property
    def node_zones(self) -> tuple[str, ...]:
        return self.zones

    def zones_with_nodes(self, pool: Any) -> tuple[str, ...]:
        return self.zones

    def image_driver(self, pool: str) -> str | None:
        return "580.159.03"

    @property
    def quota_scopes(self) -> tuple[str, ...]:
        return (f"{self.project} in {self.region}",)


class Gke(Provider[GkeCluster]):
    """The whole contract."""

    settings = GkeCluster
    cloud = "gcp"
    profile = SchedulingProfile(
        gpu_taint=Taint("nvidia.com/gpu", "present", Effect.NO_SCHEDULE),
        accelerator_label="cloud.google.com/gke-accelerator",
        reserved_prefixes=("cloud.google.com/", *EKS_PROFILE.reserved_prefixes[1:]),
        idle_delay_per_pool=False,
        from_zero=True,
        shares_from_zero=False,
        spot_taint=Taint("cloud.google.com/gke-spot", "true", Effect.NO_SCHEDULE),
    )
    tags = NO_TAGS
    orders = True
    mixed_spot = "the cloud ends a spot node 30 seconds after its notice"

    def bill(self, name: str, cluster: GkeCluster, day: date) -> Iterator[Paid | Line]:
        for pool_name, pool in cluster.pools.items():
            line = nodes(
                name, f"pool {pool_name}", pool.instance_types, cluster.region, pool.capacity, pool.nodes.min, pool.nodes.max
            )
            yield Paid(name=pool_name, line=line, region=cluster.region, disk={})
        yield units(name, "control plane", "GKE cluster", "gke-control-plane", cluster.region, 1, 1)

    def needs(self, declaring: GkeCluster, clusters: Iterable[GkeCluster]) -> tuple[Need, ...]:
        return tuple(
            need
            for cluster in clusters
            if cluster.quota_scopes == declaring.quota_scopes
            for pool in cluster.pools.values()
            for need in needs(pool.machines, pool.capacity, pool.nodes.max, cluster.region)
        )

    def quota_remarks(self, clusters: Iterable[GkeCluster]) -> Iterator[str]:
        known = tuple(clusters)
        for cluster in known[:1]:
            for need in self.needs(cluster, known):
                yield todo(f"GKE {cluster.region}: full pools need {need.units} of quota {need.code}")

    def charts(self, cluster: GkeCluster, physical_name: str, github: GitHub) -> tuple[Chart, ...]:
        return ()

    def system_machines(self, cluster: GkeCluster) -> SystemMachines | None:
        return cluster.system.machines, cluster.system.disk, cluster.system.nodes

    def moves(self, name: str, cluster: GkeCluster, order: Sequence[str]) -> str:
        return f"the cloud's autoscaler leaves {order[0]} alone for five minutes after a stockout"

    def rules(self, clusters: Mapping[str, GkeCluster], github: GitHub) -> Iterator[Violation]:
        claims = (Claim(cluster.project, name, ("clusters", name, "project")) for name, cluster in clusters.items())
        for claim, first in conflicts(claims):
            yield Violation("gke_project", f"cluster {first} is in that project too; give each its own", claim.at)

    def capacity_remarks(self, name: str, cluster: GkeCluster) -> Iterator[str]:
        yield f"{name}: capacity: undeterminable: ask with gcloud compute advice capacity --region {cluster.region}"


def register(patch: pytest.MonkeyPatch) -> None:
    """Register the provider until the test ends, with the rows that a real one has in fleet/facts/data."""
    patch.setitem(PROVIDERS, "gke", Gke())
    for machine in (L4, SYSTEM):
        patch.setitem(hardware._machines(), machine.name, machine)
    for item, capacity, usd in (
        (L4.name, "on-demand", 0.85),
        (L4.name, "spot", 0.34),
        (SYSTEM.name, "on-demand", 0.13),
        ("gke-control-plane", hardware._UNIT, 0.10),
    ):
        patch.setitem(hardware._prices(), (item, "europe-west4", capacity), Price(usd, False, "invented", "2026-11-26"))
    for capacity in ("on-demand", "spot"):
        patch.setitem(hardware._quotas(), ("gcp", "", capacity), f"NVIDIA_L4_GPUS_{capacity}")
    image = NodeImage("cos-gpu", driver=True, toolkit=True, advertises=False, clouds=("gcp",))
    patch.setitem(NODE_IMAGES, image.name, image)
    patch.setitem(offer._KEPT, "gcp", lambda machine: (100, 2048, machine.max_pods or 110))
    facts = {"labels": ["topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"]}
    patch.setitem(toml("nodes.toml")["providers"], "gke", facts)
