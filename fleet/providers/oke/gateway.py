"""How OCI machines that run jobs push metrics: which sets do, and the gateway of their cluster that takes them.

Nothing connects to such a machine, and no secret for metrics is on it. So a private network load balancer has a fixed address in
the new VCN, and each set has a port of its own there. A security group of the set alone may reach that port. Behind the port is
a Prometheus agent, which writes the labels `runner_class` and `cluster`, whatever the machine says.

An agent has no query API: it answers "unavailable with Prometheus Agent" (prometheus/prometheus web/api/v1/api.go). So a job
reads no series of others. The agent does show its own configuration and metrics, and both hold no secret.
"""

import json
from collections.abc import Iterator
from typing import Any

from fleet.charts.chart import Pod, part, requests
from fleet.charts.dcgm_exporter import counters
from fleet.charts.kube_prometheus import STACK
from fleet.facts.manifest import Manifest, manifest, single
from fleet.facts.pods import CONFINED, CONFINED_POD
from fleet.facts.record import Record
from fleet.facts.scheduling import POD_SECURITY_LABEL, SYSTEM_SELECTOR
from fleet.facts.versions import PROMETHEUS_IMAGE
from fleet.providers.oke.cluster import OkeCluster, OkePools
from fleet.providers.oke.network import gateway_subnet

WRITE = "/api/v1/write"
"""Path at which every Prometheus takes remote write."""
_FIRST_PORT = 30_000
"""Kubernetes takes node ports from 30000 to 30085 last when it chooses some itself (kubernetes.io, "Avoid collisions assigning
ports to NodePort Services")."""
SET = Pod("metrics-gateway", 30, 96)
"""The container of one set. Not measured under load: an agent with one target held 43 MiB."""


class Gateway(Record):
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
    own = f"http://{STACK}-prometheus.{monitoring.namespace}.svc:9090{WRITE}"
    target = own if monitoring.installs else monitoring.remote_write_url
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
    if (monitoring := cluster.monitoring) is None or not isinstance(cluster, OkeCluster):
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


NAMESPACE = NAME = "metrics-gateway"
"""The program owns the namespace, also where Argo CD installs the rest: the Service names ids of the cloud."""
_LABELS = {"app.kubernetes.io/name": NAME}
_UID = 65534
"""The user of the image (prometheus/prometheus Dockerfile: `USER nobody`)."""
METRICS = tuple(name for name, kind in counters() if kind != "label")
"""Names of the series that a machine may push: those that the exporter collects."""
VALUES: dict[str, str] = {"__name__": "|".join(METRICS)} | part(__file__, "labels")
"""What a machine may say in each label."""


def agent_config(set_name: str, cluster: str, target: str) -> dict[str, Any]:
    """The configuration of the agent of one set. `cluster` is the physical name of the cluster, `target` Prometheus' URL.

    The label `kubernetes_node` is `<set>/<machine>`. No node has a slash in its name, so no machine passes for a node.
    """
    accepted = ";".join(f"({values})" for values in VALUES.values())
    written = {"cluster": cluster, "runner_class": set_name, "job": NAME}
    relabel = [
        {"action": "keep", "source_labels": list(VALUES), "regex": accepted},
        {"action": "labelkeep", "regex": "|".join(VALUES)},
        {"source_labels": ["instance"], "regex": "(.+)", "target_label": "kubernetes_node", "replacement": f"{set_name}/$1"},
        *({"target_label": label, "replacement": value} for label, value in written.items()),
    ]
    # One request at a time: Prometheus gets no more than one agent sends, however many machines push.
    return {"remote_write": [{"url": target, "queue_config": {"max_shards": 1}, "write_relabel_configs": relabel}]}


def _container(set_name: str, port: int) -> dict[str, Any]:
    secure = CONFINED | {"readOnlyRootFilesystem": True}
    given = {"image": PROMETHEUS_IMAGE, "port": port, "security": secure, "requests": requests(SET)["requests"]}
    made = part(__file__, "agent", name=set_name, **given)
    return made | {"args": [argument.format(set=set_name, port=port) for argument in made["args"]]}


def gateway_objects(gateway: Gateway, cluster: str) -> dict[str, Manifest]:
    """The objects of a gateway by role. `cluster` is the cluster's physical name.

    The Service lacks its annotations: they have ids that the cloud assigns.
    """
    ports, target = gateway.ports, gateway.target
    configs = {f"{name}.json": json.dumps(agent_config(name, cluster, target), indent=2, sort_keys=True) for name in ports}
    containers = [_container(name, port) for name, port in ports.items()]
    user = {"runAsUser": _UID, "runAsGroup": _UID, "fsGroup": _UID}
    pod = part(__file__, "pod", containers=containers, security=CONFINED_POD | user, selector=dict(SYSTEM_SELECTOR))
    # The load balancer's packets come from nodes, so the policy names no source.
    network = part(__file__, "network", labels=_LABELS, ports=[{"protocol": "TCP", "port": port} for port in ports.values()])
    at_nodes = [{"name": f"set-{at}", "protocol": "TCP", "port": at, "targetPort": at, "nodePort": at} for at in ports.values()]
    service = part(__file__, "service", labels=_LABELS, ports=at_nodes)
    return {
        "namespace": manifest("v1", "Namespace", NAMESPACE, labels={POD_SECURITY_LABEL: "restricted"}),
        "config": manifest("v1", "ConfigMap", NAME, NAMESPACE) | {"data": configs},
        "network": manifest("networking.k8s.io/v1", "NetworkPolicy", NAME, NAMESPACE, network),
        "agents": single(NAME, NAMESPACE, configs, pod),
        "service": manifest("v1", "Service", NAME, NAMESPACE, service),
    }


def gateway_annotations(gateway: Gateway, subnet_id: str, group_id: str) -> dict[str, str]:
    """Annotations of the Service: a private network load balancer in this subnet and security group, at the gateway's address.

    OKE manages no security list here. With `externalTrafficPolicy: Cluster` the load balancer does not keep the source address,
    so nodes see its own, which is in the security group. OCI takes no money for it (oracle.com, Flexible Network Load Balancer:
    "no-cost"), so the bill has no line.
    """
    nodes = ",".join(f"{key}={value}" for key, value in SYSTEM_SELECTOR.items())
    return part(__file__, "annotations", address=gateway.address, group=group_id, nodes=nodes, subnet=subnet_id)
