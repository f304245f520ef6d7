"""Which quota a machine takes, how much of it a fleet takes at its maximum, and how each cloud gets it."""

from __future__ import annotations

import csv
import datetime
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from fleet.facts import hardware
from fleet.facts.errors import FleetError
from fleet.facts.hardware import Machine
from fleet.loading.config import load
from fleet.prove.remarks import quotas as remarks
from fleet.providers.eks.bill import eks_needs, eks_quotas
from fleet.providers.fleet import Fleet
from fleet.providers.oke.bill import oke_quotas
from fleet.providers.provider import needs
from fleet.settings.pool import Capacity
from tests.builders import (
    ASHBURN,
    HERE,
    ROOT,
    THERE,
    cluster,
    config,
    oke_cluster,
    oke_pool,
    oke_runner,
    place,
    pool,
    read_stack,
    reserved,
    runner,
    vm,
    vm_per_job,
)
from tests.cases import cases

# Oracle's compute quotas page: what the quotas of a series begin with. It names no other GPU series.
STEMS = {
    "VM.GPU2": "gpu2",
    "BM.GPU2": "gpu2",
    "VM.GPU3": "gpu3",
    "BM.GPU3": "gpu3",
    "BM.GPU4": "gpu4",
    "VM.GPU.A10": "gpu-a10",
    "BM.GPU.A10": "gpu-a10",
    "BM.GPU.A100-v2": "gpu-a100-v2",
    "BM.GPU.H200": "gpu-h200",
    "BM.GPU.B200": "gpu-b200",
    "BM.GPU.MI300X": "gpu-mi300x",
}
# Of these it says OCPUs where it counts reservations.
NOT_RESERVED = ("gpu-h200", "gpu-b200", "gpu-mi300x")


def rows() -> list[dict[str, str]]:
    with (Path(hardware.__file__).parent / "data" / "quotas.csv").open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


# -- the table ---------------------------------------------------------------------------------------------------------


def of_aws(name: str, capacity: str) -> str | None:
    """By a name's letter; on spot P has one quota up to P4, one for P5, and none that a source names for P6. Blocks have none."""
    if capacity == "capacity-block":
        return None
    if name.startswith("g"):
        return "L-3819A6DF" if capacity == "spot" else "L-DB2E81BA"
    if capacity != "spot":
        return "L-417A185B"
    return {"p3": "L-7212CCBC", "p4": "L-7212CCBC", "p5": "L-C4BD4855"}.get(name[:2])


def of_oci(name: str, capacity: str) -> str | None:
    stem = STEMS.get(name.rpartition(".")[0])
    if stem is None or capacity == "capacity-block" or (capacity == "reserved" and stem in NOT_RESERVED):
        return None
    return f"{stem}-reserved-count" if capacity == "reserved" else f"{stem}-count"


@cases("capacity", get_args(Capacity))
@cases("machine", [each for each in hardware.machines() if each.gpus])
def test_every_gpu_machine_takes_the_quota_that_its_cloud_names_or_none_is_known(machine: Machine, capacity: str) -> None:
    rule = {"aws": of_aws, "oci": of_oci}[machine.cloud]
    assert hardware.quota_code(machine, capacity) == rule(machine.name, capacity)


def test_ec2_counts_vcpus_and_oci_gpus() -> None:
    assert hardware.quota_units(hardware.machine("p4d.24xlarge")) == 96
    assert hardware.quota_units(hardware.machine("BM.GPU4.8")) == 8


def test_a_row_of_quotas_is_dated_explained_and_of_families_in_the_table() -> None:
    text = (ROOT / "fleet" / "facts" / "data" / "README.md").read_text(encoding="utf-8")
    families = {machine.name.rpartition(".")[0]: machine.cloud for machine in hardware.machines()}
    for row in rows():
        assert datetime.date.fromisoformat(row["date"]) <= datetime.datetime.now(datetime.UTC).date(), row["code"]
        assert f"| {row['source']} |" in text, f"{row['source']} is not explained beside the table"
        assert set(row["capacities"].split()) <= set(get_args(Capacity)), row["code"]
        assert {families[family] for family in row["families"].split()} == {row["cloud"]}, row["code"]
        assert row["called"], row["code"]


