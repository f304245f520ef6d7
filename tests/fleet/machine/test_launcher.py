"""The launcher gives one job to one machine, in the given order of places, and leaves no machine behind, whatever happens."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import types
from collections.abc import MutableSequence
from typing import Any

import pytest

from fleet.providers.oke.machine import launcher
from fleet.providers.oke.machine.launch import STANDING_LIFETIME, launcher_config
from fleet.providers.oke.machine.launcher import CLAIMED_TAG, GRACE, JIT_KEY, METRICS_KEY, RUNNER_TAG, SET_TAG, SWEEP_EVERY
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
NO_JOB = b"gpu-ci status=failed step=job code=1 reason=no_job_ran\r\n"
FAILED = b"gpu-ci status=failed step=toolkit code=1 reason=nvidia-container-toolkit_is_not_held\r\n"


class Even(random.Random):
    """Chance that changes nothing."""

    def uniform(self, a: float, b: float) -> float:
        """The middle."""
        return (a + b) / 2

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """The order as it is."""


class Slow(Even):
    """Chance that makes every wait as long as it can be."""

    def uniform(self, a: float, b: float) -> float:
        """The upper end."""
        return b


class Dice(random.Random):
    """Chance as it is, from a seed."""


class Run:
    """A launcher in the fake cloud. `go` runs it; then the exit status and what it wrote are there."""

    def __init__(self, runner: Any = None, stop_at: float | None = None) -> None:
        self.clock = FakeClock(stop_at)
        self.oci = FakeOci(self.clock)
        self.written: list[str] = []
        self.chance: random.Random = Even()
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
        return launcher.MODES[self.config["mode"]](self.config, pod, JIT, self.oci.cloud(), self.clock, log, self.chance)

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

    @property
    def times(self) -> list[tuple[float, str]]:
        """(seconds, method) of each call."""
        return [(when - START, name) for when, (_, _, name, _, _) in zip(self.oci.times, self.oci.calls, strict=True)]

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


def test_a_machine_is_launched_closed_and_with_its_registration_in_the_metadata_that_it_can_read():
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
        "metadata": {"user_data": run.config["userData"], JIT_KEY: JIT},
        "instance_options": {"are_legacy_imds_endpoints_disabled": True},
        "is_pv_encryption_in_transit_enabled": True,
        "agent_config": {
            "are_all_plugins_disabled": True,
            "is_management_disabled": True,
            "is_monitoring_disabled": True,
        },
        "freeform_tags": {"owner": "ci", SET_TAG: SET, RUNNER_TAG: POD},
    }


def test_a_machine_learns_where_to_push_metrics_only_in_a_place_that_reaches_the_gateway():
    run = Run()
    url = "http://10.0.255.226:30000/api/v1/write"
    push: dict[str, Any] = {"metrics_url": url, "metrics_group": "ocid1.networksecuritygroup.oc1.sjc.push"}
    run.config = launcher_config(SET, per_job(), **IDS, **push)
    run.refuse("launch_instance", CAPACITY)
    run.go()
    (here,), (away,) = run.oci.called("launch_instance")[:2]
    assert here.metadata == {"user_data": run.config["userData"], JIT_KEY: JIT, METRICS_KEY: url}
    assert here.create_vnic_details.nsg_ids == [IDS["security_group"], "ocid1.networksecuritygroup.oc1.sjc.push"]
    assert away.metadata == {"user_data": run.config["userData"], JIT_KEY: JIT}


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


REFUSED = ServiceError(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")
BUSY = ServiceError(429, "TooManyRequests", "Too many requests for the user")


@pytest.mark.parametrize("error", [REFUSED, ServiceError(400, "InvalidParameter", "shape is not valid")])
def test_another_error_ends_the_launcher_at_once(error):
    run = Run()
    run.refuse("launch_instance", error)
    assert run.go() == 1
    assert len(run.tried) == 1
    assert f"{error.status} {error.code}" in run.text


def tokens(run: Run) -> list[str]:
    """The retry token of each launch."""
    return [kwargs["opc_retry_token"] for _, _, name, _, kwargs in run.oci.calls if name == "launch_instance"]


@pytest.mark.parametrize(
    "error",
    [
        BUSY,
        ServiceError(500, "InternalError", "Internal Server Error"),
        ServiceError(503, "ServiceUnavailable"),
        OSError("reset"),
    ],
)
def test_a_launch_that_a_moment_may_mend_is_repeated_as_the_same_call(error):
    run = Run()
    run.refuse("launch_instance", error, error)
    assert run.go() == 0
    assert run.tried == [("VM.GPU.A10.1", HOME["availabilityDomains"][0])] * 3
    assert len(set(tokens(run))) == 1
    assert len(run.oci.instances) == 1
    assert run.seconds >= sum(launcher.LAUNCH_WAITS[:2]) + 600


def test_a_launch_is_not_repeated_for_ever():
    run = Run()
    run.refuse("launch_instance", *[BUSY] * 99)
    assert run.go() == 1
    assert len(run.tried) == len(launcher.LAUNCH_WAITS) + 1
    assert run.seconds == sum(launcher.LAUNCH_WAITS) + launcher.POLL
    assert "failed: 429 TooManyRequests" in run.text


def test_launches_that_were_refused_together_are_not_repeated_together():
    spread = set()
    for seed in range(3):
        run = Run()
        run.chance = Dice(seed)
        run.refuse("launch_instance", BUSY)
        run.go()
        [first, second] = [line for line in run.times if line[1] == "launch_instance"]
        spread.add(second[0] - first[0])
        assert 0.8 * launcher.LAUNCH_WAITS[0] <= second[0] - first[0] <= 1.2 * launcher.LAUNCH_WAITS[0]
    assert len(spread) == 3


def test_each_place_and_each_pod_is_a_launch_of_its_own():
    run = Run(per_job(shapes=["BM.GPU4.8", "BM.GPU.B4.8"]))
    run.refuse("launch_instance", *[CAPACITY] * 20)
    run.go()
    run.go(OTHER)
    run.clock.pause(1)
    run.go()
    assert len(tokens(run)) == len(set(tokens(run))) == 18


@pytest.mark.parametrize("error", [REFUSED, ServiceError(401, "NotAuthenticated", "The required information is missing")])
def test_a_region_that_does_not_know_the_pod_is_passed_over_unless_it_is_the_first(error):
    run = Run()
    run.refuse("launch_instance", CAPACITY, error)
    assert run.go() == 0
    assert [domain for _, domain in run.tried] == [*HOME["availabilityDomains"], *AWAY["availabilityDomains"]]
    assert f"VM.GPU.A10.1 in {AWAY['availabilityDomains'][0]}: {error.status} {error.code}" in run.text
    first = Run()
    first.refuse("launch_instance", error)
    assert first.go() == 1
    assert len(first.tried) == 1


def test_a_machine_that_is_accepted_and_never_made_is_tried_in_the_next_place():
    run = Run()
    made = run.oci.life
    run.oci.life = [(0, "PROVISIONING"), (120, "TERMINATED")]
    run.clock.at(100, lambda: setattr(run.oci, "life", made))
    assert run.go() == 0
    assert [domain for _, domain in run.tried] == [HOME["availabilityDomains"][0], AWAY["availabilityDomains"][0]]
    assert "was terminated before it ran; on to the next place" in run.text
    assert run.alive == []


def test_machines_that_are_accepted_and_never_made_end_with_the_places():
    run = Run()
    run.oci.life = [(0, "PROVISIONING"), (120, "TERMINATING"), (180, "TERMINATED")]
    assert run.go() == 1
    assert len(run.tried) == 3
    assert "no capacity for any shape in any place" in run.text


def test_a_machine_that_may_have_run_unseen_is_not_made_again():
    run = Run()
    run.oci.life = [(0, "PROVISIONING"), (60, "RUNNING"), (90, "TERMINATED")]
    run.refuse("get_instance", *[None] * 2, *[OSError("timed out")] * 5)
    assert run.go() == 1
    assert len(run.tried) == 1


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


FOREVER: list[tuple[float, str]] = [(0, "PROVISIONING"), (60, "RUNNING"), (10**9, "STOPPED")]
KERNEL_LINES = b"[21600.0] nvidia-nvlink: x\r\n" * 18_000
"""Half a megabyte: what a full buffer of that size shows of a machine whose job has run for hours."""
HUNG = b"gpu-ci step=start\r\ngpu-ci step=runner\r\n[  900.0] systemd: x\r\n"


@pytest.mark.parametrize(
    ("boot", "last"), [(HUNG, "step runner"), (b"[    1.0] Linux version 6.8\r\nlogin:", "no step of the boot")]
)
def test_a_machine_that_has_not_begun_its_job_in_time_is_removed(boot, last):
    run = Run()
    run.oci.life, run.oci.boot = FOREVER, boot
    assert run.go() == 1
    assert launcher.BOOT_DEADLINE <= run.seconds < launcher.BOOT_DEADLINE + launcher.CONSOLE_EVERY + 2 * launcher.POLL
    assert f"has not begun its job in time: its console shows {last}" in run.text
    assert run.alive == []


@pytest.mark.parametrize(
    "boot",
    [
        ServiceError(409, "IncorrectState", "no console"),
        b"",
        b"\r\n ",
        b"gpu-ci step=start\r\n" + b"x" * launcher.CONSOLE_FULL,
    ],
    ids=["refused", "empty", "blank", "full"],
)
def test_a_machine_whose_console_says_nothing_of_its_job_is_left_alone(boot):
    run = Run()
    run.oci.life, run.oci.boot = [(0, "PROVISIONING"), (60, "RUNNING"), (3 * 3600, "STOPPED")], boot
    assert run.go() == 0
    assert "not known whether its job has begun, so it is left alone" in run.text
    assert run.seconds >= 3 * 3600


def test_a_job_that_has_begun_is_not_ended_though_its_console_shows_other_things_later():
    run = Run()
    run.oci.life = [(0, "PROVISIONING"), (60, "RUNNING"), (3 * 3600, "STOPPED")]
    run.clock.at(1800, lambda: setattr(run.oci, "boot", b"[ 1800.0] a job may write here\r\n"))
    assert run.go() == 0
    assert run.seconds >= 3 * 3600


def test_a_job_that_has_begun_is_not_ended_by_a_new_pod_whose_console_has_lost_every_step():
    run = Run()
    run.oci.boot = KERNEL_LINES
    run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: POD}, life=[(0, "RUNNING"), (8 * 3600, "STOPPED")], age=6 * 3600)
    assert run.go() == 0
    assert "not known whether its job has begun, so it is left alone" in run.text


def test_a_new_pod_removes_a_machine_whose_console_shows_that_its_boot_hangs():
    run = Run()
    run.oci.boot = HUNG
    hung = run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: POD}, life=FOREVER, age=6 * 3600)
    assert run.go() == 1
    assert f"{hung} has not begun its job in time: its console shows step runner" in run.text
    assert run.alive == []


def test_a_launcher_reads_the_status_before_a_sweep_removes_the_machine_though_three_reads_fail():
    run = Run()
    run.chance, run.oci.console_looks = Slow(), launcher.CAPTURE_LOOKS - 1
    run.oci.life = [(0, "PROVISIONING"), (60, "RUNNING"), (600, "RUNNING")]
    busy = [ServiceError(429, "TooManyRequests", "slow down")] * 3

    def trouble(region: str, name: str, args: tuple[Any, ...]) -> None:
        if name == "capture_console_history" and run.seconds >= 600 and busy:
            raise busy.pop()

    run.oci.trouble = trouble
    # A sweep that saw the status as soon as it was there.
    run.clock.at(600 + GRACE, lambda: setattr(next(iter(run.oci.instances.values())), "ended", "TERMINATED"))
    assert run.go() == 0
    assert not busy


def test_a_machine_that_went_down_without_a_status_tells_how_far_it_came():
    run = Run()
    run.oci.console = HUNG
    assert run.go() == 1
    assert "its console shows step runner" in run.text


def test_a_registration_that_got_too_old_is_not_used_again():
    """ARC starts the pod anew with the same one after an exit status of 1, and gets a new one after 0."""
    run = Run(per_job(lifetime="24h"))
    run.oci.life, run.oci.boot = FOREVER, b""
    assert run.go() == 0
    assert run.seconds > 24 * 3600
    assert "failed: " in run.text
    assert "the registration is too old to be used again" in run.text
    assert run.alive == []


@pytest.mark.parametrize(("age", "status"), [(11 * 3600, 1), (13 * 3600, 0)])
def test_a_registration_is_as_old_as_the_machine_that_has_it(age, status):
    run = Run(standing())
    tags = {SET_TAG: SET, RUNNER_TAG: POD, CLAIMED_TAG: str(int(START) - age)}
    run.oci.add(tags=tags, life=[(0, "RUNNING"), (age + 600, "STOPPED")], age=age, pooled=True, console=NO_JOB)
    assert run.go() == status
    assert run.oci.pool == []


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


def lose_answer_of_launch(run: Run, *, for_good: bool = False) -> None:
    """The first launch makes a machine, and its answer gets lost; `for_good`: no other launch is answered either."""

    def after(region: str, name: str, args: tuple[Any, ...]) -> None:
        if name == "launch_instance" and for_good:
            raise OSError("connection reset")

    def trouble(region: str, name: str, args: tuple[Any, ...]) -> None:
        if name == "launch_instance":
            run.oci.trouble = after
            run.oci.launch_instance(region, args[0], **run.oci.calls[-1][4])
            raise OSError("connection reset")

    run.oci.trouble = trouble


def test_a_launch_whose_answer_was_lost_is_repeated_and_makes_no_second_machine():
    run = Run()
    lose_answer_of_launch(run)
    assert run.go() == 0
    assert len(run.tried) == 2
    assert len(run.oci.instances) == 1
    assert run.alive == []


def test_a_machine_whose_launch_was_never_answered_is_found():
    run = Run()
    lose_answer_of_launch(run, for_good=True)
    assert run.go() == 0
    assert len(run.tried) == len(launcher.LAUNCH_WAITS) + 1
    assert len(run.oci.instances) == 1
    assert run.alive == []


def test_a_launch_that_was_never_answered_and_made_nothing_fails():
    run = Run()
    run.refuse("launch_instance", *[OSError("connection reset")] * 99)
    assert run.go() == 1
    assert run.oci.instances == {}


def test_a_region_that_cannot_be_listed_keeps_no_job_from_the_others():
    run = Run()
    run.refuse("list_instances", OSError("home is away"), None, OSError("home is away"))
    assert run.go() == 0


# -- leftovers -----------------------------------------------------------------------------------------------------------


def test_a_stopped_machine_that_nobody_removes_is_removed_after_a_while():
    run = Run()
    run.oci.life = [(0, "PROVISIONING"), (60, "RUNNING"), (SWEEP_EVERY + 300, "STOPPED")]
    left = run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER}, life=[(0, "STOPPED")], console=FAILED)
    assert run.go() == 0
    assert run.alive == []
    first = next(index for index, (_, _, name, args, _) in enumerate(run.oci.calls) if args == (left,))
    assert run.oci.calls[first][2] == "terminate_instance"
    assert f"{left} is stopped, and no launcher removed it: gpu-ci status=failed step=toolkit" in run.text
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


# -- leftovers that are shown as running -----------------------------------------------------------------------------------

OFF: list[tuple[float, str]] = [(0, "RUNNING"), (1800, "RUNNING")]
"""A machine that wrote its status and powered itself off half an hour after launch, and is shown as running."""
WORKING: list[tuple[float, str]] = [(0, "RUNNING"), (10**9, "STOPPED")]
HOURS = 3600.0


def orphan(run: Run, life: list[tuple[float, str]], age: float, **changes: Any) -> str:
    """A machine of another runner of the set; `changes` as `FakeOci.add` has them."""
    return run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER}, life=life, age=age, **changes)


def swept(run: Run) -> Run:
    """After the CronJob's sweep."""
    assert launcher.clean(run.machines(pod="")) == 0
    assert not run.oci.histories, "records of consoles stay"
    return run


