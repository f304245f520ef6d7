"""Pod specs, containers and GPUs of every resource that has pods.

A release of chart gha-runner-scale-set has two pods, the runner's and the listener's: the rules read its values and what the
chart adds to them (`charts.py`). ARC's runner set has the same two. If the jobs of a runner set run in containers, a ConfigMap
has the templates of their pods, which the hooks of the runners create. A template has no images: a workflow names them.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from math import ceil

from fleet.facts import scheduling
from fleet.facts.quantities import quantity
from fleet.facts.record import Record
from fleet.facts.scheduling import CPU_TAINT, GPU_RESOURCE, VISIBLE_DEVICES, Toleration, is_gpu_resource

from . import charts, kinds
from .charts import INIT, REGULAR, Container
from .embedded import embedded
from .kinds import each, may_have_pods
from .read import Data, Later, T, UndeterminableError, entries, items, keys, once, parsed, provided, some, text, walk
from .releases import Release, releases
from .rule import Args

NO_DEVICES = ("", "void", "none")
"""The values of `VISIBLE_DEVICES` for which NVIDIA's container runtime injects no GPU."""
NODE_TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
"""Path of a pod spec's required node affinity: a node must meet one of these terms."""


class PodSpec(Record):
    """A pod spec (the SDK's proxy, or any junk value that the resource has there) and its path in the resource's properties.

    `added` and `volumes` are what a chart adds to its values; `left_out` names regular containers that the chart leaves out.
    `owner` is the object that says how many such pods there are: the resource's properties, an item of a list, or a chart's
    values. `owner_path` is its path ("", "items[0].", "values."). There is one listener: its owner is its own template.
    `step` marks the template of a container action: its pod runs where a job's pod runs, which has the GPU. `annotations` are
    those of the pod. `times` is the number of such pods, if the kind of the owner does not say where it has that number.
    """

    path: str
    spec: Data
    added: tuple[Container, ...] = ()
    volumes: tuple[Data, ...] = ()
    left_out: frozenset[str] = frozenset()
    owner: Data = None
    owner_path: str = ""
    step: bool = False
    annotations: Data = None
    times: int = 1


@once
def pod_specs(token: str, props: Data, later: Later) -> Iterator[PodSpec]:
    """The pod specs of a resource; none for a type or a chart without one. `later` collects unknown values.

    A Patch is judged by its own fields, because the object that it changes is not in the program.
    """
    if (path := kinds.POD_PATHS.get(token) or kinds.LIST_PATHS.get(token)) is not None:
        for prefix, item in each(token, props, later):
            yield from _at(prefix, item, path, later)
    if token in kinds.RUNNER_SET:
        yield from _listener_pod("spec.", props, ("spec", "listenerTemplate"), later)
    for release in releases(token, props, later):
        yield from pods_of(release, later)
    for place, template in hook_templates(token, props, later):
        # The runner set has their number (`RunnerSet.job_pods`).
        yield PodSpec(f"{place}.spec", walk(template, "spec"), owner=props, step=scheduling.STEP_TEMPLATE in place)
    for pod in embedded(props, later) if may_have_pods(token) else ():
        yield PodSpec(pod.path, pod.spec, pod.added, owner=props, annotations=pod.annotations, times=pod.times)


def has_pods(token: str, props: Data) -> bool:
    """Whether an object of a kind that no list has contains pods."""
    return may_have_pods(token) and bool(embedded(props, Later()))


def hook_templates(token: str, props: Data, later: Later) -> Iterator[tuple[str, Data]]:
    """Path and body of each pod template in the ConfigMap of jobs in containers. `later` collects unknown values."""
    for prefix, config_map in each(token, props, later) if token in kinds.CONFIG_MAPS else ():
        with later:
            data = walk(config_map, "data")
            for key in (scheduling.JOB_TEMPLATE, scheduling.STEP_TEMPLATE):
                with later:
                    if key in keys(data) and text(walk(config_map, "metadata", "name")) == scheduling.CONTAINER_JOBS:
                        path, template = f'{prefix}data["{key}"]', parsed(text(walk(data, key)))
                        if not keys(walk(template, "spec")):
                            raise UndeterminableError(f"{path} is not a pod template in JSON, so nothing shows the pods of jobs")
                        yield path, template


def pods_of(release: Release, later: Later) -> Iterator[PodSpec]:
    """The pod specs in a chart's values; none for a chart without one. `later` collects unknown values."""
    with later:
        if release.is_scale_set:
            values, path = release.values, f"{release.values_path}."
            yield from _runner_pod(path, values, later)
            yield from _listener_pod(path, values, ("listenerTemplate",), later)


@once
def containers_of(pod: PodSpec, later: Later) -> Iterator[Container]:
    """All containers of a pod: init, regular, of debuggers, then those that a chart adds. `later` collects unknown ones."""
    for field in (INIT, REGULAR, "ephemeralContainers"):
        for path, body in entries(pod.spec, field, later):
            with later:
                if field == REGULAR and pod.left_out and text(walk(body, "name")) in pod.left_out:
                    continue
                yield Container(path, field, body)
    yield from pod.added


def volumes_of(pod: PodSpec, later: Later) -> Iterator[tuple[str, Data]]:
    """Path within the pod spec and body of each volume of a pod. `later` collects unknown ones."""
    yield from entries(pod.spec, "volumes", later)
    yield from ((f"volumes[{volume['name']}]", volume) for volume in pod.volumes)


