"""Gives one job's registration to one OCI machine, waits until the machine has run the job, and removes the machine.

A runner pod of a scale set runs this alone: Python 3.9 or newer with Oracle's SDK, which `connect` alone imports. It gets from
ARC the environment variable ACTIONS_RUNNER_INPUT_JITCONFIG, one job's registration, and from Kubernetes POD_NAME (or HOSTNAME,
which Kubernetes cuts at 63 characters), the runner's name. Oracle's SDK signs by the pod's service account. `launcher.py sweep`
instead removes what earlier launchers left, for a CronJob. The file in GPU_CI_LAUNCHER, /etc/gpu-ci/launcher.json by default, is

    {"mode": "per-job" | "standing",
     "set": name in the tags of this set's machines, alone in its compartment,
     "compartment": OCID of the machines' compartment,
     "lifetime": seconds after which a machine is removed whatever it does: since its launch, or since it got its job,
     "tags": {freeform tag: value},

     per-job:
     "shapes": [name, ...]                    each in all places before the next
     "places": [{"region", "availabilityDomains": [name, ...], "subnet", "securityGroups": [OCID, ...], "image"}, ...]
     "disk": GB of the boot volume
     "preemptible": true | false
     "userData": cloud-init user data in base64

     standing:
     "region": name
     "pool": OCID of the instance pool
     "count": how many machines the pool is to have}

A machine has the freeform tags gpu-ci-set and, once it has a job, gpu-ci-runner. ARC makes a pod anew with the same registration:
the machine that bears the runner's name is taken on again. A machine tells each step of its boot by a line on its serial console,
and how its job went by one more.

Exit status: 0 when the machine reports done. 1 otherwise, and ARC may use the registration again; but 0 where it is too old for
that, and ARC gets a new one. Never 7: ARC takes that for a runner version out of support.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import re
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JIT_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"
JIT_KEY = "gpu-ci-jit"
"""Metadata key of the registration. A machine reads it at /opc/v2/instance/metadata/gpu-ci-jit; Oracle documents that address for
keys of `metadata` (docs.oracle.com, getting instance metadata), and not for those of `extended_metadata`."""
SET_TAG = "gpu-ci-set"
RUNNER_TAG = "gpu-ci-runner"
CLAIMED_TAG = "gpu-ci-claimed"
"""Seconds since 1970 at which a standing machine got its job."""

POLL = 15.0
"""Seconds between two looks, more or less: launchers that start together do not ask together."""
CONSOLE_EVERY = 120.0
"""Seconds between two looks at the console of a running machine: Oracle's documentation does not say that a machine which powers
itself off is shown as STOPPED."""
CAPTURE_LOOKS = 20
CAPTURE_WAIT = 3.0
CAPTURE_SECONDS = CAPTURE_LOOKS * CAPTURE_WAIT
"""Seconds that one reading of a console takes at most, apart from the calls themselves."""
GRACE = 4 * (CONSOLE_EVERY + 2 * POLL) + CAPTURE_SECONDS
"""Seconds that a machine which has ended is left to its own launcher, which reads its console four times in that time: some of
these reads can fail, by too many requests or because a sweep captures the same console."""
SWEEP_EVERY = GRACE
"""Seconds between two sweeps of a launcher: the second one removes what the first one saw stopped."""
SWEEP_CONSOLES = 40
"""Consoles of running machines that one sweep reads at most, in random order. Each takes four calls or more."""
SWEEP_READING = 240.0
"""Seconds after which one round of a sweep starts to read no further console."""
SWEEP_DEADLINE = 1500
"""Seconds after which Kubernetes ends the CronJob's sweep (activeDeadlineSeconds). What the first round saw is in memory alone,
so both rounds and the grace between them must fit."""
REMOVE_TRIES = 8
BOOT_DEADLINE = 3600.0
"""Seconds from a machine's launch to its job. The bootstrap ends itself before that, by minutes: bare metal starts it late."""
CLAIM_DEADLINE = 900.0
"""Seconds from the claim of a standing machine to its job: what is written shows up inside within a minute."""
REGISTRATION_LIFE = 12 * 3600.0
"""Seconds for which a registration is used. GitHub removes an ephemeral runner that has not connected for more than a day
(docs.github.com, communicating with self-hosted runners)."""
LAUNCH_WAITS = (5.0, 10.0, 20.0, 40.0)
"""Seconds before each repetition of a launch that the service was too busy for, or did not answer."""
CONSOLE_BYTES = 10_000_000
CONSOLE_FULL = 900_000
"""Characters of a console whose beginning is taken for lost: Oracle returns up to a megabyte of the most recent output
(docs.oracle.com, CaptureConsoleHistory). A shorter one can have lost it too."""
GONE = ("TERMINATING", "TERMINATED")
NOT_YET = ("PROVISIONING", "STARTING")
NOT_RUNNING = (*GONE, *NOT_YET, "STOPPED")
NO_CANDIDATE = (*NOT_RUNNING, "STOPPING")
"""What a pool's list says of members that cannot be claimed. Its words are documented nowhere: another one is no obstacle."""
CAPACITY_CODES = ("LimitExceeded", "QuotaExceeded")
STATUS = re.compile(r"gpu-ci status=(done|failed) step=[a-z]+ code=[0-9]+(?: reason=[A-Za-z0-9._,:/-]*)?")
STEP = re.compile(r"gpu-ci step=([a-z]+)")


