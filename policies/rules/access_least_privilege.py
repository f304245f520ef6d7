"""access-least-privilege: no identity gets more rights than its work needs.

Judged, of AWS: policies that a stack attaches to roles, users and groups, and each policy document of its own. A document may
read all but data and secrets. It writes only to resources that it names, or with a condition on what it reaches, and does not
change who has which right. Of OCI: statements of policies. Machines of a dynamic group may pull images alone, because each job on
one of them is such a machine. Of Kubernetes: bindings. Groups of everybody, and the account that pods get by default, have no
right in the whole cluster. People are administrators by the login of the cloud alone. A role adds to the role `view` of everybody
only what reads, and no Secrets; none has the API of the kubelet, which runs commands in every pod (kubernetes.io, RBAC good
practices). Of ArgoCD: the settings by which everybody acts in it, or administers it.
"""

import re
from fnmatch import fnmatchcase

from . import kinds
from .node_role_least_privilege import IAM_POLICY, OCI_POLICY
from .principals import comes_from, component_waits
from .read import Data, Faults, Later, entries, keys, label, line, listed, places, shown, statements, strings, text, true, walk
from .releases import releases
from .rule import Resource, Stack, StackRule, apart, facts, said, setting

ATTACHMENTS, DOCUMENTS = kinds.listed("attachments"), kinds.listed("rights")
BINDINGS = kinds.api_tokens("rbac.authorization.k8s.io", ("v1",), ("RoleBinding", "ClusterRoleBinding"), ("", "Patch", "List"))
CLUSTER_ROLES = kinds.api_tokens("rbac.authorization.k8s.io", ("v1",), ("ClusterRole",), ("", "Patch", "List"))
_ARGO = {"users.anonymous.enabled": re.compile("(?i)true"), "policy.default": re.compile("role:admin")}
"""Settings of ArgoCD, by which everybody has rights (argo-cd.readthedocs.io, user management and RBAC)."""
_VIEW = "rbac.authorization.k8s.io/aggregate-to-view"
_BROAD = re.compile(r".*(?:Admin|FullAccess|PowerUser|/job-function/|/ReadOnlyAccess|SecretsManagerReadWrite).*")
"""Policies of AWS that are for people, or give all of a service."""
_READS = re.compile(r"[a-z0-9-]+:(?:describe|list|get|batchget|batchcheck|lookup|search|view)[a-z]*\*?")
"""Actions that read, in lower case."""
_HARMLESS = re.compile(r"(?:logs|ssmmessages|ec2messages|xray):[a-z*]+|cloudwatch:putmetricdata|ssm:updateinstanceinformation")
_DATA = kinds.table("reads")["data"]
_RIGHTS = ("iam", "sts", "organizations", "sso")
"""Services whose writes change who has which right."""
_IDLE = re.compile(r"aws:(?:securetransport|requestedregion|currenttime|epochtime|useragent|viaaws.*|principaltype|multi.*)")
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
        if kinds.is_object(resource.type):
            yield from _objects(resource.type, props, later)
        elif resource.type == OCI_POLICY:
            for path, statement in () if component_waits(resource, "statements") else entries(props, "statements", later):
                if harm := _oci(text(statement)):
                    yield f"{path} is {shown(statement)}: {harm}"
        else:
            for field in ("policy", "inlinePolicies.[].policy"):
                for path, document in places(props, field, later):
                    yield from _document(path, document, later)
            for field in ("managedPolicyArns.[]", "policyArn"):
                if not comes_from(props.get(field), resource, field, IAM_POLICY):
                    for path, arn in places(props, field, later):
                        if harm := _attached(text(arn), allowed):
                            yield f"{path} is {shown(arn)}: {harm}"


def _objects(token: str, props: Data, later: Later) -> Faults:
    for release in releases(token, props, later):
        with later:
            for key in ("cm", "rbac") if release.chart_name == "argo-cd" else ():
                yield from _argo(f"{release.values_path}.configs.{key}", walk(release.values, "configs", key), later)
    for prefix, body in kinds.each(token, props, later):
        if token in BINDINGS:
            yield from _binding(prefix, body, kinds.kind_of(token), later)
        elif token in kinds.CONFIG_MAPS:
            yield from _argo(f"{prefix}data", later.walk(body, "data"), later)
        for path, rule in entries(body, "rules", later) if token in CLUSTER_ROLES else ():
            yield from _role(f"{prefix}{path}", rule, true(later.walk(body, "metadata", "labels", _VIEW)), later)


