"""Every stack that ships, by the tables that ship: each can be placed, and its bill adds up."""

from __future__ import annotations

import pytest

from fleet.jobs.stack import require
from fleet.loading.config import load
from fleet.prove.placement import overbooked, place
from tests.builders import ROOT, read_stack
from tests.cases import cases

STACKS = {path.name.split(".")[1]: path for folder in (ROOT, ROOT / "examples") for path in sorted(folder.glob("Pulumi.*.yaml"))}
WAITING = {
    "staging": (
        "usw2/t4-spot + t4-ondemand: 10 gpu-t4 runners, and the pools hold at most 7 at the same time: jobs beyond that wait, "
        "and no other set gets them; lower scale.max of gpu-t4 to 7",
    ),
}
"""What is said of runners beyond a stack's nodes."""
ORDER = {
    "staging": [
        ("usw2", "gpu-t4", "t4-spot", 1),
        ("usw2", "gpu-t4", "t4-ondemand", 2),
        ("usw2", "gpu-t4-release", "t4-release", 1),
    ],
}


@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_a_stack_can_be_placed_whole_and_says_what_waits(stack: str) -> None:
    fleet = load(read_stack(STACKS[stack]))
    placements = place(fleet)
    require(fleet, placements)
    assert tuple(overbooked(placements)) == WAITING.get(stack, ())
    hosts = [(each.cluster, each.runner_set, each.host.name, each.choice) for each in placements]
    assert hosts == ORDER.get(stack, hosts)
    assert {each.runner.kind for each in placements} == ({"pod", "vm-per-job"} if stack == "prod" else {"pod"})


@cases("stack", STACKS)
def test_each_runner_of_a_stack_has_a_node(stack: str) -> None:
    fleet = load(read_stack(STACKS[stack]))
    require(fleet, place(fleet))
