"""Whether everything of a fleet has a place, as its inventory takes for granted."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.jobs import stack as stack_jobs
from fleet.prove import placement, room
from fleet.providers.fleet import Fleet


def unplaced(fleet: Fleet) -> Iterator[str]:
    """A line for each runner set, workload or job that no node can hold."""
    for found in placement.place(fleet):
        if found.error:
            yield f"{found.cluster}/{found.runner_set} cannot be placed: {found.error}"
    for refusal in (*room.refusals(fleet), *stack_jobs.refusals(fleet)):
        yield f"{refusal.cluster}/{refusal.workload} cannot be placed: {refusal.error}"
