"""Values of ArgoCD, which applies the manifests of Git to its own cluster.

Facts: argoproj/argo-helm argo-cd-10.1.1, charts/argo-cd/values.yaml.
"""

from __future__ import annotations

from fleet.charts.chart import Chart, Pod, resources
from fleet.facts.scheduling import SYSTEM_POOL, pool_selector

ARGO_CD = "argo-cd"
APPLICATION_HEALTH = """\
hs = {status = "Progressing", message = ""}
if obj.status ~= nil and obj.status.health ~= nil then
  hs.status = obj.status.health.status
  hs.message = obj.status.health.message or ""
end
return hs
"""
"""Health check in Lua: an Application is as healthy as the objects that it created. ArgoCD has no such check by default (argo-cd
v3.5 docs/operator-manual/health.md). Without it a wave would not wait for the releases of the wave before."""

_PODS = {
    "controller": Pod("argocd-application-controller", 250, 1024),
    "repoServer": Pod("argocd-repo-server", 100, 512),
    "server": Pod("argocd-server", 50, 128),
    "applicationSet": Pod("argocd-applicationset-controller", 50, 128),
    "redis": Pod("argocd-redis", 50, 64),
    "redisSecretInit": Pod("argocd-redis-secret-init", 10, 64),
}
"""By key of the values. The last one is a Job that ends before the other pods start, so it needs no room beside them."""

_SYNC_TIMEOUT = 3600
"""Seconds. A new GPU node and the operator's driver need up to half of this time."""


def argo_cd(namespace: str) -> Chart:
    """ArgoCD on the system pool, without single sign-on, notifications and ingress. Use `kubectl port-forward` to reach it.

    The repository server and the controller hold the rendered manifests of all charts in memory, with the operator's CRDs.
    """
    return Chart(
        "argo-cd",
        ARGO_CD,
        namespace,
        {
            "fullnameOverride": "argocd",
            "global": {"nodeSelector": pool_selector(SYSTEM_POOL)},
            "configs": {
                "cm": {"resource.customizations.health.argoproj.io_Application": APPLICATION_HEALTH},
                # Ends a sync that waits for an object that never becomes healthy. Otherwise ArgoCD would sync no later commit.
                "params": {"controller.sync.timeout.seconds": str(_SYNC_TIMEOUT)},
            },
            **{part: {"resources": resources(pod)} for part, pod in _PODS.items()},
            "dex": {"enabled": False},
            "notifications": {"enabled": False},
        },
        tuple(_PODS.values())[:-1],
        "infrastructure/controllers/argo-cd",
    )
