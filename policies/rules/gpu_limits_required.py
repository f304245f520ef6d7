"""gpu-limits-required: a pod that is meant for GPU nodes has a GPU limit.

Judged: every kind with a pod spec, ARC's runner set, and the runner pod in the values of chart gha-runner-scale-set. A claim of
dynamic resource allocation does not replace the limit, because the device plugin counts this project's GPUs.

A pod is meant for GPU nodes if its spec has one of these signs: toleration, selector, required affinity, runtime class, visible
devices. A way past the scheduler is a sign, too: a node that the pod names itself, a device of the Container Device Interface or
of NVIDIA's runtime. For a pod that tolerates `gpu-ci/cpu`, the taint of pools without GPUs, the labels of pool, role and capacity
do not count. A launcher is a runner pod that boots a machine outside the cluster. It has none of these signs, takes no GPU of the
cluster and needs no limit. A launcher with such a sign is reported like any other pod. The pod of a container action runs beside
the pod of its job, which has the GPU: its template needs no limit if it hides GPUs by `NVIDIA_VISIBLE_DEVICES`. The rule does not
judge machines, because a job has the whole machine. A ConfigMap that sets `NVIDIA_VISIBLE_DEVICES` lets any pod see GPUs. The
GPU operator does the same if its toolkit obeys that variable in pods without rights (NVIDIA container toolkit, config.toml).
"""

from collections.abc import Callable
from itertools import chain

from fleet.facts.quantities import quantity
from fleet.facts.scheduling import GPU_RESOURCE, RUNTIME_CLASS, VISIBLE_DEVICES, is_gpu_resource

from . import pods
from .admission import held
from .charts import Container
from .kinds import CLUSTER_POLICY, CONFIG_MAPS, OPERATOR_CHART, PODS, SERVING, each, kind_of, may_have_pods
from .pods import PodSpec, containers_of, gpu_amounts, of_cpu_pools, pod_specs, tolerations
from .pools import GPU_TAINTS, INSTANCE_TYPE_LABEL, PLACEMENT_LABELS, key_means_gpu, machine_sign, marks_gpus, means_gpu
from .read import Data, Faults, Later, entries, items, keys, label, shown, strings, text, true, walk, whole
from .releases import releases
from .rule import Args, Rule, facts, said

_CDI, _DEVICE_LIST = "cdi.k8s.io/", "/var/run/nvidia-container-devices"
"""Annotations of the Container Device Interface, and the folder whose mounts NVIDIA's runtime reads as a list of devices."""

_OBEYS = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
"""The toolkit's variable by which each pod may ask for devices."""


def _check(args: Args, later: Later) -> Faults:
    allowed = frozenset(strings(args.config, "allowNoLimitNames"))
    for release in releases(args.type, args.props, later):
        with later:
            if release.is_scale_set:
                yield from release.unread("change the runner pod", later)
            elif release.chart_name == OPERATOR_CHART:
                yield from _obeying(release.values_path, release.values, later)
    if args.type in CLUSTER_POLICY:
        yield from _obeying("spec", later.walk(args.props, "spec"), later)
    for prefix, holder in each(args.type, args.props, later) if args.type in CONFIG_MAPS else ():
        if (value := text(later.walk(holder, "data", VISIBLE_DEVICES))) not in pods.NO_DEVICES:
            yield said("visible_without_limit", prefix=prefix, variable=VISIBLE_DEVICES, value=value)
    handler = text(later.walk(args.props, "handler")) if kind_of(args.type) == "RuntimeClass" else ""
    if handler.startswith(RUNTIME_CLASS) and text(later.walk(args.props, "metadata", "name")) != handler:
        yield f"handler is {shown(handler)}: its pods see GPUs, and no policy knows the class; name it {shown(handler)}"
    for pod in pod_specs(args.type, args.props, later):
        yield from _check_pod(pod, allowed, later)


def _obeying(at: str, values: Data, later: Later) -> Faults:
    for path, variable in entries(values, "toolkit.env", later):
        with later:
            if text(walk(variable, "name")) == _OBEYS and true(walk(variable, "value")):
                yield said("toolkit_obeys", path=f"{at}.{path}", variable=VISIBLE_DEVICES)


def _check_pod(pod: PodSpec, allowed: frozenset[str], later: Later) -> Faults:
    # Only an unknown container or limit can hide that the pod has a limit. `later` collects every other unknown value.
    hidden = Later()
    containers = tuple(containers_of(pod, hidden))
    limited = False
    faults: list[str] = []
    for container in containers:
        unknown_limit = Later()
        limits = gpu_amounts(container, "limits", unknown_limit)
        requests = gpu_amounts(container, "requests", later)
        limited = limited or bool(limits)
        faults += _limit_faults(container, limits)
        faults += _request_faults(container, requests, limits, bool(unknown_limit))
        hidden.join(unknown_limit)
    yield from (f"{pod.path}.{fault}" for fault in faults)
    if not (limited or faults or hidden):
        yield from _check_unlimited(pod, containers, allowed, later)
    later.join(hidden)


