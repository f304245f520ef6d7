"""What the clusters of our stacks have inside, by the names that pages use: namespaces, labels of pods and nodes, objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from components.oci.oci_gpu_runner import SWEEP
from fleet import charts, settings
from fleet.charts import Chart
from fleet.cluster import Cluster
from fleet.enablement import GPU_PLUGIN_ADDON
from fleet.providers import PROVIDERS
from fleet.scheduling import pool_labels, system_labels
from tests.builders import ROOT, read_stack
from tests.fleet.conformance import cluster_charts

PAGES_NAME = ("staging", "prod")
"""The stacks whose clusters the pages name, the first of them by default."""

READ_AT = {
    "nvidia-device-plugin": "0.20.0",
    "gha-runner-scale-set-controller": "0.14.2",
    "gha-runner-scale-set": "0.14.2",
    "cluster-autoscaler": "9.59.0",
    "gpu-operator": "v26.7.0",
    "kueue": "0.19.2",
}
"""Chart versions at which the names below were read."""

OPERANDS = {
    "driver": "nvidia-driver-daemonset",
    "toolkit": "nvidia-container-toolkit-daemonset",
    "devicePlugin": "nvidia-device-plugin-daemonset",
    "gfd": "gpu-feature-discovery",
    "dcgmExporter": "nvidia-dcgm-exporter",
    "migManager": "nvidia-mig-manager",
}
"""Values of the operator's chart → DaemonSet, whose pods have that name as label `app` (NVIDIA/gpu-operator v26.7.0, assets/)."""
VALIDATOR = "nvidia-operator-validator"
"""The operand that has no switch (the same, assets/state-operator-validation)."""
OKE_PLUGIN = "nvidia-gpu-device-plugin"
"""DaemonSet of OKE's plugin in kube-system (NVIDIA/aicr, OKE GPU setup: the add-on and the older mechanism make the same one)."""


