"""node-role-least-privilege: what a node may do in the cloud is what a node needs.

Judged: roles that EC2 instances take, with the policies attached to them; inline and managed policies that allow everything; policies of OCI
that give all resources of a tenancy, which only one of the tenancy itself can. A role's attachments are known by what they depend on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_policy import PolicyResource, ReportViolation, Severity

from .documents import listed, statements
from .kinds import IAM_ROLE
from .read import Later, items, shown, text, walk
from .rule import Stack, StackRule

ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
IAM_POLICY = "aws:iam/policy:Policy"
OCI_POLICY = "oci:Identity/policy:Policy"
ALLOWED = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKSWorkerNodeMinimalPolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonSSMManagedInstanceCore",
)
"""What EKS asks for on a node (EKS user guide, node IAM role), and Session Manager in place of SSH."""

_EC2 = "ec2.amazonaws.com"
_COMPARTMENT = "ocid1.compartment."
_WHOLE_TENANCY = re.compile(r"\s*allow\b.*\bto\s+manage\s+all-resources\s+in\s+tenancy\b.*", re.IGNORECASE | re.DOTALL)


def _check(stack: Stack, report: ReportViolation) -> None:
    later = Later()
    allowed = [text(name) for _, name in items(stack.config.get("allowed", ALLOWED), later)]
    for resource in stack.resources:
        for fault in _FAULTS[resource.resource_type](resource, allowed, later):
            report(fault, resource.urn)
    later.settle()


def _attachment(attachment: PolicyResource, allowed: list[str], later: Later) -> Iterator[str]:
    with later:
        arn = text(walk(attachment.props, "policyArn"))
        name = arn.rpartition("/")[2]
        if name in allowed:
            return
        roles = [each for each in attachment.property_dependencies.get("role", ()) if each.resource_type == IAM_ROLE]
        for role in roles:
            if _is_node(role, later):
                yield f"policyArn is {shown(arn)}: a node needs no such rights; give them to the pod that does (Pod Identity)"


def _is_node(role: PolicyResource, later: Later) -> bool:
    with later:
        for _, statement in statements(walk(role.props, "assumeRolePolicy"), later):
            if _EC2 in listed(walk(statement, "Principal", "Service"), later):
                return True
    return False


def _role(role: PolicyResource, allowed: list[str], later: Later) -> Iterator[str]:
    with later:
        for index, policy in items(walk(role.props, "inlinePolicies"), later):
            with later:
                yield from _documents(f"inlinePolicies[{index}].policy", walk(policy, "policy"), later)
    with later:
        named = [(index, text(arn)) for index, arn in items(walk(role.props, "managedPolicyArns"), later)]
        strange = [(index, arn) for index, arn in named if arn.rpartition("/")[2] not in allowed]
        if strange and _is_node(role, later):
            for index, arn in strange:
                yield f"managedPolicyArns[{index}] is {shown(arn)}: a node needs no such rights; give them to the pod that does"


def _policy(policy: PolicyResource, _: list[str], later: Later) -> Iterator[str]:
    with later:
        yield from _documents("policy", walk(policy.props, "policy"), later)


def _documents(path: str, document: Any, later: Later) -> Iterator[str]:
    for where, statement in statements(document, later):
        if "*" in listed(walk(statement, "Action"), later) and "*" in listed(walk(statement, "Resource"), later):
            yield f"{path}: {where} allows every action on every resource; name the actions and the resources"


def _oci(policy: PolicyResource, _: list[str], later: Later) -> Iterator[str]:
    with later:
        # A policy has no say above the compartment that it stands in, whatever its statements are.
        if text(walk(policy.props, "compartmentId")).startswith(_COMPARTMENT):
            return
        for index, statement in items(walk(policy.props, "statements"), later):
            if _WHOLE_TENANCY.fullmatch(text(statement)):
                yield f"statements[{index}] gives all resources of the tenancy; name the resources and the compartment"


_FAULTS = {ATTACHMENT: _attachment, IAM_ROLE: _role, ROLE_POLICY: _policy, IAM_POLICY: _policy, OCI_POLICY: _oci}

RULE = StackRule(
    id="node-role-least-privilege",
    title="Nodes have the rights of a node and no more",
    severity=Severity.HIGH,
    types=frozenset(_FAULTS),
    levels={"dev": "advisory", "staging": "mandatory", "prod": "mandatory", "homelab": "disabled"},
    config={
        "allowed": {
            "type": "array",
            "items": {"type": "string"},
            "default": list(ALLOWED),
            "description": "Names of managed policies that a node's role may have.",
        },
    },
    rationale="Whatever breaks out of a job's container acts with the rights of the node.",
    source="https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html",
    fix="Attach to the node's role what EKS asks for, and give other rights to single pods; write no statement that allows all.",
    check=_check,
)
