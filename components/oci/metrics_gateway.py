"""The gateway in an OKE cluster to which OCI machines push their metrics, and the only way to it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pulumi
import pulumi_oci as oci

from components.component import Component, Resources, Text
from components.kubernetes.custom import custom
from components.oci.in_cluster import NewCluster
from components.oci.security import IN, OUT, TCP, ports, rule, security_group
from fleet.facts.manifest import Manifest
from fleet.providers.oke.gateway import Gateway, gateway_annotations, gateway_objects

_KUBE_PROXY = 10256
"""Where OKE's load balancers ask whether a node is healthy (docs.oracle.com, example network configurations)."""


class MetricsGateway(Component[NewCluster, Gateway]):
    """A private network load balancer with a fixed address, a security group for each machine set, and the agents behind it.

    The address is fixed, because the metadata of machines has it: it is the same after the Service was recreated. Each set
    reaches one port, so the port says which set pushes.
    """

    gateway: Gateway
    """The addresses."""
    set_group_ids: dict[str, pulumi.Output[str]]
    """The security group by set. A machine needs it beside its own."""
    rules: tuple[pulumi.Resource, ...]
    """These must exist before a machine can push."""

    def declare(self, name: str, here: NewCluster, gateway: Gateway) -> dict[str, Any]:
        self._here, self.gateway = here, gateway
        place = {"compartment_id": here.settings.compartment, "vcn_id": here.cluster.vcn_id, "cidr_block": gateway.subnet}
        about = {"display_name": f"{name}-subnet", "dns_label": "metrics", "freeform_tags": here.tags}
        opts = self._below(*here.cluster.ready)
        subnet = oci.core.Subnet(f"{name}-subnet", **place, **about, prohibit_public_ip_on_vnic=True, opts=opts)
        receiver = self._group("gateway")
        numbers, workers = gateway.ports, here.cluster.node_security_group_id
        sets = {set_name: self._group(f"set.{set_name}") for set_name in numbers}
        self.set_group_ids = {set_name: group.id for set_name, group in sets.items()}
        self.rules = tuple(
            opened
            for set_name, port in numbers.items()
            for opened in self._open(f"set.{set_name}", sets[set_name].id, receiver.id, port, port, f"Metrics of {set_name}")
        )
        first, last = min(numbers.values()), max(numbers.values())
        nodes = [
            *self._open("nodes", receiver.id, workers, first, last, "Metrics of machines"),
            *self._open("health", receiver.id, workers, _KUBE_PROXY, _KUBE_PROXY, "Health of nodes"),
        ]
        self._objects(gateway_objects(gateway, here.physical_name), [*self.rules, *nodes], subnet.id, receiver.id)
        return {"setGroupIds": self.set_group_ids}

    def _objects(self, objects: Mapping[str, Manifest], rules: Resources, subnet_id: Text, group_id: Text) -> None:
        """The Kubernetes objects. The Service comes last: OKE makes the load balancer for it, and the program waits for that."""

        ready = self._here.cluster.ready

        def declare(role: str, *needed: pulumi.Resource, **more: Any) -> pulumi.Resource:
            return custom(f"{self._name}-{role}", objects[role] | more, parent=self, depends_on=[*ready, *needed])

        space = declare("namespace")
        config, wall = declare("config", space), declare("network", space)
        agents = declare("agents", space, config, wall)
        late = pulumi.Output.all(subnet_id, group_id).apply(lambda ids: gateway_annotations(self.gateway, *ids))
        declare("service", space, agents, *rules, metadata=objects["service"]["metadata"] | {"annotations": late})

    def _open(self, role: str, source: Text, target: Text, first: int, last: int, why: str) -> list[pulumi.Resource]:
        """The two rules by which the group `source` reaches TCP ports of the group `target`."""
        name, opened = f"{self._name}-{role}", partial(rule, parent=self, tcp_options=ports(first, last))
        out = opened(f"{name}-egress", OUT, source, target, TCP, why)
        return [out, opened(f"{name}-ingress", IN, target, source, TCP, why)]

    def _group(self, role: str) -> oci.core.NetworkSecurityGroup:
        here, name = self._here, f"{self._name}-{role}"
        cluster, compartment = here.cluster, here.settings.compartment
        return security_group(name, compartment, cluster.vcn_id, here.tags, cluster.ready, parent=self)
