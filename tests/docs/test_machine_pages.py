"""`docs/layers.md` and `docs/oci-runners.md` say what the code says: image kinds, boot steps, versions, limits, prices."""

from __future__ import annotations

import re

from fleet.facts import hardware, versions
from fleet.facts.node_image import NODE_IMAGES
from fleet.providers.oke.machine.launch import METADATA_LIMIT, REGISTRATION_ROOM, STANDING_LIFETIME
from fleet.providers.oke.machine.launcher import GRACE, SWEEP_CONSOLES, SWEEP_READING
from tests.docs.markdown import ROOT

LAYERS = (ROOT / "docs" / "layers.md").read_text()
MACHINES = (ROOT / "docs" / "oci-runners.md").read_text()
BOOTSTRAP = (ROOT / "fleet" / "providers" / "oke" / "machine" / "bootstrap.sh").read_text()


def first_column(page: str, heading: str) -> list[str]:
    """Code in the first column of the first table below a heading."""
    table = page.split(f"\n{heading}\n", 1)[1].split("|---", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def test_every_kind_of_node_image_has_its_row():
    assert sorted(first_column(LAYERS, "## What each image includes")) == sorted(NODE_IMAGES)


def test_every_step_of_the_boot_has_its_row_in_order():
    begun = re.findall(r"^\s*begin (\w+)$", BOOTSTRAP, re.MULTILINE)
    assert first_column(MACHINES, "## Boot, step by step") == ["start", "reboot", *begun, "done"]


def test_the_pages_name_the_versions_that_are_pinned():
    assert f"**Toolkit {versions.VM_TOOLKIT}**" in MACHINES
    assert versions.NVKIND.version[:7] in MACHINES
    assert f"{versions.OPERATOR_DRIVER} unless `operator.driver.version`" in LAYERS
    assert f"its chart {versions.CHARTS['gpu-operator'].version}" in LAYERS


def test_the_pages_name_the_limits_that_hold():
    assert f"{METADATA_LIMIT:,} bytes of metadata" in MACHINES
    assert f"less than {REGISTRATION_ROOM:,}" in MACHINES
    assert STANDING_LIFETIME == 7 * 86_400, "the page says seven days"
    assert (GRACE, SWEEP_READING) == (11 * 60, 4 * 60), "the page says that a sweep reads for four minutes and waits for eleven"
    assert f"at most {SWEEP_CONSOLES} in each run" in MACHINES


def test_the_costs_are_those_of_the_price_table():
    one, two = (hardware.price(f"VM.GPU.A10.{size}", "us-sanjose-1", "on-demand") for size in (1, 2))
    assert one is not None
    assert two is not None
    assert f"VM.GPU.A10.1 {one.usd_per_hour:g} USD an hour, VM.GPU.A10.2 {two.usd_per_hour:g}" in " ".join(MACHINES.split())