def captured(run: Run) -> list[str]:
    """Machines whose consoles were read, in order."""
    return [details.instance_id for (details,) in run.oci.called("capture_console_history")]


def test_an_orphan_that_powered_itself_off_and_is_shown_as_running_is_removed_within_minutes():
    run = Run()
    left = orphan(run, OFF, 6 * HOURS, console=FAILED)
    swept(run)
    assert run.oci.called("terminate_instance") == [(left,)]
    assert run.seconds == GRACE
    assert f"{left} is RUNNING, and its console says gpu-ci status=failed step=toolkit" in run.text
    assert f"{left} has ended though it is RUNNING, and no launcher removed it: gpu-ci status=failed step=toolkit" in run.text


def test_an_orphan_whose_job_runs_is_left_alone_until_it_ends():
    run = Run()
    busy = orphan(run, WORKING, 6 * HOURS)
    swept(run)
    assert (run.alive, captured(run), run.seconds) == ([busy], [busy], 0)


def test_an_orphan_that_never_began_its_job_is_removed_and_one_that_may_have_is_not():
    run = Run()
    run.oci.boot = b"gpu-ci step=packages\r\n"
    hung, boots = orphan(run, WORKING, 2 * HOURS), orphan(run, WORKING, 600)
    swept(run)
    assert run.alive == [boots]
    assert f"{hung} has not begun its job in time, and no launcher removed it: its console shows step packages" in run.text


