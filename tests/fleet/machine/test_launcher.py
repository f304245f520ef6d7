"""The launcher gives one job to one machine, in the given order of places, and leaves no machine behind, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import pytest

from fleet.machine import launcher
from fleet.machine.launch import STANDING_LIFETIME, launcher_config
from fleet.machine.launcher import CLAIMED_TAG, GRACE, JIT_KEY, RUNNER_TAG, SET_TAG, SWEEP_EVERY
from tests.fleet.machine.fake_oci import DONE, PAGE, START, FakeClock, FakeOci, ServiceError, methods, plain
from tests.fleet.machine.runners import AWAY, HOME, per_job, standing

JIT = "ZXlKaGJHY2lPaUpTVXpJMU5pSXNJblI1Y0NJNklrcFhWQ0o5" * 60
SET = "gpu-ci-prod.oracle-vm-gpu-a10-1"
POD = "oracle-vm-gpu-a10-1-x7k2p-runner-9qz4d"
OTHER = "oracle-vm-gpu-a10-1-x7k2p-runner-other"
IDS: dict[str, Any] = {
    "compartment": "ocid1.compartment.oc1..example",
    "region": "us-sanjose-1",
    "subnet": "ocid1.subnet.oc1.us-sanjose-1.example",
    "security_group": "ocid1.networksecuritygroup.oc1.us-sanjose-1.example",
    "pool": "ocid1.instancepool.oc1.us-sanjose-1.example",
}
CAPACITY = ServiceError(500, "InternalError", "Out of host capacity.")
FAILED = b"gpu-ci status=failed step=toolkit code=1 reason=nvidia-container-toolkit_is_not_held\r\n"


class Run:
    """A launcher in the fake cloud. `go` runs it; then the exit status and what it wrote are there."""

    def __init__(self, runner: Any = None, stop_at: float | None = None) -> None:
        self.clock = FakeClock(stop_at)
        self.oci = FakeOci(self.clock)
        self.written: list[str] = []
        self.config = launcher_config(SET, runner or per_job(), tags={"owner": "ci"}, **IDS)

    def go(self, pod: str = POD) -> int:
        """Run a pod's launcher to its end."""
        status = launcher.serve(self.machines(pod))
        assert status in (0, 1), "ARC has a meaning of its own for 7"
        assert JIT not in self.text
        assert not self.oci.histories, "records of consoles stay"
        return status

    def machines(self, pod: str = POD) -> launcher.Machines:
        """What the program works with."""
        log = launcher.Log(JIT, self.written.append)
        return launcher.MODES[self.config["mode"]](self.config, pod, JIT, self.oci.cloud(), self.clock, log)

    @property
    def text(self) -> str:
        """Everything written."""
        return "".join(self.written)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.clock.time - START

    @property
    def alive(self) -> list[str]:
        """Machines that are not terminated."""
        return [ocid for ocid in self.oci.instances if self.oci.state(ocid) not in launcher.GONE]

    @property
    def tried(self) -> list[tuple[str, str]]:
        """(shape, availability domain) of each launch."""
        return [(details.shape, details.availability_domain) for (details,) in self.oci.called("launch_instance")]

    def refuse(self, method: str, *errors: Exception | None) -> None:
        """Have the next calls of a method fail; None lets one through, and so does what comes after."""
        waiting = list(errors)

        def trouble(region: str, name: str, args: tuple[Any, ...]) -> None:
            if name == method and waiting:
                error = waiting.pop(0)
                if error is not None:
                    raise error

        self.oci.trouble = trouble


# -- one job, one machine ------------------------------------------------------------------------------------------------


def test_a_job_gets_one_machine_which_is_terminated_after_it():
    run = Run()
    assert run.go() == 0
    assert run.tried == [("VM.GPU.A10.1", HOME["availabilityDomains"][0])]
    assert run.oci.called("terminate_instance") == [(next(iter(run.oci.instances)),)]
    assert run.alive == []
    assert "gpu-ci status=done step=done code=0" in run.text


