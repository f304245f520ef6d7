"""What the launcher uses of Oracle's cloud, with time of its own. Arguments are held to what the real SDK takes (sdk.json)."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fleet.providers.oke.machine import launcher

SDK: dict[str, Any] = json.loads((Path(__file__).parent / "sdk.json").read_text(encoding="utf-8"))
START = 1_800_000_000.0
DONE = "[   61.0] x\r\ngpu-ci status=done step=done code=0\r\n[   62.0] reboot: Power down\r\n"
PAGE = 2
POOL = "ocid1.instancepool.oc1.us-sanjose-1.example"


class ServiceError(Exception):
    """What the SDK raises for an answer that is not 2xx."""

    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        super().__init__(f"{status} {code} {message}")
        self.status, self.code, self.message = status, code, message


class FakeClock(launcher.Clock):
    """Waiting moves the time. `stop_at` is when SIGTERM comes; `at` runs something at a time."""

    def __init__(self, stop_at: float | None = None) -> None:
        super().__init__()
        self.time = START
        self.stop_at = stop_at
        self._plans: list[tuple[float, Callable[[], object]]] = []

    def at(self, after: float, what: Callable[[], object]) -> None:
        """Run something as soon as `after` seconds have passed."""
        self._plans.append((START + after, what))

    def now(self) -> float:
        """The time."""
        return self.time

    def wait(self, seconds: float) -> None:
        """Move the time."""
        self.pause(seconds)
        if self.stop_at is not None and self.time >= START + self.stop_at:
            raise launcher.Stop

    def pause(self, seconds: float) -> None:
        """Move the time, whatever comes."""
        self.time += seconds
        assert self.time < START + 40 * 86_400, "the launcher waits forever"
        for plan in [plan for plan in self._plans if plan[0] <= self.time]:
            self._plans.remove(plan)
            plan[1]()


class FakeOci:
    """Instances by OCID, over regions, and one instance pool. `life` is what a new machine does: (seconds after launch, state).

    The last state of a life is its end, and writes the status on the console. Before that there is `boot` on it.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.instances: dict[str, Any] = {}
        self.pool: list[str] = []
        self.pool_size = 2
        self.pool_state = "RUNNING"
        self.tokens: dict[str, str] = {}
        self.times: list[float] = []
        self.calls: list[tuple[str, str, str, tuple[Any, ...], dict[str, Any]]] = []
        self.life: list[tuple[float, str]] = [(0, "PROVISIONING"), (60, "RUNNING"), (600, "STOPPED")]
        self.console: str | bytes | Exception = DONE.encode()
        self.boot: str | bytes | Exception = b"booting\r\ngpu-ci step=start\r\ngpu-ci step=job\r\n"
        self.trouble: Callable[[str, str, tuple[Any, ...]], None] = lambda region, method, args: None
        self.histories: dict[str, str] = {}
        self.console_looks = 0
        self.capture_end = "SUCCEEDED"
        self.partial = b""
        self._looks: dict[str, int] = {}

    def cloud(self) -> launcher.Cloud:
        """What the launcher gets."""
        return launcher.Cloud(
            compute=lambda region: _Client(self, "compute", region),
            management=lambda region: _Client(self, "management", region),
            models=_Models(),
            service_error=ServiceError,
            errors=(ServiceError, OSError, RuntimeError),
        )

    def add(
        self,
        region: str = "us-sanjose-1",
        *,
        tags: dict[str, str],
        life: list[tuple[float, str]] | None = None,
        age: float = 0,
        console: str | bytes | Exception | None = None,
        pooled: bool = False,
        metadata: dict[str, str] | None = None,
    ) -> str:
        """An instance that is there already; its OCID."""
        ocid = f"ocid1.instance.oc1.{region}.m{len(self.instances)}"
        self.instances[ocid] = SimpleNamespace(
            id=ocid,
            region=region,
            born=self.clock.now() - age,
            life=life or [(0, "RUNNING")],
            ended=None,
            tags=tags,
            metadata=metadata or {"user_data": "I2Nsb3VkLWNvbmZpZwo="},
            console=console if console is not None else self.console,
            version=1,
        )
        if pooled:
            self.pool.append(ocid)
        return ocid

    def state(self, ocid: str) -> str:
        """The lifecycle state now."""
        held = self.instances[ocid]
        if held.ended:
            return str(held.ended)
        age = self.clock.now() - held.born
        return str([state for since, state in held.life if since <= age][-1])

    def state_in_list(self, ocid: str) -> str:
        """The state in the words of the pool's list."""
        return self.state(ocid).title() if ocid in self.instances else "Running"

    def called(self, method: str) -> list[tuple[Any, ...]]:
        """Positional arguments of each call of a method."""
        return [args for _, _, name, args, _ in self.calls if name == method]

    # -- the service -----------------------------------------------------------------------------------------------------

    def _read(self, ocid: str) -> SimpleNamespace:
        held = self.instances[ocid]
        created = datetime.datetime.fromtimestamp(held.born, tz=datetime.UTC)
        return SimpleNamespace(
            id=ocid,
            lifecycle_state=self.state(ocid),
            freeform_tags=dict(held.tags),
            metadata=dict(held.metadata),
            time_created=created,
        )

    def _found(self, ocid: str) -> Any:
        if ocid not in self.instances:
            raise ServiceError(404, "NotAuthorizedOrNotFound", "no such instance")
        return self.instances[ocid]

    def launch_instance(self, region: str, details: Any, opc_retry_token: str) -> Any:
        """A new machine; the one that the same token made, if there is such a one."""
        assert 0 < len(opc_retry_token) <= 64
        if opc_retry_token not in self.tokens:
            self.tokens[opc_retry_token] = self.add(
                region, tags=details.freeform_tags, life=list(self.life), metadata=details.metadata
            )
        return _answer(self._read(self.tokens[opc_retry_token]))

    def get_instance(self, region: str, ocid: str) -> Any:
        """A machine of the region that is asked."""
        held = self._found(ocid)
        assert held.region == region
        return _answer(self._read(ocid), etag=f"v{held.version}")

    def list_instances(self, region: str, compartment: str, page: str = "0") -> Any:
        """All of a region, few at a time."""
        assert compartment == "ocid1.compartment.oc1..example"
        return _page([self._read(ocid) for ocid, held in self.instances.items() if held.region == region], int(page))

    def terminate_instance(self, region: str, ocid: str, preserve_boot_volume: bool) -> Any:
        """The end of a machine and of its disk."""
        assert preserve_boot_volume is False
        self._found(ocid).ended = "TERMINATED"
        return _answer(None)

    def update_instance(self, region: str, ocid: str, details: Any, if_match: str) -> Any:
        """New tags and metadata, whole, if no other was faster and nothing that is fixed at launch differs."""
        held = self._found(ocid)
        if if_match != f"v{held.version}":
            raise ServiceError(412, "NoEtagMatch", "etag does not match")
        for key in ("user_data", "ssh_authorized_keys"):
            if details.metadata.get(key) != held.metadata.get(key):
                raise ServiceError(400, "InvalidParameter", f"{key} cannot be changed after launch")
        held.tags, held.metadata, held.version = details.freeform_tags, details.metadata, held.version + 1
        return _answer(self._read(ocid))

    def list_instance_pool_instances(self, region: str, compartment: str, pool: str, page: str = "0") -> Any:
        """The pool's members, few at a time; their state is in words of its own."""
        assert pool == POOL
        return _page([SimpleNamespace(id=ocid, state=self.state_in_list(ocid)) for ocid in self.pool], int(page))

    def get_instance_pool(self, region: str, pool: str) -> Any:
        """The pool."""
        assert pool == POOL
        return _answer(SimpleNamespace(id=pool, lifecycle_state=self.pool_state, size=self.pool_size))

    def update_instance_pool(self, region: str, pool: str, details: Any) -> Any:
        """Another size."""
        assert pool == POOL
        self.pool_size, self.pool_state = details.size, "SCALING"
        return self.get_instance_pool(region, pool)

    def detach_instance_pool_instance(self, region: str, pool: str, details: Any) -> Any:
        """A member leaves the pool and ends; the pool stays as large as it is."""
        assert (details.is_decrement_size, details.is_auto_terminate) == (False, True)
        self._found(details.instance_id).ended = "TERMINATED"
        self.pool.remove(details.instance_id)
        return _answer(None)

    def capture_console_history(self, region: str, details: Any) -> Any:
        """A record of the console as it is."""
        console = self._found(details.instance_id).console
        if isinstance(console, Exception):
            raise console
        name = f"history{len(self.histories)}"
        self.histories[name] = details.instance_id
        self._looks[name] = 0
        return _answer(SimpleNamespace(id=name, lifecycle_state="REQUESTED"))

    def get_console_history(self, region: str, history: str) -> Any:
        """A record's state: after `console_looks` looks it is `capture_end`."""
        assert history in self.histories
        self._looks[history] += 1
        state = self.capture_end if self._looks[history] > self.console_looks else "GETTING-HISTORY"
        return _answer(SimpleNamespace(id=history, lifecycle_state=state))

    def get_console_history_content(self, region: str, history: str, length: int) -> Any:
        """A record's bytes, `partial` before the capture has succeeded.

        Before the machine's last state there is no status in them.
        """
        held = self.instances[self.histories[history]]
        assert length > 1_000_000
        if self._looks[history] <= self.console_looks or self.capture_end != "SUCCEEDED":
            return _answer(self.partial)
        over = self.clock.now() - held.born >= held.life[-1][0] and held.life != [(0, "RUNNING")]
        if not over and isinstance(self.boot, Exception):
            raise self.boot
        return _answer(held.console if over else self.boot)

    def delete_console_history(self, region: str, history: str) -> Any:
        """A record that is not kept."""
        del self.histories[history]
        return _answer(None)


