"""The program that torchrun starts in each process. It tests NCCL between the GPUs of one machine, and DistributedDataParallel.

It checks that every process has its own GPU (time slices of one GPU do not count) and that the sum of an all-reduce is right.
After a step, all processes must have the same weights. Exit status: 0 if all checks pass, 1 with a GitHub annotation if not.

`--device cpu` runs the same over gloo, to try this file without a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

COUNT = 16 * 2**20
"""Floats that are summed: 64 MiB."""
TEXT = 64
"""Bytes of the texts that processes exchange."""
TIMEOUT = datetime.timedelta(minutes=3)
"""A collective that takes longer fails. Otherwise the processes would wait forever for one that died."""


def shared(uuids: Sequence[str]) -> str:
    """Why the processes do not have separate GPUs, in rank order; empty if each has its own."""
    for rank, uuid in enumerate(uuids):
        if (first := uuids.index(uuid)) != rank:
            why = f"processes {first} and {rank} share one GPU, {uuid}; time slices are not separate GPUs"
            return f"{why}: use a machine that has {len(uuids)}"
    return ""


def total(world: int) -> float:
    """The value of every element after an all-reduce of rank + 1 over the ranks."""
    return world * (world + 1) / 2


def check(torch: Any, device: str, world: int, rank: int, local: int) -> str:
    """Run all checks in one process; return the fault, or an empty text."""
    dist = import_module("torch.distributed")
    where = torch.device(device, local) if device == "cuda" else torch.device(device)
    own = str(torch.cuda.get_device_properties(local).uuid) if device == "cuda" else f"{device}-{rank}"
    uuids = _gathered(torch, dist, world, own)
    if wrong := shared(uuids):
        return wrong
    tensor = torch.full((COUNT,), float(rank + 1), device=where)
    dist.all_reduce(tensor)
    if not bool((tensor == total(world)).all()):
        return f"process {rank}: an all-reduce gave {tensor[0].item():g} and not {total(world):g}"
    if wrong := _step(torch, dist, where, rank):
        return wrong
    if rank == 0:
        for number, uuid in enumerate(uuids):
            sys.stdout.write(f"process {number}: {uuid}\n")
        sys.stdout.write(f"{world} processes agree\n")
    return ""


def _gathered(torch: Any, dist: Any, world: int, text: str) -> list[str]:
    """A short text of each process, in rank order. It uses gloo, because NCCL does not explain why it refuses a shared GPU."""
    own = torch.tensor(list(text.ljust(TEXT).encode()), dtype=torch.uint8)
    texts = [torch.zeros(TEXT, dtype=torch.uint8) for _ in range(world)]
    dist.all_gather(texts, own)
    return [bytes(each.tolist()).decode().rstrip() for each in texts]


def _step(torch: Any, dist: Any, where: Any, rank: int) -> str:
    """One step of training. The data differ between processes, the weights must not."""
    parallel = import_module("torch.nn.parallel")
    torch.manual_seed(rank)
    ids = [where.index] if where.type == "cuda" else None
    model = parallel.DistributedDataParallel(torch.nn.Linear(256, 256).to(where), device_ids=ids)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = _weights(torch, model)
    model(torch.randn(64, 256, device=where)).square().mean().backward()
    optimizer.step()
    after = _weights(torch, model)
    if bool((before == after).all()):
        return f"process {rank}: a step of DistributedDataParallel changed no weight"
    low, high = after.clone(), after.clone()
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    if not bool((low == high).all()):
        return f"process {rank}: weights differ between processes after a step of DistributedDataParallel"
    return ""


def _weights(torch: Any, model: Any) -> Any:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def main(arguments: Sequence[str] | None = None) -> int:
    """Join the other processes, run the checks, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    device: str = parser.parse_args(arguments).device
    world, rank, local = (int(os.environ[name]) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
    torch = import_module("torch")
    dist = import_module("torch.distributed")
    if device == "cuda":
        if torch.cuda.device_count() < world:
            return refuse(f"{torch.cuda.device_count()} GPUs for {world} processes; use a runner that has as many")
        torch.cuda.set_device(local)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", timeout=TIMEOUT)
    try:
        return refuse(check(torch, device, world, rank, local))
    finally:
        dist.destroy_process_group()


def refuse(wrong: str) -> int:
    """Annotate a fault; return 1 if there is one, else 0."""
    if not wrong:
        return 0
    sys.stdout.write(f"::error title=ddp-check::{wrong}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
