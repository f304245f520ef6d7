"""Which driver drives which GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError

from fleet.facts import hardware, versions
from fleet.loading.config import load
from fleet.prove.image_fit import remarks
from fleet.providers.oke.vm_runner import VmPerJobRunner
from fleet.settings.compatibility import CUDA, branch, driver_version, lacks_cuda, require_driver
from tests.builders import config, oke_cluster, oke_runner, vm_per_job
from tests.cases import cases
from tests.day import AS_OF


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


# -- CUDA --------------------------------------------------------------------------------------------------------------

T4, V100 = hardware.machine("g4dn.2xlarge"), hardware.machine("VM.GPU3.1")


@cases(("version", "oldest"), [("11.8", 450), ("12.0", 525), ("12.8", 525), ("13.0", 580), ("13.2", 580)])
def test_cuda_runs_on_the_oldest_driver_of_its_major_version(version: str, oldest: int) -> None:
    assert lacks_cuda(version, [T4], f"{oldest}.10.01") == ""
    assert lacks_cuda(version, [T4], f"{oldest - 1}.10.01") == (
        f"CUDA {version} needs driver branch R{oldest} or newer (NVIDIA, minor version compatibility), and the nodes have "
        f"{oldest - 1}.10.01; use images with an older CUDA, or nodes with a newer driver"
    )
    assert lacks_cuda(version, [T4], None) == "", "an unknown driver is a remark of the plan"


def test_cuda_13_has_no_code_for_volta_whatever_the_driver() -> None:
    for driver in ("580.159.03", None):
        assert lacks_cuda("13.0", [T4, V100], driver).startswith("V100 (VM.GPU3.1, volta) has compute capability 7.0")
    assert lacks_cuda("12.8", [T4, V100], "580.159.03") == ""


@pytest.mark.parametrize("row", versions.RUNNER_GPU.values(), ids=versions.RUNNER_GPU)
def test_the_images_of_the_runner_need_what_their_cuda_needs(row: versions.RunnerGpu) -> None:
    cuda = CUDA[row.cuda.partition(".")[0]]
    assert (row.image.least_driver, row.image.least_capability) == (cuda.least_driver, cuda.least_capability)


def said_of(driver: dict[str, str], **class_changes: Any) -> list[str]:
    """The remarks on the images of a class on a pool of OKE, whose node image has this driver or none that is known."""
    images = {"system": {"id": "ocid1.image.oc1..system"}, "oke-gpu": {"id": "ocid1.image.oc1..gpu"} | driver}
    changes = {"nodeImages": images, "runners": {"oci-a10": oke_runner(**class_changes)}}
    return list(remarks(load(config(clusters={"sjc": oke_cluster(**changes)})), AS_OF))


UNKNOWN = "cuda 13.0 is undeterminable: no source names the NVIDIA driver of {}; it must be of branch R580 or newer"


def test_a_plan_names_the_driver_that_no_source_names() -> None:
    assert said_of({}, cuda="13.0") == [f"sjc/oci-a10: {UNKNOWN.format('pool a10')}"]
    assert said_of({}) == []
    assert said_of({"driver": "580.159.03"}, cuda="13.0") == []


def test_the_image_of_a_runner_says_nothing_of_the_images_of_its_jobs() -> None:
    old = "registry.example.com/runner-gpu:cuda12.1-ubuntu22.04-devel-1"
    (told,) = said_of({"driver": "580.159.03"}, image=old)
    assert "its image has CUDA 12.1" in told
    assert said_of({"driver": "580.159.03"}, image=old, containers="job") == []


def test_a_machine_with_another_image_has_an_unknown_driver() -> None:
    def told(settings: dict[str, Any]) -> list[str]:
        machine = TypeAdapter(VmPerJobRunner).validate_json(json.dumps(settings))
        return [line for line in machine.remarks() if "cuda" in line]

    plain = vm_per_job(cuda="13.0")
    place = plain["places"][0] | {"subnet": "ocid1.subnet.oc1.sjc.examplepublic"}
    assert told(plain) == []
    other = {key: value for key, value in plain.items() if key != "image"} | {"launcher": "cncf", "places": [place]}
    assert told(other) == [UNKNOWN.format("its machines")]