def test_a_machine_is_launched_closed_and_with_its_registration_in_the_extended_metadata():
    run = Run()
    run.go()
    [(details,)] = run.oci.called("launch_instance")
    assert plain_deep(details) == {
        "availability_domain": "abcd:US-SANJOSE-1-AD-1",
        "compartment_id": IDS["compartment"],
        "display_name": POD,
        "shape": "VM.GPU.A10.1",
        "source_details": {"image_id": "ocid1.image.oc1.us-sanjose-1.examplevm", "boot_volume_size_in_gbs": 400},
        "create_vnic_details": {"subnet_id": IDS["subnet"], "nsg_ids": [IDS["security_group"]], "assign_public_ip": False},
        "metadata": {"user_data": run.config["userData"]},
        "extended_metadata": {JIT_KEY: JIT},
        "instance_options": {"are_legacy_imds_endpoints_disabled": True},
        "is_pv_encryption_in_transit_enabled": True,
        "agent_config": {
            "are_all_plugins_disabled": True,
            "is_management_disabled": True,
            "is_monitoring_disabled": True,
        },
        "freeform_tags": {"owner": "ci", SET_TAG: SET, RUNNER_TAG: POD},
    }


def plain_deep(model: Any) -> Any:
    """A model as plain data at every depth."""
    held = plain(model)
    return {key: plain_deep(value) for key, value in held.items()} if isinstance(held, dict) else held


def test_bare_metal_asks_for_no_encryption_that_it_has_not():
    run = Run(per_job(shapes=["BM.GPU.A10.4"]))
    run.go()
    [(details,)] = run.oci.called("launch_instance")
    assert details.is_pv_encryption_in_transit_enabled is None


def test_spot_machines_end_without_leaving_their_disk():
    run = Run(per_job(shapes=["VM.GPU3.1"], capacity="spot"))
    run.go()
    [(details,)] = run.oci.called("launch_instance")
    assert plain_deep(details.preemptible_instance_config) == {"preemption_action": {"preserve_boot_volume": False}}


# -- where ---------------------------------------------------------------------------------------------------------------


def test_each_shape_is_tried_in_every_place_and_domain_before_the_next_shape():
    shapes = ["BM.GPU4.8", "BM.GPU.B4.8"]
    run = Run(per_job(shapes=shapes))
    run.refuse("launch_instance", *[CAPACITY] * 20)
    assert run.go() == 1
    domains = [*HOME["availabilityDomains"], *AWAY["availabilityDomains"]]
    assert run.tried == [(shape, domain) for shape in shapes for domain in domains]
    assert run.alive == []
    assert "no capacity" in run.text


def test_a_machine_of_another_region_has_that_regions_network_and_image_and_is_terminated_there():
    run = Run()
    run.refuse("launch_instance", CAPACITY)
    assert run.go() == 0
    details = run.oci.called("launch_instance")[-1][0]
    assert details.create_vnic_details.subnet_id == AWAY["subnet"]
    assert details.create_vnic_details.nsg_ids == [AWAY["securityGroup"]]
    assert details.source_details.image_id == AWAY["image"]
    assert [region for _, region, name, _, _ in run.oci.calls if name == "terminate_instance"] == ["us-ashburn-1"]


@pytest.mark.parametrize(
    "error",
    [
        CAPACITY,
        ServiceError(500, "InternalError", "There is no capacity in this fault domain"),
        ServiceError(400, "LimitExceeded", "The following service limits were exceeded: gpu-a10-count"),
        ServiceError(400, "QuotaExceeded", "compartment quota"),
        ServiceError(409, "Conflict", "out of capacity"),
    ],
)
def test_what_has_no_capacity_is_passed_over(error):
    run = Run()
    run.refuse("launch_instance", error)
    assert run.go() == 0
    assert len(run.tried) == 2


