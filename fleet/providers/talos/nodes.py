"""Settings of Talos nodes: hosts, GPU pools of your own machines, and the driver of their image."""

import ipaddress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from fleet.facts.hardware import OWNED
from fleet.facts.quantities import memory_text
from fleet.facts.scheduling import TALOS_PROFILE
from fleet.settings.kubelet import KubeletConfig, owned_fields, unowned
from fleet.settings.model import DnsLabel, Memory, Model, Nodes, without
from fleet.settings.pool import MachineName, Pool, require_own_labels
from fleet.settings.refusals import Form, matching, problem, refusal, refuse, refuse_if, words

_TURING = (7, 5)
"""The lowest compute capability that NVIDIA's open kernel modules support (NVIDIA/open-gpu-kernel-modules README)."""
_BLACKWELL = (10, 0)
"""The lowest compute capability that only the open kernel modules support (developer.nvidia.com, NVIDIA transitions fully towards
open-source GPU kernel modules; getsolus/packages#5575 shows the error on an RTX 5090)."""


def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address in a text; None if the text is a name."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _address(text: str) -> str:
    found = ip_address(text)
    if found is None or found.is_loopback or found.is_unspecified or found.is_multicast or found.is_link_local:
        raise problem("host_address")
    return str(found)


HostAddress = Annotated[str, AfterValidator(_address), Form("host address", words("host_address"), "[0-9a-fA-F.:]+")]
DiskPath = Annotated[str, matching("install_disk", r"/dev/[A-Za-z0-9/_.:-]+")]
VolumeName = Annotated[str, matching("volume_name__talos", r"[A-Za-z0-9-]{1,34}")]
"""siderolabs/talos v1.13.9 pkg/machinery/config/types/block/user_volume_config.go: a partition's label is `u-` and the name."""


class UserVolume(Model):
    """Disk space for a provisioner of local volumes. Talos mounts it at `/var/mnt/<name>`."""

    name: VolumeName = "local-path-provisioner"
    """Name of the volume. Talos mounts it at `/var/mnt/<name>`. Example: `models`"""
    disk: DiskPath | None = None
    """Another disk of the machine. The volume uses all of it. Give this or `ephemeral`."""
    ephemeral: Memory | None = None
    """Space of the install disk that stays for containers and images. The volume gets the rest of that disk. It has an effect
    only at the first boot. Give this or `disk`. Example: `400Gi`"""

    @refusal
    def _one_place(self) -> None:
        """Refuse a volume with both places, and one without a place."""
        refuse(volume_place=(self.disk is None) == (self.ephemeral is None))


class Host(Model):
    """One machine, by its host name: its address, the disk on which Talos is installed, and space for volumes."""

    address: HostAddress
    """IP address of the machine."""
    install_disk: DiskPath = "/dev/nvme0n1"
    """Disk on which Talos is installed. Mark: first."""
    ephemeral_disk: DiskPath | None = None
    """Another disk for containers, images and files of pods (Talos' volume EPHEMERAL), all of it. Default: the install disk. It
    has an effect only at the first boot. Example: `/dev/nvme1n1`"""
    volume: UserVolume | None = None
    """Disk space for a provisioner of local volumes."""

    @refusal
    def _other_disk(self) -> None:
        """Refuse a disk that Talos uses as a whole already, and room on the install disk if EPHEMERAL is not there."""
        refuse("ephemeralDisk", ephemeral_disk=self.ephemeral_disk == self.install_disk)
        if self.ephemeral_disk is not None and self.volume is not None:
            refuse("volume", "ephemeral", ephemeral_twice=self.volume.ephemeral is not None)
            refuse("volume", "disk", ephemeral_volume_disk=self.volume.disk == self.ephemeral_disk)
        refuse("volume", "disk", volume_disk=self.volume is not None and self.volume.disk == self.install_disk)


class Hosts(Nodes):
    """Your own machines as the nodes of a pool. All of them always exist, so the pool's size is their number."""

    model_config = ConfigDict(json_schema_extra=without("min", "max"))

    hosts: Annotated[dict[DnsLabel, Host], Field(min_length=1)]
    """The machines, by host name. All of them always run, so the pool's size is their number."""

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, value: Any) -> Any:
        """Set the size to the number of hosts. Refuse settings that name a size."""
        if not isinstance(value, dict):
            return value
        for bound in ("min", "max"):
            refuse_if("host_count", bound in value, at=(bound,), bound=bound)
        count = len(hosts) if isinstance(hosts := value.get("hosts"), dict) else 0
        # If hosts is not a mapping, report only that and not a missing count as well.
        return value | {"min": count, "max": max(count, 1)}


