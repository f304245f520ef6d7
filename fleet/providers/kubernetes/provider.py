"""Any cluster that exists already, by its kubeconfig context."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from fleet.facts.bill import Paid
from fleet.facts.pricing import Line
from fleet.facts.scheduling import KUBERNETES_PROFILE
from fleet.providers.kubernetes.cluster import KubernetesCluster
from fleet.providers.provider import Provider
from fleet.providers.starter import Starter
from fleet.providers.tags import NO_TAGS


class ContextStarter(Starter):
    """A cluster whose GPU nodes are there. They are never bought."""

    templates = Path(__file__).parent / "templates"
    answers = ("existing-context",)
    where = "on a cluster that exists already"
    jobs = ("tests", "training")
    reads = True


class Kubernetes(Provider[KubernetesCluster]):
    """A cluster whose nodes are there. The program buys none."""

    settings = KubernetesCluster
    cloud = ""
    starter = ContextStarter()
    profile = KUBERNETES_PROFILE
    tags = NO_TAGS

    def bill(self, name: str, cluster: KubernetesCluster, day: date) -> Iterator[Paid | Line]:
        """The pools. Nothing is bought, so a price is what `usdPerHour` says. The rest of the cluster is not counted."""
        for pool_name, pool in cluster.pools.items():
            hour = pool.price(pool.instance_types[0], cluster.region)
            text = f"{' or '.join(pool.instance_types)} of the cluster, price {'not stated' if hour.unknown else 'as stated'}"
            line = Line(name, f"pool {pool_name}", text, pool.nodes.min, pool.nodes.max, hour, hour, ("the stack file",))
            yield Paid(name=pool_name, line=line, region=cluster.region)
