"""GPU workloads and GPU Jobs of a stack: the objects that follow from their settings."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component, Resources
from components.kubernetes.custom import custom
from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import DELETION_PROPAGATION, SKIP_AWAIT

_ROLES = {"NetworkPolicy": "network", "PersistentVolumeClaim": "volume"}
"""The role in logical names by kind, if it is not the kind itself. A workload has one object of a kind. Each is its own resource,
so that policies see it."""
_RERUN_ON = ("activeDeadlineSeconds", "backoffLimit", "podFailurePolicy", "template")
"""Fields of a Job's spec that come from settings. A change of one is a new run."""


def _kept(manifest: Manifest) -> Manifest:
    """The manifest without a Job's time to live: Pulumi or ArgoCD would create the deleted Job again, and so run it again."""
    if manifest["kind"] != "Job":
        return manifest
    return {**manifest, "spec": {key: value for key, value in manifest["spec"].items() if key != "ttlSecondsAfterFinished"}}


class GpuWorkload(Component[Sequence[Manifest], Resources]):
    """A Deployment or Job on a GPU pool, with its Service, volume and network policy, if any.

    No resource waits for it: an empty pool takes minutes to start a node, an image of 10 GB takes more, and a notebook starts
    only after you have created the Secret with its token.

    `manifests` are its objects in the order of creation (`fleet.render.workloads.catalogue.workload_objects`). `ready` exists
    before them: the namespace with its network isolation, the priority classes that its pods name, and the storage class of its
    volume if a cache has that class.
    """

    def declare(self, name: str, manifests: Sequence[Manifest], ready: Resources) -> None:
        objects: list[pulumi.Resource] = []
        for manifest in manifests:
            metadata, role = manifest["metadata"], _ROLES.get(manifest["kind"], manifest["kind"].lower())
            waits = {"metadata": metadata | {"annotations": metadata.get("annotations", {}) | {SKIP_AWAIT: "true"}}}
            objects.append(custom(f"{name}-{role}", _kept(manifest) | waits, parent=self, depends_on=[*ready, *objects]))


class GpuJob(Component[Manifest, Resources]):
    """A `batch/v1` Job under its own name. No resource waits for it, because it may wait in a queue for hours.

    A changed Job is a new run. It replaces the old Job, which is deleted first with its pods because both have one name. No
    setting changes a running Job: most of its fields are immutable, and Kueue owns the rest. A finished Job stays: it holds no
    node.

    `manifest` is the Job (`fleet.jobs`), with its namespace. `ready` must exist before: namespace with its network policy,
    claims, priority classes.
    """

    job_name: pulumi.Output[str]
    """The Job's name, for `kubectl logs job/<name>`."""

    def declare(self, name: str, manifest: Manifest, ready: Resources) -> None:
        metadata = manifest["metadata"]
        # The name is free at once, and the pods end in the background.
        waits = {SKIP_AWAIT: "true", DELETION_PROPAGATION: "background"}
        # Without the time to live: stacks of version 0.1.0 have one, and its removal must not run their Jobs again.
        reruns = [*(f"spec.{field}" for field in _RERUN_ON), "metadata.labels", "metadata.annotations"]
        job = kubernetes.batch.v1.Job(
            f"{name}-job",
            metadata=metadata | {"annotations": metadata.get("annotations", {}) | waits},
            spec=_kept(manifest)["spec"],
            # Kueue owns `suspend` once the Job exists. A refresh that finds the Job admitted must not run it again.
            opts=self._below(*ready, delete_before_replace=True, replace_on_changes=reruns, ignore_changes=["spec.suspend"]),
        )
        self.job_name = job.metadata.apply(lambda metadata: metadata.name)