def _attached(arn: str, allowed: tuple[str, ...]) -> str:
    """What is wrong with a policy; "" if nothing is."""
    if not arn or any(fnmatchcase(arn, pattern) for pattern in allowed):
        return ""
    if _BROAD.fullmatch(arn):
        return "it gives all of a service or more; attach one that names actions and resources"
    unseen = f"the stack does not declare it, so nothing shows what it allows; declare it, or list it in {setting('allowed')}"
    return "" if ":iam::aws:policy/" in arn else unseen


def _document(path: str, document: Data, later: Later) -> Faults:
    for where, statement in statements(document, later):
        with later:
            wide = "NotResource" in keys(statement) or any(map(_WIDE.fullmatch, listed(walk(statement, "Resource"), later)))
            if wide and "NotAction" in keys(statement):
                yield f"{path}: {where} allows all but what it names; name the actions and the resources"
            for action in listed(walk(statement, "Action"), later):
                if harm := _excess(action.lower(), wide, _reaches_less(statement)):
                    yield f"{path}: {where} allows {line(action)} {harm}"


def _excess(action: str, wide: bool, limited: bool) -> str:
    """Why an action, in lower case, is too much; "" if it is not. `limited` says that a condition limits what it reaches."""
    service, _, verb = action.partition(":")
    reads = _READS.fullmatch(action) and not any(fnmatchcase(name, action) for name in _DATA)
    if reads or _HARMLESS.fullmatch(action):
        return ""
    if service in _RIGHTS and not limited and (wide or action != "iam:passrole"):
        return "and so may change who has which right; remove it"
    everywhere = wide and (not limited or not verb.strip("*"))
    return "on every resource; name the resources, or add a condition on their tags" if everywhere else ""


def _reaches_less(statement: Data) -> bool:
    conditions = walk(statement, "Condition")
    return any(not _IDLE.fullmatch(key.lower()) for operator in keys(conditions) for key in keys(walk(conditions, operator)))


def _oci(statement: str) -> str:
    """What is wrong with a statement; "" if nothing is."""
    match = _STATEMENT.fullmatch(statement[:4096])
    verb, who, name, right, what, condition = ((part or "").lower() for part in match.groups()) if match else ("",) * 6
    if verb == "deny":
        return ""
    if verb != "allow":
        return "it is about another tenancy; remove it"
    if who in ("any-user", "any-group") and "request.principal" not in condition:
        return "everybody has this right; add a condition on request.principal"
    if who == "dynamic-group" and (right not in ("read", "inspect") or what != "repos"):
        return f"each job on a machine of {line(name)} has this right; give it to a workload (request.principal.service_account)"
    return "it gives all resources; name their kinds" if what == "all-resources" else ""


def _binding(prefix: str, binding: Data, kind: str, later: Later) -> Faults:
    role = text(later.walk(binding, "roleRef", "name"))
    for path, subject in entries(binding, "subjects", later):
        with later:
            name, account = text(walk(subject, "name")), text(walk(subject, "kind")) == "ServiceAccount"
            who = f"{prefix}{path}.name is {shown(name)}"
            if not account and _NOBODY.fullmatch(name) and role not in _PUBLIC:
                yield f"{who}: everybody who reaches the API has the rights of {line(role)}; name who needs them"
            elif (not account or name == "default") and kind == "ClusterRoleBinding" and _ADMINISTRATORS.fullmatch(role):
                yield f"{who}, with role {line(role)} in every namespace; give people access by the cloud, and pods a role"


def _role(path: str, rule: Data, viewed: bool, later: Later) -> Faults:
    with later:
        groups, resources, verbs = (listed(walk(rule, key), later) for key in ("apiGroups", "resources", "verbs"))
        core = not {"", "*"}.isdisjoint(groups)
        if core and not {"nodes/proxy", "nodes/*", "*/proxy"}.isdisjoint(resources):
            yield said("by_kubelet", path=path)
        if viewed and (not {"get", "list", "watch"}.issuperset(verbs) or (core and not {"secrets", "*"}.isdisjoint(resources))):
            yield said("more_for_viewers", path=path)


def _argo(path: str, settings: Data, later: Later) -> Faults:
    for key, pattern in _ARGO.items():
        with later:
            if pattern.fullmatch(label(value := walk(settings, key)).strip()):
                yield said("argo_for_all", path=path, key=key, value=value)


_TYPES = ATTACHMENTS | DOCUMENTS | BINDINGS | CLUSTER_ROLES | kinds.CONFIG_MAPS | kinds.HELM | {kinds.IAM_ROLE, OCI_POLICY}
RULE = StackRule(**facts(__name__), types=_TYPES, check=apart(_faults))
