"""images-pinned: every image comes from an allowed registry and has a version tag, or a digest if the stack requires one.

Judged: every kind with a pod spec (image volumes too), ARC's runner set, releases of charts, the GPU operator's ClusterPolicy.
In a release the rule judges the pods of chart gha-runner-scale-set with the containers that the chart adds, the images that the
values name, and the default images of the charts in `charts.toml`. It does not know the default images of other charts. It
ignores a container without an image: the API server rejects one, a Patch keeps the existing image, and ARC's listener has the
image of its controller.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from fleet.facts.record import Record

from . import charts
from .admission import held
from .kinds import CLUSTER_POLICY, OPERATOR_CHART, PODS, may_have_pods
from .pods import containers_of, pod_specs, volumes_of
from .read import Data, Faults, Later, keys, label, line, shown, strings, text, true, walk
from .releases import SCHEDULING, Release, objects, passed_over, releases
from .rule import Args, Rule, entry, facts

_WRITE = "write registry/repository:version@sha256:digest"

DOCKER_HUB = "docker.io"
"""The registry of a reference that names none."""

_HOST = r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)(?::[0-9]{1,5})?|[A-Za-z0-9-]+:[0-9]{1,5}"
_NAME = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<name>{_NAME}(?:/{_NAME})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_SHA256 = "sha256:"


class Reference(Record):
    """The parts of a reference: `repository` with its registry, `tag` and `digest`. A missing tag or digest is "".

    The grammar is that of github.com/distribution/reference.
    """

    repository: str
    tag: str
    digest: str


class Named(Record):
    """An image that a resource runs: where it is named, and the reference.

    `maker` says which value makes a chart add the container. `given` is false for an image that a chart runs by default. A chart
    that is not in the table may add what its values lack: the tag if `own_tag`, the repository if `own_repository`.
    """

    path: str
    reference: Data
    maker: str = ""
    given: bool = True
    own_tag: bool = False
    own_repository: bool = False

    @property
    def subject(self) -> str:
        """The image for a message."""
        what = "is" if self.given else "names no image, so the chart runs"
        return f"{self.path} {what} {shown(self.reference)}" + (f", made by {self.maker}" if self.maker else "")


def _check(args: Args, later: Later) -> Faults:
    registries = tuple(filter(None, (*strings(args.config, "registries"), *strings(args.config, "extraRegistries"))))
    for release in releases(args.type, args.props, later):
        yield from release.unread("name other images", later)
    for named in images(args.type, args.props, later):
        yield from _faults(named, registries, digest=true(args.config.get("requireDigest")))


def _faults(named: Named, registries: tuple[str, ...], *, digest: bool) -> Faults:
    # Any repository stands for the chart's own one.
    if (image := parsed(("any.invalid/any" if named.own_repository else "") + text(named.reference))) is None:
        yield f"{named.subject}: not an image reference; {_WRITE}"
        return
    if not (named.own_repository or any(within(registry, image.repository) for registry in registries)):
        allowed = line(", ".join(registries), 200) or "none"
        where = f"take the image from one of {allowed}, or {entry('extraRegistries', line(image.repository, 200))}"
        yield f"{named.subject}: its registry is not allowed; {where}"
    if image.digest:
        return
    if not (image.tag or named.own_tag):
        yield f"{named.subject}: without a tag it is the image that was pushed last; {_WRITE}"
    elif image.tag and ("latest" in re.findall(r"[a-z0-9]+", image.tag.lower()) or not any(map(str.isdigit, image.tag))):
        yield f"{named.subject}: tag {shown(image.tag)} is not a version; {_WRITE}"
    elif digest:
        yield f"{named.subject}: a tag can be moved, so a digest is required; {_WRITE}"


@lru_cache(maxsize=1024)
def within(registry: str, repository: str) -> bool:
    """Whether a repository is in a registry, or below a path of it. * matches any text between two slashes."""
    pattern = "[^/]*".join(map(re.escape, registry.rstrip("/").split("*")))
    return re.fullmatch(rf"{pattern}(?:/.*)?", repository, re.DOTALL) is not None


# -- what names images --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def parsed(reference: str) -> Reference | None:
    """The parts of a reference; None for any other text."""
    match = _REFERENCE.fullmatch(reference) if len(reference) <= 512 else None
    if match is None:
        return None
    host, name = match["host"] or DOCKER_HUB, match["name"]
    official = host == DOCKER_HUB and "/" not in name
    return Reference(f"{host}/{'library/' if official else ''}{name}", match["tag"] or "", match["digest"] or "")


def images(token: str, props: Data, later: Later) -> Iterator[Named]:
    """Every image that a resource runs. `later` collects unknown ones."""
    for pod in pod_specs(token, props, later):
        for container in containers_of(pod, later):
            if image := later.walk(container.body, "image"):
                yield Named(f"{pod.path}.{container.path}.image", image, container.made)
        for path, volume in volumes_of(pod, later):
            if image := later.walk(volume, "image", "reference"):
                yield Named(f"{pod.path}.{path}.image.reference", image)
    for release in releases(token, props, later):
        yield from of_release(release, later)
    if token in CLUSTER_POLICY:
        yield from of_policy(props, later)


def of_release(release: Release, later: Later) -> Iterator[Named]:
    """Images of a chart's release without those of its pod templates. `later` collects unknown values.

    In values an image is an object with `repository`, `tag` (or `version`) and `digest` (or `sha`). It may also have a
    `registry`, and the image's name in `image`. An image may also be text under the key `image`.
    """
    with later:
        passing = passed_over(release)
        values = release.values
        yield from _images(release.values_path, values, charts.IMAGES.get(release.chart_name, ()), passing, later)


def of_policy(props: Data, later: Later) -> Iterator[Named]:
    """Images that the GPU operator's ClusterPolicy names and does not switch off. `later` collects unknown values."""
    every = _images("spec", later.walk(props, "spec"), charts.IMAGES[OPERATOR_CHART], SCHEDULING, later)
    return (image for image in every if image.given)


