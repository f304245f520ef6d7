"""Kinds of node images."""

from __future__ import annotations

import datetime
import tomllib
from pathlib import Path

from fleet.facts import hardware, node_image
from fleet.facts.node_image import NODE_IMAGES, NodeImage
from fleet.providers.eks.nodes import EksPool
from fleet.providers.talos.nodes import TalosPool
from tests.cases import cases

DATA = Path(node_image.__file__).parent / "data" / "nodes.toml"


def test_a_kind_is_its_row_with_what_most_lack_left_out() -> None:
    assert NODE_IMAGES["al2023-nvidia"] == NodeImage("al2023-nvidia", True, True, False, ("aws",), "", False, "")
    assert (NODE_IMAGES["talos"].driver_root, NODE_IMAGES["vgpu-guest"].licensed) == ("/usr/local", True)
    assert {name for name, image in NODE_IMAGES.items() if image.handler} == {"talos"}


def test_pools_of_eks_name_the_kinds_of_its_cloud() -> None:
    of_aws = {name for name, image in NODE_IMAGES.items() if "aws" in image.clouds}
    assert set(EksPool.model_fields["image"].annotation.__args__) == of_aws  # type: ignore[union-attr]


def test_pools_of_talos_name_the_one_kind_that_is_talos() -> None:
    assert TalosPool.model_fields["image"].annotation.__args__ == ("talos",)  # type: ignore[union-attr]
    assert NODE_IMAGES["talos"].clouds == ("owned",)


def test_a_handler_is_of_an_image_with_a_toolkit() -> None:
    assert {name for name, image in NODE_IMAGES.items() if image.handler and not image.toolkit} == set()


def test_clouds_are_those_of_the_hardware_table_own_machines_and_kind() -> None:
    named = {cloud for image in NODE_IMAGES.values() for cloud in image.clouds}
    assert named == {machine.cloud for machine in hardware.machines()} | {"owned", "kind"}


@cases("name", NODE_IMAGES)
def test_every_kind_has_a_source_and_an_iso_date(name: str) -> None:
    row = tomllib.loads(DATA.read_text(encoding="utf-8"))["images"][name]
    assert row["source"]
    assert datetime.date.fromisoformat(row["date"]) <= datetime.date(2026, 11, 21)
    known = {"driver", "toolkit", "advertises", "clouds", "driver-root", "licensed", "handler"}
    assert set(row) <= known | {"source", "date"}


@cases("name", NODE_IMAGES)
def test_only_an_image_without_a_driver_takes_a_licensed_one_and_a_plugin_needs_a_driver(name: str) -> None:
    image = NODE_IMAGES[name]
    assert not (image.licensed and image.driver)
    assert not (image.advertises and not (image.driver and image.toolkit))
