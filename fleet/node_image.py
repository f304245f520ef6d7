"""Kinds of node images: what each brings of driver and container toolkit. A view of `data/nodes.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeImage:
    """What a kind of node image has before anything runs on it.

    `driver` and `toolkit` say whether the image brings them; `advertises` whether it runs a device plugin of its own;
    `clouds` are those whose pools may name it. `driver_root` is where the driver lies on the host if not at `/`; `licensed`
    says that its driver needs NVIDIA's licence server (vGPU guests). `handler` is the container runtime that its toolkit adds to
    containerd, where nothing of the image's makes a RuntimeClass of it.
    """

    name: str
    driver: bool
    toolkit: bool
    advertises: bool
    clouds: tuple[str, ...]
    driver_root: str
    licensed: bool
    handler: str


def _read() -> dict[str, Any]:
    with (Path(__file__).parent / "data" / "nodes.toml").open("rb") as file:
        return tomllib.load(file)


_DATA = _read()

NODE_IMAGES: dict[str, NodeImage] = {
    name: NodeImage(
        name,
        row["driver"],
        row["toolkit"],
        row["advertises"],
        tuple(row["clouds"]),
        row.get("driver-root", ""),
        row.get("licensed", False),
        row.get("handler", ""),
    )
    for name, row in _DATA["images"].items()
}
