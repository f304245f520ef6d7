"""Kinds of node images, and which of driver and container toolkit each contains: the rows of `data/nodes.toml`."""

from fleet.facts.record import Record
from fleet.facts.tables import entries, toml


class NodeImage(Record):
    """The contents of a kind of node image before any pod runs on the node.

    `driver` and `toolkit`: whether the image contains them. `advertises`: whether it runs its own device plugin. `clouds`: the
    clouds whose pools may use it. `driver_root`: the driver's folder on the host if it is not `/`. `licensed`: its driver needs
    NVIDIA's license server (vGPU guests). `handler`: the container runtime that its toolkit adds to containerd, if the image
    creates no RuntimeClass for it.
    """

    name: str
    driver: bool
    toolkit: bool
    advertises: bool
    clouds: tuple[str, ...]
    driver_root: str = ""
    licensed: bool = False
    handler: str = ""


NODE_IMAGES = entries(NodeImage, toml("nodes.toml")["images"], "name")
