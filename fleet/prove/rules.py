"""Rules over all clusters of a fleet: unique names, one owner for things that cannot be shared, the limits of each cloud."""

from collections.abc import Iterator, Mapping
from typing import Any

from fleet.charts.every import NAMESPACES
from fleet.facts.cloud_limits import limit
from fleet.facts.errors import FleetError, Problem, shown
from fleet.prove import runner_rules, trust
from fleet.prove.room import rejected
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.providers.provider import IN_CONFIG, Claim, Violation, conflicts, violation
from fleet.providers.registry import provider_of
from fleet.providers.tags import STACK_TAG
from fleet.settings.cluster import RENAMED, Cluster, physical_name
from fleet.settings.github import DEFAULT_SCOPE, PRIVATE_KEY
from fleet.settings.gitops import ByProgram, Sops
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
            yield violation("cluster_length", ("clusters", cluster), cluster, most=_MAX_CLUSTER)
        else:
            yield from provider_of(settings).name_faults(settings, cluster)
            most = _MAX_JOINED - settings.group_suffix
            for name in (name for name in settings.pools if len(cluster) + len(name) > most):
                yield violation("joined_length", ("clusters", cluster, "pools", name), name, most=most)
        for kind in ("pools", "runners", "workloads", "caches", "jobs"):
            for name in getattr(settings, kind):
                claims.append(Claim((kind, f"{cluster}-{name}"), cluster, ("clusters", cluster, kind, name)))
    for claim, other in conflicts(claims):
        _, cluster, kind, name = claim.at
        yield violation("joined_name", claim.at, name, cluster=cluster, other=other, kind=kind)


def _first_names(fleet: Fleet) -> Iterator[Violation]:
    """A first name belongs to one thing of its kind, and is none that the file gives to another."""
    groups: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [(("clusters",), fleet.clusters)]
    for cluster, settings in fleet.clusters_by_name():
        groups += [(("clusters", cluster, kind), getattr(settings, kind)) for kind in RENAMED]
    for path, entries in groups:
        firsts: dict[str, str] = {}
        for name, was in ((name, entry.was) for name, entry in entries.items() if getattr(entry, "was", None) is not None):
            what, at = f"{path[-1]}.{was}", (*path, name, "was")
            if was == name:
                yield violation("first_name__present", at)
            elif was in entries:
                yield violation("first_name__there", at, what=what)
            elif (other := firsts.setdefault(was, name)) != name:
                yield violation("first_name__twice", at, other=f"{path[-1]}.{other}", was=was)


def _deployment(fleet: Fleet) -> Iterator[Violation]:
    """`pulumi up` deploys all clusters of a stack, or none."""
    apart = [name for name, settings in fleet.clusters_by_name() if not provider_of(settings).deployable]
    if apart and len(apart) < len(fleet.clusters):
        yield violation("deployed_whole", ("clusters", apart[0], "provider"), fleet.clusters[apart[0]].provider)


def _tenancies(fleet: Fleet) -> Iterator[Violation]:
    """All clusters of a provider are in one tenancy, because one tenancy's credentials deploy the fleet."""
    known: dict[str, tuple[str, str]] = {}
    for cluster, settings in fleet.clusters_by_name():
        for path, tenancy in settings.tenancies():
            at = ("clusters", cluster, *path)
            first, where = known.setdefault(settings.provider, (tenancy, ".".join(at)))
            if tenancy != first:
                yield violation("one_tenancy", at, tenancy=tenancy, first=first, where=where)


def _held_once(fleet: Fleet) -> Iterator[Violation]:
    """A folder in Git, a host and an address each belong to only one cluster, and an account or a compartment has one budget.

    Only one pool uses a capacity reservation, because a reservation is counted and paid once.
    """
    held, reserved, budgets = list[Claim](), list[Claim](), list[Claim]()
    for cluster, settings in fleet.clusters_by_name():
        at = ("clusters", cluster)
        held += [Claim(what, cluster, (*at, *path)) for path, what in settings.holdings()]
        for name, pool in settings.pools.items():
            if pool.reservation is not None:
                reserved.append(Claim(pool.reservation.id, f"{cluster}/{name}", (*at, "pools", name, "reservation", "id")))
        if settings.budget is not None:
            budgets.append(Claim((settings.provider, settings.watched), cluster, (*at, "budget")))
    yield from (violation("held_twice", claim.at, other=other, key=claim.key) for claim, other in conflicts(held))
    yield from (violation("reservation_twice", claim.at, other=other) for claim, other in conflicts(reserved))
    for claim, other in conflicts(budgets):
        yield violation("budget_twice", claim.at, other=other, watched=fleet.clusters[claim.owner].watched)


def _own_rules(fleet: Fleet) -> Iterator[Violation]:
    """The rules of each provider over all its clusters."""
    for provider, clusters in fleet.by_provider():
        yield from provider.rules(clusters, fleet.github)


