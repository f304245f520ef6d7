"""A job with several pools in order: each must hold it, and its pods may run in all of them and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.scheduling import FLAVOR_LABEL, POOL_LABEL
from fleet.jobs import JobError, JobPlacement, JobRefusedError, create_gpu_job, gpu_job, place_job
from fleet.jobs.stack import place_stack_job
from fleet.loading.config import load
from fleet.providers.fleet import Fleet
from tests.builders import cluster, config, pool
from tests.cases import cases

IMAGE = "registry.example.com/train:1.2"
POOLS = {
    "spot": pool(nodes={"max": 4}, capacity="spot"),
    "steady": pool(nodes={"max": 2}),
    "small": pool(instanceTypes=["g4dn.xlarge"], nodes={"max": 2}),
    "a10g": pool(instanceTypes=["g5.2xlarge"], nodes={"max": 2}),
}
QUEUES = {
    "flavors": {"t4": {"pools": ["spot", "steady"]}},
    "teams": {
        "research": {"namespaces": ["research"], "quotas": [{"flavor": "t4", "nominal": 4}, {"pool": "a10g", "nominal": 1}]}
    },
}


def stack(**more: Any) -> Fleet:
    return load(config(clusters={"usw2": cluster(pools=POOLS, runners={}, **more)}))


def placed(fleet: Fleet, *names: str, **given: Any) -> JobPlacement:
    return place_job(fleet, gpu_job("task", IMAGE, **{"gpu_type": "t4", "spot": True} | given), pool=names)


def spec(job: JobPlacement) -> dict[str, Any]:
    found: dict[str, Any] = job.manifest()["spec"]["template"]["spec"]
    return found


def test_its_pods_run_in_all_its_pools_and_prefer_the_first() -> None:
    found = placed(stack(), "spot", "steady", instance_type=["g4dn.2xlarge", "g4dn.4xlarge"])
    assert (found.chosen.pool, [each.pool for each in found.behind]) == ("spot", ["steady"])
    assert found.place == f"usw2/spot, {found.chosen.price} USD/h a node, then usw2/steady, {found.behind[0].price} USD/h a node"
    affinity = spec(found)["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": POOL_LABEL, "operator": "In", "values": ["spot", "steady"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g4dn.2xlarge", "g4dn.4xlarge"]},
    ]
    (first,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert first["preference"]["matchExpressions"] == [{"key": POOL_LABEL, "operator": "In", "values": ["spot"]}]
    assert "nodeSelector" not in spec(found)


def test_every_pool_must_hold_it() -> None:
    with pytest.raises(JobRefusedError) as error:
        placed(stack(), "steady", "small", memory="30Gi")
    first, *reasons = str(error.value).splitlines()
    assert first.startswith("not every pool of the list can hold task")
    assert len(reasons) == 1
    assert reasons[0].startswith("usw2/small: asks for ")


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("steady", "nowhere"), "no pool has that name; name one of: spot, steady, small, a10g"),
        (("steady", "a10g"), "usw2/a10g: has A10G, the job asks for T4"),
    ],
)
def test_a_wrong_pool_of_the_list_is_named(names: tuple[str, ...], told: str) -> None:
    with pytest.raises(JobError, match=told):
        placed(stack(), *names)


def test_a_list_implies_spot_if_one_of_its_pools_is_spot() -> None:
    made = create_gpu_job("task", IMAGE, fleet=stack(), pool=["steady", "spot"])
    assert made["spec"]["template"]["spec"]["restartPolicy"] == "Never", "as for every job that may lose its node"


@cases("names", [("spot", "steady"), ("spot",), ("steady",), ()])
def test_a_queued_job_runs_in_all_pools_of_its_flavor(names: tuple[str, ...]) -> None:
    """Kueue matches a selector on the pool with no flavor of several pools."""
    found = placed(stack(queues=QUEUES), *names, queue="research")
    assert spec(found)["nodeSelector"] == {FLAVOR_LABEL: "t4"}
    assert "affinity" not in spec(found)
    assert {found.chosen.pool, *(each.pool for each in found.behind)} == {"spot", "steady"}


def test_a_queued_job_must_fit_and_allow_every_pool_of_its_flavor() -> None:
    with pytest.raises(JobRefusedError, match="usw2/steady: pool spot of the same flavor t4: has spot machines"):
        placed(stack(queues=QUEUES), "steady", queue="research", spot=False)


def test_a_queued_job_cannot_have_pools_of_two_flavors() -> None:
    more = {"teams": {"research": {"namespaces": ["research"], "quotas": [{"pool": each, "nominal": 1} for each in POOLS]}}}
    with pytest.raises(JobError, match="Kueue binds a Job to one pool or to one flavor"):
        placed(stack(queues=more), "spot", "steady", queue="research")
    assert placed(stack(queues=more), "steady", queue="research").chosen.pool == "steady"


def test_a_job_of_the_stack_names_its_pools_in_order() -> None:
    job = {"namespace": "research", "image": IMAGE, "pools": ["spot", "steady"]}
    fleet = stack(jobs={"train": job})
    found = place_stack_job(fleet, "usw2", "train")
    assert [found.chosen.pool, *(each.pool for each in found.behind)] == ["spot", "steady"]
    assert any("it may be interrupted" in remark for remark in found.remarks)
    unused = [each for each in fleet.clusters["usw2"].remarks if "it gets no jobs" in each]
    assert [each.partition(":")[0] for each in unused] == ["pool small", "pool a10g"]
