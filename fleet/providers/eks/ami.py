"""Node images that EC2 Image Builder makes from AWS' EKS image for NVIDIA GPUs (docs/ami.md).

The kernel modules of NVIDIA's driver are in AWS' image, one archive for each kind of GPU, and its own build makes them
(awslabs/amazon-eks-ami 81fec2e8, install-nvidia-driver.sh). So the release of AWS' image decides the driver, and `driver_branch`
selects the newest release that has it.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from fleet.facts import eks_images, versions
from fleet.facts.hardware import machine
from fleet.providers.eks.nodes import AmiId, EksPool
from fleet.settings import compatibility
from fleet.settings.model import Model
from fleet.settings.pool import Disk, GpuType
from fleet.settings.refusals import limited, matching, problem, refusal, refuse, refuse_if, require_once

_Release = Annotated[str, matching("ami_release", r"1\.[0-9]{2}\.[0-9]+-20[0-9]{6}")]
_Toolkit = Annotated[str, matching("ami_toolkit", r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+", such=versions.AMI_TOOLKIT)]
_IMAGE = r"[a-z0-9-]+(\.[a-z0-9-]+)+(:[0-9]+)?(/[a-z0-9._-]+)+(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?@sha256:[0-9a-f]{64}"
_Image = Annotated[str, matching("pre_pull", _IMAGE)]
_Cron = Annotated[
    str,
    matching("ami_schedule", r"cron\([0-9A-Z*?/,# -]+\)"),
    limited("aws:imagebuilder/imagePipeline:ImagePipeline", "schedule.scheduleExpression"),
]


class BuiltAmi(Model):
    """An image that the pipeline built, and the release of AWS' image that it was built from."""

    id: AmiId
    """ID of the AMI in the cluster's region. Example: `ami-0a1b2c3d4e5f60718`"""
    release: _Release
    """Release of AWS' image that the AMI was built from. Example: `1.36.3-20260911`"""


class GpuAmi(Model):
    """What the pipeline builds next, and the image that pools use."""

    release: _Release | None = None
    """Release of AWS' image to build from. Default: the newest with a driver of `driverBranch`, else the one of the cluster's
    minor. Example: `1.36.3-20260911`"""
    driver_branch: Annotated[int, Field(ge=500, le=999)] | None = None
    """Branch of NVIDIA's driver. The build fails if the image has another. Default: that of the release. Unit: first number of
    the driver's version."""
    toolkit: _Toolkit = versions.AMI_TOOLKIT
    """Version of the four packages of NVIDIA's container toolkit. Example: `1.19.1-1`"""
    pre_pull: Annotated[tuple[_Image, ...], Field(max_length=20)] = ()
    """Container images that are in the AMI, so that no job pulls them, at most 20. Example:
    `["ghcr.io/actions/actions-runner@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]`"""
    build_type: GpuType
    """EC2 type with a GPU that builds and tests the image."""
    disk: Disk = 50 * 1024
    """Root volume of the image. Pools that use the image have at least that. Example: `80Gi`"""
    regions: tuple[str, ...] = ()
    """More regions that get a copy of the image. Default: only the cluster's region. Example: `[us-east-1]`"""
    keep: Annotated[int, Field(ge=1, le=1000)] = 3
    """Images that stay when older ones are deleted. The image in use always stays. Unit: images. Example: `5`"""
    schedule: _Cron | None = None
    """When the pipeline runs by itself, in UTC, as EC2 Image Builder writes schedules. Default: never. Example: `cron(0 4 1 * ?
    *)`"""
    built: BuiltAmi | None = None
    """The image in use. Without it, pools that name the entry run AWS' image. Example: `{id: ami-0a1b2c3d4e5f60718, release:
    1.36.3-20260911}`"""

    @refusal
    def _ami_rules(self) -> None:
        """Refuse a release whose kernel panics, or whose driver is of another branch, and a list that has a value twice."""
        for at, release in ((("release",), self.release), (("built", "release"), self.built.release if self.built else None)):
            refuse(*at, ami_bad_release=release is not None and eks_images.build_of(release) in eks_images.BAD_BUILDS)
        driver = eks_images.driver_of(self.release) if self.release else None
        if driver is not None and self.driver_branch not in (None, compatibility.branch(driver)):
            raise problem("ami_driver", at=("driverBranch",), release=self.release, driver=driver)
        require_once("pre_pull_twice", self.pre_pull, at=("prePull",))
        require_once("ami_region_twice", self.regions, at=("regions",))

    def base(self, minor: str) -> str:
        """The release of AWS' image from which the pipeline builds, for a cluster of that Kubernetes minor."""
        by_branch = eks_images.newest(minor, self.driver_branch) if self.driver_branch else None
        return self.release or by_branch or versions.KUBERNETES[minor].ami_release

    def driver(self, minor: str) -> str | None:
        """The driver, or its branch, of the next image. None if neither settings nor sources name it."""
        return eks_images.driver_of(self.base(minor)) or (str(self.driver_branch) if self.driver_branch else None)


def require_image(ami: GpuAmi, minor: str, *, at: tuple[str, ...]) -> None:
    """Refuse an image that does not fit the Kubernetes minor or the machine that builds it. Raises a settings problem."""
    if ami.release is None and ami.driver_branch and eks_images.newest(minor, ami.driver_branch) is None:
        raise problem("ami_no_release", at=(*at, "driverBranch"), minor=minor, driver_branch=ami.driver_branch)
    for path, release in ((("release",), ami.base(minor)), (("built", "release"), ami.built.release if ami.built else None)):
        refuse_if("ami_minor", release is not None and eks_images.minor_of(release) != minor, at=(*at, *path), minor=minor)
    builder = machine(ami.build_type)
    refuse(*at, "buildType", ami_build_type=builder.cloud != "aws" or builder.arch != "x86_64")
    if (driver := ami.driver(minor)) is not None:
        fix = "the build tests the image on this type; use another type or driver"
        compatibility.require_driver(builder, driver, at=(*at, "buildType"), fix=fix)


def require_pool_image(name: str, pool: EksPool, entry: str, amis: Mapping[str, GpuAmi], minor: str) -> None:
    """Refuse a pool that does not fit its image. Raises a settings problem."""
    refuse_if("unknown_ami", entry not in amis, at=("pools", name, "ami"), amis=", ".join(amis) or "none")
    ami = amis[entry]
    refuse_if("ami_disk", pool.disk < ami.disk, at=("pools", name, "disk"), value=f"{pool.disk // 1024}Gi", disk=ami.disk // 1024)
    built = eks_images.driver_of(ami.built.release) if ami.built else None
    for path, driver in (((), ami.driver(minor)), (("built",), built)):
        if driver is not None:
            for machine in pool.machines:
                fix = f"pool {name} uses this image; write another driverBranch or release"
                compatibility.require_driver(machine, driver, at=("amis", entry, *path), fix=fix)
