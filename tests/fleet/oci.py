"""Valid settings of an OKE cluster and its machines as plain data."""

from __future__ import annotations

from typing import Any

from tests.builders import runner

HERE, THERE = "us-sanjose-1", "us-ashburn-1"
DOMAIN, OTHER_DOMAIN = "abcd:US-SANJOSE-1-AD-1", "abcd:US-ASHBURN-AD-2"


def oke_pool(**changes: Any) -> dict[str, Any]:
    """A pool of VM.GPU.A10.1; `changes` replace keys."""
    return {"instanceTypes": ["VM.GPU.A10.1"], "capacity": "on-demand", "role": "burst", "nodes": {"max": 2}} | changes


def standing(**changes: Any) -> dict[str, Any]:
    """Two standing machines of VM.GPU.A10.1; `changes` replace keys."""
    return {
        "kind": "vm",
        "count": 2,
        "shapes": ["VM.GPU.A10.1"],
        "capacity": "on-demand",
        "role": "burst",
        "availabilityDomains": [DOMAIN],
        "image": {"id": "ocid1.image.oc1.sjc.examplevm", "driver": "580.159.03"},
    } | changes


def per_job(**changes: Any) -> dict[str, Any]:
    """Up to three machines of VM.GPU.A10.1, one a job; `changes` replace keys."""
    return {
        "kind": "vm-per-job",
        "shapes": ["VM.GPU.A10.1"],
        "capacity": "on-demand",
        "role": "burst",
        "places": [place()],
        "image": {"id": "ocid1.image.oc1.sjc.examplevm", "driver": "580.159.03"},
        "scale": {"max": 3},
    } | changes


def place(region: str = HERE, *domains: str) -> dict[str, Any]:
    """A place of machines: the cluster's own region, or another with a network and an image of its own."""
    if region == HERE:
        return {"region": HERE, "availabilityDomains": list(domains) or [DOMAIN]}
    ids = {"subnet": "subnet", "securityGroup": "networksecuritygroup", "image": "image"}
    own = {key: f"ocid1.{kind}.oc1.iad.example" for key, kind in ids.items()}
    return {"region": region, "availabilityDomains": list(domains) or [OTHER_DOMAIN]} | own


def oke(**changes: Any) -> dict[str, Any]:
    """An OKE cluster in us-sanjose-1 with the pool a10 and the runner set gpu-a10; `changes` replace keys."""
    return {
        "provider": "oke",
        "region": HERE,
        "zones": [DOMAIN],
        "compartment": "ocid1.compartment.oc1..example",
        "kubernetesVersion": "1.34",
        "endpoint": {"publicCidrs": ["203.0.113.0/24"]},
        "nodeImages": {
            "system": {"id": "ocid1.image.oc1.sjc.examplesystem"},
            "oke-gpu": {"id": "ocid1.image.oc1.sjc.examplegpu", "driver": "580.159.03"},
            "ubuntu": {"id": "ocid1.image.oc1.sjc.exampleubuntu"},
        },
        "pools": {"a10": oke_pool()},
        "runners": {"gpu-a10": runner(pool="a10")},
    } | changes
