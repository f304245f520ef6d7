"""Which pool of a stack runs a job, and why none does."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.offer import Offer, for_runners
from fleet.jobs import (
    JobError,
    JobPlacement,
    JobRefusedError,
    create_gpu_job,
    gpu_job,
    place_job,
    pool_options,
)
from fleet.jobs.place import candidates
from fleet.loading.config import load
from fleet.prove.placement import pool_host
from fleet.providers.fleet import Fleet
from tests.builders import cluster, config, oke_cluster, oke_pool, pool, prod_with_pods, reserved, stack_in

pytestmark = pytest.mark.usefixtures("catalogue")
IMAGE = "registry.example.com/agent_bus:1.4.2"
PROD = load(stack_in(prod_with_pods()))
RESERVED = reserved()


def stack(**pools: dict[str, Any]) -> Fleet:
    """A stack of one cluster on EKS in us-west-2."""
    return load(config(clusters={"usw2": cluster(pools=pools, runners={})}))


def placed(fleet: Fleet, **given: Any) -> JobPlacement:
    where = {name: given.pop(name) for name in ("cluster", "pool") if name in given}
    return place_job(fleet, gpu_job("task", IMAGE, **{"gpu_type": "t4"} | given), **where)


def refused(fleet: Fleet, **given: Any) -> list[str]:
    with pytest.raises(JobRefusedError) as error:
        placed(fleet, **given)
    return str(error.value).split("\n")


# -- chosen --------------------------------------------------------------------------------------------------------------


def test_the_cheapest_pool_that_holds_the_job_runs_it() -> None:
    large, tiny, other = (pool(instanceTypes=[name]) for name in ("g4dn.4xlarge", "g4dn.xlarge", "g5.xlarge"))
    fleet = stack(large=large, small=pool(), tiny=tiny, a10g=other)
    assert placed(fleet).chosen.name == "usw2/tiny"
    found = placed(fleet, memory="30Gi")
    assert found.chosen.name == "usw2/small", "15Gi do not fit g4dn.xlarge beside its DaemonSets"
    assert [each.pool for each in found.others] == ["large", "tiny", "a10g"], "then those that can, then those that cannot"
    assert placed(fleet, memory="80Gi").chosen.name == "usw2/large"


def test_a_pool_of_several_types_costs_what_its_dearest_does() -> None:
    fleet = stack(mixed=pool(instanceTypes=["g4dn.xlarge", "g4dn.4xlarge"]), one=pool())
    assert placed(fleet).chosen.name == "usw2/one"
    ask = gpu_job("a", IMAGE, gpu_type="t4").ask
    assert {each.pool: each.price.usd for each in candidates(fleet, ask)} == {"one": 0.752, "mixed": 1.204}


def test_spot_is_for_jobs_that_allow_it() -> None:
    fleet = stack(spot=pool(capacity="spot"), steady=pool())
    assert placed(fleet, spot=True).chosen.name == "usw2/spot"
    assert placed(fleet).chosen.name == "usw2/steady"


def test_spot_of_no_known_price_is_no_dearer_than_on_demand() -> None:
    fleet = stack(b=pool(instanceTypes=["p5.4xlarge"], capacity="spot"), a=pool(instanceTypes=["p5.4xlarge"]))
    asked = candidates(fleet, gpu_job("a", IMAGE, gpu_type="h100", spot=True).ask)
    assert [each.pool for each in asked] == ["b", "a"]
    assert asked[0].price.usd == asked[1].price.usd
    assert asked[0].price.at_most


def test_a_pool_for_releases_is_the_last_resort_however_cheap() -> None:
    fleet = stack(release=pool(role="release"), burst=pool(instanceTypes=["g4dn.8xlarge"]))
    assert placed(fleet).chosen.name == "usw2/burst"
    only = placed(fleet, pool="release")
    assert only.chosen.name == "usw2/release"
    assert only.remarks == ("in a pool for releases, so a release may have to wait for this job",)


def test_a_reservation_is_paid_anyway() -> None:
    reserved = pool(capacity="reserved", reservation={"id": "cr-01234567", "zone": "us-west-2a", "count": 2})
    fleet = stack(spot=pool(capacity="spot", instanceTypes=["g4dn.xlarge"]), reserved=reserved)
    assert placed(fleet, spot=True).chosen.name == "usw2/reserved"


def test_a_capacity_block_is_paid_anyway_also_if_its_price_is_unknown() -> None:
    held = {"id": "cr-01234567", "zone": "us-west-2a", "count": 2}
    block = pool(capacity="capacity-block", instanceTypes=["p4d.24xlarge"], reservation=held)
    fleet = stack(spot=pool(capacity="spot", instanceTypes=["p4d.24xlarge"]), block=block)
    assert placed(fleet, gpu_type="a100", spot=True).chosen.name == "usw2/block"


def test_the_wanted_gpu_comes_before_the_price() -> None:
    fleet = stack(v100=pool(instanceTypes=["p3.2xlarge"]), a100=pool(instanceTypes=["p4d.24xlarge"]))
    both = {"prefer": {"a100": 100, "v100": 50}, "gpu_type": "v100"}
    assert placed(fleet, **both).chosen.name == "usw2/a100", "as seed 001 weighs them"
    assert placed(fleet, **both | {"prefer": {"a100": 50, "v100": 100}}).chosen.name == "usw2/v100"
    assert placed(fleet, gpu_type="v100").chosen.name == "usw2/v100"


def test_of_equal_pools_the_name_decides() -> None:
    assert placed(stack(b=pool(), c=pool(), a=pool())).chosen.name == "usw2/a"


def test_a_cluster_or_a_pool_that_is_named_is_the_only_one_that_is_asked() -> None:
    assert placed(PROD, gpu_type="a10").chosen.name == "sjc/a10"
    assert [line.partition(":")[0] for line in refused(PROD, gpu_type="h100", cluster="sjc")[1:]] == ["sjc/a10"]
    assert placed(PROD, spot=True, pool="t4-release").chosen.name == "use1/t4-release"
    assert len(refused(RESERVED, pool="a100-reserved")) == 2


def test_a_pool_that_is_named_implies_gpu_type_spot_and_shares() -> None:
    slices = pool(sharing={"strategy": "time-slicing", "replicas": 4})
    fleet = stack(a10g=pool(instanceTypes=["g5.xlarge"], capacity="spot"), slices=slices)
    assert pool_options(fleet, None, "a10g") == {"gpu_type": "a10g", "spot": True, "shared": False}
    assert create_gpu_job("task", IMAGE, pool="a10g", fleet=fleet) == placed(fleet, gpu_type="a10g", spot=True).manifest()
    assert create_gpu_job("task", IMAGE, pool="slices", fleet=fleet) == placed(fleet, shared=True).manifest()
    assert pool_options(fleet, "usw2", None) == pool_options(fleet, None, "nosuch") == {}


def test_an_argument_wins_over_the_pool_that_is_named() -> None:
    fleet = stack(a10g=pool(instanceTypes=["g5.xlarge"], capacity="spot"))
    with pytest.raises(JobRefusedError, match="usw2/a10g: has A10G, the job asks for T4"):
        create_gpu_job("task", IMAGE, gpu_type="t4", pool="a10g", fleet=fleet)
    with pytest.raises(JobRefusedError, match="the job does not allow spot; set spot"):
        create_gpu_job("task", IMAGE, pool="a10g", fleet=fleet, spot=False)


def test_pools_of_one_name_imply_what_they_have_in_common() -> None:
    both = {"usw2": cluster(pools={"gpu": pool()}, runners={}), "sjc": oke_cluster(pools={"gpu": oke_pool()}, runners={})}
    fleet = load(config(clusters=both))
    assert pool_options(fleet, None, "gpu") == {"spot": False, "shared": False}
    assert pool_options(fleet, "sjc", "gpu")["gpu_type"] == "a10"


def test_a_job_of_the_whole_machine_has_its_place() -> None:
    found = placed(RESERVED, gpu_type="a100", gpu_count=8)
    assert (found.chosen.name, found.chosen.most) == ("use1/a100-reserved", 1)
    assert placed(RESERVED, gpu_type="a100", gpu_count=4, memory="64Gi").chosen.most == 2


def test_the_job_is_bound_to_what_was_chosen() -> None:
    job = create_gpu_job("task", IMAGE, gpu_type="t4", spot=True, fleet=PROD)
    spec = job["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"gpu-ci/pool": "t4-spot"}
    assert job == placed(PROD, spot=True).manifest()


# -- shares --------------------------------------------------------------------------------------------------------------

WHOLE = pool(instanceTypes=["g4dn.4xlarge"])


def shared(strategy: str = "time-slicing", **more: Any) -> dict[str, Any]:
    return pool(sharing={"strategy": strategy, "replicas": 4} | more)


def test_whole_gpus_and_shares_are_never_taken_for_one_another() -> None:
    fleet = stack(shares=shared(), whole=WHOLE)
    assert placed(fleet).chosen.name == "usw2/whole", "though the shares are cheaper"
    assert placed(fleet, shared=True).chosen.name == "usw2/shares"
    assert refused(stack(shares=shared()))[1:] == [
        "usw2/shares: shares its GPUs (1/4 GPU each), and the job asks for whole ones; set shared"
    ]
    assert refused(stack(whole=WHOLE), shared=True)[1:] == [
        "usw2/whole: has whole GPUs, and the job asks for a share; remove shared and resource"
    ]


def test_shares_that_have_the_name_of_whole_gpus_are_shares_all_the_same() -> None:
    assert refused(stack(shares=shared(rename=False)))[1:] == [
        "usw2/shares: shares its GPUs (1/4 GPU each), and the job asks for whole ones; set shared"
    ]
    job = placed(stack(shares=shared(rename=False)), shared=True).manifest()
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == "1"


def test_several_shares_are_for_pools_that_allow_them() -> None:
    small = {"shared": True, "gpu_count": 2, "memory": "8Gi", "cpu": 2}
    assert refused(stack(shares=shared()), **small)[1:] == [
        "usw2/shares: shares its GPUs, and several shares do not add up to a larger one; ask for 1, not 2"
    ]
    assert placed(stack(shares=shared(allowSeveral=True)), **small).chosen.name == "usw2/shares"


def test_who_names_a_resource_gets_that_one() -> None:
    slices = pool(instanceTypes=["p4d.24xlarge"], sharing={"strategy": "mig", "profile": "1g.5gb"})
    fleet = load(config(clusters={"usw2": cluster(enablement="gpu-operator", pools={"mig": slices}, runners={})}))
    part = {"gpu_type": "a100", "resource": "nvidia.com/mig-1g.5gb", "gpu_count": 2}
    found = placed(fleet, **part)
    assert (found.chosen.name, found.chosen.most) == ("usw2/mig", 10), "on two nodes, five jobs each of 16 of 96 vCPU"
    assert refused(fleet, **part | {"resource": "nvidia.com/mig-3g.20gb"})[1:] == [
        "usw2/mig: advertises nvidia.com/mig-1g.5gb, the job asks for nvidia.com/mig-3g.20gb"
    ]


def test_under_mps_a_job_takes_the_shared_memory_that_there_is() -> None:
    fleet = stack(shares=shared("mps"))
    assert placed(fleet, shared=True).chosen.name == "usw2/shares"
    assert refused(fleet, shared=True, shm="1Gi")[1:] == [
        "usw2/shares: its device plugin mounts /dev/shm itself (MPS), the job asks for 1Gi; remove shm"
    ]


def test_a_machine_has_as_many_shares_as_its_gpus_give() -> None:
    fleet = stack(shares=pool(instanceTypes=["g4dn.metal"], sharing={"strategy": "time-slicing", "replicas": 4}))
    assert placed(fleet, shared=True, memory="4Gi", cpu=1, scratch="1Gi").chosen.most == 2 * 8 * 4, "nodes, GPUs, shares"


# -- refused -------------------------------------------------------------------------------------------------------------


def test_each_pool_has_its_reason() -> None:
    assert refused(PROD, gpu_count=4, memory="64Gi") == [
        "no pool can hold task (4 T4 GPUs, 8 CPU, 32Gi, 20Gi of disk):",
        "use1/t4-spot: has spot machines, which the cloud can interrupt, and the job does not allow spot; set spot; "
        "asks for 4 GPUs, g4dn.2xlarge has 1; asks for 4 GPUs, g4dn.4xlarge has 1; the smallest type that is large enough "
        "is g4dn.12xlarge",
        "use1/t4-ondemand: asks for 4 GPUs, g4dn.2xlarge has 1; the smallest type that is large enough is g4dn.12xlarge",
        "use1/t4-release: asks for 4 GPUs, g4dn.2xlarge has 1; the smallest type that is large enough is g4dn.12xlarge",
        "use1/a10g-spot: has A10G, the job asks for T4",
        "use1/a10g-ondemand: has A10G, the job asks for T4",
        "use1/a10g-release: has A10G, the job asks for T4",
        "sjc/a10: has A10, the job asks for T4",
    ]
    assert refused(RESERVED, gpu_count=4, memory="64Gi") == [
        "no pool can hold task (4 T4 GPUs, 8 CPU, 32Gi, 20Gi of disk):",
        "use1/a100-reserved: has A100, the job asks for T4",
        "use1/a10g: has A10G, the job asks for T4",
    ]


def left(fleet: Fleet) -> Offer:
    """What the first machine of the pool t4 leaves pods beside its DaemonSets."""
    host = pool_host(fleet.clusters["usw2"], "t4")
    return for_runners(host.machines[0], host.disk, host.daemonsets)


def test_every_shortage_of_a_pool_is_told() -> None:
    fleet = stack(t4=pool(disk="50Gi"))
    assert refused(fleet, memory="128Gi", cpu=40, scratch="60Gi")[1:] == [
        f"usw2/t4: asks for 20 CPU and 64Gi and 60Gi of disk, g4dn.2xlarge leaves pods {left(fleet).cpu}m of 8 and "
        f"{left(fleet).memory}Mi of 32Gi and 45056Mi of 50Gi; no type with this GPU in this cloud is large enough: ask for less"
    ]
    assert refused(fleet, scratch="60Gi")[1:] == [
        "usw2/t4: asks for 60Gi of disk, g4dn.2xlarge leaves pods 45056Mi of 50Gi; raise the pool's disk to 68Gi"
    ]


def test_a_pool_may_buy_any_of_its_types_so_a_job_names_all_or_none() -> None:
    fleet = stack(t4=pool(instanceTypes=["g4dn.2xlarge", "g4dn.4xlarge"]))
    assert refused(fleet, instance_type="g4dn.4xlarge")[1:] == [
        "usw2/t4: may also buy g4dn.2xlarge, the job allows only g4dn.4xlarge; name all of the pool's types"
    ]
    assert placed(fleet, instance_type=["g4dn.4xlarge", "g4dn.2xlarge", "g4dn.8xlarge"]).chosen.name == "usw2/t4"


def test_a_job_that_fits_the_larger_of_two_types_has_no_place() -> None:
    fleet = stack(t4=pool(instanceTypes=["g4dn.xlarge", "g4dn.4xlarge"]))
    assert refused(fleet, memory="40Gi")[1:] == [
        f"usw2/t4: asks for 20Gi, g4dn.xlarge leaves pods {left(fleet).memory}Mi of 16Gi; "
        "the smallest type that is large enough is g4dn.2xlarge"
    ]


def test_a_stack_without_gpu_pools_holds_no_job() -> None:
    fleet = load(config(clusters={"sjc": oke_cluster(pools={}, runners={})}))
    assert refused(fleet) == [
        "no pool can hold task (1 T4 GPU, 2 CPU, 6Gi, 20Gi of disk):",
        "pools: there is no GPU pool; add one",
    ]


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ({"cluster": "use2"}, 'cluster: the stack has no cluster of that name; name one of: use1, sjc (got "use2")'),
        ({"cluster": "sjc", "pool": "t4-spot"}, 'pool: no pool has that name; name one of: a10 (got "t4-spot")'),
    ],
)
def test_a_cluster_or_pool_that_is_not_there_is_told(where: dict[str, str], line: str) -> None:
    with pytest.raises(JobError) as error:
        placed(PROD, **where)
    assert str(error.value) == line
    assert not isinstance(error.value, JobRefusedError), "nothing was asked"


def test_a_refused_job_is_a_job_error_with_a_problem_for_each_pool() -> None:
    with pytest.raises(JobError) as error:
        create_gpu_job("task", IMAGE, gpu_type="h100", fleet=PROD)
    assert [(each.field, each.rule) for each in error.value.problems] == [
        (f"use1/{gpu}-{bought}", "placement") for gpu in ("t4", "a10g") for bought in ("spot", "ondemand", "release")
    ] + [("sjc/a10", "placement")]


# -- remarks -------------------------------------------------------------------------------------------------------------


def test_limits_that_a_machine_does_not_have_are_told() -> None:
    fleet = stack(t4=pool())
    assert placed(fleet, memory="30Gi", cpu=12).remarks == (
        f"memory limit 30Gi is above the {left(fleet).memory}Mi of g4dn.2xlarge: the job may be evicted before it",
        f"CPU limit 12 is above the {left(fleet).cpu}m of g4dn.2xlarge: the job never gets all of it",
    )
    assert placed(fleet).remarks == ()


def test_a_job_on_spot_is_told_so() -> None:
    assert placed(stack(t4=pool(capacity="spot")), spot=True).remarks == (
        "on spot: it may be interrupted at any time and then restarts, so keep its state in the workspace",
    )


# -- both clouds ---------------------------------------------------------------------------------------------------------


def test_a_pool_on_oke_is_asked_by_its_own_rules() -> None:
    fleet = load(config(clusters={"sjc": oke_cluster(pools={"a10": oke_pool()}, runners={})}))
    found = placed(fleet, gpu_type="a10", memory="200Gi", cpu=28)
    assert found.chosen.name == "sjc/a10"
    assert [each.key for each in found.target.tolerations] == ["nvidia.com/gpu"]
