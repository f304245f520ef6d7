"""The objects of a runner set whose jobs run in containers: the namespace of the jobs' pods, rights, templates and limits.

The App's Secret is in the namespace of the runners. So the runner's account has its rights in another one, where the jobs' pods
are. GitHub's hooks use one namespace for all that they do (actions/runner-container-hooks 0.8.1, packages/k8s/src/k8s/index.ts).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.charts.container_jobs import ACCOUNT, JOB, hook, job_account, service_size
from fleet.charts.runner_sets import PodSet
from fleet.facts.manifest import Manifest, manifest, role, rule, service_account
from fleet.facts.scheduling import CONTAINER_JOBS, JOB_TEMPLATE, NO_GPU, RUNNER_POD_LABEL, is_gpu_resource
from fleet.facts.tables import beside
from fleet.prove.namespace_limits import jobs_limit_range, jobs_quota
from fleet.render.admission import enforced
from fleet.render.isolation import in_namespace, namespace, network_policy, wall

_VERBS = {"pods": "get list create delete", "pods/exec": "get create", "pods/log": "get list watch"}
_RULES = tuple(rule(kind, *verbs.split()) for kind, verbs in (_VERBS | {"secrets": _VERBS["pods"]}).items())
"""What the hooks ask the API server about before they start (packages/k8s/src/k8s/index.ts, requiredPermissions)."""
_CEL = beside(__file__, "container_jobs.toml")
_WITHIN = "quantity(string(c.resources.limits[r])).compareTo(quantity('{count}')) <= 0"
_SELECTS = "t.matchExpressions.exists(e, e.key == {} && e.operator == 'In' && e.values.all(v, v in {}))"
WALLS = ("NetworkPolicy", "ResourceQuota", "LimitRange")
"""Kinds of the objects that isolate the jobs' pods."""


def container_jobs(pods: PodSet) -> tuple[Manifest, ...]:
    """The objects, in the order to apply them in. Empty for a set whose jobs do not run in containers."""
    if not pods.in_containers:
        return ()
    templates = pods.templates
    job = templates[JOB_TEMPLATE]["spec"]
    return (*_of_runners(pods, templates), *_of_jobs(pods, job), *_admission(pods, job))


def _of_runners(pods: PodSet, templates: Mapping[str, Any]) -> Iterator[Manifest]:
    """What the runners' namespace has: their account, and the hook with its templates."""
    yield service_account(ACCOUNT, pods.home)
    texts = {name: json.dumps(template, indent=2) for name, template in templates.items()}
    yield manifest("v1", "ConfigMap", CONTAINER_JOBS, pods.home) | {"data": {"index.js": hook(), **texts}}


def _of_jobs(pods: PodSet, job: Mapping[str, Any]) -> Iterator[Manifest]:
    """The namespace of the jobs' pods, with everything in it. `job` is the template of a job's pod."""
    home, name = pods.jobs_home, CONTAINER_JOBS
    yield namespace(home, pods.pod_security)
    account = service_account(job_account(pods), home)
    yield account | ({"imagePullSecrets": [{"name": secret} for secret in pods.pull_secrets]} if pods.pull_secrets else {})
    yield from role(ACCOUNT, pods.home, home, _RULES)
    yield wall(name, home, network_policy(pods.closed_networks, pods.open_networks, builders=pods.builders))
    yield manifest("v1", "ResourceQuota", name, home, jobs_quota(pods.scale.max))
    yield manifest("v1", "LimitRange", name, home, jobs_limit_range(job, service_size(pods.services)["requests"]))


def _admission(pods: PodSet, job: Mapping[str, Any]) -> tuple[Manifest, Manifest]:
    """A ValidatingAdmissionPolicy that holds the pods of the jobs' namespace to the templates, and its binding.

    The hooks merge the templates into each pod. A program with the runner's token could leave them out.
    """
    created = {"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}
    return enforced(pods.jobs_home, created, dict(_rules(pods, job)), in_namespace(pods.jobs_home))


def _rules(pods: PodSet, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Expressions of the Common Expression Language, each with the message of a refusal."""
    yield _rule("hooks", label=RUNNER_POD_LABEL)
    yield _rule("account", account=job_account(pods))
    yield from map(_rule, ("devices", "node"))
    yield _nodes(spec), "a job's pod runs on the pools of its class"
    priority = spec.get("priorityClassName")
    yield _rule("priority", priority=priority) if priority else _rule("no_priority_of_system")
    # The API server adds tolerations of its own, also for GPUs where ExtendedResourceToleration is on, as on EKS.
    allowed = _list(dict.fromkeys((*(toleration["key"] for toleration in spec["tolerations"]), *_amounts(spec))))
    yield _rule("tolerations", allowed=allowed)
    yield from _gpus(spec)
    # The template has one container for all services.
    most = pods.services.most
    yield _rule("services", containers=len(spec["containers"]) - 1 + most, most=most)


def _rule(row: str, /, **values: object) -> tuple[str, str]:
    """An expression and its message, a row of container_jobs.toml with its fields filled in."""
    return _CEL[row]["holds"].format(**values), _CEL[row]["message"].format(**values)


def _nodes(spec: Mapping[str, Any]) -> str:
    """Whether a pod has the node selector or the required affinity of a template."""
    if "affinity" not in spec:
        labels = spec["nodeSelector"].items()
        pairs = [f"object.spec.nodeSelector[?{_text(key)}].orValue('') == {_text(value)}" for key, value in labels]
        return " && ".join(["has(object.spec.nodeSelector)", *pairs]) if pairs else "true"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    path = f"object.spec.affinity.nodeAffinity.{required}"
    terms = [term["matchExpressions"] for term in spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]]
    ways = (" && ".join(_SELECTS.format(_text(row["key"]), _list(row["values"])) for row in term) for term in terms)
    allowed = f"{path}.nodeSelectorTerms.all(t, has(t.matchExpressions) && ({' || '.join(f'({way})' for way in ways)}))"
    there = " && ".join(f"has({step})" for step in ("object.spec.affinity", "object.spec.affinity.nodeAffinity", path))
    return f"{there} && {allowed}"


def _gpus(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Only the job's container has GPUs, and at most those of its class. The others do not see them."""
    amounts = _amounts(spec)
    within = [f"(r == {_text(name)} && {_WITHIN.format(count=count)})" for name, count in amounts.items()]
    words = " and ".join(f"{count} {name}" for name, count in amounts.items()) or "no GPU"
    yield _rule("gpus", words=words, extended=f"c.name == 'job' && ({' || '.join(within)})" if within else "false")
    yield _rule("gpus_at_start", words=words)
    if amounts:
        has_gpus = " || ".join(f"{_text(resource)} in c.resources.limits" for resource in amounts)
        yield _rule("visible", has_gpus=has_gpus, **NO_GPU)
        yield _rule("visible_at_start", **NO_GPU)


def _amounts(spec: Mapping[str, Any]) -> dict[str, int]:
    """The GPUs of the job's container, by the name of their resource."""
    (job,) = (container for container in spec["containers"] if container["name"] == JOB)
    return {name: int(count) for name, count in job["resources"]["limits"].items() if is_gpu_resource(name)}


def _text(value: str) -> str:
    """A text of the language. No name or label has a quote."""
    return f"'{value}'"


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"
