"""Values of ArgoCD, which applies the manifests of Git to its own cluster.

Facts: argoproj/argo-helm argo-cd-10.1.1, charts/argo-cd/values.yaml.
"""

from fleet.charts.chart import Chart, fixed, pods_of, resources
from fleet.facts.scheduling import SYSTEM_POOL, pool_selector

ARGO_CD = "argo-cd"
_PODS = pods_of(ARGO_CD)


def argo_cd(namespace: str) -> Chart:
    """ArgoCD on the system pool, without single sign-on, notifications and ingress. Use `kubectl port-forward` to reach it.

    The repository server and the controller hold the rendered manifests of all charts in memory, with the operator's CRDs.
    """
    values = fixed(ARGO_CD, selector=pool_selector(SYSTEM_POOL), **{name: resources(pod) for name, pod in _PODS.items()})
    return Chart(ARGO_CD, ARGO_CD, namespace, values, tuple(_PODS.values())[:-1], "infrastructure/controllers/argo-cd")
