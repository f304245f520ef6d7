"""no-foreign-identity: strangers and jobs get no identity of the account and no right in the cluster.

Judged: whom roles trust, and the identity providers of the account; access entries of EKS with their policies, and the ConfigMap
aws-auth that has the same effect; the roles that Pod Identity and add-ons give to pods, and rights in the whole cluster. A role
for pods is one of the stack, and no namespace of a runner set has one or an account with such rights: every job there would act
by it. The accounts of the stack are those of `accounts`, of the providers' allowedAccountIds and of its roles.
"""

from .kinds import CLUSTER_ROLE_BINDING, CONFIG_MAP, EKS_ADDON, EKS_COMPONENT, IAM_ROLE
from .principals import Accounts, accounts_of, comes_from, component_waits, strangers, trusted
from .read import Data, Faults, Later, entries, keys, line, places, shown, strings, text, walk
from .rule import CLUSTER_SETTINGS, NOTHING, Resource, Stack, StackRule, Violations, facts, said, setting, stack_file
from .runner_sets import RUNNER_SETS, runner_sets

OIDC = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
ENTRY = "aws:eks/accessEntry:AccessEntry"
ACCESS = frozenset((ENTRY, "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"))
IDENTITY = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
_MAPPINGS = frozenset(("accessEntries", "roleMappings", "userMappings"))
_CONFIG_MAPS = frozenset((CONFIG_MAP, f"{CONFIG_MAP}Patch"))
_OURS = "gpu-ci:index:EksGpuCluster$"
_LIST = f"name the principal in {stack_file(f'{CLUSTER_SETTINGS}.admins')} or viewers"


def _check(stack: Stack, later: Later) -> Violations:
    accounts, issuers = accounts_of(stack), strings(stack.config, "issuers")
    homes = {place.name for one in runner_sets(stack.resources, later) for place in (one.place, one.job_place(later))}
    for resource in stack.resources:
        with later:
            yield from ((fault, resource.urn) for fault in _faults(resource, accounts, issuers, homes, later))
            if resource.type == IDENTITY:
                declared = comes_from(resource.props.get("roleArn"), resource, "roleArn", IAM_ROLE)
                # The ARN of a role that the stack declares is not known yet, and no list has it.
                if declared or walk(resource.props, "roleArn") not in strings(stack.config, "jobRoles"):
                    yield from ((fault, resource.urn) for fault in _association(resource, homes))


def _faults(resource: Resource, accounts: Accounts, issuers: tuple[str, ...], homes: set[str], later: Later) -> Faults:
    props = resource.props
    if resource.type == IAM_ROLE and not component_waits(resource, "assumeRolePolicy"):
        for where, who in strangers(walk(props, "assumeRolePolicy"), accounts, issuers, later):
            yield said("foreign_principal", where=where, who=line(who, 120))
    elif resource.type == OIDC and not trusted(text(url := walk(props, "url")), issuers):
        yield f"url is {shown(url)}: everybody for whom it signs tokens may log in; remove it, or list it in {setting('issuers')}"
    elif resource.type in ACCESS:
        yield from _entry(resource, accounts, later)
    elif resource.type == IDENTITY:
        if text(target := walk(props, "targetRoleArn")) and not accounts.has(text(target)) and later.clear(accounts.hidden):
            yield f"targetRoleArn is {shown(target)}, a role of another account; remove it, or list it in {setting('accounts')}"
    elif resource.type == EKS_ADDON:
        yield from _role(resource, "serviceAccountRoleArn", props, "serviceAccountRoleArn")
        for _, association in entries(props, "podIdentityAssociations", later):
            yield from _role(resource, "podIdentityAssociations", association, "roleArn")
    else:
        yield from _in_cluster(resource, homes, later)


def _in_cluster(resource: Resource, homes: set[str], later: Later) -> Faults:
    props = resource.props
    if resource.type == EKS_COMPONENT:
        for name in sorted(_MAPPINGS.intersection(keys(props))):
            yield f"{name} gives rights in the cluster beside the stack file; {_LIST}"
        if text(mode := walk(props, "authenticationMode")) not in ("", "API"):
            yield f"authenticationMode is {shown(mode)}: the ConfigMap aws-auth then gives rights in the cluster; write API"
    elif resource.type == CLUSTER_ROLE_BINDING:
        for path, namespace in places(props, "subjects.[].namespace", later):
            if text(namespace) in homes:
                yield f"{path} is {shown(namespace)}: jobs there could act in every namespace; bind a Role in one namespace"
    elif resource.type in _CONFIG_MAPS and text(walk(props, "metadata", "name")) == "aws-auth":
        yield f"metadata.name is aws-auth: it can make anybody an administrator of the cluster; {_LIST}"


def _association(resource: Resource, homes: set[str]) -> Faults:
    if text(namespace := walk(resource.props, "namespace")) in homes:
        yield f"namespace is {shown(namespace)}: each job there can use it; list it in {setting('jobRoles')}, or remove it"
    yield from _role(resource, "roleArn", resource.props, "roleArn")


def _entry(resource: Resource, accounts: Accounts, later: Later) -> Faults:
    if comes_from(resource.props.get("principalArn"), resource, "principalArn", ENTRY):
        return
    principal = walk(resource.props, "principalArn")
    if _OURS not in resource.urn:
        yield f"principalArn is {shown(principal)}: it gets rights in the cluster beside the stack file; {_LIST}"
    # A stack may show none of its accounts.
    elif not accounts.has(text(principal)) and (accounts.own or accounts.hidden) and later.clear(accounts.hidden):
        yield f"principalArn is {shown(principal)}, of another account; remove it, or list the account in {setting('accounts')}"


def _role(resource: Resource, field: str, holder: Data, name: str) -> Faults:
    role = holder.get(name) if keys(holder) else None
    if role not in (None, "") and not comes_from(role, resource, field, IAM_ROLE):
        yield f"{name} is {shown(role)}: the stack does not declare this role; declare it, or list it in {setting('jobRoles')}"


_TYPES = RUNNER_SETS | ACCESS | _CONFIG_MAPS | {IAM_ROLE, OIDC, IDENTITY, EKS_ADDON, EKS_COMPONENT, CLUSTER_ROLE_BINDING}
RULE = StackRule(**facts(__name__), types=_TYPES, check=_check, in_manifests=NOTHING)
