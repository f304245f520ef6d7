"""What a class with `containers: job` does with a job: GitHub's container hooks make pods of its containers.

Facts: actions/runner-container-hooks 0.8.1, packages/k8s (README, "Limitations"; src/hooks; src/k8s), and what our own hook adds
(fleet/charts/container-jobs.js): names, ports and health checks of services.
"""

import math
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Literal, NamedTuple

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

_THEN = "which then takes no other jobs (docs/container-jobs.md)"


class Refusal(NamedTuple):
    """Why a set does not run a job, or why that is open, and the edit that changes it."""

    state: Literal["no runner", "undeterminable"]
    message: str
    edit: str


def refusal(job: Job, entry: Served) -> Refusal | None:
    """Why a set refuses the containers of a job, or a job without; None if it runs it."""
    runner = entry.runner
    if job.images and not runner.runs_containers:
        return _without(job, entry)
    return next(_refusals(job, entry, runner), None) if isinstance(runner, RunnerPod) and runner.needs_container else None


def _without(job: Job, entry: Served) -> Refusal:
    """The refusal of a class that starts no containers."""
    if not isinstance(entry.runner, RunnerPod):
        edit = "add a class that starts containers (docs/container-jobs.md)"
    elif job.container is None:
        edit = f"write container: <image> beside services:, and containers: job in class {entry.name}, {_THEN}"
    else:
        edit = f"write containers: job in class {entry.name}, {_THEN}"
    if job.open_image:
        return Refusal("undeterminable", f"{job.image_in_words}, and {entry.words} starts none", edit)
    message = f"{job.containers} needs a class that starts containers, and {entry.words} starts none"
    return Refusal("no runner", message, edit)


def _called(service: Container) -> str:
    """The name of a service's container (generateContainerName of src/k8s/utils.ts; our own hook takes the digest out)."""
    return service.image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def _refusals(job: Job, entry: Served, runner: RunnerPod) -> Iterator[Refusal]:
    container, most = job.container, runner.services.most
    if container is None:
        yield Refusal("no runner", f"{entry.words} takes no job without container", "write container: <image>")
        return
    if container.volumes:
        message = f"container.volumes has {container.volumes[0]}, and jobs of {entry.words} mount no folder of a machine"
        fix = f"remove it, and name the volume in volumes of class {entry.name} (docs/pod-template.md)"
        yield Refusal("no runner", message, fix)
    services = [service for service in job.services if not service.open]
    if len(services) > most:
        message = f"the job has {len(services)} services, and one of {entry.words} may have {most}"
        yield Refusal("no runner", message, f"write most: {len(services)} below services: of class {entry.name}")
    for service in services:
        name = _called(service)
        if not is_open(service.image) and (name == "job" or not _NAME.fullmatch(name)):
            message = f"{service.key}: GitHub's hooks call its container {name}, after the image, which no pod allows"
            yield Refusal("no runner", message, "give the image a name of lower-case letters, digits and hyphens, other than job")
    for one, other in combinations(services, 2):
        if _called(one) == _called(other) and not is_open(one.image + other.image):
            message = f"{one.key} and {other.key}: GitHub's hooks call both containers {_called(one)}, after the image"
            yield Refusal("no runner", f"{message}, which no pod allows", "push one of the images under another name")
        if both := one.listens & other.listens:
            message = f"{one.key} and {other.key} both listen on {min(both)}, and the containers of a job of {entry.words} have"
            yield Refusal("no runner", f"{message} one network", f"let {other.key} listen on another port")
    if len(job.services) > most >= len(services):
        message = f"only GitHub knows whether all {len(job.services)} services start, and a job of {entry.words} may have {most}"
        yield Refusal("undeterminable", message, f"write most: {len(job.services)} below services: of class {entry.name}")
    if container.open:
        message = f"{job.image_in_words}, and {entry.words} takes no job without one"
        yield Refusal("undeterminable", message, "write container: <image>")


def remarks(job: Job, entry: Served) -> Iterator[str]:
    """What a class with containers ignores of a job that it runs."""
    runner, container = entry.runner, job.container
    if not isinstance(runner, RunnerPod) or not runner.needs_container or container is None:
        return
    for image in job.images:
        for flag, why in _LOST.items():
            if any(name == flag for name, _ in image.flags):
                yield f"{image.key}: {entry.words} ignores {flag}: {why}"
        yield from _shm(image, entry, runner.shm)
    login = next((image for image in (container, *job.services) if image.credentials), container)
    for service in job.services:
        if (name := service.key.partition(".")[2]) and not _NAME.fullmatch(name.lower()):
            yield f"{service.key}: {entry.words} knows no name such as {name}: it answers at localhost; write a hyphen for each _"
        if service.volumes:
            why = "put the files into its image"
            yield f"{service.key}: {entry.words} ignores volumes: {service.volumes[0]} is not there; {why}"
        if service.credentials and service.registry != login.registry and not runner.pull_secrets:
            fix = f"name a Secret in pullSecrets of class {entry.name} (docs/pod-template.md)"
            yield f"{service.key}: {entry.words} ignores its credentials, because a job has those of one registry; {fix}"


def without_docker(step: Step, entry: Served) -> str:
    """How a step that calls Docker does without, on a set that has none."""
    if entry.runner.needs_container and step.text == "docker run":
        return "write its image as container: of the job, and its command as a step"
    if step.text.lower().endswith("(dockerfile)"):
        return "push its image, and write image: docker://<image> and entrypoint: in the action"
    elsewhere = "move the step to a job with runs-on: ubuntu-latest"
    return f"send the build to BuildKit (docs/builds.md), or {elsewhere}" if "build" in step.text else elsewhere


def _shm(image: Container, entry: Served, most: int) -> Iterator[str]:
    if (size := max((mebibytes(value) for name, value in image.flags if name == "--shm-size"), default=0.0)) > most:
        whole = memory_text(math.ceil(size))
        fix = f"write shm: {whole} in class {entry.name}"
        yield f"{image.key}: --shm-size is {whole}, and /dev/shm of {entry.words} has {memory_text(most)}; {fix}"