class Stop(Exception):  # noqa: N818 - a request, not an error
    """Kubernetes asked the pod to end."""


class Failed(Exception):  # noqa: N818 - the outcome, by its name
    """The job will not run, or has not run, on the machine; the message says why."""


class Gone(Failed):
    """There is no machine any more."""


class NeverRan(Gone):
    """The machine was accepted and then not made: late news of a lack of capacity."""


class Clock:
    """Time and waiting. `stop` ends every wait with Stop."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def stop(self, *_: object) -> None:
        """Handle SIGTERM. Calls that are under way end first, so that no machine is made without our knowing its id."""
        self._stopped.set()

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def wait(self, seconds: float) -> None:
        """Wait. Raises Stop as soon as the pod is to end."""
        if self._stopped.wait(seconds):
            raise Stop

    def pause(self, seconds: float) -> None:
        """Wait, even when the pod is to end."""
        time.sleep(seconds)


class Log:
    """Lines on standard output, never with the registration in them."""

    def __init__(self, secret: str, write: Callable[[str], object]) -> None:
        self._secret = secret
        self._write = write

    def __call__(self, text: str) -> None:
        """Write a line."""
        clean = text.replace(self._secret, "***") if self._secret else text
        self._write(clean.replace("\n", " ") + "\n")


@dataclass(frozen=True)
class Cloud:
    """What is used of Oracle's SDK.

    `compute` and `management` give a region's ComputeClient and ComputeManagementClient, `models` is oci.core.models.
    `service_error` is what a call raises that the service refused (status, code, message), `errors` whatever a call can raise.
    """

    compute: Callable[[str], Any]
    management: Callable[[str], Any]
    models: Any
    service_error: type[Exception]
    errors: tuple[type[Exception], ...]


@dataclass(frozen=True)
class Machine:
    """An instance, as it was read last. `etag` is empty where it was listed."""

    region: str
    instance: Any
    etag: str = ""

    @property
    def id(self) -> str:
        """Its OCID."""
        return str(self.instance.id)

    @property
    def state(self) -> str:
        """RUNNING, STOPPED, TERMINATED and so on."""
        return str(self.instance.lifecycle_state)

    @property
    def tags(self) -> dict[str, str]:
        """Its freeform tags."""
        return dict(self.instance.freeform_tags or {})


@dataclass(frozen=True)
class Console:
    """What a serial console has shown."""

    text: str

    @property
    def status(self) -> str | None:
        """The status line. The last one: the one before could only be of an earlier boot."""
        found = [match.group() for match in STATUS.finditer(self.text)]
        return found[-1] if found else None

    @property
    def steps(self) -> list[str]:
        """The boot's steps so far."""
        return [match.group(1) for match in STEP.finditer(self.text)]

    def lacks_job(self, *, watched: bool) -> bool:
        """Whether this proves that the machine's job has not begun. An empty or a full console proves nothing.

        Oracle returns the most recent output. A console that shows an earlier step of the boot therefore shows `step=job` too, if
        the machine wrote it. A console without any step may have lost them all. It is proof only for a launcher that has
        `watched` the machine since it got its job, and would have seen `step=job`.
        """
        readable = bool(self.text.strip()) and len(self.text) < CONSOLE_FULL
        return readable and "job" not in self.steps and (watched or bool(self.steps))


def told(error: BaseException) -> str:
    """An error of the SDK in one line. Its own text is pages of advice."""
    status = getattr(error, "status", None)
    if status is None:
        return f"{type(error).__name__}: {error}"
    return f"{status} {getattr(error, 'code', '')}: {getattr(error, 'message', '')}"


