"""From a cluster's settings to the arguments of OciGpuRunner."""

from __future__ import annotations

from components.arguments import given, plain
from components.context import Context
from components.kubernetes.arc import Arc
from components.oci.oci_gpu_runner import OciGpuRunnerArgs
from fleet.facts.scheduling import SYSTEM_SELECTOR
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.vm_runner import MachineRunner, VmPerJobRunner


def oci_gpu_runner_args(
    cluster: OkeCluster, physical_name: str, context: Context, name: str, runner: MachineRunner, group: str, arc: Arc
) -> OciGpuRunnerArgs:
    """The arguments of the set `name`, without OCIDs that the cloud assigns. `physical_name` is the cluster's."""
    scale = runner.scale if isinstance(runner, VmPerJobRunner) else None
    args: OciGpuRunnerArgs = given(
        region=cluster.region,
        home_region=cluster.home_region,
        compartment_id=cluster.machines_in,
        network_compartment_ids=list(dict.fromkeys([cluster.compartment, cluster.network.compartment or cluster.compartment])),
        machine_set_name=f"{physical_name}-{name}",
        runner_group=group,
        capacity_type=runner.capacity,
        min_runners=scale.min if scale is not None else None,
        max_runners=scale.max if scale is not None else None,
        launcher_node_selector=dict(SYSTEM_SELECTOR),
        tags=context.owner_tags,
        stack_tag=context.stack,
    )
    args |= arc.arguments(cluster, name) | plain(runner, "scale", "group", "capacity")
    return args