def _answer(data: Any, etag: str = "") -> SimpleNamespace:
    return SimpleNamespace(data=data, headers={"etag": etag}, has_next_page=False, next_page=None)


def _page(items: list[Any], start: int) -> SimpleNamespace:
    more = start + PAGE < len(items)
    held = items[start : start + PAGE]
    return SimpleNamespace(data=held, headers={}, has_next_page=more, next_page=str(start + PAGE) if more else None)


class _Client:
    """A client that takes what the real one takes and writes down what it was asked."""

    def __init__(self, oci: FakeOci, kind: str, region: str) -> None:
        self._oci, self._kind, self._region = oci, kind, region

    def __getattr__(self, method: str) -> Callable[..., Any]:
        takes = SDK[self._kind][method]

        def call(*args: Any, **kwargs: Any) -> Any:
            assert len(args) == len(takes["required"]), f"{method} takes {takes['required']}"
            assert set(kwargs) <= set(takes["optional"]), f"{method} takes {takes['optional']}"
            self._oci.times.append(self._oci.clock.now())
            self._oci.calls.append((self._kind, self._region, method, args, kwargs))
            self._oci.trouble(self._region, method, args)
            return getattr(self._oci, method)(self._region, *args, **kwargs)

        return call


class _Models:
    """The SDK's model classes: a field that one has not is a TypeError, as there."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        fields = SDK["models"][name]

        def make(**given: Any) -> SimpleNamespace:
            if unknown := set(given) - set(fields):
                raise TypeError(f"{name}: unrecognized {sorted(unknown)}")
            return SimpleNamespace(**given)

        return make


def plain(model: Any) -> Any:
    """A model as plain data, without what is None, as the SDK sends it."""
    if isinstance(model, SimpleNamespace):
        return {key: plain(value) for key, value in vars(model).items() if value is not None}
    return model


def methods(oci: FakeOci) -> Iterator[str]:
    """Names of the calls that were made, in order."""
    return (name for _, _, name, _, _ in oci.calls)
