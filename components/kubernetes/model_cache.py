"""A cache for models and data sets: a storage class of its own, and a claim in each of its namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from fleet.facts.scheduling import REGION
from fleet.settings.caches import Cache, Volumes, class_name
from fleet.settings.model import memory_text


@dataclass(frozen=True, slots=True)
class Backing:
    """What a cloud has ready for a cache: how its volumes are made, and what stands before.

    `ids` are further parameters of the storage class, known once the cloud's part stands.
    """

    volumes: Volumes
    ids: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    ready: Sequence[pulumi.Resource] = ()


@dataclass(frozen=True, slots=True)
class ModelCacheArgs:
    """`cache` is its name in the settings, which its claims have too. `homes` are its namespaces by name.

    `protect` keeps Pulumi from deleting the claims; `region` says for a bill where the volumes are.
    """

    cache: str
    settings: Cache
    backing: Backing
    region: str
    homes: Mapping[str, kubernetes.core.v1.Namespace]
    protect: bool


class ModelCache(Component[ModelCacheArgs]):
    """Volumes that outlive jobs. A claim that is deleted leaves its volume in the cloud, unless the settings say otherwise."""

    storage_class: kubernetes.storage.v1.StorageClass
    """Stands after all that makes its volumes: the driver, and where there are some the mount targets."""
    claims: dict[str, kubernetes.core.v1.PersistentVolumeClaim]
    """By namespace."""

    def declare(self, name: str, args: ModelCacheArgs) -> None:
        self.storage_class = self._storage_class(f"{name}-class", args)
        # A dot before what the settings name: no two joins of names meet.
        self.claims = {namespace: self._claim(f"{name}.{namespace}", args, namespace) for namespace in args.homes}

    def _storage_class(self, name: str, args: ModelCacheArgs) -> kubernetes.storage.v1.StorageClass:
        volumes = args.backing.volumes
        return kubernetes.storage.v1.StorageClass(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=class_name(args.cache), annotations={REGION: args.region}),
            provisioner=volumes.provisioner,
            parameters={**volumes.parameters, **args.backing.ids},
            reclaim_policy="Retain" if args.settings.retain else "Delete",
            volume_binding_mode=volumes.binding,
            allow_volume_expansion=volumes.grows,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.backing.ready),
                # The API server takes no other value, and the provider would try to update these two in place
                # (pulumi/pulumi-kubernetes, provider/pkg/provider/diff.go). Volumes that are there keep what they have.
                replace_on_changes=["reclaimPolicy", "volumeBindingMode"],
                delete_before_replace=True,
            ),
        )

    def _claim(self, name: str, args: ModelCacheArgs, namespace: str) -> kubernetes.core.v1.PersistentVolumeClaim:
        cache = args.settings
        return kubernetes.core.v1.PersistentVolumeClaim(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=args.cache, namespace=args.homes[namespace].metadata.name),
            spec=kubernetes.core.v1.PersistentVolumeClaimSpecArgs(
                access_modes=[cache.access_mode],
                # A text, not the class's output: a class that is made anew must not take the claims with it.
                storage_class_name=class_name(args.cache),
                resources=kubernetes.core.v1.VolumeResourceRequirementsArgs(requests={"storage": memory_text(cache.size)}),
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[self.storage_class],
                protect=args.protect,
                delete_before_replace=True,
                # Where volumes do not grow, the API server refuses a larger claim; and these have no size anyway.
                ignore_changes=None if args.backing.volumes.grows else ["spec.resources"],
            ),
        )