def _scope_secrets(fleet: Fleet) -> Iterator[Violation]:
    """In Git, each GitHub App has a key of its own, and a file of SOPS has the installation of one scope."""
    for cluster, settings in fleet.clusters_by_name():
        if settings.gitops is None or isinstance(settings.secrets_by, ByProgram):
            continue
        at, ours = ("clusters", cluster, "gitops", "scopeSecrets"), {*settings.scopes} - {DEFAULT_SCOPE}
        for scope in sorted(ours - settings.gitops.scope_secrets.keys()):
            if isinstance(settings.secrets_by, Sops) or fleet.github.secret_of(scope) != PRIVATE_KEY:
                yield violation("scope_secret", at, scope=scope)
        for scope in sorted(settings.gitops.scope_secrets.keys() - ours):
            yield violation("unused_secret", (*at, scope), scope)


def _quotas(fleet: Fleet) -> Iterator[Violation]:
    """Only one cluster declares the quotas of a scope, and the quota of every GPU machine is known."""
    declaring = [(cluster, settings) for cluster, settings in fleet.clusters_by_name() if settings.declare_quotas]
    claims = (
        Claim((settings.provider, scope), cluster, ("clusters", cluster, "declareQuotas", scope))
        for cluster, settings in declaring
        for scope in settings.quota_scopes
    )
    for claim, other in conflicts(claims):
        yield violation("quota_twice", claim.at[:-1], True, other=other, scope=claim.at[-1])
    for cluster, settings in declaring:
        for need in provider_of(settings).needs(settings, fleet.clusters_of(settings.provider)):
            if need.code is None:
                at = ("clusters", cluster, "declareQuotas")
                yield violation("quota_unknown", at, True, machine=need.machine, capacity=need.capacity)


def _tags(fleet: Fleet) -> Iterator[Violation]:
    """The tags fit every cloud of the fleet."""
    for cluster, settings in fleet.clusters_by_name():
        rules = provider_of(settings).tags
        of = f"cluster {cluster} is of provider {settings.provider}, whose"
        if len(fleet.tags) > rules.most:
            yield violation("provider_tags", ("tags",), sorted(fleet.tags), of=of, most=rules.most)
        for key in fleet.tags:
            others = {other: "" for other in fleet.tags if other.lower() == key.lower() and other <= key}
            if key.lower().startswith(f"{STACK_TAG.partition('/')[0]}/"):
                yield violation("own_tag", ("tags", key), key)
            elif (fault := limit("DefaultTags", "tags").fault(others)) is not None:
                yield Violation("reserved_tag", fault, ("tags", key), key)
            if not rules.key.fullmatch(key):
                yield violation("provider_tag__cluster", ("tags", key), key, of=of, allowed=rules.words)


def _pools(fleet: Fleet) -> Iterator[Violation]:
    """The autoscaler of each provider supports the settings of the pools, and kubelet admits their placeholders.

    These take all GPUs of a node (pytorch/ci-infra#652).
    """
    for cluster, settings in fleet.clusters_by_name():
        profile, who = provider_of(settings).profile, f"the autoscaler of provider {settings.provider}"
        for name, pool in settings.pools.items():
            at, empty = ("clusters", cluster, "pools", name), pool.nodes.min == 0
            if "idle_delay" in pool.model_fields_set and not profile.idle_delay_per_pool:
                yield violation("idle_delay_target", (*at, "idleDelay"), who=who)
            if empty and not profile.from_zero:
                yield violation("from_zero", (*at, "nodes", "min"), 0, who=who)
            elif empty and pool.sharing is not None and not profile.shares_from_zero:
                yield violation("shares_from_zero", (*at, "nodes", "min"), 0, who=who)
            if pool.placeholders and (why := rejected(settings, name)):
                yield violation("placeholder_numa", (*at, "placeholders"), why=why)


def _namespaces(fleet: Fleet) -> Iterator[Violation]:
    """No setting names a chart's namespace."""
    for name, cluster in fleet.clusters_by_name():
        yield from (taken for taken in _named(("clusters", name), cluster) if taken.value in NAMESPACES)


def _named(path: tuple[str, ...], cluster: Cluster) -> Iterator[Violation]:
    """Of every namespace in a cluster's settings, which are at `path`: what is wrong if a chart has it."""
    if cluster.gitops is not None:
        yield violation("git_namespace", (*path, "gitops", "namespace"), cluster.gitops.namespace)
    if cluster.monitoring is not None and cluster.monitoring.installs:
        at = (*path, "monitoring", "namespace")
        yield violation("monitoring_namespace", at, cluster.monitoring.namespace)
    teams = cluster.queues.teams if cluster.queues is not None else {}
    parts: dict[str, Mapping[str, Any]] = {"queues.teams": teams, "workloads": cluster.workloads, "caches": cluster.caches}
    for kind, entries in (parts | {"jobs": cluster.jobs}).items():
        for name, entry in entries.items():
            at = (*path, *kind.split("."), name)
            if kind in ("workloads", "jobs"):
                yield violation("namespace_taken", (*at, "namespace"), entry.namespace)
                continue
            for index, namespace in enumerate(entry.namespaces):
                yield violation("namespace_taken", (*at, "namespaces", str(index)), namespace)


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


_OF_NAMES = (_names, _first_names, _deployment, *runner_rules.RULES, trust.rule)
_OF_SHARES = (_tenancies, _held_once, _own_rules, _scope_secrets, _quotas, _tags)
_RULES = (*_OF_NAMES, *_OF_SHARES, _pools, _namespaces)
