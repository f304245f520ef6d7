"""What the rules read of a pool of nodes, or of another resource that buys machines, by its kind.

- Whether and why a node pool is a GPU pool, its role, labels and taints, for each of `kinds.POOLS`. An Auto Scaling group is a
  GPU pool if it names GPU types, and has the role in Cluster Autoscaler's tag. A Talos node is always a GPU machine, because its
  component exists for nothing else. The labels of GPU nodes are derived from `fleet.facts.scheduling`, which alone defines them.
- The least, first and largest number of nodes.
- The machine types that a resource may buy, the path of each, and its row of the hardware table. For a launcher's runner set
  these are the shapes in the annotation of the runner pod. A type in a launch template belongs to the template, not to its
  group. EKS allows no other place for the type of a capacity block, so such a group also has it in a tag.
- How a pool may buy its machines: `fleet.facts.hardware`'s capacity types.
  - EKS: `capacityType`; CAPACITY_BLOCK is a capacity block. A group in a capacity reservation is ON_DEMAND and its reservation is
    in the launch template, so the rules trust the group's own label `gpu-ci/capacity=reserved`.
  - OKE: each placement, which is preemptible, in a reservation or on-demand.
  - Karpenter: its requirements, joined by AND. Without a requirement on the capacity type, a pool may buy every type
    (karpenter.sh, NodePools).
  - Auto Scaling groups: the distribution of a mixed instances policy. Without one the launch template decides, and the rules do
    not read that.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from fleet.facts import scheduling
from fleet.facts.hardware import CAPACITY_BLOCK, ON_DEMAND, RESERVED, SPOT, Machine, find, preemptible
from fleet.facts.quantities import quantity
from fleet.facts.record import Record

from . import kinds
from .kinds import AUTO_SCALING_GROUP, EKS_NODE_GROUP, KARPENTER_NODE_POOL, OKE_NODE_POOL, TALOS_NODE
from .read import SETTLED, Data, Later, entries, gpus, keys, label, line, provided, shown, text, walk, whole
from .record import Options
from .releases import Release, releases
from .userdata import script

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
"""Kubernetes' well-known label; its value is a machine's name."""

PLACEMENT_LABELS = (scheduling.POOL_LABEL, scheduling.ROLE_LABEL, scheduling.CAPACITY_LABEL)
"""Labels that distinguish pools. A pod that selects on one wants a GPU pool; a pool with one may still be a CPU pool."""

_ANY = "*"
_BOTH = (scheduling.POOL_LABEL, scheduling.ROLE_LABEL)
"""GPU pools and the system pool both have these labels, with different values."""
_ALIKE: dict[str, Any] = dict.fromkeys(("cluster", "pool", "role", "capacity", "accelerator"), _ANY)
_OF_POOLS = scheduling.pool_labels(**_ALIKE, profile=scheduling.EKS_PROFILE).items()
_ONLY_GPU = {key: value for key, value in _OF_POOLS if key not in (scheduling.CLUSTER_LABEL, *_BOTH)}
# GPU feature discovery puts its labels under this prefix (nvidia.com/gpu.product, nvidia.com/mig.capable …).
_DISCOVERED = "nvidia.com/"

GPU_TAINTS = tuple(
    replace(scheduling.Taint.read(term.text), effect=effect)
    for term in scheduling.VOCABULARY
    if term.kind == "taint" and term.key == scheduling.GPU_TAINT_KEY
    for effect in (scheduling.Effect.NO_SCHEDULE, scheduling.Effect.NO_EXECUTE)
)
"""The taints of GPU nodes of every provider, with both effects that keep pods off."""


def marks_gpus(key: str) -> bool:
    """Whether this label can mark a GPU node. Other labels are not read, so their values may be unknown."""
    return key in (*_BOTH, *_ONLY_GPU, INSTANCE_TYPE_LABEL) or key.startswith(_DISCOVERED)


def means_gpu(key: str, value: str) -> bool:
    """Whether nodes with this label are GPU nodes."""
    if key in _BOTH:
        return value not in ("", scheduling.SYSTEM_POOL)
    if (marker := _ONLY_GPU.get(key)) is not None:
        return marker in (_ANY, value)
    return key.startswith(_DISCOVERED)


def key_means_gpu(key: str) -> bool:
    """Whether nodes that have this label at all, with any value, are GPU nodes."""
    return _ONLY_GPU.get(key) == _ANY or key.startswith(_DISCOVERED)


# Accelerated EC2 families start with p or g (p5, g4dn, gr6). OCI's GPU shapes start with VM.GPU or BM.GPU.
_ACCELERATED_FAMILY = re.compile(r"(?:p|gr?)[0-9][0-9a-z-]*")
_ACCELERATED = re.compile(rf"{_ACCELERATED_FAMILY.pattern}\..*|(?:VM|BM)\.GPU.*", re.DOTALL)

FAMILY_LABEL = "karpenter.k8s.aws/instance-family"
CATEGORY_LABEL = "karpenter.k8s.aws/instance-category"


@lru_cache(maxsize=1024)
def machine_sign(name: str) -> str:
    """Why a machine is a GPU machine ("g5.xlarge has 1 GPU"); "" for a machine without GPU."""
    if (row := find(name)) is None:
        accelerated_name = _ACCELERATED.fullmatch(name) is not None
        return f"{shown(name)} is of an accelerated family, though not in the hardware table" if accelerated_name else ""
    return f"{name} has {gpus(row.gpus)}" if row.gpus else ""


@lru_cache(maxsize=1024)
def sold_as_spot(name: str) -> bool:
    """Whether the machine's cloud sells it as spot; False for a name that is not in the hardware table."""
    row = find(name)
    return row is not None and preemptible(row)