@pytest.mark.parametrize(
    "boot",
    [
        b"",
        ServiceError(409, "Conflict", "no console"),
        KERNEL_LINES,
        b"[    0.000000] Linux version 6.8.0\r\nlogin:",
        b"gpu-ci step=driver\r\n" + b"x" * launcher.CONSOLE_FULL,
    ],
    ids=["empty", "refused", "later-output", "no-step", "full"],
)
def test_an_orphan_of_which_the_console_tells_nothing_is_left_to_its_lifetime(boot: Any):
    run = Run()
    run.oci.boot = boot
    left = orphan(run, WORKING, 6 * HOURS)
    assert swept(run).alive == [left]


@pytest.mark.parametrize("state", ["FAILED", "GETTING-HISTORY"])
def test_the_content_of_a_capture_that_has_not_succeeded_is_not_judged(state: str):
    run = Run()
    run.oci.capture_end, run.oci.partial = state, b"gpu-ci step=driver\r\n"
    busy = orphan(run, WORKING, 6 * HOURS)
    assert swept(run).alive == [busy]
    assert f"console of {busy} cannot be read: its capture is {state}" in run.text


def test_an_orphan_whose_job_begins_late_is_left_to_it():
    run = Run()
    run.oci.boot = b"gpu-ci step=registration\r\n"
    busy = orphan(run, WORKING, 2 * HOURS)
    run.clock.at(60, lambda: setattr(run.oci, "boot", b"gpu-ci step=registration\r\ngpu-ci step=job\r\n"))
    assert swept(run).alive == [busy]
    assert run.seconds == GRACE


