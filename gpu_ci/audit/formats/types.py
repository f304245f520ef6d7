"""Machine types as other projects ask for them: by the labels of their nodes, by family, by a prefix of the name."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from operator import ge, gt, le, lt

from fleet.facts.hardware import ON_DEMAND, Machine, find, machines, price
from fleet.facts.scheduling import INSTANCE_TYPE_LABEL
from fleet.facts.tables import beside

ARCH_LABEL, OS_LABEL = "kubernetes.io/arch", "kubernetes.io/os"
_DOMAINS = re.compile(r"^(?:karpenter\.k8s\.aws|eks\.amazonaws\.com|karpenter\.k8s\.oracle|oci\.oraclecloud\.com)/")
_GPU_NAMES = beside(__file__, "karpenter.toml")["gpu-names"]
_DEAREST = 1e9
"""An order for types without a price: after all others."""
_ANY_REGION = "us-east-1"
"""The region whose prices order the types if the file names none: it has most prices of the table."""
_NUMBERS = {"Gt": gt, "Gte": ge, "Lt": lt, "Lte": le}


def node_labels(machine: Machine) -> dict[str, str]:
    """What Karpenter's providers for AWS and OCI put on a node of this type. Keys of a provider have no domain.

    Sources: karpenter-provider-aws pkg/providers/instancetype/types.go of 1.14.1, karpenter-provider-oci
    docs/guide/scheduling-labels.md of 2026-04-21, zoom/karpenter-oci pkg/apis/v1alpha1/labels.go. Memory is in MiB.
    """
    found = {INSTANCE_TYPE_LABEL: machine.name, ARCH_LABEL: machine.arch.replace("x86_64", "amd64"), OS_LABEL: "linux"}
    metal = {"baremetal-shape": "true"} if machine.bare_metal else {}
    if machine.cloud == "oci":
        gpu = {"gpu-shape": "true", "instance-gpu": str(machine.gpus)} if machine.gpus else {}
        return found | {"instance-shape": machine.name, "instance-shape-name": machine.name, **metal, **gpu}
    family, _, size = machine.name.partition(".")
    parts = re.match(r"([a-z]+)(\d+)", family)
    found |= {"instance-family": family, "instance-size": size, "instance-hypervisor": "" if metal else "nitro"}
    found |= {"instance-cpu": str(machine.vcpus), "instance-memory": str(machine.memory_mib)}
    found |= {"instance-category": parts[1], "instance-generation": parts[2]} if parts else {}
    found |= {"instance-local-nvme": str(machine.nvme_gb)} if machine.nvme_gb else {}
    if machine.gpu is not None:
        name = _GPU_NAMES.get(machine.gpu.name, machine.gpu.name.lower().replace(" ", "-"))
        found |= {"instance-gpu-name": name, "instance-gpu-manufacturer": machine.gpu.vendor}
        found |= {"instance-gpu-count": str(machine.gpus), "instance-gpu-memory": str(machine.gpu_memory_mib)}
    return found


@cache
def _labelled(cloud: str) -> dict[str, dict[str, str]]:
    return {machine.name: node_labels(machine) for machine in machines(cloud)}


def bare(key: str) -> str:
    """A label's key without the domain of a provider, as `node_labels` has it."""
    return _DOMAINS.sub("", key)


def meets(labels: Mapping[str, str], key: str, operator: str, values: tuple[str, ...]) -> bool:
    """Whether labels meet a requirement of Karpenter, or of a node affinity."""
    has = labels.get(bare(key), labels.get(key))
    match operator:
        case "In":
            return has in values
        case "NotIn":
            return has not in values
        case "Exists" | "DoesNotExist":
            return (has is not None) == (operator == "Exists")
        case "Gt" | "Gte" | "Lt" | "Lte":
            try:
                return has is not None and _NUMBERS[operator](int(has), int(values[0]))
            except (ValueError, IndexError):
                return False
    return True


def meeting(cloud: str, requirements: Iterable[tuple[str, str, tuple[str, ...]]]) -> tuple[str, ...]:
    """The types of the table that meet requirements on the labels of `node_labels`. Other keys do not choose a type."""
    asked, table = list(requirements), _labelled(cloud)
    known = {key for labels in table.values() for key in labels}
    kept = [(bare(key), operator, values) for key, operator, values in asked if bare(key) in known or key in known]
    return tuple(name for name, labels in table.items() if all(meets(labels, *one) for one in kept))


def by_prefix(prefixes: Iterable[str]) -> tuple[str, ...]:
    """The types of the table whose names begin with one of these."""
    starts = tuple(prefixes)
    return tuple(machine.name for machine in machines() if machine.name.startswith(starts))


def cheapest(names: Iterable[str], region: str = "", capacity: str = ON_DEMAND) -> tuple[str, ...]:
    """The types with the cheapest of the region first. Those without a price come last, in the order in which they came."""

    def dollars(name: str) -> float:
        found = price(name, region or _ANY_REGION, capacity) if find(name) else None
        return found.usd_per_hour if found else _DEAREST

    return tuple(sorted(dict.fromkeys(names), key=dollars))


def region_of(*zones: str) -> str:
    """The AWS region of the first availability zone, such as us-east-1 of us-east-1a; empty for other names."""
    match = re.fullmatch(r"([a-z]+(?:-[a-z]+)+-\d)[a-z]", zones[0]) if zones else None
    return match[1] if match else ""
