"""Pods in objects of any kind: the mappings with containers, where each is, and how many such pods the object asks for.

Argo's templates have one container (`container`, `script`), Tekton's tasks have `steps`. Some kinds name an image and its
resources, and their controller writes the pod around them: TrainJob's `trainer`, KServe's `model`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from math import prod

from fleet.facts.record import Record, Same
from fleet.facts.scheduling import is_gpu_resource

from .charts import INIT, REGULAR, Container
from .kinds import table
from .read import Data, Later, UndeterminableError, count, entries, items, keys, parsed, text, walk, whole

_LISTS, _ALONE = ("steps", "sidecars"), ("container", "script")
_CONTAINERS = (REGULAR, INIT, "ephemeralContainers")
_RESOURCES = ("resources", "resourcesPerNode", "computeResources")
_NUMBERS = table("sizes")["of-pods"]
_SCALES = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/max-scale")
"""Annotations of Knative with numbers of pods."""


class Embedded(Record):
    """A pod spec at a path of an object ("" for the object itself), with containers that it has in other forms.

    `times` is the most such pods that the numbers around it make. `annotations` are those of the template.
    """

    path: str
    spec: Data
    added: tuple[Container, ...]
    times: int
    annotations: Data


def embedded(props: Data, later: Later) -> Sequence[Embedded]:
    """The pods of an object. `later` collects patches that cannot be read.

    An unknown value may be anything, so it is taken for none: an update knows it, and judges again.
    """
    pods, unread = _pods(Same(props))
    later.join(unread)
    return pods


@lru_cache(maxsize=1024)
def _pods(of: Same) -> tuple[tuple[Embedded, ...], Later]:
    later = Later()
    return tuple(_all(of.value, later)), later


def _all(props: Data, later: Later) -> Iterator[Embedded]:
    body = {key: value for key, value in props.items() if key not in ("metadata", "status")} if isinstance(props, dict) else {}
    unread = Later()
    # Most objects have no pod, so nothing else is read of them.
    if not (found := tuple(_find("", body, (props,), unread))):
        return
    beside: Data = next((named for one in _mappings(body, unread) if keys(named := unread.walk(one, "podTemplate"))), {})
    fan = max(sum(_fan(one, unread) for one in _mappings(body, unread)), 1)
    for pod in found:
        # Tekton has the fields of the pod beside its steps.
        of_steps = any(container.path.startswith("steps") for container in pod.added)
        spec = {**beside, **pod.spec} if of_steps else pod.spec
        yield replace(pod, spec=_patched(pod.path, spec, later), times=pod.times * fan)


def _find(path: str, value: Data, above: tuple[Data, ...], later: Later) -> Iterator[Embedded]:
    """The pods in a value. `above` are the object and the mappings around the value, whose numbers multiply its pods."""
    if not isinstance(value, dict):
        for index, item in items(value, later):
            yield from _find(f"{path}[{index}]", item, above, later)
        return
    within = (*above, value)
    added = tuple(_added(value, later))
    if added or any(keys(body) for field in (REGULAR, INIT) for _, body in entries(value, field, later)):
        yield Embedded(path, value, added, _times(within[1:], later), later.walk(above[-1], "metadata", "annotations"))
    # There may be others below, behind a decoy.
    read = {*_CONTAINERS, *(container.path.partition("[")[0] for container in added)}
    for key in (key for key in keys(value) if key not in read):
        if "image" in keys(child := later.walk(value, key)) and later.get(partial(_works, child), True):
            yield Embedded(path, {}, (_container(key, child, later),), _times((*within[1:], child), later), None)
        else:
            yield from _find(f"{path}.{key}" if path else key, child, within, later)


def _added(value: Data, later: Later) -> Iterator[Container]:
    """The containers of a mapping that are not in a field of a pod."""
    listed = chain.from_iterable(entries(value, field, later) for field in _LISTS)
    for path, body in chain(listed, ((key, later.walk(value, key)) for key in _ALONE)):
        if "image" in keys(body):
            yield _container(path, body, later)


def _container(path: str, body: Data, later: Later) -> Container:
    """The container, with its amounts where a pod has them."""
    amounts = next((found for name in _RESOURCES if (found := later.walk(body, name)) is not None), None)
    return Container(path, REGULAR, body if amounts is None else {**body, "resources": amounts})


def _works(body: Data) -> bool:
    """Whether a mapping with an image asks for GPUs, or for rights."""
    amounts = (walk(body, name, field) for name in _RESOURCES for field in ("limits", "requests"))
    named = chain(chain.from_iterable(map(keys, amounts)), keys(walk(body, "resourcesPerNode")))
    return any(map(is_gpu_resource, named)) or bool(keys(walk(body, "securityContext")))


def _patched(path: str, value: Data, later: Later) -> Data:
    """The spec with the fields of Argo's `podSpecPatch`, which the controller writes over it."""
    patch = text(later.walk(value, "podSpecPatch"))
    fields = parsed(patch) if patch else {}
    if not isinstance(fields, dict):
        later.note(UndeterminableError(f"{path}.podSpecPatch is not JSON, so nothing shows the pod that it makes"))
        return value
    return {**value, **fields}


def _times(mappings: tuple[Data, ...], later: Later) -> int:
    """How many pods the numbers of mappings, each in the one before, ask for."""
    return prod(max(1, *(_number(number) for number in _numbers(each, later))) for each in mappings)


def _numbers(value: Data, later: Later) -> Iterator[Data]:
    annotations = later.walk(value, "metadata", "annotations")
    yield from (later.walk(value, key) for key in _NUMBERS)
    yield from (later.walk(annotations, key) for key in _SCALES)


def _fan(value: Data, later: Later) -> int:
    """How many pods a step of Argo asks for; 0 for another mapping."""
    return count(later.walk(value, "withItems")) or _number(later.walk(value, "withSequence", "count"))


def _number(value: Data) -> int:
    """A number of pods, also one in a text. A text with a unit is none."""
    if isinstance(value, bool) or (isinstance(value, str) and not value.isdecimal()):
        return 0
    return min(max(whole(value) or 0, 0), 10**6)


def _mappings(value: Data, later: Later) -> Iterator[Data]:
    """Each mapping in a value."""
    if isinstance(value, dict):
        yield value
        for key in keys(value):
            yield from _mappings(later.walk(value, key), later)
    else:
        for _, item in items(value, later):
            yield from _mappings(item, later)