def gpu_amounts(container: Container, field: str, later: Later) -> dict[str, Data]:
    """GPU resources of `resources.limits` or `resources.requests` with their amounts. `later` collects unknown ones."""
    amounts = later.walk(container.body, "resources", field)
    of_gpus = {name: later.walk(amounts, name) for name in keys(amounts) if later.get(partial(_is_gpu, name, amounts), False)}
    return {name: amount for name, amount in of_gpus.items() if amount is not None}


def takes_gpus(pod: PodSpec, later: Later) -> bool:
    """Whether some container has a GPU limit or request."""
    return any(gpu_amounts(each, field, later) for each in containers_of(pod, later) for field in ("limits", "requests"))


def gpu_count(container: Container, later: Later) -> int:
    """The least number of GPUs or slices that a container asks for: an unknown amount counts as 0 and goes to `later`."""
    limits, requests = (gpu_amounts(container, field, later) for field in ("limits", "requests"))
    return sum(max(_devices(limits.get(name)), _devices(requests.get(name))) for name in {*limits, *requests})


def _devices(amount: Data) -> int:
    # Larger numbers count as a million.
    return min(max(ceil(quantity(amount) or 0), 0), 10**6)


def of_gpu_pods(faults: Callable[[PodSpec, Args, Later], Iterable[T]]) -> Callable[[Args, Later], Iterator[T]]:
    """The check of a rule about pods that take GPUs. If an unknown value decides whether a pod takes some, the check keeps it."""

    @wraps(faults)
    def check(args: Args, later: Later) -> Iterator[T]:
        for pod in pod_specs(args.type, args.props, later):
            hidden = Later()
            yield from provided(takes_gpus(pod, hidden), hidden, partial(faults, pod, args), later)

    return check


def hides_gpus(pod: PodSpec, later: Later) -> bool:
    """Whether the pod of a container action sees no GPU of its node. `later` collects unknown values."""
    return pod.step and all(some(partial(entries, each.body, "env"), _hides, later) for each in containers_of(pod, later))


def _hides(variable: tuple[str, Data]) -> bool:
    return text(walk(variable[1], "name")) == VISIBLE_DEVICES and text(walk(variable[1], "value")) in NO_DEVICES


def tolerations(holder: Data, later: Later) -> Iterator[tuple[int, Toleration]]:
    """Index and toleration of all `tolerations` of a pod spec, or of a similar object. `later` collects unknown ones."""
    for index, item in items(later.walk(holder, "tolerations"), later):
        with later:
            yield index, Toleration(**{name: text(walk(item, name)) for name in ("key", "operator", "value", "effect")})


def of_cpu_pools(spec: Data, later: Later) -> bool:
    """Whether a pod tolerates the taint of pools without GPUs by its key, so that its pool label names such a pool."""
    return any(toleration.key == CPU_TAINT.key and toleration.covers(CPU_TAINT) for _, toleration in tolerations(spec, later))


def serves_the_node(pod: PodSpec, allowed: Iterable[str], later: Later) -> bool:
    """Whether there are containers and all have an allowed name. `later` collects an unknown value if it decides.

    A name that this pack knows stands for its image and its namespace, too: anybody may write the name.
    """
    unknown, unnamed = Later(), Later()
    containers = tuple(containers_of(pod, unknown))
    space = text(unnamed.walk(pod.owner, "metadata", "namespace"))
    for container in containers:
        with unnamed:
            name = text(walk(container.body, "name"))
            known = (not space or space in kinds.SERVING_NAMESPACES) and has_image_of_node(container)
            if name not in allowed or (name in kinds.SERVING and not known):
                return False
    unnamed.join(unknown)
    later.join(unnamed)
    return bool(containers) and not unnamed


def has_image_of_node(container: Container) -> bool:
    """Whether a container has an image of what serves a node, or none, which no cluster accepts. Raises UnknownError."""
    image = text(walk(container.body, "image")).partition("@")[0].rpartition("/")[2].partition(":")[0]
    return not image or image in kinds.SERVING_IMAGES


def _is_gpu(name: str, amounts: Data) -> bool:
    """Whether this is a GPU resource, or the first half of one: YAML or `--set` may read the dot in its name as nesting."""
    head, _, tail = GPU_RESOURCE.partition(".")
    return is_gpu_resource(name) or (name == head and walk(amounts, head, tail) is not None)


def _at(prefix: str, value: Data, path: tuple[str, ...], later: Later) -> Iterator[PodSpec]:
    if (spec := later.walk(value, *path)) is not None:
        annotations = Later().walk(value, *path[:-1], "metadata", "annotations")
        yield PodSpec(prefix + ".".join(path), spec, owner=value, owner_path=prefix, annotations=annotations)


def _runner_pod(prefix: str, values: Data, later: Later) -> Iterator[PodSpec]:
    added = tuple(charts.added(values, later))
    volumes = tuple(charts.volumes(values, later))
    # While the mode is unknown, the chart may leave this container out.
    left_out = later.get(partial(charts.left_out, values), frozenset((charts.DIND,)))
    with later:
        spec = walk(values, "template", "spec")
        annotations = Later().walk(values, "template", "metadata", "annotations")
        yield PodSpec(
            f"{prefix}template.spec", {} if spec is None else spec, added, volumes, left_out, values, prefix, False, annotations
        )


def _listener_pod(prefix: str, holder: Data, path: tuple[str, ...], later: Later) -> Iterator[PodSpec]:
    return _at(f"{prefix}listenerTemplate.", later.walk(holder, *path), ("spec",), later)
