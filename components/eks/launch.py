"""The launch template of every EKS node, GPU or not, its network interfaces, and what nodes need of the control plane to join."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

from components.generations import Suffix
from fleet.facts.hardware import Machine
from fleet.providers.eks.node_options import DiskPerformance


def interfaces(machine: Machine, efa: int, security_group: pulumi.Input[str] | None) -> list[dict[str, Any]]:
    """The interfaces of a machine with `efa` adapters, each on a card of its own. The first interface is the primary one.

    Only `efa` and `interface` have IP addresses, and the primary interface needs one (EC2 user guide, maximize network bandwidth
    on instances with multiple network cards). Adapters on other cards are `efa-only`, so that they take no address of the subnet.
    P6-B300 has a card more than adapters: its card 0 has none. Other cards have device index 1 (AWS PCS user guide, launch
    template with EFA). They have no subnet, which EKS sets. Of a template with interfaces, EC2 takes the security groups from
    them. EFA needs the cluster's own group: it allows all traffic within itself in both directions (EKS user guide, security
    group requirements).
    """
    first = max(machine.network_cards - machine.efa_interfaces, 0)
    others = range(first, efa + first) if first else range(1, efa)
    shared: dict[str, Any] = {"security_groups": [security_group], "delete_on_termination": "true"}
    return [
        {"network_card_index": card, "device_index": device, "interface_type": kind, **shared}
        for card, device, kind in ((0, 0, "interface" if first else "efa"), *((card, 1, "efa-only") for card in others))
    ]


def launch_template(
    logical_name: str,
    disk: int,
    tags: Mapping[str, str],
    *,
    parent: pulumi.Resource,
    performance: DiskPerformance | None = None,
    reservation: str | None = None,
    suffix: Suffix = lambda *_: "",
    more: object = None,
    **options: Any,
) -> aws.ec2.LaunchTemplate:
    """IMDSv2 with one hop, so that no pod reads the node's credentials; an encrypted gp3 root volume of `disk` MiB.

    Instance types stay on the node group, except the one of a capacity block: in the template a spot pool could have one type
    only. `reservation` is the id of the only capacity reservation or block in which its machines run.
    EKS replaces every node of a pool whose template changes, so `tags` must never change: owner tags belong on the Auto Scaling
    groups. `options` are further inputs of the template.
    `suffix` says from the name and from what the template is made of how the name of its generation ends. `more` is a part of
    that: what inputs that are outputs are made of.
    """
    target = {"capacity_reservation_target": {"capacity_reservation_id": reservation}}
    reserved = {"capacity_reservation_preference": "capacity-reservations-only", **target}
    volume = {"volume_size": disk // 1024, "volume_type": "gp3", **(performance.model_dump() if performance else {})}
    ebs = {**volume, "encrypted": "true", "delete_on_termination": "true"}
    inputs = dict(
        metadata_options={"http_endpoint": "enabled", "http_tokens": "required", "http_put_response_hop_limit": 1},
        block_device_mappings=[{"device_name": "/dev/xvda", "ebs": ebs}],
        capacity_reservation_specification=reserved if reservation else None,
        # The provider's default tags do not reach the instances that EKS launches.
        tag_specifications=[{"resource_type": kind, "tags": dict(tags)} for kind in ("instance", "volume", "network-interface")],
        update_default_version=True,
        **options,
    )
    name = logical_name + suffix(logical_name, {**inputs, "more": more})
    return aws.ec2.LaunchTemplate(name, **inputs, opts=pulumi.ResourceOptions(parent=parent))


def joining(cluster: pulumi.Output[aws.eks.Cluster]) -> dict[str, pulumi.Output[str]]:
    """Address, certificate authority and range of services of a control plane, by argument of GpuNodeGroup."""
    return {
        "cluster_endpoint": cluster.apply(lambda plane: part_of(plane, "endpoint")),
        "cluster_certificate_authority": cluster.apply(lambda plane: part_of(plane, "certificate_authority", "data")),
        "service_cidr": cluster.apply(lambda plane: part_of(plane, "kubernetes_network_config", "service_ipv4_cidr")),
    }


def part_of(cluster: aws.eks.Cluster | None, key: str, inner: str = "") -> Any:
    """A value of the control plane. A simulated cloud may report none. Then it is empty."""
    value: Any = getattr(cluster, key, None)
    return value.apply(lambda part: getattr(part, inner, None) or "") if value is not None and inner else value or ""
