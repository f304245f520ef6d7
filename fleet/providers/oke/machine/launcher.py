"""Gives one job's registration to one OCI machine, waits until the machine has run the job, and removes the machine.

A runner pod of a scale set runs this file alone. It needs Python 3.9 or newer and Oracle's SDK, which only `connect` imports. ARC
sets the environment variable ACTIONS_RUNNER_INPUT_JITCONFIG, one job's registration. Kubernetes sets POD_NAME (or HOSTNAME, which
Kubernetes cuts at 63 characters), the runner's name. Oracle's SDK signs with the pod's service account. A CronJob runs
`launcher.py sweep`, which removes machines that earlier launchers left. The environment variable GPU_CI_LAUNCHER names the config
file, by default /etc/gpu-ci/launcher.json:

    {"mode": "per-job" | "standing",
     "set": name in the tags of this set's machines, which no other set of the compartment has,
     "compartment": OCID of the machines' compartment,
     "lifetime": seconds from a machine's launch, or from when it got its job, until it is removed in any case,
     "tags": {freeform tag: value},

     per-job:
     "shapes": [name, ...]                    each is tried in all places before the next
     "places": [{"region", "availabilityDomains": [name, ...], "subnet", "securityGroups": [OCID, ...], "image",
                 "metricsUrl": where its machines push metrics, or null}, ...]
     "disk": GB of the boot volume
     "preemptible": true | false
     "userData": cloud-init user data in base64

     standing:
     "region": name
     "pool": OCID of the instance pool
     "count": number of machines that the pool should have}

A machine has the freeform tags gpu-ci-set and, once it has a job, gpu-ci-runner. ARC can recreate a pod with the same
registration. The new pod then continues with the machine that has the runner's name. A machine writes a line on its serial
console for each step of its boot, and one more line with the result of its job.

Exit status: 0 if the machine reports done. 1 otherwise, and ARC may use the registration again. If the registration is too old
for that, the status is 0, and ARC gets a new one. Never 7, which means to ARC that the runner version is no longer supported.
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
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

JIT_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"
JIT_KEY = "gpu-ci-jit"
"""Metadata key of the registration. A machine reads it at /opc/v2/instance/metadata/gpu-ci-jit. Oracle documents this address for
keys of `metadata` (docs.oracle.com, getting instance metadata), but not for keys of `extended_metadata`."""
METRICS_KEY = "gpu-ci-metrics"
"""Metadata key of the URL to which the machine pushes metrics. A machine in a place that reaches no gateway has none."""
SET_TAG = "gpu-ci-set"
RUNNER_TAG = "gpu-ci-runner"
CLAIMED_TAG = "gpu-ci-claimed"
"""Seconds since 1970 at which a standing machine got its job."""

POLL = 15.0
"""Seconds between two polls. Each wait is varied at random, so that launchers which start together do not poll together."""
CONSOLE_EVERY = 120.0
"""Seconds between two reads of the console of a running machine. The console is read because Oracle's documentation does not say
that a machine which powers itself off is shown as STOPPED."""
CAPTURE_LOOKS = 20
CAPTURE_WAIT = 3.0
CAPTURE_SECONDS = CAPTURE_LOOKS * CAPTURE_WAIT
"""Seconds that one read of a console takes at most, without the time of the calls themselves."""
GRACE = 4 * (CONSOLE_EVERY + 2 * POLL) + CAPTURE_SECONDS
"""Seconds for which sweeps leave a machine that has ended to its own launcher. The launcher reads its console four times in that
time. Some of these reads can fail, because of too many requests or because a sweep captures the same console."""
SWEEP_EVERY = GRACE
"""Seconds between two sweeps of a launcher. The second sweep removes machines that were already stopped in the first."""
SWEEP_CONSOLES = 40
"""Consoles of running machines that one sweep reads at most, in random order. Each takes four calls or more."""
SWEEP_READING = 240.0
"""Seconds after which one round of a sweep reads no further console."""
SWEEP_DEADLINE = 1500
"""Seconds after which Kubernetes ends the CronJob's sweep (activeDeadlineSeconds). The results of the first round are only in
memory, so both rounds and GRACE between them must fit in this time."""
REMOVE_TRIES = 8
BOOT_DEADLINE = 3600.0
"""Seconds from a machine's launch to its job. The bootstrap ends itself minutes earlier, because bare metal starts it late."""
CLAIM_DEADLINE = 900.0
"""Seconds from the claim of a standing machine to its job. New metadata is visible inside the machine within a minute."""
REGISTRATION_LIFE = 12 * 3600.0
"""Seconds for which a registration is used. GitHub removes an ephemeral runner that has not connected for more than a day
(docs.github.com, communicating with self-hosted runners)."""
LAUNCH_WAITS = (5.0, 10.0, 20.0, 40.0)
"""Seconds before each retry of a launch. A launch is retried if the service was too busy or did not answer."""
CONSOLE_BYTES = 10_000_000
CONSOLE_FULL = 900_000
"""Characters from which on the beginning of a console is assumed to be lost. Oracle returns up to a megabyte of the most recent
output (docs.oracle.com, CaptureConsoleHistory). A shorter console can have lost its beginning too."""
GONE = ("TERMINATING", "TERMINATED")
NOT_YET = ("PROVISIONING", "STARTING")
NOT_RUNNING = (*GONE, *NOT_YET, "STOPPED")
NO_CANDIDATE = (*NOT_RUNNING, "STOPPING")
"""States in a pool's list of members that cannot be claimed. Oracle does not document the list's states, so a member in any other
state may be claimed."""
CAPACITY_CODES = ("LimitExceeded", "QuotaExceeded")
STATUS = re.compile(r"gpu-ci status=(done|failed) step=[a-z]+ code=[0-9]+(?: reason=[A-Za-z0-9._,:/-]*)?")
STEP = re.compile(r"gpu-ci step=([a-z]+)")


