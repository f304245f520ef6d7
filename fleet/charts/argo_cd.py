"""Values of an ArgoCD that keeps the cluster which it runs in as Git has it: the program's, or a homelab's.

Facts: argoproj/argo-helm argo-cd-10.1.1, charts/argo-cd/values.yaml.
"""

from __future__ import annotations

from fleet.charts.chart import Chart, published, resources
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
"""Lua by which an Application is as healthy as what it made. ArgoCD itself does not look (argo-cd v3.5
docs/operator-manual/health.md), and without it a wave would not wait for the releases of the one before."""

_SYNC_TIMEOUT = 3600
"""Seconds: a GPU node and the operator's driver take up to half of that."""


def argo_cd(namespace: str) -> Chart:
    """ArgoCD on the system pool: no single sign-on, no notifications, no door to the outside; `kubectl port-forward` reaches it.

    Repository server and controller hold what all charts render to, the operator's CRDs among it.
    """
    return published(
        "argo-cd",
        ARGO_CD,
        namespace,
        {
            "fullnameOverride": "argocd",
            "global": {"nodeSelector": pool_selector(SYSTEM_POOL)},
            "configs": {
                "cm": {"resource.customizations.health.argoproj.io_Application": APPLICATION_HEALTH},
                # A sync that waits for what is never healthy ends, or no later commit would get its turn.
                "params": {"controller.sync.timeout.seconds": str(_SYNC_TIMEOUT)},
            },
            "controller": {"resources": resources(250, 1024)},
            "repoServer": {"resources": resources(100, 512)},
            "server": {"resources": resources(50, 128)},
            "applicationSet": {"resources": resources(50, 128)},
            "redis": {"resources": resources(50, 64)},
            "redisSecretInit": {"resources": resources(10, 64)},
            "dex": {"enabled": False},
            "notifications": {"enabled": False},
        },
    )
