"""Shapes and boot volumes of OCI."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from fleet.facts import hardware
from fleet.providers.oke.nodes import BootVolume, Shape
from tests.cases import cases

SHAPES, VOLUMES = TypeAdapter(Shape), TypeAdapter(BootVolume)


def test_every_nvidia_shape_of_the_table_is_one_and_no_other_machine_is() -> None:
    taken = set()
    for machine in hardware.machines():
        try:
            taken.add(SHAPES.validate_python(machine.name, strict=True))
        except ValidationError:
            continue
    assert taken == {each.name for each in hardware.machines("oci") if each.gpu and each.gpu.vendor == "nvidia"}
    assert len(taken) > 15


_NO_GPU = "name a GPU shape such as VM.GPU.A10.1 (only EKS has pools without GPUs: docs/cpu-classes.md)"


@cases(
    ("name", "told"),
    [
        (
            "VM.Standard.E5.Flex",
            f"VM.Standard.E5.Flex has no GPU; {_NO_GPU}",
        ),
        (
            "BM.Standard3.64",
            f"BM.Standard3.64 has no GPU; {_NO_GPU}",
        ),
        ("g5.2xlarge", "g5.2xlarge is not an OCI shape; name one such as VM.GPU.A10.1"),
        ("m6i.large", "m6i.large is not an OCI shape; name one such as VM.GPU.A10.1"),
        ("VM.GPU.A10.4", "unknown machine 'VM.GPU.A10.4'; did you mean VM.GPU.A10.2, VM.GPU.A10.1, BM.GPU.A10.4?"),
        ("vm.gpu.a10.1", "unknown machine 'vm.gpu.a10.1'; did you mean VM.GPU.A10.1, VM.GPU.A10.2, BM.GPU.A10.4?"),
        (
            "BM.GPU.MI300X.8",
            "BM.GPU.MI300X.8 has no NVIDIA GPU, and GPUs of other vendors are not supported; name an NVIDIA shape",
        ),
    ],
)
def test_what_is_no_shape_with_nvidia_gpus_is_told_why(name: str, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SHAPES.validate_python(name, strict=True)
    assert [error["msg"] for error in caught.value.errors()] == [told]


@pytest.mark.parametrize(("text", "mebibytes"), [("50Gi", 51_200), ("400Gi", 409_600), ("32768Gi", 33_554_432)])
def test_a_boot_volume_is_held_in_mib(text: str, mebibytes: int) -> None:
    assert VOLUMES.validate_python(text, strict=True) == mebibytes


@pytest.mark.parametrize("text", ["49Gi", "32769Gi", "30Gi"])
def test_a_boot_volume_that_oci_does_not_make_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="an OCI boot volume has 50Gi to 32768Gi; write for example 400Gi"):
        VOLUMES.validate_python(text, strict=True)
