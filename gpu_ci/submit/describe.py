"""Creates the manifest of a Job from the options of the command line."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from fleet import jobs
from fleet.facts.credentials import mask
from fleet.facts.record import Record
from fleet.loading.config import read_fleet
from gpu_ci.app import Cluster, File, OfStack, Pools
from gpu_ci.submit.errors import InputError
from gpu_ci.submit.objects import Object
from gpu_ci.submit.sending import read_job


class Described(Record, kw_only=True):
    """Every option that describes a Job. The fields are the options of `print` and `run`."""

    command: list[str] | None = None
    manifest_file: Path | None = None
    task_id: str | None = None
    image: str | None = None
    gpus: int | None = None
    gpu_type: str | None = None
    memory: str | None = None
    cpu: str | None = None
    env: list[str] | None = None
    secret_env: list[str] | None = None
    requirements: str | None = None
    stack: OfStack = None
    file: File = None
    cluster: Cluster = None
    pool: Pools = None
    spot: bool = False
    shared: bool = False
    queue: str | None = None
    priority: str | None = None
    deadline: str | None = None
    shm: str | None = None
    workspace: str | None = None
    cache: str | None = None

    def manifest(self, namespace: str | None) -> tuple[Object, list[str]]:
        """The Job, and lines about its size and place. Raises InputError."""
        if self.manifest_file is not None:
            return self._read(self.manifest_file)
        missing = [option for option, value in (("--task-id", self.task_id), ("--image", self.image)) if not value]
        if missing or self.task_id is None or self.image is None:
            raise InputError(f"{' and '.join(missing)}: must be given, or --manifest with a file")
        remarks: list[str] = []
        if self.stack is None and (self.cluster or self.pool or self.file):
            raise InputError("--cluster, --pool, --file: name a part of a stack; also pass --stack")
        fleet = None if self.stack is None else read_fleet(self.stack, self.file)
        implied = {} if fleet is None else jobs.pool_options(fleet, self.cluster, self.pool)
        try:
            arguments = self._sizes(remarks, implied) | self._given(namespace)
            arguments |= {"command": tuple(self.command or ()), "env": _pairs(self.env, "--env")}
            job = jobs.gpu_job(self.task_id, self.image, **arguments)
            if fleet is None:
                return jobs.manifest(job), remarks
            placed = jobs.place_job(fleet, job, cluster=self.cluster, pool=self.pool)
        except jobs.JobError as error:
            raise InputError("\n".join(_lines(error))) from error
        return placed.manifest(), [*remarks, f"placed in {placed.place}", *placed.remarks]

    def _read(self, file: Path) -> tuple[Object, list[str]]:
        """The Job of a file. Raises InputError if another option describes a Job too."""
        options = [part.name for part in fields(self) if part.name != "manifest_file" and getattr(self, part.name)]
        if options:
            raise InputError(f"--manifest: the file describes the whole Job; remove {', '.join(map(_option, options))}")
        return read_job(file), []

    def _sizes(self, remarks: list[str], implied: dict[str, Any]) -> dict[str, Any]:
        """GPUs and memory: from the options, otherwise from the pool, otherwise from the requirements."""
        options = {"gpu_count": self.gpus, "gpu_type": self.gpu_type, "memory": self.memory, "cpu": self.cpu}
        stated = {key: value for key, value in options.items() if value is not None}
        if self.requirements is None:
            return implied | stated
        workload = jobs.detect_ml_workload(self.requirements)
        remarks += str(workload).splitlines()
        if not workload:
            why = "--requirements: nothing in it asks for a GPU; describe the task in more detail, or remove it"
            raise InputError("\n".join((why, *remarks)))
        needs = jobs.calculate_gpu_requirements(self.requirements)
        remarks += str(needs).splitlines()
        return {**needs.arguments, **implied, **stated}

    def _given(self, namespace: str | None) -> dict[str, Any]:
        secrets = {name: _secret(name, value) for name, value in _pairs(self.secret_env, "--secret-env").items()}
        alike = ("queue", "deadline", "workspace", "cache", "spot", "shared")
        options = {option: getattr(self, option) for option in alike} | {"shm": 0 if self.shm == "0" else self.shm}
        options |= {"namespace": namespace, "priority_class": self.priority, "secret_env": secrets or None}
        return {key: value for key, value in options.items() if value is not None and value is not False}


def _pairs(words: list[str] | None, option: str) -> dict[str, str]:
    """NAME=VALUE as a mapping. Errors do not show the values, because they may be secrets."""
    pairs: dict[str, str] = {}
    for word in words or ():
        name, sign, value = word.partition("=")
        if not sign or not name:
            why = f"{option}: must be NAME=VALUE; the value that begins with {mask(name)[:20]!r} is not"
            raise InputError(f"{why}; write the name before the sign")
        if name in pairs:
            raise InputError(f"{option}: {name} is given twice; remove one")
        pairs[name] = value
    return pairs


def _secret(name: str, value: str) -> tuple[str, str]:
    secret, sign, key = value.partition("/")
    if not (secret and sign and key):
        raise InputError(f"--secret-env: {name} must be SECRET/KEY, the names of a Secret and of a key in it; write both")
    return secret, key


def _option(name: str) -> str:
    """The command line's name of an argument."""
    others = {"gpu_count": "--gpus", "priority_class": "--priority", "command": "the command", "placement": "--pool"}
    return others.get(name, f"--{name.replace('_', '-')}")


def _lines(error: jobs.JobError) -> list[str]:
    """A line for each problem, with the names of options. If no pool can hold the Job, the first line states that."""
    lines = [str(error).splitlines()[0]] if any(problem.rule == "placement" for problem in error.problems) else []
    for problem in error.problems:
        where = problem.field if problem.rule == "placement" else _option(problem.field)
        lines.append(f"{where}: {problem.message}{f'; got {problem.value}' if problem.value else ''}")
    return lines
