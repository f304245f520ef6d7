"""EKS: node images from their release notes; support dates, add-ons and the newest image from AWS, with credentials alone."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fleet.facts.eks_images import parameters
from fleet.facts.record import Record
from fleet.facts.support import Support
from fleet.providers.finding import SourceError

_VARIANT = "AL2023_x86_64_NVIDIA"
_DRIVERS = ("kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms", "nvidia-driver-latest-dkms")
"""Packages that have the version of the driver."""


class NodeImage(Record):
    """A release of the NVIDIA node image. `driver` and the package of the `toolkit` are empty if the notes do not name them."""

    release: str
    driver: str
    toolkit: str


def node_image(notes: str, minor: str) -> NodeImage | None:
    """The release of a Kubernetes minor in the notes of a release of awslabs/amazon-eks-ami; None if it has none.

    The notes have a table of names and releases, and a table of packages with a column for each variant.
    """
    start = notes.find(f"<b>Kubernetes {minor}</b>")
    part = notes[start : notes.find("</details>", start)] if start >= 0 else ""
    release = re.search(rf"<td[^>]*>\s*({re.escape(minor)}\.\d+-\d{{8}})\s*</td>", part)
    if release is None:
        return None
    packages = {row[0]: row[1:] for row in map(_cells, part.split("<tr>")) if row}
    head = packages.get("Package", [])
    column = head.index(_VARIANT) if _VARIANT in head else -1
    driver, toolkit = (
        next((row[column] for name in names if (row := packages.get(name)) and 0 <= column < len(row)), "")
        for names in (_DRIVERS, ("nvidia-container-toolkit",))
    )
    number = re.match(r"\d+\.\d+\.\d+(?=-|$)", driver)
    package = re.fullmatch(r"\d+\.\d+\.\d+-\d+", toolkit)
    return NodeImage(release[1], number[0] if number else "", package[0] if package else "")


def _cells(row: str) -> list[str]:
    """The cells of a row of a table, each as often as it has columns, at most 20."""
    cells = re.findall(r"<t[dh](?: colspan=\"(\d{1,2})\")?[^>]*>\s*([^<]*?)\s*</t[dh]>", row)
    return [text for span, text in cells for _ in range(min(int(span or 1), 20))]


def session() -> Any:
    """A boto3 session with the usual credentials."""
    try:
        import boto3  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise SourceError("boto3 is not installed; make doctor installs it") from None
    opened = boto3.Session()
    with _aws("credentials"):
        if opened.get_credentials() is None:
            raise SourceError("there are no AWS credentials")
    return opened


def client(opened: Any, service: str, region: str) -> Any:
    """A client that does not wait long."""
    from botocore.config import Config  # noqa: PLC0415 - an optional extra

    quick = Config(connect_timeout=5, read_timeout=30, retries={"total_max_attempts": 2})
    return opened.client(service, region_name=region, config=quick)


@contextmanager
def _aws(what: str) -> Iterator[None]:
    from botocore import exceptions  # noqa: PLC0415 - an optional extra

    try:
        yield
    except (exceptions.BotoCoreError, exceptions.ClientError) as error:
        raise SourceError(f"{what}: {error}") from None
    except (LookupError, TypeError, AttributeError) as error:
        raise SourceError(f"{what}: an answer does not have the expected form ({type(error).__name__})") from None


def minors(client: Any) -> list[Support]:
    """The dates of every minor that EKS has: `aws eks describe-cluster-versions`."""
    days = ("releaseDate", "endOfStandardSupportDate", "endOfExtendedSupportDate")
    with _aws("support dates"):
        pages = client.get_paginator("describe_cluster_versions").paginate()
        answers = [entry for page in pages for entry in page["clusterVersions"]]
        return [Support(_formed(one["clusterVersion"], r"\d\.\d{1,3}"), *(one[day].date() for day in days)) for one in answers]


def default_addon(client: Any, minor: str, name: str) -> str:
    """The version of an add-on that EKS installs by default: `aws eks describe-addon-versions`."""
    with _aws(f"add-on {name}"):
        pages = client.get_paginator("describe_addon_versions").paginate(kubernetesVersion=minor, addonName=name)
        for entry in (version for page in pages for addon in page["addons"] for version in addon["addonVersions"]):
            if any(pair["defaultVersion"] and pair["clusterVersion"] == minor for pair in entry["compatibilities"]):
                return _formed(entry["addonVersion"], r"v\d+\.\d+\.\d+-eksbuild\.\d+")
    raise SourceError(f"EKS has no default version of {name} for Kubernetes {minor}")


def recommended(client: Any, minor: str) -> str:
    """The release of the NVIDIA node image that AWS recommends: a public parameter of SSM."""
    with _aws("node image"):
        name = f"{parameters(minor, 'nvidia')}/recommended/release_version"
        return _formed(client.get_parameter(Name=name)["Parameter"]["Value"], rf"{re.escape(minor)}\.\d+-\d{{8}}")


def _formed(text: str, form: str) -> str:
    if not re.fullmatch(form, text):
        raise SourceError(f"AWS answers a version of another form: {text[:40]!r}")
    return text