def test_a_family_stands_once_for_each_capacity() -> None:
    keys = [
        (row["cloud"], family, way) for row in rows() for family in row["families"].split() for way in row["capacities"].split()
    ]
    assert len(keys) == len(set(keys)), "a second row would silently win"


# -- what a fleet takes ------------------------------------------------------------------------------------------------


def read(**clusters: dict[str, Any]) -> Fleet:
    return load(config(clusters=clusters))


def on_eks(fleet: Fleet, name: str = "usw2") -> dict[str, int]:
    """vCPUs that full pools in a cluster's region take, by quota code."""
    taken: Counter[str] = Counter()
    for need in eks_needs(fleet.clusters[name], fleet.clusters_of("eks")):
        assert need.code is not None
        taken[need.code] += need.units
    return dict(taken)


def requested(name: str = "usw2", **clusters: dict[str, Any]) -> dict[str, int]:
    """What one cluster of a fleet requests of AWS."""
    fleet = read(**clusters)
    return eks_quotas(fleet.clusters[name], fleet.clusters_of("eks"))


def on_oke(fleet: Fleet, name: str = "sjc") -> tuple[str, ...]:
    return oke_quotas(fleet.clusters[name], fleet.clusters_of("oke"))


def test_a_group_takes_as_much_as_its_largest_type_would() -> None:
    types = [hardware.machine(name) for name in ("g4dn.4xlarge", "g4dn.2xlarge")]
    (need,) = needs(types, "spot", 5, "us-west-2")
    assert (need.code, need.units, need.machine) == ("L-3819A6DF", 5 * 16, "g4dn.4xlarge")


def test_types_of_two_quotas_are_reckoned_in_both() -> None:
    types = [hardware.machine(name) for name in ("VM.GPU3.1", "BM.GPU3.8")]
    assert {(need.code, need.units) for need in needs(types, "on-demand", 2, HERE)} == {("gpu3-count", 16)}, "one series"
    types = [hardware.machine(name) for name in ("g6.xlarge", "p4d.24xlarge")]
    assert {(need.code, need.units) for need in needs(types, "on-demand", 2, "us-east-1")} == {
        ("L-DB2E81BA", 8),
        ("L-417A185B", 192),
    }


def test_the_quotas_of_our_stacks_are_those_of_their_full_pools() -> None:
    staging, prod = (load(read_stack(ROOT / f"Pulumi.{stack}.yaml")) for stack in ("staging", "prod"))
    assert on_eks(staging) == {"L-3819A6DF": 5 * 16, "L-DB2E81BA": 2 * 8 + 2 * 8}, "a fallback pool counts in full"
    assert on_eks(prod, "use1") == {
        "L-3819A6DF": 10 * 16 + 8 * 16,
        "L-DB2E81BA": 4 * 8 + 4 * 8 + 2 * 8 + 2 * 8,
    }
    assert on_eks(reserved(), "use1") == {"L-417A185B": 96, "L-DB2E81BA": 4 * 8}
    assert on_oke(prod) == (
        "set compute-core quota gpu-a10-count to 120 in compartment ci:machines where request.region = 'us-ashburn-1'",
        "set compute-core quota gpu-a10-count to 120 in compartment ci:machines where request.region = 'us-sanjose-1'",
    )


def test_a_reservation_takes_its_quota_whole() -> None:
    reserved = pool(
        instanceTypes=["p4d.24xlarge"],
        capacity="reserved",
        role="release",
        nodes={"max": 1},
        reservation={"id": "cr-01234567", "zone": "us-west-2a", "count": 3},
    )
    fleet = read(usw2=cluster(pools={"t4": reserved}, declareQuotas=True))
    assert on_eks(fleet) == {"L-417A185B": 3 * 96}, "EC2 counts what is reserved and unused too"