def _limit_faults(container: Container, limits: dict[str, Data]) -> Faults:
    for name, amount in limits.items():
        field = f"{container.path}.resources.limits[{shown(name)}]"
        if not is_gpu_resource(name):
            yield f"{field} is an object: a resource name is one key; write {shown(GPU_RESOURCE)} in quotes"
        elif (whole(amount) or 0) < 1:
            yield f"{field} is {shown(amount)}: a GPU limit is a whole number of at least 1; write 1 or more"


def _request_faults(container: Container, requests: dict[str, Data], limits: dict[str, Data], limits_unknown: bool) -> Faults:
    for name, amount in requests.items():
        field = f"{container.path}.resources.requests[{shown(name)}] is {shown(amount)}"
        if name not in limits:
            if not limits_unknown:
                yield f"{field} without a limit: a GPU request equals its limit; set the limit to the same number"
        elif quantity(amount) != quantity(limits[name]):
            yield f"{field}, the limit {shown(limits[name])}: a GPU request equals its limit; write one number for both"


def _check_unlimited(pod: PodSpec, containers: tuple[Container, ...], allowed: frozenset[str], later: Later) -> Faults:
    unnamed, unsigned = Later(), Later()
    if pods.serves_the_node(pod, allowed, unnamed) or pods.hides_gpus(pod, unnamed):
        return
    sign = next(chain(_signs(pod.spec, containers, unsigned), _ways_around(pod, containers, unsigned)), "")
    if sign and not unnamed:
        yield said("no_gpu_limit", pod=pod, sign=sign, resource=GPU_RESOURCE)
    later.join(unnamed if sign else unsigned)


def _signs(spec: Data, containers: tuple[Container, ...], later: Later) -> Faults:
    """The signs that the pod is meant for GPU nodes, each with its place in the spec."""
    for index, toleration in tolerations(spec, later):
        if taint := next(filter(toleration.covers, GPU_TAINTS), None):
            yield f"tolerations[{index}] covers {taint}"
    # A class of runners without GPUs names its pool by the same labels as one with GPUs.
    signs = _marks_only_gpus if of_cpu_pools(spec, later) else marks_gpus
    selector = later.walk(spec, "nodeSelector")
    for key in filter(signs, keys(selector)):
        with later:
            if _selects(key, value := walk(selector, key)):
                yield f"nodeSelector[{shown(key)}] is {shown(value)}"
    *above, last = pods.NODE_TERMS
    for path, expression in entries(later.walk(spec, *above), f"{last}.[].matchExpressions", later):
        with later:
            if sign := _affinity_sign(expression, signs, later):
                yield f"affinity, {path}: {sign}"
    # The plain runtime class, and the toolkit's explicit modes of it.
    if (name := text(later.walk(spec, "runtimeClassName"))) in (RUNTIME_CLASS, f"{RUNTIME_CLASS}-cdi", f"{RUNTIME_CLASS}-legacy"):
        yield f"runtimeClassName is {shown(name)}"
    for container in containers:
        for path, variable in entries(container.body, "env", later):
            with later:
                if text(walk(variable, "name")) == VISIBLE_DEVICES and _sees_gpus(variable):
                    yield f"{container.path}.{path} sets {VISIBLE_DEVICES}"


def _ways_around(pod: PodSpec, containers: tuple[Container, ...], later: Later) -> Faults:
    """The signs that a pod reaches GPUs past the scheduler: a node of its own choice, and what asks the runtime for devices."""
    if name := text(later.walk(pod.spec, "nodeName")):
        yield f"nodeName is {shown(name)}, and the scheduler counts nothing there"
    yield from (f"annotation {shown(name)}" for name in keys(pod.annotations) if name.startswith(_CDI))
    for container in containers:
        for path, mounted in entries(container.body, "volumeMounts", later):
            if text(later.walk(mounted, "mountPath")).startswith(_DEVICE_LIST):
                yield f"{container.path}.{path} is in {_DEVICE_LIST}"
        for name in keys(later.walk(container.body, "resources", "limits")):
            if "/" in name and "nvidia" in name and not is_gpu_resource(name):
                yield f"{container.path}.resources.limits[{shown(name)}]"


def _selects(key: str, value: Data) -> bool:
    return bool(machine_sign(label(value))) if key == INSTANCE_TYPE_LABEL else means_gpu(key, label(value))


def _marks_only_gpus(key: str) -> bool:
    return marks_gpus(key) and key not in PLACEMENT_LABELS


def _affinity_sign(expression: Data, signs: Callable[[str], bool], later: Later) -> str:
    if not signs(key := text(walk(expression, "key"))):
        return ""
    if (operator := text(walk(expression, "operator"))) == "Exists" and key_means_gpu(key):
        return f"{shown(key)} exists"
    if operator == "In":
        for _, value in items(walk(expression, "values"), later):
            if _selects(key, value):
                return f"{shown(key)} in {shown(value)}"
    return ""


def _sees_gpus(variable: Data) -> bool:
    # The program does not know a value from elsewhere (valueFrom). It counts as one that makes GPUs visible. NVIDIA's container
    # runtime injects no GPU for the others.
    return walk(variable, "valueFrom") is not None or text(walk(variable, "value")) not in pods.NO_DEVICES


_FACTS = facts(__name__, allowNoLimitNames=list(SERVING))
RULE = held(Rule(**_FACTS, types=PODS | CLUSTER_POLICY, others=may_have_pods, check=_check))
