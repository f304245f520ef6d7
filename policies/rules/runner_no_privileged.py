"""runner-no-privileged: no pod has the rights of its node.

Judged: every kind with a pod spec, ARC's runner set, Helm releases. Of a release these are the pods of chart
gha-runner-scale-set with what the chart adds to them (its mode `dind` a privileged container), settings of that kind anywhere in
the values of other charts, charts that `charts.toml` knows to need the node, and files of values, which nobody here reads.

What serves the node needs such rights. It is exempt by namespace and name, never by a label, which everybody may set; who may
put it there is for the namespace to say. An exempt scale set of mode `dind` still has to stay on nodes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_policy import ReportViolation, ResourceValidationArgs, Severity

from fleet.scheduling import POOL_LABEL, SYSTEM_POOL

from . import charts
from .exceptions import matches
from .kinds import HELM, LIST_PATHS, POD, RELEASE, RUNNER_SET, chart_name, is_scale_set
from .nested import objects, passed_over, step
from .pods import PodSpec, containers_of, pod_specs, tolerations, volumes_of
from .read import Later, count, items, keys, label, line, shown, strings, text, true, walk, whole
from .rule import Rule

EXEMPT = (
    "nvidia-device-plugin/nvidia-device-plugin",
    "nvidia-device-plugin/nvidia-device-plugin-mps-control-daemon",
    "gpu-operator/gpu-operator",
    "gpu-operator/gpu-operator-node-feature-discovery-worker",
)
"""Namespace and name of what this project's own charts run on the node's behalf."""

_HOST_FLAGS = ("hostNetwork", "hostPID", "hostIPC")


def _check(args: ResourceValidationArgs, report: ReportViolation) -> None:
    later = Later()
    config = args.get_config()
    exempt = strings(config, "exempt", EXEMPT)
    allowed = frozenset(strings(config, "capabilities"))
    for pod in pod_specs(args.resource_type, args.props, later):
        owner = pod.owner if args.resource_type in LIST_PATHS else args.props
        _judge(args.resource_type, owner, exempt, _pod_faults(pod, allowed, later), report, later)
    if args.resource_type in HELM:
        _judge(args.resource_type, args.props, exempt, _release_faults(args.props, allowed, later), report, later)
        for fault in _shared_nodes(args.props, exempt, later):
            report(fault, None)
    later.settle()


def _judge(token: str, owner: Any, exempt: tuple[str, ...], faults: Iterator[str], report: ReportViolation, later: Later) -> None:
    """Reports the faults, unless what they are of is exempt."""
    found = list(faults)
    if not found:
        return
    hidden = Later()
    if not (_exempt(token, owner, exempt, hidden) or hidden):
        for fault in found:
            report(fault, None)
    later.join(hidden)


def _exempt(token: str, owner: Any, exempt: tuple[str, ...], later: Later) -> bool:
    """Whether what the resource makes is exempt. An unknown namespace or name is put off where the other one does not decide."""
    above = () if token in HELM else ("metadata",)
    known: dict[str, str] = {}
    hidden = Later()
    for part in ("namespace", "name"):
        with hidden:
            known[part] = text(walk(owner, *above, part))
    for pattern in exempt:
        namespace, _, name = pattern.partition("/")
        wanted = {"namespace": namespace, "name": name}
        if all(matches(wanted[part], value) for part, value in known.items()):
            later.join(hidden)
            return not hidden
    return False


def _pod_faults(pod: PodSpec, allowed: frozenset[str], later: Later) -> Iterator[str]:
    for flag in _HOST_FLAGS:
        with later:
            if true(walk(pod.spec, flag)):
                yield f"{pod.path}.{flag} is true: the pod is then on the node's own {_SHARED[flag]}; remove it"
    with later:
        if _is_root(walk(pod.spec, "securityContext")):
            yield f"{pod.path}.securityContext.runAsUser is 0: {_ROOT}"
    for path, volume in volumes_of(pod, later):
        with later:
            if (host := walk(volume, "hostPath")) is not None:
                yield f"{pod.path}.{path}.hostPath {_mount(text(walk(host, 'path')))}"
    for container in containers_of(pod, later):
        with later:
            security = walk(container.body, "securityContext")
            path = f"{pod.path}.{container.path}"
            if container.made and true(walk(security, "privileged")):
                why = f"{path}.securityContext.privileged is true, made by {container.made}"
                yield f"{why}: {_PRIVILEGED}; leave that empty, or exempt the set and keep it on nodes of its own"
            else:
                yield from _security_faults(f"{path}.securityContext", security, allowed, later)


def _security_faults(path: str, security: Any, allowed: frozenset[str], later: Later) -> Iterator[str]:
    """Faults of a container's security context, or of what looks like one in values."""
    with later:
        if true(walk(security, "privileged")):
            yield f"{path}.privileged is true: {_PRIVILEGED}; remove it"
    with later:
        if _is_root(security):
            yield f"{path}.runAsUser is 0: {_ROOT}"
    with later:
        for index, capability in items(walk(security, "capabilities", "add"), later):
            if text(capability) not in allowed:
                yield (
                    f"{path}.capabilities.add[{index}] is {shown(capability)}: a right of the node's that pods do not have by "
                    "themselves; remove it, or allow it in capabilities"
                )