@pytest.mark.parametrize(
    "error",
    [
        ServiceError(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found."),
        ServiceError(400, "InvalidParameter", "shape is not valid"),
        ServiceError(429, "TooManyRequests", "Too many requests for the user"),
        ServiceError(500, "InternalError", "Internal Server Error"),
    ],
)
def test_another_error_ends_the_launcher_at_once(error):
    run = Run()
    run.refuse("launch_instance", error)
    assert run.go() == 1
    assert len(run.tried) == 1
    assert f"{error.status} {error.code}" in run.text


# -- how it ends ---------------------------------------------------------------------------------------------------------


def test_a_boot_that_failed_is_told_and_leaves_no_machine():
    run = Run()
    run.oci.console = FAILED
    assert run.go() == 1
    assert "status=failed step=toolkit code=1 reason=nvidia-container-toolkit_is_not_held" in run.text
    assert run.alive == []


@pytest.mark.parametrize("console", [b"login:", b"", ServiceError(409, "IncorrectState", "instance is stopped")])
def test_a_machine_that_tells_no_status_has_not_done_its_job(console):
    run = Run()
    run.oci.console = console
    assert run.go() == 1
    assert run.alive == []


def test_a_status_of_two_lines_is_the_last_one():
    run = Run()
    run.oci.console = FAILED + DONE.encode()
    assert run.go() == 0


def test_what_else_stands_in_a_status_line_is_not_repeated():
    run = Run()
    run.oci.console = b"gpu-ci status=done step=done code=0 \x1b[2J::set-output name=x\r\n"
    assert run.go() == 0
    assert "set-output" not in run.text


def test_the_status_counts_though_the_cloud_shows_the_machine_as_running():
    run = Run()
    run.oci.life = [(0, "PROVISIONING"), (60, "RUNNING"), (600, "RUNNING")]
    assert run.go() == 0
    assert run.seconds < 600 + launcher.CONSOLE_EVERY + 2 * launcher.POLL
    assert run.alive == []


def test_a_preempted_machine_is_a_failed_job_and_is_not_terminated_again():
    run = Run()
    run.oci.life = [(0, "PROVISIONING"), (60, "RUNNING"), (300, "TERMINATING"), (360, "TERMINATED")]
    assert run.go() == 1
    assert "preempted" in run.text
    assert "terminate_instance" not in methods(run.oci)


def test_a_machine_that_is_not_there_any_more_is_a_failed_job():
    run = Run()
    run.clock.at(300, run.oci.instances.clear)
    assert run.go() == 1
    assert "is gone without a status" in run.text


def test_a_machine_lives_no_longer_than_its_lifetime():
    run = Run(per_job(lifetime="1h"))
    run.oci.life = [(0, "RUNNING"), (10**9, "STOPPED")]
    assert run.go() == 1
    assert 3600 < run.seconds < 3600 + 2 * launcher.POLL
    assert run.alive == []


def test_a_pod_that_is_to_end_takes_its_machine_with_it():
    run = Run(stop_at=300)
    assert run.go() == 1
    assert run.alive == []
    assert len(run.oci.called("terminate_instance")) == 1


def test_a_pod_that_is_to_end_before_it_launched_launches_nothing():
    run = Run(stop_at=0)
    assert run.go() == 1
    assert run.tried == []


def test_a_pod_that_is_to_end_while_an_answer_is_lost_finds_the_machine():
    run = Run(stop_at=1)
    lose_answer_of_launch(run)
    assert run.go() == 1
    assert len(run.oci.instances) == 1
    assert run.alive == []


def test_a_removal_that_fails_is_tried_again():
    run = Run()
    run.refuse("terminate_instance", ServiceError(409, "Conflict", "is stopping"), OSError("reset"))
    assert run.go() == 0
    assert run.alive == []


def test_a_job_is_done_though_its_machine_is_left_to_a_later_sweep():
    run = Run()
    run.refuse("terminate_instance", *[ServiceError(500, "InternalError", "x")] * 99)
    assert run.go() == 0
    assert len(run.oci.called("terminate_instance")) == launcher.REMOVE_TRIES
    assert "left to a later sweep" in run.text


def test_reading_a_machine_may_fail_for_a_while():
    run = Run()
    run.refuse("get_instance", None, OSError("timed out"), ServiceError(429, "TooManyRequests"), RuntimeError("token"))
    assert run.go() == 0


# -- again ---------------------------------------------------------------------------------------------------------------


def test_a_pod_made_anew_takes_on_the_machine_that_has_its_job():
    run = Run()
    ocid = run.oci.add("us-ashburn-1", tags={SET_TAG: SET, RUNNER_TAG: POD}, life=[(0, "RUNNING"), (300, "STOPPED")])
    assert run.go() == 0
    assert run.tried == []
    assert run.oci.called("terminate_instance") == [(ocid,)]


def test_a_machine_on_a_later_page_of_the_list_is_found():
    run = Run()
    for _ in range(PAGE):
        run.oci.add(tags={})
    run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: POD}, life=[(0, "RUNNING"), (300, "STOPPED")])
    assert run.go() == 0
    assert run.tried == []


