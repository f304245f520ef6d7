"""A Job as a file and as the manifest to send: reads it, checks it without a cluster, and identifies it by its hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from fleet.facts import errors
from fleet.facts.scheduling import JOB_HASH
from fleet.facts.yaml_text import plain
from fleet.loading.documents import documents
from gpu_ci.submit.errors import InputError
from gpu_ci.submit.objects import Object, at, part, parts, text

_HASH_SIGNS = 16


def read_job(path: Path) -> dict[str, Any]:
    """The one Job of a file, YAML or JSON. Raises InputError, which repeats no value of the file."""
    try:
        filled = [document for document in documents(path) if document.value is not None]
    except OSError as error:
        raise InputError(f"--manifest: {path} cannot be read ({error.strerror}); name another") from error
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
    kind = (at(job, "apiVersion"), at(job, "kind"))
    if kind != ("batch/v1", "Job"):
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
    digest = hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()[:_HASH_SIGNS]
    sent["metadata"]["annotations"] = annotations | {JOB_HASH: digest}
    return sent


def hash_of(job: Object) -> str:
    """The hash in a Job's annotation; empty if `submit` did not send the Job."""
    return text(job, "metadata", "annotations", JOB_HASH)
