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
    namespace = text(job, "metadata", "namespace")
    if namespace and namespace != cluster.namespace:
        raise InputError(
            f"metadata.namespace: the Job is for namespace {namespace}, not {cluster.namespace}; pass -n {namespace}"
        )
    manifest = hashed(job)
    backoff = Backoff(options.timing)
    existing = options.existing
    for tries in reversed(range(_TRIES)):
        try:
            stored, warnings = cluster.create(JOBS, manifest)
            return Sent(stored, True, warnings)
        except ApiError as error:
            if error.code == 409 and error.reason == "AlreadyExists":
                sent = _existing(cluster, manifest, existing, backoff)
                if sent is not None:
                    return sent
            elif not tries or not error.temporary:
                raise
            else:
                output.progress(name(manifest), f"{error.headline}; trying again in {backoff.pause(error):g} seconds")
                backoff.wait(error)
        except UnreachableError:
            # Retry only if the server still answers: then it may have created the Job although its response was lost.
            if not tries or not _answers(cluster, manifest):
                raise
            existing = "follow" if existing == "refuse" else existing
            backoff.wait()
    raise InputError(f"Job {name(manifest)} cannot be created: the old one is still being deleted; try again later")


def _answers(cluster: Cluster, manifest: Object) -> bool:
    try:
        cluster.get(JOBS, name(manifest))
    except SubmitError as error:
        return not isinstance(error, UnreachableError)
    return True


def _existing(cluster: Cluster, manifest: Object, existing: Existing, backoff: Backoff) -> Sent | None:
    """The existing Job if it is to be followed; None if the name is, or soon will be, free."""
    title = name(manifest)
    try:
        stored = cluster.get(JOBS, title)
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    if text(stored, "metadata", "deletionTimestamp"):
        backoff.wait()
        return None
    is_equal = hash_of(stored) == hash_of(manifest)
    if existing == "follow" and is_equal:
        return Sent(stored, False)
    if existing == "replace":
        cluster.delete(JOBS, title, uid(stored))
        backoff.reset()
        backoff.wait()
        return None
    state = "complete" if true_condition(stored, "Complete") else "failed" if true_condition(stored, "Failed") else "not ended"
    contents = "the same contents" if is_equal else "other contents"
    ways = "--existing follow follows it, " if is_equal else ""
    raise InputError(
        f"Job {title} is in namespace {cluster.namespace} already, with {contents} ({state}); {ways}--existing replace deletes "
        "it and sends this one, another --task-id gives another name"
    )
