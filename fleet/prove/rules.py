"""Rules over all clusters of a fleet: unique names, one owner for things that cannot be shared, the limits of each cloud."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fleet.charts import NAMESPACES
from fleet.facts.cloud_limits import limit
from fleet.facts.errors import FleetError, Problem, shown
from fleet.prove import runner_rules
from fleet.prove.room import rejected
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.providers.provider import IN_CONFIG, Claim, Violation, conflicts
from fleet.providers.registry import provider_of
from fleet.providers.tags import STACK_TAG
from fleet.settings.cluster import RENAMED, Cluster, physical_name
from fleet.settings.github import DEFAULT_SCOPE, PRIVATE_KEY
from fleet.settings.gitops import ByProgram, Sops
from fleet.settings.namespaces import ARGO_TAKEN, MONITORING_TAKEN, TAKEN
from fleet.settings.reading import standing

_MAX_CLUSTER = 28
"""An IAM role name has at most 64 characters. The longest is <cluster>-control-plane-eksRole-role and eight that Pulumi adds."""
_MAX_JOINED = 48
"""A node group name has at most 63 characters: <cluster>-<pool>-nodes and eight that Pulumi adds. On EKS the
name also has the zone."""


def problems(fleet: Fleet, config: Mapping[str, object]) -> Iterator[Problem]:
    """Every violation, rule by rule, in the order of the config. `config` is the config from which the fleet was read."""
    for rule in _RULES:
        for found in rule(fleet):
            missing, value = standing(config, found.at) if found.value is IN_CONFIG else (False, found.value)
            head, *rest = found.at
            yield Problem((f"{NAMESPACE}:{head}", *rest), found.message, "" if missing else shown(value), found.rule)


def _names(fleet: Fleet) -> Iterator[Violation]:
    """Names fit the limits of the clouds, and joined names are unique.

    A resource is named cluster-pool, so cluster a-b with pool c and cluster a with pool b-c would get the same name.
    """
    claims = []
    for cluster, settings in fleet.clusters_by_name():
        if len(cluster) > _MAX_CLUSTER:
            why = "because cloud resources are named after it"
            message = f"a cluster's name has at most {_MAX_CLUSTER} characters, {why}; shorten it"
            yield Violation("cluster_length", message, ("clusters", cluster), cluster)
        else:
            yield from provider_of(settings).name_faults(settings, cluster)
            most = _MAX_JOINED - settings.group_suffix
            message = f"cluster and pool names together have at most {most} characters; shorten one"
            for name in (name for name in settings.pools if len(cluster) + len(name) > most):
                yield Violation("joined_length", message, ("clusters", cluster, "pools", name), name)
        for kind in ("pools", "runners", "workloads", "caches", "jobs"):
            for name in getattr(settings, kind):
                claims.append(Claim((kind, f"{cluster}-{name}"), cluster, ("clusters", cluster, kind, name)))
    for claim, other in conflicts(claims):
        _, cluster, kind, name = claim.at
        message = f"'{cluster}-{name}' is also the joined name of one of cluster {other}'s {kind}; rename one"
        yield Violation("joined_name", message, claim.at, name)


def _first_names(fleet: Fleet) -> Iterator[Violation]:
    """A first name belongs to one thing of its kind, and is none that the file gives to another."""
    groups: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [(("clusters",), fleet.clusters)]
    for cluster, settings in fleet.clusters_by_name():
        groups += [(("clusters", cluster, kind), getattr(settings, kind)) for kind in RENAMED]
    for path, entries in groups:
        firsts: dict[str, str] = {}
        for name, was in ((name, entry.was) for name, entry in entries.items() if getattr(entry, "was", None) is not None):
            what = f"{path[-1]}.{was}"
            if was == name:
                message = "this is its present name; write the name with which it was deployed first, or remove was"
            elif was in entries:
                message = f"the file still has {what}; rename that too, or correct was"
            elif (other := firsts.setdefault(was, name)) != name:
                message = f"{path[-1]}.{other} was {was} already, and only one can be; correct one of the two"
            else:
                continue
            yield Violation("first_name", message, (*path, name, "was"))


def _deployment(fleet: Fleet) -> Iterator[Violation]:
    """`pulumi up` deploys all clusters of a stack, or none."""
    apart = [name for name, settings in fleet.clusters_by_name() if not provider_of(settings).deployable]
    if apart and len(apart) < len(fleet.clusters):
        provider = fleet.clusters[apart[0]].provider
        others = "but it creates others of this stack; move it to a separate stack"
        message = f"pulumi up creates no clusters of provider {provider}, {others}"
        yield Violation("deployed_whole", message, ("clusters", apart[0], "provider"), provider)


def _tenancies(fleet: Fleet) -> Iterator[Violation]:
    """All clusters of a provider are in one tenancy, because one tenancy's credentials deploy the fleet."""
    known: dict[str, tuple[str, str]] = {}
    for cluster, settings in fleet.clusters_by_name():
        for path, tenancy in settings.tenancies():
            at = ("clusters", cluster, *path)
            first, where = known.setdefault(settings.provider, (tenancy, ".".join(at)))
            if tenancy != first:
                message = f"the tenancy's prefix is {tenancy} here and {first} at {where}"
                yield Violation("one_tenancy", f"{message}, and a tenancy has only one prefix; use yours everywhere", at)


