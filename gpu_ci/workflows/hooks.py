"""What a class with `containers: job` does with a job: GitHub's container hooks make pods of its containers.

Facts: actions/runner-container-hooks 0.8.1, packages/k8s (README, "Limitations"; src/hooks; src/k8s), and what our own hook adds
(fleet/charts/container-jobs.js): names, ports and health checks of services.
"""

import math
import re
from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any, Literal, NamedTuple

from fleet.facts.quantities import memory_text
from fleet.facts.tables import beside
from fleet.settings.runner import RunnerPod
from gpu_ci.workflows.containers import Container, mebibytes
from gpu_ci.workflows.expressions import is_open
from gpu_ci.workflows.job import Job, Step
from gpu_ci.workflows.served import Served

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""The name of a container of a pod (RFC 1123, as the API server checks it)."""
_LOST: dict[str, str] = beside(__file__, "ignored.toml")
"""Docker's options that a job may need and that the hooks ignore, with what to do instead. The others change nothing in a pod."""

_WORDS: dict[str, Any] = beside(__file__, "words.toml")


class Refusal(NamedTuple):
    """Why a set does not run a job, or why that is open, and the edit that changes it."""

    state: Literal["no runner", "undeterminable"]
    message: str
    edit: str


def told(key: str, entry: Served, **fields: object) -> str:
    """A remark on a set in the words of its row."""
    return str(_WORDS["remarks"][key]).format(entry=entry, **fields)


def _refused(key: str, job: Job, entry: Served, **fields: object) -> Refusal:
    """A refusal in the words of its row."""
    message, edit = (_WORDS["refusals"][key][part].format(job=job, entry=entry, **fields) for part in ("message", "edit"))
    return Refusal("undeterminable" if key.startswith("open") else "no runner", message, edit)


def refusal(job: Job, entry: Served) -> Refusal | None:
    """Why a set refuses the containers of a job, or a job without; None if it runs it."""
    runner = entry.runner
    if job.images and not runner.runs_containers:
        key = "none_class" if not isinstance(runner, RunnerPod) else "none_image" if job.container is None else "none"
        refused, open_words = _refused(key, job, entry), f"{job.image_in_words}, and {entry.words} starts none"
        return refused._replace(state="undeterminable", message=open_words) if job.open_image else refused
    return next(_refusals(job, entry, runner), None) if isinstance(runner, RunnerPod) and runner.needs_container else None


def _called(service: Container) -> str:
    """The name of a service's container (generateContainerName of src/k8s/utils.ts; our own hook takes the digest out)."""
    return service.image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def _refusals(job: Job, entry: Served, runner: RunnerPod) -> Iterator[Refusal]:
    refused, container, most = partial(_refused, job=job, entry=entry), job.container, runner.services.most
    if container is None:
        yield refused("no_container")
        return
    if container.volumes:
        yield refused("volumes")
    services = [service for service in job.services if not service.open]
    if len(services) > most:
        yield refused("services", count=len(services), most=most)
    for service in services:
        name = _called(service)
        if not is_open(service.image) and (name == "job" or not _NAME.fullmatch(name)):
            yield refused("pod_name", one=service, name=name)
    for one, other in combinations(services, 2):
        if _called(one) == _called(other) and not is_open(one.image + other.image):
            yield refused("same_name", one=one, other=other, name=_called(one))
        if both := one.listens & other.listens:
            yield refused("same_port", one=one, other=other, port=min(both))
    if len(job.services) > most >= len(services):
        yield refused("open_services", count=len(job.services), most=most)
    if container.open:
        yield refused("open_container")


def remarks(job: Job, entry: Served) -> Iterator[str]:
    """What a class with containers ignores of a job that it runs."""
    runner, container = entry.runner, job.container
    if not isinstance(runner, RunnerPod) or not runner.needs_container or container is None:
        return
    for image in job.images:
        for flag, why in _LOST.items():
            if any(name == flag for name, _ in image.flags):
                yield told("flag", entry, image=image, flag=flag, why=why)
        size = max((mebibytes(value) for name, value in image.flags if name == "--shm-size"), default=0.0)
        if size > runner.shm:
            yield told("shm", entry, image=image, size=memory_text(math.ceil(size)), most=memory_text(runner.shm))
    login = next((image for image in (container, *job.services) if image.credentials), container)
    for service in job.services:
        if (name := service.key.partition(".")[2]) and not _NAME.fullmatch(name.lower()):
            yield told("name", entry, image=service, name=name)
        if service.volumes:
            yield told("volumes", entry, image=service)
        if service.credentials and service.registry != login.registry and not runner.pull_secrets:
            yield told("credentials", entry, image=service)


def without_docker(step: Step, entry: Served) -> str:
    """How a step that calls Docker does without, on a set that has none."""
    if entry.runner.needs_container and step.text == "docker run":
        return "write its image as container: of the job, and its command as a step"
    if step.text.lower().endswith("(dockerfile)"):
        return "push its image, and write image: docker://<image> and entrypoint: in the action"
    elsewhere = "move the step to a job with runs-on: ubuntu-latest"
    return f"send the build to BuildKit (docs/builds.md), or {elsewhere}" if "build" in step.text else elsewhere
