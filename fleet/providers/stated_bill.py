"""What pools of machines cost that the program does not buy: as much as the stack file states."""

from collections.abc import Iterator
from datetime import date

from fleet.facts.bill import Paid
from fleet.facts.pricing import Line
from fleet.settings.cluster import Cluster


def stated_bill(name: str, cluster: Cluster, day: date, of: str = "") -> Iterator[Paid | Line]:
    """The pools of a cluster, and nothing else of it. `of` says whose machines they are."""
    for pool_name, pool in cluster.pools.items():
        hour = pool.price(pool.instance_types[0], cluster.region)
        text = f"{' or '.join(pool.instance_types)}{of}, price {'not stated' if hour.unknown else 'as stated'}"
        line = Line(name, f"pool {pool_name}", text, pool.nodes.min, pool.nodes.max, hour, hour, ("the stack file",))
        yield Paid(name=pool_name, line=line, region=cluster.region)