def _release_faults(props: Any, allowed: frozenset[str], later: Later) -> Iterator[str]:
    with later:
        known = charts.DEFAULTS.get(chart_name(props))
        if known is not None and known.node:
            yield f"chart is {shown(walk(props, 'chart'))}: it {known.node}; exempt its namespace and name, or leave it out"
    with later:
        if count(walk(props, "valueYamlFiles")):
            yield "valueYamlFiles: files may ask for any right and are not read here; move them to values"
    with later:
        passing = passed_over(props)
        for path, holder in objects(walk(props, "values"), "values", later, passing):
            yield from _security_faults(path, holder, allowed, later)
            for key in (*_HOST_FLAGS, "hostPath"):
                if key in keys(holder):
                    with later:
                        yield from _value_faults(step(path, key), key, walk(holder, key))


def _value_faults(path: str, key: str, value: Any) -> Iterator[str]:
    if key != "hostPath":
        if true(value):
            yield f"{path} is true: the pod is then on the node's own {_SHARED[key]}; remove it"
    elif value and (where := text(value) or text(walk(value, "path"))):
        yield f"{path} {_mount(where)}"


def _shared_nodes(props: Any, exempt: tuple[str, ...], later: Later) -> Iterator[str]:
    """What an exempt scale set with a privileged Docker lacks: a pool of its own, whose taint keeps others away."""
    with later:
        if not is_scale_set(props) or charts.mode(walk(props, "values")) != charts.DIND:
            return
        hidden = Later()
        if not _exempt(RELEASE, props, exempt, hidden):
            later.join(hidden)
            return
        spec = walk(props, "values", "template", "spec")
        unsure = Later()
        tainted = any(each.key for _, each in tolerations(spec, unsure))
        pool = label(walk(spec, "nodeSelector", POOL_LABEL))
        if pool in ("", SYSTEM_POOL) or not (tainted or unsure):
            yield (
                'values.containerMode.type is "dind": jobs then own their node, so it is one of a tainted pool of theirs; '
                f"set template.spec.nodeSelector[{shown(POOL_LABEL)}] and a toleration with a key"
            )
        elif not tainted:
            later.join(unsure)


def _is_root(security: Any) -> bool:
    user = walk(security, "runAsUser")
    return not isinstance(user, bool) and whole(user) == 0


def _mount(path: str) -> str:
    where = f'is "{line(path)}"'
    if path.endswith(".sock"):
        return f"{where}: who reaches that socket starts containers with any right; remove the volume"
    return f"{where}: a folder of the node, with what other pods and the node keep there; use emptyDir, or a claim"


_SHARED = {"hostNetwork": "network, metadata included", "hostPID": "processes", "hostIPC": "shared memory"}
_PRIVILEGED = "a privileged container is root on its node, with all GPUs, credentials and pods there"
_ROOT = "one flaw of the kernel then makes root of the node; write the user that the image has for its work, above 0"


RULE = Rule(
    id="runner-no-privileged",
    title="No pod has the rights of its node",
    severity=Severity.CRITICAL,
    types=POD | RUNNER_SET | HELM,
    levels={"dev": "advisory", "staging": "mandatory", "prod": "mandatory", "homelab": "mandatory"},
    critical=True,
    config={
        "exempt": {
            "type": "array",
            "items": {"type": "string", "pattern": "^[^/]+/[^/]+$"},
            "default": list(EXEMPT),
            "description": "What serves the node and may have its rights, as namespace/name; * stands for anything.",
        },
        "capabilities": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Capabilities that a container may add.",
        },
    },
    rationale="A job that is root on its node reads the other jobs there, the node's credentials, and what comes after it.",
    source="https://docs.aws.amazon.com/eks/latest/best-practices/pod-security.html",
    fix="Remove privileged, hostNetwork, hostPID, hostIPC, hostPath, added capabilities, runAsUser 0 and containerMode dind.",
    check=_check,
)
