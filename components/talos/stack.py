"""Declares one Talos cluster of a fleet: its machines and its part in Git."""

from dataclasses import dataclass

import pulumi

from components.context import Context
from components.kubernetes import git_tree
from fleet.facts.scheduling import TALOS_PROFILE
from fleet.providers.fleet import Fleet
from fleet.providers.talos.cluster import TalosCluster
from fleet.providers.talos.nodes import Host, TalosPool


@dataclass(frozen=True, slots=True)
class TalosGpuNodeArgs:
    """`cluster` and `pool_name` are names in the settings, `physical_name` is the cluster's full name."""

    cluster: str
    physical_name: str
    pool_name: str
    pool: TalosPool
    hostname: str
    host: Host
    flavor: str = ""


class TalosGpuNode(pulumi.ComponentResource):
    """A machine as policies and people see it: hardware, labels and taints are its inputs. It has inputs and no children, so it
    does not extend `Component`.

    Each taint is `value:effect` by key. Talos releases name the field that sets them differently
    (fleet/providers/talos/boot/patch.py).
    """

    def __init__(self, name: str, args: TalosGpuNodeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        taint = TALOS_PROFILE.gpu_taint
        (machine,) = args.pool.machines
        props = {
            "clusterName": args.physical_name,
            "hostname": args.hostname,
            "address": args.host.address,
            "instanceType": machine.name,
            "gpu": machine.gpu.name if machine.gpu else "",
            "gpus": machine.gpus,
            "nodeLabels": args.pool.node_labels(args.cluster, args.pool_name, TALOS_PROFILE, args.flavor),
            "nodeTaints": {taint.key: f"{taint.value}:{taint.effect}"},
        }
        super().__init__("gpu-ci:index:TalosGpuNode", name, props, opts)
        self.register_outputs({})


def build(name: str, settings: TalosCluster, fleet: Fleet, context: Context) -> None:
    """The cluster `name` of the fleet, for a plan and for `make render`. Pulumi deploys none of it."""
    for pool_name, pool in settings.pools.items():
        for hostname, host in pool.nodes.hosts.items():
            args = TalosGpuNodeArgs(
                name, context.cluster_name(name), pool_name, pool, hostname, host, settings.flavor_of(pool_name)
            )
            # The dot keeps logical names with names from the settings distinct.
            TalosGpuNode(f"{name}.{hostname}", args)
    git_tree.declare(name, settings, fleet, context)
