"""Groups of identical machines that a stack can have. Rules that add up GPUs, money or quotas read these groups.

A group is an EKS pool with all its node groups, an OKE node pool, an Auto Scaling group, a Karpenter NodePool, an EC2 or OCI
instance, or a spot request. An OCI instance pool with its configuration is a group too, and so are runner sets whose launchers
boot a machine for each job (the annotations of the runner pod name that machine). Components do not count, because their children
do. Talos nodes do not count, because they are not billed by the hour. EC2 fleets are left out: their capacity need not be a count
of machines.

A group's dependencies show its launch template or configuration, because ids are unknown before they exist.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from functools import partial

from fleet.facts import scheduling
from fleet.facts.bill import Warm, Window, assumption, read as windows_in
from fleet.facts.hardware import CAPACITY_BLOCK, ON_DEMAND, PREPAID, RESERVED, SPOT
from fleet.facts.record import Record

from . import kinds, pools
from .node_groups import Pool, pooled
from .pools import ANNOTATIONS, TAGGED, Choice, booted, bought, choices, gpu_sign, gpus_each, set_labels
from .read import Data, Later, UndeterminableError, count, keys, label, line, text, true, walk, whole
from .record import Resource
from .releases import Release, releases
from .volumes import Volume, of_ec2, of_oci, of_template

AWS, OCI = "aws", "oci"
TIMES = "\N{MULTIPLICATION SIGN}"
SHOWN = 4
LEFT = " (leaving)"
"""What follows the name of a pool of an earlier generation, which gets no new pod and keeps no node."""
"""How many parts of a sum a message lists."""


class Group(Record, kw_only=True):
    """`least` to `most` machines, each any of `choices`, bought as `capacity` (the most expensive way that is possible).

    `most` is None if nothing bounds their count; `gpu_limit` bounds their GPUs instead (Karpenter). `reserved` is how many of
    them a capacity reservation or capacity block holds. `windows` are those of schedules, `warm` is a warm pool, `zones` the
    number of node groups, and `spare` how many more machines may run while some are replaced. `regions` are the regions that a
    machine may be in, empty if nothing names one. `flex` is the OCPUs and GB of a flexible shape. `accelerated` is False if the
    group certainly has no GPU. `settings` name the stack file's keys that lower `least` and `most`. `cluster` is the URN of the
    provider. `unnamed` has the unknown value if a label that names the pool is unknown.
    """

    name: str
    urn: str
    cloud: str
    regions: tuple[str, ...]
    choices: tuple[Choice, ...]
    capacity: str
    least: int
    most: int | None
    cluster: str = ""
    windows: tuple[Window, ...] = ()
    warm: Warm | None = None
    zones: int = 1
    spare: float = 0
    settings: tuple[str, str] = ("", "")
    volume: Volume | None = None
    flex: tuple[float, float] | None = None
    reserved: int | None = None
    gpu_limit: int | None = None
    accelerated: bool = True
    unnamed: Later = field(default_factory=Later, compare=False)

    @property
    def types(self) -> tuple[str, ...]:
        """Names of its machine types, each once."""
        return tuple(dict.fromkeys(choice.name for choice in self.choices))

    @property
    def leaves(self) -> bool:
        """Whether it gets no new pod."""
        return self.name.endswith(LEFT)

    @property
    def gpus(self) -> int | None:
        """The most GPUs of all its machines together; None if nothing bounds or counts them."""
        per_machine = gpus_each(self.choices) if self.accelerated else 0
        if per_machine == 0:
            return 0
        counted = None if per_machine is None or self.most is None else per_machine * self.most
        return min([bound for bound in (counted, self.gpu_limit) if bound is not None], default=None)


def groups(resources: Sequence[Resource], later: Later) -> tuple[Group, ...]:
    """The groups of a stack in order. A group with an unknown value is left out, and `later` collects the value."""
    machine_groups = []
    for resource in pooled(resources):
        # An Application may install several charts.
        readers: list[Callable[[Later], Group | None]] = [
            partial(_runner_set, resource, release) for release in releases(resource.type, resource.props, later)
        ]
        if resource.type in _READERS:
            readers.append(partial(_READERS[resource.type], resource, resources))
        for read in readers:
            unsure = Later()
            with unsure:
                if (group := read(unsure)) is not None and not unsure:
                    machine_groups.append(_left(group) if pools.leaves(resource.type, resource.props) else group)
            later.join(unsure)
    reserved = any(group.reserved is not None for group in machine_groups)
    staying = {(group.name + LEFT, group.capacity) for group in machine_groups if reserved}
    # The machines of a reservation count once, with the generation that gets the new pods.
    return tuple(group for group in machine_groups if group.reserved is None or (group.name, group.capacity) not in staying)


def _left(group: Group) -> Group:
    """A pool that leaves, at most with the nodes that it has. OKE's has a size alone."""
    most = None if group.most is None else max(group.least, group.most)
    return replace(group, name=group.name + LEFT, least=0, most=most, windows=(), warm=None, spare=0, settings=("", ""))


