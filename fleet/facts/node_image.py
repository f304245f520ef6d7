"""Kinds of node images: what each brings of driver and container toolkit. A view of `data/nodes.toml`."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.tables import toml


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


_DATA = toml("nodes.toml")

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