class TalosKubelet(KubeletConfig):
    """Settings of kubelet beside those of Talos. `GRACE`: its defaults (siderolabs/talos v1.13.9, pkg/machinery/constants)."""

    GRACE: ClassVar[tuple[int, int]] = (30, 10)


class TalosDriver(Model):
    """NVIDIA's driver as Talos' system extensions. Kernel modules and container toolkit have the same tier and version."""

    kernel_modules: Literal["proprietary", "open"] = "proprietary"
    """NVIDIA's proprietary or open kernel modules. The open ones support GPUs from Turing on. Example: `open` Mark: first."""
    tier: Literal["production", "lts"] = "production"
    """Branch of NVIDIA's driver in Talos' system extensions: the production branch, or the one with long-term support. Example:
    `lts`"""


class TalosPool(Pool):
    """Your own GPU machines, all of one type."""

    model_config = ConfigDict(json_schema_extra=without("idleDelay", "reservation", "schedules"))

    instance_types: Annotated[tuple[MachineName, ...], Field(min_length=1)]
    """The machine of the hosts, by its name below `machines` of the cluster."""
    capacity: Literal["on-demand"] = "on-demand"
    """Always `on-demand`: the machines are your own. Example: `on-demand`"""
    nodes: Hosts
    """The machines of the pool, by host name."""
    image: Literal["talos"] = "talos"
    """Always `talos`, with the driver as system extensions. Example: `talos`"""
    driver: TalosDriver = TalosDriver()
    """Variant of NVIDIA's driver. Mark: first."""
    kubelet: Annotated[TalosKubelet | None, unowned(owned_fields("Talos or by this program"))] = None
    """Settings of kubelet beside those of Talos. Example: `{podPidsLimit: 4096}`"""

    @refusal
    def _talos_rules(self) -> None:
        """Refuse rented machines, GPUs of other vendors, an idle delay, labels that kubelet may not set, unfit modules."""
        for machine in self.machines:
            gpu = machine.gpu
            if machine.cloud != OWNED or gpu is None:
                raise problem("talos_machine", at=("instanceTypes",), value=machine.name)
            capability, modules = tuple(map(int, gpu.compute_capability.split("."))), self.driver.kernel_modules
            refuse_if("open_modules", modules == "open" and capability < _TURING, at=("driver", "kernelModules"), gpu=gpu.name)
            if modules == "proprietary" and capability >= _BLACKWELL:
                raise problem("proprietary_modules", at=("driver", "kernelModules"), value=modules, gpu=gpu.name)
        refuse("instanceTypes", one_machine=len(self.instance_types) > 1)
        for name, host in self.nodes.hosts.items():
            kept = host.volume.ephemeral if host.volume is not None else None
            if kept is not None and kept < self.disk:
                raise problem("volume_room", at=("disk",), value=memory_text(self.disk), name=name, kept=memory_text(kept))
        refuse("idleDelay", talos_idle="idle_delay" in self.model_fields_set)
        require_own_labels("talos_reserved_label", TALOS_PROFILE, self.labels, at=())


class TalosSystem(Model):
    """The untainted CPU nodes: controllers, listeners, CoreDNS. Without its own hosts, the control plane does this too."""

    hosts: dict[DnsLabel, Host] = Field(default_factory=dict)
    """The CPU hosts, by host name."""


class ControlPlane(Model):
    """Hosts of etcd and of the API server."""

    hosts: Annotated[dict[DnsLabel, Host], Field(min_length=1)]
    """The hosts, by host name: an odd number, because etcd tolerates no more failures with one host more."""

    @refusal
    def _odd(self) -> None:
        """Refuse an even number of hosts. For example, etcd with two members loses its quorum if either of them fails."""
        if len(self.hosts) % 2 == 0:
            count = len(self.hosts)
            raise problem("etcd_members", at=("hosts",), value=sorted(self.hosts), members=count, fewer=count - 1)
