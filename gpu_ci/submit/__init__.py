"""Prints the manifest of a GPU Job, or sends it with the official Kubernetes client and follows it with progress and logs.

Importing this package does not load the client; `connect` does. docs/submit.md shows its use and the rights that it needs.
"""

from fleet.facts.yaml_text import yaml_text
from gpu_ci.submit.api import connect, delete, follow, run, run_all, status_of
from gpu_ci.submit.errors import ApiError, InputError, SubmitError, UnreachableError
from gpu_ci.submit.runs import Outcome, Output, Result, RunOptions
from gpu_ci.submit.sending import Sent, read_job, send

__all__ = ["ApiError", "InputError", "Outcome", "Output", "Result", "RunOptions", "Sent", "SubmitError", "UnreachableError"]
__all__ += ["connect", "delete", "follow", "read_job", "run", "run_all", "send", "status_of", "yaml_text"]
