"""How `init` writes the cluster of a new stack: what a provider adds to the answers."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import ClassVar

from fleet.facts.hardware import Machine
from fleet.facts.record import Record

Values = Mapping[str, str | Iterable[str]]
"""What a template names: a text, or the lines of a block."""


class Wanted(Record):
    """The answers that a template depends on.

    `version` is the Kubernetes minor of a cluster that exists already, `zones` those of its nodes; both are empty for a new one.
    `known_zones` are the first zones of the region. `containers`: whether jobs get VMs of their own. `buys`: whether the cluster
    has pools. `machines` are those of the owner.
    """

    region: str
    version: str = ""
    zones: tuple[str, ...] = ()
    known_zones: tuple[str, ...] = ()
    containers: bool = False
    buys: bool = True
    machines: Mapping[str, Machine] = field(default_factory=dict)


class Starter:
    """The defaults are those of a provider without regions."""

    templates: ClassVar[Path]
    """The folder with a template `<answer>.yaml` for each answer."""
    answers: ClassVar[tuple[str, ...]]
    """What people answer for a cluster of this provider: one that the program creates, and one that exists already."""
    where: ClassVar[str]
    """Where the runners are, in words."""
    jobs: ClassVar[tuple[str, ...]] = ("tests", "release", "training")
    """The kinds of jobs that it can run."""
    kind: ClassVar[str] = ""
    """The only kind of stack; empty for any."""
    owns: ClassVar[bool] = False
    """Whether people describe machines of their own."""
    reads: ClassVar[bool] = False
    """Whether the nodes exist already, and `init` reads them from the cluster."""
    node_ids: ClassVar[tuple[str, ...]] = ()
    """First words of the providerID of its nodes."""
    zone_prefix: ClassVar[str] = ""
    """An example of what the account puts before the name of a zone."""
    of_pods: ClassVar[tuple[str, ...]] = ()
    """Lines of a runner set of pods."""
    driver: ClassVar[str] = ""
    """An example of the driver in an image of its machines."""

    def cluster_name(self, region: str) -> str:
        """A short name of a cluster in a region."""
        return "home"

    def values(self, wanted: Wanted) -> Values:
        """What its templates name in addition to what all templates may name."""
        return {}
