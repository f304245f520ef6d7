"""The room of a cluster's system pool, and how many launcher pods fit there.

Each runner that is a machine has a launcher pod on the system pool while its job runs. The other pods of the system pool
belong to the cluster's charts and sweeps. CoreDNS and a provider's own autoscaler are not counted, so leave some room for them.
"""

from fleet.charts.arc import LAUNCHER_POD
from fleet.charts.chart import Pod
from fleet.charts.container_jobs import OWN_POD
from fleet.charts.sweeps import sweep_pods
from fleet.facts.offer import Offer, for_runners, least, less
from fleet.facts.versions import daemonsets
from fleet.providers.installed import added_pods, installed
from fleet.providers.registry import provider_of
from fleet.settings.cluster import Cluster
from fleet.settings.github import GitHub


def launcher_room(name: str, cluster: Cluster, github: GitHub) -> int | None:
    """The number of launchers that fit on the system pool of the cluster `name`, beside the pods of its charts and sweeps.

    It is 0 if the charts fill the pool, and None if the pool of the provider's clusters is not known.
    """
    room = system_room(name, cluster, github)
    return None if room is None else sum(_holds(node, LAUNCHER_POD) for node in room)


def system_room(name: str, cluster: Cluster, github: GitHub) -> list[Offer] | None:
    """What charts, sweeps and the runners' own pods leave on each node of a cluster's system pool. Empty if they do not fit.

    None if the settings do not describe the system pool.
    """
    if (pool := provider_of(cluster).system_machines(cluster)) is None:
        return None
    machines, disk, span = pool
    provided = daemonsets(cluster.provider, cluster.node_features)
    offer = least(for_runners(machine, disk, provided) for machine in machines)
    # No request depends on the cluster's name in its cloud.
    of_charts = (pod for chart in installed(cluster, name, github) for pod in chart.pods)
    own = [OWN_POD] * sum(runner.span.max for runner in cluster.pod_runners.values() if runner.on_system_pool)
    pods = [*of_charts, *added_pods(cluster), *sweep_pods(cluster), *own]
    free = [less(offer, [pod for pod in pods if pod.on == "all nodes"])] * span.min
    for pod in (pod for pod in pods if pod.on == "system pool"):
        if (at := next((at for at, left in enumerate(free) if _holds(left, pod)), None)) is None:
            return []
        free[at] = less(free[at], (pod,))
    return free


def _holds(free: Offer, pod: Pod) -> int:
    """How many of these pods fit into the free part of a node."""
    return max(min(free.cpu // pod.cpu, free.memory // pod.memory, free.pods), 0)
