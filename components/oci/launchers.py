"""The objects that the launchers of a runner set need in their namespace."""

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Parent, Resources, Text
from fleet.charts.chart import Chart
from fleet.facts.scheduling import EPHEMERAL_LABEL
from fleet.providers.oke.launcher_set import LAUNCHER, LAUNCHER_PROGRAM, LAUNCHER_SETTINGS
from fleet.providers.oke.machine.launch import LAUNCHER_SOURCE
from fleet.providers.oke.machine.launcher import SWEEP_DEADLINE

SWEEP = "launcher-sweep"
"""Name of the CronJob that removes machines whose launcher is gone."""


def launcher_objects(name: str, chart: Chart, config: Text, rights: Resources, namespace: Text, parent: Parent) -> Resources:
    """The launchers' account, their program with `config` (JSON), and a CronJob that removes what lost launchers left."""
    child = pulumi.ResourceOptions(parent=parent, delete_before_replace=True)
    called = kubernetes.meta.v1.ObjectMetaArgs(name=LAUNCHER, namespace=namespace)
    # The launcher's pod mounts the token by itself.
    mounts = {"automount_service_account_token": False}
    account = kubernetes.core.v1.ServiceAccount(f"{name}-launcher", metadata=called, **mounts, opts=child)
    data = {LAUNCHER_SETTINGS: config, LAUNCHER_PROGRAM: LAUNCHER_SOURCE}
    program = kubernetes.core.v1.ConfigMap(f"{name}-launcher", metadata=called, data=data, opts=child)
    metadata = kubernetes.meta.v1.ObjectMetaArgs(name=SWEEP, namespace=namespace)
    opts = pulumi.ResourceOptions(parent=parent, depends_on=[account, program, *rights], delete_before_replace=True)
    sweep = kubernetes.batch.v1.CronJob(f"{name}-sweep", metadata=metadata, spec=sweep_spec(chart), opts=opts)
    return [account, program, *rights, sweep]


def keep_launchers(logical_name: str, namespace: Text, parent: pulumi.Resource) -> kubernetes.policy.v1.PodDisruptionBudget:
    """Protects launchers from eviction: without its launcher a machine is deleted with its job. A drain waits for the jobs."""
    return kubernetes.policy.v1.PodDisruptionBudget(
        logical_name,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(name=LAUNCHER, namespace=namespace),
        # ARC puts the label on every runner pod.
        spec={"max_unavailable": 0, "selector": {"match_labels": {EPHEMERAL_LABEL: "True"}}},
        opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
    )


def sweep_spec(chart: Chart) -> dict[str, Any]:
    """A CronJob's spec: the launcher's own pod with the command that removes what lost launchers left."""
    pod = chart.values["template"]["spec"]
    (launcher,) = pod["containers"]
    once = {**pod, "restartPolicy": "Never", "containers": [{**launcher, "command": [*launcher["command"], "sweep"]}]}
    return {
        # A machine without a launcher costs money until a sweep removes it.
        "schedule": "*/5 * * * *",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": {"spec": {"backoffLimit": 0, "activeDeadlineSeconds": SWEEP_DEADLINE, "template": {"spec": once}}},
    }
