"""Machines that wait for jobs: an instance configuration, and the pool that creates machines from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_oci as oci

from fleet.providers.oke.disk import disk_gb
from fleet.providers.oke.vm_runner import VmRunner


@dataclass(frozen=True, slots=True)
class StandingMachines:
    """`metadata` has the user data in base64.

    `ready` must exist before machines, such as the rules by which they reach the internet.
    """

    runner: VmRunner
    compartment: str
    subnet_id: pulumi.Input[str]
    group_ids: Sequence[pulumi.Input[str]]
    metadata: Mapping[str, pulumi.Input[str]]
    tags: Mapping[str, str]
    ready: Sequence[pulumi.Resource]


def standing_machines(name: str, args: StandingMachines, *, parent: pulumi.Resource) -> oci.core.InstancePool:
    """The pool `<name>-pool` and its configuration `<name>-machine`: no public address, no SSH key, no agent.

    The pool's size is set once. After that a machine is detached for each job and the pool makes another; a lower size would end
    the oldest machine, busy or not.
    """
    machine = oci.core.InstanceConfiguration(
        f"{name}-machine",
        compartment_id=args.compartment,
        display_name=name,
        instance_details=oci.core.InstanceConfigurationInstanceDetailsArgs(
            instance_type="compute", launch_details=_launch_details(args)
        ),
        freeform_tags=dict(args.tags),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(args.ready)),
    )
    return oci.core.InstancePool(
        f"{name}-pool",
        compartment_id=args.compartment,
        instance_configuration_id=machine.id,
        placement_configurations=[
            oci.core.InstancePoolPlacementConfigurationArgs(
                availability_domain=domain,
                primary_vnic_subnets=oci.core.InstancePoolPlacementConfigurationPrimaryVnicSubnetsArgs(subnet_id=args.subnet_id),
            )
            for domain in args.runner.availability_domains
        ],
        size=args.runner.count,
        display_name=name,
        freeform_tags=dict(args.tags),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(args.ready), ignore_changes=["size"]),
    )


def _launch_details(args: StandingMachines) -> oci.core.InstanceConfigurationInstanceDetailsLaunchDetailsArgs:
    (machine,) = args.runner.machines
    return oci.core.InstanceConfigurationInstanceDetailsLaunchDetailsArgs(
        compartment_id=args.compartment,
        shape=machine.name,
        source_details=oci.core.InstanceConfigurationInstanceDetailsLaunchDetailsSourceDetailsArgs(
            source_type="image", image_id=args.runner.image.id, boot_volume_size_in_gbs=str(disk_gb(args.runner.disk))
        ),
        create_vnic_details=oci.core.InstanceConfigurationInstanceDetailsLaunchDetailsCreateVnicDetailsArgs(
            assign_public_ip=False, nsg_ids=list(args.group_ids)
        ),
        instance_options=oci.core.InstanceConfigurationInstanceDetailsLaunchDetailsInstanceOptionsArgs(
            are_legacy_imds_endpoints_disabled=True
        ),
        # Only paravirtualized volumes have it, and bare metal boots by iSCSI.
        is_pv_encryption_in_transit_enabled=None if machine.bare_metal else True,
        # Its plugins run commands and sign as the instance: a job's machine needs neither.
        agent_config=oci.core.InstanceConfigurationInstanceDetailsLaunchDetailsAgentConfigArgs(
            are_all_plugins_disabled=True, is_management_disabled=True, is_monitoring_disabled=True
        ),
        metadata=dict(args.metadata),
        freeform_tags=dict(args.tags),
    )
