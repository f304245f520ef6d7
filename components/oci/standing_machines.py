"""Machines that wait for jobs: an instance configuration, and the pool that creates machines from it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_oci as oci

from fleet.providers.oke.launcher_set import StandingSet


def standing_machines(
    name: str,
    settings: StandingSet,
    *,
    subnet_id: pulumi.Input[str],
    group_ids: Sequence[pulumi.Input[str]],
    metadata: Mapping[str, pulumi.Input[str]],
    tags: Mapping[str, str],
    ready: Sequence[pulumi.Resource],
    parent: pulumi.Resource,
) -> oci.core.InstancePool:
    """The pool `<name>-pool` and its configuration `<name>-machine`: no public address, no SSH key, no agent.

    `metadata` has the user data in base64. `ready` must exist before machines, such as the rules by which they reach the
    internet. The pool's size is set once. After that a machine is detached for each job and the pool makes another; a lower size
    would end the oldest machine, busy or not.
    """
    (shape,), disk = settings.machines, str(settings.disk // 1024)
    shared: dict[str, Any] = {"compartment_id": settings.compartment_id, "freeform_tags": dict(tags)}
    details: oci.core.InstanceConfigurationInstanceDetailsLaunchDetailsArgsDict = {
        **shared,
        "shape": shape.name,
        "source_details": {"source_type": "image", "image_id": settings.image.id, "boot_volume_size_in_gbs": disk},
        "create_vnic_details": {"assign_public_ip": False, "nsg_ids": list(group_ids)},
        "instance_options": {"are_legacy_imds_endpoints_disabled": True},
        # Only paravirtualized volumes have it, and bare metal boots by iSCSI.
        **({} if shape.bare_metal else {"is_pv_encryption_in_transit_enabled": True}),
        # Its plugins run commands and sign as the instance: a job's machine needs neither.
        "agent_config": {"are_all_plugins_disabled": True, "is_management_disabled": True, "is_monitoring_disabled": True},
        "metadata": dict(metadata),
    }
    machine = oci.core.InstanceConfiguration(
        f"{name}-machine",
        display_name=name,
        instance_details={"instance_type": "compute", "launch_details": details},
        **shared,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(ready)),
    )
    return oci.core.InstancePool(
        f"{name}-pool",
        instance_configuration_id=machine.id,
        placement_configurations=[
            {"availability_domain": domain, "primary_vnic_subnets": {"subnet_id": subnet_id}}
            for domain in settings.availability_domains
        ],
        size=settings.count,
        display_name=name,
        **shared,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(ready), ignore_changes=["size"]),
    )
