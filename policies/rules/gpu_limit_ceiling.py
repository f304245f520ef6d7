"""gpu-limit-ceiling: no container, pod, workload or queue takes more GPUs than the stack allows.

Judged: every kind with a pod spec, ARC's runner set, the runner pod in the values of chart gha-runner-scale-set, the templates
of jobs in containers, the values of other charts, Kueue's queues. A GPU and a slice of a GPU each count as one.

The rule counts a pod's GPUs like the scheduler: the regular containers and sidecars together or, if that is more, an init
container together with the sidecars before it. A workload counts with all pods that run at once: `replicas`, `parallelism`,
`maxRunners`. If jobs run in containers, each runner has the pod of one job, and that pod has the GPUs. A DaemonSet counts once,
because its nodes limit it. A runner set without `maxRunners` has no limit. If `maxRunners` is text, the set has no limit either,
because the chart drops text. An autoscaler of pods counts with its maximum. The workloads of a namespace count together, too;
runner sets do not. A launcher's pod takes no GPU of the cluster; gpu-pool-max-size judges the machines that it boots.
"""

from collections.abc import Mapping
from itertools import product

from fleet.facts.quantities import quantity
from fleet.facts.scheduling import is_gpu_resource

from .admission import held
from .chart_gpus import chart_faults
from .charts import REGULAR, Container
from .kinds import CONFIG_MAPS, HELM, PODS, QUEUES, RUNNER_SET, fields, kind_of, may_have_pods
from .pods import PodSpec, containers_of, gpu_count, pod_specs
from .read import Data, Faults, Later, bound, entries, gpus, keys, shown, text, walk, whole
from .releases import releases
from .rule import Args, Resource, Stack, StackRule, Violations, each, facts, said, setting
from .runner_sets import runner_sets

# Path of the number of pods that run at once, in the object that owns the pod. Without a number it is 1.
_COUNTS = fields("replicas")
_RUNNERS = {"AutoscalingRunnerSet": ("spec", "maxRunners"), **dict.fromkeys(map(kind_of, HELM), ("maxRunners",))}
"""The same for runner sets. Without a number they have no limit."""


def _check(stack: Stack, later: Later) -> Violations:
    yield from each(_check_alone)(stack, later)
    yield from _together(stack, later)
    most = bound(stack.config, "maxPerWorkload")
    for runner_set in runner_sets(stack.resources, later):
        for pod in runner_set.job_pods(later):
            if per_pod := _effective(_counted(pod, later), later):
                faults = _workload_faults(pod, kind_of(runner_set.resource.type), per_pod, most, later)
                yield from ((fault, runner_set.resource.urn) for fault in faults)


def _together(stack: Stack, later: Later) -> Violations:
    """The workloads of each namespace together, and each with as many pods as an autoscaler of pods may give it."""
    scaled = {_target(resource, later): resource for resource in stack.resources if keys(_scales(resource, later))}
    taken: dict[str, list[tuple[Resource, int]]] = {}
    for resource in stack.resources:
        if resource.type in HELM | RUNNER_SET | CONFIG_MAPS:
            continue
        for pod in pod_specs(resource.type, resource.props, later):
            if not (per_pod := _effective(_counted(pod, later), later)):
                continue
            path = _COUNTS.get(kind_of(resource.type))
            number = max(whole(later.walk(pod.owner, *path)) or 1, 1) if path else pod.times
            namespace = text(later.walk(resource.props, "metadata", "namespace"))
            taken.setdefault(namespace, []).append((resource, per_pod * number))
            if (scaler := scaled.get((namespace, text(later.walk(resource.props, "metadata", "name"))))) is not None:
                yield from _scaler_faults(scaler, per_pod, bound(stack.config, "maxPerWorkload"), later)
    most = bound(stack.config, "maxPerNamespace")
    for namespace, workloads in taken.items():
        if len(workloads) > 1 and (total := sum(number for _, number in workloads)) > most:
            fault = said("namespace_gpus", count=len(workloads), namespace=namespace, total=total, most=most)
            yield fault, workloads[-1][0].urn


def _scales(resource: Resource, later: Later) -> Data:
    """What an autoscaler of pods scales, of Kubernetes or of KEDA; None for another resource."""
    return later.walk(resource.props, "spec", "scaleTargetRef") if resource.type.startswith("kubernetes:") else None


def _target(resource: Resource, later: Later) -> tuple[str, str]:
    of = (later.walk(resource.props, "metadata", "namespace"), later.walk(_scales(resource, later), "name"))
    return text(of[0]), text(of[1])


