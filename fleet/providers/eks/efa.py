"""Elastic Fabric Adapters of a machine: which network interfaces its launch template has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleet.facts.hardware import Machine


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of a launch template: its network card, its device index on the card, and EC2's type of it."""

    card: int
    device: int
    type: Literal["efa", "efa-only", "interface"]


def interfaces(machine: Machine, efa: int) -> tuple[Interface, ...]:
    """The interfaces of a machine with `efa` adapters, each on a card of its own. The first interface is the primary one.

    Only `efa` and `interface` have IP addresses, and the primary interface needs one (EC2 user guide, maximize network bandwidth
    on instances with multiple network cards). Adapters on other cards are `efa-only`, so that they take no address of the subnet.
    P6-B300 has a card more than adapters: its card 0 has none. Other cards have device index 1 (AWS PCS user guide, launch
    template with EFA).
    """
    first = max(machine.network_cards - machine.efa_interfaces, 0)
    primary = Interface(0, 0, "interface" if first else "efa")
    indices = range(first, efa + first) if first else range(1, efa)
    return (primary, *(Interface(card, 1, "efa-only") for card in indices))