def accelerated(family: str) -> bool:
    """Whether an EC2 family (g5) or category (g) is accelerated."""
    return family in ("g", "gr", "p") or _ACCELERATED_FAMILY.fullmatch(family) is not None


def gpu_sign(token: str, props: Data, later: Later) -> str:
    """Where and why the pool is a GPU pool; "" if no known value shows it. `later` collects unknown values."""
    signs = _SIGNS[token](props, later) if token in _SIGNS else _type_signs(choices(token, props, later))
    return next(signs, "")


def of_gpu_pool(token: str, props: Data, faults: Callable[[Later], Iterable[str]], later: Later) -> Iterator[str]:
    """The faults of a GPU pool, each with the reason why it is one. If an unknown value may make it one, `later` collects it."""
    unsigned = Later()
    sign = gpu_sign(token, props, unsigned)
    yield from provided(bool(sign), unsigned, lambda unsure: (f"{fault} ({sign})" for fault in faults(unsure)), later)


def role(token: str, props: Data) -> str:
    """The pool's role label; "" if it has none. Raises UnknownError."""
    later = Later()
    labels = set_labels(token, props, later)
    if scheduling.ROLE_LABEL not in keys(labels):
        later.settle()
    return label(walk(labels, scheduling.ROLE_LABEL))


def set_labels(token: str, props: Data, later: Later) -> Data:
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
    if token == OKE_NODE_POOL:
        return _registered(text(later.walk(props, *_USER_DATA)))
    return entries(props, _TAINTS[token], later)


def leaves(token: str, props: Data) -> bool:
    """Whether a pool is of an earlier generation, or removed: it gets no new pod, and can only shrink. Raises UnknownError.

    OCI's pools have no taints, but a tag. The autoscaler may give one that leaves no node.
    """
    if token in (OKE_NODE_POOL, kinds.OCI_INSTANCE_POOL):
        return walk(props, *OKE_LEAVING) is not None or text(walk(props, *OKE_MOST)) == "0"
    unread = Later()
    read = taints(token, props, unread) if token in kinds.POOLS else ()
    if any(text(unread.walk(taint, "key")) == scheduling.LEAVING.key for _, taint in read):
        return True
    unread.settle()
    return False


def requirements(props: Data, later: Later) -> Iterator[tuple[str, str, str, Data]]:
    """Path, key, operator and body of each requirement of a Karpenter NodePool. `later` collects unknown ones."""
    for path, item in entries(props, "spec.template.spec.requirements", later):
        with later:
            yield path, text(walk(item, "key")), text(walk(item, "operator")), item


def offers(props: Data, labels: Container[str], later: Later) -> Iterator[tuple[str, str, Data]]:
    """Path, key and body of each requirement of a Karpenter NodePool that lists values of one of these labels."""
    rows = requirements(props, later)
    return ((path, key, item) for path, key, operator, item in rows if operator == "In" and key in labels)


def _eks_sign(props: Data, later: Later) -> Iterator[str]:
    ami = text(later.walk(props, "amiType"))
    # AL2_x86_64_GPU is the only GPU AMI type without the vendor's name (EKS API, AMITypes).
    if "_NVIDIA" in ami or ami == "AL2_x86_64_GPU":
        yield f"amiType is {shown(ami)}"
    yield from _type_signs(_listed("", props, "instanceTypes", later))
    yield from _labels("labels", later.walk(props, "labels"), later)


