"""Machines of the owner with Talos Linux."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.bill import Paid
from fleet.facts.hardware import OWNED
from fleet.facts.pricing import Line
from fleet.facts.scheduling import TALOS_PROFILE
from fleet.providers.provider import Provider
from fleet.providers.tags import NO_TAGS
from fleet.providers.talos.boot.files import talos_files
from fleet.providers.talos.cluster import TalosCluster
from fleet.providers.talos.starter import TalosStarter


class Talos(Provider[TalosCluster]):
    """Talos: `make render` writes what the machines boot from, and ArgoCD installs the charts."""

    settings = TalosCluster
    cloud = OWNED
    starter = TalosStarter()
    profile = TALOS_PROFILE
    tags = NO_TAGS
    deployable = False

    def bill(self, name: str, cluster: TalosCluster, day: date) -> Iterator[Paid | Line]:
        """The GPU pools, whose machines stay on. The cost of hosts outside of pools is unknown and not counted."""
        for pool_name, pool in cluster.pools.items():
            machine = pool.instance_types[0]
            price = pool.price(machine, cluster.region)
            text = f"{machine}, price {'not stated' if price.unknown else 'as stated'}"
            line = Line(name, f"pool {pool_name}", text, pool.nodes.min, pool.nodes.max, price, price, ("the stack file",))
            yield Paid(name=pool_name, line=line, region=cluster.region)

    boot_files = staticmethod(talos_files)
