"""Whether and why a node pool is a GPU pool, and its role and taints, for each of `kinds.POOLS`.

An Auto Scaling group is a GPU pool if it names GPU types, and has the role in Cluster Autoscaler's tag. A Talos node is always a
GPU machine, because its component exists for nothing else.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from fleet.facts.hardware import UnknownMachine, machine, preemptible
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import ROLE_LABEL, is_gpu_resource

from .kinds import AUTO_SCALING_GROUP, EKS_NODE_GROUP, KARPENTER_NODE_POOL, OKE_NODE_POOL, TALOS_NODE
from .labels import INSTANCE_TYPE_LABEL, PLACEMENT_LABELS, marks_gpus, means_gpu
from .read import Data, Later, entries, gpus, keys, label, line, provided, shown, text, walk, whole
from .userdata import script

# Accelerated EC2 families start with p or g (p5, g4dn, gr6). OCI's GPU shapes start with VM.GPU or BM.GPU.
_ACCELERATED_FAMILY = re.compile(r"(?:p|gr?)[0-9][0-9a-z-]*")
_ACCELERATED = re.compile(rf"{_ACCELERATED_FAMILY.pattern}\..*|(?:VM|BM)\.GPU.*", re.DOTALL)
_ACCELERATED_CATEGORY = ("g", "gr", "p")

FAMILY_LABEL = "karpenter.k8s.aws/instance-family"
CATEGORY_LABEL = "karpenter.k8s.aws/instance-category"
_GPU_LABEL_PREFIX = "karpenter.k8s.aws/instance-gpu-"
# Operators of a requirement that ask for a label; NotIn, DoesNotExist, Lt and Lte exclude it.
_ASKING = ("Exists", "Gt", "Gte")


@lru_cache(maxsize=1024)
def machine_sign(name: str) -> str:
    """Why a machine is a GPU machine ("g5.xlarge has 1 GPU"); "" for a machine without GPU."""
    try:
        row = machine(name)
    except UnknownMachine:
        if _ACCELERATED.fullmatch(name) is None:
            return ""
        return f"{shown(name)} is of an accelerated family, though not in the hardware table"
    return f"{name} has {gpus(row.gpus)}" if row.gpus else ""


@lru_cache(maxsize=1024)
def sold_as_spot(name: str) -> bool:
    """Whether the machine's cloud sells it as spot; False for a name that is not in the hardware table."""
    try:
        return preemptible(machine(name))
    except UnknownMachine:
        return False


def accelerated(family: str) -> bool:
    """Whether an EC2 family (g5) or category (g) is accelerated."""
    return family in _ACCELERATED_CATEGORY or _ACCELERATED_FAMILY.fullmatch(family) is not None


def gpu_sign(token: str, props: Data, later: Later) -> str:
    """Where and why the pool is a GPU pool; "" if no known value shows it. `later` collects unknown values."""
    return next(_SIGNS[token](props, later), "")


def of_gpu_pool(token: str, props: Data, faults: Callable[[Later], Iterable[str]], later: Later) -> Iterator[str]:
    """The faults of a GPU pool, each with the reason why it is one. If an unknown value may make it one, `later` collects it."""
    unsigned = Later()
    sign = gpu_sign(token, props, unsigned)
    yield from provided(bool(sign), unsigned, lambda unsure: (f"{fault} ({sign})" for fault in faults(unsure)), later)


def role(token: str, props: Data) -> str:
    """The pool's role label; "" if it has none. Raises UnknownError."""
    later = Later()
    labels = pool_labels(token, props, later)
    if ROLE_LABEL not in keys(labels):
        later.settle()
    return label(walk(labels, ROLE_LABEL))


def pool_labels(token: str, props: Data, later: Later) -> Data:
    """The labels that a pool sets on its nodes: a value may be unknown. `later` collects unknown items. Raises UnknownError."""
    if token not in _LISTED_LABELS:
        return walk(props, *_LABELS[token])
    field, prefix = _LISTED_LABELS[token]
    labels: dict[str, Data] = {}
    for _, entry in entries(props, field, later):
        with later:
            if (key := text(walk(entry, "key"))).startswith(prefix):
                labels[key.removeprefix(prefix)] = walk(entry, "value")
    return labels


def taints(token: str, props: Data, later: Later) -> Iterator[tuple[str, Data]]:
    """Path and body of each taint that a pool sets. `later` collects unknown ones.

    OKE has no property for taints: they are an argument of kubelet in the nodes' user data. Taints that OKE adds are left out.
    """
    with later:
        if token == OKE_NODE_POOL:
            yield from _registered(text(walk(props, *_USER_DATA)))
            return
        yield from entries(props, _TAINTS[token], later)


