"""Machines of the owner with Talos Linux."""

from fleet.facts.hardware import OWNED
from fleet.facts.scheduling import TALOS_PROFILE
from fleet.providers.provider import Provider
from fleet.providers.stated_bill import stated_bill
from fleet.providers.tags import NO_TAGS
from fleet.providers.talos.boot.patch import talos_files
from fleet.providers.talos.cluster import TalosCluster
from fleet.providers.talos.starter import TalosStarter


class Talos(Provider[TalosCluster]):
    """Talos: `make render` writes what the machines boot from, and ArgoCD installs the charts."""

    settings = TalosCluster
    cloud = OWNED
    starter = TalosStarter()
    profile = TALOS_PROFILE
    tags = NO_TAGS
    deployable = False

    # The GPU pools, whose machines stay on. The cost of hosts outside of pools is unknown and not counted.
    bill = staticmethod(stated_bill)
    boot_files = staticmethod(talos_files)
