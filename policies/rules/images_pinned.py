"""images-pinned: every image comes from an allowed registry and has a version tag, or a digest if the stack requires one.

Judged: every kind with a pod spec (image volumes too), ARC's runner set, releases of charts, the GPU operator's ClusterPolicy.
In a release the rule judges the pods of chart gha-runner-scale-set with the containers that the chart adds, the images that the
values name, and the default images of the charts in `charts.toml`. It does not know the default images of other charts. It
ignores a container without an image: the API server rejects one, a Patch keeps the existing image, and ARC's listener has the
image of its controller.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from . import charts
from .kinds import CLUSTER_POLICY, OPERATOR_CHART, PODS
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


@dataclass(frozen=True, slots=True)
class Reference:
    """The parts of a reference: `repository` with its registry, `tag` and `digest`. A missing tag or digest is "".

    The grammar is that of github.com/distribution/reference.
    """

    repository: str
    tag: str
    digest: str


@dataclass(frozen=True, slots=True)
class Named:
    """An image of a chart: where its values name it, and the reference as text.

    `given` is false for an image that the chart runs by default. A chart that is not in the table may add what the values lack:
    the tag if `own_tag`, the repository if `own_repository`.
    """

    path: str
    reference: str
    given: bool = True
    own_tag: bool = False
    own_repository: bool = False


@dataclass(frozen=True, slots=True)
class _Demands:
    registries: tuple[str, ...]
    digest: bool

    def faults(self, subject: str, reference: str, *, own_tag: bool = False, own_repository: bool = False) -> Faults:
        """The faults of an image. A chart may add its own tag or repository if the reference has none."""
        # Any repository stands for the chart's own one.
        image = parsed(f"any.invalid/any{reference}" if own_repository else reference)
        if image is None:
            yield f"{subject}: not an image reference; {_WRITE}"
            return
        if not (own_repository or any(_within(registry, image.repository) for registry in self.registries)):
            allowed = line(", ".join(self.registries), 200) or "none"
            where = f"take the image from one of {allowed}, or {entry('extraRegistries', line(image.repository, 200))}"
            yield f"{subject}: its registry is not allowed; {where}"
        if image.digest:
            return
        if not (image.tag or own_tag):
            yield f"{subject}: without a tag it is the image that was pushed last; {_WRITE}"
        elif image.tag and ("latest" in re.findall(r"[a-z0-9]+", image.tag.lower()) or not any(map(str.isdigit, image.tag))):
            yield f"{subject}: tag {shown(image.tag)} is not a version; {_WRITE}"
        elif self.digest:
            yield f"{subject}: a tag can be moved, so a digest is required; {_WRITE}"


def _check(args: Args, later: Later) -> Faults:
    registries = (*strings(args.config, "registries"), *strings(args.config, "extraRegistries"))
    demands = _Demands(tuple(filter(None, registries)), true(args.config.get("requireDigest")))
    for path, image, maker in of_pods(args.type, args.props, later):
        if image:
            why = f", made by {maker}" if maker else ""
            yield from demands.faults(f"{path} is {shown(image)}{why}", text(image))
    for release in releases(args.type, args.props, later):
        yield from release.unread("name other images", later)
        yield from _named_faults(of_release(release, later), demands)
    if args.type in CLUSTER_POLICY:
        yield from _named_faults(of_policy(args.props, later), demands)


def _named_faults(images: Iterator[Named], demands: _Demands) -> Faults:
    for image in images:
        what = "is" if image.given else "names no image, so the chart runs"
        subject = f"{image.path} {what} {shown(image.reference)}"
        yield from demands.faults(subject, image.reference, own_tag=image.own_tag, own_repository=image.own_repository)


@lru_cache(maxsize=1024)
def _within(registry: str, repository: str) -> bool:
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


def of_pods(token: str, props: Data, later: Later) -> Iterator[tuple[str, Data, str]]:
    """Path and value of each image of a resource's pods, and what makes its container. `later` collects unknown ones."""
    for pod in pod_specs(token, props, later):
        for container in containers_of(pod, later):
            with later:
                yield f"{pod.path}.{container.path}.image", walk(container.body, "image"), container.made
        for path, volume in volumes_of(pod, later):
            with later:
                yield f"{pod.path}.{path}.image.reference", walk(volume, "image", "reference"), ""


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
    with later:
        for image in _images("spec", walk(props, "spec"), charts.IMAGES[OPERATOR_CHART], SCHEDULING, later):
            if image.given:
                yield image


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


RULE = Rule(**facts(__name__), types=PODS | CLUSTER_POLICY, check=_check)
