"""What the containers of smoke tests and of the Coral run, as programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleet.render.workloads import catalogue


class Matrix:
    """A matrix of equal numbers, as far as the smoke test computes with one."""

    def __init__(self, side: int, value: float, wrong: bool) -> None:
        self.side, self.value, self.wrong = side, value, wrong

    def __matmul__(self, other: Matrix) -> Matrix:
        return Matrix(self.side, self.side * self.value * other.value + self.wrong, self.wrong)

    def __eq__(self, other: object) -> Any:
        return SimpleNamespace(all=lambda: self.value == other)

    __hash__ = None  # type: ignore[assignment]  # nobody keeps one in a set


def run_pytorch(monkeypatch: pytest.MonkeyPatch, *, gpus: int = 1, wrong: bool = False) -> None:
    """Run the program with a stand-in for PyTorch."""

    def there() -> None:
        if not gpus:
            raise RuntimeError("No CUDA GPUs are available")

    def ones(rows: int, columns: int, device: str) -> Matrix:
        assert (rows, columns, device) == (1000, 1000, "cuda")
        there()
        return Matrix(rows, 1, wrong)

    def name(_: int) -> str:
        there()
        return "Tesla T4"

    cuda = SimpleNamespace(
        is_available=lambda: bool(gpus), device_count=lambda: gpus, get_device_name=name, get_device_capability=lambda _: (7, 5)
    )
    fake = SimpleNamespace(__version__="2.10.0", version=SimpleNamespace(cuda="12.8"), cuda=cuda, ones=ones)
    monkeypatch.setitem(sys.modules, "torch", fake)
    exec(compile(catalogue.PYTORCH_SCRIPT, "smoke", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own program


def test_pytorch_tells_of_its_gpu_and_that_it_computes(monkeypatch, capsys):
    run_pytorch(monkeypatch)
    told = capsys.readouterr().out
    assert "available: True" in told
    assert "1 x Tesla T4 (7, 5)" in told
    assert "product: right" in told


def test_pytorch_without_a_gpu_fails(monkeypatch):
    with pytest.raises(RuntimeError):
        run_pytorch(monkeypatch, gpus=0)


def test_a_gpu_that_computes_wrongly_fails(monkeypatch):
    with pytest.raises(SystemExit) as caught:
        run_pytorch(monkeypatch, wrong=True)
    assert "wrong" in str(caught.value.code)


# -- Coral -------------------------------------------------------------------------------------------------------------


def plug(root: Path, name: str, vendor: str, product: str, *, bus: int = 2, number: int = 3, file: bool = True) -> None:
    """A USB device as the kernel shows it."""
    device = root / "devices" / name
    device.mkdir(parents=True)
    for key, text in {"idVendor": vendor, "idProduct": product, "busnum": bus, "devnum": number}.items():
        (device / key).write_text(f"{text}\n")
    if file:
        path = root / "files" / f"{bus:03d}" / f"{number:03d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def check(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the check once, as the container does."""
    (root / "devices").mkdir(exist_ok=True)
    command = [sys.executable, "-u", "-c", catalogue.CORAL_CHECK, str(root / "devices"), str(root / "files"), "0"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("vendor", "product", "state"), [("1a6e", "089a", "without firmware yet"), ("18d1", "9302", "ready")])
def test_a_coral_is_found_under_both_of_its_names(tmp_path, vendor, product, state):
    plug(tmp_path, "1-1", "1d6b", "0002", bus=1, number=1)
    plug(tmp_path, "2-1", vendor, product)
    done = check(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"Coral at {tmp_path}/files/002/003: {state}, opens\n"


def test_a_node_without_the_stick_fails(tmp_path):
    plug(tmp_path, "1-1", "1d6b", "0002")
    (tmp_path / "devices" / "2-0:1.0").mkdir()
    done = check(tmp_path)
    assert done.returncode != 0
    assert "no Coral USB Accelerator at this node" in done.stderr


def test_a_stick_that_cannot_be_opened_fails(tmp_path):
    plug(tmp_path, "2-1", "18d1", "9302", file=False)
    done = check(tmp_path)
    assert done.returncode != 0
    assert "003" in done.stderr
