"""A managed node pool: what the system pool and the GPU pools have in common, and what a node runs at its first boot."""

import base64
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
import pulumi_oci as oci

from components.component import Resources, Text
from fleet.facts.hardware import Machine
from fleet.facts.offer import allocatable
from fleet.facts.scheduling import MOST_NODES_TAG, RESERVED_NODES_TAG, STORAGE_TAG

_HERE = Path(__file__).parent
_SCRIPT = (_HERE / "node.sh").read_text(encoding="utf-8")
"""Grows the root filesystem to the boot volume's size and joins the cluster (docs.oracle.com, custom cloud-init scripts,
examples 1 and 5; oracle-quickstart/oci-hpc-oke files/oke-ubuntu-cloud-init.sh, where Oracle Linux may have OKE's package too)."""
_DISKS = (_HERE / "local-disks.sh").read_text(encoding="utf-8")
"""Makes one array of the local disks, and puts the folders of containers, kubelet and pod logs on it, also after a restart. Bare
metal boots from a network volume, which is not an NVMe device. The folders and the order are those of
oracle-quickstart/oci-hpc-oke, files/oke-nvme-raid.sh."""


def node_script(flags: Sequence[str] = (), *, array: bool = False) -> str:
    """The script of a pool: `flags` are kubelet's, `array` makes an array of the local disks."""
    arguments = f" --kubelet-extra-args {shlex.quote(' '.join(flags))}" if flags else ""
    return _SCRIPT.replace("@ARGUMENTS@", arguments).replace("@DISKS@\n", _DISKS if array else "")


def node_metadata(flags: Sequence[str] = (), *, array: bool = False) -> dict[str, str]:
    """Instance metadata of every node: the script, and no metadata without OCI's own header (IMDSv1).

    A node pool has no other setting to require that header (docs.oracle.com, configuring IMDS for worker nodes).
    """
    script = node_script(flags, array=array).encode()
    return {"areLegacyImdsEndpointsDisabled": "true", "user_data": base64.b64encode(script).decode()}


def managed_nodes(
    name: str,
    *,
    parent: pulumi.Resource,
    cluster_id: Text,
    compartment: Text,
    kubernetes_version: str,
    machine: Machine,
    image: Text,
    disk: int,
    subnet_id: Text,
    group_id: Text,
    places: Sequence[tuple[str, str | None]],
    labels: Mapping[str, str],
    size: int,
    tags: Mapping[str, str],
    ready: Resources,
    metadata: Mapping[str, str],
    preemptible: bool = False,
    most: int | None = None,
    surge: int | None = None,
    reserved: int | None = None,
    generation: str = "",
) -> oci.containerengine.NodePool:
    """The pool `<name>-nodes<generation>` of equal nodes. No SSH key is set, so a login is not possible.

    `cluster_id` carries its dependency on the control plane; `disk` is MiB; `ready` must exist before.
    Each place is an availability domain, and the OCID of a capacity reservation in it if its nodes use one. `most` says that
    `size` is only the first one, for the autoscaler owns it up to `most`. `surge` is how many nodes an update starts before
    it drains old ones; None for a pool whose nodes are left to go by themselves. `reserved` is how many machines its capacity
    reservation holds.
    """
    offer, ignored = allocatable(machine, disk), ["nodeConfigDetails.size"] if most is not None else None
    storage = f"{offer.storage}Mi" if most is not None else None
    for_policies = {STORAGE_TAG: storage, MOST_NODES_TAG: most, RESERVED_NODES_TAG: reserved}
    # Of flexible shapes alone: on a GPU shape they would make the autoscaler reckon with a node without GPUs.
    flex = {"ocpus": float(machine.vcpus // 2), "memory_in_gbs": float(machine.memory_mib // 1024)}
    preemption = {"preemption_action": {"type": "TERMINATE", "is_preserve_boot_volume": False}}
    where = oci.containerengine.NodePoolNodeConfigDetailsPlacementConfigArgs
    every: dict[str, Any] = {"subnet_id": subnet_id, "preemptible_node_config": preemption if preemptible else None}
    of_pods = {"pod_nsg_ids": [group_id], "pod_subnet_ids": [subnet_id]}
    return oci.containerengine.NodePool(
        f"{name}-nodes{generation}",
        cluster_id=cluster_id,
        compartment_id=compartment,
        kubernetes_version=kubernetes_version,
        node_shape=machine.name,
        node_shape_config=flex if machine.gpu is None else None,
        node_source_details={"source_type": "IMAGE", "image_id": image, "boot_volume_size_in_gbs": str(disk // 1024)},
        node_config_details={
            "size": size,
            "placement_configs": [
                where(availability_domain=domain, capacity_reservation_id=reservation, **every)
                for domain, reservation in sorted(places)
            ],
            "nsg_ids": [group_id],
            # Only paravirtualized volumes have it, and bare metal boots by iSCSI.
            "is_pv_encryption_in_transit_enabled": not machine.bare_metal,
            "node_pool_pod_network_option_details": {"cni_type": "OCI_VCN_IP_NATIVE", "max_pods_per_node": offer.pods, **of_pods},
            "freeform_tags": dict(tags),
        },
        initial_node_labels=[{"key": key, "value": value} for key, value in labels.items()],
        node_metadata=metadata,
        # An hour is the longest that OKE waits for the pods of a node that it removes.
        node_eviction_node_pool_settings={"eviction_grace_duration": "PT60M", "is_force_delete_after_grace_duration": True},
        node_pool_cycling_details={"is_node_cycling_enabled": True, "maximum_surge": str(surge), "maximum_unavailable": "0"}
        if surge is not None
        else {"is_node_cycling_enabled": False},
        freeform_tags=dict(tags) | {tag: str(value) for tag, value in for_policies.items() if value is not None},
        # OKE would change the shape of new nodes only.
        opts=pulumi.ResourceOptions(parent, [*ready], ignore_changes=ignored, replace_on_changes=["nodeShape"]),
    )
