"""What `init` knows of a cluster that exists already."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fleet.facts import hardware
from fleet.facts.hardware import ON_DEMAND, Machine
from fleet.facts.yaml_text import scalar, yaml_text


@dataclass(frozen=True, slots=True)
class Group:
    """GPU nodes that are alike. `selector` has the labels that select them, `taints` have key, value and effect."""

    name: str
    machine: Machine
    count: int
    capacity: str
    image: str
    selector: tuple[tuple[str, str], ...]
    taints: tuple[tuple[str, str, str], ...]
    region: str
    system: str = ""
    """The operating system, if `image` is only the closest kind of node image."""

    def lines(self) -> Iterator[str]:
        """The pool as YAML."""
        price = hardware.price(self.machine.name, self.region, ON_DEMAND)
        yield f"{self.name}:"
        yield f"  instanceTypes: [{self.machine.name}]"
        yield f"  capacity: {self.capacity}"
        if self.system:
            yield f"  # The closest kind: {self.system} has NVIDIA's driver and container toolkit too."
        yield f"  image: {self.image}"
        yield "  role: burst"
        yield f"  nodes: {{min: {self.count}, max: {self.count}}}"
        yield "  selector:"
        yield from (f"    {scalar(key)}: {scalar(value)}" for key, value in self.selector)
        if self.taints:
            parts = (zip(("key", "value", "effect"), taint, strict=True) for taint in self.taints)
            rows = [{key: value for key, value in taint if value} for taint in parts]
            yield f"  taints: {yaml_text(rows, flow=True).strip()}"
        if price is not None:
            yield "  # The list price on demand. Write what you pay."
            yield f"  usdPerHour: {price.usd_per_hour}"


@dataclass(frozen=True, slots=True)
class Found:
    """What a cluster shows. `provider` is eks, oke or empty; `cluster` its name in the cloud, if a node shows it.

    `controller` is the namespace and the service account of an ARC controller.
    """

    context: str
    provider: str
    cluster: str
    version: str
    region: str
    zones: tuple[str, ...]
    installed: tuple[str, ...]
    controller: tuple[str, str] | None
    groups: tuple[Group, ...]

    @property
    def name(self) -> str:
        """The context's name as that of a cluster in a stack file."""
        last = re.sub(r"[^a-z0-9]+", "-", self.context.rpartition("/")[2].rpartition("@")[2].lower()).strip("-")
        return (last if last[:1].isalpha() else f"k8s-{last}")[:20].strip("-")

    @property
    def enablement(self) -> str:
        """What advertises the GPUs: the GPU operator if the cluster has it, else the device plugin."""
        return "gpu-operator" if "gpu-operator" in self.installed else "device-plugin"
