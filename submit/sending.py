"""Sends a Job, and makes sense of one that is there already."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from submit.errors import ApiError, InputError, SubmitError, UnreachableError
from submit.kinds import JOBS
from submit.manifest import check, hash_of, hashed
from submit.objects import Object, holds, name, text, uid
from submit.pace import Pace, Pause

if TYPE_CHECKING:
    from submit.cluster import Cluster

Existing = Literal["refuse", "follow", "replace"]
"""What to do about a Job of the same name: nothing; follow it if it is the same; delete it and send this one."""

_TRIES = 8
"""A minute at the usual pace: as long as a Job that is being deleted may wait for its pods."""
_EXISTS, _MISSING = 409, 404


@dataclass(frozen=True, slots=True)
class Sent:
    """The Job as the server has it. `made`: it was made now, and not there before."""

    job: Object
    made: bool
    warnings: tuple[str, ...] = ()


def send(cluster: Cluster, job: Object, existing: Existing = "refuse", *, pace: Pace) -> Sent:
    """Make the Job in the cluster's namespace.

    Sent twice it is still one Job: where an answer breaks off, a Job of that name with the same contents counts as made.
    Raises InputError for what is no Job or is there already, ApiError for a refusal, UnreachableError where nothing answers.
    """
    check(job)
    own = text(job, "metadata", "namespace")
    if own and own != cluster.namespace:
        raise InputError(f"metadata.namespace: the Job is for namespace {own}, not {cluster.namespace}; give -n {own}")
    wanted = hashed(job)
    pause = Pause(pace, threading.Event())
    unsure = False
    for left in reversed(range(_TRIES)):
        try:
            made = cluster.create(JOBS, wanted)
            return Sent(made.thing, True, made.warnings)
        except ApiError as error:
            if error.code == _EXISTS and error.answer.reason == "AlreadyExists":
                sent = _there(cluster, wanted, "follow" if unsure and existing == "refuse" else existing, pause)
                if sent is not None:
                    return sent
            elif not left or not error.passing:
                raise
            else:
                pause.wait(error)
        except UnreachableError:
            # Before the first answer nothing is there to wait for; after it, the server may be about to come back.
            if not left or not _reached(cluster, wanted):
                raise
            unsure = True
            pause.wait()
    raise InputError(f"Job {name(wanted)} cannot be made: it is still being deleted; try again in a while")


def _reached(cluster: Cluster, wanted: Object) -> bool:
    """Whether the server answers at all: only then may the Job have been made though its answer broke off."""
    try:
        cluster.get(JOBS, name(wanted))
    except UnreachableError:
        return False
    except SubmitError:
        return True
    return True


def _there(cluster: Cluster, wanted: Object, existing: Existing, pause: Pause) -> Sent | None:
    """The Job that has the name already, if it will do; None where the way is free now, or soon."""
    called = name(wanted)
    try:
        found = cluster.get(JOBS, called)
    except ApiError as error:
        if error.code == _MISSING:
            return None
        raise
    if text(found, "metadata", "deletionTimestamp"):
        pause.wait()
        return None
    same = hash_of(found) == hash_of(wanted)
    if existing == "follow" and same:
        return Sent(found, False)
    if existing == "replace":
        cluster.delete_job(called, uid(found))
        pause.reset()
        pause.wait()
        return None
    state = "complete" if holds(found, "Complete") else "failed" if holds(found, "Failed") else "not ended"
    what = "the same contents" if same else "other contents"
    ways = "--existing follow follows it, " if same else ""
    raise InputError(
        f"Job {called} is in namespace {cluster.namespace} already, with {what} ({state}); {ways}--existing replace deletes it "
        "and sends this one, another --task-id gives another name"
    )