@dataclass(frozen=True)
class Inside:
    """One cluster of a stack."""

    fleet: settings.Fleet
    name: str

    @property
    def cluster(self) -> Cluster:
        """Its settings."""
        found: Cluster = self.fleet.clusters[self.name]
        return found

    @cached_property
    def charts(self) -> dict[str, Chart]:
        """Its charts by release name, without the autoscaler's."""
        return cluster_charts(self.fleet, self.name)

    @property
    def sets(self) -> frozenset[str]:
        """Names of its runner sets."""
        return frozenset(self.cluster.runners)

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """Every namespace that something of ours is in."""
        return frozenset((charts.KUBE_SYSTEM, *(chart.namespace for chart in self.charts.values()), *self.teams))

    @property
    def teams(self) -> tuple[str, ...]:
        """Namespaces of the teams of its queues."""
        return self.cluster.queues.namespaces if self.cluster.queues is not None else ()

    @property
    def runners(self) -> frozenset[str]:
        """Namespaces of its runner sets."""
        return frozenset(map(charts.runner_namespace, self.sets))

    @cached_property
    def operands(self) -> frozenset[str]:
        """DaemonSets that the GPU operator makes; none where there is no operator."""
        if charts.OPERATOR not in self.charts:
            return frozenset()
        values = self.charts[charts.OPERATOR].values
        return frozenset((VALIDATOR, *(name for key, name in OPERANDS.items() if values[key]["enabled"])))

    def pod_labels(self, namespace: str) -> dict[str, frozenset[str]]:
        """Labels that pods of one of its namespaces carry, each with its values; of a team's, none are ours."""
        if namespace in self.teams:
            return {}
        if namespace in self.runners:
            # actions-runner-controller: controllers/actions.github.com/resourcebuilder.go, newEphemeralRunner.
            return {"app.kubernetes.io/component": frozenset(("runner",)), "actions.github.com/scale-set-name": self.sets}
        plugin = charts.device_plugin()
        return {
            # NVIDIA/k8s-device-plugin: deployments/helm/nvidia-device-plugin/templates/_helpers.tpl, templateLabels.
            charts.DEVICE_PLUGIN_NAMESPACE: {
                "app.kubernetes.io/name": frozenset((plugin.chart,)),
                "app.kubernetes.io/instance": frozenset((plugin.name,)),
            },
            # actions-runner-controller: the controller chart's deployment.yaml; resourcebuilder.go, newAutoScalingListener.
            charts.CONTROLLER_NAMESPACE: {
                "app.kubernetes.io/component": frozenset(("controller-manager", "runner-scale-set-listener")),
                "actions.github.com/scale-set-name": self.sets,
            },
            # kubernetes-sigs/kueue v0.19.2: charts/kueue/templates/_helpers.tpl, selectorLabels.
            charts.KUEUE_NAMESPACE: {
                "app.kubernetes.io/name": frozenset((charts.KUEUE,)),
                "control-plane": frozenset(("controller-manager",)),
            },
            # NVIDIA/gpu-operator: deployments/gpu-operator/templates/operator.yaml, and each operand's DaemonSet.
            charts.OPERATOR_NAMESPACE: {"app": self.operands | {charts.OPERATOR}},
            # aws/eks-node-monitoring-agent 51af5494 (v1.7.0): charts/eks-node-monitoring-agent/templates/dcgm-daemonset.yaml.
            charts.KUBE_SYSTEM: {"k8s-app": frozenset(("dcgm-server",))} if self.cluster.provider == "eks" else {},
        }[namespace]

    @cached_property
    def objects(self) -> dict[tuple[str | None, str], frozenset[str]]:
        """Names of objects by namespace and kind, as far as pages name them."""
        found: dict[tuple[str | None, str], set[str]] = {(None, "namespace"): set(self.namespaces)}
        for namespace, kind, name in self._objects():
            found.setdefault((namespace, kind), set()).add(name)
        return {key: frozenset(names) for key, names in found.items()}

    def _objects(self) -> Iterator[tuple[str, str, str]]:
        yield charts.CONTROLLER_NAMESPACE, "deployment", charts.arc_controller().values["fullnameOverride"]
        # On EKS the chart's fullnameOverride; docs.oracle.com, working with the autoscaler as an add-on, has the same name.
        yield charts.KUBE_SYSTEM, "deployment", charts.AUTOSCALER
        if self.cluster.provider == "eks":
            # kubernetes/autoscaler cluster-autoscaler-1.34.5: config/flags/flags.go, status-config-map-name.
            yield charts.KUBE_SYSTEM, "configmap", "cluster-autoscaler-status"
        if self.cluster.enablement == GPU_PLUGIN_ADDON:
            yield charts.KUBE_SYSTEM, "daemonset", OKE_PLUGIN
        if charts.DEVICE_PLUGIN_NAMESPACE in self.namespaces:
            # The chart's fullname is the release's name, since that contains the chart's.
            yield charts.DEVICE_PLUGIN_NAMESPACE, "daemonset", charts.device_plugin().name
        if charts.OPERATOR in self.charts:
            yield charts.OPERATOR_NAMESPACE, "deployment", charts.OPERATOR
            # The operator's own Service for it, port 9400 (NVIDIA/gpu-operator, assets/state-dcgm-exporter/0400_service.yaml).
            yield charts.OPERATOR_NAMESPACE, "service", OPERANDS["dcgmExporter"]
            yield from ((charts.OPERATOR_NAMESPACE, "daemonset", name) for name in self.operands)
        if charts.KUEUE in self.charts:
            # kubernetes-sigs/kueue v0.19.2: charts/kueue/templates/manager/manager.yaml.
            yield charts.KUEUE_NAMESPACE, "deployment", f"{charts.KUEUE}-controller-manager"
        for name, chart in self.charts.items():
            if name in self.sets and _ours(chart):
                yield chart.namespace, "configmap", charts.LAUNCHER
                yield chart.namespace, "serviceaccount", charts.LAUNCHER
                yield chart.namespace, "cronjob", SWEEP

    @cached_property
    def node_labels(self) -> dict[str, frozenset[str]]:
        """Labels that its nodes carry, each with its values."""
        held = [system_labels(self.name)] + [
            pool_labels(
                cluster=self.name,
                pool=name,
                role=pool.role,
                capacity=pool.capacity,
                accelerator=pool.accelerator,
                profile=PROVIDERS[self.cluster.provider].profile,
            )
            for name, pool in self.cluster.pools.items()
        ]
        return {key: frozenset(labels[key] for labels in held if key in labels) for labels in held for key in labels}


def _ours(chart: Chart) -> bool:
    """Whether a set's runner pods are launchers of ours."""
    return bool(chart.values["template"]["spec"].get("serviceAccountName") == charts.LAUNCHER)


@cache
def stack(name: str) -> settings.Fleet:
    """The fleet of one of our stack files."""
    return settings.load(read_stack(ROOT / f"Pulumi.{name}.yaml"))


@cache
def insides() -> tuple[Inside, ...]:
    """Every cluster that the pages name, the default stack's first."""
    return tuple(Inside(stack(name), cluster) for name in PAGES_NAME for cluster in stack(name).clusters)
