"""access-least-privilege: no identity gets more rights than its work needs.

Judged, of AWS: policies that a stack attaches to roles, users and groups, and each policy document of its own. A document may
read all but data and secrets. It writes only to resources that it names, or with a condition on what it reaches, and does not
change who has which right. Of OCI: statements of policies. Machines of a dynamic group may pull images alone, because each job on
one of them is such a machine. Of Kubernetes: bindings. Nobody without a name of his own, and no account that pods get by default,
has a right; people and default accounts are no administrators.
"""

import re
from fnmatch import fnmatchcase

from . import kinds
from .node_role_least_privilege import IAM_POLICY, OCI_POLICY, ROLE_POLICY
from .principals import comes_from, component_waits
from .read import Data, Faults, Later, entries, keys, line, listed, shown, statements, strings, text, walk
from .rule import Resource, Stack, StackRule, apart, facts, setting

ATTACHMENTS = frozenset(
    f"aws:iam/{kind[0].lower()}{kind[1:]}:{kind}"
    for kind in ("RolePolicyAttachment", "UserPolicyAttachment", "GroupPolicyAttachment", "PolicyAttachment")
)
DOCUMENTS = frozenset((ROLE_POLICY, IAM_POLICY, "aws:iam/userPolicy:UserPolicy", "aws:iam/groupPolicy:GroupPolicy"))
BINDINGS = frozenset(
    f"{token}{suffix}" for token in (kinds.ROLE_BINDING, kinds.CLUSTER_ROLE_BINDING) for suffix in ("", "Patch", "List")
)
_BROAD = re.compile(r".*(?:Admin|FullAccess|PowerUser|/job-function/|/ReadOnlyAccess|SecretsManagerReadWrite).*")
"""Policies of AWS that are for people, or give all of a service."""
_READS = re.compile(r"[a-z0-9-]+:(?:describe|list|get|batchget|batchcheck|lookup|search|view)[a-z]*\*?")
"""Actions that read, in lower case."""
_HARMLESS = re.compile(r"(?:logs|ssmmessages|ec2messages|xray):[a-z*]+|cloudwatch:putmetricdata|ssm:updateinstanceinformation")
_DATA = kinds.table("reads")["data"]
_RIGHTS = ("iam", "sts", "organizations", "sso")
"""Services whose writes change who has which right."""
_IDLE = re.compile(
    r"aws:(?:securetransport|requestedregion|currenttime|epochtime|useragent|viaawsservice|principaltype|multifactor.*)"
)
"""Conditions that keep no resource out."""
_WIDE = re.compile(r"[*?]+|arn:[^:]*:(?:s3:::|(?!s3:)[^:]*:[^:]*:[^:]*:(?:[A-Za-z-]+[:/])?)[*?].*")
_STATEMENT = re.compile(
    r"\s*(?P<verb>allow|define|endorse|admit|deny)\s+(?P<who>any-user|any-group|service|dynamic-group|group)?\s*(?P<name>.*?)"
    r"(?:\s+to\s+(?P<right>\{.*?\}|[a-z]+)\s+(?P<what>[a-z0-9-]+)?.*?)?(?:\s+where\s+(?P<condition>.*))?\s*",
    re.IGNORECASE | re.DOTALL,
)
_PUBLIC = frozenset(("system:discovery", "system:public-info-viewer", "system:basic-user"))
"""Roles that Kubernetes itself gives to everybody."""
_NOBODY = re.compile(r"system:(?:anonymous|unauthenticated|authenticated|masters|nodes|serviceaccounts(?::.*)?)")
_ADMINISTRATORS = re.compile(r"cluster-admin|admin|edit|system:(?:master|node|controller|kube).*")


def _faults(resource: Resource, stack: Stack, later: Later) -> Faults:
    props, allowed = resource.props, strings(stack.config, "allowed")
    with later:
        if resource.type in ATTACHMENTS:
            if not comes_from(props.get("policyArn"), resource, "policyArn", IAM_POLICY):
                yield from _attached("policyArn", walk(props, "policyArn"), allowed)
        elif resource.type == kinds.IAM_ROLE:
            for path, arn in entries(props, "managedPolicyArns", later):
                yield from _attached(path, arn, allowed)
            for path, policy in entries(props, "inlinePolicies", later):
                yield from _document(f"{path}.policy", later.walk(policy, "policy"), later)
        elif resource.type in DOCUMENTS:
            yield from _document("policy", walk(props, "policy"), later)
        elif resource.type == OCI_POLICY:
            for path, statement in () if component_waits(resource, "statements") else entries(props, "statements", later):
                yield from _oci(path, text(statement))
        else:
            for prefix, body in kinds.each(resource.type, props, later):
                yield from _binding(prefix, body, kinds.kind_of(resource.type), later)