class Stop(Exception):  # noqa: N818 - a request, not an error
    """Kubernetes has asked the pod to end."""


class Failed(Exception):  # noqa: N818 - the outcome, by its name
    """The job will not run, or has not run, on the machine. The message gives the reason."""


class Gone(Failed):
    """The machine no longer exists."""


class NeverRan(Gone):
    """OCI accepted the launch and then created no machine, because there was no capacity."""


class Clock:
    """Time and waiting. `stop` ends every wait with Stop."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def stop(self, *_: object) -> None:
        """Handle SIGTERM. Calls in progress end first, so that no machine is created whose id is unknown."""
        self._stopped.set()

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def wait(self, seconds: float) -> None:
        """Wait. Raises Stop as soon as the pod must end."""
        if self._stopped.wait(seconds):
            raise Stop

    def pause(self, seconds: float) -> None:
        """Wait, even if the pod must end."""
        time.sleep(seconds)


@dataclass(frozen=True, repr=False)
class Log:
    """Lines on standard output. The registration, `secret`, is masked in them."""

    secret: str
    write: Callable[[str], object]

    def __call__(self, text: str) -> None:
        """Write one line."""
        clean = text.replace(self.secret, "***") if self.secret else text
        self.write(clean.replace("\n", " ") + "\n")


@dataclass(frozen=True)
class Cloud:
    """The parts of Oracle's SDK that a launcher uses.

    `compute` and `management` return a region's ComputeClient and ComputeManagementClient. `models` is oci.core.models.
    A call that the service rejects raises `service_error` (status, code, message). `errors` are all errors that a call can raise.
    """

    compute: Callable[[str], Any]
    management: Callable[[str], Any]
    models: Any
    service_error: type[Exception]
    errors: tuple[type[Exception], ...]


@dataclass(frozen=True)
class Machine:
    """An instance as last read. `etag` is empty if it comes from a list."""

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
    def launched(self) -> float:
        """When it was launched, in seconds since 1970."""
        return float(self.instance.time_created.timestamp())

    @property
    def tags(self) -> dict[str, str]:
        """Its freeform tags."""
        return dict(self.instance.freeform_tags or {})


@dataclass(frozen=True)
class Console:
    """The output of a serial console."""

    text: str

    @property
    def status(self) -> str | None:
        """The last status line. An earlier one could only come from an earlier boot."""
        found = [match.group() for match in STATUS.finditer(self.text)]
        return found[-1] if found else None

    @property
    def steps(self) -> list[str]:
        """The boot's steps so far."""
        return [match.group(1) for match in STEP.finditer(self.text)]

    def lacks_job(self, *, watched: bool) -> bool:
        """Whether this console proves that the machine's job has not begun. An empty or a full console proves nothing.

        Oracle returns the most recent output. So a console that shows an earlier step of the boot also shows `step=job`, if the
        machine wrote it. A console without any step may have lost them all. It is proof only for a launcher that has `watched`
        the machine since it got its job: that launcher would have seen `step=job`.
        """
        readable = bool(self.text.strip()) and len(self.text) < CONSOLE_FULL
        return readable and "job" not in self.steps and (watched or bool(self.steps))


