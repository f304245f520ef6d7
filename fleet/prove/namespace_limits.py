"""Quotas and limits of namespaces: what the API server admits there, and the amounts that it gives to containers without any.

The specs of a runner set are made from its chart, so facts about pods, GPUs and runners are not repeated here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.charts.chart import Chart
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import GPU_RESOURCE, is_gpu_resource

_PODS_OF_A_JOB = 2
"""Of a job in a container: its pod, and that of a container action while it runs (actions/runner-container-hooks)."""
_SPARE = 2
"""Pods beside those of runners: the sweep of an OCI set, and one that an operator starts by hand."""


def resource_quota(chart: Chart) -> dict[str, Any]:
    """Spec of a ResourceQuota of twice what the set may run. It limits other creators of pods, and ARC never reaches it.

    A pod that is stopping counts until its grace period ends (Kubernetes, pkg/quota/v1/evaluator/core/pods.go), and ARC may
    already have created the next one. So there are at most twice as many pods as runners. At a quota ARC 0.13.1 and newer would
    retry every half minute (actions/actions-runner-controller#4305). Older versions gave up the runner.
    """
    most = 2 * int(chart.values["maxRunners"])
    # The quota always names whole GPUs. A set with shares of GPUs or with a launcher may take none.
    gpus = Counter({GPU_RESOURCE: 0})
    for container in _pod(chart)["containers"]:
        gpus.update({name: count for name, count in container["resources"]["limits"].items() if is_gpu_resource(name)})
    # A quota supports only requests of extended resources. It has no CPU and no memory: it would reject a pod without them.
    hard = {f"requests.{name}": str(most * count) for name, count in gpus.items()}
    return {"hard": hard | {"pods": str(most + _SPARE)}}


def jobs_quota(runners: int) -> dict[str, Any]:
    """Spec of a ResourceQuota for the pods of jobs in containers: twice what so many runners may start.

    At a quota a job fails instead of waiting (actions/runner-container-hooks#229). So only `maxRunners` and the nodes of pools
    limit their GPUs.
    """
    return {"hard": {"pods": str(2 * runners * _PODS_OF_A_JOB + _SPARE)}}


def limit_range(chart: Chart) -> dict[str, Any]:
    """Spec of a LimitRange: a container may use as much as the set's largest, and gets the amount of its first if it names none.

    ARC gives up a runner whose pod is rejected for any reason but a quota. So no limit is below the chart's own. GPUs are not in
    it: the API server uses a maximum as the default, which would give a GPU to every container.
    """
    pod = _pod(chart)
    amounts = (pod["containers"][0]["resources"][kind] for kind in ("limits", "requests"))
    limits, requests = ({name: each[name] for name in ("cpu", "memory") if name in each} for each in amounts)
    return {"limits": [{"type": "Container", "max": _most(pod, limits), "default": limits, "defaultRequest": requests}]}


def jobs_limit_range(pod: Mapping[str, Any], size: Mapping[str, str]) -> dict[str, Any]:
    """Spec of a LimitRange for the pods of jobs in containers: a container without amounts gets those of a service, `size`.

    It limits no container to less than the template `pod` has. The hooks' own init container names no amounts.
    """
    most = _most(pod, size)
    default = {**size, "cpu": most["cpu"]}
    return {"limits": [{"type": "Container", "max": most, "default": default, "defaultRequest": dict(size)}]}


def _most(pod: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """The largest limit of a container of the pod, for each of these resources."""
    rows = [container["resources"]["limits"] for container in (*pod["containers"], *pod.get("initContainers", ()))]
    return {name: max((row[name] for row in rows if name in row), key=lambda text: quantity(text) or 0) for name in names}


def _pod(chart: Chart) -> dict[str, Any]:
    spec: dict[str, Any] = chart.values["template"]["spec"]
    return spec


def team_limit_range() -> dict[str, Any]:
    """Spec of a team's LimitRange: a container without a request gets a small one, which a queue then counts.

    There is no default limit. It would reject every container that requests more than the default and names no limit.
    """
    return {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1", "memory": "2Gi"}}]}
