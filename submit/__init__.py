"""A GPU Job's manifest printed, sent to a cluster with the official Kubernetes client, and followed with progress and logs.

Loading it loads no client: that comes with `connect`. docs/submit.md shows how to use it, and what rights it needs.
"""

from fleet.facts.yaml_text import yaml_text
from submit.api import DEFAULT, Propagation, Ways, connect, delete, follow, run, run_all, send, status_of
from submit.errors import ApiError, InputError, SubmitError, UnreachableError
from submit.manifest import read_job
from submit.result import Outcome, Result
from submit.sending import Existing, Sent
from submit.story import Limits
from submit.view import Live, Plain, Quiet, Teller, teller

__all__ = [
    "DEFAULT",
    "ApiError",
    "Existing",
    "InputError",
    "Limits",
    "Live",
    "Outcome",
    "Plain",
    "Propagation",
    "Quiet",
    "Result",
    "Sent",
    "SubmitError",
    "Teller",
    "UnreachableError",
    "Ways",
    "connect",
    "delete",
    "follow",
    "read_job",
    "run",
    "run_all",
    "send",
    "status_of",
    "teller",
    "yaml_text",
]
