"""nothing-expired: no pinned version is past its last good day.

Judged: the images of pods, runner sets and charts, versions of charts, the Kubernetes minor of control planes, and the driver
branch in the node image of an EKS node group. `fleet.facts.lifecycle` computes the days; a version without a row has no day. A
runner counts from its known end on, 30 days after the next release. An EKS control plane counts from the end of standard support
on, unless its upgradePolicy chooses extended support.

A preview and an update fail alike. An offline plan reports ended versions, and does not fail because time has passed.
"""

from collections.abc import Iterator
from datetime import date

from fleet.facts import lifecycle
from fleet.facts.eks_images import driver_of
from fleet.facts.lifecycle import Life

from . import kinds
from .images_pinned import images
from .read import Data, Faults, Later, shown, text, walk
from .releases import releases
from .rule import Resource, Stack, StackRule, apart, facts

Pin = tuple[str, str, Life]
"""Path of a pinned value, the value, and its life."""


def _faults(resource: Resource, stack: Stack, later: Later) -> Faults:
    for path, value, life in pins(resource, stack.as_of, later):
        if life.over(stack.as_of):
            yield f"{path} is {shown(value)}: {life.words(stack.as_of)}; take a newer one (gpu-ci freshen)"


def pins(resource: Resource, day: date, later: Later) -> Iterator[Pin]:
    """Everything that a resource pins and whose life a table has. `later` collects unknown values."""
    token, props = resource.type, resource.props
    if token in _MINORS:
        with later:
            yield from _minor(token, props)
    elif token == kinds.EKS_NODE_GROUP:
        release = text(later.walk(props, "releaseVersion"))
        if (driver := driver_of(release)) is not None and (life := lifecycle.of_driver(driver)) is not None:
            yield "releaseVersion", release, life
    else:
        for image in images(token, props, later):
            if (life := lifecycle.of_image(text(image.reference), day)) is not None:
                yield image.path, image.reference, life
        for chart in releases(token, props, later):
            with later:
                version = text(chart.version)
                if (life := lifecycle.of_chart(chart.chart_name, version)) is not None:
                    yield chart.path("version"), version, life


def _minor(token: str, props: Data) -> Iterator[Pin]:
    if kinds.is_hollow(token, props):
        return
    field = _MINORS[token]
    version = text(walk(props, field))
    minor = ".".join(version.removeprefix("v").split(".")[:2])
    if field == "kubernetesVersion":
        life = lifecycle.of_oke(minor)
    else:
        life = lifecycle.of_eks(minor, extended=text(walk(props, "upgradePolicy", "supportType")) == "EXTENDED")
    if life is not None:
        yield field, version, life


_MINORS = kinds.fields("minor")

_TYPES = frozenset(_MINORS) | {kinds.EKS_NODE_GROUP} | kinds.PODS | kinds.CLUSTER_POLICY
RULE = StackRule(**facts(__name__), types=_TYPES, others=kinds.may_have_pods, check=apart(_faults))
