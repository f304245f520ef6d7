"""Settings of NVIDIA's GPU operator. A cluster has only one ClusterPolicy."""

from typing import Annotated

from pydantic import AfterValidator

from fleet.facts import versions
from fleet.settings import compatibility
from fleet.settings.model import IN_ANY_ORDER, DnsLabel, Model
from fleet.settings.refusals import matching, problem, refusal

_PUBLIC = "nvcr.io/nvidia"
"""NVIDIA's public registry of driver images. Driver images of vGPU guests are in no public registry."""
_HOST_PATH = matching("host_path", r"/[A-Za-z0-9._/-]+")
_REPOSITORY = matching("repository__registry", r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)*")


class Driver(Model):
    """The driver that the operator installs on nodes whose image has none."""

    version: Annotated[str, AfterValidator(compatibility.driver_version)] = versions.OPERATOR_DRIVER
    """Version of the driver."""
    repository: Annotated[str, _REPOSITORY] | None = None
    """Registry path of the driver image, without tag. Default: NVIDIA's public one, nvcr.io/nvidia. vGPU guests need a private
    one. Example: `registry.example.com/nvidia`"""
    pull_secrets: Annotated[tuple[DnsLabel, ...], IN_ANY_ORDER] = ()
    """Names of image pull secrets in the operator's namespace. Example: `[registry-key]`"""
    license_secret: DnsLabel | None = None
    """Name of the Secret with `client_configuration_token.tok` and `gridd.conf`, for vGPU guests. It needs a private
    `repository`. Example: `vgpu-license`"""


class Containerd(Model):
    """Where the node's containerd is, for the toolkit that the operator installs."""

    config: Annotated[str, _HOST_PATH] | None = None
    """Path of containerd's configuration on the node. Default: the operator's. Example: `/etc/containerd/config.toml`"""
    socket: Annotated[str, _HOST_PATH] | None = None
    """Path of containerd's socket on the node. Default: the operator's. Example: `/run/containerd/containerd.sock`"""
    default_runtime: bool = True
    """Whether nvidia is the runtime of pods without a runtime class. Example: `false`"""


class OperatorSettings(Model):
    """What the operator does besides advertising GPUs."""

    driver: Driver = Driver()
    """The driver that the operator installs on nodes whose image has none."""
    containerd: Containerd = Containerd()
    """Where the node's containerd is, for the toolkit that the operator installs."""
    service_monitor: bool = False
    """Whether the DCGM exporter gets a ServiceMonitor. The cluster must have that CRD. Example: `true`"""

    @refusal
    def _rules(self) -> None:
        """Refuse a license secret without the private repository of the vGPU driver."""
        if self.driver.license_secret is not None and self.driver.repository in (None, _PUBLIC):
            raise problem("vgpu_repository", at=("driver", "repository"))