def test_a_machine_that_its_own_launcher_finds_late_is_left_to_it_at_first():
    run = Run()
    run.oci.boot = b"gpu-ci step=packages\r\n"
    late = orphan(run, WORKING, 2 * HOURS)
    run.clock.stop_at = GRACE
    assert launcher.clean(run.machines(pod="")) == 1
    assert run.alive == [late]


@pytest.mark.parametrize("life", [OFF, WORKING], ids=["ended", "late"])
def test_a_sweep_of_slow_captures_removes_what_it_saw_before_its_deadline(life: list[tuple[float, str]]):
    run = Run()
    run.oci.boot, run.oci.console_looks = b"gpu-ci step=packages\r\n", launcher.CAPTURE_LOOKS - 1
    machines = [orphan(run, life, 6 * HOURS) for _ in range(launcher.SWEEP_CONSOLES)]
    run.clock.stop_at = launcher.SWEEP_DEADLINE
    swept(run)
    assert len(run.alive) < len(machines)
    assert "reading consoles takes long, and the next sweep reads the others" in run.text


def test_a_sweep_of_slow_captures_removes_stopped_machines_before_its_deadline():
    run = Run()
    run.oci.console_looks = launcher.CAPTURE_LOOKS - 1
    for _ in range(launcher.SWEEP_CONSOLES):
        orphan(run, [(0, "STOPPED")], 6 * HOURS)
    run.clock.stop_at = launcher.SWEEP_DEADLINE
    assert swept(run).alive == []


