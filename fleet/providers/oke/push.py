"""How OCI machines that run jobs push metrics: which sets do, and the gateway of their cluster that takes them.

Nothing connects to such a machine, and no secret for metrics is on it. So a private network load balancer has a fixed address in
the new VCN, and each set has a port of its own there. A security group of the set alone may reach that port. The gateway behind
the port writes the labels `runner_class` and `cluster`, whatever the machine says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleet.charts.chart import Pod
from fleet.charts.kube_prometheus import STACK
from fleet.providers.oke.addresses import gateway_subnet
from fleet.providers.oke.cluster import OkeCluster, OkePools

WRITE = "/api/v1/write"
"""Path at which every Prometheus takes remote write."""
_FIRST_PORT = 30_000
"""Kubernetes takes node ports from 30000 to 30085 last when it chooses some itself (kubernetes.io, "Avoid collisions assigning
ports to NodePort Services")."""
SET = Pod("metrics-gateway", 30, 96)
"""The container of one set. Not measured under load: an agent with one target held 43 MiB."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway of a cluster: its subnet and address in the VCN, the port of each set, and the Prometheus that it writes to."""

    subnet: str
    address: str
    ports: dict[str, int]
    target: str
    complete: tuple[str, ...]
    """The sets all of whose machines push."""

    @property
    def pod(self) -> Pod:
        """What its pod requests."""
        return SET.times(len(self.ports))

    def url(self, set_name: str) -> str:
        """Where the machines of a set write."""
        return f"http://{self.address}:{self.ports[set_name]}{WRITE}"


def gateway(cluster: OkePools) -> Gateway | None:
    """The gateway of a cluster; None if none of its machines can push.

    The ports follow the order of the sets. A machine learns its port when it is launched, so machines that wait for a job stop
    pushing when an earlier set is added or removed, until they are replaced after their job.
    """
    monitoring = cluster.monitoring
    if monitoring is None or not isinstance(cluster, OkeCluster) or cluster.own_cidr is None:
        return None
    target = (
        f"http://{STACK}-prometheus.{monitoring.namespace}.svc:9090{WRITE}"
        if monitoring.installs
        else monitoring.remote_write_url
    )
    # Machines of a place without a subnet of its own are in the cluster's.
    reach = {
        name: [runner.booted_here and place.subnet is None for place in runner.places_in(cluster.region)]
        for name, runner in cluster.machine_runners()
    }
    sets = [name for name, places in reach.items() if any(places)]
    if target is None or not sets:
        return None
    subnet, address = gateway_subnet(cluster.own_cidr)
    ports = {name: _FIRST_PORT + index for index, name in enumerate(sets)}
    return Gateway(subnet, address, ports, target, tuple(name for name in sets if all(reach[name])))


def push_remarks(cluster: OkePools) -> Iterator[str]:
    """The machines whose metrics Prometheus does not get, and why."""
    monitoring = cluster.monitoring
    if monitoring is None or not isinstance(cluster, OkeCluster):
        return
    for name, runner in cluster.machine_runners():
        away = [place.region for place in runner.places_in(cluster.region) if place.subnet is not None]
        if not runner.booted_here:
            yield f"machines of {name} push no metrics: CNCF's launcher boots them"
        elif cluster.own_cidr is None:
            yield f"machines of {name} push no metrics: the program knows no free address of an existing VCN"
        elif not monitoring.installs and monitoring.remote_write_url is None:
            yield f"machines of {name} push no metrics: set monitoring.remoteWriteUrl to the URL at which Prometheus takes them"
        elif away:
            yield f"machines of {name} in {', '.join(dict.fromkeys(away))} push no metrics: their subnet is not the cluster's"