def test_a_terminated_machine_is_not_taken_on():
    run = Run()
    run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: POD}, life=[(0, "TERMINATED")])
    assert run.go() == 0
    assert len(run.tried) == 1


def lose_answer_of_launch(run: Run) -> None:
    """The first launch makes a machine, and its answer gets lost."""

    def trouble(region: str, name: str, args: tuple[Any, ...]) -> None:
        if name == "launch_instance":
            run.oci.trouble = lambda region, method, args: None
            run.oci.launch_instance(region, args[0])
            raise OSError("connection reset")

    run.oci.trouble = trouble


def test_a_machine_whose_launch_was_not_answered_is_found():
    run = Run()
    lose_answer_of_launch(run)
    assert run.go() == 0
    assert len(run.tried) == 1
    assert len(run.oci.instances) == 1
    assert run.alive == []


def test_a_launch_that_was_not_answered_and_made_nothing_fails():
    run = Run()
    run.refuse("launch_instance", OSError("connection reset"))
    assert run.go() == 1
    assert run.oci.instances == {}


def test_a_region_that_cannot_be_listed_keeps_no_job_from_the_others():
    run = Run()
    run.refuse("list_instances", OSError("home is away"), None, OSError("home is away"))
    assert run.go() == 0


# -- leftovers -----------------------------------------------------------------------------------------------------------


def test_a_stopped_machine_that_nobody_removes_is_removed_after_a_while():
    run = Run()
    left = run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER}, life=[(0, "STOPPED")], console=FAILED)
    assert run.go() == 0
    assert run.alive == []
    first = next(index for index, (_, _, name, args, _) in enumerate(run.oci.calls) if args == (left,))
    assert run.oci.calls[first][2] == "terminate_instance"
    assert f"{left} is stopped and nobody's: gpu-ci status=failed step=toolkit" in run.text
    assert SWEEP_EVERY >= GRACE


def test_a_stopped_machine_is_left_to_its_own_launcher_at_first():
    run = Run(stop_at=GRACE - 1)
    left = run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER}, life=[(0, "STOPPED")])
    run.go()
    assert run.alive == [left]


def test_a_machine_older_than_its_lifetime_is_removed():
    run = Run(per_job(lifetime="1h"))
    old = run.oci.add("us-ashburn-1", tags={SET_TAG: SET, RUNNER_TAG: OTHER}, age=3600 + GRACE + 1)
    young = run.oci.add("us-ashburn-1", tags={SET_TAG: SET, RUNNER_TAG: OTHER}, age=60)
    assert run.go() == 0
    assert run.oci.called("terminate_instance")[0] == (old,)
    assert run.alive == [young]


def test_machines_of_others_are_left_alone():
    run = Run(per_job(lifetime="1h"))
    foreign = [
        run.oci.add(tags={SET_TAG: "gpu-ci-staging.other", RUNNER_TAG: OTHER}, age=10**6, life=[(0, "STOPPED")]),
        run.oci.add(tags={}, age=10**6, life=[(0, "STOPPED")]),
    ]
    assert run.go() == 0
    assert run.alive == foreign


