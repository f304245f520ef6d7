"""Pods in whatever resource holds them: their specs, containers and GPUs.

Of a chart's release these are the two pods of chart gha-runner-scale-set, a runner's and the listener's: what its values say, and
what the chart makes of them (`charts.py`). ARC's runner set has the same two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from fleet.facts.scheduling import GPU_RESOURCE, Toleration, is_gpu_resource

from . import charts
from .kinds import HELM, LIST_PATHS, POD_PATHS, RUNNER_SET, each
from .read import Later, entries, items, keys, provided, quantity, text, walk
from .releases import Release, releases

INIT, REGULAR = "initContainers", "containers"
NODE_TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
"""Where a pod spec keeps its required node affinity: it lands where one of these terms holds."""

SERVING = (
    # Container names of charts nvidia-device-plugin 0.20 and dcgm-exporter 4.8, then those of plain manifests.
    "nvidia-device-plugin-init",
    "nvidia-device-plugin-sidecar",
    "nvidia-device-plugin-ctr",
    "gpu-feature-discovery-init",
    "gpu-feature-discovery-sidecar",
    "gpu-feature-discovery-ctr",
    "mps-control-daemon-mounts",
    "mps-control-daemon-init",
    "mps-control-daemon-sidecar",
    "mps-control-daemon-ctr",
    "exporter",
    "nvidia-device-plugin",
    "dcgm-exporter",
)
"""Names of containers that serve a GPU node without taking a GPU."""

_MANY = 10**6
"""No message needs a greater number of GPUs."""
_STEP = re.compile(r"[^.\[\]]+|\[([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class Container:
    """`path` within the pod spec ("containers[0]"), the field that holds it, and the container as the wire gives it.

    One that a chart adds is no part of the values: `made` says what makes the chart add it, else "".
    """

    path: str
    field: str
    body: Any
    made: str = ""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod spec (the SDK's proxy, or junk where the resource holds junk) and where it lies in the resource's properties.

    `added` and `volumes` are what a chart makes besides what its values say, `left_out` names regular containers that it leaves
    out. `owner` is what says how many such pods there are (the resource's properties, an item of a list, a chart's values),
    `owner_path` where it lies ("", "items[0].", "values."). A listener is alone: its owner is its own template.
    """

    path: str
    spec: Any
    added: tuple[Container, ...] = ()
    volumes: tuple[Any, ...] = ()
    left_out: frozenset[str] = frozenset()
    owner: Any = None
    owner_path: str = ""


def pod_specs(token: str, props: Any, later: Later) -> Iterator[PodSpec]:
    """The pod specs that a resource holds; none for a type or a chart without one. Unknown parts are put off.

    A Patch is judged by what it holds, since what it changes is not in the program.
    """
    if token in POD_PATHS:
        yield from _at("", props, POD_PATHS[token], later)
        if token in RUNNER_SET:
            yield from _listener_pod("spec.", props, ("spec", "listenerTemplate"), later)
    elif token in LIST_PATHS:
        for prefix, item in each(token, props, later):
            yield from _at(prefix, item, LIST_PATHS[token], later)
    elif token in HELM:
        for release in releases(token, props, later):
            yield from pods_of(release, later)


def pods_of(release: Release, later: Later) -> Iterator[PodSpec]:
    """The pod specs that a chart's values hold; none for a chart without one. Unknown parts are put off."""
    with later:
        if release.is_scale_set:
            values, path = release.values, f"{release.values_path}."
            yield from _runner_pod(path, values, later)
            yield from _listener_pod(path, values, ("listenerTemplate",), later)


def containers_of(pod: PodSpec, later: Later) -> Iterator[Container]:
    """All containers of a pod: init, regular, then those that a chart adds. Unknown ones are put off."""
    for field in (INIT, REGULAR):
        for path, body in entries(pod.spec, field, later):
            with later:
                if field == REGULAR and pod.left_out and text(walk(body, "name")) in pod.left_out:
                    continue
                yield Container(path, field, body)
    yield from pod.added


def volumes_of(pod: PodSpec, later: Later) -> Iterator[tuple[str, Any]]:
    """Path within the pod spec and volume of all volumes of a pod. Unknown ones are put off."""
    yield from entries(pod.spec, "volumes", later)
    for volume in pod.volumes:
        yield f"volumes[{volume['name']}]", volume


