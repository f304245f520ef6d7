"""Which driver drives which GPU."""

from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from fleet.facts import hardware, versions
from fleet.settings.compatibility import branch, driver_version, require_driver
from tests.cases import cases


@cases(("version", "of"), [("580.159.03", 580), ("595.91.07", 595), ("570.195.03", 570), ("535.54", 535)])
def test_a_driver_is_of_the_branch_before_its_first_dot(version: str, of: int) -> None:
    assert driver_version(version) == version
    assert branch(version) == of


@cases("text", ["R580", "580", "580.1", "580.159.3", "580.159.03-1", "v580.159.03", "580.159.03\n", "latest", ""])
def test_what_nvidia_names_no_driver_by_is_refused(text: str) -> None:
    with pytest.raises(PydanticCustomError, match="not a driver's version; write it as nvidia-smi shows it"):
        driver_version(text)


@cases("name", ["VM.GPU2.1", "BM.GPU2.2", "VM.GPU3.1", "BM.GPU3.8", "p3.2xlarge", "p3dn.24xlarge"])
def test_p100_and_v100_end_with_branch_580(name: str) -> None:
    machine = hardware.machine(name)
    for version in ("470.256.02", "580.159.03"):
        require_driver(machine, version, at=("driver",))
    for version in ("590.44.01", "595.91.07"):
        with pytest.raises(
            PydanticCustomError, match=f"{name}.*works with driver branch R580 or older; use a driver of that branch"
        ):
            require_driver(machine, version, at=("driver",))


@cases(("name", "least"), [("BM.GPU.B200.8", 570), ("BM.GPU.GB200.4", 570), ("BM.GPU.RTXPRO.8", 575), ("BM.GPU.B300.8", 580)])
def test_blackwell_begins_with_a_branch(name: str, least: int) -> None:
    require_driver(hardware.machine(name), f"{least}.10.01", at=("driver",))
    with pytest.raises(PydanticCustomError, match=f"needs driver branch R{least} or newer; use a newer driver"):
        require_driver(hardware.machine(name), f"{least - 5}.10.01", at=("driver",))


def test_what_to_do_is_the_callers_word_where_it_has_one() -> None:
    with pytest.raises(PydanticCustomError) as caught:
        require_driver(hardware.machine("VM.GPU3.1"), "595.91.07", at=("pools", "v100"), fix="set another")
    assert caught.value.message() == "V100 (VM.GPU3.1) works with driver branch R580 or older; set another"
    assert caught.value.context is not None
    assert (caught.value.context["at"], caught.value.context["value"]) == (("pools", "v100"), "595.91.07")


def test_any_driver_suits_a_machine_without_a_known_limit_or_without_gpu() -> None:
    for name in ("VM.GPU.A10.1", "m6i.large"):
        require_driver(hardware.machine(name), "999.10.01", at=("driver",))


@pytest.mark.parametrize("row", versions.KUBERNETES.values())
def test_the_driver_of_a_node_image_is_a_driver_or_unknown(row: versions.KubernetesVersion) -> None:
    assert row.driver is None or driver_version(row.driver) == row.driver


def test_a_minor_has_an_image_that_drives_v100_and_the_operators_own_driver_does_not() -> None:
    assert any(branch(row.driver) <= 580 for row in versions.KUBERNETES.values() if row.driver), "else p3 has no image at all"
    assert branch(driver_version(versions.OPERATOR_DRIVER)) > 580, "the operator's own does not drive V100"