def test_a_sweep_that_fails_keeps_nobody_from_a_job():
    run = Run()
    run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER}, age=10**6)
    refused = ServiceError(403, "NotAuthorized", "no")
    run.refuse("terminate_instance", *[refused] * launcher.REMOVE_TRIES)
    assert run.go() == 0
    assert len(run.tried) == 1


def test_a_sweep_alone_removes_what_was_left_and_nothing_else():
    run = Run()
    left = run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER}, life=[(0, "STOPPED")])
    busy = run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER})
    assert launcher.clean(run.machines(pod="")) == 0
    assert run.oci.called("terminate_instance") == [(left,)]
    assert run.alive == [busy]
    assert run.tried == []


def test_a_sweep_alone_of_standing_machines_removes_one_that_did_not_boot():
    run = Run(standing())
    run.oci.add(tags={SET_TAG: SET}, life=[(0, "STOPPED")], pooled=True, console=FAILED)
    ready = run.oci.add(tags={SET_TAG: SET}, pooled=True)
    assert launcher.clean(run.machines(pod="")) == 0
    assert run.alive == [ready]


# -- standing machines ---------------------------------------------------------------------------------------------------


def pool(run: Run, *lives: list[tuple[float, str]], **changes: Any) -> list[str]:
    """Members of the pool; `changes` as `FakeOci.add` has them."""
    return [run.oci.add(tags={SET_TAG: SET, "owner": "ci"}, life=life, pooled=True, **changes) for life in lives]


WORKS: list[tuple[float, str]] = [(0, "RUNNING"), (900, "STOPPED")]
IDLE: list[tuple[float, str]] = [(0, "RUNNING")]


def test_a_standing_machine_is_claimed_and_replaced_after_its_job():
    run = Run(standing())
    first, second = pool(run, WORKS, IDLE, extended={"note": "kept"})
    assert run.go() == 0
    [(ocid, details)] = run.oci.called("update_instance")
    assert ocid == first
    assert plain(details) == {
        "freeform_tags": {SET_TAG: SET, "owner": "ci", RUNNER_TAG: POD, CLAIMED_TAG: str(int(START))},
        "extended_metadata": {"note": "kept", JIT_KEY: JIT},
    }
    assert run.oci.pool == [second], "detached, so that the pool makes another"
    assert "terminate_instance" not in methods(run.oci)
    assert run.tried == []


def test_a_claim_holds_the_etag_of_what_it_read():
    run = Run(standing())
    pool(run, WORKS)
    run.go()
    [kwargs] = [kwargs for _, _, name, _, kwargs in run.oci.calls if name == "update_instance"]
    assert kwargs == {"if_match": "v1"}


def test_a_machine_that_another_launcher_claims_first_is_left_to_it():
    run = Run(standing())
    first, second = pool(run, IDLE, WORKS)

    def race(region: str, name: str, args: tuple[Any, ...]) -> None:
        if name == "update_instance" and args[0] == first:
            run.oci.instances[first].tags[RUNNER_TAG] = OTHER
            run.oci.instances[first].version += 1

    run.oci.trouble = race
    assert run.go() == 0
    assert run.oci.instances[first].tags[RUNNER_TAG] == OTHER
    assert JIT_KEY not in run.oci.instances[first].extended
    assert run.oci.pool == [first]
    held = run.oci.instances[second].tags
    assert (held[RUNNER_TAG], held[CLAIMED_TAG]) == (POD, str(int(START))), "the next one, at once"


def test_two_launchers_of_two_machines_get_one_each():
    run = Run(standing())
    pool(run, WORKS, [(0, "RUNNING"), (5000, "STOPPED")])
    assert [run.go(), run.go(OTHER)] == [0, 0]
    assert run.oci.pool == []
    assert sorted(held.tags[RUNNER_TAG] for held in run.oci.instances.values()) == sorted([POD, OTHER])