def test_a_removal_that_fails_in_a_sweep_holds_up_no_other():
    run = Run()
    left = [orphan(run, [(0, "STOPPED")], 6 * HOURS) for _ in range(20)]
    run.refuse("terminate_instance", *[ServiceError(409, "Conflict", "busy")] * 19)
    assert swept(run).alive == left[:19]
    assert run.seconds == GRACE


def test_a_machine_that_has_ended_is_left_to_its_own_launcher_at_first():
    run = Run()
    left = orphan(run, OFF, 6 * HOURS)
    run.clock.stop_at = GRACE
    assert launcher.clean(run.machines(pod="")) == 1
    assert run.alive == [left]
    assert GRACE >= 4 * launcher.CONSOLE_EVERY, "its own launcher reads the console that often"


def test_a_machine_that_its_own_launcher_removes_meanwhile_is_not_removed_twice():
    run = Run()
    left = orphan(run, OFF, 6 * HOURS)
    run.clock.at(60, lambda: setattr(run.oci.instances[left], "ended", "TERMINATED"))
    assert swept(run).oci.called("terminate_instance") == []


def test_a_sweep_reads_so_many_consoles_and_no_more():
    run = Run()
    run.chance = Dice(1)
    machines = [orphan(run, WORKING, HOURS / 2) for _ in range(launcher.SWEEP_CONSOLES + 10)]
    starting = orphan(run, [(0, "PROVISIONING")], 10)
    swept(run)
    first = captured(run)
    assert len(first) == len(set(first)) == launcher.SWEEP_CONSOLES
    for _ in range(10):
        swept(run)
    assert set(captured(run)) == set(machines), "in random order, so that each has its turn"
    assert starting not in captured(run)