def _holdings(fleet: Fleet) -> Iterator[Violation]:
    """A folder in Git, a host and an address each belong to only one cluster."""
    claims = (
        Claim(what, cluster, ("clusters", cluster, *path))
        for cluster, settings in fleet.clusters_by_name()
        for path, what in settings.holdings()
    )
    for claim, other in conflicts(claims):
        yield Violation("held_twice", f"cluster {other} also has {claim.key}; give each its own", claim.at)


def _own_rules(fleet: Fleet) -> Iterator[Violation]:
    """The rules of each provider over all its clusters."""
    for provider, clusters in fleet.by_provider():
        yield from provider.rules(clusters, fleet.github)


def _reservations(fleet: Fleet) -> Iterator[Violation]:
    """Only one pool uses a capacity reservation, because a reservation is counted and paid once."""
    claims = (
        Claim(pool.reservation.id, f"{cluster}/{name}", ("clusters", cluster, "pools", name, "reservation", "id"))
        for cluster, settings in fleet.clusters_by_name()
        for name, pool in settings.pools.items()
        if pool.reservation is not None
    )
    for claim, other in conflicts(claims):
        yield Violation("reservation_twice", f"pool {other} already uses that reservation; give each pool its own", claim.at)


def _budgets(fleet: Fleet) -> Iterator[Violation]:
    """An account or a compartment has only one budget."""
    claims = (
        Claim((settings.provider, settings.watched), cluster, ("clusters", cluster, "budget"))
        for cluster, settings in fleet.clusters_by_name()
        if settings.budget is not None
    )
    for claim, other in conflicts(claims):
        watched = fleet.clusters[claim.owner].watched
        yield Violation("budget_twice", f"cluster {other}'s budget already covers {watched}; keep one of them", claim.at)


def _scope_secrets(fleet: Fleet) -> Iterator[Violation]:
    """In Git, each GitHub App has a key of its own, and a file of SOPS has the installation of one scope."""
    for cluster, settings in fleet.clusters_by_name():
        if settings.gitops is None or isinstance(settings.secrets_by, ByProgram):
            continue
        at, ours = ("clusters", cluster, "gitops", "scopeSecrets"), {*settings.scopes} - {DEFAULT_SCOPE}
        for scope in sorted(ours - settings.gitops.scope_secrets.keys()):
            if isinstance(settings.secrets_by, Sops) or fleet.github.secret_of(scope) != PRIVATE_KEY:
                message = f"scope {scope} needs its own entry, because secrets has the key of another App or installation; add it"
                yield Violation("scope_secret", message, at)
        for scope in sorted(settings.gitops.scope_secrets.keys() - ours):
            message = "no runner class of the cluster has a further scope of this name; remove it, or correct its name"
            yield Violation("unused_secret", message, (*at, scope), scope)


def _quotas(fleet: Fleet) -> Iterator[Violation]:
    """Only one cluster declares the quotas of a scope, and the quota of every GPU machine is known."""
    declaring = [(cluster, settings) for cluster, settings in fleet.clusters_by_name() if settings.declare_quotas]
    claims = (
        Claim((settings.provider, scope), cluster, ("clusters", cluster, "declareQuotas", scope))
        for cluster, settings in declaring
        for scope in settings.quota_scopes
    )
    for claim, other in conflicts(claims):
        message = f"cluster {other} already declares the quotas of {claim.at[-1]} for the whole fleet; remove it"
        yield Violation("quota_twice", message, claim.at[:-1], True)
    for cluster, settings in declaring:
        for need in provider_of(settings).needs(settings, fleet.clusters_of(settings.provider)):
            if need.code is None:
                fix = "add it to fleet/facts/data/quotas.csv, or remove declareQuotas"
                message = f"no source gives the quota of {need.machine} as {need.capacity}; {fix}"
                yield Violation("quota_unknown", message, ("clusters", cluster, "declareQuotas"), True)


def _tags(fleet: Fleet) -> Iterator[Violation]:
    """The tags fit every cloud of the fleet."""
    for cluster, settings in fleet.clusters_by_name():
        rules = provider_of(settings).tags
        of = f"cluster {cluster} is of provider {settings.provider}, whose"
        if len(fleet.tags) > rules.most:
            message = f"{of} cloud allows only {rules.most} tags; remove some"
            yield Violation("provider_tags", message, ("tags",), sorted(fleet.tags))
        for key in fleet.tags:
            others = {other: "" for other in fleet.tags if other.lower() == key.lower() and other <= key}
            if key.lower().startswith(f"{STACK_TAG.partition('/')[0]}/"):
                message = "gpu-ci sets tags of this name itself, and would drop yours; rename it"
                yield Violation("own_tag", message, ("tags", key), key)
            elif (fault := limit("DefaultTags", "tags").fault(others)) is not None:
                yield Violation("reserved_tag", fault, ("tags", key), key)
            if not rules.key.fullmatch(key):
                yield Violation("provider_tag", f"{of} tags have keys of {rules.words}; rename it", ("tags", key), key)