def _karpenter_sign(props: Data, later: Later) -> Iterator[str]:
    for path, key, operator, item in requirements(props, later):
        # These operators ask for a label; NotIn, DoesNotExist, Lt and Lte exclude it.
        if key.startswith("karpenter.k8s.aws/instance-gpu-") and operator in ("Exists", "Gt", "Gte", "In"):
            yield f"{path} asks for {line(key)}"
        elif operator == "In" and key in (INSTANCE_TYPE_LABEL, FAMILY_LABEL, CATEGORY_LABEL):
            for place, name in entries(item, "values", later):
                if key == INSTANCE_TYPE_LABEL:
                    sign = machine_sign(text(name))
                else:
                    sign = f"{shown(name)} is accelerated" if accelerated(text(name)) else ""
                if sign:
                    yield f"{path}.{place}: {sign}"
    labels = _LABELS[KARPENTER_NODE_POOL]
    yield from _labels(".".join(labels), later.walk(props, *labels), later)
    limits = later.walk(props, "spec", "limits")
    for name in filter(scheduling.is_gpu_resource, keys(limits)):
        if quantity(value := later.walk(limits, name)):
            yield f"spec.limits[{shown(name)}] is {shown(value)}"


def _talos_sign(props: Data, later: Later) -> Iterator[str]:
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
                if means_gpu(key, label(value := walk(labels, key))):
                    yield f"{path}[{shown(key)}] is {shown(value)}"


_SIGNS = {EKS_NODE_GROUP: _eks_sign, KARPENTER_NODE_POOL: _karpenter_sign, TALOS_NODE: _talos_sign}
_LABELS = kinds.fields("labels")
_LISTED_LABELS = kinds.fields("listed_labels")
"""The list of labels of a kind, and the prefix of their keys."""
_USER_DATA = ("nodeMetadata", "user_data")
_REGISTER = re.compile(r"--register-with-taints[= ][\"']?([^\s\"'\\]+)")
_TAINTS = kinds.fields("taints")


OKE_SIZE = ("nodeConfigDetails", "size")
OKE_MOST = ("freeformTags", scheduling.MOST_NODES_TAG)
"""The tag with the maximum. The autoscaler's argument also has it, but with the pool's OCID, so a preview does not know it."""

LEAST = kinds.fields("least")
"""The nodes that a pool always keeps. OKE's size is the first number of nodes, and the least if an autoscaler scales the pool."""
OKE_LEAVING = ("freeformTags", scheduling.LEAVING.key)
"""The tag of a node pool of an earlier generation. It keeps no node: its size is what it has until its jobs end."""

FIRST = kinds.fields("first")
"""The nodes that it starts with, if a separate property says so."""

_MOST = kinds.fields("most")


def least(token: str, props: Data) -> int:
    """The least number of nodes of a pool; 0 if it sets none. Raises UnknownError."""
    return 0 if token == OKE_NODE_POOL and walk(props, *OKE_LEAVING) is not None else whole(walk(props, *LEAST[token])) or 0


def most(token: str, props: Data, opts: Options) -> tuple[tuple[str, ...], Data]:
    """Path and value of the most nodes that a pool may have; the value is None if it sets none. Raises UnknownError.

    An OKE pool may grow to the maximum in its tag if the program ignores changes of its size. Without a tag it has no maximum.
    """
    if token != OKE_NODE_POOL:
        return _MOST[token], walk(props, *_MOST[token])
    if (tagged := walk(props, *OKE_MOST)) is not None or ignored(opts, OKE_SIZE):
        return OKE_MOST, tagged
    return OKE_SIZE, walk(props, *OKE_SIZE)


def ignored(opts: Options, path: tuple[str, ...]) -> bool:
    """Whether `ignoreChanges` covers a property: its own path, an outer one, or `*`."""
    heads = {".".join(path[: length + 1]) for length in range(len(path))}
    return any(pattern in heads or pattern == "*" for pattern in opts.ignore_changes)


CAPACITY_KEY = "karpenter.sh/capacity-type"


def bought(token: str, props: Data) -> frozenset[str]:
    """The capacity types that a pool may buy; none if its requirements exclude all. Raises UnknownError."""
    return _BOUGHT[token](props)


def _eks_bought(props: Data) -> frozenset[str]:
    if (way := {"SPOT": SPOT, "CAPACITY_BLOCK": CAPACITY_BLOCK}.get(text(walk(props, "capacityType")))) is None:
        way = RESERVED if text(walk(props, "labels", scheduling.CAPACITY_LABEL)) == RESERVED else ON_DEMAND
    return frozenset((way,))


def _oke_bought(props: Data) -> frozenset[str]:
    places = entries(props, "nodeConfigDetails.placementConfigs", SETTLED)
    return frozenset(oci_way(place, "preemptibleNodeConfig") for _, place in places) or frozenset((ON_DEMAND,))


def oci_way(place: Data, preemptible: str) -> str:
    """The way to buy an OCI machine, from its launch details or its place. Raises UnknownError."""
    reserved = text(walk(place, "capacityReservationId"))
    return SPOT if keys(walk(place, preemptible)) else RESERVED if reserved else ON_DEMAND


