"""Builds every cluster of a fleet, each by its provider's builder."""

from __future__ import annotations

import pulumi

from components.context import Context
from fleet import placement, stack_jobs
from fleet.providers import PROVIDERS, imported
from fleet.settings import Fleet
from fleet.tags import STACK_TAG
from fleet.workloads import room


def require_deployable(fleet: Fleet, stack: str) -> None:
    """Raise RunError for a fleet with a provider that nobody deploys: its error says what to run instead."""
    for name, cluster in fleet.clusters_by_name():
        if not PROVIDERS[cluster.provider].deployable:
            raise pulumi.RunError(
                f"{name}: provider {cluster.provider} is not deployed by Pulumi; run make render STACK={stack} OUT=<folder>, "
                "commit what it wrote, and ArgoCD does the rest (docs/gitops.md)"
            )


def build(fleet: Fleet, project: str, stack: str, private_key: pulumi.Output[str]) -> dict[str, dict[str, object]]:
    """Declare the fleet's resources; returns the stack outputs by cluster.

    Raises PlacementError before the first resource when a runner set, workload or job fits no node, RunError as
    `require_deployable` does.
    """
    require_deployable(fleet, stack)
    placement.require(placement.place(fleet))
    room.require(fleet)
    stack_jobs.require(fleet)
    context = Context(project, stack, {STACK_TAG: stack} | fleet.tags)
    outputs: dict[str, dict[str, object]] = {}
    for name, cluster in fleet.clusters_by_name():
        outputs[name] = imported(PROVIDERS[cluster.provider].builder)(name, cluster, fleet, context, private_key)
    return outputs
