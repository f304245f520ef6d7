"""ami-and-node-version-pinned: machines boot a pinned image with a supported Kubernetes version.

Judged: EKS managed node groups, launch templates, EC2 instances and spot requests, Karpenter's EC2NodeClass, OKE node pools,
OCI instances and instance configurations. If the program looks up an image id (SSM's "recommended" parameters), a preview does
not know the id, and the rule is undeterminable. If EC2 or Karpenter looks up the image later (`resolve:ssm:`, `@latest`,
wildcards, tags), the image is not pinned.

- An EKS group needs a `releaseVersion`, unless its launch template sets the image (`CUSTOM`). The rule then judges the template.
  A template without an image leaves the image to the group. A group without a version has its cluster's version.
- OCI identifies images by OCID. A filter over images does not pin one. A boot volume counts as a pinned image.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fleet.facts.eks_images import BAD_BUILDS

from . import kinds, schema
from .places import CLUSTER_SETTINGS, POOL_SETTINGS, RUNNER_SETTINGS
from .read import Later, count, items, keys, line, shown, strings, text, walk
from .rule import Args, Rule, Section, Severity

VERSIONS = ("1.34", "1.35", "1.36")
"""Kubernetes minor versions of `fleet/facts/data/versions.toml`."""

_AMI = re.compile(r"ami-[0-9a-z]+")
# 1.2.3-20260131 of Amazon Linux, 1.2.3-29cc92cc of Bottlerocket (EKS user guide, AMI versions).
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)+-[0-9A-Za-z.]+")
_MINOR = re.compile(r"v?([0-9]+\.[0-9]+)(?:\.[0-9].*)?", re.DOTALL)
_FILTER = "instanceSourceImageFilterDetails"


def _check(args: Args, later: Later) -> Iterator[str]:
    yield from _IMAGES[args.type](args.props, later)
    field = _VERSION_FIELDS.get(args.type)
    if field is not None:
        supported = strings(args.config, "kubernetesVersions", VERSIONS)
        yield from _version(field, args.props, supported, later)


def _version(field: str, props: Any, supported: Sequence[str], later: Later) -> Iterator[str]:
    with later:
        version = walk(props, field)
        minor = _MINOR.fullmatch(text(version))
        if version is not None and (minor is None or minor[1] not in supported):
            listed = ", ".join(map(line, supported))
            yield f"{field} is {shown(version)}: nodes need a supported Kubernetes version; write one of {listed}"


def _node_group(props: Any, later: Later) -> Iterator[str]:
    with later:
        release = walk(props, "releaseVersion")
        if _RELEASE.fullmatch(text(release)):
            if text(release).endswith(tuple(f"-{build}" for build in BAD_BUILDS)):
                yield f"releaseVersion is {shown(release)}: its kernel panics (awslabs/amazon-eks-ami#2845); write another build"
            return
        if text(walk(props, "amiType")) != "CUSTOM":
            yield (
                f"releaseVersion is {shown(release)}: EKS then takes the newest image whenever it changes the group; write one "
                "such as 1.2.3-20260131"
            )


def _launch_template(props: Any, later: Later) -> Iterator[str]:
    with later:
        yield from _ami("imageId", walk(props, "imageId"), absent_is_fine=True)


def _instance(props: Any, later: Later) -> Iterator[str]:
    with later:
        image = walk(props, "ami")
        # The rule judges a launch template's image on the template itself.
        yield from _ami("ami", image, absent_is_fine=image is None and bool(keys(walk(props, "launchTemplate"))))


def _ami(field: str, image: Any, *, absent_is_fine: bool) -> Iterator[str]:
    if not (_AMI.fullmatch(text(image)) or (image is None and absent_is_fine)):
        yield f"{field} is {shown(image)}: an image is pinned by its id; write ami-…"


def _node_class(props: Any, later: Later) -> Iterator[str]:
    path = "spec.amiSelectorTerms"
    with later:
        terms = walk(props, "spec", "amiSelectorTerms")
        if not count(terms):
            yield f"{path} is {shown(terms)}: it names the images of nodes; write an id, or an alias with a version"
        for index, term in items(terms, later):
            with later:
                if not _pins(term):
                    yield (
                        f"{path}[{index}] selects whatever is newest: nodes then change by themselves; write an id, a whole "
                        "name, or an alias with a version such as al2023@v20260131"
                    )


def _pins(term: Any) -> bool:
    """Whether a selector term of Karpenter selects one image: by id, by name without wildcard, or by alias with a version."""
    if _AMI.fullmatch(text(walk(term, "id"))):
        return True
    family, _, version = text(walk(term, "alias")).partition("@")
    if family:
        return bool(version) and version != "latest"
    name = text(walk(term, "name"))
    return bool(name) and "*" not in name


def _node_pool(props: Any, later: Later) -> Iterator[str]:
    with later:
        # `nodeImageId` is the deprecated property for the same image.
        yield from _ocid("nodeSourceDetails", walk(props, "nodeSourceDetails"), "imageId", props, "nodeImageId")


def _oci_instance(props: Any, later: Later) -> Iterator[str]:
    with later:
        yield from _sourced("sourceDetails", walk(props, "sourceDetails"), "sourceId", props, "image")


def _configuration(props: Any, later: Later) -> Iterator[str]:
    for path, launch in kinds.launches(props, later):
        with later:
            source = walk(launch, "sourceDetails")
            yield from _sourced(f"{path}.sourceDetails", source, "imageId", source, "bootVolumeId")


def _sourced(path: str, source: Any, field: str, holder: Any, other: str) -> Iterator[str]:
    if keys(walk(source, _FILTER)):
        yield f"{path}.{_FILTER} is set: a filter takes whatever image is newest; name one by its OCID instead"
    else:
        yield from _ocid(path, source, field, holder, other)


def _ocid(path: str, source: Any, field: str, holder: Any, other: str) -> Iterator[str]:
    """The fault, unless `field` has an OCID. If `field` is not set, the property `other` counts."""
    image = walk(source, field)
    if not text(walk(holder, other) if image is None else image).startswith("ocid1."):
        yield f"{path}.{field} is {shown(image)}: an image is pinned by its OCID; write ocid1.image.…"


_IMAGES: dict[str, Callable[[Any, Later], Iterator[str]]] = {
    kinds.EKS_NODE_GROUP: _node_group,
    kinds.LAUNCH_TEMPLATE: _launch_template,
    kinds.EC2_INSTANCE: _instance,
    kinds.SPOT_REQUEST: _instance,
    kinds.EC2_NODE_CLASS: _node_class,
    kinds.OKE_NODE_POOL: _node_pool,
    kinds.OCI_INSTANCE: _oci_instance,
    kinds.OCI_INSTANCE_CONFIGURATION: _configuration,
}
_VERSION_FIELDS = {kinds.EKS_NODE_GROUP: "version", kinds.OKE_NODE_POOL: "kubernetesVersion"}

RULE = Rule(
    id="ami-and-node-version-pinned",
    order=(Section.SUPPLY_CHAIN, 30),
    title="Node images and versions are pinned",
    severity=Severity.MEDIUM,
    types=frozenset(_IMAGES),
    levels={"dev": "advisory", "staging": "advisory", "prod": "mandatory", "homelab": "disabled"},
    config={
        "kubernetesVersions": schema.strings(
            VERSIONS, "Kubernetes minor versions that nodes may have.", least=1, pattern="^[0-9]+\\.[0-9]+$"
        )
    },
    rationale="An unpinned image can change GPU driver and kernel between two jobs, and you cannot go back to the old image.",
    source="https://karpenter.sh/docs/tasks/managing-amis/",
    fix="EKS: releaseVersion. EC2: ami-… as image. Karpenter: alias family@version. OKE and OCI: the image's OCID.",
    settings={
        kinds.EKS_NODE_GROUP: f"{CLUSTER_SETTINGS}.kubernetesVersion",
        kinds.OKE_NODE_POOL: f"{CLUSTER_SETTINGS}.nodeImages",
        kinds.OCI_INSTANCE_CONFIGURATION: f"{RUNNER_SETTINGS}.image",
        "": f"{POOL_SETTINGS}.ami",
    },
    check=_check,
)
