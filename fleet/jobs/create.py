"""`create_gpu_job`: the manifest of a GPU job from Python arguments."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, Unpack

from fleet.facts.errors import shown
from fleet.jobs.errors import JobError, JobProblem
from fleet.jobs.place import Manifest, manifest, place_job, pool_options
from fleet.jobs.spec import gpu_job
from fleet.providers.fleet import Fleet


class JobOptions(TypedDict, total=False):
    """The optional arguments of a job with their types, for editors and type checkers. docs/jobs.md explains each.

    Amounts are strings as in Kubernetes: "16Gi", "500m". Times are seconds, or strings with a unit: "2h".
    """

    memory_request: str | None
    cpu_request: str | float | None
    scratch: str
    shm: str | Literal[0] | None
    spot: bool
    shared: bool
    resource: str | None
    prefer: Mapping[str, int]
    instance_type: str | Sequence[str]
    args: Sequence[str]
    secret_env: Mapping[str, tuple[str, str]]
    visible_devices: str | Sequence[int] | bool | None
    namespace: str | None
    workspace: str | None
    workspace_path: str
    cache: str | None
    cache_path: str
    cache_read_only: bool
    queue: str | None
    priority_class: str | None
    deadline: int | str
    backoff_limit: int
    ttl: int | str
    restart_policy: Literal["OnFailure", "Never"] | None
    user: int
    group: int
    pull_secrets: Sequence[str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def create_gpu_job(
    task_id: str,
    image: str,
    gpu_count: int = 1,
    gpu_type: str | None = None,
    memory: str | None = None,
    cpu: str | float | None = None,
    command: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    *,
    fleet: Fleet | None = None,
    cluster: str | None = None,
    pool: str | Sequence[str] | None = None,
    **options: Unpack[JobOptions],
) -> Manifest:
    """A valid `batch/v1` Job as plain data. This function sends nothing to a cluster.

    With a `fleet` the job is bound to the fleet's cheapest pool that holds it. `cluster` and `pool` limit the choice. Of
    several pools it runs in the first that has a node for it, and each must hold it. Without a fleet the job
    selects nodes by the label of their GPU. A `pool` implies `gpu_type`, `spot` and `shared`; without one, the GPU type is v100.
    `memory` and `cpu` are limits of the whole job ("16Gi", "8000m"). docs/jobs.md explains the other arguments.
    Raises JobError with every wrong argument, and JobRefusedError with a reason for each pool if none holds the job.
    """
    implied = {} if fleet is None else pool_options(fleet, cluster, pool)
    amounts = {"gpu_count": gpu_count, "memory": memory, "cpu": cpu}
    explicit = {name: value for name, value in (("gpu_type", gpu_type), ("env", env)) if value is not None}
    job = gpu_job(task_id, image, command=command, **amounts, **{**implied, **explicit, **options})
    if fleet is not None:
        return place_job(fleet, job, cluster=cluster, pool=pool).manifest()
    message, places = "names a part of a stack; pass its fleet as well", {"cluster": cluster, "pool": pool}
    if missing := [JobProblem(name, "fleet", message, shown(place)) for name, place in places.items() if place is not None]:
        raise JobError(tuple(missing))
    return manifest(job)
