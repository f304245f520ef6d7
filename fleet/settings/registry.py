"""The registry in the cluster's own cloud: the runner image, pull-through caches of public registries, and copies of images.

Nodes pull its layers without a NAT gateway. On EKS they come from S3, through the free gateway endpoint.
"""

from collections.abc import Collection
from typing import Annotated

from pydantic import Field

from fleet.facts.record import Record
from fleet.facts.versions import RUNNER_GPU_REPOSITORY
from fleet.settings.model import Model
from fleet.settings.refusals import matching, refusal, refuse, require_once
from fleet.settings.runner import ImageReference

_DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")

Version = Annotated[str, matching("image_version", r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}@)?sha256:[0-9a-f]{64}")]
Prefix = Annotated[str, matching("registry_prefix", r"[a-z0-9]+(-[a-z0-9]+)*", most=10)]


class Reference(Record):
    """The parts of an image reference. `version` is ":tag", "@digest" or both, as written; "" without a version."""

    host: str
    path: str
    version: str

    @property
    def exact(self) -> str:
        """The image with its tag, or with its digest if it has no tag."""
        return f"{self.host}/{self.path}{self.version.partition('@')[0] or self.version}"


def parts(reference: str) -> Reference:
    """Split a reference. As in containerd, a name without a host is on docker.io, and one without a folder in `library`."""
    name, at, digest = reference.partition("@")
    folders, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    host, _, path = f"{folders}{slash}{last}".partition("/")
    if not path or not ("." in host or ":" in host or host == "localhost"):
        host, path = _DOCKER_HUB[0], f"{folders}{slash}{last}"
    if host in _DOCKER_HUB:
        host, path = _DOCKER_HUB[0], path if "/" in path else f"library/{path}"
    return Reference(host, path, f"{colon}{tag}{at}{digest}")


class Mirror(Record):
    """From where a cluster pulls images. `address` is the registry with its prefix; an image is below the host of its origin.

    `caches` are the hosts that the registry pulls through. `copies` are single images, as `Reference.exact` writes them.
    `runner_image` is the image of runner classes without one; empty: GitHub's.
    """

    address: str
    caches: frozenset[str]
    copies: frozenset[str]
    runner_image: str

    def through(self, reference: str) -> str:
        """The reference of the same image in the registry; unchanged for an image that it does not cache or copy."""
        image = parts(reference)
        if image.host in self.caches or image.exact in self.copies:
            return f"{self.address}/{image.host}/{image.path}{image.version}"
        return reference


class RunnerImage(Model):
    """The image in the registry that runner classes without an image use."""

    version: Version
    """Digest of the image, or its tag and its digest. The tag names the row of images/runner-gpu, by which the plan knows its
    CUDA version. Example: `"12.1-ubuntu22.04@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`"""
    size_gb: Annotated[float, Field(gt=0, le=200)] | None = None
    """Compressed size in the registry. With it the plan prints what its pulls cost through a NAT gateway. Unit: GB (10^9 bytes).
    Example: `4.2`"""

    @property
    def suffix(self) -> str:
        """The version as an image reference has it after the repository."""
        tag, at, digest = self.version.rpartition("@")
        return f":{tag}{at}{digest}" if tag else f"@{digest}"


class Registry(Model):
    """What registries of every cloud have."""

    prefix: Prefix = "gpu-ci"
    """Start of the repositories' names. Two clusters of one account and region need different ones. Example: `ci`"""
    runner_image: RunnerImage | None = None
    """The image in the registry that runner classes without an `image` use. Default: GitHub's image."""
    copies: tuple[ImageReference, ...] = ()
    """Images to copy into the registry, each with its tag. Each gets a repository."""
    use_copies: bool = False
    """Whether nodes pull the copies. Set it after the workflow has copied the images. Example: `true`"""

    def mirror_at(self, host: str, caches: Collection[str] = ()) -> Mirror:
        """The mirror of a registry at `host`."""
        address, image = f"{host}/{self.prefix}", self.runner_image
        copies = (parts(reference).exact for reference in self.copies) if self.use_copies else ()
        runner = f"{address}/{RUNNER_GPU_REPOSITORY}{image.suffix}" if image is not None else ""
        return Mirror(address, frozenset(caches), frozenset(copies), runner)

    @property
    def repositories(self) -> tuple[str, ...]:
        """Names of the repositories of copies, each once, without the prefix."""
        references = (parts(reference) for reference in self.copies)
        return tuple(dict.fromkeys(f"{each.host}/{each.path}" for each in references))

    @refusal
    def _copies_once(self) -> None:
        """Refuse an image without a tag or that is listed twice, and copies that nodes must pull but that are not listed."""
        for index, reference in enumerate(self.copies):
            refuse("copies", str(index), copy_tag=not parts(reference).version.startswith(":"))
        require_once("copy_twice", [parts(reference).exact for reference in self.copies], at=("copies",))
        refuse("useCopies", no_copies=self.use_copies and not self.copies)
