"""Releases of AWS' EKS node image for NVIDIA GPUs (AL2023, x86_64), with their driver: the rows of `data/eks_images.csv`.

Standard library only: the policy pack ships this module.
"""

from fleet.facts.record import Record
from fleet.facts.tables import entry, rows

BAD_BUILDS = ("20260930", "20261003")
"""Build dates of EKS images whose kernel panics (awslabs/amazon-eks-ami#2845)."""


class EksImage(Record):
    """A release, such as 1.36.3-20260911, with the versions of NVIDIA's driver and of the package of its container toolkit."""

    release: str
    driver: str
    toolkit: str | None


EKS_IMAGES = {row["release"]: entry(EksImage, row) for row in rows("eks_images.csv")}
"""By release. Of each Kubernetes minor the oldest first."""


def minor_of(release: str) -> str:
    """The Kubernetes minor of a release: 1.36.3-20260911 → 1.36."""
    return release.rpartition("-")[0].rpartition(".")[0]


def build_of(release: str) -> str:
    """The build date of a release: 1.36.3-20260911 → 20260911."""
    return release.rpartition("-")[2]


def driver_of(release: str) -> str | None:
    """The driver of a release; None if no source names it."""
    return EKS_IMAGES[release].driver if release in EKS_IMAGES else None


def driver_of_build(build: str) -> str:
    """The driver of the images of a build date, if all minors have the same; empty if they do not, and for another text."""
    drivers = {image.driver for release, image in EKS_IMAGES.items() if build_of(release) == build}
    return drivers.pop() if len(drivers) == 1 else ""


def newest(minor: str, driver_branch: int) -> str | None:
    """The newest known release of a Kubernetes minor whose driver is of that branch (580); None if there is none."""
    of_minor = (image for release, image in EKS_IMAGES.items() if minor_of(release) == minor)
    releases = (image.release for image in of_minor if image.driver.startswith(f"{driver_branch}."))
    return max(releases, key=build_of, default=None)


def parameter(release: str, variant: str = "nvidia") -> str:
    """The public parameter of AWS Systems Manager that has the image's id, by region. `variant` is nvidia or standard.

    Source: the EKS user guide, retrieve recommended Amazon Linux AMI ids, has the path; the name of one release is in public
    programs that read it.
    """
    image = f"amazon-eks-node-al2023-x86_64-{variant}-{minor_of(release)}-v{build_of(release)}"
    return f"{parameters(minor_of(release), variant)}/{image}/image_id"


def parameters(minor: str, variant: str) -> str:
    """The path of the parameters of all releases of a Kubernetes minor."""
    return f"/aws/service/eks/optimized-ami/{minor}/amazon-linux-2023/x86_64/{variant}"