def told(error: BaseException) -> str:
    """An error of the SDK in one line. The error's own text has many lines of advice."""
    status = getattr(error, "status", None)
    if status is None:
        return f"{type(error).__name__}: {error}"
    return f"{status} {getattr(error, 'code', '')}: {getattr(error, 'message', '')}"


def is_capacity(error: Any) -> bool:
    """Whether the error is a lack of capacity, which another shape or place may have."""
    message = str(error.message).lower()
    out = "out of host capacity" in message or "out of capacity" in message
    return out or error.code in CAPACITY_CODES or (error.code == "InternalError" and "capacity" in message)


def is_passing(error: Any) -> bool:
    """Whether the same call may soon succeed: the error is too many requests, a fault of the service, or no answer."""
    status = getattr(error, "status", None)
    return status is None or status == 429 or status >= 500


@dataclass(eq=False, repr=False)
class Machines(ABC):
    """The source of a set's machines for one launcher. `jit` is the registration of its job, `chance` its random numbers."""

    config: dict[str, Any]
    runner: str
    jit: str
    cloud: Cloud
    clock: Clock
    log: Log
    chance: random.Random = field(default_factory=random.SystemRandom)

    def __post_init__(self) -> None:
        self.started = self.held_since = self.clock.now()
        self._stopped_since: dict[str, float] = {}
        # When a console showed that a machine is over, and its status. The status is None if its job has not begun in time.
        self._over_since: dict[str, tuple[float, str | None]] = {}
        self._next_sweep = 0.0

    # -- differs by mode -------------------------------------------------------------------------------------------------

    @abstractmethod
    def everyone(self) -> Iterator[Machine]:
        """Every machine of the set that is neither terminating nor terminated."""

    @abstractmethod
    def since(self, machine: Machine) -> float | None:
        """When the machine's lifetime began, in seconds since 1970. None if it has not begun."""

    @abstractmethod
    def obtain(self) -> Machine:
        """A machine that has this runner's registration."""

    @abstractmethod
    def due(self, machine: Machine) -> float | None:
        """The time by which the machine's job must have begun, in seconds since 1970. None if it has no job."""

    @abstractmethod
    def discard(self, machine: Machine) -> None:
        """Ask the cloud once to remove a machine."""

    def refill(self) -> None:  # noqa: B027 - machines that are launched per job need no refill
        """Restore the number of machines, if the set keeps a fixed number."""

    # -- common to both modes --------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Wait until the next poll."""
        self.clock.wait(POLL * self.chance.uniform(0.8, 1.2))

    def failed(self) -> int:
        """The exit status of a job that did not run: 0 if its registration is too old for another try, otherwise 1."""
        if self.clock.now() - self.held_since < REGISTRATION_LIFE:
            return 1
        self.log("the registration is too old to be used again; the exit status is 0, so that ARC gets a new one")
        return 0

    def read(self, region: str, instance_id: str) -> Machine:
        """Read a machine's current state."""
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
        """The machine that already has this runner's registration, from an earlier pod."""
        found = [machine for machine in self.everyone() if machine.tags.get(RUNNER_TAG) == self.runner]
        return found[0] if found else None

    def left(self) -> Machine | None:
        """As `mine`. None also if that is not known: a later sweep removes such a machine."""
        try:
            return self.mine()
        except self.cloud.errors as error:
            self.log(f"not known whether a machine is left: {told(error)}")
            return None

    def after_unknown(self, error: Exception) -> Machine | None:
        """The machine that a call created or claimed although its answer was lost."""
        self.log(f"no answer, looking whether it was done: {told(error)}")
        self.clock.wait(POLL)
        return self.left()

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
        """A machine's serial console, or None if it cannot be read. The content of an unfinished capture is not read."""
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
        """Remove machines that other launchers of the set left. An error here does not stop this launcher's job.

        A sweep of a launcher reads no console of a running machine. Otherwise all launchers of a set would read each of them
        again and again.
        """
        now = self.clock.now()
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_EVERY
            self._sweep(consoles=0)

    def sweep_twice(self) -> None:
        """Remove machines that launchers left. For this, read the consoles of running machines.

        The second round runs GRACE later. It removes each machine that has ended or has not begun its job in time, unless its own
        launcher has removed it.
        """
        self._sweep(consoles=SWEEP_CONSOLES)
        if self._stopped_since or self._over_since:
            self.clock.wait(GRACE)
            self._sweep(consoles=0)

    def _sweep(self, consoles: int) -> None:
        """Check the machines of other runners once, and read the consoles of at most `consoles` running machines."""
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
        """Remove a machine that is older than its lifetime, or that was found to be over at least GRACE ago.

        Reads no console after `until`. Returns whether the machine was over.
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
        # Its job may have begun in the meantime.
        console = self.console(machine) if now < until else None
        if console is None or not self._late(machine, console):
            return False
        return self._swept(
            machine, f"has not begun its job in time, and no launcher removed it: its console shows {told_steps(console)}"
        )

    def _read_running(self, machine: Machine) -> None:
        """Read the console of a machine that OCI does not show as stopped.

        A status line means that the machine has ended. Oracle's documentation does not say that a machine which powers itself off
        is shown as STOPPED. Oracle bills the machine until it is terminated. Without its launcher it would stay for its whole
        lifetime.
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
        """Whether the machine's job should have begun, and the console proves that it has not.

        A sweep has not watched the machine since it got its job.
        """
        return self.overdue(machine) and console.status is None and console.lacks_job(watched=False)

    def _swept(self, machine: Machine, why: str) -> bool:
        self.log(f"{machine.id} {why}")
        # The next sweep tries again, so the other machines do not wait for this one.
        self.remove(machine, tries=1)
        return True


