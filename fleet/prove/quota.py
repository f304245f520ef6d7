"""Whether Kueue can ever admit a job to a pool: the job's queue, and the most that one job of its team gets there.

Jobs of other teams end at some time, so only limits count: the team's quota, and the quota that other teams of its cohort lend.
"""

from fleet.facts.offer import for_runners
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.record import Record
from fleet.facts.scheduling import DEFAULT_QUEUE
from fleet.prove.placement import Host, pool_host
from fleet.prove.topology import Ask
from fleet.settings.cluster import Cluster
from fleet.settings.jobs import team_of
from fleet.settings.queues import Queues, Quota


def queue_of(queue: str | None, namespace: str | None, queues: Queues | None) -> str | None:
    """The queue in which a job waits: the queue that it names, or the queue of its namespace. None without a queue."""
    return queue or team_of(namespace or "", queues) or None


def barred(ask: Ask, queue: str | None, namespace: str | None, cluster: Cluster, host: Host) -> str:
    """Why a job would wait forever for a pool of a cluster, and how to fix that. Empty if its queue can admit it."""
    queues = cluster.queues
    if (waits := queue_of(queue, namespace, queues)) is None:
        return ""
    if queues is None:
        return f"the cluster has no queues, so none can admit a job of {waits}; name another cluster, or remove queue"
    team, lacking = _team(waits, namespace, queues)
    if lacking:
        return lacking
    flavor = queues.flavor_of(host.name) or host.name
    if (quota := next((row for row in queues.teams[team].quotas if row.name == flavor), None)) is None:
        return f"team {team} has no quota of it; add one, or name another pool"
    return _short(ask, team, quota, queues, host, flavor_share(cluster, queues, host))


def most(team: str, quota: Quota, queues: Queues) -> int:
    """The most units of a pool or flavor that one job of the team can get while no other job uses any."""
    if queues.cohort is None:
        return quota.nominal
    everything = quota.nominal + _lent(team, quota.name, queues)
    return everything if quota.borrow is None else min(everything, quota.nominal + quota.borrow)


def _lent(team: str, flavor: str, queues: Queues) -> int:
    """The most units of a pool or flavor that the other teams lend."""
    lent = (quota for name, _, quota in queues.quotas() if name != team and quota.name == flavor)
    return sum(quota.nominal if quota.lend is None else quota.lend for quota in lent)


def _team(queue: str, namespace: str | None, queues: Queues) -> tuple[str, str]:
    """(team that owns the queue, why the queue does not exist there or an empty string)."""
    if namespace is None:
        if queue == DEFAULT_QUEUE:
            return "", f"the namespace decides which team's queue {queue} is; name the namespace, or the team's queue"
        return queue, "" if queue in queues.teams else f"has no queue {queue}; name one of: {', '.join(queues.teams)}"
    if not (team := team_of(namespace, queues)):
        return "", f"namespace {namespace} has no queue; name a team's namespace, or remove queue"
    wrong = queue not in (team, DEFAULT_QUEUE)
    return team, f"namespace {namespace} has the queue of team {team}, not {queue}; name that one" if wrong else ""


def _short(ask: Ask, team: str, quota: Quota, queues: Queues, host: Host, part: "Share") -> str:
    """The resources of which a job asks for more than its team can get in a pool. Empty if it gets enough."""
    units = most(team, quota, queues)
    # A unit includes its share of CPU and memory.
    rows = (
        (ask.gpus, units, lambda count: f"{count} {host.counted}"),
        (ask.cpu.request, units * part.cpu, lambda amount: f"{cpu_text(amount)} CPU"),
        (ask.memory.request, units * part.memory, memory_text),
    )
    if not (lacking := [(words(request), words(free)) for request, free, words in rows if request > free]):
        return ""
    request_text, gets = (" and ".join(texts) for texts in zip(*lacking, strict=True))
    if queues.cohort is None:
        how, fix = "and no team to borrow from", "raise nominal"
    elif units < quota.nominal + _lent(team, quota.name, queues):
        how, fix = "with what it may borrow", "raise borrow"
    else:
        how, fix = "with all that others lend", "raise nominal, or what they lend"
    return f"team {team} has {gets} of it {how}, the job asks for {request_text}; {fix}, or ask for less"


class Share(Record):
    """The millicores and MiB for one unit of a pool's resource, on the node with the least of each."""

    cpu: int
    memory: int


def share(*hosts: Host) -> Share:
    """The CPU and memory that kubelet and DaemonSets leave to pods on a node of one of the pools, per unit of its resource."""
    rows = [(for_runners(each, host.disk, host.daemonsets), host.units(each)) for host in hosts for each in host.machines]
    cpu, memory = (min(max(getattr(offer, name), 0) // units for offer, units in rows) for name in ("cpu", "memory"))
    return Share(cpu, memory)


def flavor_share(cluster: Cluster, queues: Queues, host: Host) -> Share:
    """The share of the ResourceFlavor that has a pool: the least that any pool of the flavor leaves for one unit."""
    beside = [name for name in queues.pools_of(queues.flavor_of(host.name) or host.name) if name != host.name]
    return share(host, *(pool_host(cluster, name) for name in beside))
