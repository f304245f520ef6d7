"""Public sources on loopback in which every version is newer than the tables, and a copy of the tables."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from fleet.facts.eks_images import BAD_BUILDS
from fleet.facts.versions import CHARTS, KUBERNETES, TALOS, TALOS_KUBERNETES
from gpu_ci.offline.commands.freshen import DATA
from tests.doctor.loopback import Answers
from tests.doctor.test_sources import notes, price_list, release, row

DAY = "2099-12-24"
OLD, YOUNG = "2099-12-01", "2099-12-23"
"""Days of releases that are old enough on `DAY`, and too young."""
RUNNER = "2.999.1"
ARC = f"{CHARTS['gha-runner-scale-set'].version.rpartition('.')[0]}.999"
NEXT_ARC = "0.999.1"
HOSTS = ("api.github.com", "ghcr.io", "registry.k8s.io", "nvcr.io", "registry-1.docker.io", "mcr.microsoft.com")
FILES = (*HOSTS, "raw.githubusercontent.com", "pricing.us-east-1.amazonaws.com")
DRIVERS = (
    "NVIDIA_DRIVER_LTS_VERSION: 580.999.01\nNVIDIA_DRIVER_PRODUCTION_VERSION: 595.999.01\nCONTAINER_TOOLKIT_VERSION: v1.99.1\n"
)


def tables(folder: Path) -> Path:
    """A copy of the tables."""
    return Path(shutil.copytree(DATA, folder / "data"))


def manifest(name: str) -> tuple[str, str]:
    """(manifest, digest) of an image or a chart by registry/repository:tag."""
    text = f'{{"name": "{name}"}}'
    return text, f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def pulls(*names: str) -> dict[str, tuple[int, Any]]:
    """The answers of registries for these images."""
    return {
        f"/{host}/v2/{path}/manifests/{tag}": (200, manifest(name)[0]) for name in names for host, path, tag in [_parts(name)]
    }


def _parts(name: str) -> tuple[str, str, str]:
    place, _, tag = name.rpartition(":")
    host, _, path = place.partition("/")
    return {"docker.io": "registry-1.docker.io"}.get(host, host), path, tag


def _listed(tags: list[str]) -> list[dict[str, Any]]:
    """Releases of which one is too young and one a pre-release, both newer than those that count."""
    return [*(release(tag, YOUNG) for tag in tags[:1]), *(release(tag, OLD, prerelease=True) for tag in tags[1:2])] + [
        release(tag, OLD) for tag in tags[2:]
    ]


def world(**changes: Any) -> Answers:
    """The answers of all sources but AWS' API. `changes` replace the releases of a project, by its name."""
    scale = "gha-runner-scale-set-"
    bad = BAD_BUILDS[0]
    releases: dict[str, Any] = {
        "actions/runner": [release(f"v{RUNNER}", YOUNG), release("v2.999.0", OLD), release("v2.999.2", OLD, prerelease=True)],
        "actions/actions-runner-controller": _listed(
            [f"{scale}0.999.9", f"{scale}0.999.8", f"{scale}{NEXT_ARC}", f"{scale}{ARC}"]
        ),
        "awslabs/amazon-eks-ami": [
            release("v20991223", YOUNG, body="".join(notes(minor, "20991223") for minor in KUBERNETES)),
            release("v20991202", OLD, body="".join(notes(minor, "20991202", "—") for minor in KUBERNETES)),
            release("v20991201", OLD, body="".join(notes(minor, "20991201") for minor in KUBERNETES)),
            release(f"v{bad}", OLD, body="".join(notes(minor, bad) for minor in KUBERNETES)),
        ],
        "kubernetes/autoscaler": [
            release(f"cluster-autoscaler-{minor}.{patch}", OLD) for minor in KUBERNETES for patch in (98, 99)
        ],
        "kubernetes/kubernetes": _listed(
            ["v1.99.1", "v1.99.0", *(f"v{minor}.{patch}" for minor in TALOS_KUBERNETES for patch in (99, 98))]
        ),
        "siderolabs/talos": _listed(["v1.99.1", "v1.99.0", *(f"v{minor}.99" for minor in TALOS)]),
    } | changes
    arc = CHARTS["gha-runner-scale-set"].repository.removeprefix("oci://")
    places = (
        "ghcr.io/actions/gha-runner-scale-set-controller",
        f"{arc}/gha-runner-scale-set-controller",
        f"{arc}/gha-runner-scale-set",
    )
    names = [
        f"ghcr.io/actions/actions-runner:{RUNNER}",
        *(f"{name}:{tag}" for tag in (ARC, NEXT_ARC) for name in places),
        *(f"registry.k8s.io/autoscaling/cluster-autoscaler:v{minor}.99" for minor in KUBERNETES),
    ]
    vars_yaml = {
        f"/raw.githubusercontent.com/siderolabs/extensions/v{minor}.99/nvidia-gpu/vars.yaml": (200, DRIVERS) for minor in TALOS
    }
    lists = {f"/api.github.com/repos/{project}/releases": (200, answer) for project, answer in releases.items()}
    rows = price_list(row(usd="9.8765000000"))
    offers = "/pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/us-west-2/index.csv"
    return {
        **lists,
        **vars_yaml,
        **pulls(*names),
        offers: (200, rows),
    }