def is_capacity(error: Any) -> bool:
    """Whether another shape or place may have what this one has not."""
    message = str(error.message).lower()
    out = "out of host capacity" in message or "out of capacity" in message
    return out or error.code in CAPACITY_CODES or (error.code == "InternalError" and "capacity" in message)


def is_passing(error: Any) -> bool:
    """Whether the same call may go well in a moment: too many requests, a fault of the service, or no answer at all."""
    status = getattr(error, "status", None)
    return status is None or status == 429 or status >= 500


class Machines(ABC):
    """Where a set's machines come from and go to. `since` is when a machine's lifetime began, None where it has not."""

    def __init__(
        self,
        config: dict[str, Any],
        runner: str,
        jit: str,
        cloud: Cloud,
        clock: Clock,
        log: Log,
        chance: random.Random | None = None,
    ) -> None:
        self.config = config
        self.runner = runner
        self.jit = jit
        self.cloud = cloud
        self.clock = clock
        self.log = log
        self.chance = chance or random.SystemRandom()
        self.started = self.held_since = clock.now()
        self._stopped_since: dict[str, float] = {}
        # When a console showed that a machine is over, and its status: None where its job has not begun in time.
        self._over_since: dict[str, tuple[float, str | None]] = {}
        self._next_sweep = 0.0

    # -- what differs by mode --------------------------------------------------------------------------------------------

    @abstractmethod
    def everyone(self) -> Iterator[Machine]:
        """Every machine of the set that is not gone."""

    @abstractmethod
    def since(self, machine: Machine) -> float | None:
        """When the machine's lifetime began, in seconds since 1970."""

    @abstractmethod
    def obtain(self) -> Machine:
        """A machine that has this runner's registration."""

    @abstractmethod
    def due(self, machine: Machine) -> float | None:
        """When the machine's job must have begun, in seconds since 1970; None where it has not got one."""

    @abstractmethod
    def discard(self, machine: Machine) -> None:
        """Ask the cloud once to remove a machine."""

    def refill(self) -> None:  # noqa: B027 - machines of one job each have nothing to refill
        """Have as many machines as there should be, where that is not a launcher's doing alone."""

    # -- what both do ----------------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Wait for the next look."""
        self.clock.wait(POLL * self.chance.uniform(0.8, 1.2))

    def failed(self) -> int:
        """The exit status of a job that did not run: 0 where its registration is too old for ARC to try it again."""
        if self.clock.now() - self.held_since < REGISTRATION_LIFE:
            return 1
        self.log("the registration is too old to be used again; the exit status is 0, so that ARC gets a new one")
        return 0

    def read(self, region: str, instance_id: str) -> Machine:
        """A machine as it is now."""
        answer = self.cloud.compute(region).get_instance(instance_id)
        return Machine(region, answer.data, str(answer.headers.get("etag") or ""))

    def pages(self, call: Callable[..., Any], *args: str) -> Iterator[Any]:
        """Every item of a paged list."""
        more: dict[str, str] = {}
        while True:
            answer = call(*args, **more)
            yield from answer.data
            if not answer.has_next_page:
                return
            more = {"page": answer.next_page}

    def mine(self) -> Machine | None:
        """The machine that has this runner's registration already, from a pod that was here before."""
        found = [machine for machine in self.everyone() if machine.tags.get(RUNNER_TAG) == self.runner]
        return found[0] if found else None

    def after_unknown(self, error: Exception) -> Machine:
        """The machine that a call made whose answer got lost. Raises Failed where there is none."""
        self.log(f"no answer, looking whether it was done: {told(error)}")
        self.clock.wait(POLL)
        found = self.mine()
        if found is None:
            raise Failed(told(error))
        return found

    def remove(self, machine: Machine, tries: int = REMOVE_TRIES) -> None:
        """Remove a machine. A later sweep removes it if every try fails."""
        for attempt in range(tries):
            try:
                self.discard(machine)
            except self.cloud.errors as error:
                if getattr(error, "status", None) == 404:
                    return
                self.log(f"{machine.id} is not removed yet: {told(error)}")
                if attempt + 1 < tries:
                    self.clock.pause(POLL)
            else:
                self.log(f"{machine.id} removed")
                return
        self.log(f"{machine.id} is left to a later sweep")

    def console(self, machine: Machine) -> Console | None:
        """A machine's serial console, None where it cannot be read. The content of an unfinished capture is not read."""
        compute = self.cloud.compute(machine.region)
        history: Any = None
        try:
            details = self.cloud.models.CaptureConsoleHistoryDetails(instance_id=machine.id)
            history = compute.capture_console_history(details).data
            state = ""
            for _ in range(CAPTURE_LOOKS):
                state = compute.get_console_history(history.id).data.lifecycle_state
                if state in ("SUCCEEDED", "FAILED"):
                    break
                self.clock.wait(CAPTURE_WAIT)
            if state != "SUCCEEDED":
                self.log(f"console of {machine.id} cannot be read: its capture is {state}")
                return None
            content = compute.get_console_history_content(history.id, length=CONSOLE_BYTES).data
        except self.cloud.errors as error:
            self.log(f"console of {machine.id} cannot be read: {told(error)}")
            return None
        finally:
            self._forget(compute, history)
        return Console(content.decode("ascii", "replace") if isinstance(content, bytes) else str(content))

    def _forget(self, compute: Any, history: Any) -> None:
        if history is not None:
            try:
                compute.delete_console_history(history.id)
            except self.cloud.errors as error:
                self.log(f"console history {history.id} stays: {told(error)}")

    def overdue(self, machine: Machine) -> bool:
        """Whether the machine's job should have begun by now."""
        due = self.due(machine)
        return due is not None and self.clock.now() >= due

    def sweep(self) -> None:
        """Remove what other launchers of the set left behind. Nothing that goes wrong here keeps this one from its job.

        Reads no console of a running machine: all launchers of a set together would read each of them again and again.
        """
        now = self.clock.now()
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_EVERY
            self._sweep(consoles=0)

    def sweep_twice(self) -> None:
        """Remove what launchers left, and read the consoles of running machines for it.

        The second round, GRACE later, removes each machine that has ended or has not begun its job in time, if its own launcher
        has not removed it by then.
        """
        self._sweep(consoles=SWEEP_CONSOLES)
        if self._stopped_since or self._over_since:
            self.clock.wait(GRACE)
            self._sweep(consoles=0)

    def _sweep(self, consoles: int) -> None:
        """Go over the machines of other runners once; `consoles` is how many consoles of running machines may be read."""
        until = self.clock.now() + SWEEP_READING
        running: list[Machine] = []
        try:
            for machine in self.everyone():
                if machine.tags.get(RUNNER_TAG) != self.runner:
                    removed = self._remove_if_over(machine, until)
                    running += [machine] if not removed and machine.state not in NOT_RUNNING else []
            self.chance.shuffle(running)
            for machine in running[:consoles]:
                if self.clock.now() >= until:
                    self.log("reading consoles takes long, and the next sweep reads the others")
                    break
                self._read_running(machine)
        except self.cloud.errors as error:
            self.log(f"sweep ended early: {told(error)}")

    def _remove_if_over(self, machine: Machine, until: float) -> bool:
        """Remove a machine that is older than its lifetime, or that was seen to be over GRACE ago. Whether it did so.

        Starts to read no console after `until`.
        """
        now, since = self.clock.now(), self.since(machine)
        if since is not None and now - since > self.config["lifetime"] + GRACE:
            return self._swept(machine, "is older than its lifetime")
        if machine.state == "STOPPED" and now - self._stopped_since.setdefault(machine.id, now) >= GRACE:
            console = self.console(machine) if now < until else None
            return self._swept(machine, f"is stopped, and no launcher removed it: {(console and console.status) or 'no status'}")
        seen, status = self._over_since.get(machine.id, (now, None))
        if now - seen < GRACE:
            return False
        if status is not None:
            return self._swept(machine, f"has ended though it is {machine.state}, and no launcher removed it: {status}")
        # Its job may have begun since then.
        console = self.console(machine) if now < until else None
        if console is None or not self._late(machine, console):
            return False
        return self._swept(
            machine, f"has not begun its job in time, and no launcher removed it: its console shows {told_steps(console)}"
        )

    def _read_running(self, machine: Machine) -> None:
        """Read the console of a machine that is not shown as stopped.

        Its status line means that it has ended. Oracle's documentation does not say that a machine which powers itself off is
        shown as STOPPED, and bills it until it is terminated. Without its launcher it would stay for its whole lifetime.
        """
        console = self.console(machine)
        if console is None:
            return
        if console.status is not None:
            self.log(f"{machine.id} is {machine.state}, and its console says {console.status}")
        elif self._late(machine, console):
            self.log(f"{machine.id} has not begun its job in time: its console shows {told_steps(console)}")
        else:
            return
        self._over_since[machine.id] = self.clock.now(), console.status

    def _late(self, machine: Machine, console: Console) -> bool:
        """Whether the machine's job should have begun, and the console proves that it has not. A sweep has watched no machine."""
        return self.overdue(machine) and console.status is None and console.lacks_job(watched=False)

    def _swept(self, machine: Machine, why: str) -> bool:
        self.log(f"{machine.id} {why}")
        # The next sweep tries again; the other machines do not wait for this one.
        self.remove(machine, tries=1)
        return True


