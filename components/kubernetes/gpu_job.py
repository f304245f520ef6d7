"""A GPU Job that belongs to a stack: it runs once, when it is new or changed."""

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
    """`manifest` is the Job (`fleet.jobs`), with its namespace. `ready` stands before: namespace and wall, claims, priorities."""

    manifest: Mapping[str, Any]
    ready: Sequence[pulumi.Resource]


class GpuJob(Component[GpuJobArgs]):
    """A `batch/v1` Job under its own name, and nothing that waits for it: it may stand in a queue for hours.

    A changed Job is another run. It replaces the old one, which is deleted first for they have one name, and ends with its pods:
    no change ever reaches a Job that runs, of which most cannot be changed and the rest is Kueue's.
    """

    job_name: pulumi.Output[str]
    """By which `kubectl logs job/<name>` finds it."""

    def declare(self, name: str, args: GpuJobArgs) -> dict[str, Any]:
        metadata = args.manifest["metadata"]
        waits = {
            SKIP_AWAIT: "true",
            # The name is free at once; the pods end behind it.
            DELETION_PROPAGATION: "background",
        }
        made = kubernetes.batch.v1.Job(
            f"{name}-job",
            metadata=metadata | {"annotations": metadata.get("annotations", {}) | waits},
            spec=args.manifest["spec"],
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.ready),
                delete_before_replace=True,
                replace_on_changes=["spec", "metadata.labels", "metadata.annotations"],
                # Kueue's once the Job is made: a refresh that finds it let in must not run it again.
                ignore_changes=["spec.suspend"],
            ),
        )
        self.job_name = made.metadata.apply(lambda found: found.name)
        return {"jobName": self.job_name}
