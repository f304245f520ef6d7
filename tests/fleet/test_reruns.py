"""`rerunOn`: which set takes the jobs that spot interrupted, and the `runs-on` that sends them there."""

from __future__ import annotations

import json
import re

import pytest

from fleet.facts.errors import FleetError
from fleet.loading.config import load
from fleet.prove.remarks import BY_US, reruns, runs_on
from tests.builders import ROOT, cluster, config, pool, runner
from tests.cases import cases

SPOT = pool(capacity="spot")


def fleet(again="gpu-t4-again", **target):
    """A fleet whose set gpu-t4 prefers spot and reruns on another set."""
    runners = {"gpu-t4": runner(pool=None, pools=["spot", "t4"], rerunOn=again), "gpu-t4-again": runner(**target)}
    return load(config(clusters={"usw2": cluster(pools={"spot": SPOT, "t4": pool()}, runners=runners)}))


def test_the_plan_prints_what_a_workflow_writes():
    assert list(reruns(fleet())) == [
        "usw2/gpu-t4: interrupted jobs run again on gpu-t4-again with runs-on: ${{ github.run_attempt > 1 && "
        "github.triggering_actor == 'github-actions[bot]' && 'gpu-t4-again' || 'gpu-t4' }}; wake-labels: gpu-t4-again"
    ]


def twice(first):
    """A fleet whose set gpu-t4 reruns on a set of spot machines first, and then on demand."""
    runners = {
        "gpu-t4": runner(pool="spot", rerunFirstOn=first, rerunOn="gpu-t4-again"),
        "gpu-t4-more": runner(pool="more"),
        "gpu-t4-again": runner(),
    }
    return load(config(clusters={"usw2": cluster(pools={"spot": SPOT, "more": SPOT, "t4": pool()}, runners=runners)}))


def test_the_plan_prints_the_inputs_of_two_reruns():
    bot = "github.triggering_actor == 'github-actions[bot]'"
    assert list(reruns(twice("gpu-t4-more"))) == [
        "usw2/gpu-t4: interrupted jobs run again on gpu-t4-more, then on gpu-t4-again with runs-on: ${{ github.run_attempt > 2 "
        f"&& {bot} && 'gpu-t4-again' || github.run_attempt > 1 && {bot} && 'gpu-t4-more' || 'gpu-t4' }}}}; reruns: 2; labels: "
        "gpu-t4 gpu-t4-more; wake-labels: gpu-t4-more gpu-t4-again"
    ]
    assert list(reruns(twice("gpu-t4"))) == [
        "usw2/gpu-t4: interrupted jobs run again on gpu-t4, then on gpu-t4-again with runs-on: ${{ github.run_attempt > 2 && "
        f"{bot} && 'gpu-t4-again' || 'gpu-t4' }}}}; reruns: 2; labels: gpu-t4; wake-labels: gpu-t4 gpu-t4-again"
    ]


def test_the_first_of_two_reruns_needs_the_same_gpus():
    pools = {"spot": SPOT, "l4": pool(instanceTypes=["g6.2xlarge"], capacity="spot"), "t4": pool()}
    runners = {
        "gpu-t4": runner(pool="spot", rerunFirstOn="gpu-l4", rerunOn="gpu-t4-again"),
        "gpu-l4": runner(pool="l4"),
        "gpu-t4-again": runner(),
    }
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": cluster(pools=pools, runners=runners)}))
    assert [(fault.rule, fault.path[-1]) for fault in caught.value.problems] == [("rerun_gpus", "rerunFirstOn")]


def test_a_set_that_gives_more_gpus_takes_the_jobs_of_one():
    large = config(
        clusters={
            "usw2": cluster(
                pools={"spot": SPOT, "big": pool(instanceTypes=["g4dn.12xlarge"])},
                runners={"gpu-t4": runner(pool="spot", rerunOn="gpu-t4-x4"), "gpu-t4-x4": runner(pool="big", gpus=4)},
            )
        }
    )
    assert len(list(reruns(load(large)))) == 1


def test_a_set_with_fewer_gpus_is_refused():
    small = config(
        clusters={
            "usw2": cluster(
                pools={"spot": pool(instanceTypes=["g4dn.12xlarge"], capacity="spot"), "t4": pool()},
                runners={"gpu-t4-x4": runner(pool="spot", gpus=4, rerunOn="gpu-t4"), "gpu-t4": runner()},
            )
        }
    )
    with pytest.raises(Exception, match="its runners have 1x T4 16Gi, and jobs of this class need 4x T4 16Gi"):
        load(small)


@cases(
    ("gpus", "told"),
    [
        (0, "its runners have GPUs, and jobs of this class need none; name a set with gpus: 0"),
        (
            1,
            "its runners have no GPU, and jobs of this class need 1x T4 16Gi; name a set with the same GPUs and at least as many",
        ),
    ],
)
def test_a_class_with_gpus_and_one_without_do_not_rerun_on_each_other(gpus, told):
    pools = {"t4": SPOT, "t4-b": pool(), "cpu": pool(instanceTypes=["m6i.2xlarge"], capacity="spot")}
    pools |= {name: pool(instanceTypes=["m6i.2xlarge"]) for name in ("cpu-b", "cpu-c")} | {"t4-c": pool()}
    of_spot, others = ("t4", ["cpu-b", "cpu-c"]) if gpus else ("cpu", ["t4-b", "t4-c"])
    runners = {
        "first": runner(pool=of_spot, rerunOn="other", gpus=gpus),
        "other": runner(pool=None, pools=others, gpus=1 - gpus),
    }
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": cluster(pools=pools, runners=runners)}))
    assert [(fault.rule, fault.message) for fault in caught.value.problems] == [("rerun_gpus", told)]


def test_a_class_without_gpus_reruns_on_another_without():
    pools = {"cpu": pool(instanceTypes=["m6i.2xlarge"], capacity="spot"), "cpu-b": pool(instanceTypes=["m5.2xlarge"])}
    runners = {"first": runner(pool="cpu", gpus=0, rerunOn="other"), "other": runner(pool="cpu-b", gpus=0)}
    assert len(list(reruns(load(config(clusters={"usw2": cluster(pools=pools, runners=runners)}))))) == 1


@cases(
    ("again", "labels"),
    [
        (["b"], ["a", "b", "b", "b"]),
        (["a", "b"], ["a", "a", "b", "b"]),
        (["s", "b"], ["a", "s", "b", "b"]),
    ],
)
def test_only_our_reruns_go_to_other_sets_and_the_last_one_to_the_last_set(again, labels):
    """Evaluated as GitHub does: `>` with a number makes the text a number, `==` of texts ignores case, && and || give a side."""
    text = runs_on("a", *again)

    def evaluated(attempt, actor):
        for term in text.removeprefix("${{ ").removesuffix(" }}").split(" || "):
            *conditions, label = term.split(" && ")
            for condition in conditions:
                found = re.fullmatch(r"github\.run_attempt > (\d+)|github\.triggering_actor == '(.+?)'", condition)
                assert found is not None
                if not (json.loads(attempt) > int(found[1]) if found[1] else actor.lower() == found[2].lower()):
                    break
            else:
                return label.strip("'")
        raise AssertionError(text)

    assert [evaluated(attempt, "github-actions[bot]") for attempt in ("1", "2", "3", "10")] == labels
    assert {evaluated(attempt, "ann") for attempt in ("1", "2", "3", "10")} == {"a"}, "a person's rerun starts from the beginning"


def test_the_page_shows_the_expression():
    assert f"${{{{ {BY_US} &&" in (ROOT / "docs" / "rerun.md").read_text()