def requirements(props: Data, later: Later) -> Iterator[tuple[str, str, str, Data]]:
    """Path, key, operator and body of each requirement of a Karpenter NodePool. `later` collects unknown ones."""
    for path, item in entries(props, "spec.template.spec.requirements", later):
        with later:
            yield path, text(walk(item, "key")), text(walk(item, "operator")), item


def _eks(props: Data, later: Later) -> Iterator[str]:
    with later:
        ami = text(walk(props, "amiType"))
        # AL2_x86_64_GPU is the only GPU AMI type without the vendor's name (EKS API, AMITypes).
        if "_NVIDIA" in ami or ami == "AL2_x86_64_GPU":
            yield f"amiType is {shown(ami)}"
    for path, name in entries(props, "instanceTypes", later):
        if sign := machine_sign(text(name)):
            yield f"{path}: {sign}"
    with later:
        yield from _labels("labels", pool_labels(EKS_NODE_GROUP, props, later), later)


def _oke(props: Data, later: Later) -> Iterator[str]:
    with later:
        if sign := machine_sign(text(walk(props, "nodeShape"))):
            yield f"nodeShape: {sign}"


def _karpenter(props: Data, later: Later) -> Iterator[str]:
    for path, key, operator, item in requirements(props, later):
        if key.startswith(_GPU_LABEL_PREFIX) and operator in (*_ASKING, "In"):
            yield f"{path} asks for {line(key)}"
        elif operator == "In" and key in (INSTANCE_TYPE_LABEL, FAMILY_LABEL, CATEGORY_LABEL):
            for place, name in entries(item, "values", later):
                if key == INSTANCE_TYPE_LABEL:
                    sign = machine_sign(text(name))
                else:
                    sign = f"{shown(name)} is accelerated" if accelerated(text(name)) else ""
                if sign:
                    yield f"{path}.{place}: {sign}"
    with later:
        yield from _labels("spec.template.metadata.labels", pool_labels(KARPENTER_NODE_POOL, props, later), later)
    with later:
        limits = walk(props, "spec", "limits")
        for name in filter(is_gpu_resource, keys(limits)):
            with later:
                value = walk(limits, name)
                if quantity(value):
                    yield f"spec.limits[{shown(name)}] is {shown(value)}"


def _scaling_group(props: Data, later: Later) -> Iterator[str]:
    for path, override in entries(props, "mixedInstancesPolicy.launchTemplate.overrides", later):
        with later:
            if sign := machine_sign(text(walk(override, "instanceType"))):
                yield f"{path}.instanceType: {sign}"


def _talos(props: Data, later: Later) -> Iterator[str]:
    # The node is a GPU machine even if its hardware is unknown. No table has it: its inputs do.
    with Later():
        if count := whole(walk(props, "gpus")):
            yield f"gpus is {count}"
    yield TALOS_NODE


def _registered(user_data: str) -> Iterator[tuple[str, dict[str, str]]]:
    for taints_given in _REGISTER.findall(script(user_data)) if user_data else ():
        for taint in taints_given.split(","):
            name, _, effect = taint.rpartition(":")
            key, _, value = name.partition("=")
            yield f"{'.'.join(_USER_DATA)} (--register-with-taints)", {"key": key, "value": value, "effect": effect}


def _labels(path: str, labels: Data, later: Later) -> Iterator[str]:
    for key in keys(labels):
        if key not in PLACEMENT_LABELS and marks_gpus(key):
            with later:
                value = walk(labels, key)
                if means_gpu(key, label(value)):
                    yield f"{path}[{shown(key)}] is {shown(value)}"


_SIGNS = {
    EKS_NODE_GROUP: _eks,
    OKE_NODE_POOL: _oke,
    KARPENTER_NODE_POOL: _karpenter,
    AUTO_SCALING_GROUP: _scaling_group,
    TALOS_NODE: _talos,
}
_LABELS = {
    EKS_NODE_GROUP: ("labels",),
    KARPENTER_NODE_POOL: ("spec", "template", "metadata", "labels"),
    TALOS_NODE: ("nodeLabels",),
}
_LISTED_LABELS = {
    OKE_NODE_POOL: ("initialNodeLabels", ""),
    # Cluster Autoscaler reads the labels of an empty group's future nodes from such tags.
    AUTO_SCALING_GROUP: ("tags", "k8s.io/cluster-autoscaler/node-template/label/"),
}
"""The list of labels of a kind, and the prefix of their keys."""
_USER_DATA = ("nodeMetadata", "user_data")
_REGISTER = re.compile(r"--register-with-taints[= ][\"']?([^\s\"'\\]+)")
_TAINTS = {EKS_NODE_GROUP: "taints", KARPENTER_NODE_POOL: "spec.template.spec.taints"}
