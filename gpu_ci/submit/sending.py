"""Sends a Job, and decides what to do about an existing Job of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_ci.submit.errors import ApiError, InputError, SubmitError, UnreachableError
from gpu_ci.submit.manifest import check, hash_of, hashed
from gpu_ci.submit.objects import JOBS, Object, name, text, true_condition, uid
from gpu_ci.submit.options import Backoff, Existing, RunOptions
from gpu_ci.submit.output import Output

if TYPE_CHECKING:
    from gpu_ci.submit.cluster import Cluster

_TRIES = 8
"""A minute with the default pauses, in which the pods of a Job that is being deleted can end."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The Job as the server stored it. `created`: it did not exist before."""

    job: Object
    created: bool
    warnings: tuple[str, ...] = ()


def send_job(cluster: Cluster, job: Object, options: RunOptions, output: Output) -> Sent:
    """Create the Job in the cluster's namespace.

    `output` shows each refusal that a retry may end. A retry creates no second Job: if a response is lost, an existing Job with
    the same contents counts as created. Raises InputError if it is not a Job or its name is taken, ApiError if the cluster
    refuses it, UnreachableError otherwise.
    """
    check(job)
    own = text(job, "metadata", "namespace")
    if own and own != cluster.namespace:
        raise InputError(f"metadata.namespace: the Job is for namespace {own}, not {cluster.namespace}; pass -n {own}")
    wanted = hashed(job)
    backoff = Backoff(options.timing)
    existing = options.existing
    for left in reversed(range(_TRIES)):
        try:
            stored, warnings = cluster.create(JOBS, wanted)
            return Sent(stored, True, warnings)
        except ApiError as error:
            if error.code == 409 and error.reason == "AlreadyExists":
                sent = _existing(cluster, wanted, existing, backoff)
                if sent is not None:
                    return sent
            elif not left or not error.temporary:
                raise
            else:
                output.progress(name(wanted), f"{error.headline}; trying again in {backoff.pause(error):g} seconds")
                backoff.wait(error)
        except UnreachableError:
            # Retry only if the server still answers: then it may have created the Job although its response was lost.
            if not left or not _answers(cluster, wanted):
                raise
            existing = "follow" if existing == "refuse" else existing
            backoff.wait()
    raise InputError(f"Job {name(wanted)} cannot be created: the old one is still being deleted; try again later")


def _answers(cluster: Cluster, wanted: Object) -> bool:
    try:
        cluster.get(JOBS, name(wanted))
    except SubmitError as error:
        return not isinstance(error, UnreachableError)
    return True


def _existing(cluster: Cluster, wanted: Object, existing: Existing, backoff: Backoff) -> Sent | None:
    """The existing Job if it is to be followed; None if the name is, or soon will be, free."""
    called = name(wanted)
    try:
        found = cluster.get(JOBS, called)
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    if text(found, "metadata", "deletionTimestamp"):
        backoff.wait()
        return None
    same = hash_of(found) == hash_of(wanted)
    if existing == "follow" and same:
        return Sent(found, False)
    if existing == "replace":
        cluster.delete(JOBS, called, uid(found))
        backoff.reset()
        backoff.wait()
        return None
    state = "complete" if true_condition(found, "Complete") else "failed" if true_condition(found, "Failed") else "not ended"
    what = "the same contents" if same else "other contents"
    ways = "--existing follow follows it, " if same else ""
    raise InputError(
        f"Job {called} is in namespace {cluster.namespace} already, with {what} ({state}); {ways}--existing replace deletes it "
        "and sends this one, another --task-id gives another name"
    )