def regions_of(resources: Iterable[Resource]) -> tuple[str, ...]:
    """The regions in which a stack has resources of AWS. Raises UnknownError."""
    return tuple(sorted({region_of(resource) for resource in resources if resource.type.startswith("aws:")} - {""}))


def region_of(resource: Resource) -> str:
    """The region of a resource: its own (AWS only) or its provider's; "" without both. Raises UnknownError."""
    region = text(walk(resource.props, "region")) if resource.type.startswith("aws:") else ""
    return region or text(walk(resource.provider.props, "region"))


def several(parts: Sequence[str]) -> str:
    """The first few of a list, and how many more there are."""
    more = len(parts) - SHOWN
    return ", ".join(parts[:SHOWN]) + (f", and {more} more" if more > 0 else "")


def either(words: Iterable[str]) -> str:
    """Alternatives for a message ("a, b or c"): each word once, without empty ones."""
    *most, last = dict.fromkeys(filter(None, words)) or [""]
    return f"{', '.join(most)} or {last}" if most else last


# -- pools -------------------------------------------------------------------------------------------------------------


def _pool(resource: Resource, later: Later) -> dict[str, Data]:
    """The fields of `Group` that every kind of pool has."""
    token, props = resource.type, resource.props
    _, most = pools.most(token, props, resource.opts)
    unnamed = Later()
    return {
        "name": _pool_name(token, props, resource.name, unnamed),
        "unnamed": unnamed,
        "cluster": resource.provider.urn,
        "choices": tuple(choices(token, props, later)),
        "capacity": _most_expensive(bought(token, props)),
        "least": max(pools.least(token, props), 0),
        "most": _natural(most),
        "settings": ("nodes.min", "nodes.max"),
    }