def test_a_capacity_block_requests_no_quota() -> None:
    block = pool(
        instanceTypes=["p4d.24xlarge"],
        capacity="capacity-block",
        nodes={"max": 1},
        reservation={"id": "cr-01234567", "zone": "us-west-2a", "count": 3},
    )
    fleet = read(usw2=cluster(pools={"a100": block, "t4": pool()}, declareQuotas=True))
    assert on_eks(fleet) == {"L-DB2E81BA": 2 * 8}, "EC2 limits blocks by their instances, when they are bought"


def test_one_cluster_declares_for_all_of_its_region_and_for_no_other() -> None:
    other = cluster(runners={"gpu-more": runner()})
    east = cluster(region="us-east-1", zones=["us-east-1a", "us-east-1b"], runners={"gpu-east": runner()})
    fleet = read(usw2=cluster(declareQuotas=True), more=other, east=east)
    assert on_eks(fleet) == {"L-DB2E81BA": (2 + 2) * 8}


@pytest.mark.parametrize("account", [16, 17, 768])
def test_an_account_with_enough_is_asked_nothing(account: int) -> None:
    assert requested(usw2=cluster(accountQuotas={"L-DB2E81BA": account})) == {}


@pytest.mark.parametrize("account", [0, 15])
def test_an_account_with_less_is_asked_for_the_whole_need(account: int) -> None:
    assert requested(usw2=cluster(accountQuotas={"L-DB2E81BA": account, "L-3819A6DF": 0})) == {"L-DB2E81BA": 16}


def test_a_quota_that_the_settings_do_not_give_is_not_requested() -> None:
    assert requested(usw2=cluster(accountQuotas={"L-3819A6DF": 32})) == {}, "the account may have more than the pools need"


def test_a_smaller_pool_requests_nothing() -> None:
    account = {"L-DB2E81BA": 24}
    assert requested(usw2=cluster(accountQuotas=account, pools={"t4": pool(nodes={"max": 4})})) == {"L-DB2E81BA": 32}
    assert requested(usw2=cluster(accountQuotas=account, pools={"t4": pool(nodes={"max": 2})})) == {}


def test_two_clusters_of_a_region_are_one_request_above_the_largest_number_that_either_gives() -> None:
    more = {"runners": {"gpu-more": runner()}}
    first, second = cluster(accountQuotas={"L-DB2E81BA": 8}), cluster(accountQuotas={"L-DB2E81BA": 31}, **more)
    assert requested(usw2=first, more=second) == {"L-DB2E81BA": (2 + 2) * 8}
    assert requested(usw2=first, more=cluster(accountQuotas={"L-DB2E81BA": 32}, **more)) == {}
    with pytest.raises(FleetError, match="cluster usw2 already declares the quotas of us-west-2"):
        read(usw2=first | {"declareQuotas": True}, more=second | {"declareQuotas": True})


def test_the_plan_says_how_to_read_a_quota_and_how_to_request_it() -> None:
    command = "--region us-west-2 --service-code ec2 --quota-code L-DB2E81BA"
    needed = "AWS us-west-2: full pools need 16 vCPUs of quota L-DB2E81BA"
    unknown = (
        f"{needed}; write what the account has in accountQuotas: "
        f"aws service-quotas get-service-quota {command} --query Quota.Value"
    )
    for declares in (False, True):
        assert list(remarks(read(usw2=cluster(declareQuotas=declares)))) == [unknown], "nothing is requested either way"
    less = {"accountQuotas": {"L-DB2E81BA": 8}}
    assert list(remarks(read(usw2=cluster(**less)))) == [
        f"{needed}, and the account has 8; aws service-quotas request-service-quota-increase {command} --desired-value 16"
    ]
    assert list(remarks(read(usw2=cluster(declareQuotas=True, **less)))) == [], "pulumi up requests it"
    assert list(remarks(read(usw2=cluster(accountQuotas={"L-DB2E81BA": 16})))) == []