def _autoscaler(fleet: Fleet) -> Iterator[Violation]:
    """The autoscaler of each provider supports the settings of the pools."""
    for cluster, settings in fleet.clusters_by_name():
        profile, who = provider_of(settings).profile, f"the autoscaler of provider {settings.provider}"
        for name, pool in settings.pools.items():
            at, empty = ("clusters", cluster, "pools", name), pool.nodes.min == 0
            if "idle_delay" in pool.model_fields_set and not profile.idle_delay_per_pool:
                message = f"{who} has one delay for all pools; remove idleDelay here and set the cluster's"
                yield Violation("idle_delay_target", message, (*at, "idleDelay"))
            if empty and not profile.from_zero:
                message = f"{who} cannot start the first node of a pool; raise min to 1"
                yield Violation("from_zero", message, (*at, "nodes", "min"), 0)
            elif empty and pool.sharing is not None and not profile.shares_from_zero:
                message = f"{who} assumes whole GPUs for a pool without nodes, so it would start no node for shares"
                yield Violation("shares_from_zero", f"{message}; raise min to 1", (*at, "nodes", "min"), 0)


def _placeholders(fleet: Fleet) -> Iterator[Violation]:
    """Kubelet admits the placeholders of a pool, which take all GPUs of a node (pytorch/ci-infra#652)."""
    for cluster, settings in fleet.clusters_by_name():
        for name, pool in settings.pools.items():
            if pool.placeholders and (why := rejected(settings, name)):
                message = f"a placeholder takes all GPUs of a node and {why}, or remove placeholders"
                yield Violation("placeholder_numa", message, ("clusters", cluster, "pools", name, "placeholders"))


def _namespaces(fleet: Fleet) -> Iterator[Violation]:
    """No setting names a chart's namespace."""
    for name, cluster in fleet.clusters_by_name():
        yield from (taken for taken in _named(("clusters", name), cluster) if taken.value in NAMESPACES)


def _named(path: tuple[str, ...], cluster: Cluster) -> Iterator[Violation]:
    """Of every namespace in a cluster's settings, which are at `path`: what is wrong if a chart has it."""
    if cluster.gitops is not None:
        yield Violation("git_namespace", ARGO_TAKEN, (*path, "gitops", "namespace"), cluster.gitops.namespace)
    if cluster.monitoring is not None and cluster.monitoring.installs:
        at = (*path, "monitoring", "namespace")
        yield Violation("monitoring_namespace", MONITORING_TAKEN, at, cluster.monitoring.namespace)
    teams = cluster.queues.teams if cluster.queues is not None else {}
    parts: dict[str, Mapping[str, Any]] = {"queues.teams": teams, "workloads": cluster.workloads, "caches": cluster.caches}
    for kind, entries in (parts | {"jobs": cluster.jobs}).items():
        for name, entry in entries.items():
            at = (*path, *kind.split("."), name)
            if kind in ("workloads", "jobs"):
                yield Violation("namespace_taken", TAKEN, (*at, "namespace"), entry.namespace)
                continue
            for index, namespace in enumerate(entry.namespaces):
                yield Violation("namespace_taken", TAKEN, (*at, "namespaces", str(index)), namespace)


def require_names(fleet: Fleet, project: str, stack: str) -> None:
    """Raise FleetError for names that do not fit.

    They are each `gitops.path` that does not end with the name of the cluster's folder, where ArgoCD would find no files, and
    otherwise each cluster whose name its cloud would refuse.
    """
    folders, refused = [], []
    for name, cluster in fleet.clusters_by_name():
        at, folder = (f"{NAMESPACE}:clusters", name), physical_name(project, stack, name)
        if cluster.gitops is not None and cluster.gitops.path.rpartition("/")[2] != folder:
            message = f"make render writes the cluster's files to the folder {folder}; end the path with it"
            folders.append(Problem((*at, "gitops", "path"), message, shown(cluster.gitops.path)))
        if fault := provider_of(cluster).physical_name_fault(cluster, folder):
            refused.append(Problem(at, fault, shown(name), f"{cluster.provider}_name"))
    if wrong := folders or refused:
        raise FleetError(tuple(wrong))


_RULES: tuple[Callable[[Fleet], Iterator[Violation]], ...] = (
    _names,
    _first_names,
    _deployment,
    *runner_rules.RULES,
    _tenancies,
    _holdings,
    _own_rules,
    _reservations,
    _budgets,
    _scope_secrets,
    _quotas,
    _tags,
    _autoscaler,
    _placeholders,
    _namespaces,
)
