"""One runner scale set whose runners are OCI machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pulumi_oci as oci

from components.component import Component
from components.kubernetes.arc import Arc
from components.kubernetes.scale_set import Companions, ScaleSet
from components.oci.policy import policy
from components.oci.rights import NETWORK, PER_JOB, STANDING, Workload, launcher_rights
from components.oci.standing_machines import StandingMachines, standing_machines
from fleet.charts.chart import Chart
from fleet.providers.oke.launcher_set import LAUNCHER, LAUNCHER_PROGRAM, LAUNCHER_SETTINGS, launcher_set
from fleet.providers.oke.vm_runner import MachineRunner, VmRunner
from fleet.render.machine.cloudinit import encoded
from fleet.render.machine.launch import LAUNCHER_SOURCE, launcher_config
from fleet.render.machine.launcher import SET_TAG, SWEEP_DEADLINE

SWEEP = "launcher-sweep"
"""Name of the CronJob that removes machines whose launcher is gone."""
WORKLOAD_IDENTITY = 12250
"""TCP port beside the API server where OKE exchanges a pod's token for rights in OCI (oracle/oci-python-sdk@474b72dc
src/oci/auth/signers/resource_principals_signer.py). Its address is private: a service's, then the endpoint's."""


@dataclass(frozen=True, slots=True)
class OciGpuRunnerArgs:
    """`physical_name` identifies the set's machines in the compartment.

    `region`, `subnet_id` and `group_id` are the cluster's, the latter of machines that run jobs (None where no set has such
    machines). `compartment` holds the machines, `networks` are the compartments of subnet and group. `iam` is the provider that
    writes policies; `ready` is what a machine needs to reach the internet.
    """

    set_name: str
    physical_name: str
    runner: MachineRunner
    group: str
    arc: Arc
    cluster_id: pulumi.Input[str]
    region: str
    compartment: str
    networks: Sequence[str]
    subnet_id: pulumi.Input[str]
    group_id: pulumi.Input[str] | None
    tags: dict[str, str]
    iam: pulumi.ProviderResource
    ready: Sequence[pulumi.Resource]


class OciGpuRunner(Component[OciGpuRunnerArgs]):
    """A runner scale set of launchers, and for standing machines (kind vm) their instance pool.

    A launcher signs as its own service account (OKE workload identity), so there is no dynamic group, neither for it nor for the
    machines: whoever is on a machine has its instance principal, and this one may do nothing. With CNCF's launcher there is the
    scale set alone: its API key and its rights are its owner's.
    """

    namespace_name: pulumi.Output[str]
    """Name of the namespace of its launchers."""
    runs_on: pulumi.Output[list[str]]
    """Labels that reach the set, its name first."""
    instance_pool_id: pulumi.Output[str] | None
    """OCID of the standing machines' pool; None for a machine a job."""

    def declare(self, name: str, args: OciGpuRunnerArgs) -> dict[str, Any]:
        runner = args.runner
        chart = launcher_set(
            args.set_name, runner, args.arc.github.url, args.group, region=args.region, compartment=args.compartment
        )
        self.instance_pool_id = None
        companions: Companions = partial(_keep_alone, f"{name}-keep")
        ports: tuple[int, ...] = ()
        if runner.booted_here:
            # Raises here, and so in a plan, what OCI would refuse once a machine is launched.
            user_data = encoded(runner)
            if isinstance(runner, VmRunner):
                self.instance_pool_id = self._standing(name, args, runner, user_data).id
            companions, ports = self._companions(name, args, chart), (WORKLOAD_IDENTITY,)
        runner_set = ScaleSet(f"{name}-set", args.arc.parts(chart, companions, ports), opts=pulumi.ResourceOptions(parent=self))
        self.namespace_name, self.runs_on = runner_set.namespace_name, runner_set.runs_on
        return {"namespaceName": self.namespace_name, "runsOn": self.runs_on, "instancePoolId": self.instance_pool_id}

    def _standing(self, name: str, args: OciGpuRunnerArgs, runner: VmRunner, user_data: str) -> oci.core.InstancePool:
        return standing_machines(
            name,
            StandingMachines(
                runner=runner,
                compartment=args.compartment,
                subnet_id=args.subnet_id,
                group_id=_given(args.group_id),
                user_data=user_data,
                tags=args.tags | {SET_TAG: args.physical_name},
                ready=args.ready,
            ),
            parent=self,
        )

    def _companions(self, name: str, args: OciGpuRunnerArgs, chart: Chart) -> Companions:
        """What a launcher needs: an account, its rights, its program with the ids, and one that cleans up after lost ones."""

        def make(namespace: pulumi.Input[str], parent: pulumi.Resource) -> list[pulumi.Resource]:
            child = pulumi.ResourceOptions(parent=parent, delete_before_replace=True)
            account = kubernetes.core.v1.ServiceAccount(
                f"{name}-launcher",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=LAUNCHER, namespace=namespace),
                # The launcher's pod mounts the token by itself.
                automount_service_account_token=False,
                opts=child,
            )
            program = kubernetes.core.v1.ConfigMap(
                f"{name}-launcher",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=LAUNCHER, namespace=namespace),
                data={LAUNCHER_SETTINGS: self._settings(args), LAUNCHER_PROGRAM: LAUNCHER_SOURCE},
                opts=child,
            )
            rights = self._rights(name, args, chart)
            sweep = kubernetes.batch.v1.CronJob(
                f"{name}-sweep",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=SWEEP, namespace=namespace),
                spec=sweep_spec(chart),
                opts=pulumi.ResourceOptions(parent=parent, depends_on=[account, program, *rights], delete_before_replace=True),
            )
            return [account, program, *rights, sweep, keep_launchers(f"{name}-keep", namespace, parent), *args.ready]

        return make

    def _settings(self, args: OciGpuRunnerArgs) -> pulumi.Output[str]:
        """The launcher's config as JSON, once the ids in it are known."""
        late = pulumi.Output.all(subnet=args.subnet_id, group=_given(args.group_id), pool=self.instance_pool_id)
        return late.apply(
            lambda ids: json.dumps(
                launcher_config(
                    args.physical_name,
                    args.runner,
                    compartment=args.compartment,
                    region=args.region,
                    subnet=ids["subnet"],
                    security_group=ids["group"],
                    pool=ids["pool"],
                    tags=args.tags,
                ),
                indent=2,
            )
        )

    def _rights(self, name: str, args: OciGpuRunnerArgs, chart: Chart) -> list[oci.identity.Policy]:
        """A policy in the machines' compartment and one in each of the network's: a policy reaches none beside its own."""
        permissions = STANDING if isinstance(args.runner, VmRunner) else PER_JOB
        network = [allowed for allowed in permissions if allowed in NETWORK]
        others = [where for where in dict.fromkeys(args.networks) if where != args.compartment]
        return [
            self._policy(f"{name}-rights", args, chart, args.compartment, permissions),
            *(self._policy(f"{name}-network-rights-{index}", args, chart, where, network) for index, where in enumerate(others)),
        ]

    def _policy(
        self, name: str, args: OciGpuRunnerArgs, chart: Chart, compartment: str, permissions: Sequence[str]
    ) -> oci.identity.Policy:
        return policy(
            name,
            pulumi.Output.from_input(args.cluster_id).apply(
                lambda cluster: launcher_rights(Workload(chart.namespace, LAUNCHER, cluster), permissions, compartment)
            ),
            compartment=compartment,
            description=f"The launchers of runner set {args.physical_name} make and remove its machines",
            tags=args.tags,
            iam=args.iam,
            parent=self,
        )


