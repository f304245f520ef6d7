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
     "pool": OCID of the instance pool}

A machine has the freeform tags gpu-ci-set and, once it has a job, gpu-ci-runner. ARC makes a pod anew with the same registration:
the machine that bears the runner's name is taken on again. A machine tells how its job went by one line on its serial console.

Exit status: 0 when the machine reports done, 1 otherwise. Never 7: ARC takes that for a runner version out of support.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JIT_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"
JIT_KEY = "gpu-ci-jit"
SET_TAG = "gpu-ci-set"
RUNNER_TAG = "gpu-ci-runner"
CLAIMED_TAG = "gpu-ci-claimed"
"""Seconds since 1970 at which a standing machine got its job."""

POLL = 15.0
CONSOLE_EVERY = 120.0
"""Seconds between two looks at the console of a running machine: Oracle's documentation does not say that a machine which powers
itself off is shown as STOPPED."""
SWEEP_EVERY = 300.0
GRACE = 120.0
"""Seconds that a stopped machine is left to its own launcher."""
REMOVE_TRIES = 8
CONSOLE_BYTES = 10_000_000
GONE = ("TERMINATING", "TERMINATED")
CAPACITY_CODES = ("LimitExceeded", "QuotaExceeded")
STATUS = re.compile(r"gpu-ci status=(done|failed) step=[a-z]+ code=[0-9]+(?: reason=[A-Za-z0-9._,:/-]*)?")


class Stop(Exception):  # noqa: N818 - a request, not an error
    """Kubernetes asked the pod to end."""


class Failed(Exception):  # noqa: N818 - the outcome, by its name
    """The job will not run, or has not run, on the machine; the message says why."""


class Gone(Failed):
    """There is no machine any more."""


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


class Machines:
    """Where a set's machines come from and go to. `since` is when a machine's lifetime began, None where it has not."""

    def __init__(self, config: dict[str, Any], runner: str, jit: str, cloud: Cloud, clock: Clock, log: Log) -> None:
        self.config = config
        self.runner = runner
        self.jit = jit
        self.cloud = cloud
        self.clock = clock
        self.log = log
        self._stopped_since: dict[str, float] = {}
        self._next_sweep = 0.0

    # -- what differs by mode --------------------------------------------------------------------------------------------

    def everyone(self) -> Iterator[Machine]:
        """Every machine of the set that is not gone."""
        raise NotImplementedError

    def since(self, machine: Machine) -> float | None:
        """When the machine's lifetime began, in seconds since 1970."""
        raise NotImplementedError

    def obtain(self) -> Machine:
        """A machine that has this runner's registration."""
        raise NotImplementedError

    def discard(self, machine: Machine) -> None:
        """Ask the cloud once to remove a machine."""
        raise NotImplementedError

    # -- what both do ----------------------------------------------------------------------------------------------------

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

    def remove(self, machine: Machine) -> None:
        """Remove a machine, however often it takes; a later sweep does what fails here."""
        for attempt in range(REMOVE_TRIES):
            try:
                self.discard(machine)
            except self.cloud.errors as error:
                if getattr(error, "status", None) == 404:
                    return
                self.log(f"{machine.id} is not removed yet: {told(error)}")
                if attempt + 1 < REMOVE_TRIES:
                    self.clock.pause(POLL)
            else:
                self.log(f"{machine.id} removed")
                return
        self.log(f"{machine.id} is left to a later sweep")

    def status(self, machine: Machine) -> str | None:
        """The status line on a machine's serial console, None where there is none or none can be read."""
        compute = self.cloud.compute(machine.region)
        history: Any = None
        try:
            details = self.cloud.models.CaptureConsoleHistoryDetails(instance_id=machine.id)
            history = compute.capture_console_history(details).data
            for _ in range(20):
                state = compute.get_console_history(history.id).data.lifecycle_state
                if state in ("SUCCEEDED", "FAILED"):
                    break
                self.clock.wait(3)
            content = compute.get_console_history_content(history.id, length=CONSOLE_BYTES).data
        except self.cloud.errors as error:
            self.log(f"console of {machine.id} cannot be read: {told(error)}")
            return None
        finally:
            self._forget(compute, history)
        text = content.decode("ascii", "replace") if isinstance(content, bytes) else str(content)
        # A console's last such line: the one before could only be of an earlier boot.
        found = [match.group() for match in STATUS.finditer(text)]
        return found[-1] if found else None

    def _forget(self, compute: Any, history: Any) -> None:
        if history is not None:
            try:
                compute.delete_console_history(history.id)
            except self.cloud.errors as error:
                self.log(f"console history {history.id} stays: {told(error)}")

    def sweep(self, force: bool = False) -> None:
        """Remove what other launchers of the set left behind. Nothing that goes wrong here keeps this one from its job."""
        now = self.clock.now()
        if now < self._next_sweep and not force:
            return
        self._next_sweep = now + SWEEP_EVERY
        try:
            for machine in self.everyone():
                if machine.tags.get(RUNNER_TAG) != self.runner:
                    self._sweep_one(machine, now)
        except self.cloud.errors as error:
            self.log(f"sweep ended early: {told(error)}")

    def _sweep_one(self, machine: Machine, now: float) -> None:
        since = self.since(machine)
        if since is not None and now - since > self.config["lifetime"] + GRACE:
            self.log(f"{machine.id} is older than its lifetime")
            self.remove(machine)
        elif machine.state == "STOPPED" and now - self._stopped_since.setdefault(machine.id, now) >= GRACE:
            self.log(f"{machine.id} is stopped and nobody's: {self.status(machine) or 'no status'}")
            self.remove(machine)