def test_launchers_read_no_consoles_of_others():
    run = Run()
    orphan(run, OFF, 6 * HOURS)
    run.go()
    own = next(ocid for ocid in run.oci.instances if run.oci.instances[ocid].tags[RUNNER_TAG] == POD)
    assert set(captured(run)) == {own}


def test_a_standing_machine_that_failed_to_boot_and_is_shown_as_running_is_replaced():
    run = Run(standing())
    broken = run.oci.add(tags={SET_TAG: SET}, life=OFF, age=6 * HOURS, pooled=True, console=FAILED)
    run.oci.boot = b"gpu-ci step=registration\r\n"
    ready = run.oci.add(tags={SET_TAG: SET}, life=WORKING, age=6 * HOURS, pooled=True)
    assert swept(run).alive == [ready]
    assert run.oci.pool == [ready]
    assert f"{broken} has ended though it is RUNNING" in run.text


# -- standing machines ---------------------------------------------------------------------------------------------------


def pool(run: Run, *lives: list[tuple[float, str]], **changes: Any) -> list[str]:
    """Members of the pool; `changes` as `FakeOci.add` has them."""
    return [run.oci.add(tags={SET_TAG: SET, "owner": "ci"}, life=life, pooled=True, **changes) for life in lives]


WORKS: list[tuple[float, str]] = [(0, "RUNNING"), (900, "STOPPED")]
IDLE: list[tuple[float, str]] = [(0, "RUNNING")]


