"""Jobs that failed and whose pods stay for some minutes, so that people can look inside."""

from typing import Annotated

from fleet.settings.model import Duration, Model
from fleet.settings.refusals import between, matching

# kubernetes.io, Using RBAC Authorization, "Referring to subjects".
_GROUP = r"(?!system:)[A-Za-z0-9][A-Za-z0-9._:/@-]*"


class KeepFailed(Model):
    """How long the pod of a failed job stays, and who may look inside."""

    time: Annotated[Duration, between("keep_time", 60, 3600)]
    """How long the pod stays after the last step, from 1m to 60m. The job runs on until then, and its GPUs cost money. Example:
    `15m`"""
    group: Annotated[str, matching("keep_group", _GROUP, most=253)]
    """The Kubernetes group that may run commands in all pods of the class, those of running jobs included
    (docs/failed-jobs.md#who-may-look). Example: `gpu-ci-debug`"""
