"""Queue flavors of several pools: Kueue counts them as one, their nodes have its label, and no other node has it."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest

from fleet.facts.errors import FleetError
from fleet.facts.scheduling import FLAVOR_LABEL, POOL_LABEL
from fleet.jobs import gpu_job
from fleet.loading.config import load
from fleet.prove.nodes import cluster_nodes
from fleet.prove.placement import pool_host
from fleet.prove.quota import barred, flavor_share, share
from fleet.prove.remarks import fallback as remarks
from fleet.providers.fleet import Fleet
from fleet.render.queues import QueueObjects, queue_objects
from fleet.settings.pool_order import pool_ranks
from tests.builders import cluster, config, oke_pool, pool, runner
from tests.fleet.kueue_rules import dangling, refused
from tests.fleet.queue_configs import in_order, of
from tests.fleet.test_queues import schema

POOLS = {
    "t4-spot": pool(instanceTypes=["g4dn.4xlarge"], nodes={"max": 4}, capacity="spot"),
    "t4-more": pool(nodes={"max": 2}),
    "t4-release": pool(nodes={"max": 2}, role="release"),
}
V100 = {"instanceTypes": ["VM.GPU3.2"], "nodes": {"max": 3}}
OKE_POOLS = {"a10": oke_pool(**V100), "v100-spot": oke_pool(**V100, capacity="spot")}
EKS = {"t4": {"pools": ["t4-spot", "t4-more"]}}
ONE = gpu_job("task", "registry.example.com/train:1.2", gpu_type="t4").ask
OKE = {"v100": {"pools": ["v100-spot", "a10"]}}


def fleet(flavors: dict[str, Any], pools: dict[str, dict[str, Any]], *more: dict[str, Any], nominal: int = 3) -> Fleet:
    quotas = [{"flavor": next(iter(flavors)), "nominal": nominal}, *more]
    return of({"flavors": flavors, "teams": {"research": {"namespaces": ["research"], "quotas": quotas}}}, pools)


def made(found: Fleet) -> QueueObjects:
    cluster = found.clusters["usw2"]
    assert cluster.queues is not None
    return queue_objects("usw2", cluster, cluster.queues)


@pytest.mark.parametrize(("flavors", "pools"), [(EKS, POOLS), (OKE, OKE_POOLS)], ids=["eks", "oke"])
def test_the_nodes_of_its_pools_have_its_labels_and_no_other_node_has(
    flavors: dict[str, Any], pools: dict[str, dict[str, Any]]
) -> None:
    found = fleet(flavors, pools)
    (flavor,) = made(found).flavors
    (name,) = flavors
    assert flavor["metadata"]["name"] == name
    labels = flavor["spec"]["nodeLabels"]
    assert labels[FLAVOR_LABEL] == name
    assert POOL_LABEL not in labels, "the Jobs would run in one pool only"
    for nodes in cluster_nodes("usw2", found.clusters["usw2"], found.github):
        own = nodes.host.name in flavors[name]["pools"]
        for machine in nodes.labels:
            assert all(machine.get(key) == frozenset((value,)) for key, value in labels.items()) == own, nodes.name


def test_its_jobs_tolerate_the_taints_of_all_its_pools() -> None:
    spec = made(fleet(OKE, OKE_POOLS)).flavors[0]["spec"]
    assert [each["key"] for each in spec["nodeTaints"]] == [each["key"] for each in spec["tolerations"]]
    assert len(spec["nodeTaints"]) == 2, "the taint of GPU nodes and that of preemptible ones"


def test_kueue_takes_the_objects_and_they_refer_to_each_other() -> None:
    objects = made(fleet(EKS, POOLS, {"pool": "t4-release", "nominal": 1}))
    assert [each["metadata"]["name"] for each in objects.flavors] == ["t4", "t4-release"]
    assert [fault for each in in_order(objects) for fault in refused(each)] == []
    assert dangling(in_order(objects)) == []
    assert objects.teams["research"].flavors == ["t4", "t4-release"]


@pytest.mark.reference
def test_the_crds_take_the_objects() -> None:
    for each in in_order(made(fleet(EKS, POOLS))):
        jsonschema.Draft202012Validator(schema(each["kind"])).validate(each)


def test_a_unit_has_the_least_that_a_pool_leaves_for_one() -> None:
    """A Job in the smaller pool would wait if the quota of CPU were that of the larger one."""
    cluster = fleet(EKS, POOLS).clusters["usw2"]
    small, large = (share(pool_host(cluster, name)) for name in ("t4-more", "t4-spot"))
    assert cluster.queues is not None
    for name in ("t4-more", "t4-spot"):
        assert flavor_share(cluster, cluster.queues, pool_host(cluster, name)) == small
    assert small.cpu < large.cpu


def test_a_job_gets_the_units_of_all_pools_of_its_flavor_together() -> None:
    cluster = fleet(EKS, POOLS, nominal=6).clusters["usw2"]
    for name in EKS["t4"]["pools"]:
        assert barred(ONE, "research", None, cluster, pool_host(cluster, name)) == ""
    told = barred(ONE, "research", None, cluster, pool_host(cluster, "t4-release"))
    assert told == "team research has no quota of it; add one, or name another pool"


def test_the_autoscaler_follows_the_order_of_a_flavor_and_of_a_job() -> None:
    found = fleet(EKS, POOLS).clusters["usw2"]
    assert pool_ranks(found.pool_orders) == {"t4-spot": 2, "t4-more": 1}
    job = {"namespace": "vision", "image": "registry.example.com/train:1.2", "pools": ["t4-more", "t4-release"]}
    more = load(config(clusters={"usw2": cluster(pools=POOLS, runners={}, jobs={"train": job})}))
    assert pool_ranks(more.clusters["usw2"].pool_orders) == {"t4-more": 2, "t4-release": 1}
    (line,) = remarks(more)
    assert line.startswith("usw2/jobs.train: pools in order: t4-more, t4-release; while EC2 refuses machines, ")


def test_an_order_of_a_flavor_against_that_of_a_class_is_an_error() -> None:
    quotas = [{"flavor": "t4", "nominal": 3}]
    queues = {"flavors": EKS, "teams": {"research": {"namespaces": ["research"], "quotas": quotas}}}
    runners = {"gpu-t4": runner(pools=["t4-more", "t4-spot"])}
    both = re.escape("runners.gpu-t4 puts t4-more before t4-spot, queues.flavors.t4 puts t4-spot before t4-more")
    with pytest.raises(FleetError, match=both):
        load(config(clusters={"usw2": cluster(pools=POOLS, runners=runners, queues=queues)}))
