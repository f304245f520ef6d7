"""Which runner sets may share nodes and GPUs, and which sets are of releases."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.errors import FleetError
from fleet.loading.config import load
from fleet.prove import trust
from tests.builders import cluster, config, pool, runner
from tests.cases import cases

GITHUB = {"url": "https://github.com/acme", "appId": "1", "installationId": "2", "group": "ci"}
LAB = GITHUB | {"url": "https://github.com/acme-lab", "appId": "3"}
WHY = {"acceptSharedNodes": "both groups have the same repositories"}
SLICED = {"sharing": {"strategy": "time-slicing", "replicas": 2}}
RELEASE = pool(role="release")


def rules(pools: dict[str, Any], runners: dict[str, Any], **github: Any) -> list[str]:
    """The rules of trust that a cluster of these pools and sets breaks."""
    scopes = {"scopes": {"lab": LAB}} if any(row.get("github") for row in runners.values()) else {}
    try:
        load(config(github=GITHUB | scopes | github, clusters={"usw2": cluster(pools=pools, runners=runners)}))
    except FleetError as error:
        return [problem.rule for problem in error.problems]
    return []


OTHERS = {"group": {"group": "prs"}, "organization": {"github": "lab"}}


@cases(("how", "wrong"), [({}, ["shared_nodes"]), (WHY, []), (SLICED, ["shared_gpus"]), (SLICED | WHY, ["shared_gpus"])])
@cases("other", OTHERS.values())
def test_two_domains_share_nodes_with_a_reason_and_shares_of_a_gpu_never(
    other: dict[str, Any], how: dict[str, Any], wrong: list[str]
) -> None:
    assert rules({"t4": pool(**how)}, {"gpu-a": runner(), "gpu-b": runner(**other)}) == wrong
    assert rules({"t4": pool(), "own": pool(**SLICED)}, {"gpu-a": runner(), "gpu-b": runner(pool="own", **other)}) == []


def test_parts_of_a_gpu_in_hardware_are_shared_with_a_reason() -> None:
    cut = {"instanceTypes": ["p4d.24xlarge"], "sharing": {"strategy": "mig", "profile": "1g.5gb"}}
    runners = {name: runner(group=name, cpu={"request": 1, "limit": 1}) for name in ("ci", "prs")}
    own = {"enablement": "gpu-operator", "runners": runners}
    load(config(github=GITHUB, clusters={"usw2": cluster(pools={"t4": pool(**cut, **WHY)}, **own)}))
    with pytest.raises(FleetError, match="would share nodes"):
        load(config(github=GITHUB, clusters={"usw2": cluster(pools={"t4": pool(**cut)}, **own)}))


def test_a_reason_without_two_domains_is_refused() -> None:
    with pytest.raises(FleetError, match="all runner sets of the pool are of one group and one role, so nothing needs a reason"):
        load(config(github=GITHUB, clusters={"usw2": cluster(pools={"t4": pool(**WHY)})}))


def test_pods_of_runners_whose_jobs_run_in_containers_count_too() -> None:
    pools = {"t4": pool(), "l4": pool(), "cpu": pool(instanceTypes=["m6i.2xlarge"])}
    own = {"containers": "job", "runnerPool": "cpu", "scale": {"max": 1}}
    runners = {"gpu-a": runner(**own), "gpu-b": runner(pool="l4", group="prs", **own)}
    assert rules(pools, runners) == ["shared_nodes"]


@cases(
    ("group", "wrong"),
    [({}, ["release_group"]), ({"group": "ci"}, ["release_group"]), ({"group": "releases"}, [])],
)
def test_releases_have_a_group_of_their_own(group: dict[str, str], wrong: list[str]) -> None:
    pools = {"t4": pool(), "release": RELEASE}
    assert rules(pools, {"gpu-a": runner(), "gpu-b": runner(pool="release", **group)}) == wrong
    assert rules({"release": RELEASE}, {"gpu-b": runner(pool="release", **group)}) == [], "it is the only one"


def test_a_repository_has_no_groups_so_its_releases_have_a_pool_of_their_own() -> None:
    url = {"url": "https://github.com/acme/app"}
    sets = {"gpu-a": runner(), "gpu-b": runner(pool="release")}
    assert rules({"t4": pool(), "release": RELEASE}, sets, **url) == []
    both = sets | {"gpu-b": runner(pool=None, pools=["release", "t4"])}
    assert rules({"t4": pool(), "release": RELEASE}, both, **url) == ["shared_nodes"]


def test_the_set_that_takes_reruns_is_of_the_jobs_that_run_again() -> None:
    pools = {"spot": pool(capacity="spot"), "release": RELEASE}
    runners = {"gpu-a": runner(pool="spot", rerunOn="again"), "again": runner(pool="release")}
    assert rules(pools, runners) == []
    releases = runners | {"gpu-r": runner(pool="release", group="releases")}
    assert rules(pools, releases) == ["shared_nodes"]
    assert rules(pools | {"release": RELEASE | WHY}, releases) == []


def test_the_plan_prints_the_reason() -> None:
    runners = {"gpu-a": runner(), "gpu-b": runner(group="prs")}
    found = load(config(github=GITHUB, clusters={"usw2": cluster(pools={"t4": pool(**WHY), "l4": pool()}, runners=runners)}))
    assert list(trust.remarks(found)) == [
        "usw2/t4: jobs of gpu-a (group ci of github.com/acme) and gpu-b (group prs of github.com/acme) share nodes; "
        "accepted because: both groups have the same repositories"
    ]
