"""The objects of a runner set whose jobs run in containers: the namespace of the jobs' pods, rights, templates and limits.

The App's Secret is in the namespace of the runners. So the runner's account has its rights in another one, where the jobs' pods
are. GitHub's hooks use one namespace for all that they do (actions/runner-container-hooks 0.8.1, packages/k8s/src/k8s/index.ts).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.charts.container_jobs import ACCOUNT, JOB, NAME, NO_GPU, hook, job_account, limits
from fleet.charts.runner_sets import PodSet
from fleet.facts.manifest import Manifest, manifest
from fleet.facts.scheduling import JOB_TEMPLATE, is_gpu_resource
from fleet.prove.namespace_limits import jobs_quota
from fleet.render.isolation import namespace, network_policy, wall

_RULES = (
    ("pods", ("get", "list", "create", "delete")),
    ("pods/exec", ("get", "create")),
    ("pods/log", ("get", "list", "watch")),
    ("secrets", ("get", "list", "create", "delete")),
)
"""What the hooks ask the API server about before they start (packages/k8s/src/k8s/index.ts, requiredPermissions)."""
_RBAC, _ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
WALLS = ("NetworkPolicy", "ResourceQuota", "LimitRange")
"""Kinds of the objects that isolate the jobs' pods."""
API_PORTS = (443, 6443)
"""TCP ports of API servers: of the service, of EKS and OKE; and of kubeadm and Talos."""


def container_jobs(pods: PodSet) -> tuple[Manifest, ...]:
    """The objects, in the order to apply them in. Empty for a set whose jobs do not run in containers."""
    return (*_of_runners(pods), *_of_jobs(pods), *admission(pods)) if pods.in_containers else ()


def _of_runners(pods: PodSet) -> Iterator[Manifest]:
    """What the runners' namespace has: their account, and the hook with its templates."""
    yield manifest("v1", "ServiceAccount", ACCOUNT, pods.home) | {"automountServiceAccountToken": False}
    texts = {name: json.dumps(template, indent=2) for name, template in pods.templates.items()}
    yield manifest("v1", "ConfigMap", NAME, pods.home) | {"data": {"index.js": hook(), **texts}}


def _of_jobs(pods: PodSet) -> Iterator[Manifest]:
    """The namespace of the jobs' pods, with everything in it."""
    home = pods.jobs_home
    yield namespace(home, pods.pod_security)
    account = manifest("v1", "ServiceAccount", job_account(pods), home) | {"automountServiceAccountToken": False}
    yield account | ({"imagePullSecrets": [{"name": name} for name in pods.pull_secrets]} if pods.pull_secrets else {})
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": list(verbs)} for resource, verbs in _RULES]
    yield manifest(_RBAC, "Role", ACCOUNT, home) | {"rules": rules}
    yield manifest(_RBAC, "RoleBinding", ACCOUNT, home) | {
        "roleRef": {"apiGroup": _RBAC.partition("/")[0], "kind": "Role", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": pods.home}],
    }
    yield wall(NAME, home, network_policy(pods.closed_networks, pods.open_networks, builders=pods.builders))
    yield manifest("v1", "ResourceQuota", NAME, home, jobs_quota(pods.scale.max))
    yield manifest("v1", "LimitRange", NAME, home, limits(pods.templates[JOB_TEMPLATE], pods.services))


def admission(pods: PodSet) -> Iterator[Manifest]:
    """A ValidatingAdmissionPolicy that holds the pods of the jobs' namespace to the templates, and its binding.

    The hooks merge the templates into each pod. A program with the runner's token could leave them out.
    """
    rules = [{"expression": rule, "message": message} for rule, message in _rules(pods)]
    yield manifest(_ADMISSION, "ValidatingAdmissionPolicy", pods.jobs_home) | {
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
            },
            "validations": rules,
        }
    }
    yield manifest(_ADMISSION, "ValidatingAdmissionPolicyBinding", pods.jobs_home) | {
        "spec": {
            "policyName": pods.jobs_home,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": pods.jobs_home}}},
        }
    }


