"""What the clusters of our stacks have inside, by the names that pages use: namespaces, labels of pods and nodes, objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import yaml

from components.oci.launchers import SWEEP
from fleet.charts.arc import NAMESPACE as CONTROLLER_NAMESPACE, arc_controller
from fleet.charts.chart import KUBE_SYSTEM, Chart
from fleet.charts.cluster_autoscaler import AUTOSCALER
from fleet.charts.dcgm_exporter import NAMESPACE as EXPORTER_NAMESPACE
from fleet.charts.device_plugin import NAMESPACE as DEVICE_PLUGIN_NAMESPACE, device_plugin
from fleet.charts.gpu_operator import NAMESPACE as OPERATOR_NAMESPACE, OPERATOR
from fleet.charts.kueue import KUEUE, NAMESPACE as KUEUE_NAMESPACE
from fleet.charts.sweeps import NAMESPACE as SWEEPS_NAMESPACE, sweep_pods
from fleet.facts.scheduling import RUNTIME_CLASS, system_labels
from fleet.loading.config import load
from fleet.providers import fleet as settings
from fleet.providers.oke.launcher_set import LAUNCHER
from fleet.providers.registry import PROVIDERS
from fleet.render.gitops.application import NAME, TIERS
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import GPU_PLUGIN_ADDON
from fleet.settings.monitoring import NAMESPACE as MONITORING_NAMESPACE
from fleet.settings.namespaces import runner_namespace
from tests.builders import ROOT, read_stack
from tests.fleet.conformance import cluster_charts

PAGES_NAME = ("staging", "prod", "homelab", "examples/oke-pods", "examples/monitoring")
"""The stacks whose clusters the pages name, the first of them by default, then examples of what these lack."""

READ_AT = {
    "nvidia-device-plugin": "0.20.0",
    "gha-runner-scale-set-controller": "0.14.2",
    "gha-runner-scale-set": "0.14.2",
    "cluster-autoscaler": "9.59.0",
    "gpu-operator": "v26.7.0",
    "kueue": "0.19.2",
    "argo-cd": "10.1.1",
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
FEATURE_DISCOVERY = "node-feature-discovery"
"""The operator's subchart, whose objects are called after both (the same, the subchart's templates/_helpers.tpl)."""
DISCOVERED = (
    "feature.node.kubernetes.io/pci-10de.present",
    "nvidia.com/cuda.driver-version.full",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas",
)
"""Labels that the operator's two discoveries set (docs/gpu-feature-discovery of NVIDIA/k8s-device-plugin v0.20.0)."""
ARGO_CD = {
    "deployment": ("argocd-server", "argocd-repo-server", "argocd-applicationset-controller", "argocd-redis"),
    "statefulset": ("argocd-application-controller",),
    "service": ("argocd-server",),
    # Made by ArgoCD at its first start (argo-cd v3.4 docs/getting_started.md).
    "secret": ("argocd-initial-admin-secret",),
}
"""What the chart makes under its name `argocd`, whose pods have that name as label `app.kubernetes.io/name` (argoproj/argo-helm
argo-cd-10.1.1, charts/argo-cd/templates/_helpers.tpl and values.yaml)."""
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

    @cached_property
    def committed(self) -> tuple[dict[str, Any], ...]:
        """Objects of its committed tree, where machines and cluster are their owner's; `make render` holds it to the settings."""
        if PROVIDERS[self.cluster.provider].deployable:
            return ()
        (folder,) = ROOT.glob(f"*/gpu-ci-*-{self.name}")
        machines = folder / self.cluster.provider
        found = [yaml.safe_load(path.read_text()) for path in sorted(folder.rglob("*.yaml")) if machines not in path.parents]
        return tuple(each for each in found if "kind" in each)

    @property
    def sets(self) -> frozenset[str]:
        """Names of its runner sets."""
        return frozenset(self.cluster.runners)

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """Every namespace that something of our own is in."""
        argo = [self.cluster.gitops.namespace] if self.cluster.gitops is not None else []
        sweeps = [SWEEPS_NAMESPACE] if self.sweeps else []
        return frozenset((KUBE_SYSTEM, *(chart.namespace for chart in self.charts.values()), *self.teams, *argo, *sweeps))

    @property
    def sweeps(self) -> tuple[str, ...]:
        """Names of its sweeps, which are their Deployments'."""
        return tuple(pod.name for pod in sweep_pods(self.cluster))

    @property
    def teams(self) -> tuple[str, ...]:
        """Namespaces of the teams of its queues, and of its workloads where Git has them."""
        queued = self.cluster.queues.namespaces if self.cluster.queues is not None else ()
        return (*queued, *dict.fromkeys(each.namespace for each in self.cluster.workloads.values() if self.committed))

    @property
    def runners(self) -> frozenset[str]:
        """Namespaces of its runner sets."""
        return frozenset(map(runner_namespace, self.sets))

    @cached_property
    def operands(self) -> frozenset[str]:
        """DaemonSets that the GPU operator makes; none where there is no operator."""
        if OPERATOR not in self.charts:
            return frozenset()
        values = self.charts[OPERATOR].values
        return frozenset((VALIDATOR, *(name for key, name in OPERANDS.items() if values[key]["enabled"])))

    def pod_labels(self, namespace: str) -> dict[str, frozenset[str]]:
        """Labels that pods of one of its namespaces carry, each with its values; of a team's, those of its workloads are ours."""
        if namespace in self.teams:
            pods = [held["spec"]["template"] for held in self.committed if _of(held, "Deployment", namespace)]
            return _values(pod["metadata"]["labels"] for pod in pods)
        if namespace in self.runners:
            # actions-runner-controller: controllers/actions.github.com/resourcebuilder.go, newEphemeralRunner.
            return {"app.kubernetes.io/component": frozenset(("runner",)), "actions.github.com/scale-set-name": self.sets}
        plugin = device_plugin()
        return {
            # NVIDIA/k8s-device-plugin: deployments/helm/nvidia-device-plugin/templates/_helpers.tpl, templateLabels.
            DEVICE_PLUGIN_NAMESPACE: {
                "app.kubernetes.io/name": frozenset((plugin.chart,)),
                "app.kubernetes.io/instance": frozenset((plugin.name,)),
            },
            # actions-runner-controller: the controller chart's deployment.yaml; resourcebuilder.go, newAutoScalingListener.
            CONTROLLER_NAMESPACE: {
                "app.kubernetes.io/component": frozenset(("controller-manager", "runner-scale-set-listener")),
                "actions.github.com/scale-set-name": self.sets,
            },
            # kubernetes-sigs/kueue v0.19.2: charts/kueue/templates/_helpers.tpl, selectorLabels.
            KUEUE_NAMESPACE: {
                "app.kubernetes.io/name": frozenset((KUEUE,)),
                "control-plane": frozenset(("controller-manager",)),
            },
            # NVIDIA/gpu-operator: deployments/gpu-operator/templates/operator.yaml, each operand's DaemonSet, and the subchart.
            OPERATOR_NAMESPACE: {
                "app": self.operands | {OPERATOR},
                "app.kubernetes.io/name": frozenset((FEATURE_DISCOVERY,)),
            },
            **self._argo_labels(),
            SWEEPS_NAMESPACE: {"app.kubernetes.io/name": frozenset(self.sweeps)},
            # No page names a label of their pods.
            MONITORING_NAMESPACE: {},
            EXPORTER_NAMESPACE: {},
            # aws/eks-node-monitoring-agent 51af5494 (v1.7.0): charts/eks-node-monitoring-agent/templates/dcgm-daemonset.yaml.
            KUBE_SYSTEM: {"k8s-app": frozenset(("dcgm-server",))} if self.cluster.provider == "eks" else {},
        }[namespace]

    def _argo_labels(self) -> dict[str, dict[str, frozenset[str]]]:
        if self.cluster.gitops is None:
            return {}
        names = frozenset((*ARGO_CD["deployment"], *ARGO_CD["statefulset"]))
        return {self.cluster.gitops.namespace: {"app.kubernetes.io/name": names}}

    @cached_property
    def objects(self) -> dict[tuple[str | None, str], frozenset[str]]:
        """Names of objects by namespace and kind, as far as pages name them."""
        found: dict[tuple[str | None, str], set[str]] = {(None, "namespace"): set(self.namespaces)}
        for namespace, kind, name in self._objects():
            found.setdefault((namespace, kind), set()).add(name)
        return {key: frozenset(names) for key, names in found.items()}

    def _objects(self) -> Iterator[tuple[str | None, str, str]]:
        yield CONTROLLER_NAMESPACE, "deployment", arc_controller().values["fullnameOverride"]
        if PROVIDERS[self.cluster.provider].deployable:
            # On EKS the chart's fullnameOverride; docs.oracle.com, working with the autoscaler as an add-on, has the same name.
            yield KUBE_SYSTEM, "deployment", AUTOSCALER
        if self.cluster.provider == "eks":
            # kubernetes/autoscaler cluster-autoscaler-1.34.5: config/flags/flags.go, status-config-map-name.
            yield KUBE_SYSTEM, "configmap", "cluster-autoscaler-status"
        yield from ((SWEEPS_NAMESPACE, "deployment", name) for name in self.sweeps)
        if self.cluster.enablement == GPU_PLUGIN_ADDON:
            yield KUBE_SYSTEM, "daemonset", OKE_PLUGIN
        if DEVICE_PLUGIN_NAMESPACE in self.namespaces:
            # The chart's fullname is the release's name, because that name contains the chart's.
            yield DEVICE_PLUGIN_NAMESPACE, "daemonset", device_plugin().name
        if OPERATOR in self.charts:
            yield OPERATOR_NAMESPACE, "deployment", OPERATOR
            # The operator's own Service for it, port 9400 (NVIDIA/gpu-operator, assets/state-dcgm-exporter/0400_service.yaml).
            yield OPERATOR_NAMESPACE, "service", OPERANDS["dcgmExporter"]
            yield from ((OPERATOR_NAMESPACE, "daemonset", name) for name in self.operands)
            yield OPERATOR_NAMESPACE, "daemonset", f"{OPERATOR}-{FEATURE_DISCOVERY}-worker"
            # The operator's own (assets/pre-requisites/0200_runtime_class.yaml).
            yield None, "runtimeclass", RUNTIME_CLASS
        yield from self._by_argo()
        if KUEUE in self.charts:
            # kubernetes-sigs/kueue v0.19.2: charts/kueue/templates/manager/manager.yaml.
            yield KUEUE_NAMESPACE, "deployment", f"{KUEUE}-controller-manager"
        for name, chart in self.charts.items():
            if name in self.sets and _ours(chart):
                yield chart.namespace, "configmap", LAUNCHER
                yield chart.namespace, "serviceaccount", LAUNCHER
                yield chart.namespace, "cronjob", SWEEP

    def _by_argo(self) -> Iterator[tuple[str | None, str, str]]:
        """ArgoCD, its Applications, and the other objects in Git. Custom kinds have their full names, as on the pages."""
        if self.cluster.gitops is None:
            return
        argo = self.cluster.gitops.namespace
        yield from ((argo, kind, name) for kind, names in ARGO_CD.items() for name in names)
        yield from ((argo, "applications.argoproj.io", f"{NAME}-{tier}") for tier in TIERS)
        for held in self.committed:
            group, kind, meta = held["apiVersion"].partition("/")[0], held["kind"].lower(), held["metadata"]
            custom = "." in group and not group.endswith(".k8s.io")
            yield meta.get("namespace"), f"{kind}s.{group}" if custom else kind, meta["name"]

    @cached_property
    def node_labels(self) -> dict[str, frozenset[str]]:
        """Labels that its nodes carry, each with its values."""
        profile = PROVIDERS[self.cluster.provider].profile
        pools = [pool.node_labels(self.name, name, profile) for name, pool in self.cluster.pools.items()]
        return _values([system_labels(self.name), *pools])

    @property
    def label_columns(self) -> frozenset[str]:
        """Labels that its nodes have and pages may show: ours, and those that the operator finds out."""
        return frozenset((*self.node_labels, *(DISCOVERED if OPERATOR in self.charts else ())))


def _of(held: dict[str, Any], kind: str, namespace: str) -> bool:
    return bool(held["kind"] == kind and held["metadata"].get("namespace") == namespace)


def _values(held: Iterable[Mapping[str, str]]) -> dict[str, frozenset[str]]:
    """Keys of mappings, each with all of its values."""
    of_each = list(held)
    return {key: frozenset(labels[key] for labels in of_each if key in labels) for labels in of_each for key in labels}


def _ours(chart: Chart) -> bool:
    """Whether a set's runner pods are launchers of our own."""
    return bool(chart.values["template"]["spec"].get("serviceAccountName") == LAUNCHER)


@cache
def stack(name: str) -> settings.Fleet:
    """The fleet of one of our stack files."""
    folder, _, of_file = name.rpartition("/")
    return load(read_stack(ROOT / folder / f"Pulumi.{of_file}.yaml"))


@cache
def insides() -> tuple[Inside, ...]:
    """Every cluster that the pages name, the default stack's first."""
    return tuple(Inside(stack(name), cluster) for name in PAGES_NAME for cluster in stack(name).clusters)
