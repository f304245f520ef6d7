"""Kinds of node images."""

from __future__ import annotations

import datetime
import tomllib
from pathlib import Path

import pytest

from fleet import hardware, node_image
from fleet.node_image import NODE_IMAGES, NodeImage
from fleet.providers.eks import EksPool

DATA = Path(node_image.__file__).parent / "data" / "nodes.toml"


def test_every_kind_says_what_it_brings() -> None:
    assert NODE_IMAGES["al2023-nvidia"] == NodeImage("al2023-nvidia", True, True, False, ("aws",), "", False)
    brings = {name: (image.driver, image.toolkit, image.advertises, image.licensed) for name, image in NODE_IMAGES.items()}
    assert brings == {
        "al2023-nvidia": (True, True, False, False),
        "bottlerocket-nvidia": (True, True, True, False),
        "oke-gpu": (True, True, False, False),
        "ubuntu": (False, False, False, False),
        "vgpu-guest": (False, False, False, True),
        "passthrough": (False, False, False, False),
        "talos": (True, True, False, False),
        "nvkind": (True, True, False, False),
    }


def test_a_driver_beside_the_root_is_said_where() -> None:
    assert {name: image.driver_root for name, image in NODE_IMAGES.items() if image.driver_root} == {"talos": "/usr/local"}


def test_pools_of_eks_name_the_kinds_of_its_cloud() -> None:
    of_aws = {name for name, image in NODE_IMAGES.items() if "aws" in image.clouds}
    assert set(EksPool.model_fields["image"].annotation.__args__) == of_aws  # type: ignore[union-attr]


def test_clouds_are_those_of_the_hardware_table_and_kind() -> None:
    named = {cloud for image in NODE_IMAGES.values() for cloud in image.clouds}
    assert named == {machine.cloud for machine in hardware.machines()} | {"kind"}


@pytest.mark.parametrize("name", NODE_IMAGES)
def test_every_kind_has_a_source_and_an_iso_date(name: str) -> None:
    row = tomllib.loads(DATA.read_text(encoding="utf-8"))["images"][name]
    assert row["source"]
    assert datetime.date.fromisoformat(row["date"]) <= datetime.date(2026, 11, 21)
    assert set(row) <= {"driver", "toolkit", "advertises", "clouds", "driver-root", "licensed", "source", "date"}


@pytest.mark.parametrize("name", NODE_IMAGES)
def test_only_an_image_without_a_driver_takes_a_licensed_one_and_a_plugin_needs_a_driver(name: str) -> None:
    image = NODE_IMAGES[name]
    assert not (image.licensed and image.driver)
    assert not (image.advertises and not (image.driver and image.toolkit))
