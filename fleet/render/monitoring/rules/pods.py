"""Pods that request a GPU and do not start, by reason."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.render.monitoring.rules.rule import Rule, alert
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE

_OF_GPU_PODS = 'and on (namespace, pod) kube_pod_container_resource_requests{resource=~"nvidia_com_.+"}'
"""kube-state-metrics writes the resource nvidia.com/gpu as nvidia_com_gpu, and MIG profiles and shares in the same way."""


def pod_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of pods with GPUs; none for a cluster without pools.

    kube-state-metrics does not say why a pod is unschedulable: the reason is only in the pod's events.
    """
    if not cluster.pools:
        return
    # A placeholder waits whenever its pool has all the nodes that it may have.
    pods = f'kube_pod_status_unschedulable{{namespace!="{PLACEHOLDER_NAMESPACE}"}}'
    unschedulable = f"count by (namespace) ({pods} == 1 {_OF_GPU_PODS})"
    waiting = f"count by (namespace, reason) (kube_pod_container_status_waiting_reason == 1 {_OF_GPU_PODS})"
    # A template knows the labels of the query, not those of the rule.
    for expr, reason, more in (
        (unschedulable, "Unschedulable", {"reason": "Unschedulable"}),
        (waiting, "{{ $labels.reason }}", {}),
    ):
        yield alert("GpuCiPodsPending", expr, alerts.pending_for, text={"why": reason}, **more)