def gpu_amounts(container: Container, field: str, later: Later) -> dict[str, Any]:
    """GPU resources of `resources.limits` or `resources.requests` with their amounts. Unknown ones are put off."""
    found = {}
    with later:
        amounts = walk(container.body, "resources", field)
        for name in keys(amounts):
            with later:
                if _is_gpu(name, amounts) and (amount := walk(amounts, name)) is not None:
                    found[name] = amount
    return found


def takes_gpus(pod: PodSpec, later: Later) -> bool:
    """Whether some container has a GPU limit or request."""
    return any(gpu_amounts(each, field, later) for each in containers_of(pod, later) for field in ("limits", "requests"))


def gpu_count(container: Container, later: Later) -> int:
    """How many GPUs or slices a container asks for, at least: what is unknown counts nothing and is put off."""
    limits, requests = (gpu_amounts(container, field, later) for field in ("limits", "requests"))
    return sum(max(_devices(limits.get(name)), _devices(requests.get(name))) for name in {*limits, *requests})


def _devices(amount: Any) -> int:
    return min(max(ceil(quantity(amount) or 0), 0), _MANY)


def of_gpu_pods(token: str, props: Any, faults: Callable[[PodSpec, Later], Iterable[str]], later: Later) -> Iterator[str]:
    """What `faults` says of the resource's pods that take GPUs. Where an unknown may make a pod one of them, it is put off."""
    for pod in pod_specs(token, props, later):
        hidden = Later()
        yield from provided(takes_gpus(pod, hidden), hidden, partial(faults, pod), later)


def tolerations(holder: Any, later: Later) -> Iterator[tuple[int, Toleration]]:
    """Index and toleration of all `tolerations` of a pod spec, or of what has them like one. Unknown ones are put off."""
    with later:
        for index, item in items(walk(holder, "tolerations"), later):
            with later:
                yield (
                    index,
                    Toleration(
                        key=text(walk(item, "key")),
                        operator=text(walk(item, "operator")),
                        value=text(walk(item, "value")),
                        effect=text(walk(item, "effect")),
                    ),
                )


def serves_the_node(pod: PodSpec, allowed: Iterable[str], later: Later) -> bool:
    """Whether all containers, and there are some, have a name that is allowed. An unknown is put off where it decides."""
    unknown, unnamed = Later(), Later()
    containers = tuple(containers_of(pod, unknown))
    for container in containers:
        with unnamed:
            if text(walk(container.body, "name")) not in allowed:
                return False
    unnamed.join(unknown)
    later.join(unnamed)
    return bool(containers) and not unnamed


def steps(path: str) -> tuple[str | int, ...]:
    """A path of ours ("items[0].spec.containers[1]") as object keys and list indices."""
    return tuple(int(match[1]) if match[1] else match[0] for match in _STEP.finditer(path))


def _is_gpu(name: str, amounts: Any) -> bool:
    """A GPU resource, or the first half of one whose dot YAML or `--set` took for nesting."""
    head, _, tail = GPU_RESOURCE.partition(".")
    return is_gpu_resource(name) or (name == head and walk(amounts, head, tail) is not None)


def _at(prefix: str, value: Any, path: tuple[str, ...], later: Later) -> Iterator[PodSpec]:
    with later:
        spec = walk(value, *path)
        if spec is not None:
            yield PodSpec(prefix + ".".join(path), spec, owner=value, owner_path=prefix)


def _runner_pod(prefix: str, values: Any, later: Later) -> Iterator[PodSpec]:
    added = tuple(_added(each) for each in charts.added(values, later))
    volumes = tuple(charts.volumes(values, later))
    # While the mode is unknown, that container may be left out.
    left_out = frozenset((charts.DIND,))
    with later:
        left_out = charts.left_out(values)
    with later:
        spec = walk(values, "template", "spec")
        yield PodSpec(f"{prefix}template.spec", {} if spec is None else spec, added, volumes, left_out, values, prefix)


def _added(made: charts.Added) -> Container:
    field = INIT if made.init else REGULAR
    return Container(f"{field}[{made.body['name']}]", field, made.body, made.why)


def _listener_pod(prefix: str, holder: Any, path: tuple[str, ...], later: Later) -> Iterator[PodSpec]:
    with later:
        template = walk(holder, *path)
        spec = walk(template, "spec")
        if spec is not None:
            yield PodSpec(f"{prefix}listenerTemplate.spec", spec, owner=template, owner_path=f"{prefix}listenerTemplate.")
