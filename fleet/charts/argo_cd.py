"""Values of ArgoCD, which applies the manifests of Git to its own cluster.

Facts: argoproj/argo-helm argo-cd-10.1.1, charts/argo-cd/values.yaml.
"""

from fleet.charts.chart import Chart, Pod, fixed, resources
from fleet.facts.scheduling import SYSTEM_POOL, pool_selector

ARGO_CD = "argo-cd"
_PODS = {
    "controller": Pod("argocd-application-controller", 250, 1024),
    "repoServer": Pod("argocd-repo-server", 100, 512),
    "server": Pod("argocd-server", 50, 128),
    "applicationSet": Pod("argocd-applicationset-controller", 50, 128),
    "redis": Pod("argocd-redis", 50, 64),
    "redisSecretInit": Pod("argocd-redis-secret-init", 10, 64),
}
"""By key of the values. The last one is a Job that ends before the other pods start, so it needs no room beside them."""


def argo_cd(namespace: str) -> Chart:
    """ArgoCD on the system pool, without single sign-on, notifications and ingress. Use `kubectl port-forward` to reach it.

    The repository server and the controller hold the rendered manifests of all charts in memory, with the operator's CRDs.
    """
    values = fixed(ARGO_CD) | {"global": {"nodeSelector": pool_selector(SYSTEM_POOL)}}
    values |= {part: {"resources": resources(pod)} for part, pod in _PODS.items()}
    return Chart(ARGO_CD, ARGO_CD, namespace, values, tuple(_PODS.values())[:-1], "infrastructure/controllers/argo-cd")
