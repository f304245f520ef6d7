"""NUMA nodes of machines, as far as a source names them: `data/numa.csv`.

`sockets` of `instances.csv` is no such source: it is derived, and a firmware may split a socket into several NUMA nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.hardware import Machine
from fleet.facts.tables import rows


@dataclass(frozen=True, slots=True)
class Layout:
    """CPUs and GPUs of each NUMA node, in the order of the nodes' numbers."""

    cpus: tuple[int, ...]
    gpus: tuple[int, ...]


def layout(machine: Machine) -> Layout | None:
    """The NUMA nodes of a machine. None if no source names them."""
    nodes = _LAYOUTS.get(machine.name)
    return nodes if isinstance(nodes, Layout) else None


def over_limit(machine: Machine) -> bool:
    """Whether a machine may show more than eight NUMA nodes. With more, kubelet starts only without a topology manager."""
    return machine.name in _OVER_8


def unknown(machine: Machine) -> str:
    """Why the NUMA nodes of a machine without a layout are not known, and how to see them."""
    nodes = _LAYOUTS.get(machine.name)
    why = nodes if isinstance(nodes, str) else "no source names them"
    how = "lscpu on a node shows them; add them to fleet/facts/data/numa.csv"
    return f"the NUMA nodes of {machine.name} are not known: {why}; {how}"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("+")))


_ROWS = rows("numa.csv")
_LAYOUTS: dict[str, Layout | str] = {
    row["machine"]: row["unknown"] or Layout(_numbers(row["cpus"]), _numbers(row["gpus"])) for row in _ROWS
}
_OVER_8 = frozenset(row["machine"] for row in _ROWS if row["over_8"] == "true")
