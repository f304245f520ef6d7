"""Parts that cannot work on a day, although every setting is right: no node can start, or `pulumi up` would fail half way."""

import ipaddress
from collections.abc import Iterator
from datetime import date
from urllib.parse import urlsplit

from fleet.facts.day import VARIABLE
from fleet.facts.remark import CANNOT_WORK, Remark, kind_of, of_cluster, said, todo
from fleet.prove.placement import PlacementError
from fleet.prove.room import filled
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.egress import within

REFUSED = "cannot work"
"""The first words of each line of `require`."""


def remarks(fleet: Fleet, day: date) -> Iterator[Remark]:
    """Of all clusters, of a server that jobs may not reach, and of classes whose pools all have no capacity on the day."""
    for name, cluster in fleet.clusters_by_name():
        yield from (of_cluster(name, text) for text in (*cluster.remarks, *cluster.remarks_on(day)))
    yield from github_server(fleet)
    for name, cluster in fleet.clusters_by_name():
        for runner_set, runner in cluster.pod_runners.items():
            if runner.span.max and all(why := [_shut(cluster, pool, day) for pool in runner.ordered]):
                pools = "; ".join(f"pool {pool}: {reason}" for pool, reason in zip(runner.ordered, why, strict=True))
                parts = tuple(f"{name}/{part}" for part in (runner_set, *runner.ordered))
                text = f"no pool of the class has capacity on {day}, so its jobs wait: {pools}"
                fix = "give the class another pool, or change this one"
                yield Remark(f"{name}/{runner_set}: {text}; {fix}", CANNOT_WORK, parts=parts)


def github_server(fleet: Fleet) -> Iterator[Remark]:
    """A line for each cluster whose pods may not reach the server, and for each class that may not reach its proxy or DNS.

    They are at a private address, or at a name that may have one.
    """
    for name, cluster in fleet.clusters_by_name():
        walled = {key: runner for key, runner in cluster.pod_runners.items() if not getattr(runner, _NO_WALL, None)}
        hosts = {key: fleet.scope_of(name, runner).host for key, runner in walled.items()}
        private = dict.fromkeys(
            host
            for key, host in hosts.items()
            if not (host == "github.com" or host.endswith(".ghe.com"))
            and ((through := walled[key].proxy) is None or not through.carries(host))
        )
        for host in private:
            yield from _unreached(name, cluster, f"GitHub server {host}", host)
        for key, runner in walled.items():
            for server in runner.template.name_servers if runner.template is not None else ():
                yield from _unreached(f"{name}/{key}", cluster, f"name server {server}", server)
            if runner.proxy is not None:
                proxy = urlsplit(runner.proxy.url).hostname or ""
                yield from _unreached(f"{name}/{key}", cluster, f"proxy {proxy}", proxy)


_NO_WALL = "accept_unenforced_network"
"""The setting of a class whose network enforces nothing."""


def _unreached(part: str, cluster: Cluster, what: str, host: str) -> Iterator[Remark]:
    """The remark if pods may not reach a host, which `what` names."""
    try:
        address = f"{ipaddress.IPv4Address(host)}/32"
    except ValueError:
        address = ""
    opened = within(address, cluster.private_egress) if address else bool(cluster.private_egress)
    if opened or (address and not within(address, cluster.closed_networks)):
        return
    which = "has a private address:" if address else "may have a private address: then"
    text = said("unreachable", part=part, what=what, which=which)
    yield Remark(text, CANNOT_WORK, parts=(part,)) if address else todo(text)


def _shut(cluster: Cluster, pool: str, day: date) -> str:
    """Why a pool has no capacity for runners on a day; empty if it has."""
    full = "workloads that always run take all of it" if filled(cluster, pool) else ""
    return cluster.pools[pool].closed(day) or full


def require(fleet: Fleet, day: date) -> None:
    """Raise PlacementError with a line for each thing that cannot work on the day."""
    if wrong := [f"{REFUSED}: {remark}" for remark in remarks(fleet, day) if kind_of(remark) == CANNOT_WORK]:
        other = f"{VARIABLE}=<YYYY-MM-DD> updates as of another day, such as the start of a reservation"
        raise PlacementError("\n".join((*wrong, other)))