def _scaler_faults(scaler: Resource, per_pod: int, most: int, later: Later) -> Violations:
    for key in ("maxReplicas", "maxReplicaCount"):
        if (whole(amount := later.walk(scaler.props, "spec", key)) or 0) * per_pod > most:
            all_pods, fits = gpus(most), most // per_pod
            yield said("workload_gpus", key=key, amount=amount, pod=gpus(per_pod), most=all_pods, fits=fits), scaler.urn


def _check_alone(args: Args, later: Later) -> Faults:
    config = args.config
    if args.type.startswith("kubernetes:kueue.x-k8s.io/") and kind_of(args.type) in ("ClusterQueue", "Cohort"):
        yield from _queue_faults(args.props, bound(config, "maxPerQueue"), later)
    for release in releases(args.type, args.props, later):
        yield from chart_faults(release, bound(config, "maxPerContainer"), bound(config, "maxPerWorkload"), later)
    # What lets the autoscaler start nodes for pods of a template. Nothing shows here how many GPUs the template has.
    if args.type.startswith("kubernetes:autoscaling.x-k8s.io/"):
        asked = (("spec", later.walk(args.props, "spec")), *entries(args.props, "spec.podSets", later))
        for (path, place), key in product(asked, ("count", "replicas")):
            if (whole(number := later.walk(place, key)) or 0) > bound(config, "maxPerWorkload"):
                yield said("provisioned_pods", path=path, key=key, number=number)
    for pod in pod_specs(args.type, args.props, later):
        # A runner set has one listener, whatever its number of runners.
        kind = "" if pod.owner_path.endswith("listenerTemplate.") else kind_of(args.type)
        yield from _pod_faults(pod, kind, config, later)


def _pod_faults(pod: PodSpec, kind: str, config: Mapping[str, Data], later: Later) -> Faults:
    counted = _counted(pod, later)
    most = bound(config, "maxPerContainer")
    greedy = [(container, taking) for container, taking in counted if taking > most]
    yield from (said("container_gpus", pod=pod, container=container, taking=taking, most=most) for container, taking in greedy)
    taking, most = _effective(counted, later), bound(config, "maxPerPod")
    if taking > most and not greedy:
        yield said("pod_gpus", pod=pod, taking=taking, most=most)
    if taking:
        yield from _workload_faults(pod, kind, taking, bound(config, "maxPerWorkload"), later)


def _counted(pod: PodSpec, later: Later) -> list[tuple[Container, int]]:
    return [(container, gpu_count(container, later)) for container in containers_of(pod, later)]


def _effective(counted: list[tuple[Container, int]], later: Later) -> int:
    """The GPUs that the scheduler counts for the pod. If a restart policy is unknown, this is a lower bound."""
    together = starting = 0
    for container, number in counted:
        regular = container.field == REGULAR
        if regular or (number and text(later.walk(container.body, "restartPolicy")) == "Always"):
            together += number
        else:
            starting = max(starting, together + number)
    return max(together, starting)


def _workload_faults(pod: PodSpec, kind: str, per_pod: int, most: int, later: Later) -> Faults:
    path = _RUNNERS.get(kind) or _COUNTS.get(kind)
    if pod.times > 1 and pod.times * per_pod > most:
        yield said("template_gpus", pod=pod, per_pod=gpus(per_pod), most=gpus(most))
    if path is None or pod.times > 1:
        return
    with later:
        amount = walk(pod.owner, *path)
        place = f"{pod.owner_path}{'.'.join(path)} is {shown(amount)} (of pods with {gpus(per_pod)})"
        fix = f"write {most // per_pod} at most" if most >= per_pod else "ask for fewer GPUs"
        if kind in _RUNNERS and (isinstance(amount, str) or whole(amount) is None):
            yield f"{place}: only a whole number limits the runners; {fix}, as a number without quotes"
        elif (number := whole(amount) or 0) > 1 and number * per_pod > most:
            yield f"{place}: together they take at most {gpus(most)}; {fix}, or raise {setting('maxPerWorkload')}"


def _queue_faults(props: Data, most: int, later: Later) -> Faults:
    amounts = [
        later.walk(resource, "nominalQuota")
        for _, resource in entries(props, "spec.resourceGroups.[].flavors.[].resources", later)
        if is_gpu_resource(text(later.walk(resource, "name")))
    ]
    # As the API versions before v1beta1 have it.
    for _, resource in entries(props, "spec.resources", later):
        if is_gpu_resource(text(later.walk(resource, "name"))):
            amounts += [later.walk(flavor, "quota", "max") for _, flavor in entries(resource, "flavors", later)]
    if (total := sum(max(int(quantity(amount) or 0), 0) for amount in amounts)) > most:
        yield said("queue_gpus", total=min(total, 10**6), most=most)


RULE = held(StackRule(**facts(__name__), types=PODS | QUEUES, others=may_have_pods, check=_check))
