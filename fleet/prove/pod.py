"""A pod as its manifest describes it, read from a Pod or from any object with a pod template."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from fleet.facts.errors import InputError, quoted
from fleet.facts.nested import part
from fleet.facts.pods import Amount
from fleet.facts.quantities import quantity
from fleet.facts.record import Record, Same
from fleet.facts.requests import amounts, requested, requests_of, resources
from fleet.facts.scheduling import QUEUE_LABEL, Toleration
from fleet.facts.tables import beside

_DATA = beside(__file__, "pod.toml")
SPECS = tuple(map(tuple, _DATA["paths"]))
"""Where objects have the spec of a pod."""
PLAIN = ("cpu", "memory", "ephemeral-storage")
"""Resources that every node has. All others are extended resources or huge pages."""


class Request(Record):
    """The request of one resource: millicores or MiB. `limit` is 0 if it is not the same as the request."""

    request: int
    limit: int = 0

    def times(self, count: int) -> "Request":
        """The same for several of them."""
        return Request(self.request * count, self.limit * count)


class PodAsk(Record):
    """What a pod reserves on a node, for placement. `gpus` are units of the node's own resource."""

    gpus: int
    cpu: Amount
    memory: Amount
    scratch: int

    def times(self, count: int) -> "PodAsk":
        """The same for several pods together."""
        cpu, memory = (Request(amount.request, amount.limit).times(count) for amount in (self.cpu, self.memory))
        return PodAsk(self.gpus * count, cpu, memory, self.scratch * count)


