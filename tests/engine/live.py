"""What exists in the simulated clouds, and the faults that a test sets.

Several providers of one test share one Cloud. What a killed `pulumi up` leaves behind is live and in no state.
"""

from __future__ import annotations

import functools
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.engine import kinds, refusals


@dataclass(frozen=True)
class Asked:
    """One call. `inputs` has the markers of offline.wire: printed, it shows no secret."""

    method: str
    type: str
    urn: str
    preview: bool = False
    inputs: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method}{' (preview)' if self.preview else ''} {self.urn or self.type}"


@dataclass
class Live:
    """One resource of a cloud. It knows no URN.

    `scope` is the region or the cluster that it lies in, `number` counts the creations of the whole cloud from 1.
    `inputs` and `outputs` are raw (as of `offline.wire`).
    """

    type: str
    id: str
    scope: str
    number: int
    inputs: dict[str, Any] = field(repr=False)
    outputs: dict[str, Any] = field(repr=False)

    @property
    def tags(self) -> dict[str, Any]:
        """Its tags, by key; of a Kubernetes object its labels."""
        metadata = self.inputs.get("metadata") or {}
        return dict(self.inputs.get("tags") or self.inputs.get("freeformTags") or metadata.get("labels") or {})

    def change(self, path: str, value: object) -> None:
        """Sets a property, as somebody else would: `change("scalingConfig.desiredSize", 3)`. A refresh then shows it."""
        for side in (self.inputs, self.outputs):
            *above, last = path.split(".")
            functools.reduce(lambda part, key: part.setdefault(key, {}), above, side)[last] = value


Harm = Literal["refused", "half", "held"]


@dataclass
class Fault:
    """What goes wrong with calls, previews left out.

    It meets the calls of `method` whose URN has a match of the pattern `where`. Of these it harms the nth, counted from 1, or,
    with `every`, each nth. The harm is one of
    - refused: the cloud answers with `error`, and nothing changes;
    - half: the resource exists, but did not become ready: the engine gets its id, and the error that it failed to initialize;
    - held: the cloud does what was asked, and the call does not return before `release` is set or its caller is gone.
    """

    method: str = "Create"
    where: str = ""
    nth: int = 1
    every: bool = False
    harm: Harm = "refused"
    error: str = "ThrottlingException: Rate exceeded"
    reached: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set when a call is harmed. A held one has changed the cloud then."""
    release: threading.Event = field(default_factory=threading.Event, repr=False)
    met: int = 0

    def harms(self, asked: Asked) -> bool:
        """Counts the call. Whether it is one that goes wrong."""
        if asked.preview or asked.method != self.method or not re.search(self.where, asked.urn):
            return False
        self.met += 1
        return self.met % self.nth == 0 if self.every else self.met == self.nth


class RefusedError(Exception):
    """The cloud refuses a call. Its text is the cloud's."""


class Cloud:
    """All resources that exist. `asked` has every call of its providers in the order of arrival."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.faults: list[Fault] = []
        self.kubeconfig = ""
        """How to reach the control plane of each cluster, as JSON. Without it they are at addresses that do not exist."""
        self.names_on_check = False
        """Whether providers make up names when they check inputs, as the real ones do: a pending create then has its name."""
        self._resources: dict[tuple[str, str, str], Live] = {}
        self._created: Counter[str] = Counter()
        self._lock = threading.RLock()

    def live(self, kind: str = "", where: Callable[[Live], bool] = lambda _: True) -> list[Live]:
        """What exists, in the order of creation: all of it, or that of one type."""
        with self._lock:
            found = [each for each in self._resources.values() if kind in ("", each.type) and where(each)]
        return sorted(found, key=lambda each: each.number)

    def find(self, kind: str, identity: str, scope: str = "") -> Live | None:
        """The resource of a type with this id, or the id that only an import takes, in a scope or put into none."""
        found = self._resources.get((kind, scope, identity)) or self._resources.get((kind, "", identity))
        return found or next((each for each in self.live(kind) if kinds.import_id(kind, each.id, each.inputs) == identity), None)

    def named(self, kind: str, urn: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs with the name that a check makes up, or made up before."""
        key = kinds.name_of(kind)
        if not self.names_on_check or not key or new.get(key):
            return dict(new)
        return {**new, key: old.get(key) or kinds.automatic(urn, self._created[urn])}

    def fail(self, fault: Fault) -> Fault:
        """Sets a fault until `faults` is cleared."""
        self.faults.append(fault)
        return fault

    def harm(self, asked: Asked) -> Fault | None:
        """Notes a call. The fault that harms it, if one does."""
        with self._lock:
            self.asked.append(asked)
            return next((fault for fault in self.faults if fault.harms(asked)), None)

    def put(self, kind: str, identity: str, inputs: Mapping[str, Any], scope: str = "") -> Live:
        """Adds what somebody else created."""
        with self._lock:
            self._created[""] += 1
            outputs = {**kinds.added(kind, identity, inputs), **inputs}
            made = Live(kind, identity, scope, self._created[""], dict(inputs), outputs)
            self._resources[kind, scope, identity] = made
            return made

    def restore(self, urn: str, live: Live) -> None:
        """Adds what an earlier run created, with the outputs that it got; a creation of this URN makes up another name."""
        with self._lock:
            self._created[urn] += 1
            self._created[""] = max(self._created[""], live.number)
            self._resources[live.type, live.scope, live.id] = live

    def put_existing_cluster(self) -> None:
        """Adds the cluster that the example "existing-eks" uses."""
        self.put("aws:eks/cluster:Cluster", "platform", {"name": "platform"})

    def create(self, kind: str, urn: str, inputs: Mapping[str, Any], scope: str) -> Live:
        """Creates a resource. Raises RefusedError for a name that is taken, or an order that the cloud refuses."""
        with self._lock:
            name = kinds.automatic(urn, self._created[urn])
            identity, named = kinds.identity(kind, name, inputs)
            neighbors = [each for each in self._resources.values() if each.scope == scope or kinds.is_global(kind)]
            if refusal := kinds.taken(kind, {**inputs, **named}, [each.outputs for each in neighbors if each.type == kind]):
                raise RefusedError(refusal)
            self._refuse(kind, inputs, None)
            self._created[urn] += 1
            made = self.put(kind, identity, inputs, scope)
            made.outputs |= named
            return made

    def update(self, live: Live, inputs: Mapping[str, Any]) -> None:
        """Changes a resource. Raises RefusedError for an order that the cloud refuses."""
        with self._lock:
            self._refuse(live.type, inputs, live)
            live.outputs = kinds.updated(live.type, live.outputs, live.inputs, inputs, known=True)
            live.inputs = dict(inputs)

    def remove(self, live: Live) -> None:
        """Deletes a resource, as Pulumi or anybody else does."""
        with self._lock:
            self._resources.pop((live.type, live.scope, live.id), None)

    def _refuse(self, kind: str, inputs: Mapping[str, Any], before: Live | None) -> None:
        subnets = {each.id: each.inputs for each in self.live(refusals.SUBNET)}
        if refusal := refusals.refusal(kind, inputs, before.inputs if before else None, subnets):
            raise RefusedError(refusal)
