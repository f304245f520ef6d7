"""The check over two GPUs: each process has one of its own, sums are right, weights agree. Stand-ins play the other process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.builders import ROOT
from tests.workflows.load import program

CHECK = program("ddp-check", "ddp_check")
COUNT = ROOT / ".github" / "actions" / "ddp-check" / "count_gpus.sh"
ONE, TWO = "4cf8db2d-06c0-7d70-1a51-e59b25b2c16c", "4404041a-04cf-1ccf-9e70-f139a9b1e23c"


# -- what is reckoned ------------------------------------------------------------------------------------------------------


def test_processes_with_gpus_of_their_own_are_right():
    assert CHECK.shared([ONE, TWO]) == ""


def test_two_processes_of_one_gpu_are_named():
    assert CHECK.shared([ONE, TWO, ONE]) == (
        f"processes 0 and 2 share one GPU, {ONE}; time slices are not separate GPUs: use a machine that has 3"
    )


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8))
def test_shared_gpus_are_found_wherever_they_are(uuids):
    assert (CHECK.shared(uuids) == "") is (len(set(uuids)) == len(uuids))


@given(st.integers(1, 64))
def test_the_sum_is_that_of_all_ranks(world):
    assert CHECK.total(world) == sum(rank + 1 for rank in range(world))


def test_a_dead_process_is_not_waited_for_without_end():
    assert 0 < CHECK.TIMEOUT.total_seconds() < 600


# -- one process, with a stand-in for the other ----------------------------------------------------------------------------


@dataclass
class Vector:
    """A tensor whose elements are all alike, or a list of bytes."""

    value: Any

    def full(self, value: Any) -> Vector:
        return Vector(value)

    def __eq__(self, other: object) -> Any:
        held = other.value if isinstance(other, Vector) else other
        return SimpleNamespace(all=lambda: self.value == held)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: int) -> Any:
        return SimpleNamespace(item=lambda: self.value)

    def clone(self) -> Vector:
        return Vector(self.value)

    def tolist(self) -> list[int]:
        return list(self.value)

    def element_size(self) -> int:
        return 4

    def numel(self) -> int:
        return int(CHECK.COUNT)


@dataclass
class World:
    """PyTorch and its processes: this one is rank 0 of two. `sum`, `low` and `high` are what collectives give."""

    uuids: tuple[str, str] = (ONE, TWO)
    gpus: int = 2
    sum: float = 3.0
    low: float = 1.0
    high: float = 1.0
    moved: bool = True
    begun: list[tuple[str, Any]] = field(default_factory=list)
    device: int | None = None
    gathered: list[Any] = field(default_factory=list)

    def torch(self) -> Any:
        properties = {index: SimpleNamespace(uuid=uuid) for index, uuid in enumerate(self.uuids)}
        weights = iter([0.0, 1.0 if self.moved else 0.0])

        def tensor(value: list[int], dtype: Any) -> Vector:
            del dtype
            return Vector(value)

        return SimpleNamespace(
            cuda=SimpleNamespace(
                device_count=lambda: self.gpus,
                set_device=lambda local: setattr(self, "device", local),
                get_device_properties=properties.__getitem__,
                synchronize=lambda: None,
            ),
            uint8="uint8",
            device=lambda kind, index=None: SimpleNamespace(type=kind, index=index),
            full=lambda shape, value, device: Vector(value),
            tensor=tensor,
            zeros=lambda size, dtype: Vector([0] * size),
            manual_seed=lambda seed: None,
            randn=lambda *shape, device: Vector(0.0),
            cat=lambda parts: Vector(next(weights)),
            nn=SimpleNamespace(Linear=lambda a, b: SimpleNamespace(to=lambda where: "layer")),
            optim=SimpleNamespace(SGD=lambda parameters, lr: SimpleNamespace(step=lambda: None)),
        )

    def dist(self) -> Any:
        results = {None: self.sum, "min": self.low, "max": self.high}

        def all_reduce(tensor: Vector, op: str | None = None) -> None:
            tensor.value = results[op]

        def all_gather(texts: list[Vector], own: Vector) -> None:
            self.gathered.append(own.value)
            for text, uuid in zip(texts, self.uuids, strict=True):
                text.value = list(uuid.ljust(len(own.value)).encode())

        return SimpleNamespace(
            all_reduce=all_reduce,
            all_gather=all_gather,
            ReduceOp=SimpleNamespace(MIN="min", MAX="max"),
            init_process_group=lambda backend, timeout: self.begun.append((backend, timeout)),
            destroy_process_group=lambda: self.begun.append(("end", None)),
        )

    def parallel(self) -> Any:
        loss = SimpleNamespace(mean=lambda: SimpleNamespace(backward=lambda: None))

        class Model:
            def __init__(self, layer: str, device_ids: list[int] | None) -> None:
                assert (layer, device_ids) == ("layer", [0])

            def parameters(self) -> list[Any]:
                return []

            def __call__(self, batch: Vector) -> Any:
                return SimpleNamespace(square=lambda: loss)

        return SimpleNamespace(DistributedDataParallel=Model)


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the program as rank 0 of two; gives its status and what it said."""

    def call(world: World) -> tuple[int, list[str]]:
        modules = {"torch": world.torch(), "torch.distributed": world.dist(), "torch.nn.parallel": world.parallel()}
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        for name, value in {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}.items():
            monkeypatch.setenv(name, value)
        status = CHECK.main([])
        return status, capsys.readouterr().out.splitlines()

    return call


