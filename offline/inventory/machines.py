"""Runner sets whose runners are machines of a cloud: where each boots or stands, and the launcher that hands it a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleet.providers.oke.vm_runner import MachineRunner, VmPerJobRunner, VmRunner
from fleet.settings.cluster import Cluster
from offline.inventory.users import Group, User


@dataclass(frozen=True, slots=True)
class MachineSet:
    """One set. `places` are regions with availability domains, in the order in which they are tried; `launcher` is its pods'."""

    name: str
    runner: MachineRunner
    places: tuple[tuple[str, tuple[str, ...]], ...]
    launcher: User


def machine_sets(settings: Cluster, users: Iterable[User]) -> Iterator[MachineSet]:
    """Those of a cluster, given its users."""
    launchers = {user.name: user for user in users if user.group is Group.LAUNCHER}
    for name, runner in settings.runners.items():
        if isinstance(runner, MachineRunner):
            yield MachineSet(name, runner, tuple(_places(settings, runner)), launchers[name])


def _places(settings: Cluster, runner: MachineRunner) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(runner, VmPerJobRunner):
        yield from ((place.region, place.availability_domains) for place in runner.places)
    elif isinstance(runner, VmRunner):
        yield settings.region, runner.availability_domains