def _rules(pods: PodSet) -> Iterator[tuple[str, str]]:
    """Expressions of the Common Expression Language, each with the message of a refusal."""
    spec = pods.templates[JOB_TEMPLATE]["spec"]
    most = pods.services.most
    others = len(spec["containers"]) - 2
    yield "has(object.metadata.labels) && 'runner-pod' in object.metadata.labels", "only the runner's hooks make pods here"
    account = _text(job_account(pods))
    yield (
        f"object.spec.serviceAccountName == {account} && object.spec.automountServiceAccountToken == false",
        f"a job's pod has the service account {job_account(pods)} and no token of the API server",
    )
    yield "!has(object.spec.resourceClaims)", "a job's pod claims no devices"
    yield "!has(object.spec.nodeName)", "the scheduler chooses the node of a job's pod"
    yield _nodes(spec), "a job's pod runs on the pools of its class"
    priority = spec.get("priorityClassName")
    if priority:
        yield f"object.spec.priorityClassName == {_text(priority)}", f"a job's pod has the priority class {priority}"
    else:
        system = "!has(object.spec.priorityClassName) || !object.spec.priorityClassName.startsWith('system-')"
        yield system, "a job's pod does not have a priority class of the system"
    # The API server adds tolerations of its own, also for GPUs where ExtendedResourceToleration is on, as on EKS.
    allowed = _list(dict.fromkeys((*(toleration["key"] for toleration in spec["tolerations"]), *_amounts(spec))))
    own = "t.key.startsWith('node.kubernetes.io/')"
    yield (
        f"!has(object.spec.tolerations) || object.spec.tolerations.all(t, has(t.key) && ({own} || t.key in {allowed}))",
        "a job's pod tolerates the taints of its class's pools alone",
    )
    yield from _gpus(spec)
    yield (
        f"object.spec.containers.size() <= {1 + most + others}",
        f"a job of this class has at most {most} services; raise services.most of the class",
    )


def _nodes(spec: Mapping[str, Any]) -> str:
    """Whether a pod has the node selector or the required affinity of a template."""
    if "affinity" not in spec:
        pairs = [
            f"object.spec.nodeSelector[?{_text(key)}].orValue('') == {_text(value)}"
            for key, value in spec["nodeSelector"].items()
        ]
        return " && ".join(["has(object.spec.nodeSelector)", *pairs]) if pairs else "true"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    path = f"object.spec.affinity.nodeAffinity.{required}"
    ways = []
    for term in spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]:
        rows = [
            f"t.matchExpressions.exists(e, e.key == {_text(row['key'])} && e.operator == 'In' && "
            f"e.values.all(v, v in {_list(row['values'])}))"
            for row in term["matchExpressions"]
        ]
        ways.append(" && ".join(rows))
    terms = f"{path}.nodeSelectorTerms.all(t, has(t.matchExpressions) && ({' || '.join(f'({way})' for way in ways)}))"
    there = " && ".join(f"has({step})" for step in ("object.spec.affinity", "object.spec.affinity.nodeAffinity", path))
    return f"{there} && {terms}"


def _gpus(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Only the job's container has GPUs, and at most those of its class. The others do not see them."""
    amounts = _amounts(spec)
    amount, limited = "quantity(string(c.resources.limits[r]))", "has(c.resources) && has(c.resources.limits)"
    within = [f"(r == {_text(name)} && {amount}.compareTo(quantity('{count}')) <= 0)" for name, count in amounts.items()]
    words = " and ".join(f"{count} {name}" for name, count in amounts.items()) or "no GPU"
    of_job = f"c.name == 'job' && ({' || '.join(within)})" if within else "false"
    for key, there, extended in (
        ("containers", "", of_job),
        ("initContainers", "!has(object.spec.initContainers) || ", "false"),
    ):
        rule = f"r in ['cpu', 'memory', 'ephemeral-storage'] || ({extended})"
        yield (
            f"{there}object.spec.{key}.all(c, !({limited}) || c.resources.limits.all(r, {rule}))",
            f"a job of this class has {words}",
        )
    if amounts:
        name, void = _text(NO_GPU["name"]), _text(NO_GPU["value"])
        hidden = f"has(c.env) && c.env.exists(e, e.name == {name}) && c.env.all(e, e.name != {name} || e.value == {void})"
        has_gpus = " || ".join(f"{_text(resource)} in c.resources.limits" for resource in amounts)
        # The variable wins over the GPUs that kubelet gives to a container.
        own = f"{limited} && ({has_gpus}) && !has(c.envFrom) && (!has(c.env) || c.env.all(e, e.name != {name}))"
        yield (
            f"object.spec.containers.all(c, ({own}) || ({hidden}))",
            f"only the job's container sees GPUs, and those that kubelet gives it; remove {NO_GPU['name']} from env",
        )
        yield (
            f"!has(object.spec.initContainers) || object.spec.initContainers.all(c, {hidden})",
            f"an init container sees no GPU; write {NO_GPU['name']}: {NO_GPU['value']} in its env",
        )


def _amounts(spec: Mapping[str, Any]) -> dict[str, int]:
    """The GPUs of the job's container, by the name of their resource."""
    (job,) = (container for container in spec["containers"] if container["name"] == JOB)
    return {name: int(count) for name, count in job["resources"]["limits"].items() if is_gpu_resource(name)}


def _text(value: str) -> str:
    """A text of the language. No name or label has a quote."""
    return f"'{value}'"


def _list(values: Any) -> str:
    return f"[{', '.join(map(_text, values))}]"