GOVERNED = {"tenancy": "ocid1.tenancy.oc1..example", "compartmentPath": "ci", "declareQuotas": True}


def test_machines_of_jobs_count_twice_in_each_region_that_may_have_them() -> None:
    sets = {"standing": vm(count=3), "per-job": vm_per_job(scale={"max": 5}, places=[place(HERE), place(THERE, ASHBURN)])}
    assert on_oke(read(sjc=oke_cluster(**GOVERNED, pools={}, runners=sets))) == (
        "set compute-core quota gpu-a10-count to 10 in compartment ci where request.region = 'us-ashburn-1'",
        "set compute-core quota gpu-a10-count to 16 in compartment ci where request.region = 'us-sanjose-1'",
    )


@cases(("path", "above"), [("ci:machines", 2 + 2), ("ci", 2 + 2), ("ci-machines", 2), ("other", 2)])
def test_what_is_in_a_compartment_counts_for_those_above_it(path: str, above: int) -> None:
    settings = oke_cluster(
        **GOVERNED,
        machineCompartment="ocid1.compartment.oc1..examplevms",
        machineCompartmentPath=path,
        runners={"oci-a10": oke_runner(), "standing": vm()},
    )
    statements = on_oke(read(sjc=settings))
    assert (
        f"set compute-core quota gpu-a10-count to {above} in compartment ci where request.region = 'us-sanjose-1'" in statements
    )
    if path != "ci":
        assert any(f"to 2 in compartment {path} " in statement for statement in statements)


def test_nodes_in_a_reservation_take_the_quota_of_reservations() -> None:
    reserved = oke_pool(
        instanceTypes=["BM.GPU4.8"],
        capacity="reserved",
        role="release",
        nodes={"max": 2},
        reservation={"id": "ocid1.capacityreservation.oc1..example", "zone": "abcd:US-SANJOSE-1-AD-1", "count": 3},
    )
    (statement,) = on_oke(read(sjc=oke_cluster(**GOVERNED, pools={"a10": reserved})))
    assert statement.startswith("set compute-core quota gpu4-reserved-count to 16 in compartment ci "), "of two nodes at most"


def test_a_neighbour_in_the_compartment_is_counted_and_one_elsewhere_is_not() -> None:
    neighbour = oke_cluster(runners={"more": oke_runner()})
    apart = oke_cluster(compartment="ocid1.compartment.oc1..exampleapart", runners={"apart": oke_runner()})
    (statement,) = on_oke(read(sjc=oke_cluster(**GOVERNED), more=neighbour, apart=apart))
    assert " to 4 in compartment ci " in statement


@pytest.mark.parametrize("declares", [True, False])
def test_a_cluster_in_a_compartment_below_counts_for_the_one_above(declares: bool) -> None:
    below = {"compartment": "ocid1.compartment.oc1..examplebelow", "compartmentPath": "ci:team"}
    more = oke_cluster(**GOVERNED | below | {"declareQuotas": declares}, runners={"more": oke_runner()})
    fleet = read(sjc=oke_cluster(**GOVERNED), more=more)
    (statement,) = on_oke(fleet)
    assert " to 4 in compartment ci " in statement, "OCI would limit the two nodes below to the rest of the two above"
    assert [" to 2 in compartment ci:team " in each for each in on_oke(fleet, "more")] == [True]


def test_machines_said_to_be_in_the_clusters_own_compartment_need_no_second_path() -> None:
    same = {"machineCompartment": "ocid1.compartment.oc1..example"}
    assert on_oke(read(sjc=oke_cluster(**GOVERNED, **same))) == on_oke(read(sjc=oke_cluster(**GOVERNED)))


def test_clusters_that_share_a_compartment_may_not_both_declare() -> None:
    with pytest.raises(FleetError, match=re.escape("cluster sjc already declares the quotas of ocid1.compartment.oc1..example")):
        read(sjc=oke_cluster(**GOVERNED), more=oke_cluster(**GOVERNED, runners={"more": oke_runner()}))
