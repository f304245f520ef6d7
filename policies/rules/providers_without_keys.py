"""providers-without-keys: providers act with the credentials of the deployment, in the stack's accounts and clusters.

Judged: providers of AWS, OCI, EKS and Kubernetes. A provider has only the settings that `kinds.toml` lists: no key, no file or
profile with one, no endpoint of others. A role that it assumes is of the stack's accounts (`accounts`, allowedAccountIds, roles).
A provider of Kubernetes names a cluster of the stack, or one that exists already. A kubeconfig that a preview knows has no key,
runs the CLI of a cloud and nothing else, and is of an API server of EKS or of an address.
"""

import re

from fleet.facts.yaml_text import helm_values

from .kinds import EKS_CLUSTER, EKS_COMPONENT, IAM_ROLE, OKE_CLUSTER, TALOS_NODE, table
from .principals import accounts_of
from .read import Data, Faults, Later, UndeterminableError, keys, parsed, places, shown, text, walk
from .rule import NOTHING, Stack, StackRule, Violations, facts, said

_SETTINGS = {f"pulumi:providers:{name}": {*settings, "version", "__internal"} for name, settings in table("providers").items()}
KUBERNETES = "pulumi:providers:kubernetes"
_CLUSTERS = {EKS_CLUSTER: "name", EKS_COMPONENT: "name", OKE_CLUSTER: "name", TALOS_NODE: "clusterName"}
_KEYS = frozenset(("token", "tokenFile", "username", "password", "client-key", "client-key-data", "auth-provider"))
_SERVER = re.compile(r"https://(?:[A-Za-z0-9]+(?:\.[a-z0-9-]+){1,2}\.eks\.amazonaws\.com(?:\.cn)?|[0-9.]+)(?::[0-9]+)?/?")


def _check(stack: Stack, later: Later) -> Violations:
    accounts, unnamed = accounts_of(stack), Later()
    clusters = [text(unnamed.walk(one.props, _CLUSTERS[one.type])) for one in stack.of(*_CLUSTERS)] + [*stack.existing]
    named = frozenset(clusters) - {""}
    for provider in stack.of(*_SETTINGS):
        for name in keys(provider.props):
            if name not in _SETTINGS[provider.type]:
                yield said("provider_key", name=name), provider.urn
        assumed = later.walk(provider.props, "assumeRoles")
        # A provider gets nested settings as JSON.
        for path, role in places({"": parsed(text(assumed)) or assumed}, ".[].roleArn", later):
            if not accounts.has(text(role)) and later.clear(accounts.hidden):
                yield said("other_account", path=path, role=role), provider.urn
        with later:
            identifier = walk(provider.props, "clusterIdentifier") if provider.type == KUBERNETES else None
            # A program may work in the cluster of another program alone.
            if provider.type == KUBERNETES and clusters and text(identifier) not in named and later.clear(unnamed):
                yield said("other_cluster", identifier=identifier), provider.urn
        # The cluster gives it. Without a cluster of the stack the identifier is wrong already.
        if config := text(Later().walk(provider.props, "kubeconfig")):
            given = any(target.type in _CLUSTERS for target in provider.property_dependencies.get("kubeconfig", ()))
            yield from ((f"kubeconfig: {fault}", provider.urn) for fault in _kubeconfig(config, given, later))


def _kubeconfig(content: str, given: bool, later: Later) -> Faults:
    """Faults of a kubeconfig. If a cluster of the stack has `given` it, its server is that cluster."""
    config: Data = parsed(content, helm_values)
    if not keys(config):
        later.note(UndeterminableError("kubeconfig is the path of a file, so nothing here shows whose cluster it is of"))
    for path, server in places(config, "clusters.[].cluster.server", Later()):
        if not given and not _SERVER.fullmatch(text(server)):
            yield f"{path} is {shown(server)}, not an API server of a cloud; take that of the stack's cluster"
    for path, user in places(config, "users.[].user", Later()):
        for key in sorted(_KEYS.intersection(keys(user))):
            yield f"{path}.{key} is a key; let the CLI of the cloud get a token (exec)"
        if (command := walk(user, "exec", "command")) not in (None, "aws", "oci"):
            yield f"{path}.exec.command is {shown(command)}: the update would run it; write aws or oci"


RULE = StackRule(**facts(__name__), types=frozenset((*_SETTINGS, *_CLUSTERS, IAM_ROLE)), check=_check, in_manifests=NOTHING)