def test_a_machine_without_an_etag_is_not_claimed():
    run = Run(standing())
    pool(run, WORKS)
    machines = run.machines()
    bare = launcher.Machine("us-sanjose-1", run.oci.get_instance("us-sanjose-1", run.oci.pool[0]).data)
    assert isinstance(machines, launcher.Standing)
    with pytest.raises(launcher.Failed, match="etag"):
        machines._claim(bare)


def test_a_member_on_a_later_page_of_the_pool_is_claimed():
    run = Run(standing())
    for _ in range(PAGE):
        run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER}, pooled=True)
    [free] = pool(run, WORKS)
    assert run.go() == 0
    assert [ocid for ocid, _ in run.oci.called("update_instance")] == [free]


def test_a_launcher_waits_for_the_pool_to_have_a_machine():
    run = Run(standing())
    pool(run, [(0, "PROVISIONING"), (400, "RUNNING"), (2000, "STOPPED")])
    assert run.go() == 0
    [(_, details)] = run.oci.called("update_instance")
    assert int(details.freeform_tags[CLAIMED_TAG]) >= START + 400


def test_a_standing_machine_that_did_not_boot_is_told_and_replaced():
    run = Run(standing())
    [broken] = pool(run, [(0, "STOPPED")], console=FAILED)
    run.clock.at(900, lambda: pool(run, WORKS))
    assert run.go() == 0
    assert run.oci.pool == []
    assert f"{broken} is stopped and nobody's: gpu-ci status=failed step=toolkit" in run.text
    assert [args[0] for args in run.oci.called("update_instance")] != [broken]


def test_a_pod_that_is_to_end_while_it_waits_leaves_the_pool_alone():
    run = Run(standing(), stop_at=600)
    taken = run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER, CLAIMED_TAG: str(int(START))}, pooled=True)
    assert run.go() == 1
    assert run.oci.pool == [taken]


def test_a_pod_that_is_to_end_gives_its_claimed_machine_away():
    run = Run(standing(), stop_at=600)
    pool(run, IDLE)
    assert run.go() == 1
    assert run.oci.pool == []


def test_a_pod_made_anew_takes_on_the_machine_that_it_claimed():
    run = Run(standing())
    tags = {SET_TAG: SET, RUNNER_TAG: POD, CLAIMED_TAG: str(int(START) - 60)}
    run.oci.add(tags=tags, life=WORKS, pooled=True)
    pool(run, IDLE)
    assert run.go() == 0
    assert "update_instance" not in methods(run.oci)
    assert len(run.oci.pool) == 1


@pytest.mark.parametrize("error", [OSError("connection reset"), ServiceError(500, "InternalError")])
def test_a_claim_that_was_not_answered_is_found(error):
    run = Run(standing())
    first, second = pool(run, WORKS, IDLE)

    def trouble(region: str, name: str, args: tuple[Any, ...]) -> None:
        if name == "update_instance":
            run.oci.trouble = lambda region, method, args: None
            run.oci.update_instance(region, args[0], args[1], if_match="v1")
            raise error

    run.oci.trouble = trouble
    assert run.go() == 0
    assert len(run.oci.called("update_instance")) == 1
    assert run.oci.state(first) == "TERMINATED"
    assert run.oci.pool == [second]


def test_a_claim_that_got_nowhere_is_tried_again():
    run = Run(standing())
    pool(run, WORKS)
    refusals = [OSError("reset"), ServiceError(409, "IncorrectState"), ServiceError(500, "InternalError")]
    run.refuse("update_instance", *refusals)
    assert run.go() == 0
    assert len(run.oci.called("update_instance")) == 4


def test_a_pool_that_is_busy_detaches_later():
    run = Run(standing())
    pool(run, WORKS)
    run.refuse("detach_instance_pool_instance", ServiceError(409, "IncorrectState", "pool is scaling"))
    assert run.go() == 0
    assert run.oci.pool == []