def sweep_spec(chart: Chart) -> dict[str, Any]:
    """A CronJob's spec: the launcher's own pod, told to remove what launchers left that are gone."""
    pod = chart.values["template"]["spec"]
    (launcher,) = pod["containers"]
    once = {**pod, "restartPolicy": "Never", "containers": [{**launcher, "command": [*launcher["command"], "sweep"]}]}
    return {
        # A machine without a launcher is paid until a sweep removes it.
        "schedule": "*/5 * * * *",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": {"spec": {"backoffLimit": 0, "activeDeadlineSeconds": SWEEP_DEADLINE, "template": {"spec": once}}},
    }


def keep_launchers(
    logical_name: str, namespace: pulumi.Input[str], parent: pulumi.Resource
) -> kubernetes.policy.v1.PodDisruptionBudget:
    """Keeps launchers from eviction: with its launcher a machine goes, and the job on it. A drain waits for the jobs' ends."""
    return kubernetes.policy.v1.PodDisruptionBudget(
        logical_name,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(name=LAUNCHER, namespace=namespace),
        spec=kubernetes.policy.v1.PodDisruptionBudgetSpecArgs(
            max_unavailable=0,
            # ARC puts it on every runner pod.
            selector=kubernetes.meta.v1.LabelSelectorArgs(match_labels={"actions-ephemeral-runner": "True"}),
        ),
        opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
    )


def _keep_alone(logical_name: str, namespace: pulumi.Input[str], parent: pulumi.Resource) -> list[pulumi.Resource]:
    return [keep_launchers(logical_name, namespace, parent)]


def _given(group_id: pulumi.Input[str] | None) -> pulumi.Input[str]:
    if group_id is None:
        raise ValueError("machines that run jobs stand in a security group of their own; give group_id")
    return group_id
