"""A runner set whose jobs run in containers, as members of a stack."""

from __future__ import annotations

from typing import Any

from policies.rules.kinds import CONFIG_MAP
from tests.policies.cases import Member
from tests.policies.pool_fixtures import GPU, RELEASE, runner_set, scale_set
from tests.policies.suite import templates

SPACE, JOBS = "runners-gpu-t4", "runners-gpu-t4-jobs"
INSIDE = {"clusterIdentifier": "usw2"}
HOME = {"namespace": SPACE}
MOUNT: dict[str, Any] = {"name": "hooks", "configMap": {"name": "container-jobs"}}
HOOKED: dict[str, Any] = {
    "serviceAccountName": "runner",
    "automountServiceAccountToken": True,
    "containers": [
        {
            "name": "runner",
            "env": [
                {"name": "ACTIONS_RUNNER_CONTAINER_HOOKS", "value": "/etc/gpu-ci/hooks/index.js"},
                {"name": "ACTIONS_RUNNER_KUBERNETES_NAMESPACE", "value": JOBS},
            ],
        }
    ],
    "volumes": [MOUNT],
}
"""The pod of such a runner: it takes no GPU."""
JOB: dict[str, Any] = {
    "serviceAccountName": "jobs",
    "automountServiceAccountToken": False,
    "nodeSelector": {"gpu-ci/pool": "t4"},
    "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
    "containers": [{"name": "$job", "resources": {"limits": {GPU: 1}}}],
}
STEP: dict[str, Any] = JOB | {"containers": [{"name": "$job", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}]}


def hooked(token: str = RELEASE, spec: dict[str, Any] | None = None, **values: Any) -> Member:
    """The runner set."""
    pod = HOOKED if spec is None else spec
    if token == RELEASE:
        props = scale_set(pod, githubConfigSecret="github-app", **values) | HOME | {"name": "gpu-t4"}
    else:
        props = runner_set(pod, githubConfigSecret="github-app", **values)
        props |= {"metadata": HOME | {"name": "gpu-t4"}}
    return Member(token, "gpu-t4", props, provider=INSIDE)


def hooks(job: dict[str, Any] = JOB, step: dict[str, Any] | None = STEP, namespace: str = SPACE) -> Member:
    """The ConfigMap with its templates."""
    return Member(CONFIG_MAP, "hooks", templates(job, step, namespace=namespace), provider=INSIDE)
