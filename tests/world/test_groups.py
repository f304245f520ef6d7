"""The nodes of the simulated cloud against what the program registers, and against the facts about each provider."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fleet.facts.scheduling import (
    EKS_EFFECT,
    MOST_NODES_TAG,
    STARTUP_GATE,
    STORAGE_TAG,
    SYSTEM_POOL,
    TEMPLATE,
    Taint,
)
from fleet.loading.config import fleet_of, load
from fleet.providers.registry import PROVIDERS
from fleet.render.sweeps.api import Object
from gpu_ci.offline.recording import Recording
from gpu_ci.world.cloud import Group, groups
from tests.builders import cluster, config, read_stack
from tests.cases import cases
from tests.components.recorded import STACKS, recorded, stack_config
from tests.fleet import conformance
from tests.world.clouds import STAGING, groups_in

EFFECTS = {str(ours): theirs for ours, theirs in EKS_EFFECT.items()}


def every_group(stack: str) -> list[Group]:
    """The node groups of all clusters of a stack."""
    fleet = fleet_of(stack_config(stack))
    return [one for name, settings in fleet.clusters_by_name() for one in groups(name, settings, fleet.github).values()]


def of_type(recording: Recording, kind: str) -> dict[str, Mapping[str, Any]]:
    return {resource.name: resource.inputs for resource in recording.resources if resource.type == kind}


def both(one: Group) -> tuple[Object, Object]:
    """A node of the first machine type that runs, and the autoscaler's idea of one."""
    return one.node(0, "node-1", one.zones[0], "address"), one.template()


@cases("stack", [stack for stack in STACKS if stack != "homelab"])
def test_nodes_are_as_the_node_groups_say(stack: str) -> None:
    registered = of_type(recorded(stack), "aws:eks/nodeGroup:NodeGroup")
    ids = ((one.id.removeprefix("eks-").rpartition("-nodes-"), one) for one in every_group(stack))
    ours = {f"{name}-nodes": one for (name, found, _), one in ids if found}
    assert registered.keys() == ours.keys()
    for name, inputs in registered.items():
        one = ours[name]
        sizes = inputs["scalingConfig"]
        assert (sizes["minSize"], sizes["maxSize"]) == (one.span.min, one.span.max), name
        for node in both(one):
            assert inputs["labels"].items() <= node["metadata"]["labels"].items(), name
            taints = {(taint["key"], taint["value"], EFFECTS[taint["effect"]]) for taint in node["spec"]["taints"]}
            assert taints == {(each["key"], each["value"], each["effect"]) for each in inputs.get("taints") or ()}, name
        told = {
            key.removeprefix(f"{TEMPLATE}resources/"): value
            for key, value in (inputs.get("tags") or {}).items()
            if key.startswith(f"{TEMPLATE}resources/") and value != "0"
        }
        free = {key: value for key, value in one.template()["status"]["allocatable"].items() if key != "pods"}
        assert one.pool == SYSTEM_POOL or told == free, name
        machines = [machine.name for machine in one.of.host.machines]
        assert inputs.get("instanceTypes") in (machines, None), name


@cases("stack", [stack for stack in STACKS if stack != "homelab"])
def test_nodes_are_as_the_node_pools_say(stack: str) -> None:
    registered = of_type(recorded(stack), "oci:ContainerEngine/nodePool:NodePool")
    ours = {f"{one.id}-nodes": one for one in every_group(stack)}
    for name, inputs in registered.items():
        one = ours[name]
        for node in both(one):
            labels = {each["key"]: each["value"] for each in inputs["initialNodeLabels"]}
            assert labels.items() <= node["metadata"]["labels"].items(), name
        assert inputs["nodeConfigDetails"]["size"] == one.span.min, name
        if one.pool != SYSTEM_POOL:
            tags, free = inputs["freeformTags"], one.template()["status"]["allocatable"]
            assert (tags[MOST_NODES_TAG], tags[STORAGE_TAG]) == (str(one.span.max), free["ephemeral-storage"]), name


OF_KUBELET = {"kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/hostname", "topology.kubernetes.io/region"}


@cases("stack", conformance.STACKS)
def test_nodes_have_the_labels_and_taints_that_the_facts_of_the_provider_say(stack: str) -> None:
    fleet = load(read_stack(conformance.STACKS[stack]))
    for name, settings in fleet.clusters_by_name():
        ours = {one.pool: both(one) for one in groups(name, settings, fleet.github).values()}
        for said in conformance.contract(fleet, name).nodes:
            if said.pool == SYSTEM_POOL:
                continue
            node = ours[said.pool][said.template]
            labels = node["metadata"]["labels"]
            assert {key: value for key, value in said.labels.items() if value not in ("?", labels.get(key))} == {}, said.name
            assert said.labels.keys() <= labels.keys(), said.name
            extra = labels.keys() - said.labels.keys() - OF_KUBELET
            assert {key for key in extra if not key.endswith("capacityType")} == set(), said.name
            taints = {Taint(each["key"], each["value"], each["effect"]) for each in node["spec"]["taints"]}
            assert taints - {STARTUP_GATE} == {*said.taints}, said.name


def test_a_pool_of_several_types_is_imagined_as_its_smallest_node() -> None:
    spot = next(one for one in groups_in(STAGING, "usw2").values() if one.pool == "t4-spot")
    small, large = (spot.node(at, "n", spot.zones[0])["status"]["allocatable"] for at in (0, 1))
    assert spot.template()["status"]["allocatable"] == small != large
    assert (small["nvidia.com/gpu"], small["cpu"], large["cpu"]) == ("1", "7910m", "15890m")


def test_gpu_nodes_have_the_startup_taint_only_with_the_gate() -> None:
    def gated(health: dict[str, Any]) -> set[str]:
        fleet = load(config(clusters={"usw2": cluster(health=health)}))
        made = groups("usw2", fleet.clusters["usw2"], fleet.github).values()
        return {
            one.pool for one in made for node in both(one) if STARTUP_GATE.key in {each["key"] for each in node["spec"]["taints"]}
        }

    assert (gated({"startupGate": True}), gated({})) == ({"t4"}, set())


def test_a_group_boots_as_long_as_public_figures_say() -> None:
    boots = {one.pool: one.boot for one in groups_in(STAGING, "usw2").values()}
    assert boots["t4-spot"] == 100, "80 to 120 s; the driver and the plugin have no figure"
    assert boots[SYSTEM_POOL] == 0, "it is there from the start"


def test_a_node_of_a_flexible_shape_costs_what_the_bill_says() -> None:
    """VM.Standard.E5.Flex has no price of its own: prod's system nodes have 4 OCPU at 0.03 USD and 32 GB at 0.002 USD."""
    assert [one.price(0).usd for one in every_group("prod") if one.pool == SYSTEM_POOL and "sjc" in one.id] == [0.184]


def test_the_priority_expander_knows_the_groups_of_a_pool() -> None:
    fleet = load(read_stack(STAGING))
    text = PROVIDERS["eks"].priorities("usw2", fleet.clusters["usw2"])
    patterns = {int(number): json.loads(held) for number, _, held in (line.partition(": ") for line in text.splitlines())}
    for one in groups_in(STAGING, "usw2").values():
        numbers = [number for number, held in patterns.items() if any(re.search(pattern, one.id) for pattern in held)]
        assert max(numbers) == {"t4-spot": 20, "t4-ondemand": 10}.get(one.pool, 1)
