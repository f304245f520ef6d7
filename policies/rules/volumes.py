"""Disks of a machine, and volumes that Kubernetes makes for claims, for a bill.

A machine has its root volume and the other disks that a launch template maps. The stack's storage class decides the price of a
claim's volume. If the class is not in the stack, the kind of volume is not known, and the bill leaves the claim out. Chart
kube-prometheus-stack makes a claim for Prometheus from its values.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from fleet.facts.disks import GP3_IOPS, GP3_MIBPS
from fleet.facts.pricing import gp3_volume, oci_volume
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import REGION

from .kinds import CLAIM, HELM, PROMETHEUS_CHART, STORAGE_CLASS
from .read import SETTLED, Data, Later, items, keys, text, walk
from .record import Resource
from .releases import releases

# The volume type of EKS' node images if a template has none.
_GP3 = "gp3"


Volume = Mapping[str, float]
"""All disks of one machine: the amount of each unit of the price table (`fleet.facts.hardware.unit_price`)."""


def of_template(template: Data) -> Volume:
    """Disks that an EC2 launch template maps; EKS' default if it maps none. Raises UnknownError."""
    parts = Counter[str]()
    for _, mapping in items(walk(template, "blockDeviceMappings"), SETTLED):
        if keys(volume := walk(mapping, "ebs")):
            parts.update(of_ec2(*(walk(volume, key) for key in ("volumeSize", "volumeType", "iops", "throughput"))))
    return parts or of_ec2(None)


def of_ec2(size: Data, kind: Data = None, iops: Data = None, throughput: Data = None) -> Volume:
    """A root volume of EC2 by size, type and performance, with EKS' default size and the performance of every gp3 volume."""
    # EKS API, CreateNodegroup (diskSize).
    gigabytes = _positive(size, 20)
    if (name := text(kind) or _GP3) != _GP3:
        return {f"{name}-gb": gigabytes}
    return gp3_volume(gigabytes, _positive(iops, GP3_IOPS), _positive(throughput, GP3_MIBPS))


def of_oci(size: Data) -> Volume:
    """The boot volume of an OCI machine by its size; the default is OCI's smallest (API reference, InstanceSourceDetails)."""
    return {"oci-volume-gb": _positive(size, 50)}


def _positive(amount: Data, otherwise: float) -> float:
    return otherwise if (number := quantity(amount)) is None or number <= 0 else float(number)


_OF_PROMETHEUS = ("prometheus", "prometheusSpec", "storageSpec", "volumeClaimTemplate", "spec")


Claimed = tuple[Mapping[str, float], str, bool]
"""A claim's volume: the amount of each unit when it is full, the region that its class names, if any, and whether the cloud bills
only the stored data."""


def claims(resource: Resource, later: Later) -> Iterator[Data]:
    """The spec of a claim, and of the claim that Prometheus's chart makes. `later` collects unknown values."""
    if resource.type == CLAIM:
        yield later.walk(resource.props, "spec")
    elif resource.type in HELM:
        for release in releases(resource.type, resource.props, later):
            with later:
                if release.chart_name == PROMETHEUS_CHART:
                    yield walk(release.values, *_OF_PROMETHEUS)


def claimed(spec: Data, resource: Resource, resources: Iterable[Resource]) -> Claimed | None:
    """The billed volume of a claim that a resource makes; None for a class that is not in the stack or has an unknown driver.

    Raises UnknownError.
    """
    name = text(walk(spec, "storageClassName"))
    size = quantity(walk(spec, "resources", "requests", "storage"))
    classes = (entry for entry in resources if entry.type == STORAGE_CLASS and entry.provider.urn == resource.provider.urn)
    storage_class = next((entry for entry in classes if name and text(walk(entry.props, "metadata", "name")) == name), None)
    if storage_class is None or size is None:
        return None
    if (driver := _DRIVERS.get(text(walk(storage_class.props, "provisioner")))) is None:
        return None
    amounts, elastic = driver
    region = text(walk(storage_class.props, "metadata", "annotations", REGION))
    return amounts(float(size / 2**30), walk(storage_class.props, "parameters")), region, elastic


def _ebs(gib: float, parameters: Data) -> dict[str, float]:
    if (kind := text(walk(parameters, "type")) or _GP3) != _GP3:
        return {f"{kind}-gb": gib}
    iops, throughput = walk(parameters, "iops"), walk(parameters, "throughput")
    return gp3_volume(gib, _positive(iops, GP3_IOPS), _positive(throughput, GP3_MIBPS))


_DRIVERS: Mapping[str, tuple[Callable[[float, Data], dict[str, float]], bool]] = {
    "ebs.csi.aws.com": (_ebs, False),
    "efs.csi.aws.com": (lambda gib, _: {"efs-gb": gib}, True),
    "blockvolume.csi.oraclecloud.com": (
        # The default of a class (oci-cloud-controller-manager) is 10.
        lambda gib, parameters: oci_volume(gib, _positive(walk(parameters, "vpusPerGB"), 10)),
        False,
    ),
    "fss.csi.oraclecloud.com": (lambda gib, _: {"oci-fss-gb": gib}, True),
}
"""How each driver's volumes are billed, and whether the cloud bills only the stored data."""