class PerJob(Machines):
    """A machine is launched for the job and terminated after it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        places = [(place, domain) for place in self.config["places"] for domain in place["availabilityDomains"]]
        self._untried = iter([(shape, *where) for shape in self.config["shapes"] for where in places])

    def everyone(self) -> Iterator[Machine]:
        """Machines of every region. A region that does not answer is left out."""
        for region in dict.fromkeys(place["region"] for place in self.config["places"]):
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
        """The time of its launch."""
        return machine.launched

    def due(self, machine: Machine) -> float | None:
        """BOOT_DEADLINE after its launch."""
        return machine.launched + BOOT_DEADLINE

    def obtain(self) -> Machine:
        """Launch a machine in the first place that has one. A second call continues with the next place."""
        for shape, place, domain in self._untried:
            self.clock.wait(0)
            machine = self._launch(shape, place, domain)
            if machine is not None:
                return machine
        raise Failed("no capacity for any shape in any place")

    def _launch(self, shape: str, place: dict[str, Any], domain: str) -> Machine | None:
        """A machine, or None if this place has none. Raises Failed if no other place would have one either."""
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
                    found = self.after_unknown(error)
                    if found is None:
                        raise Failed(told(error)) from None
                    return found
                self.log(f"{where}: tried again in a moment: {told(error)}")
                self.clock.wait(wait * self.chance.uniform(0.8, 1.2))
            else:
                machine = Machine(place["region"], answer.data)
                self.log(f"{where}: launched {machine.id}")
                return machine

    def _launch_once(self, shape: str, place: dict[str, Any], domain: str) -> Any:
        """Launch a machine with a retry token. A repeated call with the same token creates no second machine."""
        # The token is unique to this process: a recreated pod must get a new machine, not the one that was terminated. OCI allows
        # 64 characters.
        call = json.dumps([self.runner, self.started, shape, place, domain], sort_keys=True)
        token = hashlib.sha256(call.encode()).hexdigest()
        return self.cloud.compute(place["region"]).launch_instance(self._details(shape, place, domain), opc_retry_token=token)

    def _none_here(self, error: Any, place: dict[str, Any]) -> bool:
        """Whether another place may still have a machine. It is not known whether other regions accept the pod's identity."""
        foreign = place["region"] != self.config["places"][0]["region"]
        return is_capacity(error) or (foreign and error.status in (401, 404))

    def _details(self, shape: str, place: dict[str, Any], domain: str) -> Any:
        models, config = self.cloud.models, self.config
        pushed = {METRICS_KEY: place["metricsUrl"]} if place["metricsUrl"] else {}
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
            metadata={"user_data": config["userData"], JIT_KEY: self.jit, **pushed},
            instance_options=models.InstanceOptions(are_legacy_imds_endpoints_disabled=True),
            # Only paravirtualized disks support it, and bare metal has other disks.
            is_pv_encryption_in_transit_enabled=True if shape.startswith("VM.") else None,
            agent_config=models.LaunchInstanceAgentConfigDetails(
                are_all_plugins_disabled=True, is_management_disabled=True, is_monitoring_disabled=True
            ),
            preemptible_instance_config=spot if config["preemptible"] else None,
            freeform_tags={**config["tags"], SET_TAG: config["set"], RUNNER_TAG: self.runner},
        )

    def discard(self, machine: Machine) -> None:
        """Terminate the machine and its boot volume."""
        self.cloud.compute(machine.region).terminate_instance(machine.id, preserve_boot_volume=False)