class PerJob(Machines):
    """A machine is launched for the job and terminated after it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._untried = self._everywhere()

    def _everywhere(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Shapes in order, places in order, domains in order."""
        for shape in self.config["shapes"]:
            for place in self.config["places"]:
                for domain in place["availabilityDomains"]:
                    yield shape, place, domain

    def _regions(self) -> list[str]:
        return list(dict.fromkeys(place["region"] for place in self.config["places"]))

    def everyone(self) -> Iterator[Machine]:
        """In every region; one that does not answer keeps nobody from the others."""
        for region in self._regions():
            try:
                listed = list(self.pages(self.cloud.compute(region).list_instances, self.config["compartment"]))
            except self.cloud.errors as error:
                self.log(f"machines of {region} cannot be listed: {told(error)}")
                continue
            for instance in listed:
                machine = Machine(region, instance)
                if machine.tags.get(SET_TAG) == self.config["set"] and machine.state not in GONE:
                    yield machine

    def since(self, machine: Machine) -> float | None:
        """Its launch."""
        return float(machine.instance.time_created.timestamp())

    def due(self, machine: Machine) -> float | None:
        """Some time after its launch."""
        return float(machine.instance.time_created.timestamp()) + BOOT_DEADLINE

    def obtain(self) -> Machine:
        """Launch a machine at the first place that has one. Called again, it goes on after that place."""
        for shape, place, domain in self._untried:
            self.clock.wait(0)
            machine = self._launch(shape, place, domain)
            if machine is not None:
                return machine
        raise Failed("no capacity for any shape in any place")

    def _launch(self, shape: str, place: dict[str, Any], domain: str) -> Machine | None:
        """A machine, None where this place has none; raises Failed where no other would have one either."""
        where, waits = f"{shape} in {domain}", iter(LAUNCH_WAITS)
        while True:
            try:
                answer = self._launch_once(shape, place, domain)
            except self.cloud.errors as error:
                if isinstance(error, self.cloud.service_error) and self._none_here(error, place):
                    self.log(f"{where}: {told(error)}")
                    return None
                if not is_passing(error):
                    raise Failed(f"{where}: {told(error)}") from None
                wait = next(waits, None)
                if wait is None:
                    return self.after_unknown(error)
                self.log(f"{where}: tried again in a moment: {told(error)}")
                self.clock.wait(wait * self.chance.uniform(0.8, 1.2))
            else:
                machine = Machine(place["region"], answer.data)
                self.log(f"{where}: launched {machine.id}")
                return machine

    def _launch_once(self, shape: str, place: dict[str, Any], domain: str) -> Any:
        """A call that the service takes for the same one as before, so that repeated it makes no second machine."""
        # Of this process alone: a pod made anew is to get a new machine, not the one that was terminated. At most 64 characters.
        call = json.dumps([self.runner, self.started, shape, place, domain], sort_keys=True)
        token = hashlib.sha256(call.encode()).hexdigest()
        return self.cloud.compute(place["region"]).launch_instance(self._details(shape, place, domain), opc_retry_token=token)

    def _none_here(self, error: Any, place: dict[str, Any]) -> bool:
        """Whether another place may have what this one refuses. That the pod's identity holds in other regions is not known."""
        foreign = place["region"] != self.config["places"][0]["region"]
        return is_capacity(error) or (foreign and error.status in (401, 404))

    def _details(self, shape: str, place: dict[str, Any], domain: str) -> Any:
        models, config = self.cloud.models, self.config
        spot = models.PreemptibleInstanceConfigDetails(
            preemption_action=models.TerminatePreemptionAction(preserve_boot_volume=False)
        )
        return models.LaunchInstanceDetails(
            availability_domain=domain,
            compartment_id=config["compartment"],
            display_name=self.runner,
            shape=shape,
            source_details=models.InstanceSourceViaImageDetails(image_id=place["image"], boot_volume_size_in_gbs=config["disk"]),
            create_vnic_details=models.CreateVnicDetails(
                subnet_id=place["subnet"], nsg_ids=place["securityGroups"], assign_public_ip=False
            ),
            metadata={"user_data": config["userData"], JIT_KEY: self.jit},
            instance_options=models.InstanceOptions(are_legacy_imds_endpoints_disabled=True),
            # Paravirtualized disks alone have it; bare metal has other ones.
            is_pv_encryption_in_transit_enabled=True if shape.startswith("VM.") else None,
            agent_config=models.LaunchInstanceAgentConfigDetails(
                are_all_plugins_disabled=True, is_management_disabled=True, is_monitoring_disabled=True
            ),
            preemptible_instance_config=spot if config["preemptible"] else None,
            freeform_tags={**config["tags"], SET_TAG: config["set"], RUNNER_TAG: self.runner},
        )

    def discard(self, machine: Machine) -> None:
        """Terminate it, boot volume and all."""
        self.cloud.compute(machine.region).terminate_instance(machine.id, preserve_boot_volume=False)


