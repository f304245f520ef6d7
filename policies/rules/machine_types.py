"""The machine types that a resource may buy, the path of each, and its row of the hardware table.

For a launcher's runner set these are the shapes in the annotation of the runner pod. A type in a launch template belongs to the
template, not to its group. EKS allows no other place for the type of a capacity block, so such a group also has it in a tag.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from fleet.facts.hardware import Machine, UnknownMachine, machine
from fleet.facts.scheduling import BLOCK_TYPE_TAG, MACHINE_SHAPES

from . import kinds
from .labels import INSTANCE_TYPE_LABEL
from .pools import machine_sign, requirements
from .read import Data, Later, entries, keys, text, walk
from .releases import Release, releases

ANNOTATIONS = ("template", "metadata", "annotations")
"""Path of the runner pod's annotations in the values of the scale-set chart."""

TAGGED = f'tags["{BLOCK_TYPE_TAG}"]'
"""Path of the type of a capacity block. What its launch template says counts, where that can be read."""

_EKS_DEFAULT = "t3.medium"
"""The type that EKS buys if neither the group nor a template names one (EKS API, CreateNodegroup)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A machine type that a resource may buy, and the path of the property that says so."""

    path: str
    name: str

    @property
    def machine(self) -> Machine | None:
        """Its row of the hardware table, if there is one."""
        return known(self.name)

    @property
    def gpus(self) -> int | None:
        """GPUs of one machine; None if the machine is accelerated and not in the table."""
        row = self.machine
        if row is not None:
            return row.gpus
        return None if machine_sign(self.name) else 0


@lru_cache(maxsize=1024)
def known(name: str) -> Machine | None:
    """The machine of this name; None if the hardware table does not have it."""
    try:
        return machine(name)
    except UnknownMachine:
        return None


def choices(token: str, props: Data, later: Later) -> Iterator[Choice]:
    """The machine types that a resource names; none for a kind without any. `later` collects unknown ones."""
    reader = _READERS.get(token)
    if reader is not None:
        yield from reader(props, later)
    for release in releases(token, props, later):
        yield from booted(release, later)


def booted(release: Release, later: Later) -> Iterator[Choice]:
    """The machine types that the launchers of a release boot; none for any other chart. `later` collects unknown ones."""
    with later:
        if release.is_scale_set:
            names = text(walk(release.values, *ANNOTATIONS, MACHINE_SHAPES)).split(",")
            path = f'{".".join((release.values_path, *ANNOTATIONS))}["{MACHINE_SHAPES}"]'
            for name in filter(None, names):
                yield Choice(path, name)


def gpus_each(types: Sequence[Choice]) -> int | None:
    """The most GPUs that one machine of the choices has; None if some cannot be counted, or there are no choices."""
    counted = [choice.gpus for choice in types]
    return max((gpus for gpus in counted if gpus is not None), default=None) if None not in counted else None


def _at(*path: str) -> Callable[[Data, Later], Iterator[Choice]]:
    def read(props: Data, later: Later) -> Iterator[Choice]:
        with later:
            if name := text(walk(props, *path)):
                yield Choice(".".join(path), name)

    return read


def _eks(props: Data, later: Later) -> Iterator[Choice]:
    with later:
        if walk(props, "instanceTypes") is None:
            if name := text(walk(props, "tags", BLOCK_TYPE_TAG)):
                yield Choice(TAGGED, name)
            elif not keys(walk(props, "launchTemplate")):
                yield Choice("instanceTypes is not set, so EKS's default", _EKS_DEFAULT)
        yield from _listed("", props, "instanceTypes", later)


def _karpenter(props: Data, later: Later) -> Iterator[Choice]:
    for path, key, operator, item in requirements(props, later):
        if key == INSTANCE_TYPE_LABEL and operator == "In":
            yield from _listed(f"{path}.", item, "values", later)


def _scaling_group(props: Data, later: Later) -> Iterator[Choice]:
    with later:
        policy = walk(props, "mixedInstancesPolicy", "launchTemplate")
        yield from _overrides("mixedInstancesPolicy.launchTemplate", policy, later)


def _fleet(props: Data, later: Later) -> Iterator[Choice]:
    for path, config in entries(props, "launchTemplateConfigs", later):
        yield from _overrides(path, config, later)


def _overrides(path: str, holder: Data, later: Later) -> Iterator[Choice]:
    for inner, override in entries(holder, "overrides", later):
        with later:
            if name := text(walk(override, "instanceType")):
                yield Choice(f"{path}.{inner}.instanceType", name)


def _configuration(props: Data, later: Later) -> Iterator[Choice]:
    for path, launch in kinds.launches(props, later):
        with later:
            if name := text(walk(launch, "shape")):
                yield Choice(f"{path}.shape", name)


def _listed(prefix: str, holder: Data, field: str, later: Later) -> Iterator[Choice]:
    for path, item in entries(holder, field, later):
        if name := text(item):
            yield Choice(prefix + path, name)


_READERS: dict[str, Callable[[Data, Later], Iterator[Choice]]] = {
    kinds.EKS_NODE_GROUP: _eks,
    kinds.OKE_NODE_POOL: _at("nodeShape"),
    kinds.KARPENTER_NODE_POOL: _karpenter,
    kinds.AUTO_SCALING_GROUP: _scaling_group,
    kinds.EC2_FLEET: _fleet,
    kinds.EC2_INSTANCE: _at("instanceType"),
    kinds.SPOT_REQUEST: _at("instanceType"),
    kinds.LAUNCH_TEMPLATE: _at("instanceType"),
    kinds.OCI_INSTANCE: _at("shape"),
    kinds.OCI_INSTANCE_CONFIGURATION: _configuration,
}
MACHINE_KINDS = frozenset(_READERS)
"""Tokens of resources that name the machine types that they buy."""
