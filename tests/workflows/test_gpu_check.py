"""The GPU check: what it says of a runner's GPUs, and what it refuses. A stand-in for PyTorch reckons with single numbers."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workflows.load import program

CHECK = program("gpu-check", "gpu_check")
ARCHS = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
"""Of PyTorch 2.10 for CUDA 12.8."""


@dataclass
class Number:
    """A tensor of one number, which a GPU may get wrong by a factor."""

    value: float
    torch: Torch
    device: str = "cpu"

    def to(self, device: str) -> Number:
        return Number(self.value, self.torch, device)

    def cpu(self) -> Number:
        return self.to("cpu")

    def double(self) -> Number:
        return self

    def norm(self) -> Number:
        return Number(abs(self.value), self.torch)

    def __sub__(self, other: Number) -> Number:
        return Number(self.value - other.value, self.torch)

    def __truediv__(self, other: Number) -> Number:
        return Number(self.value / other.value, self.torch)

    def __float__(self) -> float:
        return self.value


@dataclass
class Torch:
    """What the check asks of PyTorch."""

    capabilities: tuple[tuple[int, int], ...] = ((7, 5),)
    archs: tuple[str, ...] = tuple(ARCHS)
    built: str | None = "12.8"
    available: bool = True
    wrong: dict[str, float] | None = None
    """Device → factor by which its products are wrong."""
    __version__: str = "2.10.0"
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def version(self) -> Any:
        return SimpleNamespace(cuda=self.built)

    @property
    def cuda(self) -> Any:
        return SimpleNamespace(
            is_available=lambda: self.available,
            device_count=lambda: len(self.capabilities),
            get_device_name=lambda index: f"Tesla T{index}",
            get_device_capability=lambda index: self.capabilities[index],
            get_device_properties=lambda index: SimpleNamespace(total_memory=(15_000 + index) * 2**20),
            get_arch_list=lambda: list(self.archs),
        )

    def manual_seed(self, seed: int) -> None:
        self.shapes += ((seed,),)

    def randn(self, *shape: int) -> Number:
        self.shapes += (shape,)
        return Number(3.0, self)

    def matmul(self, left: Number, right: Number) -> Number:
        assert left.device == right.device
        return Number(left.value * right.value * (self.wrong or {}).get(left.device, 1.0), self, left.device)


def faults(torch: Torch, gpus: int = 1) -> list[str]:
    return list(CHECK.faults(torch, gpus))


def test_a_good_runner_is_told_line_by_line():
    assert list(CHECK.findings(Torch(capabilities=((7, 5), (8, 6))))) == [
        "PyTorch version: 2.10.0",
        "CUDA available: True",
        "CUDA version: 12.8",
        "Device count: 2",
        "Device 0: Tesla T0, capability 7.5, 15000 MiB",
        "Device 1: Tesla T1, capability 8.6, 15001 MiB",
    ]
    assert faults(Torch(capabilities=((7, 5), (8, 6))), 2) == []


def test_the_product_is_of_a_thousand_rows_and_the_same_each_time():
    torch = Torch()
    faults(torch)
    assert torch.shapes == ((0,), (1000, 1000))


@pytest.mark.parametrize(
    ("torch", "gpus", "said"),
    [
        (Torch(built=None, available=False), 1, "PyTorch 2.10.0 is built without CUDA; install a build with it"),
        (
            Torch(available=False),
            1,
            "no GPU that CUDA 12.8 can use; compare it with the driver's CUDA version in nvidia-smi",
        ),
        (Torch(), 2, "1 GPUs, not 2; check the GPUs of the runner set, or set gpus"),
        (Torch(capabilities=((7, 5), (7, 5))), 1, "2 GPUs, not 1; check the GPUs of the runner set, or set gpus"),
        (
            Torch(capabilities=((7, 0),), archs=("sm_75", "sm_80", "compute_120")),
            1,
            "device 0, Tesla T0: this PyTorch has no code for 7.0 (it has: sm_75 sm_80 compute_120)",
        ),
        (Torch(archs=()), 1, "device 0, Tesla T0: this PyTorch has no code for 7.5 (it has: none)"),
        (
            Torch(wrong={"cuda:0": 1.01}),
            1,
            "device 0, Tesla T0: a 1000x1000 product is wrong by 0.01; stop using the machine",
        ),
        (
            Torch(wrong={"cuda:0": math.nan}),
            1,
            "device 0, Tesla T0: a 1000x1000 product is wrong by nan; stop using the machine",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_mend(torch, gpus, said):
    assert faults(torch, gpus) == [said]


def test_every_gpu_is_tried():
    torch = Torch(capabilities=((7, 5), (7, 5)), wrong={"cuda:1": 2.0})
    assert faults(torch, 2) == ["device 1, Tesla T1: a 1000x1000 product is wrong by 1; stop using the machine"]


def test_the_precision_that_a_gpu_may_leave_out_is_no_fault():
    assert faults(Torch(wrong={"cuda:0": 1 + 5e-4})) == [], "TF32"


@pytest.mark.parametrize(
    ("archs", "capability", "runs"),
    [
        (["sm_75"], (7, 5), True),
        (["sm_80"], (8, 6), True),
        (["sm_86"], (8, 0), False),
        (["sm_80"], (9, 0), False),
        (["compute_80"], (9, 0), True),
        (["compute_90"], (8, 9), False),
        (["sm_90a"], (9, 0), True),
        (["sm_100a"], (10, 3), False),
        (["sm_100f"], (10, 3), True),
        (["sm_100"], (10, 3), True),
        (["sm_120"], (12, 0), True),
        ([], (7, 5), False),
        (ARCHS, (7, 0), True),
    ],
)
def test_code_runs_where_nvidia_says_that_it_does(archs, capability, runs):
    assert CHECK.driven(archs, capability) is runs


# -- the program -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torch", "words", "status", "last"),
    [
        (Torch(), [], 0, "GPU computation successful"),
        (
            Torch(),
            ["--gpus", "2"],
            1,
            "::error title=gpu-check::1 GPUs, not 2; check the GPUs of the runner set, or set gpus",
        ),
    ],
)
def test_the_status_is_what_was_found(monkeypatch, capsys, torch, words, status, last):
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert CHECK.main(words) == status
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "PyTorch version: 2.10.0"
    assert lines[-1] == last


def test_a_runner_without_pytorch_is_told_the_action_that_brings_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert CHECK.main([]) == 1
    said = capsys.readouterr().out
    assert said.startswith("::error title=gpu-check::PyTorch cannot be imported (")
    assert said.endswith("use the action setup-torch before this one\n")


def test_what_is_no_count_is_a_wrong_argument():
    with pytest.raises(SystemExit) as ended:
        CHECK.main(["--gpus", "many"])
    assert ended.value.code == 2


def test_an_annotation_is_one_line(capsys):
    assert CHECK.refuse(["100%\n::set-output name=a::b"]) == 1
    assert capsys.readouterr().out == "::error title=gpu-check::100%25%0A::set-output name=a::b\n"
