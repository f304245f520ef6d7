"""Machine runners as models, for the tests of their software."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from fleet.providers.oke.vm_runner import VmPerJobRunner, VmRunner

IMAGE = {"id": "ocid1.image.oc1.us-sanjose-1.examplevm", "driver": "570.195.03"}
HOME = {"region": "us-sanjose-1", "availabilityDomains": ["abcd:US-SANJOSE-1-AD-1"]}
AWAY = {
    "region": "us-ashburn-1",
    "availabilityDomains": ["abcd:US-ASHBURN-AD-2", "abcd:US-ASHBURN-AD-1"],
    "subnet": "ocid1.subnet.oc1.iad.example",
    "securityGroup": "ocid1.networksecuritygroup.oc1.iad.example",
    "image": "ocid1.image.oc1.iad.examplevm",
}


def standing(**changes: Any) -> VmRunner:
    """Two standing machines of one A10; `changes` replace keys."""
    settings = {
        "kind": "vm",
        "count": 2,
        "shapes": ["VM.GPU.A10.1"],
        "capacity": "on-demand",
        "role": "burst",
        "availabilityDomains": ["abcd:US-SANJOSE-1-AD-1"],
        "image": IMAGE,
    }
    return TypeAdapter(VmRunner).validate_json(json.dumps(settings | changes))


def per_job(**changes: Any) -> VmPerJobRunner:
    """A machine of one A10 a job, at home or in another region; `changes` replace keys."""
    settings = {
        "kind": "vm-per-job",
        "shapes": ["VM.GPU.A10.1"],
        "capacity": "on-demand",
        "role": "burst",
        "places": [HOME, AWAY],
        "scale": {"min": 0, "max": 20},
        "image": IMAGE,
    }
    return TypeAdapter(VmPerJobRunner).validate_json(json.dumps(settings | changes))