def test_a_machine_that_waits_does_not_age_and_one_with_a_job_does():
    run = Run(standing())
    old = str(int(START - STANDING_LIFETIME - GRACE - 1))
    pool(run, WORKS, age=0)
    run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER, CLAIMED_TAG: old}, pooled=True)
    [waiting] = pool(run, IDLE, age=400 * 86_400)
    assert run.go() == 0
    assert run.oci.pool == [waiting]


# -- the program ---------------------------------------------------------------------------------------------------------


def test_sigterm_ends_every_wait():
    clock = launcher.Clock()
    clock.wait(0)
    clock.stop(signal.SIGTERM, None)
    with pytest.raises(launcher.Stop):
        clock.wait(3600)


def test_time_is_the_systems(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 5.0)
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    launcher.Clock().pause(7)
    assert (launcher.Clock().now(), slept) == (5.0, [7])


def test_a_log_line_has_no_registration_and_is_one_line():
    written: list[str] = []
    launcher.Log(JIT, written.append)(f"a {JIT}\nb")
    launcher.Log("", written.append)("without a registration")
    assert written == ["a *** b\n", "without a registration\n"]


def start(monkeypatch: Any, tmp_path: Any, run: Run, *args: str, **environment: str) -> tuple[int, list[Any]]:
    """Run the program in a pod's surroundings: its exit status and the signals that it handles."""
    path = tmp_path / "launcher.json"
    path.write_text(json.dumps(run.config))
    handled: list[Any] = []
    monkeypatch.setattr(launcher, "connect", run.oci.cloud)
    monkeypatch.setattr(launcher, "Clock", lambda: run.clock)
    monkeypatch.setattr(signal, "signal", lambda number, what: handled.append(number))
    monkeypatch.setattr(sys, "argv", ["launcher.py", *args])
    for name in ("POD_NAME", "HOSTNAME", launcher.JIT_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"GPU_CI_LAUNCHER": str(path), **environment}.items():
        monkeypatch.setenv(name, value)
    return launcher.main(), handled


def test_the_program_reads_its_pod_and_forgets_the_registration(monkeypatch, tmp_path, capsys):
    run = Run()
    status, handled = start(monkeypatch, tmp_path, run, POD_NAME=POD, HOSTNAME="cut", ACTIONS_RUNNER_INPUT_JITCONFIG=JIT)
    assert (status, handled) == (0, [signal.SIGTERM])
    assert launcher.JIT_VARIABLE not in os.environ
    [(details,)] = run.oci.called("launch_instance")
    assert (details.display_name, details.extended_metadata) == (POD, {JIT_KEY: JIT})
    written = capsys.readouterr()
    assert "status=done" in written.out
    assert JIT not in written.out + written.err


def test_a_pods_name_is_its_hosts_where_nothing_else_is_said(monkeypatch, tmp_path):
    run = Run(standing())
    pool(run, WORKS)
    status, _ = start(monkeypatch, tmp_path, run, HOSTNAME=POD, ACTIONS_RUNNER_INPUT_JITCONFIG=JIT)
    assert status == 0
    assert run.oci.called("update_instance")[0][1].freeform_tags[RUNNER_TAG] == POD


@pytest.mark.parametrize("environment", [{"POD_NAME": POD}, {"ACTIONS_RUNNER_INPUT_JITCONFIG": JIT}])
def test_a_pod_without_a_name_or_a_registration_does_nothing(monkeypatch, tmp_path, environment):
    run = Run()
    status, _ = start(monkeypatch, tmp_path, run, **environment)
    assert status == 1
    assert run.oci.calls == []


def test_a_sweep_needs_no_registration(monkeypatch, tmp_path):
    run = Run()
    left = run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER}, life=[(0, "STOPPED")])
    status, _ = start(monkeypatch, tmp_path, run, "sweep", HOSTNAME="launcher-sweep-1")
    assert status == 0
    assert run.oci.called("terminate_instance") == [(left,)]
