"""The node groups of a pool as one pool: what is summed, what stays apart, and what rules then read."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.bill import Warm
from policies.rules.groups import groups
from policies.rules.node_groups import Pool, pooled
from policies.rules.read import Later, count, items, walk
from policies.rules.record import Resource, UnknownError
from policies.rules.spot_with_fallback import RULE as FALLBACK
from tests.policies.cases import Member
from tests.policies.harness import CLEAN, UNKNOWN, as_read, changed, judge_stack, urn
from tests.policies.pool_fixtures import EKS, LEAVING, OKE, RELEASES, SPOT, TAINT, V100


def resource(name: str, props: dict[str, Any], token: str = EKS) -> Resource:
    return Resource(token, as_read(props), urn(token, name), name)


def zone(name: str, least: int, most: int, **changes: Any) -> Resource:
    sizes = {"minSize": least, "maxSize": most, "desiredSize": least}
    return resource(name, SPOT | {"scalingConfig": sizes, "subnetIds": [f"subnet-{name}"]} | changes)


def test_sizes_add_up_and_subnets_follow_each_other() -> None:
    groups_of_pool = [zone("a", 1, 2), zone("b", 1, 2), zone("c", 0, 1)]
    (pool,) = pooled(groups_of_pool)
    assert walk(pool.props, "scalingConfig", "minSize") == 2
    assert walk(pool.props, "scalingConfig", "maxSize") == 5
    assert [each for _, each in items(walk(pool.props, "subnetIds"), Later())] == ["subnet-a", "subnet-b", "subnet-c"]
    assert (pool.name, pool.urn) == ("a", urn(EKS, "a"))
    assert walk(pool.props, "labels", "gpu-ci/pool") == "t4"
    assert isinstance(pool, Pool)
    assert pool.groups == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": {"gpu-ci/pool": "other", "gpu-ci/role": "burst"}},
        {"clusterName": "use1"},
        {"capacityType": "ON_DEMAND"},
        {"instanceTypes": ["g4dn.xlarge"]},
        {"labels": {}},
        {"taints": [TAINT, LEAVING]},
    ],
)
def test_groups_of_other_machines_or_places_stay_apart(changes: dict[str, Any]) -> None:
    found = pooled([zone("a", 0, 2), zone("b", 0, 2, **changes)])
    assert [walk(each.props, "scalingConfig", "maxSize") for each in found] == [2, 2], "else the first would hide the second"


def test_groups_without_a_pool_and_pools_of_other_clouds_stay_apart() -> None:
    bare = [zone(name, 0, 2, labels={"gpu-ci/role": "burst"}) for name in "ab"]
    assert len(pooled(bare)) == 2
    assert len(pooled([resource(name, V100, OKE) for name in "ab"])) == 2


def test_warm_pools_of_the_groups_that_have_one_add_up() -> None:
    warm = {"minSize": 1, "maxGroupPreparedCapacity": 2, "poolState": "RUNNING"}
    (pool,) = pooled([zone("a", 0, 2, warmPoolConfig=warm), zone("b", 0, 2, warmPoolConfig=warm), zone("c", 0, 2)])
    found = walk(pool.props, "warmPoolConfig")
    assert (found["minSize"], found["maxGroupPreparedCapacity"], found["poolState"]) == (2, 4, "RUNNING")
    (group,) = groups([pool], Later())
    assert (group.least, group.zones) == (0, 3), "a machine that waits is not a node"
    assert group.warm == Warm(least=2, prepared=4, running=True)
    assert group.warm.machines(nodes=0, groups=group.zones) == 4


def test_what_is_unknown_of_one_group_is_unknown_of_the_pool() -> None:
    (pool,) = pooled([zone("a", 0, 2), zone("b", 0, 2, subnetIds=[UNKNOWN])])
    assert count(walk(pool.props, "subnetIds")) == 2
    unknown = changed(SPOT, "scalingConfig", "maxSize", UNKNOWN)
    (pool,) = pooled([resource("a", SPOT), resource("b", unknown)])
    with pytest.raises(UnknownError):
        walk(pool.props, "scalingConfig", "maxSize")


def test_a_pool_is_one_group_of_machines_in_sums_and_messages() -> None:
    later = Later()
    (found,) = groups(pooled([zone("a", 1, 2), zone("b", 0, 1)]), later)
    assert (found.name, found.least, found.most) == ("t4", 1, 3)
    assert not later


def test_a_fallback_over_several_zones_is_as_big_as_all_of_them() -> None:
    spot = Member(EKS, "burst", SPOT)
    twins = [Member(EKS, f"release-{name}", RELEASES) for name in "ab"]
    (message,) = judge_stack(FALLBACK, [spot, *twins]).messages
    assert message.startswith("scalingConfig.maxSize is 2: as the fallback of spot pool burst it has at most 1 node")
    assert judge_stack(FALLBACK, [spot, *twins], {"maxFallback": 2}) == CLEAN
