"""The sources, one task each: ask, and say which rows are newer. A task gives all its rows or none."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from fleet.facts.eks_images import BAD_BUILDS, build_of
from fleet.providers.eks import sources as eks
from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources import github, prices, registry
from gpu_ci.doctor.sources.github import numbers
from gpu_ci.doctor.sources.web import ADDRESSES, PROJECTS, RENEWAL, Web
from gpu_ci.offline.freshen.rows import VERSIONS, Edit, Tables

NO_END = {"ends": "none published", "ends-source": ""}
"""No end of a new version is published yet."""
_NUMBER = r"\d+\.\d+\.\d+"
_RUNNERS = "runner_releases.csv"
_SUPPORT = "eks_support.csv"
_ARC = "arc_releases.csv"
_DIGESTS = ("controller_chart", "set_chart", "image")


@dataclass
class Asking:
    """What the tasks share. `regions` are those of the stacks' EKS clusters.

    `notes` gets what is newer and not taken, with the reason.
    """

    web: Web
    tables: Tables
    day: date
    regions: tuple[str, ...]
    notes: list[str] = field(default_factory=list)

    def old_enough(self, day: date) -> bool:
        """Whether a release of a day may be taken. The runner has no age, because each day of waiting is one of its 30."""
        return self.day - day >= timedelta(days=3)

    def edit(self, row: tuple[str, ...], source: str, fields: Mapping[str, str], part: str = "", file: str = VERSIONS) -> Edit:
        """New values of a row of a file, with source and date."""
        return Edit(file, row, {**fields, "source": f"{source}, freshen", "date": self.day.isoformat()}, part)

    def client(self, service: str) -> Any:
        """A client of AWS. Support dates, add-ons and node images are the same in every region of a partition."""
        return eks.client(eks.session(), service, self.regions[0] if self.regions else "us-east-1")


def split(reference: str) -> tuple[str, str, str]:
    """(registry/repository, tag, digest) of an image; tag and digest may be empty."""
    name, _, digest = reference.partition("@")
    path, colon, tag = name.rpartition(":")
    return (path, tag, digest) if colon and "/" not in tag else (name, "", digest)


# -- GitHub's runner -----------------------------------------------------------------------------------------------------


def runner_releases(ask: Asking) -> Iterator[Edit]:
    """The day of each release of the runner. The next release ends a pinned runner 30 days later."""
    rows = {row["version"]: row["released"] for row in ask.tables.csv(_RUNNERS)}
    oldest = min(map(numbers, rows))
    for release in github.releases(ask.web, "runner", rf"v({_NUMBER})"):
        if numbers(release.version) > oldest and rows.get(release.version) != (day := release.day.isoformat()):
            yield ask.edit((release.version,), f"releases of {PROJECTS['runner']}", {"released": day}, file=_RUNNERS)


def runner_image(ask: Asking) -> Iterator[Edit]:
    """The newest runner by digest. Taken at once."""
    rows = {row["version"]: row["released"] for row in ask.tables.csv(_RUNNERS)}
    name, tag, _ = split(ask.tables.versions()["images"]["actions-runner"]["reference"])
    if numbers(newest := max(rows, key=numbers)) > numbers(tag):
        fields = {"reference": f"{name}:{newest}@{registry.tagged(ask.web, name, newest).digest}", "released": rows[newest]}
        yield ask.edit(("images", "actions-runner"), f"registry {name}", fields | NO_END)


# -- charts and images ---------------------------------------------------------------------------------------------------


def arc(ask: Asking) -> Iterator[Edit]:
    """Digests of every newer release of ARC. A patch of the pinned minor is taken: both charts and the image have one version.

    A new minor is not: the controller deletes every set of another minor (docs/upgrades.md), and a person reads its charts first.
    """
    data, table = ask.tables.versions(), {row["version"]: row for row in ask.tables.csv(_ARC)}
    names = ("gha-runner-scale-set-controller", "gha-runner-scale-set")
    rows = [data["charts"][name] for name in names]
    image, _, _ = split(data["chart-images"][names[0]]["image"]["reference"])
    places = [f"{row['repository'].removeprefix('oci://')}/{name}" for name, row in zip(names, rows, strict=True)]
    pinned = max(numbers(row["version"]) for row in rows)
    releases = github.releases(ask.web, "arc", rf"gha-runner-scale-set-({_NUMBER})")
    newer = [release for release in releases if numbers(release.version) > pinned and ask.old_enough(release.day)]
    newer.sort(key=lambda release: numbers(release.version))
    for release in newer:
        version, day = release.version, release.day.isoformat()
        digests = [registry.tagged(ask.web, name, version).digest for name in (*places, image)]
        is_usable = numbers(version)[:2] == pinned[:2]
        cells = dict(zip(_DIGESTS, digests, strict=True))
        cells |= {"released": day, "missing": "" if is_usable else "content of both charts (values, templates, CRDs)"}
        old = table.get(version, {})
        if any(old.get(column, "") not in ("", cells[column]) for column in _DIGESTS):
            raise SourceError(f"ghcr.io has another digest of ARC {version} than {_ARC}")
        source = f"{PROJECTS['arc']} gha-runner-scale-set-{version}; digests: registry ghcr.io"
        if any(old.get(column) != cell for column, cell in cells.items()):
            yield ask.edit((version,), source, cells, file=_ARC)
        if not is_usable:
            ask.notes.append(f"charts.{names[1]}: {version} is newer and of another minor (docs/upgrades.md); not taken")
            continue
        for name, digest in zip(names, digests, strict=False):
            fields = {"version": version, "sha256": digest.removeprefix("sha256:"), "released": day}
            yield ask.edit(("charts", name), source.replace("digests", "sha256"), fields | NO_END)
        fields = {"reference": f"{image}:{version}@{digests[2]}", "released": day}
        yield ask.edit(("chart-images", names[0], "image"), f"registry {image}", fields | NO_END)


def chart_digest(ask: Asking, name: str) -> Iterator[Edit]:
    """Completes the row of a chart whose version Renovate, or a person, has changed: digest and day."""
    row = ask.tables.versions()["charts"][name]
    version, place = row["version"], row["repository"]
    if place.startswith("oci://"):
        chart, source = registry.tagged(ask.web, f"{place.removeprefix('oci://')}/{name}", version), f"registry {place}"
    else:
        chart, source = registry.indexed(ask.web, place, name, version), f"{place}/index.yaml"
    fields = {"sha256": chart.digest.removeprefix("sha256:"), "released": chart.day}
    yield ask.edit(("charts", name), f"{name} {version}; sha256: {source}", fields)


def image_digest(ask: Asking, path: tuple[str, ...], reference: str) -> Iterator[Edit]:
    """Adds the digest to the row of an image that has a tag alone."""
    name, tag, _ = split(reference)
    image = registry.tagged(ask.web, name, tag)
    fields = {"reference": f"{name}:{tag}@{image.digest}"}
    # Where a person chooses the tag, its day is in the row already.
    if not any(fnmatchcase(f"{VERSIONS}:{'.'.join(path)}", pattern) for pattern in RENEWAL["by-hand"]):
        fields["released"] = image.day
    yield ask.edit(path, f"registry {name}", fields, part="digest")


def incomplete(tables: Tables) -> Iterator[tuple[str, Callable[[Asking], Iterator[Edit]]]]:
    """A task for each chart and image without a digest."""
    data = tables.versions()
    for name, row in data["charts"].items():
        if not row.get("sha256"):
            yield f"digest of chart {name}", partial(chart_digest, name=name)
    images: dict[tuple[str, ...], Any] = {("images", name): row for name, row in data["images"].items()}
    images |= {("chart-images", chart, at): row for chart, rows in data["chart-images"].items() for at, row in rows.items()}
    for path, row in images.items():
        _, tag, digest = split(row["reference"])
        if tag and not digest:
            yield f"digest of {' '.join(path[1:])}", partial(image_digest, path=path, reference=row["reference"])


# -- Kubernetes ----------------------------------------------------------------------------------------------------------


def eks_images(ask: Asking) -> Iterator[Edit]:
    """The newest node image of each minor, by its release notes, which name the driver."""
    rows = ask.tables.versions()["kubernetes"]
    table = {row["release"] for row in ask.tables.csv("eks_images.csv")}
    newest: dict[str, eks.NodeImage] = {}
    project = PROJECTS["eks-images"]
    for release in github.releases(ask.web, "eks-images", r"v(\d{8})", size=20):
        if release.version in BAD_BUILDS or not ask.old_enough(release.day):
            continue
        for minor, row in rows.items():
            if minor in newest or release.version <= build_of(row["ami-release"]):
                continue
            if (image := eks.node_image(release.notes, minor)) is not None and build_of(image.release) != release.version:
                raise SourceError(f"the notes of v{release.version} name the release {image.release}")
            if image is not None and not image.driver:
                ask.notes.append(f"kubernetes.{minor}: {image.release} is newer, but its notes name no driver; not taken")
            elif image is not None:
                newest[minor] = image
                version = release.version
                source, day = f"{project} v{version}", f"{version[:4]}-{version[4:6]}-{version[6:]}"
                toolkit = image.toolkit.partition("-")[0] or "unknown"
                fields = {"ami-release": image.release, "driver": image.driver, "toolkit": toolkit, "released": day}
                yield ask.edit(("kubernetes", minor), source, fields, part="node image")
                if image.release not in table:
                    cells = {"driver": image.driver, "toolkit": image.toolkit or "unknown"}
                    yield ask.edit((image.release,), f"{project} v{release.version}", cells, file="eks_images.csv")


def eks_support(ask: Asking) -> Iterator[Edit]:
    """How long AWS supports each minor."""
    rows = {row["minor"]: row for row in ask.tables.csv(_SUPPORT)}
    oldest = min(map(numbers, rows))
    for minor in eks.minors(ask.client("eks")):
        names = ("released", "standard_until", "extended_until")
        dates = {name: getattr(minor, name).isoformat() for name in names}
        if numbers(minor.minor) >= oldest and {name: rows.get(minor.minor, {}).get(name) for name in names} != dates:
            yield ask.edit((minor.minor,), "aws eks describe-cluster-versions", dates, file=_SUPPORT)


def eks_addons(ask: Asking) -> Iterator[Edit]:
    """The add-ons that EKS installs by default, where they are newer."""
    client = ask.client("eks")
    for minor, row in ask.tables.versions()["kubernetes"].items():
        cloudwatch = {"amazon-cloudwatch-observability": row["cloudwatch"]}
        newer: list[str] = []
        for table, addons in {"addons": row["addons"], "drivers": row["drivers"], "": cloudwatch}.items():
            versions = {name: (old, eks.default_addon(client, minor, name)) for name, old in addons.items()}
            fields = {name: new for name, (old, new) in versions.items() if numbers(new) > numbers(old)}
            newer += fields
            if fields and table:
                yield Edit(VERSIONS, ("kubernetes", minor, table), fields)
            elif fields:
                yield Edit(VERSIONS, ("kubernetes", minor), {"cloudwatch": fields["amazon-cloudwatch-observability"]})
        if newer:
            yield ask.edit(("kubernetes", minor), f"aws eks describe-addon-versions ({', '.join(newer)})", {}, part="add-ons")


def autoscaler(ask: Asking) -> Iterator[Edit]:
    """The newest patch of the autoscaler of each minor, by digest."""
    data = ask.tables.versions()
    name, _, _ = split(data["chart-images"]["cluster-autoscaler"]["image"]["reference"])
    releases = list(github.releases(ask.web, "autoscaler", rf"cluster-autoscaler-({_NUMBER})", pages=3))
    for minor, row in data["kubernetes"].items():
        tag, _, digest = row["cluster-autoscaler"].partition("@")
        if (newest := _newest(ask, releases, minor, tag)) or not digest:
            tag = f"v{newest.version}" if newest else tag
            fields = {"cluster-autoscaler": f"{tag}@{registry.tagged(ask.web, name, tag).digest}"}
            yield ask.edit(("kubernetes", minor), f"{PROJECTS['autoscaler']} and {name}", fields, part="autoscaler")


def talos(ask: Asking) -> Iterator[Edit]:
    """The newest release of each Talos minor, with the drivers of its extensions."""
    releases = list(github.releases(ask.web, "talos", rf"v({_NUMBER})", pages=2, size=50))
    for minor, row in ask.tables.versions()["talos"].items():
        if (newest := _newest(ask, releases, minor, row["release"])) is None:
            continue
        url = f"{ADDRESSES['files']}/{PROJECTS['talos-extensions']}/v{newest.version}/nvidia-gpu/vars.yaml"
        text = ask.web.get(url, 1_000_000).body.decode(errors="replace")
        names = {"production": "NVIDIA_DRIVER_PRODUCTION", "lts": "NVIDIA_DRIVER_LTS", "toolkit": "CONTAINER_TOOLKIT"}
        drivers = {key: re.search(rf"^{name}_VERSION: v?({_NUMBER})$", text, re.MULTILINE) for key, name in names.items()}
        if missing := [key for key, match in drivers.items() if match is None]:
            ask.notes.append(f"talos.{minor}: v{newest.version} is newer, but {url} names no {missing[0]}; not taken")
            continue
        fields = {"release": f"v{newest.version}", **{key: match[1] for key, match in drivers.items() if match}}
        source = f"{PROJECTS['talos']} and {PROJECTS['talos-extensions']} v{newest.version}, nvidia-gpu/vars.yaml"
        yield ask.edit(("talos", minor), source, fields | {"released": newest.day.isoformat()})


def talos_kubernetes(ask: Asking) -> Iterator[Edit]:
    """The newest patch of each Kubernetes minor."""
    releases = list(github.releases(ask.web, "kubernetes", rf"v({_NUMBER})", pages=2, size=50))
    for minor, row in ask.tables.versions()["talos-kubernetes"].items():
        if newest := _newest(ask, releases, minor, row["version"]):
            fields = {"version": f"v{newest.version}", "released": newest.day.isoformat()}
            yield ask.edit(("talos-kubernetes", minor), f"releases of {PROJECTS['kubernetes']}", fields)


def _newest(ask: Asking, releases: list[github.Published], minor: str, current: str) -> github.Published | None:
    """The newest release of a minor that is newer than `current` and old enough. A pre-release is older than its release."""
    usable = [release for release in releases if release.version.startswith(f"{minor}.") and ask.old_enough(release.day)]
    newest = max(usable, key=lambda release: numbers(release.version), default=None)
    number, _, pre = current.partition("-")
    *head, patch = numbers(number)
    return newest if newest and numbers(newest.version) > (*head, patch - bool(pre)) else None


# -- prices --------------------------------------------------------------------------------------------------------------


PRICED = "aws"
"""The cloud whose price list `on_demand` asks."""


def on_demand(ask: Asking, region: str) -> Iterator[Edit]:
    """The on-demand prices of EC2 in a region."""
    own = [row for row in ask.tables.csv("prices.csv") if (row["region"], row["capacity"]) == (region, "on-demand")]
    rows = {row["item"]: float(row["usd_per_hour"]) for row in own}
    for name, usd in prices.on_demand(ask.web, region, rows).items():
        if usd != rows[name]:
            yield ask.edit((name, region, "on-demand"), "AWS price list", {"usd_per_hour": f"{usd:.6g}"}, file="prices.csv")


TASKS: dict[str, Callable[[Asking], Iterator[Edit]]] = {
    "runner releases": runner_releases,
    "runner image": runner_image,
    "arc": arc,
    "eks images": eks_images,
    "eks support dates": eks_support,
    "eks add-ons": eks_addons,
    "autoscaler": autoscaler,
    "talos": talos,
    "talos kubernetes": talos_kubernetes,
}
"""By name, in the order in which they run: the image of the runner is that of the newest release in the table."""
