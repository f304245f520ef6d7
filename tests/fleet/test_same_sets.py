"""Runner sets that are one class in several clusters: every assignment of jobs that GitHub may choose is acceptable."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fleet.facts.errors import FleetError
from fleet.loading.config import load
from fleet.prove.remarks import fallback as remarks
from fleet.prove.runs_on import RunsOn
from fleet.prove.same_sets import classes, pod_sets, shortfalls
from fleet.providers.fleet import Fleet
from fleet.settings.runner import GENERIC_LABELS
from tests.builders import cluster, config, existing_context, pool, read_stack, runner
from tests.cases import cases
from tests.examples import examples
from tests.fleet.conformance import STACKS
from tests.workflows.ci_workloads import CiWorkload, proof

EAST: dict[str, Any] = {"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]}


def two(pools: dict[str, Any] | None = None, both: tuple[str, ...] = ("any",), **changes: Any) -> Fleet:
    """The set usw2/west, and use1/east that equals it except for `changes` and the pools."""
    first = cluster(runners={"west": runner(labels=list(both))})
    second = runner(**({"labels": list(both), "sameAs": "usw2/west"} | changes))
    return load(
        config(clusters={"usw2": first, "use1": cluster(pools=pools or {"t4": pool()}, runners={"east": second}, **EAST)})
    )


def refused(**changes: Any) -> str:
    with pytest.raises(FleetError) as caught:
        two(**changes)
    return str(caught.value)


@cases(
    ("changes", "told"),
    [
        ({"labels": ["any", "more"]}, "label list is any, more here and any there"),
        ({"group": "east"}, "group is east here and default there"),
        ({"pools": {"t4": pool(instanceTypes=["g5.2xlarge"])}}, "GPU is A10G here and T4 there"),
        ({"gpus": 4, "pools": {"t4": pool(instanceTypes=["g4dn.12xlarge"])}}, "gpus is 4 here and 1 there"),
        ({"cpu": {"request": 2, "limit": 4}}, "cpu is 2 to 4 here and 4 to 4 there"),
        ({"memory": {"request": "8Gi", "limit": "16Gi"}}, "memory is 8Gi to 16Gi here and 16Gi to 16Gi there"),
        ({"shm": "1Gi"}, "shm is 1Gi here and 2Gi there"),
        ({"scratch": "10Gi"}, "scratch is 10Gi here and 20Gi there"),
        ({"keepFailed": {"time": "10m", "group": "ops"}}, "keepFailed is 600s for ops here and none there"),
        ({"image": "example:2"}, "image is example:2 here and the default there"),
        ({"pools": {"t4": pool(role="release")}}, "role is release here and burst there"),
        ({"pools": {"t4": pool(capacity="spot")}}, "capacity is spot here and not spot there"),
    ],
)
def test_sets_that_differ_are_refused_by_the_property(changes: dict[str, Any], told: str) -> None:
    assert f"must be equal: {told};" in refused(**changes)


def test_jobs_of_a_class_reach_the_same_networks_and_are_isolated_in_the_same_way() -> None:
    first = {"labels": ["any"]}
    west = cluster(runners={"west": runner(**first)})
    east = cluster(runners={"east": runner(**first, sameAs="usw2/west")}, privateEgress=["10.20.0.0/16"], **EAST)
    with pytest.raises(FleetError, match=r"privateEgress is 10\.20\.0\.0/16 here and none there"):
        load(config(clusters={"usw2": west, "use1": east}))
    lab = existing_context() | {"runners": {"lab": runner(**first, sameAs="usw2/west")}}
    with pytest.raises(FleetError, match="provider is kubernetes here and eks there"):
        load(config(clusters={"usw2": west, "lab": lab}))


def test_a_way_to_share_gpus_is_a_property() -> None:
    shared = pool(instanceTypes=["g4dn.4xlarge"], sharing={"strategy": "time-slicing", "replicas": 2})
    small = {"memory": {"request": "4Gi", "limit": "4Gi"}, "cpu": {"request": 1, "limit": 1}}
    first = cluster(runners={"west": runner(labels=["any"], **small)})
    second = cluster(pools={"t4": shared}, runners={"east": runner(labels=["any"], sameAs="usw2/west", **small)}, **EAST)
    with pytest.raises(FleetError, match="sharing is 1/2 GPU here and whole GPUs there"):
        load(config(clusters={"usw2": first, "use1": second}))


def test_equal_sets_may_both_have_the_generic_labels() -> None:
    fleet = two(both=("self-hosted", "gpu", "Any"))
    assert [[each.called for each in sets] for sets in classes(fleet).values()] == [["usw2/west", "use1/east"]]


def test_a_third_set_names_the_first_and_not_the_second() -> None:
    held = {
        name: cluster(runners={name: runner(labels=["any"], **({"sameAs": same} if same else {}))}, region=region, zones=zones)
        for name, same, region, zones in (
            ("a", "", "us-west-2", ["us-west-2a", "us-west-2b"]),
            ("b", "a/a", "us-east-1", ["us-east-1a", "us-east-1b"]),
            ("c", "a/a", "us-east-2", ["us-east-2a", "us-east-2b"]),
        )
    }
    assert [len(sets) for sets in classes(load(config(clusters=held))).values()] == [3]
    held["c"]["runners"]["c"]["sameAsOrder"] = 2
    (sets,) = classes(load(config(clusters=held))).values()
    assert [member.called for member in sets] == ["a/a", "c/c", "b/b"], "those with a number come before the others"
    del held["c"]["runners"]["c"]["sameAsOrder"]
    held["c"]["runners"]["c"]["sameAs"] = "b/b"
    with pytest.raises(FleetError, match="that has no sameAs itself; name one of: a/a"):
        load(config(clusters=held))


@pytest.mark.usefixtures("numbers")
def test_the_plan_counts_on_the_smallest_cluster() -> None:
    fleet = two(pools={"t4": pool(nodes={"max": 1})}, scale={"max": 1})
    (line,) = remarks(fleet)
    assert line.startswith("usw2/west and use1/east have the same labels (any), and GitHub may give all jobs to use1: ")
    assert "count on 1, not 3 runners " in line
    assert "in order, for the action choose-runner: labels: west east; " in line
    assert line.endswith("; a runner-hour costs 0.752 USD (usw2 0.752, use1 0.752)")


def test_a_workload_of_ci_may_name_the_label_of_a_class() -> None:
    found = proof(two(), CiWorkload("job", "job.yml", RunsOn(("any",)), gpus=1))
    assert (found.runner_set, found.error) == ("usw2/west or use1/east", "")
    assert "asks" in proof(two(), CiWorkload("job", "job.yml", RunsOn(("any",)), gpus=2)).error


# -- room: the other sets may be anywhere in their pools ---------------------------------------------------------------

POOLS = ("a", "b", "c")


@st.composite
def crowded(draw: st.DrawFn) -> dict[str, Any]:
    """A cluster whose sets share pools. A node of each pool holds one runner of any set."""
    nodes = {name: draw(st.integers(1, 2)) for name in POOLS}
    orders = [draw(st.lists(st.sampled_from(POOLS), min_size=1, unique=True).map(sorted)) for _ in range(3)]
    sets = {f"set-{n}": runner(pools=order, scale={"max": draw(st.integers(1, 3))}) for n, order in enumerate(orders)}
    return cluster(pools={name: pool(nodes={"max": most}) for name, most in nodes.items()}, runners=sets)


@settings(max_examples=examples(40))
@given(crowded())
def test_a_set_has_room_if_every_place_of_the_others_leaves_it(held: dict[str, Any]) -> None:
    one = pod_sets(load(config(clusters={"usw2": held})))["usw2/set-0"]
    nodes = {name: each["nodes"]["max"] for name, each in held["pools"].items()}
    others = [each["pools"] for name, each in held["runners"].items() if name != "set-0" for _ in range(each["scale"]["max"])]
    left = min(
        sum(nodes[name] - places.count(name) for name in one.runner.ordered)
        for places in itertools.product(*([*pools, "nowhere"] for pools in others))
        if all(places.count(name) <= nodes[name] for name in POOLS)
    )
    wanted = held["runners"]["set-0"]["scale"]["max"]
    assert list(shortfalls([one])) == ([] if wanted <= left else [(one, wanted, left)])


def test_a_class_may_have_many_pools() -> None:
    """24 pools have 16 million selections, far more than the time of a test allows; the proof tries none of them."""
    pools = {f"p{number}": pool(nodes={"max": 2}) for number in range(24)}
    sets = {
        "west": runner(pools=[*pools], labels=["any"], scale={"max": 47}),
        "other": runner(pools=[*pools][:2], scale={"max": 2}),
    }
    one = pod_sets(load(config(clusters={"usw2": cluster(pools=pools, runners=sets)})))["usw2/west"]
    assert list(shortfalls([one])) == [(one, 47, 46)]


# -- labels: GitHub offers a job to every set that has all labels of its runs-on ----------------------------------------


@cases("stack", STACKS)
def test_a_runs_on_reaches_the_sets_of_one_class(stack: str) -> None:
    fleet = load(read_stack(STACKS[stack]))
    same = {each.called: first for first, sets in classes(fleet).items() for each in sets}
    sets = {
        (fleet.group_of(of, each), f"{of}/{name}"): {name, *map(str.lower, each.labels)} for of, name, each in fleet.runner_sets()
    }
    for (group, called), labels in sets.items():
        for count in range(1, min(len(labels), 3) + 1):
            for asked in map(set, itertools.combinations(sorted(labels), count)):
                reached = {same.get(other, other) for (held, other), has in sets.items() if held == group and asked <= has}
                assert reached == {same.get(called, called)} or asked <= {*GENERIC_LABELS}, asked


def test_generic_labels_alone_reach_one_class_too() -> None:
    for stack, path in STACKS.items():
        fleet = load(read_stack(path))
        same = {each.called: first for first, sets in classes(fleet).items() for each in sets}
        generic = {
            same.get(f"{of}/{name}", f"{of}/{name}")
            for of, name, each in fleet.runner_sets()
            if {*GENERIC_LABELS} & {*map(str.lower, each.labels)}
        }
        assert len(generic) <= 1, stack
