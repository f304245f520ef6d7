"""What a cluster refuses itself: for each rule of `fleet.facts.admission` a ValidatingAdmissionPolicy with its binding.

The rules for objects of the program leave out each user who may delete these policies: the program itself, ArgoCD, Kubernetes'
controllers of namespaces and of owners. No rule judges pods of the system or of a namespace whose pods may be root on their nodes
anyway, nor those of jobs in containers, which have a stricter policy of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from fleet.facts.admission import CONTAINERS, KINDS, RULES, SYSTEM, TESTS, AdmissionRule
from fleet.facts.manifest import Manifest, filled, manifest
from fleet.facts.scheduling import NAMESPACE_NAME_LABEL, POD_SECURITY_LABEL, RUNNER_PRIORITY, RUNNERS
from fleet.providers.installed import monitoring_charts, shared_charts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import jobs_namespace

_API = "admissionregistration.k8s.io/v1"
_CONDITIONS = {
    "Pod": "request.operation != 'UPDATE' || object.spec != oldObject.spec",
    "Namespace": f"object.metadata.name.startsWith('{RUNNERS}')",
    "PriorityClass": "true",
}
"""Which objects of a kind a rule judges: of all other kinds those in namespaces of runners."""
_OTHERS = "!authorizer.group('admissionregistration.k8s.io').resource('validatingadmissionpolicies').check('delete').allowed()"
_FIXED = "request.operation != 'DELETE' && (request.operation != 'UPDATE' || object.spec == oldObject.spec) && "


def admission(cluster: Cluster) -> Iterator[Manifest]:
    """The policies, each with its binding behind it; none unless the settings want them."""
    charts = chain(shared_charts(cluster), monitoring_charts(cluster, ""))
    of_jobs = (jobs_namespace(name) for name, runner in cluster.pod_runners.items() if runner.in_containers)
    passing = sorted({*SYSTEM, *(chart.namespace for chart in charts), *of_jobs})
    numbers = {"maxPerContainer": cluster.largest_job, "ceiling": RUNNER_PRIORITY.value}
    return (each for rule in (RULES if cluster.admission else ()) for each in policy(rule, numbers, passing))


def policy(rule: AdmissionRule, numbers: Mapping[str, int], passing: Sequence[str]) -> tuple[Manifest, Manifest]:
    """One rule's policy and binding. `numbers` are those that tests name; pods of the namespaces `passing` are not judged."""
    pods = rule.kind == "Pod"
    conditions = [_CONDITIONS.get(rule.kind, f"request.namespace.startsWith('{RUNNERS}')"), *([] if pods else [_OTHERS])]
    labels = {NAMESPACE_NAME_LABEL: passing, POD_SECURITY_LABEL: ["privileged"]}.items()
    outside = [{"key": key, "operator": "NotIn", "values": [*values]} for key, values in labels]
    variables = {"containers": " + ".join(f"object.spec.?{name}.orValue([])" for name in CONTAINERS)}
    variables |= {name: _cel(test, "object", numbers) for name, test in TESTS.items()}
    judged = {**KINDS[rule.kind], **filled({"operations": [*rule.operations]})}
    test = ("" if "DELETE" not in judged["operations"] else _FIXED) + _cel(rule.holds, "object", numbers)
    where = {"namespaceSelector": {"matchExpressions": outside}} if pods else {}
    when = [{"name": f"condition-{index}", "expression": text} for index, text in enumerate(conditions)]
    named = [{"name": name, "expression": text} for name, text in variables.items()] if pods else []
    messages = {test: f"{rule.message} (policy {rule.policy})"}
    return enforced(f"gpu-ci-{rule.id}", judged, messages, where, matchConditions=when, variables=named)


def enforced(
    name: str, judged: Manifest, messages: Mapping[str, str], where: Manifest, **more: Sequence[Manifest]
) -> tuple[Manifest, Manifest]:
    """A ValidatingAdmissionPolicy and its binding.

    `judged` are kinds and operations, `where` is what the binding matches, and `messages` are those of a refusal by the
    expression that must hold. `more` are fields of the policy's spec.
    """
    spec = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiVersions": ["v1"], **judged}]}, **filled(more)}
    spec["validations"] = [{"expression": expression, "message": message} for expression, message in messages.items()]
    bound = {"policyName": name, "validationActions": ["Deny"], **filled({"matchResources": where})}
    kind = "ValidatingAdmissionPolicy"
    return manifest(_API, kind, name, spec=spec), manifest(_API, f"{kind}Binding", name, spec=bound)


def _cel(test: Any, of: str, numbers: Mapping[str, int]) -> str:
    """A test as an expression of the Common Expression Language about the variable `of`."""
    match test:
        case list() | tuple():
            said = f"({' && '.join(_cel(part, of, numbers) for part in test)})"
        case {"any": tests}:
            said = f"({' || '.join(_cel(part, of, numbers) for part in tests) or 'false'})"
        case {"not": inner}:
            said = f"!{_cel(inner, of, numbers)}"
        case {"named": name}:
            said = f"variables.{name}"
        case {"every": path, "holds": inner}:
            # An item of a list in an item has a name of its own.
            item, there = "x" if of == "object" else f"{of}x", f"{_at(path, of)}.orValue([])"
            said = f"{'variables.containers' if path == 'containers' else there}.all({item}, {_cel(inner, item, numbers)})"
        case {"path": path, "matches": pattern}:
            said = f"{_at(path, of)}.orValue('').matches(r'{pattern}')"
        case {"path": path, "keys": pattern}:
            there, key = f"{_at(path, of)}.orValue({{}})", f"k.matches(r'^({pattern})$')"
            most = f"quantity('{numbers.get(test.get('most'))}')"
            within = f"all(k, !{key} || quantity(string({there}[k])).compareTo({most}) <= 0)"
            said = f"{there}.{within if 'most' in test else f'exists(k, {key})'}"
    return said


def _at(path: str, of: str) -> str:
    """What is at a path of a variable, as an optional value."""
    fields, _, key = path.partition("#")
    steps = "".join(f".?{field}" for field in fields.split(".")) + (f"[?'{key}']" if key else "")
    return f"{of}{steps}" if path else f"optional.of({of})"
