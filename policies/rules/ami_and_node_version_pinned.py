"""ami-and-node-version-pinned: machines boot a pinned image with a supported Kubernetes version.

Judged: EKS managed node groups, launch templates, EC2 instances and spot requests, Karpenter's EC2NodeClass, OKE node pools,
OCI instances and instance configurations. If the program looks up an image id (SSM's "recommended" parameters), a preview does
not know the id, and the rule is undeterminable. If EC2 or Karpenter looks up the image later (`resolve:ssm:`, `@latest`,
wildcards, tags), the image is not pinned.

- An EKS group needs a `releaseVersion`, unless its launch template sets the image (`CUSTOM`). The rule then judges the template.
  A template without an image leaves the image to the group. A group without a version has its cluster's version.
- OCI identifies images by OCID. A filter over images does not pin one. A boot volume counts as a pinned image.
"""

import re
from collections.abc import Callable, Sequence

from fleet.facts.eks_images import BAD_BUILDS

from . import kinds
from .read import Data, Faults, Later, count, items, keys, line, shown, strings, text, walk
from .rule import Args, Rule, facts, said

_AMI = re.compile(r"ami-[0-9a-z]+")
# 1.2.3-20260131 of Amazon Linux, 1.2.3-29cc92cc of Bottlerocket (EKS user guide, AMI versions).
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)+-[0-9A-Za-z.]+")
_MINOR = re.compile(r"v?([0-9]+\.[0-9]+)(?:\.[0-9].*)?", re.DOTALL)
_FILTER = "instanceSourceImageFilterDetails"


def _check(args: Args, later: Later) -> Faults:
    yield from _IMAGES[args.type](args.type, args.props, later)
    if (field := _VERSION_FIELDS.get(args.type)) is not None:
        yield from _version(field, args.props, strings(args.config, "kubernetesVersions"))


def _version(field: str, props: Data, supported: Sequence[str]) -> Faults:
    version = walk(props, field)
    minor = _MINOR.fullmatch(text(version))
    if version is not None and (minor is None or minor[1] not in supported):
        listed = ", ".join(map(line, supported))
        yield f"{field} is {shown(version)}: nodes need a supported Kubernetes version; write one of {listed}"


def _node_group(_: str, props: Data, later: Later) -> Faults:
    with later:
        release = walk(props, "releaseVersion")
        if _RELEASE.fullmatch(text(release)):
            if text(release).endswith(tuple(f"-{build}" for build in BAD_BUILDS)):
                yield f"releaseVersion is {shown(release)}: its kernel panics (awslabs/amazon-eks-ami#2845); write another build"
            return
        if text(walk(props, "amiType")) != "CUSTOM":
            yield said("newest_release", release=release)


def _ami(token: str, props: Data, later: Later) -> Faults:
    field = "imageId" if token == kinds.LAUNCH_TEMPLATE else "ami"
    with later:
        image = walk(props, field)
        # A template may leave the image to its group. The rule judges the image of an instance's template on the template itself.
        absent = image is None and (token == kinds.LAUNCH_TEMPLATE or bool(keys(walk(props, "launchTemplate"))))
        if not (absent or _AMI.fullmatch(text(image))):
            yield f"{field} is {shown(image)}: an image is pinned by its id; write ami-…"


def _node_class(_: str, props: Data, later: Later) -> Faults:
    path = "spec.amiSelectorTerms"
    with later:
        if not count(terms := walk(props, "spec", "amiSelectorTerms")):
            yield f"{path} is {shown(terms)}: it names the images of nodes; write an id, or an alias with a version"
        for index, term in items(terms, later):
            with later:
                if not _pins(term):
                    yield said("newest_image", path=path, index=index)


def _pins(term: Data) -> bool:
    """Whether a selector term of Karpenter selects one image: by id, by name without wildcard, or by alias with a version."""
    if _AMI.fullmatch(text(walk(term, "id"))):
        return True
    family, _, version = text(walk(term, "alias")).partition("@")
    if family:
        return bool(version) and version != "latest"
    name = text(walk(term, "name"))
    return bool(name) and "*" not in name


def _ocid(token: str, props: Data, later: Later) -> Faults:
    """The fault, unless the image has an OCID. If it is not set, another property for it counts."""
    place, field, otherwise, inside = _SOURCES[token]
    for prefix, body in kinds.bodies(token, props, later):
        with later:
            source = walk(body, place)
            image = walk(source, field)
            if keys(walk(source, _FILTER)):
                yield f"{prefix}{place}.{_FILTER} is set: a filter takes whatever image is newest; name one by its OCID instead"
            elif not text(walk(source if inside else body, otherwise) if image is None else image).startswith("ocid1."):
                yield f"{prefix}{place}.{field} is {shown(image)}: an image is pinned by its OCID; write ocid1.image.…"


_SOURCES = kinds.fields("images_of_oci")
"""Where a kind has its image: the object, the field in it, the other property, and whether that is in the object too."""
_IMAGES: dict[str, Callable[[str, Data, Later], Faults]] = {
    kinds.EKS_NODE_GROUP: _node_group,
    kinds.EC2_NODE_CLASS: _node_class,
    **dict.fromkeys((kinds.LAUNCH_TEMPLATE, kinds.EC2_INSTANCE, kinds.SPOT_REQUEST), _ami),
    **dict.fromkeys(_SOURCES, _ocid),
}
_VERSION_FIELDS = kinds.fields("version")

RULE = Rule(**facts(__name__), types=frozenset(_IMAGES), check=_check)