class Pod(Record):
    """One pod: the object that creates it, and its spec. `namespace` is empty if the manifest names none.

    `queue` is the object's label of Kueue's queue. `count` is the number of pods that a Job runs at the same time. `suspended`:
    whether the Job waits until something starts it. `labels` are those of the pod. `zones`: the zone of each volume that is bound
    to one.
    """

    kind: str
    name: str
    namespace: str
    spec: Mapping[str, Any]
    queue: str
    count: int
    suspended: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    zones: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The namespace; Kubernetes takes `default` if the manifest names none."""
        return self.namespace or "default"

    @property
    def label(self) -> str:
        """Kind, namespace and name for people."""
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"

    def text(self, key: str) -> str:
        """A text of the spec; empty if it is not set."""
        return str(self.spec.get(key) or "")

    def each(self, key: str) -> list[dict[str, Any]]:
        """The objects of a list of the spec."""
        return list(self.spec.get(key) or ())

    @property
    def containers(self) -> list[dict[str, Any]]:
        """All containers, init containers first."""
        return [*self.each("initContainers"), *self.each("containers")]

    @property
    def selector(self) -> dict[str, str]:
        """The node selector."""
        return dict(self.spec.get("nodeSelector") or {})

    @property
    def terms(self) -> list[dict[str, Any]]:
        """The terms of the required node affinity, of which one must match; empty if there is none."""
        affinity = (self.spec.get("affinity") or {}).get("nodeAffinity") or {}
        return list((affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ())

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """The tolerations, with Kubernetes' defaults for keys that are not set."""
        return _tolerations(Same(self.spec))

    @property
    def claims(self) -> list[str]:
        """The names of the PersistentVolumeClaims that it mounts."""
        names = ((volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in self.each("volumes"))
        return [str(name) for name in names if name]

    def requests(self, defaults: Mapping[str, Any] | None = None) -> dict[str, Fraction]:
        """What the scheduler reserves, by resource. `defaults` are the requests of containers without any (LimitRange)."""
        return requests_of(self.spec, defaults) if defaults else dict(_requests(Same(self.spec)))

    def ask(self, resource: str, defaults: Mapping[str, Any] | None = None) -> PodAsk:
        """What it reserves on a node that advertises `resource`."""
        requests = self.requests(defaults)
        cpu, memory, scratch = (requests.get(name, Fraction(0)) for name in PLAIN)
        cores, mebibytes = math.ceil(cpu * 1000), _mebibytes(memory)
        # QoS class Guaranteed: every container has limits of CPU and memory, and requests the same.
        limited = all(
            (limits := amounts(resources(container, "limits"))).get(name) and requested(container)[name] == limits[name]
            for container in self.containers
            for name in PLAIN[:2]
        )
        sizes = Request(cores, cores * limited), Request(mebibytes, mebibytes * limited)
        return PodAsk(math.ceil(requests.get(resource, 0)), *sizes, _mebibytes(scratch))


@lru_cache(maxsize=1024)
def _requests(spec: Same) -> Mapping[str, Fraction]:
    return requests_of(spec.value)


@lru_cache(maxsize=1024)
def _tolerations(spec: Same) -> tuple[Toleration, ...]:
    usual = {"key": "", "operator": "Equal", "value": "", "effect": ""}
    rows = ({key: str(row.get(key) or usual[key]) for key in usual} for row in spec.value.get("tolerations") or ())
    return tuple(Toleration(**row) for row in rows)


def _mebibytes(amount: Fraction) -> int:
    return math.ceil(amount / 2**20)


def pod_of(where: str, body: Mapping[str, Any]) -> Pod | None:
    """The pod of an object; None if the object has no pod spec. `where` is the object's place for error lines.

    Raises InputError for a pod spec that the API server does not read.
    """
    specs = ((".".join(path), spec) for path in SPECS if (spec := part(body, *path)))
    path, spec = next(((path, spec) for path, spec in specs if "containers" in spec), ("", {}))
    if not path:
        return None
    for at, rule in (*_faults(body.get("metadata"), {"labels": {}}, "metadata"), *_faults(spec, _DATA["shape"], path)):
        raise InputError(f"{where}: {at}: {rule}")
    if not spec["containers"]:
        raise InputError(f"{where}: {path}.containers: a pod has at least one container; add one")
    metadata, outer = part(body, "metadata"), part(body, "spec")
    is_job = body.get("kind") == "Job"
    count, queue = outer.get("parallelism") if is_job else None, (metadata.get("labels") or {}).get(QUEUE_LABEL)
    texts = (body.get("kind") or "Pod", metadata.get("name") or metadata.get("generateName"), metadata.get("namespace"), queue)
    kind, name, namespace, queue = (str(text or "") for text in texts)
    count = count if isinstance(count, int) and count > 0 else 1
    labels = {key: str(value) for key, value in part(body, *path.split(".")[:-1], "metadata", "labels").items()}
    return Pod(kind, name, namespace, spec, queue, count, is_job and outer.get("suspend") is True, labels)


def _faults(value: Any, shape: Any, at: str) -> Iterator[tuple[str, str]]:
    """(path, rule) of each value below `at` that does not have its shape: pod.toml explains shapes."""
    if value is None or shape == "anything":
        return
    kind: Any
    kind, kind_name = (list, "a list") if isinstance(shape, list) else (Mapping, "an object")
    if not isinstance(value, kind):
        yield at, f"must be {kind_name}; got {quoted(value)}; correct it"
    elif isinstance(shape, list):
        for index, item in enumerate(value):
            # An empty item is not an object.
            yield from _faults("" if item is None and shape[0] != "anything" else item, shape[0], f"{at}[{index}]")
    elif isinstance(shape, Mapping):
        for key, inner in shape.items():
            yield from _faults(value.get(key), inner, f"{at}.{key}")
    else:
        yield from ((f"{at}.{key}", rule) for key, item in value.items() if (rule := _CHECKS[shape](item)))


def _quantity(value: Any) -> str:
    number = quantity(value)
    correct = number is not None and number >= 0
    return "" if correct else f"a quantity is a number with a unit, such as 500m or 16Gi; got {quoted(value)}; correct it"


def _label(value: Any) -> str:
    return "" if isinstance(value, str) else f"the value of a label is a text; got {quoted(value)}; put quotes around it"


_CHECKS = {"quantity": _quantity, "label": _label}
