"""Trust domains: the runner sets whose jobs the same people may start. Sets of different domains share nothing by accident.

A job can leave something on the node for the next one, and no NetworkPolicy or Pod Security standard stops what a driver or a
kernel lets through (kubernetes.io, multi-tenancy). So a domain is what GitHub separates: the organization or repository and the
runner group (docs.github.com, managing access to self-hosted runners using groups), and within it releases from everything else.
"""

from collections.abc import Iterator
from typing import NamedTuple

from fleet.facts.remark import said
from fleet.providers.fleet import Fleet
from fleet.providers.provider import Violation, violation
from fleet.settings.pool import Pool
from fleet.settings.sharing import Replicated


class Domain(NamedTuple):
    """An organization or repository as host and path, its runner group, and whether the jobs are releases."""

    scope: str
    group: str
    releases: bool

    def __str__(self) -> str:
        of = f"group {self.group} of {self.scope}" if self.group else self.scope
        return f"{'releases, ' * self.releases}{of}"


def domain_of(fleet: Fleet, cluster: str, name: str) -> Domain:
    """The domain of a set. One whose jobs may run in a pool of releases is a release set, unless others rerun their jobs there.

    A repository has no runner groups.
    """
    settings = fleet.clusters[cluster]
    runner = settings.runners[name]
    scope, pools = fleet.scope_of(cluster, runner), settings.pools
    roles = (getattr(runner, "role", ""), *(pools[pool].role for pool in getattr(runner, "ordered", ())))
    reruns = any(name in getattr(row, "reruns_on", ()) for _, other, row in fleet.runner_sets() if other != name)
    return Domain(scope.path, "" if scope.repository else fleet.group_of(cluster, runner), "release" in roles and not reruns)


def _shared(fleet: Fleet) -> Iterator[tuple[tuple[str, ...], Pool, str]]:
    """(path, pool, its sets in words) of each pool. The words are empty if its sets are of one domain."""
    for cluster, settings in fleet.clusters_by_name():
        for name, pool in settings.pools.items():
            sets = (key for key, row in settings.pod_runners.items() if name in row.used_pools)
            domains = {key: domain_of(fleet, cluster, key) for key in sets}
            together = " and ".join(f"{key} ({of})" for key, of in domains.items()) if len({*domains.values()}) > 1 else ""
            yield ("clusters", cluster, "pools", name), pool, together


def rule(fleet: Fleet) -> Iterator[Violation]:
    """A release set has a runner group of its own, and a pool has the sets of one domain, or a reason why not."""
    sets = {(cluster, name): domain_of(fleet, cluster, name) for cluster, name, _ in fleet.runner_sets()}
    for (cluster, name), of in sets.items():
        others = ", ".join("/".join(key) for key, domain in sets.items() if domain == of._replace(releases=False))
        if of.group and of.releases and others:
            yield violation("release_group", ("clusters", cluster, "runners", name, "group"), of.group, others=others)
    for at, pool, together in _shared(fleet):
        if together and isinstance(pool.sharing, Replicated):
            yield violation("shared_gpus", (*at, "sharing", "strategy"), pool.sharing.strategy, sets=together)
        elif together and pool.accept_shared_nodes is None:
            yield violation("shared_nodes", (*at, "acceptSharedNodes"), sets=together)
        elif pool.accept_shared_nodes is not None and not together:
            yield violation("shared_nodes__none", (*at, "acceptSharedNodes"))


def remarks(fleet: Fleet) -> Iterator[str]:
    """A line for each pool whose nodes sets of several domains share."""
    for (_, cluster, _, name), pool, sets in _shared(fleet):
        if sets:
            yield said("shared_nodes", name=f"{cluster}/{name}", sets=sets, why=pool.accept_shared_nodes)