class Standing(Machines):
    """A machine of an instance pool is claimed for the job and detached after it. The pool then creates a new one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # A claim is final, so a machine that runs for another launcher need not be read again.
        self._taken: dict[str, Machine] = {}

    def everyone(self) -> Iterator[Machine]:
        """The pool's members."""
        return self._members(GONE)

    def _members(self, without: tuple[str, ...]) -> Iterator[Machine]:
        """Members in random order, so that not all launchers start with the same one.

        Members that the list shows in one of the states `without` are left out.
        """
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
        """Read a member's current state. None if it no longer exists."""
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
        """When it got its job. The lifetime of a machine that waits for a job has not begun."""
        claimed = machine.tags.get(CLAIMED_TAG, "")
        return float(claimed) if claimed.isdigit() else None

    def due(self, machine: Machine) -> float | None:
        """CLAIM_DEADLINE after its claim, but not before BOOT_DEADLINE after its launch: it may still boot when it is claimed."""
        since = self.since(machine)
        return None if since is None else max(since + CLAIM_DEADLINE, machine.launched + BOOT_DEADLINE)

    def obtain(self) -> Machine:
        """Claim a running machine that has no job, or wait for one for as long as the registration is valid."""
        self.log("waiting for a machine of the pool that has no job")
        while self.clock.now() - self.started < REGISTRATION_LIFE:
            try:
                for machine in self._members(NO_CANDIDATE):
                    if machine.state == "RUNNING" and RUNNER_TAG not in machine.tags and self._claim(machine):
                        self.log(f"claimed {machine.id}")
                        return self.read(machine.region, machine.id)
            except self.cloud.errors as error:
                found = self.after_unknown(error)
                if found is not None:
                    return found
            self.sweep()
            self.rest()
        raise Failed(f"no machine of the pool had no job for {REGISTRATION_LIFE / 3600:.0f} hours")

    def _claim(self, machine: Machine) -> bool:
        """Claim a machine. Returns False if it has changed since it was read, because another launcher claimed it."""
        if not machine.etag:
            raise Failed(f"{machine.id} was read without an etag, and cannot be claimed safely")
        details = self.cloud.models.UpdateInstanceDetails(
            freeform_tags={**machine.tags, RUNNER_TAG: self.runner, CLAIMED_TAG: str(int(self.clock.now()))},
            # This map replaces the instance's metadata. OCI rejects an update that leaves out or changes user_data or
            # ssh_authorized_keys (docs.oracle.com, updating instance metadata), so the update sends all keys as they were read.
            metadata={**(machine.instance.metadata or {}), JIT_KEY: self.jit},
        )
        try:
            self.cloud.compute(machine.region).update_instance(machine.id, details, if_match=machine.etag)
        except self.cloud.service_error as error:
            # After a 4xx answer the machine is certainly not claimed. After any other answer it may be.
            if not 400 <= getattr(error, "status", 0) < 500:
                raise
            self.log(f"{machine.id} is not to be had: {told(error)}")
            return False
        return True

    def discard(self, machine: Machine) -> None:
        """Detach the machine, which terminates it. The pool then creates another.

        OCI allows no detachment while a pool scales. Then the machine is terminated in its pool, because it costs money until it
        is terminated. The pool creates another in this case too (docs.oracle.com, managing compute instances, limitations).
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
        """Restore the size of a pool that has shrunk. After a day without capacity OCI lowers a pool's size to its machines.

        The source is the page named in `discard`. This never lowers the size, because that would end the oldest machine, even if
        it runs a job.
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
    """Polls one machine until it has ended.

    `state` is its last known state. `ran` says whether it may have run, `adopted` whether an earlier pod got the machine, and
    `working` whether its console has shown that its job began.
    """

    machines: Machines
    machine: Machine
    state: str = ""
    ran: bool = False
    adopted: bool = False
    working: bool = False

    def until_its_end(self) -> str | None:
        """The status line that the machine wrote, or None if none can be read. Raises Failed and Stop."""
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
        """Read the machine's state. Returns False if it cannot be read now. Raises Gone."""
        machines, before = self.machines, self.machine
        try:
            self.machine = machines.read(before.region, before.id)
        except machines.cloud.errors as error:
            if getattr(error, "status", None) == 404:
                raise Gone(f"{before.id} is gone without a status") from None
            machines.log(f"{before.id} cannot be read: {told(error)}")
            # It may have run in the meantime.
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
        """The status of a machine that is off, or None if its console shows none."""
        console = self.machines.console(self.machine)
        if console is not None and console.status is None:
            self.machines.log(f"{self.machine.id}: its console shows {told_steps(console)}")
        return console.status if console is not None else None

    def _look(self) -> str | None:
        """The status of a machine that seems to run. Raises Failed if its job should have begun and has not."""
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
    """The last step of a boot, for messages."""
    return f"step {console.steps[-1]}" if console.steps else "no step of the boot"