def _karpenter_bought(props: Data) -> frozenset[str]:
    allowed = frozenset((SPOT, ON_DEMAND, RESERVED))
    for _, key, operator, item in requirements(props, SETTLED):
        if key == CAPACITY_KEY and operator in ("In", "NotIn"):
            types = frozenset(text(name) for _, name in entries(item, "values", SETTLED))
            allowed = allowed & types if operator == "In" else allowed - types
    return allowed


def _scaling_group_bought(props: Data) -> frozenset[str]:
    spread = walk(props, "mixedInstancesPolicy", "instancesDistribution")
    if (above := whole(walk(spread, "onDemandPercentageAboveBaseCapacity"))) is None or above >= 100:  # per cent
        return frozenset((ON_DEMAND,))
    only_spot = not above and not whole(walk(spread, "onDemandBaseCapacity"))
    return frozenset((SPOT,)) if only_spot else frozenset((SPOT, ON_DEMAND))


_BOUGHT: dict[str, Callable[[Data], frozenset[str]]] = {
    EKS_NODE_GROUP: _eks_bought,
    OKE_NODE_POOL: _oke_bought,
    KARPENTER_NODE_POOL: _karpenter_bought,
    AUTO_SCALING_GROUP: _scaling_group_bought,
}


ANNOTATIONS = ("template", "metadata", "annotations")
"""Path of the runner pod's annotations in the values of the scale-set chart."""

TAGGED = f'tags["{scheduling.BLOCK_TYPE_TAG}"]'
"""Path of the type of a capacity block. What its launch template says counts, where that can be read."""


class Choice(Record):
    """A machine type that a resource may buy, and the path of the property that says so."""

    path: str
    name: str

    @property
    def machine(self) -> Machine | None:
        """Its row of the hardware table, if there is one."""
        return find(self.name)

    @property
    def gpus(self) -> int | None:
        """GPUs of one machine; None if the machine is accelerated and not in the table."""
        if (row := self.machine) is not None:
            return row.gpus
        return None if machine_sign(self.name) else 0


def choices(token: str, props: Data, later: Later) -> Iterator[Choice]:
    """The machine types that a resource names; none for a kind without any. `later` collects unknown ones."""
    if token == EKS_NODE_GROUP:
        yield from _eks_types(props, later)
    elif token == KARPENTER_NODE_POOL:
        for path, _, item in offers(props, (INSTANCE_TYPE_LABEL,), later):
            yield from _listed(f"{path}.", item, "values", later)
    elif token in _TYPE_FIELDS:
        for prefix, body in kinds.bodies(token, props, later):
            if name := text(later.walk(body, _TYPE_FIELDS[token])):
                yield Choice(prefix + _TYPE_FIELDS[token], name)
    for release in releases(token, props, later):
        yield from booted(release, later)


def booted(release: Release, later: Later) -> Iterator[Choice]:
    """The machine types that the launchers of a release boot; none for any other chart. `later` collects unknown ones."""
    with later:
        if release.is_scale_set:
            names = text(walk(release.values, *ANNOTATIONS, scheduling.MACHINE_SHAPES)).split(",")
            path = f'{".".join((release.values_path, *ANNOTATIONS))}["{scheduling.MACHINE_SHAPES}"]'
            yield from (Choice(path, name) for name in filter(None, names))


def gpus_each(types: Sequence[Choice]) -> int | None:
    """The most GPUs that one machine of the choices has; None if some cannot be counted, or there are no choices."""
    counted = [choice.gpus for choice in types]
    return max((gpus for gpus in counted if gpus is not None), default=None) if None not in counted else None


def _eks_types(props: Data, later: Later) -> Iterator[Choice]:
    with later:
        if walk(props, "instanceTypes") is None:
            if name := text(walk(props, "tags", scheduling.BLOCK_TYPE_TAG)):
                yield Choice(TAGGED, name)
            elif not keys(walk(props, "launchTemplate")):
                # EKS API, CreateNodegroup.
                yield Choice("instanceTypes is not set, so EKS's default", "t3.medium")
        yield from _listed("", props, "instanceTypes", later)


def _type_signs(types: Iterable[Choice]) -> Iterator[str]:
    return (f"{choice.path}: {sign}" for choice in types if (sign := machine_sign(choice.name)))


def _listed(prefix: str, holder: Data, field: str, later: Later) -> Iterator[Choice]:
    yield from (Choice(prefix + path, name) for path, item in entries(holder, field, later) if (name := text(item)))


_TYPE_FIELDS = kinds.fields("machine")
"""The field of each machine that a resource describes (`kinds.bodies`)."""
MACHINE_KINDS = frozenset((*_TYPE_FIELDS, EKS_NODE_GROUP, KARPENTER_NODE_POOL))
"""Tokens of resources that name the machine types that they buy."""
