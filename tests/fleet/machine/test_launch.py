"""The launcher's config is what its program reads, and its program is one that runs alone."""

from __future__ import annotations

import ast
import sys
from typing import Any

import pytest

from fleet.providers.oke.machine import launcher
from fleet.providers.oke.machine.launch import LAUNCHER_SOURCE, STANDING_LIFETIME, encoded, launcher_config
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.settings.model import Scale
from tests.fleet.machine.runners import AWAY, HOME, IMAGE, per_job, standing

COMPARTMENT = "ocid1.compartment.oc1..example"
SUBNET = "ocid1.subnet.oc1.us-sanjose-1.example"
GROUP = "ocid1.networksecuritygroup.oc1.us-sanjose-1.example"
POOL = "ocid1.instancepool.oc1.us-sanjose-1.example"


def test_a_place_without_ids_of_its_own_gets_the_clusters():
    runner = per_job(disk="500Gi", lifetime="10h", capacity="on-demand")
    config = launcher_config(
        "prod.oracle-vm-gpu-a10-1",
        runner,
        compartment=COMPARTMENT,
        region="us-sanjose-1",
        subnet=SUBNET,
        security_group=GROUP,
        tags={"owner": "ci"},
    )
    assert config == {
        "mode": "per-job",
        "set": "prod.oracle-vm-gpu-a10-1",
        "compartment": COMPARTMENT,
        "tags": {"owner": "ci"},
        "lifetime": 36_000,
        "shapes": ["VM.GPU.A10.1"],
        "places": [
            {
                "region": "us-sanjose-1",
                "availabilityDomains": HOME["availabilityDomains"],
                "subnet": SUBNET,
                "securityGroups": [GROUP],
                "image": IMAGE["id"],
                "metricsUrl": None,
            },
            {
                "region": "us-ashburn-1",
                "availabilityDomains": AWAY["availabilityDomains"],
                "subnet": AWAY["subnet"],
                "securityGroups": [AWAY["securityGroup"]],
                "image": AWAY["image"],
                "metricsUrl": None,
            },
        ],
        "disk": 500,
        "preemptible": False,
        "userData": encoded(runner),
    }


def test_machines_in_the_clusters_subnet_push_and_those_of_other_places_do_not():
    ids: dict[str, Any] = {"compartment": COMPARTMENT, "region": "us-sanjose-1", "subnet": SUBNET, "security_group": GROUP}
    push: dict[str, Any] = {"metrics_url": "http://10.0.255.226:30000/api/v1/write", "metrics_group": "ocid1.nsg.push"}
    config = launcher_config("x", per_job(), **ids, **push)
    here, away = config["places"]
    assert (here["metricsUrl"], here["securityGroups"]) == ("http://10.0.255.226:30000/api/v1/write", [GROUP, "ocid1.nsg.push"])
    assert (away["metricsUrl"], away["securityGroups"]) == (None, [AWAY["securityGroup"]])
    assert config["userData"] == encoded(per_job(), pushes=True)


def test_spot_capacity_is_preemptible():
    runner = per_job(shapes=["VM.GPU3.1"], capacity="spot")
    config = launcher_config("x", runner, compartment=COMPARTMENT, region="us-sanjose-1", subnet=SUBNET, security_group=GROUP)
    assert config["preemptible"] is True


def test_standing_machines_come_from_their_pool():
    assert launcher_config("x", standing(), compartment=COMPARTMENT, region="us-sanjose-1", pool=POOL) == {
        "mode": "standing",
        "set": "x",
        "compartment": COMPARTMENT,
        "tags": {},
        "lifetime": STANDING_LIFETIME,
        "region": "us-sanjose-1",
        "pool": POOL,
        "count": 2,
    }


class LaterRunner(MachineRunner):
    """A kind of machine that no launcher has yet."""

    called = "later VMs"

    @property
    def span(self) -> Scale:
        return Scale.model_construct(min=0, max=1)


def test_another_kind_of_machine_is_an_error():
    later = LaterRunner.model_construct(kind="vm-later", shapes=("VM.GPU.A10.1",), capacity="on-demand", role="burst")
    with pytest.raises(TypeError, match="vm-later is not a kind"):
        launcher_config("x", later, compartment=COMPARTMENT, region="us-sanjose-1")


def test_a_missing_id_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="pass pool"):
        launcher_config("x", standing(), compartment=COMPARTMENT, region="us-sanjose-1")
    with pytest.raises(ValueError, match="us-sanjose-1 has no subnet"):
        launcher_config("x", per_job(), compartment=COMPARTMENT, region="us-sanjose-1", security_group=GROUP)
    with pytest.raises(ValueError, match="us-sanjose-1 has no securityGroup"):
        launcher_config("x", per_job(), compartment=COMPARTMENT, region="us-sanjose-1", subnet=SUBNET)


def test_the_program_needs_the_standard_library_of_python_39_and_oracles_sdk():
    tree = ast.parse(LAUNCHER_SOURCE, feature_version=(3, 9))
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in found} <= set(sys.stdlib_module_names)
    assert LAUNCHER_SOURCE.count('import_module("oci")') == 1, "in a function, for the program's tests have no SDK"


def test_every_key_of_the_config_stands_in_the_programs_docstring():
    ids: dict[str, Any] = {
        "compartment": COMPARTMENT,
        "region": "us-sanjose-1",
        "subnet": SUBNET,
        "security_group": GROUP,
        "pool": POOL,
    }
    for runner in (per_job(), standing()):
        config = launcher_config("x", runner, **ids)
        keys = {*config, *(key for place in config.get("places", ()) for key in place)}
        assert [key for key in sorted(keys) if f'"{key}"' not in (launcher.__doc__ or "")] == []