class Standing(Machines):
    """A machine of an instance pool is taken for the job and detached after it; the pool makes a new one."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # A claim is for good: a machine that runs for another launcher need not be read again.
        self._taken: dict[str, Machine] = {}

    def everyone(self) -> Iterator[Machine]:
        """The pool's members."""
        return self._members(GONE)

    def _members(self, without: tuple[str, ...]) -> Iterator[Machine]:
        """Members, without those that the list shows in a state; in no order, lest all launchers start at the same one."""
        members = self.cloud.management(self.config["region"]).list_instance_pool_instances
        listed = list(self.pages(members, self.config["compartment"], self.config["pool"]))
        self.chance.shuffle(listed)
        for member in listed:
            state = str(member.state).upper()
            if state not in without:
                known = self._taken.get(member.id) if state == "RUNNING" else None
                machine = known or self._read_member(member.id)
                if machine is not None:
                    yield machine

    def _read_member(self, instance_id: str) -> Machine | None:
        """A member as it is now, None where it is gone."""
        try:
            machine = self.read(self.config["region"], instance_id)
        except self.cloud.service_error as error:
            if getattr(error, "status", None) == 404:
                return None
            raise
        if machine.state == "RUNNING" and machine.tags.get(RUNNER_TAG, self.runner) != self.runner:
            self._taken[machine.id] = machine
        return None if machine.state in GONE else machine

    def since(self, machine: Machine) -> float | None:
        """When it got its job: a machine that waits for one does not age."""
        claimed = machine.tags.get(CLAIMED_TAG, "")
        return float(claimed) if claimed.isdigit() else None

    def due(self, machine: Machine) -> float | None:
        """Some time after the claim, or after the launch where it was claimed while it booted."""
        since = self.since(machine)
        launched = float(machine.instance.time_created.timestamp())
        return None if since is None else max(since + CLAIM_DEADLINE, launched + BOOT_DEADLINE)

    def obtain(self) -> Machine:
        """Claim a running machine that has no job, or wait for one, but not for longer than the registration is good."""
        self.log("waiting for a machine of the pool that has no job")
        while self.clock.now() - self.started < REGISTRATION_LIFE:
            try:
                for machine in self._members(NO_CANDIDATE):
                    if machine.state == "RUNNING" and RUNNER_TAG not in machine.tags and self._claim(machine):
                        self.log(f"claimed {machine.id}")
                        return self.read(machine.region, machine.id)
            except self.cloud.errors as error:
                found = self._mine_if_any(error)
                if found is not None:
                    return found
            self.sweep()
            self.rest()
        raise Failed(f"no machine of the pool had no job for {REGISTRATION_LIFE / 3600:.0f} hours")

    def _mine_if_any(self, error: Exception) -> Machine | None:
        """The machine that a claim took whose answer got lost."""
        try:
            return self.after_unknown(error)
        except Failed:
            return None
        except self.cloud.errors as again:
            self.log(f"no machine yet: {told(again)}")
            return None

    def _claim(self, machine: Machine) -> bool:
        """Take a machine, unless it has changed since it was read: another launcher took it."""
        if not machine.etag:
            raise Failed(f"{machine.id} was read without an etag, and cannot be claimed safely")
        details = self.cloud.models.UpdateInstanceDetails(
            freeform_tags={**machine.tags, RUNNER_TAG: self.runner, CLAIMED_TAG: str(int(self.clock.now()))},
            # The map replaces the one that is there. OCI rejects an update that leaves out or changes user_data or
            # ssh_authorized_keys (docs.oracle.com, updating instance metadata), so all keys go along as they were read.
            metadata={**(machine.instance.metadata or {}), JIT_KEY: self.jit},
        )
        try:
            self.cloud.compute(machine.region).update_instance(machine.id, details, if_match=machine.etag)
        except self.cloud.service_error as error:
            # A refusal is certain; after any other answer the machine may be ours.
            if not 400 <= getattr(error, "status", 0) < 500:
                raise
            self.log(f"{machine.id} is not to be had: {told(error)}")
            return False
        return True

    def discard(self, machine: Machine) -> None:
        """Detach it, which terminates it, and have the pool make another.

        A pool that scales lets nothing be detached. Then the machine is terminated as it is, for it is paid until it is gone. The
        pool makes another all the same (docs.oracle.com, managing compute instances, limitations).
        """
        details = self.cloud.models.DetachInstancePoolInstanceDetails(
            instance_id=machine.id, is_decrement_size=False, is_auto_terminate=True
        )
        try:
            self.cloud.management(machine.region).detach_instance_pool_instance(self.config["pool"], details)
        except self.cloud.service_error as error:
            if getattr(error, "status", None) != 409:
                raise
            self.log(f"{machine.id} cannot be detached, and is terminated in its pool: {told(error)}")
            self.cloud.compute(machine.region).terminate_instance(machine.id, preserve_boot_volume=False)

    def refill(self) -> None:
        """Set a pool's size back that has shrunk: after a day without capacity OCI takes for its size what is there.

        The same page has it. The size is never lowered: that would end the oldest machine, busy or not.
        """
        management, wanted = self.cloud.management(self.config["region"]), self.config["count"]
        try:
            pool = management.get_instance_pool(self.config["pool"]).data
            if pool.lifecycle_state == "RUNNING" and pool.size < wanted:
                self.log(f"the pool has shrunk to {pool.size} machines, and gets its {wanted} back")
                management.update_instance_pool(pool.id, self.cloud.models.UpdateInstancePoolDetails(size=wanted))
        except self.cloud.errors as error:
            self.log(f"the pool's size stays as it is: {told(error)}")


