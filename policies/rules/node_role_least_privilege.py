"""node-role-least-privilege: a node has only the cloud permissions that a node needs.

Judged: roles that EC2 instances assume, with their attached policies; inline and managed policies that allow everything; OCI
policies that allow everything in a tenancy, which only a policy of the tenancy itself can do. An attachment belongs to the role
that it depends on. The role of a node group, a machine or a launch template is one of the stack: nothing shows the rights of
another.
"""

import re

from .kinds import EKS_NODE_GROUP, IAM_ROLE, fields
from .principals import comes_from
from .read import Data, Faults, Later, entries, keys, listed, shown, statements, strings, text, walk
from .rule import Resource, Stack, StackRule, apart, facts

ATTACHMENTS = fields("roles_of_attachments")
"""Token to the property with the roles."""
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
IAM_POLICY = "aws:iam/policy:Policy"
OCI_POLICY = "oci:Identity/policy:Policy"
INSTANCE_PROFILE = "aws:iam/instanceProfile:InstanceProfile"
HOLDERS = fields("role")
"""Where machines have their role, and the type of the resource that it comes from."""

_FACTS = facts(__name__)
ALLOWED: list[str] = _FACTS["config"]["allowed"]["default"]
"""The policies that a node may have unless a stack says otherwise."""
_CACHES = frozenset(("ecr:BatchImportUpstreamImage", "ecr:CreateRepository", "ecr:TagResource"))
"""What a node needs for the first pull through a cache of ECR (ECR user guide, pull-through-cache-iam)."""
_NAMED = re.compile(r":repository/[^*?]")
"""A repository, or those below a prefix."""
_WILD = frozenset(("arn", "aws", "aws-cn", "aws-us-gov", "*", ""))
"""Parts of an action or ARN that means everything."""
_POD = "grant them to the pod that needs them (Pod Identity)"
_WHOLE_TENANCY = re.compile(r"\s*allow\b.*\bto\s+manage\s+all-resources\s+in\s+tenancy\b.*", re.IGNORECASE | re.DOTALL)


def _faults(resource: Resource, stack: Stack, later: Later) -> Faults:
    if resource.type in HOLDERS:
        return _holder(resource, stack, later)
    return _FAULTS[resource.type](resource, strings(stack.config, "allowed"), later)


def _attached(attachment: Resource, allowed: tuple[str, ...], later: Later) -> Faults:
    with later:
        if _permitted(arn := text(walk(attachment.props, "policyArn")), allowed):
            return
        for role in _roles(attachment, ATTACHMENTS[attachment.type]):
            if _is_node(role, later):
                yield f"policyArn is {shown(arn)}: a node does not need these permissions; {_POD}"


def _holder(resource: Resource, stack: Stack, later: Later) -> Faults:
    field, token = HOLDERS[resource.type]
    with later:
        # A cluster that exists already may have a role for nodes.
        if resource.type == EKS_NODE_GROUP and stack.may_be(text(walk(resource.props, "clusterName"))):
            return
        holder = resource.props.get(field)
        for value in [*holder.values()] if isinstance(holder, dict) else [holder]:
            if value not in (None, "") and not comes_from(value, resource, field, token):
                yield f"{field} is {shown(value)}: nothing in the stack shows the rights of this role; take one that it declares"


def _permitted(arn: str, allowed: tuple[str, ...]) -> bool:
    name = arn.rpartition("/")[2]
    # The ARN of AWS' own managed policies. An account may have its own policy with the same name.
    return name in allowed and (name not in ALLOWED or ":iam::aws:policy/" in arn)


def _roles(resource: Resource, field: str) -> list[Resource]:
    """The roles of the stack that a property comes from."""
    return [role for role in resource.property_dependencies.get(field, ()) if role.type == IAM_ROLE]


def _is_node(role: Resource, later: Later) -> bool:
    with later:
        for _, statement in statements(walk(role.props, "assumeRolePolicy"), later):
            services = listed(walk(statement, "Principal", "Service"), later)
            # AWS in China adds a suffix.
            if any(service.startswith("ec2.amazonaws.com") for service in services):
                return True
    return False


def _role(role: Resource, allowed: tuple[str, ...], later: Later) -> Faults:
    for path, policy in entries(role.props, "inlinePolicies", later):
        with later:
            document = walk(policy, "policy")
            yield from _documents(f"{path}.policy", document, later)
            if document is not None and _is_node(role, later):
                yield f"{path} adds permissions to a node's role, which needs no others; {_POD}"
    policies = [(path, text(arn)) for path, arn in entries(role.props, "managedPolicyArns", later)]
    if (strange := [(path, arn) for path, arn in policies if not _permitted(arn, allowed)]) and _is_node(role, later):
        yield from (f"{path} is {shown(arn)}: a node does not need these permissions; {_POD}" for path, arn in strange)


def _policy(policy: Resource, _: tuple[str, ...], later: Later) -> Faults:
    yield from _documents("policy", later.walk(policy.props, "policy"), later)


def _inline(policy: Resource, allowed: tuple[str, ...], later: Later) -> Faults:
    yield from _policy(policy, allowed, later)
    for role in _roles(policy, "role"):
        if _is_node(role, later) and not _fills_caches(policy, later):
            yield f"policy adds permissions to a node's role, which needs no others; {_POD}"


def _fills_caches(policy: Resource, later: Later) -> bool:
    """Whether a policy allows only what the first pull through a cache of ECR needs, in repositories that it names."""
    with later:
        allowing = [statement for _, statement in statements(walk(policy.props, "policy"), later)]
        return bool(allowing) and all(_fills_cache(statement, later) for statement in allowing)
    return True


def _fills_cache(statement: Data, later: Later) -> bool:
    actions, resources = listed(walk(statement, "Action"), later), listed(walk(statement, "Resource"), later)
    return bool(actions and resources) and _CACHES.issuperset(actions) and all(map(_NAMED.search, resources))


def _documents(path: str, document: Data, later: Later) -> Faults:
    for where, statement in statements(document, later):
        with later:
            if _all(statement, "Action", later) and _all(statement, "Resource", later):
                yield f"{path}: {where} allows every action on every resource; name the actions and the resources"


def _all(statement: Data, field: str, later: Later) -> bool:
    """Whether a statement means everything: `*`, `*:*`, `arn:aws:*`, or all but what it names (`NotAction`)."""
    return f"Not{field}" in keys(statement) or any(
        "*" in name and _WILD.issuperset(name.split(":")) for name in listed(walk(statement, field), later)
    )


def _oci(policy: Resource, _: tuple[str, ...], later: Later) -> Faults:
    with later:
        # A policy cannot grant anything above its own compartment.
        if text(walk(policy.props, "compartmentId")).startswith("ocid1.compartment."):
            return
        for path, statement in entries(policy.props, "statements", later):
            if _WHOLE_TENANCY.fullmatch(text(statement)):
                yield f"{path} gives all resources of the tenancy; name the resources and the compartment"


_FAULTS = {**dict.fromkeys(ATTACHMENTS, _attached), IAM_ROLE: _role, ROLE_POLICY: _inline, IAM_POLICY: _policy, OCI_POLICY: _oci}

RULE = StackRule(**_FACTS, types=frozenset((*_FAULTS, *HOLDERS)), check=apart(_faults))