def serve(machines: Machines) -> int:
    """Run this pod's job on a machine. Returns the exit status."""
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
        log(f"{machine.id}: {status or 'ended, and its console shows no status'}")
        if status is not None and status.startswith("gpu-ci status=done "):
            return 0
    except Stop:
        log("the pod is to end")
        machine = machine or machines.left()
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
    """Remove machines that launchers left, and refill the pool. Returns the exit status."""
    try:
        machines.sweep_twice()
        machines.refill()
    except Stop:
        return 1
    return 0


def connect() -> Cloud:
    """Oracle's SDK. It signs with the pod's workload identity."""
    oci = importlib.import_module("oci")
    signer = oci.auth.signers.get_oke_workload_identity_resource_principal_signer()

    @cache
    def client(kind: str, region: str) -> Any:
        return getattr(oci.core, kind)({"region": region}, signer=signer)

    return Cloud(
        compute=partial(client, "ComputeClient"),
        management=partial(client, "ComputeManagementClient"),
        models=oci.core.models,
        service_error=oci.exceptions.ServiceError,
        # Transport errors of the SDK's requests are OSErrors. A token that cannot be renewed raises a RuntimeError.
        errors=(oci.exceptions.ServiceError, oci.exceptions.ClientError, OSError, RuntimeError),
    )


def main() -> int:
    """Read the pod's environment and config, and run its job or a sweep. Returns the exit status."""
    sweeping = sys.argv[1:] == ["sweep"]
    # Remove the registration from the environment at once. No child process needs it.
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
