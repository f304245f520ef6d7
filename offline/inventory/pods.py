"""A pod as its spec has it: what it asks of a node, what it mounts, where it may land."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.facts.scheduling import is_gpu_resource
from fleet.jobs.volumes import SHM
from offline.inventory.quantities import mebibytes, millicores


@dataclass(frozen=True, slots=True)
class Span:
    """What is requested of a resource and the most that is taken, in millicores or MiB; None where nothing bounds that."""

    request: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume and the `path` that the container has it at.

    `kind` is the key of its source in a pod spec, `name` the claim, object or path of the host that it names (empty of a folder
    that goes with the pod), `size` is in MiB, 0 where the spec says none.
    """

    kind: str
    name: str
    path: str
    size: int
    read_only: bool


@dataclass(frozen=True, slots=True)
class Pod:
    """What `fleet.prove.placement.fit` asks of a pod, and the rest of what a node must give it. `scratch` and `shm` are in MiB.

    `resource` is empty and `gpus` 0 where it takes no GPU; `shm` is None where it mounts no /dev/shm of its own.
    """

    image: str
    resource: str
    gpus: int
    cpu: Span
    memory: Span
    scratch: int
    shm: int | None
    volumes: tuple[Volume, ...]
    selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, str], ...]
    runtime_class: str
    priority: str

    @property
    def devices(self) -> tuple[str, ...]:
        """Paths of the host that it has."""
        return tuple(volume.name for volume in self.volumes if volume.kind == "hostPath")


def pod_of(spec: Mapping[str, Any]) -> Pod:
    """The pod of a spec, which has one container, as all that the program makes."""
    (container,) = spec["containers"]
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    gpus = {name: int(count) for name, count in limits.items() if is_gpu_resource(name)}
    (resource, count), *others = gpus.items() or [("", 0)]
    if others:
        raise ValueError(f"{container['name']}: takes {', '.join(gpus)}, and a pool advertises one of them; tell them apart here")
    volumes = tuple(_volumes(spec, container))
    shm = next((each.size for each in volumes if each.path == SHM), None)
    return Pod(
        image=container["image"],
        resource=resource,
        gpus=count,
        cpu=_span(millicores, requests["cpu"], limits.get("cpu")),
        memory=_span(mebibytes, requests["memory"], limits.get("memory")),
        scratch=mebibytes(requests["ephemeral-storage"]) if "ephemeral-storage" in requests else 0,
        shm=shm,
        volumes=tuple(each for each in volumes if each.path != SHM),
        selector=spec.get("nodeSelector", {}),
        tolerations=tuple(spec.get("tolerations", ())),
        runtime_class=spec.get("runtimeClassName", ""),
        priority=spec.get("priorityClassName", ""),
    )


def _span(unit: Callable[[str], int], request: str, limit: str | None) -> Span:
    return Span(unit(request), None if limit is None else unit(limit))


_NAMED = {"persistentVolumeClaim": "claimName", "hostPath": "path", "configMap": "name", "secret": "secretName"}
"""Kinds of volumes, with the field that says which one."""


def _volumes(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[Volume]:
    """What the container mounts, in its order."""
    sources = {each["name"]: {key: held for key, held in each.items() if key != "name"} for each in spec.get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        ((kind, source),) = sources[mount["name"]].items()
        size = source.get("sizeLimit") if kind == "emptyDir" else None
        yield Volume(
            kind,
            str(source[_NAMED[kind]]) if kind in _NAMED else "",
            mount["mountPath"],
            0 if size is None else mebibytes(size),
            bool(mount.get("readOnly")),
        )
