"""private-nodes: no node and no machine has an address on the internet.

Judged: the subnets of EKS node groups and OKE node pools, which must give out no public address; launch templates, EC2 instances, OCI
instances and instance configurations, which must ask for none. Which subnet a pool stands in is known by what it depends on, since a
subnet's id is unknown before it exists; a subnet that is given by its id is not ours to judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_policy import PolicyResource, ReportViolation, Severity

from .kinds import (
    AWS_SUBNET,
    EC2_INSTANCE,
    EKS_NODE_GROUP,
    LAUNCH_TEMPLATE,
    OCI_INSTANCE,
    OCI_INSTANCE_CONFIGURATION,
    OCI_SUBNET,
    OKE_NODE_POOL,
)
from .read import Later, count, items, keys, line, shown, true, walk
from .rule import Stack, StackRule

_SUBNETS = {EKS_NODE_GROUP: ("subnetIds", AWS_SUBNET), OKE_NODE_POOL: ("nodeConfigDetails", OCI_SUBNET)}


def _check(stack: Stack, report: ReportViolation) -> None:
    later = Later()
    for resource in stack.resources:
        for fault in _faults(resource, later):
            report(fault, resource.urn)
    later.settle()


def _faults(resource: PolicyResource, later: Later) -> Iterator[str]:
    token, props = resource.resource_type, resource.props
    if token in _SUBNETS:
        field, kind = _SUBNETS[token]
        for subnet in resource.property_dependencies.get(field, ()):
            if subnet.resource_type == kind:
                yield from _subnet(subnet, later)
    elif token == LAUNCH_TEMPLATE:
        with later:
            for index, interface in items(walk(props, "networkInterfaces"), later):
                yield from _ec2(f"networkInterfaces[{index}].", interface, "associatePublicIpAddress", later)
    elif token == EC2_INSTANCE:
        yield from _ec2("", props, "associatePublicIpAddress", later)
    elif token == OCI_INSTANCE:
        with later:
            yield from _vnic("", props, later)
    elif token == OCI_INSTANCE_CONFIGURATION:
        yield from _configuration(props, later)


def _subnet(subnet: PolicyResource, later: Later) -> Iterator[str]:
    with later:
        if subnet.resource_type == AWS_SUBNET and true(walk(subnet.props, "mapPublicIpOnLaunch")):
            yield (
                f"subnetIds: {line(subnet.name)} gives every node a public address (mapPublicIpOnLaunch is true); "
                "use subnets that do not"
            )
        elif subnet.resource_type == OCI_SUBNET and not true(walk(subnet.props, "prohibitPublicIpOnVnic")):
            yield (
                f"nodeConfigDetails: subnet {line(subnet.name)} lets nodes have a public address; "
                "set prohibitPublicIpOnVnic of the subnet, or use another"
            )


def _ec2(prefix: str, holder: Any, field: str, later: Later) -> Iterator[str]:
    with later:
        given = walk(holder, field)
        if true(given):
            yield f"{prefix}{field} is {shown(given)}: a node needs no way in from the internet; write false"


def _vnic(prefix: str, details: Any, later: Later) -> Iterator[str]:
    with later:
        given = walk(details, "createVnicDetails", "assignPublicIp")
        # OCI gives a public address where the subnet allows one, unless it is told not to; Terraform's provider takes text.
        if given is None or true(given):
            yield (
                f"{prefix}createVnicDetails.assignPublicIp is {shown(given)}: a machine needs no way in from the internet; "
                "write false"
            )


def _configuration(props: Any, later: Later) -> Iterator[str]:
    with later:
        details = walk(props, "instanceDetails")
        options = walk(details, "options")
        for index, option in items(options, later):
            with later:
                launch = walk(option, "launchDetails")
                yield from _vnic(f"instanceDetails.options[{index}].launchDetails.", launch, later)
        launch = walk(details, "launchDetails")
        if keys(launch) or not count(options):
            yield from _vnic("instanceDetails.launchDetails.", launch, later)


RULE = StackRule(
    id="private-nodes",
    title="Nodes and machines have no public address",
    severity=Severity.HIGH,
    types=frozenset((*_SUBNETS, AWS_SUBNET, OCI_SUBNET, LAUNCH_TEMPLATE, EC2_INSTANCE, OCI_INSTANCE, OCI_INSTANCE_CONFIGURATION)),
    levels={"dev": "advisory", "staging": "mandatory", "prod": "mandatory", "homelab": "disabled"},
    rationale="Runners call out and nobody calls in: an address on the internet only adds a way to reach them.",
    source="https://docs.aws.amazon.com/eks/latest/best-practices/subnets.html",
    fix="Stand nodes in private subnets behind a NAT gateway, and write assignPublicIp false for OCI machines.",
    check=_check,
)