class PerJob(Machines):
    """A machine is launched for the job and terminated after it."""

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

    def obtain(self) -> Machine:
        """Launch a machine: shapes in order, places in order, domains in order. What has no capacity is passed over."""
        for shape in self.config["shapes"]:
            for place in self.config["places"]:
                for domain in place["availabilityDomains"]:
                    self.clock.wait(0)
                    machine = self._launch(shape, place, domain)
                    if machine is not None:
                        return machine
        raise Failed("no capacity for any shape in any place")

    def _launch(self, shape: str, place: dict[str, Any], domain: str) -> Machine | None:
        where = f"{shape} in {domain}"
        try:
            answer = self.cloud.compute(place["region"]).launch_instance(self._details(shape, place, domain))
        except self.cloud.service_error as error:
            if not is_capacity(error):
                raise Failed(f"{where}: {told(error)}") from None
            self.log(f"{where}: {told(error)}")
            return None
        except self.cloud.errors as error:
            return self.after_unknown(error)
        machine = Machine(place["region"], answer.data)
        self.log(f"{where}: launched {machine.id}")
        return machine

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
            metadata={"user_data": config["userData"]},
            extended_metadata={JIT_KEY: self.jit},
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

    def everyone(self) -> Iterator[Machine]:
        """The pool's members."""
        region = self.config["region"]
        members = self.cloud.management(region).list_instance_pool_instances
        for member in self.pages(members, self.config["compartment"], self.config["pool"]):
            try:
                machine = self.read(region, member.id)
            except self.cloud.service_error as error:
                if getattr(error, "status", None) == 404:
                    continue
                raise
            if machine.state not in GONE:
                yield machine

    def since(self, machine: Machine) -> float | None:
        """When it got its job: a machine that waits for one does not age."""
        claimed = machine.tags.get(CLAIMED_TAG, "")
        return float(claimed) if claimed.isdigit() else None

    def obtain(self) -> Machine:
        """Claim a running machine that has no job, or wait for one."""
        self.log("waiting for a machine of the pool that has no job")
        while True:
            try:
                for machine in self.everyone():
                    if machine.state == "RUNNING" and RUNNER_TAG not in machine.tags and self._claim(machine):
                        self.log(f"claimed {machine.id}")
                        return self.read(machine.region, machine.id)
            except self.cloud.errors as error:
                found = self._mine_if_any(error)
                if found is not None:
                    return found
            self.sweep()
            self.clock.wait(POLL)

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
            extended_metadata={**(machine.instance.extended_metadata or {}), JIT_KEY: self.jit},
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
        """Detach it, which terminates it, and have the pool make another."""
        details = self.cloud.models.DetachInstancePoolInstanceDetails(
            instance_id=machine.id, is_decrement_size=False, is_auto_terminate=True
        )
        self.cloud.management(machine.region).detach_instance_pool_instance(self.config["pool"], details)


MODES = {"per-job": PerJob, "standing": Standing}


def watch(machines: Machines, machine: Machine) -> str | None:
    """Wait until a machine has ended. The status line that it wrote, None where none can be read; raises Failed, Stop."""
    state, next_look = "", machines.clock.now() + CONSOLE_EVERY
    while True:
        try:
            machine = machines.read(machine.region, machine.id)
        except machines.cloud.errors as error:
            if getattr(error, "status", None) == 404:
                raise Gone(f"{machine.id} is gone without a status") from None
            machines.log(f"{machine.id} cannot be read: {told(error)}")
            machines.clock.wait(POLL)
            continue
        if machine.state != state:
            state = machine.state
            machines.log(f"{machine.id} is {state}")
        if state in GONE:
            raise Gone(f"{machine.id} was terminated before it wrote a status: preempted, or removed by somebody")
        now = machines.clock.now()
        if state == "STOPPED":
            return machines.status(machine)
        if now >= next_look:
            next_look = now + CONSOLE_EVERY
            status = machines.status(machine)
            if status is not None:
                return status
        since = machines.since(machine)
        if since is not None and now - since > machines.config["lifetime"]:
            raise Failed(f"{machine.id} is older than its lifetime")
        machines.sweep()
        machines.clock.wait(POLL)


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
        machine = machines.mine()
        if machine is None:
            machine = machines.obtain()
        else:
            log(f"took on {machine.id}, which has this runner's job")
        status = watch(machines, machine)
        log(f"{machine.id}: {status or 'ended, and its console tells no status'}")
        return 0 if status is not None and status.startswith("gpu-ci status=done ") else 1
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
    return 1


def clean(machines: Machines) -> int:
    """Remove what launchers left, once. The exit status."""
    try:
        machines.sweep(force=True)
        machines.clock.wait(GRACE)
        machines.sweep(force=True)
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