def _images(
    prefix: str, values: Data, defaults: Iterable[charts.DefaultImage], passing: frozenset[str], later: Later
) -> Iterator[Named]:
    paths = {f"{prefix}.{default.at}": default for default in defaults}
    for path, default in paths.items():
        with later:
            yield from _default(path, values, default)
    for path, holder in objects(values, prefix, later, passing):
        if path not in paths:
            with later:
                yield from _own(path, holder)


def _default(path: str, values: Data, default: charts.DefaultImage) -> Iterator[Named]:
    """An image of a chart in the table, if it is on: the chart's values, overridden by those of the release."""
    if default.switch:
        flag = walk(values, *default.switch.split("."))
        if not (default.on if flag is None else true(flag)):
            return
    holder = walk(values, *default.at.split("."))
    written = {key: value for key in _KEYS if key in keys(holder) and (value := label(walk(holder, key)))}
    parts = {**default.values, **written}
    if default.variant and walk(holder, default.variant) is not False:
        parts["tag"] += f"-{default.variant}"
    yield Named(path, _joined(parts), given=bool(written))


def _own(path: str, holder: Data) -> Iterator[Named]:
    """The image that an object of values describes, if it describes one."""
    parts = {key: label(walk(holder, key)) for key in _KEYS if key in keys(holder)}
    if "://" in parts.get("repository", "") or not parts or walk(holder, "enabled") is False:
        return
    if parts.get("repository"):
        yield Named(path, _joined(parts), own_tag=True)
    elif parts.get("image"):
        yield Named(f"{path}.image", _joined(parts), own_tag="tag" in parts or "version" in parts)
    elif any(parts.get(key) for key in _CHOICES) and path.endswith((".image", "Image")):
        yield Named(path, _joined(parts), own_repository=True)


_CHOICES = ("tag", "version", "digest", "sha")
_KEYS = ("registry", "repository", "image", *_CHOICES)


def _joined(parts: Mapping[str, str]) -> str:
    """The reference of an image's parts; without a repository it begins with the tag or the digest."""
    present = {key: parts.get(key, "") for key in _KEYS}
    whole = "/".join(filter(None, (present["registry"], present["repository"], present["image"])))
    tag, digest = present["tag"] or present["version"], present["digest"] or present["sha"]
    if tag.startswith(_SHA256):
        tag, digest = "", tag
    if digest and not digest.startswith(_SHA256):
        digest = f"{_SHA256}{digest}"
    return f"{whole}{f':{tag}' if tag else ''}{f'@{digest}' if digest else ''}"


RULE = held(Rule(**facts(__name__), types=PODS | CLUSTER_POLICY, others=may_have_pods, check=_check))