MODES: dict[str, type[PerJob] | type[Standing]] = {"per-job": PerJob, "standing": Standing}


@dataclass
class Watch:
    """Looks at one machine until it has ended.

    `state` is what it was last, `ran` whether it may have run, `adopted` whether an earlier pod got the machine, `working`
    whether its console has shown that its job began.
    """

    machines: Machines
    machine: Machine
    state: str = ""
    ran: bool = False
    adopted: bool = False
    working: bool = False

    def until_its_end(self) -> str | None:
        """The status line that the machine wrote, None where none can be read. Raises Failed, Stop."""
        machines = self.machines
        next_look = machines.clock.now() + CONSOLE_EVERY
        while True:
            if self._read():
                if self.state == "STOPPED":
                    return self._last_words()
                now = machines.clock.now()
                if now >= next_look:
                    next_look = now + CONSOLE_EVERY
                    status = self._look()
                    if status is not None:
                        return status
                since = machines.since(self.machine)
                if since is not None and now - since > machines.config["lifetime"]:
                    raise Failed(f"{self.machine.id} is older than its lifetime")
                machines.sweep()
            machines.rest()

    def _read(self) -> bool:
        """See how the machine is; False where that is not to be known now. Raises Gone."""
        machines, before = self.machines, self.machine
        try:
            self.machine = machines.read(before.region, before.id)
        except machines.cloud.errors as error:
            if getattr(error, "status", None) == 404:
                raise Gone(f"{before.id} is gone without a status") from None
            machines.log(f"{before.id} cannot be read: {told(error)}")
            # What happened in the meantime is not known.
            self.ran = True
            return False
        if self.machine.state != self.state:
            self.state = self.machine.state
            machines.log(f"{self.machine.id} is {self.state}")
        if self.state in GONE and not self.ran:
            raise NeverRan(f"{self.machine.id} was terminated before it ran")
        if self.state in GONE:
            raise Gone(f"{self.machine.id} was terminated before it wrote a status: preempted, or removed by somebody")
        self.ran = self.state not in NOT_YET
        return True

    def _last_words(self) -> str | None:
        """Of a machine that is off."""
        console = self.machines.console(self.machine)
        if console is not None and console.status is None:
            self.machines.log(f"{self.machine.id}: its console shows {told_steps(console)}")
        return console.status if console is not None else None

    def _look(self) -> str | None:
        """The status of a machine that seems to run. Raises Failed where its job should have begun, and has not."""
        machines = self.machines
        console = machines.console(self.machine)
        if console is not None:
            self.working = self.working or "job" in console.steps
            if console.status is not None:
                return console.status
        if self.working or not machines.overdue(self.machine):
            return None
        if console is None or not console.lacks_job(watched=not self.adopted):
            machines.log(f"{self.machine.id}: not known whether its job has begun, so it is left alone")
            return None
        raise Failed(f"{self.machine.id} has not begun its job in time: its console shows {told_steps(console)}")


