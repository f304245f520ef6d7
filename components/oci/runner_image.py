"""OCI's Container Registry of an OKE cluster: the runner image and copies of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_oci as oci

from components.component import Component
from components.oci.policy import policy
from fleet.providers.oke.ocir import OcirRegistry
from fleet.settings.registry import RUNNER_REPOSITORY


@dataclass(frozen=True, slots=True)
class RunnerImageArgs:
    """`physical_name` is the cluster's name in OCI. `iam` is the provider of the tenancy's home region."""

    registry: OcirRegistry
    physical_name: str
    tenancy: str
    compartment: str
    tags: dict[str, str]
    iam: pulumi.ProviderResource


class RunnerImage(Component[RunnerImageArgs]):
    """Private repositories, a scan of the runner image, and the right to pull for machines of the cluster's compartment."""

    def declare(self, name: str, args: RunnerImageArgs) -> dict[str, Any]:
        registry = args.registry
        found = oci.objectstorage.get_namespace(compartment_id=args.tenancy, opts=pulumi.InvokeOptions(parent=self)).namespace
        # A simulated cloud names none.
        if found and found != registry.namespace:
            raise ValueError(
                f"{name}: registry.namespace is {registry.namespace}, and the credentials belong to the tenancy of {found}; "
                "use the other tenancy's credentials, or correct it"
            )
        for repository in (RUNNER_REPOSITORY, *registry.repositories):
            oci.artifacts.ContainerRepository(
                f"{name}-{repository}",
                compartment_id=args.compartment,
                display_name=f"{registry.prefix}/{repository}",
                is_immutable=True,
                is_public=False,
                freeform_tags=args.tags,
                opts=pulumi.ResourceOptions(parent=self),
            )
        self._scan(name, args)
        self._readers(name, args)
        return {"repository": f"{registry.prefix}/{RUNNER_REPOSITORY}"}

    def _scan(self, name: str, args: RunnerImageArgs) -> None:
        recipe = oci.vulnerabilityscanning.ContainerScanRecipe(
            f"{name}-scan",
            compartment_id=args.compartment,
            display_name=f"{args.physical_name}-images",
            scan_settings=oci.vulnerabilityscanning.ContainerScanRecipeScanSettingsArgs(scan_level="STANDARD"),
            freeform_tags=args.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        oci.vulnerabilityscanning.ContainerScanTarget(
            f"{name}-scan",
            compartment_id=args.compartment,
            container_scan_recipe_id=recipe.id,
            display_name=f"{args.physical_name}-images",
            target_registry=oci.vulnerabilityscanning.ContainerScanTargetTargetRegistryArgs(
                type="OCIR",
                compartment_id=args.compartment,
                repositories=[f"{args.registry.prefix}/{RUNNER_REPOSITORY}"],
            ),
            freeform_tags=args.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _readers(self, name: str, args: RunnerImageArgs) -> None:
        group = oci.identity.DynamicGroup(
            f"{name}-nodes",
            compartment_id=args.tenancy,
            name=f"{args.physical_name}-nodes",
            description=f"Machines of the compartment of {args.physical_name}",
            matching_rule=f"ALL {{instance.compartment.id = '{args.compartment}'}}",
            freeform_tags=args.tags,
            opts=pulumi.ResourceOptions(parent=self, provider=args.iam),
        )
        policy(
            f"{name}-readers",
            [
                group.name.apply(lambda called: pull_right(called, args.compartment, args.registry.prefix)),
                *scan_rights(args.compartment),
            ],
            compartment=args.compartment,
            description=f"Nodes of {args.physical_name} pull images, and the scanner reads them",
            tags=args.tags,
            iam=args.iam,
            parent=self,
        )


def pull_right(group: str, compartment: str, prefix: str) -> str:
    """The statement by which nodes pull from the cluster's repositories (docs.oracle.com, policies for Container Registry)."""
    return f"Allow dynamic-group {group} to read repos in compartment id {compartment} where target.repo.name = /{prefix}*/"


def scan_rights(compartment: str) -> list[str]:
    """The statements by which Vulnerability Scanning reads images (docs.oracle.com, IAM policies of that service)."""
    return [
        f"Allow service vulnerability-scanning-service to read {what} in compartment id {compartment}"
        for what in ("compartments", "repos")
    ]