def _attached(path: str, arn: Data, allowed: tuple[str, ...]) -> Faults:
    name = text(arn)
    if any(fnmatchcase(name, pattern) for pattern in allowed):
        return
    if _BROAD.fullmatch(name):
        yield f"{path} is {shown(arn)}: it gives all of a service or more; attach one that names actions and resources"
    elif not re.match(r"arn:aws[a-z-]*:iam::aws:policy/", name):
        yield (
            f"{path} is {shown(arn)}: the stack does not declare this policy, so nothing shows what it allows; declare it, or "
            f"list it in {setting('allowed')}"
        )


def _document(path: str, document: Data, later: Later) -> Faults:
    for where, statement in statements(document, later):
        with later:
            wide = "NotResource" in keys(statement) or any(map(_WIDE.fullmatch, listed(walk(statement, "Resource"), later)))
            if wide and "NotAction" in keys(statement):
                yield f"{path}: {where} allows all but what it names; name the actions and the resources"
            for action in listed(walk(statement, "Action"), later):
                if reason := _excess(action.lower(), wide, _reaches_less(statement)):
                    yield f"{path}: {where} allows {line(action)} {reason}"


def _excess(action: str, wide: bool, limited: bool) -> str:
    """Why an action, in lower case, is too much; "" if it is not. `limited` says that a condition limits what it reaches."""
    service, _, verb = action.partition(":")
    reads = _READS.fullmatch(action) and not any(fnmatchcase(name, action) for name in _DATA)
    if reads or _HARMLESS.fullmatch(action):
        return ""
    if service in _RIGHTS and not limited and (wide or action != "iam:passrole"):
        return "and so may change who has which right; remove it"
    if wide and (not limited or not verb.strip("*")):
        return "on every resource; name the resources, or add a condition on their tags"
    return ""


def _reaches_less(statement: Data) -> bool:
    conditions = walk(statement, "Condition")
    return any(not _IDLE.fullmatch(key.lower()) for operator in keys(conditions) for key in keys(walk(conditions, operator)))


def _oci(path: str, statement: str) -> Faults:
    match = _STATEMENT.fullmatch(statement[:4096])
    verb, who, name, right, what, condition = ((part or "").lower() for part in match.groups()) if match else ("",) * 6
    if verb == "deny":
        return
    if verb != "allow":
        yield f"{path} is {shown(statement)}: it is about another tenancy; remove it"
    elif who in ("any-user", "any-group") and "request.principal" not in condition:
        yield f"{path} is {shown(statement)}: everybody has this right; add a condition on request.principal"
    elif who == "dynamic-group" and (right not in ("read", "inspect") or what != "repos"):
        yield (
            f"{path} is {shown(statement)}: each job on a machine of {line(name)} has this right; give it to a workload, by a "
            "condition on request.principal.service_account"
        )
    elif what == "all-resources" and right in ("manage", "use", "read"):
        yield f"{path} is {shown(statement)}: it gives all resources; name their kinds"


def _binding(prefix: str, binding: Data, kind: str, later: Later) -> Faults:
    role = text(later.walk(binding, "roleRef", "name"))
    for path, subject in entries(binding, "subjects", later):
        with later:
            name, account = text(walk(subject, "name")), text(walk(subject, "kind")) == "ServiceAccount"
            if not account and _NOBODY.fullmatch(name) and role not in _PUBLIC:
                yield (
                    f"{prefix}{path}.name is {shown(name)}: whoever reaches the API has the rights of {line(role)}; name "
                    "who needs them"
                )
            elif (not account or name == "default") and kind == "ClusterRoleBinding" and _ADMINISTRATORS.fullmatch(role):
                yield (
                    f"{prefix}{path}.name is {shown(name)}, with role {line(role)} in every namespace; give access to the "
                    "cluster by the cloud, and to pods by a role and an account of their own"
                )


RULE = StackRule(
    **facts(__name__),
    types=ATTACHMENTS | DOCUMENTS | BINDINGS | {kinds.IAM_ROLE, OCI_POLICY},
    check=apart(_faults),
    in_manifests=(BINDINGS, apart(_faults)),
)
