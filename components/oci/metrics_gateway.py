"""The gateway in an OKE cluster to which OCI machines push their metrics, and the only way to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pulumi_oci as oci

from components.component import Component
from components.oci.security import GROUP, TCP, ports, security_group
from fleet.providers.oke.gateway import GatewayObjects, gateway_annotations, gateway_objects
from fleet.providers.oke.push import Gateway

_KUBE_PROXY = 10256
"""Where OKE's load balancers ask whether a node is healthy (docs.oracle.com, example network configurations)."""


@dataclass(frozen=True, slots=True)
class MetricsGatewayArgs:
    """`cluster` is the cluster's physical name. `workers_id` is the security group of its nodes. `ready` must exist before."""

    gateway: Gateway
    cluster: str
    compartment: str
    vcn_id: pulumi.Input[str]
    workers_id: pulumi.Input[str]
    ready: Sequence[pulumi.Resource]
    tags: dict[str, str]


class MetricsGateway(Component[MetricsGatewayArgs]):
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

    def declare(self, name: str, args: MetricsGatewayArgs) -> dict[str, Any]:
        subnet = oci.core.Subnet(
            f"{name}-subnet",
            compartment_id=args.compartment,
            vcn_id=args.vcn_id,
            cidr_block=args.gateway.subnet,
            dns_label="metrics",
            prohibit_public_ip_on_vnic=True,
            display_name=f"{name}-subnet",
            freeform_tags=args.tags,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.ready)),
        )
        own = self._group("gateway")
        numbers = args.gateway.ports
        sets = {each: self._group(f"set.{each}") for each in numbers}
        self.gateway = args.gateway
        self.set_group_ids = {each: group.id for each, group in sets.items()}
        self.rules = tuple(
            rule
            for each, group in sets.items()
            for rule in self._open(f"set.{each}", group.id, own.id, numbers[each], numbers[each], f"Metrics of {each}")
        )
        nodes = [
            *self._open("nodes", own.id, args.workers_id, min(numbers.values()), max(numbers.values()), "Metrics of machines"),
            *self._open("health", own.id, args.workers_id, _KUBE_PROXY, _KUBE_PROXY, "Health of nodes"),
        ]
        self._objects(gateway_objects(args.gateway, args.cluster), [*self.rules, *nodes], subnet.id, own.id)
        return {"setGroupIds": self.set_group_ids}

    def _objects(
        self, made: GatewayObjects, rules: Sequence[pulumi.Resource], subnet_id: pulumi.Input[str], group_id: pulumi.Input[str]
    ) -> None:
        """The Kubernetes objects. The Service comes last: OKE makes the load balancer for it, and the program waits for that."""

        def below(*needed: pulumi.Resource) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(parent=self, depends_on=[*self._args.ready, *needed], delete_before_replace=True)

        space = kubernetes.core.v1.Namespace(f"{self._name}-namespace", metadata=made.namespace["metadata"], opts=below())
        config = kubernetes.core.v1.ConfigMap(
            f"{self._name}-config", metadata=made.config["metadata"], data=made.config["data"], opts=below(space)
        )
        wall = kubernetes.networking.v1.NetworkPolicy(
            f"{self._name}-network", metadata=made.network["metadata"], spec=made.network["spec"], opts=below(space)
        )
        agents = kubernetes.apps.v1.Deployment(
            f"{self._name}-agents", metadata=made.agents["metadata"], spec=made.agents["spec"], opts=below(space, config, wall)
        )
        late = pulumi.Output.all(subnet_id, group_id).apply(lambda ids: gateway_annotations(self._args.gateway, *ids))
        kubernetes.core.v1.Service(
            f"{self._name}-service",
            metadata=made.service["metadata"] | {"annotations": late},
            spec=made.service["spec"],
            opts=below(space, agents, *rules),
        )

    def _open(
        self, role: str, source: pulumi.Input[str], target: pulumi.Input[str], first: int, last: int, why: str
    ) -> list[pulumi.Resource]:
        """The two rules by which the group `source` reaches TCP ports of the group `target`."""
        ends: list[dict[str, Any]] = [
            {"direction": "EGRESS", "group": source, "destination": target, "destination_type": GROUP},
            {"direction": "INGRESS", "group": target, "source": source, "source_type": GROUP},
        ]
        return [
            oci.core.NetworkSecurityGroupSecurityRule(
                f"{self._name}-{role}-{end['direction'].lower()}",
                network_security_group_id=end.pop("group"),
                protocol=TCP,
                stateless=False,
                tcp_options=ports(first, last),
                description=why,
                opts=pulumi.ResourceOptions(parent=self),
                **end,
            )
            for end in ends
        ]

    def _group(self, role: str) -> oci.core.NetworkSecurityGroup:
        args = self._args
        return security_group(f"{self._name}-{role}", args.compartment, args.vcn_id, args.tags, args.ready, parent=self)
