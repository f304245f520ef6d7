"""OCI's Container Registry of an OKE cluster: the runner image and copies of images."""

from typing import Any

import pulumi
import pulumi_oci as oci

from components.component import Component
from components.oci.in_cluster import InCluster
from fleet.facts.remark import said
from fleet.facts.versions import RUNNER_GPU_REPOSITORY
from fleet.providers.oke.ocir import OcirRegistry


class OkeRunnerImage(Component[InCluster, OcirRegistry, str]):
    """Private repositories, a scan of the runner image, and the right to pull for machines of the cluster's compartment.

    They are the registry of the cluster `here`, in the tenancy of this OCID.
    """

    namespace: pulumi.Output[str | None]
    """The tenancy's Object Storage namespace, as OCI names it."""

    def declare(self, name: str, here: InCluster, registry: OcirRegistry, tenancy: str) -> dict[str, Any]:
        group = self._readers(name, here, registry, tenancy)
        # The request waits for the group, so a plan of a new registry makes no request.
        request = pulumi.InvokeOutputOptions(parent=self, depends_on=[group])
        actual = oci.objectstorage.get_namespace_output(compartment_id=tenancy, opts=request).namespace
        self.namespace = actual.apply(lambda namespace: same_tenancy(name, registry.namespace, namespace))
        of = {"compartment_id": here.settings.compartment, "freeform_tags": here.tags}
        private = {"is_immutable": True, "is_public": False}
        for repository in (RUNNER_GPU_REPOSITORY, *registry.repositories):
            called = f"{registry.prefix}/{repository}"
            oci.artifacts.ContainerRepository(f"{name}-{repository}", display_name=called, **of, **private, opts=self._child)
        self._scan(name, here, registry)
        return {"namespace": self.namespace}

    def _scan(self, name: str, here: InCluster, registry: OcirRegistry) -> None:
        compartment = here.settings.compartment
        named = {"display_name": f"{here.physical_name}-images", "freeform_tags": here.tags, "compartment_id": compartment}
        level = {"scan_level": "STANDARD"}
        recipe = oci.vulnerabilityscanning.ContainerScanRecipe(f"{name}-scan", scan_settings=level, **named, opts=self._child)
        scanned = [f"{registry.prefix}/{RUNNER_GPU_REPOSITORY}"]
        images = {"type": "OCIR", "compartment_id": compartment, "repositories": scanned}
        of: dict[str, Any] = {"container_scan_recipe_id": recipe.id, "target_registry": images, **named}
        oci.vulnerabilityscanning.ContainerScanTarget(f"{name}-scan", **of, opts=self._child)

    def _readers(self, name: str, here: InCluster, registry: OcirRegistry, tenancy: str) -> oci.identity.DynamicGroup:
        compartment = here.settings.compartment
        machines = f"ALL {{instance.compartment.id = '{compartment}'}}"
        about = {"description": f"Machines of the compartment of {here.physical_name}", "freeform_tags": here.tags}
        of = {"compartment_id": tenancy, "name": f"{here.physical_name}-nodes", "matching_rule": machines}
        group = oci.identity.DynamicGroup(f"{name}-nodes", **of, **about, opts=self._below(provider=here.iam))
        pulls = group.name.apply(lambda called: pull_right(called, compartment, registry.prefix))
        why = f"Nodes of {here.physical_name} pull images, and the scanner reads them"
        here.policy(f"{name}-readers", [pulls, *scan_rights(compartment)], compartment, why, parent=self)
        return group


def same_tenancy(name: str, namespace: str, actual: str | None) -> str | None:
    """Refuse credentials of another tenancy: images have the namespace in their address. A simulated cloud names none."""
    if actual and actual != namespace:
        raise ValueError(said("other_tenancy", name=name, namespace=namespace, actual=actual))
    return actual


def pull_right(group: str, compartment: str, prefix: str) -> str:
    """The statement by which nodes pull from the cluster's repositories (docs.oracle.com, policies for Container Registry)."""
    return f"Allow dynamic-group {group} to read repos in compartment id {compartment} where target.repo.name = /{prefix}*/"


def scan_rights(compartment: str) -> list[str]:
    """The statements by which Vulnerability Scanning reads images (docs.oracle.com, IAM policies of that service)."""
    read = "Allow service vulnerability-scanning-service to read"
    return [f"{read} {what} in compartment id {compartment}" for what in ("compartments", "repos")]
