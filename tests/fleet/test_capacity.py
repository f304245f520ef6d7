"""The commands by which a plan sends its reader to OCI for capacity."""

from __future__ import annotations

import json
import shlex
from typing import Any

from fleet.loading.config import load
from fleet.prove.remarks import capacity as remarks
from tests.builders import ASHBURN, SAN_JOSE, config, oke_cluster, oke_pool, place, vm, vm_per_job


def reports(**changes: Any) -> list[str]:
    """What a plan says of the capacity of an OKE cluster."""
    return list(remarks(load(config(clusters={"sjc": oke_cluster(**changes)}))))


def command(remark: str) -> dict[str, str]:
    """The options of the command in a remark."""
    words = shlex.split(remark.partition("ask with ")[2])
    assert words[:4] == ["oci", "compute", "compute-capacity-report", "create"]
    return dict(zip(words[4::2], words[5::2], strict=True))


def test_each_domain_has_one_command_for_all_its_gpu_shapes() -> None:
    here = reports(
        runners={"per-job": vm_per_job(shapes=["VM.GPU.A10.2"], places=[place(), place("us-ashburn-1")]), "standing": vm()},
        tenancy="ocid1.tenancy.oc1..example",
        machineCompartment="ocid1.compartment.oc1..examplemachines",
    )
    jose, ashburn = map(command, here)
    assert jose == {
        "--region": "us-sanjose-1",
        "--compartment-id": "ocid1.tenancy.oc1..example",
        "--availability-domain": SAN_JOSE,
        "--shape-availabilities": json.dumps([{"instanceShape": "VM.GPU.A10.1"}, {"instanceShape": "VM.GPU.A10.2"}]),
    }
    assert (ashburn["--region"], ashburn["--availability-domain"]) == ("us-ashburn-1", ASHBURN)
    assert ashburn["--shape-availabilities"] == json.dumps([{"instanceShape": "VM.GPU.A10.2"}])
    assert here[0].startswith(
        f"sjc: capacity: undeterminable: whether OCI has VM.GPU.A10.1 and VM.GPU.A10.2 in {SAN_JOSE}; ask with "
    )


def test_the_compartment_is_the_root_and_a_reservation_needs_no_report() -> None:
    (unnamed,) = reports()
    assert "--compartment-id <OCID of the tenancy> " in unnamed, "the cluster's own compartment is not the root"
    held = {"id": "ocid1.capacityreservation.oc1.us-sanjose-1.example", "zone": SAN_JOSE, "count": 2}
    assert reports(pools={"a10": oke_pool(capacity="reserved", reservation=held)}) == []
