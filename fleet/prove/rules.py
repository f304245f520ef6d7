"""Rules over all clusters of a fleet: unique names, one owner for things that cannot be shared, the limits of each cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from fleet.facts.errors import Problem, shown
from fleet.facts.hardware import SPOT
from fleet.prove.placeholders import rejected
from fleet.prove.same_sets import class_of, classes, difference, pod_sets, shortfall
from fleet.providers.eks.cluster import EksPools
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.registry import PROVIDERS
from fleet.settings.pool import Pool
from fleet.settings.pool_order import ContradictionError, pool_ranks
from fleet.settings.reading import standing
from fleet.settings.runner import GENERIC_LABELS, PodRunner

_MAX_CLUSTER = 28
"""An IAM role name has at most 64 characters. The longest is <cluster>-control-plane-eksRole-role and eight that Pulumi adds."""
_MAX_JOINED = 48
"""A node group name has at most 63 characters: <cluster>-<pool>-nodes and eight that Pulumi adds. On EKS the
name also has the zone."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Claim:
    """`owner` claims the thing that `key` identifies. `at` is the path of the claim in the settings."""

    key: object
    owner: str
    at: Path


_IN_CONFIG = object()


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule. `rule` is its short name, `at` the path of the setting that breaks it.

    The error shows `value`. Without one it shows the value at the path.
    """

    rule: str
    message: str
    at: Path
    value: object = _IN_CONFIG


def problems(fleet: Fleet, config: Mapping[str, object]) -> Iterator[Problem]:
    """Every violation, rule by rule, in the order of the config. `config` is the config from which the fleet was read."""
    for rule in _RULES:
        for found in rule(fleet):
            missing, value = standing(config, found.at) if found.value is _IN_CONFIG else (False, found.value)
            head, *rest = found.at
            yield Problem((f"{NAMESPACE}:{head}", *rest), found.message, "" if missing else shown(value), found.rule)


def _conflicts(claims: Iterable[_Claim]) -> Iterator[tuple[_Claim, str]]:
    """Each claim of a key that another owner claimed first, with that owner."""
    owners: dict[object, str] = {}
    for claim in claims:
        if (first := owners.setdefault(claim.key, claim.owner)) != claim.owner:
            yield claim, first


def _names(fleet: Fleet) -> Iterator[Violation]:
    """Names fit the limits of the clouds, and joined names are unique.

    A resource is named cluster-pool, so cluster a-b with pool c and cluster a with pool b-c would get the same name.
    """
    claims = []
    for cluster, settings in fleet.clusters_by_name():
        if too_long := len(cluster) > _MAX_CLUSTER:
            message = (
                f"a cluster's name has at most {_MAX_CLUSTER} characters, because cloud resources are named after it; shorten it"
            )
            yield Violation("cluster_length", message, ("clusters", cluster), cluster)
        for kind in ("pools", "runners", "workloads", "caches", "jobs"):
            for name in getattr(settings, kind):
                at = ("clusters", cluster, kind, name)
                most = _MAX_JOINED - settings.group_suffix
                if kind == "pools" and not too_long and len(cluster) + len(name) > most:
                    message = f"cluster and pool names together have at most {most} characters; shorten one"
                    yield Violation("joined_length", message, at, name)
                claims.append(_Claim((kind, f"{cluster}-{name}"), cluster, at))
    for claim, other in _conflicts(claims):
        _, cluster, kind, name = claim.at
        message = f"'{cluster}-{name}' is also the joined name of one of cluster {other}'s {kind}; rename one"
        yield Violation("joined_name", message, claim.at, name)


def _deployment(fleet: Fleet) -> Iterator[Violation]:
    """`pulumi up` deploys all clusters of a stack, or none."""
    deployable = {name: PROVIDERS[settings.provider].deployable for name, settings in fleet.clusters_by_name()}
    if len(set(deployable.values())) > 1:
        apart = next(name for name, each in deployable.items() if not each)
        provider = fleet.clusters[apart].provider
        message = (
            f"pulumi up creates no clusters of provider {provider}, but it creates others of this stack; move it to "
            "a separate stack"
        )
        yield Violation("deployed_whole", message, ("clusters", apart, "provider"), provider)


def _generic_labels(fleet: Fleet) -> Iterator[Violation]:
    """At most one runner set carries generic labels, or the sets of one class.

    The order of clusters is not always the file's, because Pulumi sorts their names. So the error names both sets. It points to
    the set of machines, or else to the second set.
    """
    labeled = [
        (("clusters", cluster, "runners", name, "labels"), f"{cluster}/{name}", runner, found)
        for cluster, name, runner in fleet.runner_sets()
        if (found := [label for label in map(str.lower, runner.labels) if label in GENERIC_LABELS])
    ]
    if len({class_of(of, runner) for _, of, runner, _ in labeled}) < 2:
        return
    pods, machines = ([each for each in labeled if (each[2].kind == "pod") is of_pods] for of_pods in (True, False))
    mixed = bool(pods and machines)
    (_, first, _, own), (at, second, runner, found) = (pods[0], machines[0]) if mixed else labeled[:2]
    keep = f"keep them on {first}, whose runners are pods" if mixed else "keep them on one"
    message = (
        f"sets {first} ({', '.join(own)}) and {second} ({', '.join(found)}) both have generic labels; only one default set per "
        f"GitHub scope may have them, and jobs select every other set by its name or its own label; {keep}"
    )
    yield Violation("generic_label", message, at, list(runner.labels))


def _runner_sets(fleet: Fleet) -> Iterator[Violation]:
    """A name has one runner set in each runner group, and a label reaches one set or the sets of one class.

    GitHub offers a job to every set that has all labels of its runs-on (rhobuild/runpool#150). No set has all labels that select
    another class, because each label other than a generic one belongs to one class. GitHub ignores the case of labels.
    """
    sets = list(fleet.runner_sets())
    names = (
        _Claim((fleet.group_of(runner), name), cluster, ("clusters", cluster, "runners", name)) for cluster, name, runner in sets
    )
    for claim, other in _conflicts(names):
        group, name = claim.key if isinstance(claim.key, tuple) else ("", "")
        yield Violation(
            "set_unique", f"cluster {other} has a runner set with that name in group {group}; rename one", claim.at, name
        )
    own_names = {name for _, name, _ in sets}
    owners: dict[str, str] = {}
    for cluster, name, runner in sets:
        at, this, labels = ("clusters", cluster, "runners", name, "labels"), f"{cluster}/{name}", list(runner.labels)
        owned = class_of(this, runner)
        for label in labels:
            # The message has the label as written: another spelling may hide a credential from the mask.
            folded = label.lower()
            if folded in own_names and folded != name:
                yield Violation(
                    "label_is_name", f"label '{label}' is the name of a runner set; remove it or rename one", at, labels
                )
            elif folded not in GENERIC_LABELS and (owner := owners.setdefault(folded, owned)) != owned:
                message = f"label '{label}' already selects set {owner}, so a runs-on would be ambiguous; remove it or rename it"
                yield Violation("label_unique", message, at, labels)


def _reruns(fleet: Fleet) -> Iterator[Violation]:
    """Jobs that spot interrupted run again on a set of pods in the same group: no spot, the same GPU, and as many of them."""
    for cluster, name, runner in fleet.runner_sets():
        if not isinstance(runner, PodRunner) or runner.rerun_on is None:
            continue
        at, pools = ("clusters", cluster, "runners", name, "rerunOn"), _pools_of(fleet, cluster, runner)
        if all(pool.capacity != SPOT for pool in pools.values()):
            yield Violation(
                "rerun_without_spot", "no pool of this class is spot, so no interruption ends its jobs; remove it", at
            )
        group = fleet.group_of(runner)
        sets = [
            (found, there, other)
            for there, found, other in fleet.runner_sets()
            if isinstance(other, PodRunner) and fleet.group_of(other) == group
        ]
        if runner.rerun_on not in (known := dict.fromkeys(found for found, _, _ in sets if found != name)):
            names = f"name one of: {', '.join(known)}" if known else "add one, or remove this"
            yield Violation("rerun_set", f"group {group} has no other set of pods with this name; {names}", at)
            continue
        own = next(iter(pools.values()))
        for _, there, other in (each for each in sets if each[0] == runner.rerun_on):
            for pool_name, pool in _pools_of(fleet, there, other).items():
                if pool.capacity == SPOT:
                    message = f"its pool {pool_name} is spot, and a rerun happens only once; name a set without spot pools"
                    yield Violation("rerun_on_spot", message, at)
                if (_gpu(pool), pool.sharing) != (_gpu(own), own.sharing) or other.gpus < runner.gpus:
                    message = (
                        f"its runners have {other.gpus}x {_gpu(pool)}, and jobs of this class need {runner.gpus}x {_gpu(own)}; "
                        "name a set with the same GPUs and at least as many"
                    )
                    yield Violation("rerun_gpus", message, at)


def _pools_of(fleet: Fleet, cluster: str, runner: PodRunner) -> dict[str, Pool]:
    return {name: fleet.clusters[cluster].pools[name] for name in runner.ordered}


def _gpu(pool: Pool) -> str:
    machine = pool.machines[0]
    shared = f" by {pool.sharing.strategy}" if pool.sharing is not None else ""
    return f"{machine.gpu.name if machine.gpu else 'GPU'} {machine.gpu_memory_mib / 1024:.0f}Gi{shared}"


def _same_sets(fleet: Fleet) -> Iterator[Violation]:
    """Sets that `sameAs` declares equal are equal, and each cluster can place all runners of its set."""
    sets = pod_sets(fleet)
    for this in sets.values():
        at, first = ("clusters", this.cluster, "runners", this.name, "sameAs"), this.runner.same_as
        if first is None:
            continue
        others = [called for called, each in sets.items() if each.cluster != this.cluster and each.runner.same_as is None]
        if first not in others:
            known = ", ".join(others) or "none, so remove sameAs"
            message = f"names no set of pods in another cluster that has no sameAs itself; name one of: {known}"
            yield Violation("same_set", message, at)
        elif found := difference(fleet, this, sets[first]):
            message = f"GitHub may give a job to either set, so they must be equal: {found}; give both the same, or remove sameAs"
            yield Violation("same_differs", message, at)
        elif not this.runner.labels:
            message = f"no label selects both sets; add the same labels to this set and to {first}"
            yield Violation("same_label", message, at)
    for first, each in ((first, each) for first, same in classes(fleet).items() for each in same):
        if (short := shortfall(each)) is not None:
            needed, left = short
            message = (
                f"GitHub may give all jobs of this set and its equals (sameAs: {first}) to one cluster; here they need {needed} "
                f"nodes, and its pools may have only {left} beside other sets; lower scale.max or raise nodes.max"
            )
            yield Violation("same_room", message, ("clusters", each.cluster, "runners", each.name, "scale", "max"))


def _pool_orders(fleet: Fleet) -> Iterator[Violation]:
    """Classes, flavors and jobs of a cluster order their pools in one way, because an autoscaler has one order."""
    for cluster, settings in fleet.clusters_by_name():
        if PROVIDERS[settings.provider].moves is None:
            continue
        try:
            pool_ranks(settings.pool_orders)
        except ContradictionError as error:
            message = f"the cluster's autoscaler has one order of pools, and these contradict each other: {error}; use one order"
            yield Violation("pool_order", message, ("clusters", cluster, *error.steps[-1][0].split("."), "pools"))


def _tenancies(fleet: Fleet) -> Iterator[Violation]:
    """All clusters of a provider are in one tenancy, because one tenancy's credentials deploy the fleet."""
    known: dict[str, tuple[str, str]] = {}
    for cluster, settings in fleet.clusters_by_name():
        for path, tenancy in settings.tenancies():
            at = ("clusters", cluster, *path)
            first, where = known.setdefault(settings.provider, (tenancy, ".".join(at)))
            if tenancy != first:
                message = (
                    f"the tenancy's prefix is {tenancy} here and {first} at {where}, and a tenancy has only one prefix; "
                    "use yours everywhere"
                )
                yield Violation("one_tenancy", message, at)


def _holdings(fleet: Fleet) -> Iterator[Violation]:
    """A folder in Git, a host and an address each belong to only one cluster."""
    claims = (
        _Claim(what, cluster, ("clusters", cluster, *path))
        for cluster, settings in fleet.clusters_by_name()
        for path, what in settings.holdings()
    )
    for claim, other in _conflicts(claims):
        yield Violation("held_twice", f"cluster {other} also has {claim.key}; give each its own", claim.at)


def _build_caches(fleet: Fleet) -> Iterator[Violation]:
    """Build caches trust tokens of github.com, and an account has one OIDC provider for them."""
    caching = [
        (cluster, settings.build_caches)
        for cluster, settings in fleet.clusters_by_name()
        if isinstance(settings, EksPools) and settings.build_caches is not None
    ]
    if caching and not fleet.github.owner.startswith("github.com/"):
        message = "build caches trust the tokens of github.com, and this server has others; remove buildCaches"
        yield Violation("cache_issuer", message, ("github", "url"))
    claims = (
        _Claim(caches.account, cluster, ("clusters", cluster, "buildCaches", "oidcProvider"))
        for cluster, caches in caching
        if caches.oidc_provider == "create"
    )
    for claim, other in _conflicts(claims):
        message = f"cluster {other} already creates GitHub's OIDC provider in account {claim.key}; write existing"
        yield Violation("oidc_provider_twice", message, claim.at)


def _readers(fleet: Fleet) -> Iterator[Violation]:
    """The dynamic group of a registry on OCI has every machine of its compartment, and machines of jobs must have no rights."""
    clusters = [(name, held) for name, held in fleet.clusters_by_name() if isinstance(held, OkeCluster)]
    for name, held in clusters:
        for other, beside in clusters:
            if held.registry and other != name and beside.machines_in == held.compartment and any(beside.machine_runners()):
                message = (
                    f"the dynamic group has every machine of the compartment, and machines of jobs of cluster {other} are there; "
                    f"give {other} another machineCompartment"
                )
                yield Violation("registry_readers", message, ("clusters", name, "registry"))


def _reservations(fleet: Fleet) -> Iterator[Violation]:
    """Only one pool uses a capacity reservation, because a reservation is counted and paid once."""
    claims = (
        _Claim(pool.reservation.id, f"{cluster}/{name}", ("clusters", cluster, "pools", name, "reservation", "id"))
        for cluster, settings in fleet.clusters_by_name()
        for name, pool in settings.pools.items()
        if pool.reservation is not None
    )
    for claim, other in _conflicts(claims):
        yield Violation(
            "reservation_twice", f"pool {other} already uses that reservation; give each pool its own", claim.at, claim.key
        )


def _budgets(fleet: Fleet) -> Iterator[Violation]:
    """An account or a compartment has only one budget."""
    claims = (
        _Claim((settings.provider, settings.watched), cluster, ("clusters", cluster, "budget"))
        for cluster, settings in fleet.clusters_by_name()
        if settings.budget is not None
    )
    for claim, other in _conflicts(claims):
        watched = fleet.clusters[claim.owner].watched
        yield Violation("budget_twice", f"cluster {other}'s budget already covers {watched}; keep one of them", claim.at)


def _quotas(fleet: Fleet) -> Iterator[Violation]:
    """Only one cluster declares the quotas of a scope, and the quota of every GPU machine is known."""
    declaring = [(cluster, settings) for cluster, settings in fleet.clusters_by_name() if settings.declare_quotas]
    claims = (
        _Claim((settings.provider, scope), cluster, ("clusters", cluster, "declareQuotas", scope))
        for cluster, settings in declaring
        for scope in settings.quota_scopes
    )
    for claim, other in _conflicts(claims):
        *at, scope = claim.at
        message = f"cluster {other} already declares the quotas of {scope} for the whole fleet; remove it"
        yield Violation("quota_twice", message, tuple(at), True)
    for cluster, settings in declaring:
        for need in PROVIDERS[settings.provider].needs(settings, fleet.clusters_of(settings.provider)):
            if need.code is None:
                message = (
                    f"no source gives the quota of {need.machine} as {need.capacity}; add it to fleet/facts/data/quotas.csv, "
                    "or remove declareQuotas"
                )
                yield Violation("quota_unknown", message, ("clusters", cluster, "declareQuotas"), True)


def _tags(fleet: Fleet) -> Iterator[Violation]:
    """The tags fit every cloud of the fleet."""
    for cluster, settings in fleet.clusters_by_name():
        rules = PROVIDERS[settings.provider].tags
        of = f"cluster {cluster} is of provider {settings.provider}, whose"
        if len(fleet.tags) > rules.most:
            message = f"{of} cloud allows only {rules.most} tags; remove some"
            yield Violation("provider_tags", message, ("tags",), sorted(fleet.tags))
        for key in fleet.tags:
            if not rules.key.fullmatch(key):
                yield Violation("provider_tag", f"{of} tags have keys of {rules.words}; rename it", ("tags", key), key)


def _autoscaler(fleet: Fleet) -> Iterator[Violation]:
    """The autoscaler of each provider supports the settings of the pools."""
    for cluster, settings in fleet.clusters_by_name():
        profile, who = PROVIDERS[settings.provider].profile, f"the autoscaler of provider {settings.provider}"
        for name, pool in settings.pools.items():
            at, empty = ("clusters", cluster, "pools", name), pool.nodes.min == 0
            if "idle_delay" in pool.model_fields_set and not profile.idle_delay_per_pool:
                message = f"{who} has one delay for all pools; remove idleDelay here and set the cluster's"
                yield Violation("idle_delay_target", message, (*at, "idleDelay"))
            if empty and not profile.from_zero:
                message = f"{who} cannot start the first node of a pool; raise min to 1"
                yield Violation("from_zero", message, (*at, "nodes", "min"), 0)
            elif empty and pool.sharing is not None and not profile.shares_from_zero:
                message = (
                    f"{who} assumes whole GPUs for a pool without nodes, so it would start no node for shares; raise min to 1"
                )
                yield Violation("shares_from_zero", message, (*at, "nodes", "min"), 0)


def _placeholders(fleet: Fleet) -> Iterator[Violation]:
    """Kubelet admits the placeholders of a pool, which take all GPUs of a node (pytorch/ci-infra#652)."""
    for cluster, settings in fleet.clusters_by_name():
        for name, pool in settings.pools.items():
            if pool.placeholders and (why := rejected(settings, name)):
                at = ("clusters", cluster, "pools", name, "placeholders")
                yield Violation(
                    "placeholder_numa",
                    f"a placeholder takes all GPUs of a node and {why}, or remove placeholders",
                    at,
                    pool.placeholders,
                )


_RULES: tuple[Callable[[Fleet], Iterator[Violation]], ...] = (
    _names,
    _deployment,
    _generic_labels,
    _runner_sets,
    _reruns,
    _same_sets,
    _pool_orders,
    _tenancies,
    _holdings,
    _build_caches,
    _readers,
    _reservations,
    _budgets,
    _quotas,
    _tags,
    _autoscaler,
    _placeholders,
)
