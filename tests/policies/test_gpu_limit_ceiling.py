"""gpu-limit-ceiling: containers, pods, workloads and queues at their bounds and one above, and how the scheduler counts a pod."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules import kinds
from policies.rules.gpu_limit_ceiling import RULE
from tests.policies.cases import Member, alone
from tests.policies.container_fixtures import JOB as JOB_POD, hooked, hooks
from tests.policies.fixtures import (
    CPU_POD,
    CRON_JOB,
    GPU,
    GPU_POD,
    JOB,
    LAUNCHER_POD,
    POD,
    RELEASE,
    RUNNER_SET,
    pod,
    release,
    template,
)
from tests.policies.harness import CLEAN, REMOVE, Verdict, changed, config_of, judge_alone, judge_stack, said, spelled
from tests.policies.machine_fixtures import case
from tests.policies.suite import Suite, in_pods, stacks

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
PATCH = f"{RUNNER_SET}Patch"
SETS = {RUNNER_SET, PATCH, RELEASE}
OTHERS = {*kinds.POD_PATHS, *kinds.LIST_PATHS, *kinds.CONFIG_MAPS} - SETS
"""Kinds that run one pod if no replica count is set."""


def using(*gpus: Any, init: tuple[Any, ...] = (), sidecars: tuple[Any, ...] = ()) -> dict[str, Any]:
    """A pod whose containers have these GPU limits; sidecars start before the other init containers."""

    def made(name: str, amount: Any) -> dict[str, Any]:
        return {"name": name, "resources": {"limits": {GPU: amount}}}

    starting = [made("proxy", each) | {"restartPolicy": "Always"} for each in sidecars] + [made("warm", each) for each in init]
    return {"initContainers": starting, "containers": [made("work", each) for each in gpus]}


FEWER = "ask for fewer, or raise"


def greedy(path: str, gpus: int, most: int = 1) -> str:
    raised = config_of(RULE.id, "maxPerContainer")
    return f"{path}.resources asks for too many GPUs ({gpus}): a container takes at most {most}; {FEWER} {raised}"


def crowded(path: str, gpus: int, most: int = 1) -> str:
    return f"{path} asks for too many GPUs ({gpus} in all): a pod takes at most {most}; {FEWER} {config_of(RULE.id, 'maxPerPod')}"


def many(field: str, number: int, mend: str, gpus: str = "1 GPU", most: int = 8) -> str:
    raised = config_of(RULE.id, "maxPerWorkload")
    return f"{field} is {number} (of pods with {gpus}): together they take at most {most} GPUs; {mend}, or raise {raised}"


def unbounded(field: str, shown: str) -> str:
    return (
        f"{field} is {shown} (of pods with 1 GPU): only a whole number limits the runners; write 8 at most, "
        "as a number without quotes"
    )


def runners(token: str, spec: dict[str, Any], most: Any = REMOVE) -> dict[str, Any]:
    """A runner set of `token` with so many runners."""
    props = release(spec) if token == RELEASE else template(spec)
    holder = "values" if token == RELEASE else "spec"
    return props if most is REMOVE else dict(changed(props, holder, "maxRunners", most))


def queue(*quotas: Any, name: str = GPU) -> dict[str, Any]:
    """A queue with a flavor for each quota."""
    flavors = [
        {"name": f"flavor-{number}", "resources": [{"name": "cpu", "nominalQuota": 99}, {"name": name, "nominalQuota": quota}]}
        for number, quota in enumerate(quotas)
    ]
    return {"spec": {"resourceGroups": [{"coveredResources": ["cpu", name], "flavors": flavors}]}}


def handed_out(gpus: int, most: int = 8) -> str:
    return (
        f"spec.resourceGroups hands out too many GPUs ({gpus}): a queue has at most {most}; lower its nominalQuota, or raise "
        f"{config_of(RULE.id, 'maxPerQueue')}"
    )


def judged(spec: dict[str, Any], **config: Any) -> Verdict:
    return judge_alone(RULE, POD, pod(spec), config)


@pytest.mark.parametrize("amount", [1, 1.0, "1", "1000m", "500m", 0, "0", -3, "one", None, [2], {"a": 2}])
def test_one_gpu_and_what_is_none_are_not_too_many(amount: Any) -> None:
    assert judged(using(amount)) == CLEAN


@pytest.mark.parametrize(("amount", "gpus"), [(2, 2), ("2", 2), ("1500m", 2), ("1k", 1000), ("1e99", 1_000_000)])
def test_a_container_takes_one_gpu(amount: Any, gpus: int) -> None:
    assert judged(using(amount)) == said(greedy("spec.containers[0]", gpus))


@pytest.mark.parametrize("name", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "amd.com/gpu"])
def test_every_gpu_resource_counts_and_several_count_together(name: str) -> None:
    resources = {"limits": {GPU: 1, name: 1, "memory": "8Gi"}}
    assert judged({"containers": [{"name": "a", "resources": resources}]}) == said(greedy("spec.containers[0]", 2))


def test_a_request_without_a_limit_counts_and_one_beside_it_counts_once() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {GPU: 2}}}]}
    assert judged(spec) == said(greedy("spec.containers[0]", 2))
    assert judged(changed(spec, "containers", 0, "resources", {"requests": {GPU: 1}, "limits": {GPU: "1"}})) == CLEAN


def test_a_pod_takes_one_gpu_in_all() -> None:
    assert judged(using(1, 1)) == said(crowded("spec", 2))


def test_one_mistake_is_told_once() -> None:
    assert judged(using(2, 1)) == said(greedy("spec.containers[0]", 2))


def test_an_init_container_has_left_its_gpu_when_the_others_start() -> None:
    assert judged(using(1, init=(1, 1))) == CLEAN
    assert judged(using(init=(1,))) == CLEAN
    assert judged(using(1, init=(2,)), maxPerContainer=2) == said(crowded("spec", 2))


def test_a_sidecar_keeps_its_gpu() -> None:
    assert judged(using(sidecars=(1,))) == CLEAN
    assert judged(using(1, sidecars=(1,))) == said(crowded("spec", 2))
    assert judged(using(0, init=(1,), sidecars=(1,))) == said(crowded("spec", 2)), "the later one starts beside it"


def test_an_unknown_restart_policy_leaves_it_open_only_where_it_decides() -> None:
    path = ("spec", "initContainers", 0, "restartPolicy")
    assert judge_alone(RULE, POD, pod(using(1, sidecars=(1,))), unknown=path) == said(unknown=spelled(path))
    assert judge_alone(RULE, POD, pod(using(1, sidecars=(0,))), unknown=path) == CLEAN
    assert judge_alone(RULE, POD, pod(using(2, sidecars=(1,))), unknown=path).messages == (greedy("spec.containers[0]", 2),)


@pytest.mark.parametrize(
    ("token", "field"),
    [
        (JOB, ("spec", "parallelism")),
        (CRON_JOB, ("spec", "jobTemplate", "spec", "parallelism")),
        (DEPLOYMENT, ("spec", "replicas")),
        ("kubernetes:apps/v1:StatefulSetPatch", ("spec", "replicas")),
        ("kubernetes:core/v1:ReplicationController", ("spec", "replicas")),
        ("kubernetes:apps/v1:ReplicaSetList", ("items", 0, "spec", "replicas")),
    ],
)
def test_a_workload_counts_all_its_pods(token: str, field: tuple[str | int, ...]) -> None:
    (only,) = in_pods(GPU_POD, tokens=[token])
    name = spelled(field)
    assert judge_alone(RULE, token, changed(only.props, *field, 8)) == CLEAN
    assert judge_alone(RULE, token, changed(only.props, *field, 9)) == said(many(name, 9, "write 8 at most"))
    assert judge_alone(RULE, token, changed(only.props, *field, 9), unknown=field) == said(unknown=spelled(field))
    idle = next(in_pods(CPU_POD, tokens=[token])).props
    assert judge_alone(RULE, token, changed(idle, *field, 900), unknown=field) == CLEAN, "no GPU: the number does not matter"


def test_what_a_workload_may_have_depends_on_the_gpus_of_a_pod() -> None:
    props = changed(template(using(3)), "spec", "replicas", 4)
    allowed = {"maxPerContainer": 4, "maxPerPod": 4}
    assert judge_alone(RULE, DEPLOYMENT, props, allowed) == said(many("spec.replicas", 4, "write 2 at most", "3 GPUs"))
    small = {**allowed, "maxPerWorkload": 2}
    assert judge_alone(RULE, DEPLOYMENT, props, small) == said(many("spec.replicas", 4, "ask for fewer GPUs", "3 GPUs", 2))


@pytest.mark.parametrize("number", [1, 0, None, REMOVE, "x", [9]])
def test_a_workload_of_one_pod_or_of_none_is_bounded_by_its_pod(number: Any) -> None:
    props = changed(template(GPU_POD), "spec", "replicas", 1)
    assert judge_alone(RULE, DEPLOYMENT, changed(props, "spec", "replicas", number)) == CLEAN


def test_a_daemonset_is_bounded_by_its_nodes() -> None:
    assert judge_alone(RULE, "kubernetes:apps/v1:DaemonSet", changed(template(GPU_POD), "spec", "replicas", 99)) == CLEAN


@pytest.mark.parametrize(("token", "field"), [(RELEASE, "values.maxRunners"), (RUNNER_SET, "spec.maxRunners")])
def test_a_runner_set_says_as_a_number_how_many_runners_it_has(token: str, field: str) -> None:
    assert judge_alone(RULE, token, runners(token, GPU_POD, 8)) == CLEAN
    assert judge_alone(RULE, token, runners(token, GPU_POD, 0)) == CLEAN
    assert judge_alone(RULE, token, runners(token, GPU_POD, 9)) == said(many(field, 9, "write 8 at most"))
    assert judge_alone(RULE, token, runners(token, GPU_POD)) == said(unbounded(field, "not set"))
    assert judge_alone(RULE, token, runners(token, GPU_POD, "8")) == said(unbounded(field, '"8"')), "the chart drops text"
    assert judge_alone(RULE, token, runners(token, GPU_POD, 2.5)) == said(unbounded(field, "2.5"))
    path = tuple(field.split("."))
    assert judge_alone(RULE, token, runners(token, GPU_POD, 8), unknown=path) == said(unknown=field)
    assert judge_alone(RULE, token, runners(token, LAUNCHER_POD)) == CLEAN, "it takes no GPU of the cluster"


def test_a_listener_is_one_a_set() -> None:
    values = {"maxRunners": 8, "template": {"spec": GPU_POD}, "listenerTemplate": {"spec": using(1)}}
    assert judge_alone(RULE, RELEASE, release(GPU_POD) | {"values": values}) == CLEAN


def test_the_quota_of_a_queue_counts_over_all_its_flavors() -> None:
    token = "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"  # noqa: S105 - a resource's type
    assert judge_alone(RULE, token, queue(4, "4")) == CLEAN
    assert judge_alone(RULE, token, queue(4, 5)) == said(handed_out(9))
    assert judge_alone(RULE, token, queue(9, name="nvidia.com/gpu.shared")) == said(handed_out(9))
    assert judge_alone(RULE, token, queue(900, name="memory")) == CLEAN
    path = ("spec", "resourceGroups", 0, "flavors", 0, "resources", 1, "nominalQuota")
    assert judge_alone(RULE, token, queue(1, 2), unknown=path) == said(unknown=spelled(path))
    assert judge_alone(RULE, token, queue(1, 9), unknown=path).messages == (handed_out(9),), "sure whatever the other is"


@pytest.mark.parametrize("limit", ["all", None, [], {}])
def test_a_bound_that_is_none_leaves_the_default(limit: Any) -> None:
    names = ("maxPerContainer", "maxPerPod", "maxPerWorkload", "maxPerQueue")
    assert judged(using(2), **dict.fromkeys(names, limit)) == said(greedy("spec.containers[0]", 2))


def test_each_runner_has_the_gpus_of_one_job_in_a_container() -> None:
    two = changed(JOB_POD, "containers", 0, "resources", {"limits": {GPU: 2}})
    allowed = {"maxPerContainer": 2, "maxPerPod": 2}
    said_of = judge_stack(RULE, [hooked(maxRunners=5), hooks(two)], allowed)
    assert said_of.messages == (many("values.maxRunners", 5, "write 4 at most", "2 GPUs"),)
    assert judge_stack(RULE, [hooked(maxRunners=4), hooks(two)], allowed) == CLEAN
    assert judge_stack(RULE, [hooked(maxRunners=None), hooks()]).messages == (unbounded("values.maxRunners", "not set"),)
    assert judge_stack(RULE, [hooked(maxRunners=9), hooks(CPU_POD)]) == CLEAN, "jobs without GPUs"
    assert judge_stack(RULE, [hooked(maxRunners=9), hooks(namespace="runners-other")]).undeterminable == (
        'no ConfigMap container-jobs in namespace "runners-gpu-t4" has the pods of jobs of gpu-t4, so nothing shows them'
    )


def workload(name: str, replicas: int = 1, namespace: str = "team-a") -> Member:
    props = template(GPU_POD) | {"metadata": {"name": name, "namespace": namespace}}
    return Member(DEPLOYMENT, name, changed(props, "spec", "replicas", replicas))


def scaler(token: str, key: str, most: Any) -> Member:
    spec = {"scaleTargetRef": {"name": "a"}, key: most}
    return Member(token, "scaler", {"metadata": {"name": "scaler", "namespace": "team-a"}, "spec": spec})


HPA, SCALED = "kubernetes:autoscaling/v2:HorizontalPodAutoscaler", "kubernetes:keda.sh/v1alpha1:ScaledObject"


@pytest.mark.parametrize(("token", "key"), [(HPA, "maxReplicas"), (SCALED, "maxReplicaCount")])
def test_an_autoscaler_of_pods_counts_with_its_maximum(token: str, key: str) -> None:
    raised = config_of(RULE.id, "maxPerWorkload")
    told = f"spec.{key} is 9 (of pods with 1 GPU): together they take at most 8 GPUs; write 8 at most, or raise {raised}"
    assert judge_stack(RULE, [workload("a"), scaler(token, key, 9)]).messages == (told,)
    assert judge_stack(RULE, [workload("a"), scaler(token, key, 8)]) == CLEAN
    assert judge_stack(RULE, [workload("b"), scaler(token, key, 9)]) == CLEAN, "it scales another one"
    assert judge_stack(RULE, [workload("a", namespace="team-b"), scaler(token, key, 9)]) == CLEAN


def test_the_workloads_of_a_namespace_count_together() -> None:
    names = "abcde"
    raised = config_of(RULE.id, "maxPerNamespace")
    told = (
        'metadata.namespace: the 5 workloads of namespace "team-a" take too many GPUs (40 in all): together they take at most '
        f"32; run fewer, or raise {raised}"
    )
    assert judge_stack(RULE, [workload(name, 8) for name in names]).messages == (told,)
    assert judge_stack(RULE, [workload(name, 8) for name in names[1:]]) == CLEAN
    assert judge_stack(RULE, [workload(name, 8, namespace=name) for name in names]) == CLEAN
    assert judge_stack(RULE, [workload(name, 8) for name in names], {"maxPerNamespace": 40}) == CLEAN


def test_the_numbers_around_a_template_of_another_kind_multiply_it() -> None:
    props = {"spec": {"workers": {"replicas": 9, "template": {"spec": GPU_POD}}}}
    told = (
        "spec.workers.template.spec is the template of up to 9 pods with 1 GPU each: together they take at most 8 GPUs; lower "
        f"the numbers around it, or raise {config_of(RULE.id, 'maxPerWorkload')}"
    )
    assert judge_alone(RULE, "kubernetes:example.com/v1:Train", props).messages == (told,)
    assert judge_alone(RULE, "kubernetes:example.com/v1:Train", changed(props, "spec", "workers", "replicas", 8)) == CLEAN


@pytest.mark.parametrize("token", ["kubernetes:kueue.x-k8s.io/v1alpha2:ClusterQueue", "kubernetes:kueue.x-k8s.io/v2:Cohort"])
def test_a_queue_of_another_version_hands_out_no_more(token: str) -> None:
    assert judge_alone(RULE, token, queue(8, 1)).messages == (handed_out(9),)
    old = {"spec": {"resources": [{"name": GPU, "flavors": [{"quota": {"min": 1, "max": 9}}]}]}}
    assert judge_alone(RULE, token, old).messages == (handed_out(9),)
    assert judge_alone(RULE, token, changed(old, "spec", "resources", 0, "name", "cpu")) == CLEAN


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("v1:ProvisioningRequest", {"podSets": [{"count": 9}]}, "spec.podSets[0].count"),
        ("v1alpha1:CapacityBuffer", {"replicas": 9}, "spec.replicas"),
    ],
)
def test_a_request_for_nodes_is_one_for_pods(kind: str, spec: dict[str, Any], path: str) -> None:
    fix = f"write fewer, or raise {config_of(RULE.id, 'maxPerWorkload')}"
    token = f"kubernetes:autoscaling.x-k8s.io/{kind}"
    assert judge_alone(RULE, token, {"spec": spec}).messages == (f"{path} is 9: nodes start for so many pods; {fix}",)
    assert judge_alone(RULE, token, {"spec": spec}, {"maxPerWorkload": 9}) == CLEAN


SUITE = Suite(
    RULE,
    passing=(
        *stacks(in_pods(GPU_POD, tokens=OTHERS)),
        *(alone(token, runners(token, GPU_POD, 8)) for token in sorted(SETS)),
        *(alone(token, queue(4, 4)) for token in sorted(kinds.QUEUES)),
        alone(POD, pod(using(4)), config={"maxPerContainer": 4, "maxPerPod": 4}),
        alone(RELEASE, runners(RELEASE, GPU_POD, 10), config={"maxPerWorkload": 10}),
        alone(sorted(kinds.QUEUES)[0], queue(16), config={"maxPerQueue": 16}),
        case(hooked(maxRunners=8), hooks()),
        case(workload("a", 8), workload("b", 4), maxPerNamespace=12),
        *(case(hooked(token, maxRunners=8), hooks()) for token in (RUNNER_SET, PATCH)),
    ),
    violating=(
        *stacks(in_pods(using(2), greedy("{pod}.containers[0]", 2), tokens=OTHERS)),
        *stacks(in_pods(using(1, 1), crowded("{pod}", 2), tokens=[POD, JOB])),
        *(
            alone(token, runners(token, GPU_POD, 9), (many("spec.maxRunners", 9, "write 8 at most"),))
            for token in (RUNNER_SET, PATCH)
        ),
        alone(RELEASE, runners(RELEASE, GPU_POD), (unbounded("values.maxRunners", "not set"),)),
        case(hooked(maxRunners=9), hooks(), messages={many("values.maxRunners", 9, "write 8 at most"): "gpu-t4"}),
        case(hooked(RUNNER_SET, maxRunners=9), hooks(), messages={many("spec.maxRunners", 9, "write 8 at most"): "gpu-t4"}),
        *(alone(token, queue(8, 1), (handed_out(9),)) for token in sorted(kinds.QUEUES)),
    ),
)
