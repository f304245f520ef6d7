"""Reads a Job, checks it without a cluster, sends it, and decides what to do about an existing Job of the same name."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from fleet.facts import errors
from fleet.facts.nested import at, part, parts
from fleet.facts.scheduling import JOB_HASH
from fleet.facts.yaml_text import plain
from fleet.loading.documents import documents
from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.errors import ApiError, InputError, SubmitError, UnreachableError
from gpu_ci.submit.objects import JOBS, Object, name, text, true_condition, uid
from gpu_ci.submit.runs import DEFAULT, Backoff, Existing, Output, RunOptions


class Sent(NamedTuple):
    """The Job as the server stored it. `created`: it did not exist before."""

    job: Object
    created: bool
    warnings: tuple[str, ...] = ()


def send(job: Object, cluster: Cluster, options: RunOptions = DEFAULT, output: Output | None = None) -> Sent:
    """Create a Job in the cluster's namespace, without following it.

    Raises InputError if it is not a Job or its name is taken, ApiError if the cluster refuses it, UnreachableError otherwise.
    """
    check(job)
    if (namespace := text(job, "metadata", "namespace")) and namespace != cluster.namespace:
        why = f"metadata.namespace: the Job is for namespace {namespace}, not {cluster.namespace}"
        raise InputError(f"{why}; pass -n {namespace}")
    output = output or Output()
    sent = _sent(cluster, hashed(job), options, output)
    for warning in sent.warnings:
        output.progress(name(job), f"warning: {warning}")
    how = "created" if sent.created else "already exists with the same contents"
    output.progress(name(job), f"{how} in namespace {cluster.namespace}")
    return sent


def _sent(cluster: Cluster, manifest: Object, options: RunOptions, output: Output) -> Sent:
    """Create the Job. `output` shows each refusal that a retry may end.

    A retry creates no second Job: if a response is lost, an existing Job with the same contents counts as created.
    """
    backoff = Backoff(options.timing)
    existing = options.existing
    # A minute with the default pauses, in which the pods of a Job that is being deleted can end.
    for tries in reversed(range(8)):
        try:
            stored, warnings = cluster.create(JOBS, manifest)
            return Sent(stored, True, warnings)
        except ApiError as error:
            if error.code == 409 and error.reason == "AlreadyExists":
                if (sent := _existing(cluster, manifest, existing, backoff)) is not None:
                    return sent
            elif not tries or not error.temporary:
                raise
            else:
                pause = backoff.pause(error)
                output.progress(name(manifest), f"{error.headline}; trying again in {pause:g} seconds")
                time.sleep(pause)
        except UnreachableError:
            # Retry only if the server still answers: then it may have created the Job although its response was lost.
            if not tries or not _answers(cluster, manifest):
                raise
            existing = "follow" if existing == "refuse" else existing
            time.sleep(backoff.pause())
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
    if (stored := cluster.find(JOBS, title)) is None:
        return None
    if text(stored, "metadata", "deletionTimestamp"):
        time.sleep(backoff.pause())
        return None
    is_equal = hash_of(stored) == hash_of(manifest)
    if existing == "follow" and is_equal:
        return Sent(stored, False)
    if existing == "replace":
        cluster.delete(JOBS, title, uid(stored))
        backoff.reset()
        time.sleep(backoff.pause())
        return None
    state = "complete" if true_condition(stored, "Complete") else "failed" if true_condition(stored, "Failed") else "not ended"
    contents = "the same contents" if is_equal else "other contents"
    ways = "--existing follow follows it, " if is_equal else ""
    why = f"Job {title} is in namespace {cluster.namespace} already, with {contents} ({state})"
    raise InputError(f"{why}; {ways}--existing replace deletes it and sends this one, another --task-id gives another name")


def read_job(path: Path) -> dict[str, Any]:
    """The one Job of a file, YAML or JSON. Raises InputError, which repeats no value of the file."""
    try:
        with errors.reachable(f"--manifest: {path} cannot be read", "name another"):
            filled = [document for document in documents(path) if document.value is not None]
    except errors.InputError as error:
        raise InputError(str(error)) from None
    if len(filled) != 1 or not isinstance(job := filled[0].value, dict):
        raise InputError(f"{path}: must hold one Job; it holds {len(filled)} documents; put each Job into its own file")
    if filled[0].fault:
        raise InputError(str(filled[0].fault))
    check(job, str(path))
    return job


def check(job: Object, source: str = "the manifest") -> None:
    """Raise InputError if this is not a Job that can be sent. The API server checks the rest."""
    if (kind := (at(job, "apiVersion"), at(job, "kind"))) != ("batch/v1", "Job"):
        raise InputError(f"{source}: must be a batch/v1 Job; it is {kind[0]} {kind[1]}; use kubectl apply for other kinds")
    if not text(job, "metadata", "name"):
        raise InputError(f"{source}: metadata.name must be set, because submit finds the Job by its name")
    if not parts(job, "spec", "template", "spec", "containers"):
        raise InputError(f"{source}: spec.template.spec.containers must name a container; otherwise nothing would run")


def hashed(job: Object) -> dict[str, Any]:
    """The same Job with the hash of its contents as an annotation."""
    sent: dict[str, Any] = plain(job)
    sent.pop("status", None)
    annotations = {key: value for key, value in part(sent, "metadata", "annotations").items() if key != JOB_HASH}
    sent["metadata"].pop("annotations", None)
    if annotations:
        sent["metadata"]["annotations"] = annotations
    digest = hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()[:16]
    sent["metadata"]["annotations"] = annotations | {JOB_HASH: digest}
    return sent


def hash_of(job: Object) -> str:
    """The hash in a Job's annotation; empty if `submit` did not send the Job."""
    return text(job, "metadata", "annotations", JOB_HASH)
