"""Declares one Talos cluster of a fleet: its machines and its part in Git."""

from collections.abc import Mapping
from typing import Any

import pulumi

from components.context import Context
from components.kubernetes import git_tree
from fleet.facts.scheduling import TALOS_PROFILE
from fleet.providers.fleet import Fleet
from fleet.providers.talos.cluster import TalosCluster


class TalosGpuNode(pulumi.ComponentResource):
    """A machine as policies and people see it: hardware, labels and taints are its inputs. It has inputs and no children, so it
    does not extend `Component`.

    Each taint is `value:effect` by key. Talos releases name the field that sets them differently
    (fleet/providers/talos/boot/patch.py).
    """

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None, props: Mapping[str, Any]) -> None:
        super().__init__("gpu-ci:index:TalosGpuNode", name, props, opts)
        self.register_outputs({})


def build(name: str, settings: TalosCluster, fleet: Fleet, context: Context) -> None:
    """The cluster `name` of the fleet, for a plan and for `make render`. Pulumi deploys none of it."""
    taint = TALOS_PROFILE.gpu_taint
    for pool_name, pool in settings.pools.items():
        (machine,) = pool.machines
        of_pool = {
            "clusterName": context.cluster_name(name),
            "instanceType": machine.name,
            "gpu": machine.gpu.name if machine.gpu else "",
            "gpus": machine.gpus,
            "nodeLabels": pool.node_labels(name, pool_name, TALOS_PROFILE, settings.flavor_of(pool_name)),
            "nodeTaints": {taint.key: f"{taint.value}:{taint.effect}"},
        }
        for hostname, host in pool.nodes.hosts.items():
            # The dot keeps logical names with names from the settings distinct.
            TalosGpuNode(f"{name}.{hostname}", None, {"hostname": hostname, "address": host.address, **of_pool})
    git_tree.declare(name, settings, fleet, context)
