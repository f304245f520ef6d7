"""The hook that keeps the pod of a failed job, and what a runner's container needs for it.

GitHub's runner starts a script after the last step and waits for its end (actions/runner, docs/adrs/1751-runner-job-hooks.md). So
the job, its pod and its GPUs stay as long as the script runs, and ARC counts the runner as one that has a job.
"""

from pathlib import Path
from typing import Any

from fleet.facts.pods import Mount
from fleet.settings.kept_jobs import KeepFailed

NAME = "keep-failed"
"""Name of the ConfigMap, of the volume, and of the right to look inside."""
HOOK = "job-completed.sh"
_FOLDER = "/etc/gpu-ci/keep-failed"
_HOOK = Path(__file__).with_name("keep-failed.sh")


def hook() -> str:
    """The script, in the language of bash."""
    return _HOOK.read_text(encoding="utf-8")


def mounts(keep: KeepFailed | None) -> tuple[Mount, ...]:
    """The volume with the hook; none for a class that keeps no job."""
    return () if keep is None else (Mount(NAME, _FOLDER, {"configMap": {"name": NAME}}, read_only=True),)


def variables(keep: KeepFailed | None) -> list[dict[str, Any]]:
    """The environment that names the hook, and that the hook reads."""
    if keep is None:
        return []
    hook = f"{_FOLDER}/{HOOK}"
    values = {"ACTIONS_RUNNER_HOOK_JOB_COMPLETED": hook, "GPU_CI_KEEP_SECONDS": str(keep.time), "GPU_CI_KEEP_GROUP": keep.group}
    # The host name of a pod has at most 63 characters, and the name of a runner's pod may have more.
    fields = {"GPU_CI_POD": "metadata.name", "GPU_CI_NAMESPACE": "metadata.namespace"}
    return [
        *({"name": name, "value": value} for name, value in values.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]
