"""OKE's Cluster Autoscaler add-on, with the rights of its service account."""

import json
from collections.abc import Mapping, Sequence
from functools import partial

import pulumi

from components.component import Component
from components.oci.addon import declare_addon
from components.oci.in_cluster import InCluster
from components.oci.rights import AUTOSCALER, AUTOSCALER_NETWORK, allowed
from fleet.charts.chart import KUBE_SYSTEM
from fleet.charts.cluster_autoscaler import AUTOSCALER as SERVICE_ACCOUNT, BEST_WASTE, BY_PRIORITY
from fleet.providers.oke.addons import AUTOSCALER_ADDON
from fleet.providers.oke.fallback import PROVISION_MINUTES
from fleet.settings.model import go_duration


class OkeAutoscaler(Component[InCluster, Mapping[str, pulumi.Output[str]], Sequence[str]]):
    """The add-on, which knows its pools by OCID, and a policy for its service account by workload identity.

    `pools` are the OCIDs of the pools of the cluster `here`, by pool. The autoscaler sizes each within its `nodes`. `leaving` are
    OCIDs of node pools in which it may only end nodes.
    """

    def declare(self, name: str, here: InCluster, pools: Mapping[str, pulumi.Output[str]], leaving: Sequence[str]) -> None:
        settings = here.settings
        scopes: dict[str, tuple[Sequence[str], str]] = {f"{name}-rights": (AUTOSCALER, settings.compartment)}
        if here.network != settings.compartment:
            scopes[f"{name}-network-rights"] = (AUTOSCALER_NETWORK, here.network)
        cluster: pulumi.Output[str] = pulumi.Output.from_input(here.cluster.cluster_id)
        why = f"The autoscaler {name} sizes the node pools of its cluster"
        rights = [
            here.policy(scope, cluster.apply(partial(allowed, KUBE_SYSTEM, SERVICE_ACCOUNT, needs, at)), at, why, parent=self)
            for scope, (needs, at) in scopes.items()
        ]
        sizes = [f"{settings.pools[pool].nodes.min}:{settings.pools[pool].nodes.max}" for pool in pools] + ["0:0"] * len(leaving)
        nodes = pulumi.Output.all(*pools.values(), *leaving).apply(
            lambda ids: ", ".join(f"{size}:{ocid}" for size, ocid in zip(sizes, ids, strict=True))
        )
        values = addon_values(settings.idle_delay, settings.system_selector, by_priority=bool(settings.pool_orders))
        # Without a version Oracle chooses it. Its pod asks for credentials when it starts, so the policy must exist before.
        version, opts = settings.addon_versions.get(AUTOSCALER_ADDON), self._below(*rights, *here.cluster.ready)
        declare_addon(f"{name}-addon", here.cluster.cluster_id, AUTOSCALER_ADDON, version, {"nodes": nodes, **values}, opts)


def addon_values(idle_delay: int, node_selector: Mapping[str, str], *, by_priority: bool) -> dict[str, str]:
    """The add-on's settings except its pools. Each is a string (docs.oracle.com, cluster add-on configuration arguments)."""
    return {
        "authType": "workload",
        "scaleDownUnneededTime": go_duration(idle_delay),
        # Ten minutes by default: a shorter idleDelay would mean nothing.
        "scaleDownDelayAfterAdd": "1m",
        "maxNodeProvisionTime": f"{PROVISION_MINUTES}m",
        # The size of a pool is not set again, so a raised min would otherwise wait for a job.
        "enforceNodeGroupMinSize": "true",
        "skipNodesWithSystemPods": "false",
        "expander": BY_PRIORITY if by_priority else BEST_WASTE,
        "nodeSelectors": json.dumps(dict(node_selector)),
    }
