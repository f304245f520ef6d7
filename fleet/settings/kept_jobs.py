"""Jobs that failed and whose pods stay for some minutes, so that people can look inside."""

from typing import Annotated

from fleet.settings.model import Duration, Model, between, matching

_TIME_RULE = "a failed job is kept from 1m to 60m; write a time such as 15m"
_GROUP_RULE = (
    "not a Kubernetes group of your own: it begins with a letter or digit, has no space, and not the prefix system:, which "
    "Kubernetes reserves (all users are in one of these groups); write one such as gpu-ci-debug"
)
# kubernetes.io, Using RBAC Authorization, "Referring to subjects".
_GROUP = r"(?!system:)[A-Za-z0-9][A-Za-z0-9._:/@-]*"
DEFAULT_TIMEOUT = 360
"""Minutes after which GitHub ends a job that says nothing (docs.github.com, workflow syntax, timeout-minutes)."""


class KeepFailed(Model):
    """How long the pod of a failed job stays, and who may look inside."""

    time: Annotated[Duration, between("keep_time", _TIME_RULE, 60, 3600)]
    """How long the pod stays after the last step, from 1m to 60m. The job runs on until then, and its GPUs cost money. Example:
    `15m`"""
    group: Annotated[str, matching("keep_group", _GROUP_RULE, _GROUP, most=253)]
    """The Kubernetes group that may run commands in all pods of the class, those of running jobs included
    (docs/failed-jobs.md#who-may-look). Example: `gpu-ci-debug`"""