def test_two_processes_that_agree_are_told_with_their_gpus(run):
    world = World()
    status, said = run(world)
    assert status == 0
    assert said == [f"process 0: {ONE}", f"process 1: {TWO}", "2 processes agree"]
    assert world.device == 0
    assert world.begun == [("cpu:gloo,cuda:nccl", CHECK.TIMEOUT), ("end", None)], "NCCL for tensors on GPUs"
    assert bytes(world.gathered[0]).decode().rstrip() == ONE


@pytest.mark.parametrize(
    ("world", "said"),
    [
        (World(gpus=1), "1 GPUs for 2 processes; use a runner that has as many"),
        (
            World(uuids=(ONE, ONE)),
            f"processes 0 and 1 share one GPU, {ONE}; time slices are not separate GPUs: use a machine that has 2",
        ),
        (World(sum=2.0), "process 0: an all-reduce gave 2 and not 3"),
        (World(moved=False), "process 0: a step of DistributedDataParallel changed no weight"),
        (World(high=2.0), "process 0: weights differ between processes after a step of DistributedDataParallel"),
    ],
)
def test_what_is_wrong_ends_the_process_with_one_line(run, world, said):
    assert run(world) == (1, [f"::error title=ddp-check::{said}"])


def test_processes_are_parted_though_one_fails(run):
    world = World(sum=2.0)
    run(world)
    assert world.begun[-1] == ("end", None)


# -- the count before --------------------------------------------------------------------------------------------------------


@pytest.fixture
def count(tmp_path: Path):
    """Runs the count on a machine whose nvidia-smi says this; gives its status and what it said."""

    def call(uuids: str, gpus: str = "2", status: int = 0) -> tuple[int, list[str]]:
        stub = tmp_path / "nvidia-smi"
        stub.write_text(f"#!/bin/sh\nprintf '%s\\n' '{uuids}'\nexit {status}\n")
        stub.chmod(0o755)
        done = subprocess.run(
            [str(COUNT)],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "GPUS": gpus},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()

    return call


def test_different_gpus_are_counted(count):
    assert count(f"GPU-{ONE}\nGPU-{TWO}") == (0, [f"GPU-{ONE}", f"GPU-{TWO}"])


@pytest.mark.parametrize(
    ("uuids", "status", "said"),
    [
        (f"GPU-{ONE}\nGPU-{ONE}", 0, "1 different GPUs, not 2; use a machine that has as many, or a pool that shares none"),
        (f"GPU-{ONE}", 0, "1 different GPUs, not 2; use a machine that has as many, or a pool that shares none"),
        ("No devices were found", 0, "nvidia-smi names no GPU; use a runner with GPUs"),
        ("", 9, "nvidia-smi reaches no driver; use a runner with GPUs"),
    ],
)
def test_too_few_are_refused(count, uuids, status, said):
    ended, lines = count(uuids, status=status)
    assert ended == 1
    assert lines[-1] == f"::error title=ddp-check::{said}"
