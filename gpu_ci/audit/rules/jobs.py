"""Jobs of workflows against runner classes."""

from collections.abc import Iterator
from datetime import date
from typing import Any

from fleet.facts.errors import instead
from gpu_ci.audit.finding import Finding, said
from gpu_ci.audit.formats.arc import CONTAINER_MODES
from gpu_ci.audit.model import Seen
from gpu_ci.workflows.job import Job

_MODES = ", ".join(CONTAINER_MODES)


def placement(seen: Seen, _: date) -> Iterator[Finding]:
    """Whether a class serves each job, and can start its containers."""
    for job in seen.jobs:
        if job.unresolved:
            yield said("runs-on.unresolved", job.place, job.name, why=job.unresolved)
        elif not job.runs_on.hosted:
            yield from _served(job, seen)


def _served(job: Job, seen: Seen) -> Iterator[Finding]:
    serving = [one for one in seen.classes if one.serves(job.runs_on)]
    if not serving:
        unnamed = [one.place for one in seen.classes if not one.name]
        if unnamed or not seen.classes:
            why = f"the release name of {unnamed[0]} is not in the file" if unnamed else "no runner set is in the folder"
            yield said("runs-on.open", job.place, job.name, asked=job.wants, why=why)
            return
        served = {label for one in seen.classes for label in (one.name, *one.labels)}
        fix = instead(job.wants, served, f"name one of: {', '.join(sorted(served))}")
        yield said("runs-on.unserved", job.place, job.name, asked=job.wants, fix=fix)
    for one in serving:
        facts: dict[str, Any] = {"set": one.name, "its": one.place, "modes": _MODES}
        if job.open_image and not one.runs_containers:
            yield said("containers.open", job.place, job.name, why=job.image_in_words, **facts)
        elif job.containers and not one.runs_containers:
            yield said("containers.none", job.place, job.name, key=job.containers, **facts)
        elif one.needs_container and job.container is None:
            yield said("containers.required", job.place, job.name, **facts)
