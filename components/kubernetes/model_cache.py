"""A cache for models and data sets: its own storage class, and a claim in each of its namespaces."""

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
    """A cloud's storage for a cache: how volumes are created, and the resources that must exist before.

    `ids` are further parameters of the storage class, known once the cloud's resources exist.
    """

    volumes: Volumes
    ids: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    ready: Sequence[pulumi.Resource] = ()


@dataclass(frozen=True, slots=True)
class ModelCacheArgs:
    """`cache` is the cache's name in the settings and the name of its claims. `homes` are its namespaces by name.

    With `protect`, Pulumi refuses to delete the claims. `region` is where the volumes are, for the bill.
    """

    cache: str
    settings: Cache
    backing: Backing
    region: str
    homes: Mapping[str, kubernetes.core.v1.Namespace]
    protect: bool


class ModelCache(Component[ModelCacheArgs]):
    """Volumes that outlive jobs. A deleted claim leaves its volume in the cloud, unless `retain` is false in the settings."""

    storage_class: kubernetes.storage.v1.StorageClass
    """Created after the driver and the mount targets, if any."""
    claims: dict[str, kubernetes.core.v1.PersistentVolumeClaim]
    """By namespace."""

    def declare(self, name: str, args: ModelCacheArgs) -> None:
        self.storage_class = self._storage_class(f"{name}-class", args)
        # The dot keeps logical names with names from the settings distinct.
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
                # These two are immutable, but the provider would try to update them in place
                # (pulumi/pulumi-kubernetes, provider/pkg/provider/diff.go). Existing volumes stay as they are.
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
                # A string, not the class's output: replacing the class must not replace the claims.
                storage_class_name=class_name(args.cache),
                resources=kubernetes.core.v1.VolumeResourceRequirementsArgs(requests={"storage": memory_text(cache.size)}),
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[self.storage_class],
                protect=args.protect,
                delete_before_replace=True,
                # If volumes cannot grow, the API server rejects a larger claim. File systems have no size anyway.
                ignore_changes=None if args.backing.volumes.grows else ["spec.resources"],
            ),
        )