def _eks(resource: Resource, _: Sequence[Resource], later: Later) -> Group:
    """An EKS node group or an Auto Scaling group. Only an EKS node group has a disk size and a warm pool, and can be reserved."""
    fields = _pool(resource, later)
    fields["choices"], template = _templated(resource, fields["choices"], later)
    fields["warm"] = _warm(walk(resource.props, "warmPoolConfig"))
    fields["zones"] = resource.groups if isinstance(resource, Pool) else 1
    if tagged := text(walk(resource.props, "tags", scheduling.SCHEDULED_NODES_TAG)):
        fields["windows"] = windows_of(tagged, f"{fields['name']}: tag {scheduling.SCHEDULED_NODES_TAG}")
        fields["settings"] = ("schedules", "nodes.max")
    if resource.type == kinds.EKS_NODE_GROUP and text(walk(resource.props, "updateConfig", "updateStrategy")) != "MINIMAL":
        fields["spare"] = assumption("update-nodes") * max(count(walk(resource.props, "subnetIds")) // fields["zones"], 1)
    volume = of_ec2(walk(resource.props, "diskSize")) if template is None else of_template(template.props)
    return Group(**_where(resource, AWS) | fields, volume=volume, reserved=_reserved(fields, resource, "tags"))


def windows_of(tagged: str, where: str) -> tuple[Window, ...]:
    """The windows of a tag. Raises UndeterminableError for any other text."""
    try:
        return windows_in(tagged)
    except (ValueError, KeyError):
        raise UndeterminableError(f"{where} has no windows that can be read: {line(tagged)}") from None


def _warm(config: Data) -> Warm | None:
    """The warm pool of a group; None without one."""
    if not keys(config):
        return None
    least, most = (_natural(walk(config, key)) or 0 for key in ("minSize", "maxGroupPreparedCapacity"))
    return Warm(least, most, text(walk(config, "poolState")) == "RUNNING")


def _oke(resource: Resource, _: Sequence[Resource], later: Later) -> Group:
    props = resource.props
    fields = _pool(resource, later)
    cycling = walk(props, "nodePoolCyclingDetails")
    if true(walk(cycling, "isNodeCyclingEnabled")):
        # OKE's default is 1. A percentage counts as all nodes.
        surge = walk(cycling, "maximumSurge")
        fields["spare"] = 1 if surge is None else whole(surge) if whole(surge) is not None else fields["most"] or 0
    return Group(
        **_where(resource, OCI) | fields,
        volume=of_oci(walk(props, "nodeSourceDetails", "bootVolumeSizeInGbs")),
        flex=_flex(walk(props, "nodeShapeConfig")),
        reserved=_reserved(fields, resource, "freeformTags"),
    )


def _karpenter(resource: Resource, resources: Sequence[Resource], later: Later) -> Group:
    props = resource.props
    limit = whole(walk(props, "spec", "limits", scheduling.GPU_RESOURCE))
    fields = _pool(resource, later) | {"settings": ("spec.replicas", "spec.limits")}
    if fields["most"] is None and walk(props, "spec", "replicas") is not None:
        # Static capacity: exactly this many nodes (karpenter.sh, spec.replicas).
        fields["most"] = fields["least"]
    return Group(
        **_where(resource, AWS) | fields | {"regions": regions_of(resources)},
        gpu_limit=None if limit is None else max(limit, 0),
        accelerated=bool(gpu_sign(kinds.KARPENTER_NODE_POOL, props, later)),
    )


def _reserved(fields: dict[str, Data], resource: Resource, tags: str) -> int | None:
    """Machines that the pool's reservation holds: the number in its tag, or else the most that the pool may use."""
    if fields["capacity"] not in PREPAID:
        return None
    tagged = _natural(walk(resource.props, tags, scheduling.RESERVED_NODES_TAG))
    most: int | None = fields["most"]
    return most if tagged is None else tagged


# -- single machines --------------------------------------------------------------------------------------------------


def _ec2(resource: Resource, _: Sequence[Resource], later: Later) -> Group:
    token, props = resource.type, resource.props
    types = _templated(resource, tuple(choices(token, props, later)), later)[0]
    market = "spot" if token == kinds.SPOT_REQUEST else text(walk(props, "instanceMarketOptions", "marketType"))
    root = walk(props, "rootBlockDevice")
    return Group(
        **_where(resource, AWS),
        choices=types,
        # EC2's names of markets (API, MarketType) are ours.
        capacity=market if market in (SPOT, CAPACITY_BLOCK) else ON_DEMAND,
        least=1,
        most=1,
        volume=of_ec2(walk(root, "volumeSize"), walk(root, "volumeType")),
    )


def _instance_pool(resource: Resource, _: Sequence[Resource], later: Later) -> Group:
    configuration = _behind(resource, "instanceConfigurationId", kinds.OCI_INSTANCE_CONFIGURATION)
    props = {} if configuration is None else configuration.props
    types = tuple(choices(kinds.OCI_INSTANCE_CONFIGURATION, props, later)) if configuration is not None else ()
    details = next((body for _, body in kinds.launches(props, later)), None)
    return _launched(resource, details, types, _natural(walk(resource.props, "size")))


def _launched(resource: Resource, details: Data, types: tuple[Choice, ...], size: int | None) -> Group:
    """OCI machines that run all the time, from their launch details."""
    return Group(
        **_where(resource, OCI, Later().get(lambda: text(walk(resource.props, "displayName")), "")),
        choices=types,
        capacity=pools.oci_way(details, "preemptibleInstanceConfig"),
        least=size or 0,
        most=size,
        settings=("count", "count") if resource.type == kinds.OCI_INSTANCE_POOL else ("", ""),
        volume=of_oci(walk(details, "sourceDetails", "bootVolumeSizeInGbs")),
        flex=_flex(walk(details, "shapeConfig")),
    )


def _runner_set(resource: Resource, release: Release, later: Later) -> Group | None:
    """The machines that the launchers of a runner set boot; None for a set without launchers and for any other chart."""
    if not (types := tuple(booted(release, later))):
        return None
    values = release.values
    annotations = walk(values, *ANNOTATIONS)
    capacity = text(walk(annotations, scheduling.MACHINE_CAPACITY))
    where = _where(resource, OCI, Later().get(lambda: release.name, ""))
    return Group(
        **where | {"regions": tuple(filter(None, text(walk(annotations, scheduling.MACHINE_REGIONS)).split(",")))},
        choices=types,
        capacity=capacity if capacity in (SPOT, RESERVED) else ON_DEMAND,
        least=_natural(walk(values, "minRunners")) or 0,
        most=_natural(walk(values, "maxRunners")),
        settings=("scale.min", "scale.max"),
        volume=of_oci(walk(annotations, scheduling.MACHINE_DISK)),
    )


# -- shared by several ---------------------------------------------------------------------------------------------------


def _behind(resource: Resource, field: str, token: str) -> Resource | None:
    """The resource of this type in the dependencies of a property, or of the whole resource."""
    candidates = [*resource.property_dependencies.get(field, ()), *resource.dependencies]
    return next((candidate for candidate in candidates if candidate.type == token), None)


def _templated(resource: Resource, types: tuple[Choice, ...], later: Later) -> tuple[tuple[Choice, ...], Resource | None]:
    """The machine types of a machine or group, or else of its launch template; and that template, if there is one."""
    template = _behind(resource, "launchTemplate", kinds.LAUNCH_TEMPLATE)
    if template is not None and not [choice for choice in types if choice.path != TAGGED]:
        types = tuple(choices(kinds.LAUNCH_TEMPLATE, template.props, later)) or types
    return types, template


def _where(resource: Resource, cloud: str, name: str = "") -> dict[str, Data]:
    """The fields of `Group` that say which machines it is about."""
    regions = tuple(filter(None, (region_of(resource),)))
    return {"name": line(name or resource.name), "urn": resource.urn, "cloud": cloud, "regions": regions}


def _most_expensive(ways: frozenset[str]) -> str:
    return next((way for way in (ON_DEMAND, RESERVED, CAPACITY_BLOCK, SPOT) if way in ways), ON_DEMAND)


def _natural(value: Data) -> int | None:
    return number if (number := whole(value)) is not None and number >= 0 else None


def _flex(config: Data) -> tuple[float, float] | None:
    ocpus, memory = walk(config, "ocpus"), walk(config, "memoryInGbs")
    return (float(ocpus), float(memory)) if isinstance(ocpus, (int, float)) and isinstance(memory, (int, float)) else None


def _pool_name(token: str, props: Data, otherwise: str, unnamed: Later) -> str:
    """The pool's name: cluster/pool from its labels, or else the resource's name. `unnamed` collects unknown labels."""
    with unnamed:
        unread = Later()
        labels = set_labels(token, props, unread) if token != kinds.AUTO_SCALING_GROUP else {}
        if scheduling.POOL_LABEL not in keys(labels):
            unread.settle()
        pool, cluster = (label(walk(labels, key)) for key in (scheduling.POOL_LABEL, scheduling.CLUSTER_LABEL))
        if pool:
            return line(f"{cluster}/{pool}" if cluster else pool)
    return line(otherwise)


_READERS: dict[str, Callable[[Resource, Sequence[Resource], Later], Group | None]] = {
    kinds.EKS_NODE_GROUP: _eks,
    kinds.OKE_NODE_POOL: _oke,
    kinds.AUTO_SCALING_GROUP: _eks,
    kinds.KARPENTER_NODE_POOL: _karpenter,
    kinds.EC2_INSTANCE: _ec2,
    kinds.SPOT_REQUEST: _ec2,
    kinds.OCI_INSTANCE: lambda of, _, later: _launched(of, of.props, tuple(choices(of.type, of.props, later)), 1),
    kinds.OCI_INSTANCE_POOL: _instance_pool,
}

MACHINES = frozenset((*_READERS, kinds.LAUNCH_TEMPLATE, kinds.OCI_INSTANCE_CONFIGURATION)) | kinds.HELM
"""Tokens of groups and of the resources that they refer to. A rule that reads groups needs all of them in its types."""