def test_a_standing_machine_is_claimed_and_replaced_after_its_job():
    run = Run(standing())
    kept = {"user_data": "I2Nsb3VkLWNvbmZpZwo=", "ssh_authorized_keys": "ssh-ed25519 AAAA", "note": "kept"}
    first, second = pool(run, WORKS, IDLE, metadata=kept)
    assert run.go() == 0
    [(ocid, details)] = run.oci.called("update_instance")
    assert ocid == first
    assert plain(details) == {
        "freeform_tags": {SET_TAG: SET, "owner": "ci", RUNNER_TAG: POD, CLAIMED_TAG: str(int(START))},
        "metadata": {**kept, JIT_KEY: JIT},
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
    assert JIT_KEY not in run.oci.instances[first].metadata
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
    assert f"{broken} is stopped, and no launcher removed it: gpu-ci status=failed step=toolkit" in run.text
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


SCALES = ServiceError(409, "IncorrectState", "pool is scaling")


def test_a_machine_of_a_pool_that_is_busy_is_terminated_at_once():
    run = Run(standing())
    [machine] = pool(run, WORKS)
    run.refuse("detach_instance_pool_instance", SCALES)
    assert run.go() == 0
    assert run.oci.called("terminate_instance") == [(machine,)]
    assert run.alive == []
    assert len(run.oci.called("detach_instance_pool_instance")) == 1
    assert "cannot be detached, and is terminated in its pool: 409 IncorrectState: pool is scaling" in run.text


def test_a_detachment_that_fails_otherwise_is_tried_again():
    run = Run(standing())
    pool(run, WORKS)
    run.refuse("detach_instance_pool_instance", ServiceError(500, "InternalError"), OSError("reset"))
    assert run.go() == 0
    assert run.oci.pool == []
    assert "terminate_instance" not in methods(run.oci)


@pytest.mark.parametrize(
    ("size", "state", "updates"), [(1, "RUNNING", 1), (1, "SCALING", 0), (2, "RUNNING", 0), (3, "RUNNING", 0)]
)
def test_a_sweep_gives_a_pool_its_size_back_and_never_lowers_it(size, state, updates):
    run = Run(standing())
    run.oci.pool_size, run.oci.pool_state = size, state
    assert launcher.clean(run.machines(pod="")) == 0
    assert [plain(details) for _, details in run.oci.called("update_instance_pool")] == [{"size": 2}] * updates
    assert ("the pool has shrunk to 1 machines, and gets its 2 back" in run.text) is bool(updates)


def test_a_pool_whose_size_cannot_be_set_does_no_harm():
    run = Run(standing())
    run.oci.pool_size = 1
    run.refuse("update_instance_pool", ServiceError(404, "NotAuthorizedOrNotFound", "no right"))
    assert launcher.clean(run.machines(pod="")) == 0
    assert "the pool's size stays as it is: 404 NotAuthorizedOrNotFound" in run.text


def test_launchers_leave_the_pools_size_to_the_sweep():
    """A launcher may be days old, and the count that it was given too."""
    run = Run(standing())
    run.oci.pool_size = 1
    pool(run, WORKS)
    assert run.go() == 0
    assert "get_instance_pool" not in methods(run.oci)


def test_a_launcher_that_waits_too_long_for_a_machine_ends_so_that_arc_gets_a_new_registration():
    run = Run(standing())
    run.oci.add(tags={SET_TAG: SET, RUNNER_TAG: OTHER, CLAIMED_TAG: str(int(START))}, pooled=True)
    assert run.go() == 0
    assert launcher.REGISTRATION_LIFE <= run.seconds < launcher.REGISTRATION_LIFE + 2 * launcher.POLL
    assert "no machine of the pool had no job for 12 hours" in run.text
    assert "update_instance" not in methods(run.oci)
    assert len(run.alive) == 1


def test_a_claimed_machine_that_does_not_begin_its_job_is_replaced():
    run = Run(standing())
    [hung] = pool(run, [(0, "RUNNING"), (10**9, "STOPPED")], age=86_400)
    run.oci.boot = b"gpu-ci step=registration\r\n"
    assert run.go() == 1
    assert launcher.CLAIM_DEADLINE <= run.seconds < launcher.CLAIM_DEADLINE + launcher.CONSOLE_EVERY + 2 * launcher.POLL
    assert f"{hung} has not begun its job in time: its console shows step registration" in run.text
    assert run.oci.pool == []


def test_a_machine_that_was_claimed_while_it_booted_has_the_time_of_a_boot():
    run = Run(standing())
    pool(run, [(0, "RUNNING"), (10**9, "STOPPED")])
    run.oci.boot = b"gpu-ci step=packages\r\n"
    assert run.go() == 1
    assert launcher.BOOT_DEADLINE <= run.seconds < launcher.BOOT_DEADLINE + launcher.CONSOLE_EVERY + 2 * launcher.POLL


def test_a_registered_machine_that_waits_for_its_job_is_left_to_wait():
    run = Run(standing())
    pool(run, [(0, "RUNNING"), (3 * 86_400, "STOPPED")])
    assert run.go() == 0
    assert run.seconds >= 3 * 86_400


def reads(run: Run) -> list[str]:
    """Machines that were read, in order."""
    return [ocid for (ocid,) in run.oci.called("get_instance")]


def test_a_launcher_that_waits_reads_no_machine_twice_that_has_a_job_and_none_that_does_not_run():
    run = Run(standing(), stop_at=SWEEP_EVERY - 30)
    taken = {SET_TAG: SET, RUNNER_TAG: OTHER, CLAIMED_TAG: str(int(START))}
    busy = [run.oci.add(tags=taken, pooled=True) for _ in range(3)]
    boots, off = pool(run, [(0, "PROVISIONING")], [(0, "STOPPED")])
    machines = run.machines()
    machines._next_sweep = START + SWEEP_EVERY
    with pytest.raises(launcher.Stop):
        machines.obtain()
    assert sorted(reads(run)) == sorted(busy)
    assert len(run.oci.called("list_instance_pool_instances")) > 10
    assert not {boots, off} & set(reads(run))


def test_a_member_whose_state_the_list_tells_in_another_word_is_read(monkeypatch):
    run = Run(standing())
    pool(run, WORKS)
    monkeypatch.setattr(run.oci, "state_in_list", lambda ocid: "Active")
    assert run.go() == 0


def test_a_member_that_is_gone_though_it_is_listed_is_passed_over():
    run = Run(standing())
    gone, works = pool(run, IDLE, WORKS)
    del run.oci.instances[gone]
    run.oci.pool.remove(works)
    run.clock.at(60, lambda: run.oci.pool.append(works))
    assert run.go() == 0
    assert run.oci.pool == [gone]


def test_a_machine_with_a_job_is_read_again_once_it_does_not_run():
    run = Run(standing())
    tags = {SET_TAG: SET, RUNNER_TAG: OTHER, CLAIMED_TAG: str(int(START))}
    left = run.oci.add(tags=tags, life=[(0, "RUNNING"), (600, "STOPPED")], pooled=True, console=FAILED)
    run.clock.at(3000, lambda: pool(run, WORKS))
    assert run.go() == 0
    assert f"{left} is stopped, and no launcher removed it: gpu-ci status=failed step=toolkit" in run.text
    assert run.oci.pool == []


def test_launchers_begin_at_different_machines_and_look_at_different_times():
    firsts, waits = set(), set()
    for seed in range(5):
        run = Run(standing())
        run.chance = Dice(seed)
        pool(run, *[IDLE] * 5)
        machines = run.machines()
        firsts.add(machines.obtain().id)
        before = run.clock.now()
        machines.rest()
        waits.add(run.clock.now() - before)
    assert len(firsts) > 1
    assert len(waits) == 5
    assert all(0.8 * launcher.POLL <= wait <= 1.2 * launcher.POLL for wait in waits)


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


def test_a_record_of_the_console_is_read_once_it_is_ready():
    run = Run()
    run.oci.console_looks = 3
    assert run.go() == 0
    assert "status=done" in run.text, "read too early it is empty, and a good job would count as failed"


def test_a_record_that_is_never_ready_holds_nobody_up():
    run = Run()
    run.oci.console_looks = 10_000
    assert run.go() == 1
    assert "its console shows no status" in run.text
    assert run.alive == []


class Signed:
    """A client of a stub SDK: what it was made with."""

    def __init__(self, config: dict[str, str], signer: object) -> None:
        self.config, self.signer = config, signer


class ComputeClient(Signed):
    """Stands for oci.core.ComputeClient."""


class ComputeManagementClient(Signed):
    """Stands for oci.core.ComputeManagementClient."""


def test_each_region_has_clients_of_its_own_that_sign_as_the_workload(monkeypatch):
    signer = object()
    oci = types.SimpleNamespace(
        auth=types.SimpleNamespace(
            signers=types.SimpleNamespace(get_oke_workload_identity_resource_principal_signer=lambda: signer)
        ),
        core=types.SimpleNamespace(ComputeClient=ComputeClient, ComputeManagementClient=ComputeManagementClient, models=object()),
        exceptions=types.SimpleNamespace(ServiceError=ServiceError, ClientError=KeyError),
    )
    monkeypatch.setitem(sys.modules, "oci", oci)
    cloud = launcher.connect()
    here, there, pools = cloud.compute("us-sanjose-1"), cloud.compute("us-ashburn-1"), cloud.management("us-sanjose-1")
    assert [type(client) for client in (here, there, pools)] == [ComputeClient, ComputeClient, ComputeManagementClient]
    assert [client.config for client in (here, there, pools)] == [
        {"region": "us-sanjose-1"},
        {"region": "us-ashburn-1"},
        {"region": "us-sanjose-1"},
    ]
    assert all(client.signer is signer for client in (here, there, pools))
    assert cloud.compute("us-ashburn-1") is there, "a client holds its token: one a region is enough"
    assert cloud.models is oci.core.models
    assert cloud.service_error is ServiceError
    assert set(cloud.errors) == {ServiceError, KeyError, OSError, RuntimeError}


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
    assert (details.display_name, details.metadata[JIT_KEY]) == (POD, JIT)
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
