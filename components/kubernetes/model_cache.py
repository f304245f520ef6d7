"""A cache for models and data sets: its own storage class, and a claim in each of its namespaces."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.in_cluster import Inside
from fleet.facts.quantities import memory_text
from fleet.facts.scheduling import REGION
from fleet.settings.caches import class_name


class ModelCache(Component[Inside, str, Mapping[str, kubernetes.core.v1.Namespace]]):
    """Volumes that outlive jobs. A deleted claim leaves its volume in the cloud, unless `retain` is false in the settings.

    `cache` is the cache's name in the settings and the name of its claims. `spaces` are the namespaces of the cluster. With
    `protect` in the settings, Pulumi refuses to delete the claims.
    """

    storage_class: kubernetes.storage.v1.StorageClass
    """Created after the driver and the mount targets, if any."""
    claims: dict[str, kubernetes.core.v1.PersistentVolumeClaim]
    """By namespace."""

    def declare(self, name: str, inside: Inside, cache: str, spaces: Mapping[str, kubernetes.core.v1.Namespace]) -> None:
        self.storage_class = self._storage_class(f"{name}-class", inside, cache)
        # The dot keeps logical names with names from the settings distinct.
        homes = inside.settings.caches[cache].namespaces
        self.claims = {space: self._claim(f"{name}.{space}", inside, cache, spaces[space]) for space in homes}

    def _storage_class(self, name: str, inside: Inside, cache: str) -> kubernetes.storage.v1.StorageClass:
        settings, backing = inside.settings, inside.backings[cache]
        volumes, noted = backing.volumes, {REGION: settings.region}
        replaced = ["reclaimPolicy", "volumeBindingMode"]
        return kubernetes.storage.v1.StorageClass(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=class_name(cache), annotations=noted),
            provisioner=volumes.provisioner,
            parameters={**volumes.parameters, **backing.ids},
            reclaim_policy="Retain" if settings.caches[cache].retain else "Delete",
            volume_binding_mode=volumes.binding,
            allow_volume_expansion=volumes.grows,
            # These two are immutable, but the provider would try to update them in place
            # (pulumi/pulumi-kubernetes, provider/pkg/provider/diff.go). Existing volumes stay as they are.
            opts=self._below(*backing.ready, replace_on_changes=replaced, delete_before_replace=True),
        )

    def _claim(
        self, name: str, inside: Inside, cache: str, space: kubernetes.core.v1.Namespace
    ) -> kubernetes.core.v1.PersistentVolumeClaim:
        settings = inside.settings.caches[cache]
        # If volumes cannot grow, the API server rejects a larger claim. File systems have no size anyway.
        ignored = None if inside.backings[cache].volumes.grows else ["spec.resources"]
        kept = {"protect": inside.settings.protect, "ignore_changes": ignored}
        return kubernetes.core.v1.PersistentVolumeClaim(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=cache, namespace=space.metadata.name),
            spec=kubernetes.core.v1.PersistentVolumeClaimSpecArgs(
                access_modes=[settings.access_mode],
                # A string, not the class's output: replacing the class must not replace the claims.
                storage_class_name=class_name(cache),
                resources=kubernetes.core.v1.VolumeResourceRequirementsArgs(requests={"storage": memory_text(settings.size)}),
            ),
            opts=self._below(self.storage_class, delete_before_replace=True, **kept),
        )
