"""`fillNodes` of a runner class: the preference of its pods, and the line of the plan."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.remark import said
from fleet.loading.config import load
from fleet.prove.placement import place
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set
from tests.builders import cluster, config, pool, runner

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def fleet(*pools: str, **settings: Any) -> Fleet:
    """A fleet with one class on these pools, the first choice first."""
    runners = {"gpu-t4": runner(pools=[*pools], **settings) if len(pools) > 1 else runner(pool=pools[0], **settings)}
    return load(config(clusters={"usw2": cluster(pools={name: pool() for name in pools}, runners=runners)}))


def template(of: Fleet) -> dict[str, Any]:
    """The pod template of the class."""
    settings = of.clusters["usw2"]
    made: dict[str, Any] = pod_set(settings, "gpu-t4", settings.pod_runners["gpu-t4"], of.github).values["template"]
    return made


@pytest.mark.parametrize("pools", [("t4",), ("t4", "more")])
def test_the_pods_have_the_preference_beside_the_choice_of_pools(pools: tuple[str, ...]) -> None:
    without, filled = template(fleet(*pools)), template(fleet(*pools, fillNodes=True))
    (preferred,) = filled["spec"]["affinity"].pop("podAffinity")[PREFERRED]
    term = preferred["podAffinityTerm"]
    assert (preferred["weight"], term["labelSelector"]) == (100, {"matchLabels": {"actions-ephemeral-runner": "True"}})
    # Each class has a namespace of its own, so the runners of other classes are in others.
    assert (term["namespaceSelector"], term["topologyKey"]) == ({}, "kubernetes.io/hostname")
    if not filled["spec"]["affinity"]:
        del filled["spec"]["affinity"]
    assert filled == without


def test_the_plan_says_it_once_a_class() -> None:
    line = said("fills")
    assert [line in placement.remarks for placement in place(fleet("t4", "more", fillNodes=True))] == [True, False]
    assert not any(line in placement.remarks for placement in place(fleet("t4", "more")))