def told_steps(console: Console) -> str:
    """How far a boot came."""
    return f"step {console.steps[-1]}" if console.steps else "no step of the boot"


def left(machines: Machines) -> Machine | None:
    """A machine that was made for this runner by a pod before, or by a call whose answer nobody waited for."""
    try:
        return machines.mine()
    except machines.cloud.errors as error:
        machines.log(f"not known whether a machine is left: {told(error)}")
        return None


def serve(machines: Machines) -> int:
    """Run this pod's job on a machine. The exit status."""
    log = machines.log
    machine: Machine | None = None
    try:
        machines.sweep()
        machine = adopted = machines.mine()
        if machine is not None:
            log(f"took on {machine.id}, which has this runner's job")
            machines.held_since = min(machines.held_since, machines.since(machine) or machines.held_since)
        while True:
            machine = machine or machines.obtain()
            try:
                watch = Watch(machines, machine, ran=machine.state not in NOT_YET, adopted=machine is adopted)
                status = watch.until_its_end()
                break
            except NeverRan as gone:
                log(f"{gone}; on to the next place")
                machine = None
        log(f"{machine.id}: {status or 'ended, and its console tells no status'}")
        if status is not None and status.startswith("gpu-ci status=done "):
            return 0
    except Stop:
        log("the pod is to end")
        machine = machine or left(machines)
    except Gone as gone:
        log(f"failed: {gone}")
        machine = None
    except Failed as failure:
        log(f"failed: {failure}")
    except machines.cloud.errors as error:
        log(f"failed: {told(error)}")
    finally:
        if machine is not None:
            machines.remove(machine)
    return machines.failed()


