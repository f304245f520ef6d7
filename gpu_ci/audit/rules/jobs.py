"""Jobs of workflows against runner classes, and what code of a job can reach on a runner."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

from fleet.facts.eks_images import driver_of_build
from fleet.facts.errors import instead
from fleet.facts.nested import at, items, part, parts, text_at
from fleet.facts.tables import rows
from fleet.facts.versions import image_cuda
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.formats.arc import CONTAINER_MODES
from gpu_ci.audit.homes import homes
from gpu_ci.audit.model import Keys, RunnerClass, Seen, gpus_of
from gpu_ci.workflows.job import Job

_SOON = timedelta(days=180)
_STRANGERS = frozenset(("pull_request_target", "issue_comment", "issues", "workflow_run", "discussion", "discussion_comment"))
"""Events that people without write access cause, and whose runs have the rights of the base (docs.github.com, "Securely using
pull_request_target", and "Events that trigger workflows")."""


def placement(seen: Seen, day: date) -> Iterator[Finding]:
    """Whether exactly one class serves each job, and has what the job asks for."""
    for job in seen.jobs:
        yield from _superseded(job, seen, day)
        if job.unresolved:
            yield said("runs-on.unresolved", job.place, job.name, why=job.unresolved)
        elif serving := [one for one in seen.classes if one.serves(job.runs_on)]:
            if len(names := sorted({one.name for one in serving})) > 1:
                yield said("runs-on.several", job.place, job.name, asked=job.wants, names=", ".join(names), first=names[0])
            for one in serving:
                yield from _served(job, one)
        elif not job.runs_on.hosted:
            yield from _unserved(job, seen)


def _unserved(job: Job, seen: Seen) -> Iterator[Finding]:
    if (unnamed := [one.place for one in seen.classes if not one.name]) or not seen.classes:
        why = f"the release name of {unnamed[0]} is not in the file" if unnamed else "no runner set is in the folder"
        yield said("runs-on.open", job.place, job.name, asked=job.wants, why=why)
        return
    served = {label for one in seen.classes for label in (one.name, *one.labels)}
    best = instead(job.wants, served, "")
    edits = _at(job, "runs-on", best.removeprefix("did you mean ").removesuffix("?")) if best else ()
    fix = best or f"name one of: {', '.join(sorted(served))}"
    yield said("runs-on.unserved", job.place, job.name, edits, asked=job.wants, fix=fix)


def _served(job: Job, one: RunnerClass) -> Iterator[Finding]:
    if job.open_image and not one.runs_containers:
        yield said("containers.open", job.place, job.name, job=job, set=one)
    elif job.containers and not one.runs_containers:
        yield said("containers.none", job.place, job.name, job=job, set=one, modes=", ".join(CONTAINER_MODES))
    elif one.needs_container and job.container is None:
        yield said("containers.required", job.place, job.name, set=one)
    if (gpus := gpus_of(one)) is None:
        return
    if job.gpus > gpus:
        yield said("job-gpus.more", job.place, job.name, job=job, gpus=gpus, set=one)
    elif job.asks.startswith("--gpus") and not gpus:
        yield said("job-gpus.none", job.place, job.name, job=job, set=one)
    if gpus and not job.timed:
        yield said("job-timeout.none", job.place, job.name, _at(job, "timeout-minutes", 60), set=one)
    if (rights := privileges(one)) and (events := sorted(job.events & _STRANGERS)):
        yield said("job-trigger.stranger", job.place, job.name, events=", ".join(events), rights=rights, set=one)
    elif rights and "pull_request" in job.events:
        yield said("job-trigger.fork", job.place, job.name, rights=rights, set=one)


def _superseded(job: Job, seen: Seen, day: date) -> Iterator[Finding]:
    """Labels that GitHub, or another owner of runners, takes away."""
    own = {label.lower() for one in seen.classes for label in (one.name, *one.labels)}
    for row in rows("superseded_labels.csv"):
        if row["label"] not in job.runs_on.labels or row["label"] in own:
            continue
        ended = date.fromisoformat(row["ended"]) if row["ended"] else None
        if ended is not None and day < ended - _SOON:
            continue
        case = "soon" if ended is not None and day < ended else "ended" if ended is not None else "old"
        edits = _at(job, "runs-on", row["instead"]) if job.runs_on.labels == (row["label"],) else ()
        yield said(f"old-label.{case}", job.place, job.name, edits, **row)


def cuda(seen: Seen, _: date) -> Iterator[Finding]:
    """Whether the driver of the nodes of a class runs the CUDA of a job's container."""
    for job in seen.jobs:
        version = image_cuda(job.container.image) if job.container is not None else ""
        least = next((int(row["least_driver"]) for row in rows("cuda.csv") if row["major"] == version.partition(".")[0]), None)
        for one in (one for one in seen.classes if least is not None and gpus_of(one) and one.serves(job.runs_on)):
            for pool in (home.pool for home in homes(one, seen)):
                driver = pool.driver or driver_of_build(pool.image.rpartition("@v")[2])
                if driver and int(driver.partition(".")[0]) < (least or 0):
                    facts: dict[str, Any] = {"cuda": version, "least": least, "driver": driver}
                    yield said("job-cuda.driver", job.place, job.name, pool=pool, set=one, **facts)


def _at(job: Job, key: str, value: object) -> tuple[Edit, ...]:
    """The edit of one key of a job; none for a job of a matrix or a call, whose key has an expression."""
    if job.file is None or not job.key:
        return ()
    keys = Keys(job.file, job.file.document.value)
    written = keys.get("jobs", job.key).value
    inner = written.get(key) if isinstance(written, dict) else None
    return () if not isinstance(written, dict) or "${{" in str(inner) else (Edit(keys, ("jobs", job.key, key), value),)


_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock")


def privileges(one: RunnerClass) -> str:
    """Why code of a job can reach more than its own pod or machine, in words; empty if the file shows no such way."""
    pod = one.pod
    for container in (*parts(pod, "initContainers"), *parts(pod, "containers")):
        if at(container, "securityContext", "privileged") is True:
            return f"container {text_at(container, 'name')} is privileged"
        if added := items(container, "securityContext", "capabilities", "add"):
            return f"container {text_at(container, 'name')} has the capabilities {', '.join(map(str, added))}"
    if one.mode == "dind":
        return "containerMode dind runs a privileged container"
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key) is True:
            return f"its pod has {key}"
    for volume in parts(pod, "volumes"):
        if path := text_at(part(volume, "hostPath"), "path"):
            return f"its pod mounts {'the socket ' if path in _SOCKETS else ''}{path} of the node"
    return "" if one.ephemeral else "its runner is not ephemeral, so a job leaves files for the next"


RULES = (placement, cuda)
