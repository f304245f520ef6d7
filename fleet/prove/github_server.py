"""Whether jobs in pods can reach a GitHub Enterprise Server of one's own."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from fleet.facts.remark import CANNOT_WORK, Remark, todo
from fleet.providers.fleet import Fleet
from fleet.settings.egress import within


def remarks(fleet: Fleet) -> Iterator[Remark]:
    """A line for each cluster whose pods may not reach the server: at a private address, or at a name that may have one."""
    host = urlsplit(fleet.github.url).hostname or ""
    if host == "github.com" or host.endswith(".ghe.com"):
        return
    try:
        address = f"{ipaddress.IPv4Address(host)}/32"
    except ValueError:
        address = ""
    for name, cluster in fleet.clusters_by_name():
        opened = within(address, cluster.private_egress) if address else bool(cluster.private_egress)
        walls = [runner for runner in cluster.pod_runners.values() if not getattr(runner, "accept_unenforced_network", None)]
        if not walls or opened or (address and not within(address, cluster.closed_networks)):
            continue
        which = "has a private address:" if address else "may have a private address: then"
        text = (
            f"{name}: GitHub server {host} {which} jobs in pods do not reach it, so no runner comes online; add its network to "
            "privateEgress (docs/isolation.md#let-jobs-reach-something-private)"
        )
        yield Remark(text, CANNOT_WORK, parts=(name,)) if address else todo(text)
