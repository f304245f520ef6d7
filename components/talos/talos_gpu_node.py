"""One of your own GPU machines, as the node that its machine config creates."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from fleet.facts.scheduling import TALOS_PROFILE
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