def clean(machines: Machines) -> int:
    """Remove what launchers left, once. The exit status."""
    try:
        machines.sweep_twice()
        machines.refill()
    except Stop:
        return 1
    return 0


def connect() -> Cloud:
    """Oracle's SDK, signing with the pod's workload identity."""
    oci = importlib.import_module("oci")
    signer = oci.auth.signers.get_oke_workload_identity_resource_principal_signer()
    clients: dict[tuple[str, str], Any] = {}

    def client(kind: str, region: str) -> Any:
        if (kind, region) not in clients:
            clients[kind, region] = getattr(oci.core, kind)({"region": region}, signer=signer)
        return clients[kind, region]

    return Cloud(
        compute=lambda region: client("ComputeClient", region),
        management=lambda region: client("ComputeManagementClient", region),
        models=oci.core.models,
        service_error=oci.exceptions.ServiceError,
        # Transport errors of the SDK's requests are OSErrors; a token that cannot be renewed is a RuntimeError.
        errors=(oci.exceptions.ServiceError, oci.exceptions.ClientError, OSError, RuntimeError),
    )


def main() -> int:
    """Read the pod's surroundings and do what it is for."""
    sweeping = sys.argv[1:] == ["sweep"]
    # Out of the environment at once: nothing that starts from here needs it.
    jit = os.environ.pop(JIT_VARIABLE, "")
    runner = "" if sweeping else os.environ.get("POD_NAME") or os.environ.get("HOSTNAME") or ""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a TextIO in typeshed, a TextIOWrapper here
    clock, log = Clock(), Log(jit, sys.stdout.write)
    signal.signal(signal.SIGTERM, clock.stop)
    if not sweeping and not (jit and runner):
        log(f"failed: {JIT_VARIABLE} and POD_NAME are needed")
        return 1
    path = os.environ.get("GPU_CI_LAUNCHER", "/etc/gpu-ci/launcher.json")
    config = json.loads(Path(path).read_text(encoding="utf-8"))
    machines = MODES[config["mode"]](config, runner, jit, connect(), clock, log)
    return clean(machines) if sweeping else serve(machines)


if __name__ == "__main__":
    sys.exit(main())
