"""images-pinned: every image comes from an allowed registry and has a version tag, or a digest if the stack requires one.

Judged: every kind with a pod spec (image volumes too), ARC's runner set, releases of charts, the GPU operator's ClusterPolicy.
In a release the rule judges the pods of chart gha-runner-scale-set with the containers that the chart adds, the images that the
values name, and the default images of the charts in `charts.toml`. It does not know the default images of other charts. It
ignores a container without an image: the API server rejects one, a Patch keeps the existing image, and ARC's listener has the
image of its controller.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from .images import Named, of_pods, of_policy, of_release, parsed
from .kinds import CLUSTER_POLICY, HELM, POD, RUNNER_SET
from .read import Faults, Later, line, shown, strings, text, true
from .releases import releases
from .rule import Args, Rule, entry, facts

_WRITE = "write registry/repository:version@sha256:digest"


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


RULE = Rule(**facts(__name__), types=POD | RUNNER_SET | HELM | CLUSTER_POLICY, check=_check)
