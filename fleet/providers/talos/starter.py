"""How `init` writes a Talos cluster of the owner's machines."""

from collections.abc import Iterator
from pathlib import Path

from fleet.facts import versions
from fleet.facts.hardware import Machine
from fleet.providers.provider import Starter, Values, Wanted
from fleet.providers.talos.cluster import TalosCluster


class TalosStarter(Starter):
    """A pool for each machine of the owner. Own machines are never bought."""

    templates = Path(__file__).parent / "templates"
    answers = ("talos",)
    where = "on own machines with Talos"
    jobs = ("tests", "training")
    kind = "homelab"
    owns = True

    def values(self, wanted: Wanted) -> Values:
        """As in the base class."""
        talos: str = TalosCluster.model_fields["talos_version"].default
        newest = versions.minor(versions.TALOS[talos].kubernetes[1])
        usable = (release for release in versions.TALOS_KUBERNETES if versions.minor(release) <= newest)
        pools = [line for number, machine in enumerate(wanted.machines.values()) for line in _pool(number, machine)]
        return {"talos_version": talos, "kubernetes_version": max(usable, key=versions.minor), "pools": pools}


def _pool(number: int, machine: Machine) -> Iterator[str]:
    """The pool of one machine. Talos' own partitions take less than the tenth of the disk that stays free."""
    blackwell = machine.gpu is not None and machine.gpu.architecture == "blackwell"
    yield f"{machine.name}:"
    yield f"  instanceTypes: [{machine.name}]"
    yield "  role: burst"
    yield f"  disk: {machine.nvme_gb * 9 * 10**8 // 2**30}Gi"
    yield from ["  driver: {kernelModules: open}"] * blackwell
    yield "  nodes:"
    yield "    hosts:"
    yield f"      {machine.name}: {{address: 192.0.2.{20 + number}, installDisk: /dev/nvme0n1}}"
