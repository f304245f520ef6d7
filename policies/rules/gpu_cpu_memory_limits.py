"""gpu-cpu-memory-limits: a container that takes GPUs limits its memory and requests CPU, memory and disk.

Judged: every kind with a pod spec, ARC's runner set, the pods in the values of chart gha-runner-scale-set. In each pod, the
rule judges the containers with a GPU limit or request. If a request is missing, the limit counts, because the API server copies
it. Files in an `emptyDir` of medium Memory count against the container's memory limit. If a container mounts one, the volume's
`sizeLimit` may therefore not exceed that limit.
"""

from fractions import Fraction
from functools import partial

from fleet.facts.quantities import quantity

from .charts import Container
from .kinds import PODS, may_have_pods
from .pods import PodSpec, containers_of, gpu_count, pod_specs, volumes_of
from .read import Data, Faults, Later, entries, provided, shown, some, text, walk
from .rule import Args, Rule, facts, said


def _check(args: Args, later: Later) -> Faults:
    gib = quantity(args.config.get("minMemGiPerGpu")) or Fraction()
    for pod in pod_specs(args.type, args.props, later):
        for container in containers_of(pod, later):
            yield from (f"{pod.path}.{fault}" for fault in _container_faults(pod, container, gib, later))


def _container_faults(pod: PodSpec, container: Container, gib: Fraction, later: Later) -> Faults:
    hidden = Later()
    gpus = gpu_count(container, hidden)
    yield from provided(gpus > 0, hidden, partial(_amount_faults, pod, container, gpus, gib), later)
    if gpus:
        # An unknown limit may add GPUs, for which the memory would be too small.
        later.join(hidden)


def _amount_faults(pod: PodSpec, container: Container, gpus: int, gib: Fraction, later: Later) -> Faults:
    """The faults of a container that takes GPUs, with at least `gib` GiB for each."""
    resources = f"{container.path}.resources"
    with later:
        if _size(limit := walk(container.body, "resources", "limits", "memory")) <= 0:
            yield f"{resources}.limits.memory is {shown(limit)}: a GPU container needs a memory limit; write one above 0"
        else:
            for path, volume in volumes_of(pod, later):
                with later:
                    yield from _volume_fault(container, path, volume, limit, later)
    for name in ("cpu", "memory", "ephemeral-storage"):
        with later:
            if (requested := walk(container.body, "resources", "requests", name)) is None:
                requested = walk(container.body, "resources", "limits", name)
            if _size(requested) <= 0:
                yield said("no_request", resources=resources, name=name, requested=requested)
            elif name == "memory" and _size(requested) < gib * 2**30 * gpus:
                yield said("little_memory", resources=resources, requested=requested, least=float(gib), needed=float(gib * gpus))


def _volume_fault(container: Container, path: str, volume: Data, limit: Data, later: Later) -> Faults:
    if text(walk(volume, "emptyDir", "medium")) != "Memory":
        return
    size = walk(volume, "emptyDir", "sizeLimit")
    if 0 < _size(size) <= _size(limit):
        return
    fault = said("large_memory_volume", path=path, size=size, container=container, limit=limit)
    hidden = Later()
    name, mounts = text(walk(volume, "name")), partial(entries, container.body, "volumeMounts")
    mounted = some(mounts, lambda mount: text(walk(mount[1], "name")) == name, hidden)
    yield from provided(mounted, hidden, lambda _: iter([fault]), later)


def _size(amount: Data) -> Fraction:
    return quantity(amount) or Fraction(0)


RULE = Rule(**facts(__name__), types=PODS, others=may_have_pods, check=_check)
