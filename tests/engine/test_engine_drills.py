"""Interrupted updates: `gpu-ci pending` lists exactly what is live and in no state, and its commands settle it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.engine import drills
from tests.engine.drills import Drill
from tests.engine.live import Fault

pytestmark = pytest.mark.engine

KILLS = 25


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """A stack that goes on from kill to kill."""
    with pytest.MonkeyPatch.context() as patch, drills.drill(tmp_path_factory.mktemp("killed") / "drill", patch) as found:
        yield found


@pytest.mark.parametrize("number", range(1, KILLS + 1))
def test_a_kill_after_each_of_25_creates(killed: Drill, number: int) -> None:
    killed.kill(Fault(harm="held"))
    killed.settle()
    assert killed.counts["kills"] == number


def test_after_the_kills_an_update_completes_the_stack_and_the_next_changes_nothing(killed: Drill) -> None:
    killed.finish()
    assert killed.counts["orphans"] >= killed.counts["kills"] > 0, "each kill leaves at least what it held"
    print(f"kills: {killed.counts}")  # noqa: T201 - for whoever repeats the drills: pytest -s


# -- errors, throttling, two updates, half-created, Helm -------------------------------------------------------------------

ERRORS = (
    "usw2-network-vpc$",
    "usw2-network-nat-us-west-2a$",
    "usw2-node-role$",
    "eksCluster$",
    "usw2-addon-vpc-cni$",
    "usw2-system-nodes$",
    "usw2-autoscaler-chart$",
    "usw2-t4-release-launch$",
    "usw2-arc-chart$",
    "usw2-gpu-t4-release-chart$",
)
"""Resources whose first create fails: from the network to the last runner set."""
TAGS = "-tag-"
"""Of 39 tags of Auto Scaling groups each tenth create is throttled."""
GROUP, CHART = "usw2-t4-spot-us-west-2a-nodes$", "usw2-gpu-t4-chart$"


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """A stack that goes on from error to error."""
    with pytest.MonkeyPatch.context() as patch, drills.drill(tmp_path_factory.mktemp("failing") / "drill", patch) as found:
        yield found


def test_errors_of_10_resources_and_throttling_leave_nothing_and_the_next_update_goes_on(failing: Drill) -> None:
    errors = [failing.cloud.fail(Fault(where=where, error=f"InternalFailure: {where}")) for where in ERRORS]
    throttling = failing.cloud.fail(Fault(where=TAGS, nth=10, every=True))
    while (outcome := failing.up()).status:
        assert re.search("InternalFailure|ThrottlingException", outcome.text), outcome
        assert (failing.orphans(), failing.pending()["pending"]) == ([], [])
        failing.count("failed updates")
        assert failing.counts["failed updates"] < 3 * len(ERRORS)
    failing.cloud.faults.clear()
    failing.count("errors", sum(fault.reached.is_set() for fault in errors))
    failing.count("throttled", throttling.met // 10)
    assert failing.counts["errors"] == len(ERRORS)
    assert failing.counts["throttled"] >= 3
    failing.finish()


def test_of_two_updates_at_once_the_second_ends_with_one_message(failing: Drill) -> None:
    failing.lose(GROUP)
    held = failing.cloud.fail(Fault(harm="held", where=GROUP))
    first = failing.start()
    assert held.reached.wait(drills.WAIT)
    second = failing.up()
    held.release.set()
    assert first.wait(drills.WAIT) == 0
    failing.cloud.faults.clear()
    assert second.status != 0
    assert second.text.count("the stack is currently locked by 1 lock(s)") == 1
    assert re.search(r"created by \S+@\S+ \(pid \d+\) at \d{4}-\d\d-\d\dT", second.text), second
    assert (failing.orphans(), failing.pending()["pending"]) == ([], [])
    failing.count("second updates")


def test_a_node_group_that_fails_to_initialize_is_replaced(failing: Drill) -> None:
    failing.lose(GROUP)
    failing.cloud.fail(Fault(harm="half", where=GROUP, error="NodeCreationFailure: simulated"))
    outcome = failing.up()
    failing.cloud.faults.clear()
    assert outcome.status != 0
    assert "NodeCreationFailure: simulated" in outcome.text
    (before,) = failing.created(GROUP)
    assert [(each["what"], each["needs"]) for each in failing.pending()["pending"]] == [("half-created", "replace")]
    failing.settle()
    (after,) = failing.created(GROUP)
    assert after.number > before.number, "EKS repairs no group whose create failed"


def test_a_kill_inside_a_helm_install_is_uninstalled_and_the_next_update_installs(failing: Drill) -> None:
    (release,) = failing.lose(CHART)
    failing.kill(Fault(harm="held", where=CHART))
    failing.cluster.status[release] = "pending-install"
    (entry,) = failing.pending()["pending"]
    assert (entry["what"], entry["needs"], entry["says"]) == ("creating", "delete", "its release is pending-install")
    again = failing.up()
    assert again.status != 0
    assert "cannot re-use a name that is still in use" in again.text, "what the list saves from"
    failing.settle()
    failing.finish()
    print(f"failures: {failing.counts}")  # noqa: T201 - for whoever repeats the drills: pytest -s
