"""Valid Kubernetes names for the names that people give their tasks."""

from __future__ import annotations

import hashlib
import re

LONGEST = 57
"""A pod's name is its Job's name, a hyphen and five characters. It is a host name too, of at most 63 characters (RFC 1123)."""
_HASH = 8
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_OTHERS = re.compile(r"[^a-z0-9]+")


def job_name(task_id: str) -> str:
    """The Job's name for a task: the task's name if it is a DNS label of at most 57 characters.

    Otherwise its valid characters, and eight hexadecimal digits of its SHA-256. So ml_task and ml-task are two Jobs, and the same
    task always has the same name.
    """
    if len(task_id) <= LONGEST and _LABEL.fullmatch(task_id):
        return task_id
    digest = hashlib.sha256(task_id.encode()).hexdigest()[:_HASH]
    readable = _OTHERS.sub("-", task_id.lower())[: LONGEST - _HASH - 1].strip("-") or "job"
    return f"{readable}-{digest}"
