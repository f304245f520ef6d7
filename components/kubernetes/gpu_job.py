"""A GPU Job of a stack. It runs once, when it is new or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from fleet.facts.scheduling import DELETION_PROPAGATION, SKIP_AWAIT


@dataclass(frozen=True, slots=True)
class GpuJobArgs:
    """`manifest` is the Job (`fleet.jobs`), with its namespace. `ready` must exist before: namespace with
    its network policy, claims, priority classes."""

    manifest: Mapping[str, Any]
    ready: Sequence[pulumi.Resource]


class GpuJob(Component[GpuJobArgs]):
    """A `batch/v1` Job under its own name. No resource waits for it, because it may wait in a queue for hours.

    A changed Job is a new run. It replaces the old Job, which is deleted first with its pods because both have one name. A
    running Job is never changed: most of its fields are immutable, and Kueue owns the rest.
    """

    job_name: pulumi.Output[str]
    """The Job's name, for `kubectl logs job/<name>`."""

    def declare(self, name: str, args: GpuJobArgs) -> dict[str, Any]:
        metadata = args.manifest["metadata"]
        waits = {
            SKIP_AWAIT: "true",
            # The name is free at once, and the pods end in the background.
            DELETION_PROPAGATION: "background",
        }
        job = kubernetes.batch.v1.Job(
            f"{name}-job",
            metadata=metadata | {"annotations": metadata.get("annotations", {}) | waits},
            spec=args.manifest["spec"],
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.ready),
                delete_before_replace=True,
                replace_on_changes=["spec", "metadata.labels", "metadata.annotations"],
                # Kueue owns it once the Job exists. A refresh that finds the Job admitted must not run it again.
                ignore_changes=["spec.suspend"],
            ),
        )
        self.job_name = job.metadata.apply(lambda metadata: metadata.name)
        return {"jobName": self.job_name}
