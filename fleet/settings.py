"""The fleet of one stack, read from the stack's config and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from fleet.cluster import Cluster
from fleet.errors import FleetError, Problem
from fleet.github import GitHub
from fleet.gitops.settings import ByProgram
from fleet.model import DnsLabel, Model, TagKey, TagValue, problem
from fleet.providers import PROVIDERS
from fleet.reading import read
from fleet.runner import GENERIC_LABELS, Runner

NAMESPACE = "gpu-ci"
_MAX_CLUSTER = 28
"""IAM role names have 64 characters; the longest is <cluster>-control-plane-eksRole-role and eight of Pulumi's."""
_MAX_JOINED = 48
"""Node group names have 63 characters: <cluster>-<pool>-nodes and eight of Pulumi's."""
SECRETS = ("githubPrivateKey",)
"""Config keys that hold a secret each. They never enter the model: a secret nested in an object makes the object secret."""


class _ByProvider:
    """A union of the providers' settings models, told apart by `provider`; it grows with the registry."""

    def __get_pydantic_core_schema__(self, _source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.tagged_union_schema(
            {name: handler.generate_schema(row.settings) for name, row in PROVIDERS.items()}, discriminator="provider"
        )


class Fleet(Model):
    """Every cluster, pool and runner set of one stack."""

    github: GitHub
    clusters: Annotated[dict[DnsLabel, Annotated[Any, _ByProvider()]], Field(min_length=1)]
    tags: Annotated[dict[TagKey, TagValue], Field(max_length=40)] = Field(default_factory=dict)
    """Tags of every cloud resource, besides the program's own."""

    @model_validator(mode="after")
    def _fleet_rules(self) -> Self:
        """Refuse what only shows over all clusters: names that meet, labels that reach two sets, what a target cannot do."""
        self._joined_names_fit()
        self._deployed_whole()
        self._one_default_set()
        self._sets_are_told_apart()
        self._one_tenancy()
        self._holdings_are_one_clusters()
        self._reservations_are_whole()
        self._one_budget_each()
        self._quotas_are_whole()
        self._tags_fit()
        for cluster, settings in self.clusters_by_name():
            profile = PROVIDERS[settings.provider].profile
            for name, pool in settings.pools.items():
                if "idle_delay" in pool.model_fields_set and not profile.idle_delay_per_pool:
                    raise problem(
                        "idle_delay_target",
                        f"the autoscaler of provider {settings.provider} has one delay for all pools; "
                        "remove idleDelay here and set the cluster's",
                        at=("clusters", cluster, "pools", name, "idleDelay"),
                    )
                if pool.nodes.min == 0 and not profile.from_zero:
                    raise problem(
                        "from_zero",
                        f"the autoscaler of provider {settings.provider} cannot start the first node of a pool; raise min to 1",
                        at=("clusters", cluster, "pools", name, "nodes", "min"),
                        value=0,
                    )
                if pool.nodes.min == 0 and pool.sharing is not None and not profile.shares_from_zero:
                    raise problem(
                        "shares_from_zero",
                        f"the autoscaler of provider {settings.provider} knows whole GPUs alone of a pool without nodes, so it "
                        "would start none for shares; raise min to 1",
                        at=("clusters", cluster, "pools", name, "nodes", "min"),
                        value=0,
                    )
        return self

    def _deployed_whole(self) -> None:
        """A stack is deployed by Pulumi or by nobody: `pulumi up` refuses the one kind, and could not make half of it."""
        kinds = {name: PROVIDERS[settings.provider].deployable for name, settings in self.clusters_by_name()}
        if len(set(kinds.values())) > 1:
            apart = next(name for name, deployable in kinds.items() if not deployable)
            raise problem(
                "deployed_whole",
                f"pulumi up makes no cluster of provider {self.clusters[apart].provider}, but others of this stack; "
                "give it a stack of its own",
                at=("clusters", apart, "provider"),
                value=self.clusters[apart].provider,
            )

    @property
    def deployable(self) -> bool:
        """Whether `pulumi up` makes the clusters: of all, or of none."""
        return all(PROVIDERS[settings.provider].deployable for _, settings in self.clusters_by_name())

    @property
    def needs_key(self) -> bool:
        """Whether `pulumi up` writes the GitHub App's key into some cluster, so that the stack's config has to hold it."""
        return any(isinstance(settings.secrets_by, ByProgram) for _, settings in self.clusters_by_name())

    def _one_default_set(self) -> None:
        """One set carries generic labels, and of machines only one that is alone in it.

        The order of clusters is not always the file's: Pulumi sorts their names. So the error names both sets, and stands at the
        one of machines, or else at the second.
        """
        held = [
            (("clusters", cluster, "runners", name, "labels"), f"{cluster}/{name}", runner, found)
            for cluster, name, runner in self.runner_sets()
            if (found := [label for label in map(str.lower, runner.labels) if label in GENERIC_LABELS])
        ]
        if len(held) < 2:
            return
        pods, machines = ([each for each in held if (each[2].kind == "pod") is of_pods] for of_pods in (True, False))
        mixed = bool(pods and machines)
        (_, first, _, own), (at, second, runner, found) = (pods[0], machines[0]) if mixed else held[:2]
        raise problem(
            "generic_label",
            f"sets {first} ({', '.join(own)}) and {second} ({', '.join(found)}) both carry generic labels; one default set per "
            "GitHub scope does, every other is reached by its name or a label of its own; "
            + (f"keep them on {first}, whose runners are pods" if mixed else "keep them on one"),
            at=at,
            value=list(runner.labels),
        )

    def _one_tenancy(self) -> None:
        """A fleet is built with the keys of one tenancy, so its clusters name the same one."""
        known: dict[str, tuple[str, str]] = {}
        for cluster, settings in self.clusters_by_name():
            for path, tenancy in settings.tenancies():
                at = ("clusters", cluster, *path)
                other, where = known.setdefault(settings.provider, (tenancy, ".".join(at)))
                if tenancy != other:
                    raise problem(
                        "one_tenancy",
                        f"the tenancy's prefix is {tenancy} here and {other} at {where}, a tenancy has one; use yours in all",
                        at=at,
                    )

    def _holdings_are_one_clusters(self) -> None:
        """A folder of Git's is one cluster's, a machine is of one cluster."""
        holders: dict[str, str] = {}
        for cluster, settings in self.clusters_by_name():
            for path, what in settings.holdings():
                if (other := holders.setdefault(what, cluster)) != cluster:
                    raise problem(
                        "held_twice", f"cluster {other} has {what}, too; give each its own", at=("clusters", cluster, *path)
                    )

    def _sets_are_told_apart(self) -> None:
        """One set a name and group, one set a label."""
        names: dict[tuple[str, str], str] = {}
        owners: dict[str, str] = {}
        own_names = {name for _, name, _ in self.runner_sets()}
        for cluster, name, runner in self.runner_sets():
            at, this, group = ("clusters", cluster, "runners", name), f"{cluster}/{name}", self.group_of(runner)
            if (other := names.setdefault((group, name), cluster)) != cluster:
                raise problem(
                    "set_unique", f"cluster {other} has a runner set of that name in group {group}; rename one", at=at, value=name
                )
            for label in runner.labels:
                # GitHub ignores case. The message has the label as written: another spelling may hide a credential from the mask.
                folded = label.lower()
                labels = {"at": (*at, "labels"), "value": list(runner.labels)}
                if folded in own_names and folded != name:
                    raise problem(
                        "label_is_name", f"label '{label}' is the name of a runner set; remove it or rename one", **labels
                    )
                if (owner := owners.setdefault(folded, this)) != this:
                    message = (
                        f"label '{label}' already reaches set {owner}, so a runs-on would be ambiguous; remove it or rename it"
                    )
                    raise problem("label_unique", message, **labels)

    def _reservations_are_whole(self) -> None:
        """A reservation's machines are counted, paid and filled by one pool."""
        holders: dict[str, str] = {}
        for cluster, settings in self.clusters_by_name():
            for name, pool in settings.pools.items():
                this = f"{cluster}/{name}"
                if pool.reservation is not None and (other := holders.setdefault(pool.reservation.id, this)) != this:
                    raise problem(
                        "reservation_twice",
                        f"pool {other} has that reservation; give each pool one of its own",
                        at=("clusters", cluster, "pools", name, "reservation", "id"),
                        value=pool.reservation.id,
                    )

    def _one_budget_each(self) -> None:
        """What one budget watches, no other does."""
        holders: dict[tuple[str, str], str] = {}
        for cluster, settings in self.clusters_by_name():
            if settings.budget is None:
                continue
            if (other := holders.setdefault((settings.provider, settings.watched), cluster)) != cluster:
                raise problem(
                    "budget_twice",
                    f"cluster {other}'s budget watches {settings.watched} already; keep one of them",
                    at=("clusters", cluster, "budget"),
                )

    def _quotas_are_whole(self) -> None:
        """One cluster declares a quota, for all of the fleet that takes of it; every GPU machine is known to take of one."""
        holders: dict[tuple[str, str], str] = {}
        for cluster, settings in self.clusters_by_name():
            if not settings.declare_quotas:
                continue
            at = ("clusters", cluster, "declareQuotas")
            for scope in settings.quota_scopes:
                if (other := holders.setdefault((settings.provider, scope), cluster)) != cluster:
                    raise problem(
                        "quota_twice",
                        f"cluster {other} declares the quotas of {scope} already, for all of the fleet there; remove it",
                        at=at,
                        value=True,
                    )
            for need in PROVIDERS[settings.provider].needs(settings, self.clusters_of(settings.provider)):
                if need.code is None:
                    raise problem(
                        "quota_unknown",
                        f"no source names the quota of {need.machine} as {need.capacity}; add it to fleet/data/quotas.csv, "
                        "or remove declareQuotas",
                        at=at,
                        value=True,
                    )

    def _tags_fit(self) -> None:
        """Hold the tags to what every cloud of the fleet takes."""
        for cluster, settings in self.clusters_by_name():
            rules = PROVIDERS[settings.provider].tags
            if len(self.tags) > rules.most:
                raise problem(
                    "provider_tags",
                    f"cluster {cluster} is of provider {settings.provider}, whose cloud has room for {rules.most} tags; "
                    "remove some",
                    at=("tags",),
                    value=sorted(self.tags),
                )
            for key in self.tags:
                if not rules.key.fullmatch(key):
                    raise problem(
                        "provider_tag",
                        f"cluster {cluster} is of provider {settings.provider}, whose tags have keys of {rules.words}; rename it",
                        at=("tags", key),
                        value=key,
                    )

    def _joined_names_fit(self) -> None:
        """Resources are named cluster-pool, cluster-set, cluster-workload: a-b with c and a with b-c would be one resource."""
        joined: dict[tuple[str, str], str] = {}
        for cluster, settings in self.clusters_by_name():
            if len(cluster) > _MAX_CLUSTER:
                message = (
                    f"a cluster's name has at most {_MAX_CLUSTER} characters, cloud resources are named after it; shorten it"
                )
                raise problem("cluster_length", message, at=("clusters", cluster), value=cluster)
            for kind, names in (
                ("pools", settings.pools),
                ("runners", settings.runners),
                ("workloads", settings.workloads),
                ("caches", settings.caches),
                ("jobs", settings.jobs),
            ):
                for name in names:
                    at = ("clusters", cluster, kind, name)
                    if kind == "pools" and len(cluster) + len(name) > _MAX_JOINED:
                        message = f"cluster and pool names together have at most {_MAX_JOINED} characters; shorten one"
                        raise problem("joined_length", message, at=at, value=name)
                    if (other := joined.setdefault((kind, f"{cluster}-{name}"), cluster)) != cluster:
                        message = f"'{cluster}-{name}' is also the joined name of one of cluster {other}'s {kind}; rename one"
                        raise problem("joined_name", message, at=at, value=name)

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Names that sets of several groups have: a runs-on must then give the group too."""
        counts = Counter(name for _, name, _ in self.runner_sets())
        return tuple(name for name, count in counts.items() if count > 1)

    def clusters_by_name(self) -> Iterator[tuple[str, Cluster]]:
        """Clusters by name, in the order of the config."""
        yield from self.clusters.items()

    def clusters_of(self, provider: str) -> tuple[Any, ...]:
        """Settings of the clusters of one provider, in the order of the config."""
        return tuple(settings for settings in self.clusters.values() if settings.provider == provider)

    def runner_sets(self) -> Iterator[tuple[str, str, Runner]]:
        """(cluster, set name, runner class) in the order of the config."""
        for cluster, settings in self.clusters_by_name():
            for name, runner in settings.runners.items():
                yield cluster, name, runner

    def group_of(self, runner: Runner) -> str:
        """The runner group a set registers in."""
        return runner.group or self.github.group


CONFIG_KEYS = tuple(field.alias or name for name, field in Fleet.model_fields.items())
"""The keys of the config namespace that make the model; `SECRETS` are the others."""


def check_keys(keys: Iterable[str], secret: Collection[str]) -> None:
    """Hold the config's keys (without namespace) to those that exist; `secret` are the encrypted ones.

    Raises FleetError for an unknown key, a secret in clear, and a secret inside the model: that would make a whole key secret
    and put its plain value in tags and chart values.
    """
    known = ", ".join(sorted({*CONFIG_KEYS, *SECRETS}))
    problems = []
    for key in keys:
        if key not in (*CONFIG_KEYS, *SECRETS):
            message = f"unknown key; known keys: {known}"
        elif key in CONFIG_KEYS and key in secret:
            message = (
                f"holds a secret, which would end in clear in tags and values; take it out ({SECRETS[0]} is the key for one)"
            )
        elif key in SECRETS and key not in secret:
            message = f"a secret in clear text; set it with: pulumi config set --secret {NAMESPACE}:{key}"
        else:
            continue
        problems.append(Problem((f"{NAMESPACE}:{key}",), message, ""))
    if problems:
        raise FleetError(tuple(problems))


def load(config: Mapping[str, object]) -> Fleet:
    """The fleet from the stack's parsed config, by key without namespace ("github", "clusters", …).

    Raises FleetError with every problem found.
    """
    return read(Fleet, NAMESPACE, config)
