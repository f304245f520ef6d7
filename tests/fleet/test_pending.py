"""Why a pod stays pending: every kind of reason, and the change that removes it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from fleet.facts.errors import InputError
from fleet.facts.hardware import machine
from fleet.facts.offer import for_runners
from fleet.facts.quantities import cpu_text
from fleet.jobs import gpu_job, place_job
from fleet.loading.config import load
from fleet.prove.nodes import cluster_nodes
from fleet.prove.pending import Answer, Explanation, explain
from fleet.prove.placement import pool_host
from fleet.prove.pod import Pod, pod_of
from fleet.providers.fleet import Fleet
from fleet.settings.runner import PodRunner
from tests.builders import (
    ROOT,
    cluster,
    config,
    existing_context,
    oke_cluster,
    oke_pool,
    oke_runner,
    pool,
    prod_with_pods,
    read_stack,
    runner,
    stack_in,
    talos_cluster,
    talos_pool,
)
from tests.cases import cases
from tests.fleet.conformance import cluster_charts

GPU = "nvidia.com/gpu"
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
OFFER = for_runners(machine("g4dn.2xlarge"), 200 * 1024, pool_host(load(config()).clusters["usw2"], "t4").daemonsets)
"""What a node of the pool t4 leaves to pods."""
MIG = {"strategy": "mig", "profile": "1g.5gb"}
STACKS = ("staging", "prod", "homelab")


@cache
def stack(name: str) -> Fleet:
    """A shipped stack; of prod with the pool of an example in its OKE cluster."""
    return load(stack_in(prod_with_pods()) if name == "prod" else read_stack(ROOT / f"Pulumi.{name}.yaml"))


def fleet(**changes: Any) -> Fleet:
    """One EKS cluster with the pool t4; `changes` replace keys of the cluster."""
    return load(config(clusters={"usw2": cluster(**changes)}))


def container(limits: dict[str, Any] | None = None, requests: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    asked = {"limits": {GPU: 1} if limits is None else limits, "requests": requests or {}}
    return {"name": "worker", "image": "registry.example.com/train:1.4", "resources": asked} | more


def body(
    kind: str = "Pod", *, labels: dict[str, str] | None = None, namespace: str = "", parallelism: int = 1, **spec: Any
) -> dict[str, Any]:
    """A Pod or a Job that runs in a GPU pool; `spec` replaces keys of the pod spec."""
    pod = {"tolerations": [TOLERATION], "containers": [container()]} | spec
    metadata = {"name": "train", "labels": labels or {}} | ({"namespace": namespace} if namespace else {})
    whole = pod if kind == "Pod" else {"template": {"spec": pod}} | ({"parallelism": parallelism} if kind == "Job" else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": whole}


def pod(kind: str = "Pod", **given: Any) -> Pod:
    found = pod_of("pod.yaml:1", body(kind, **given))
    assert found is not None
    return found


def answer_of(of: Fleet, asked: Pod, at: str = "usw2/t4") -> Answer:
    """The answer of one pool."""
    (answer,) = [answer for answer in explain(of, asked).answers if answer.nodes.name == at]
    return answer


def reasons(answer: Answer) -> tuple[str, ...]:
    return tuple(reason.text for reason in answer.reasons)


def fixes(answer: Answer) -> list[str]:
    return [reason.fix for reason in answer.reasons]


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    held = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": held}}


# -- pods that run -------------------------------------------------------------------------------------------------------


def test_a_pod_that_fits_starts_from_zero_nodes() -> None:
    found = explain(fleet(), pod())
    assert found.runs
    assert next(found.lines()) == ("Pod train: would run in usw2/t4 (g4dn.2xlarge; 1 x T4), from zero nodes by the autoscaler")


@pytest.mark.parametrize(
    ("nodes", "start"),
    [
        ({"min": 1, "max": 1}, "on the node that always runs"),
        ({"min": 2, "max": 4}, "on one of the 2 nodes that always run, or on a new one of up to 4"),
    ],
)
def test_a_pod_that_fits_a_running_node_needs_no_new_one(nodes: dict[str, int], start: str) -> None:
    assert answer_of(fleet(pools={"t4": pool(nodes=nodes)}), pod()).start == start


def test_a_pod_without_gpu_runs_on_the_system_pool() -> None:
    found = explain(fleet(), pod(tolerations=[], containers=[container({"cpu": "500m", "memory": "1Gi"})]))
    assert found.answers[0].nodes.name == "usw2/system"
    assert found.runs


@pytest.mark.parametrize("name", STACKS)
def test_every_runner_of_a_stack_runs_in_its_own_pools(name: str) -> None:
    of = stack(name)
    for at, settings in of.clusters_by_name():
        charts = cluster_charts(of, at)
        for runner_set, kind in settings.runners.items():
            if isinstance(kind, PodRunner):
                chart = charts[runner_set]
                made = {
                    "kind": "Pod",
                    "metadata": {"name": "runner", "namespace": chart.namespace},
                    "spec": chart.values["template"]["spec"],
                }
                asked = pod_of("runner", made)
                assert asked is not None
                running = [each.nodes.name for each in explain(of, asked, at).answers if not each.reasons]
                assert sorted(running) == sorted(f"{at}/{pool}" for pool in kind.ordered), "its own pools, and no other"


@pytest.mark.parametrize(
    "given",
    [
        {"gpu_type": "t4", "memory": "8Gi", "cpu": 2, "spot": True},
        {"gpu_type": "a10g", "memory": "16Gi", "cpu": 4, "namespace": "vision", "queue": "vision", "spot": True},
        {"gpu_type": "a10", "memory": "64Gi", "cpu": 8},
    ],
)
def test_a_job_that_is_placed_runs_where_it_is_placed(given: dict[str, Any]) -> None:
    placed = place_job(stack("prod"), gpu_job("task", "registry.example.com/agent_bus:1.4.2", **given))
    asked = pod_of("job", placed.manifest())
    assert asked is not None
    assert f"{explain(stack('prod'), asked).answers[0].nodes.name}" == placed.chosen.name


# -- reasons, each with its fix --------------------------------------------------------------------------------------

REASONS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "another label": (
        {},
        {"nodeSelector": {"accelerator": "nvidia-tesla-v100"}},
        "its nodeSelector asks for accelerator=nvidia-tesla-v100, the nodes have nvidia-tesla-t4",
        "pod: set nodeSelector accelerator: nvidia-tesla-t4",
    ),
    "an absent label": (
        {},
        {"nodeSelector": {"node.kubernetes.io/lifecycle": "spot"}},
        "its nodeSelector asks for node.kubernetes.io/lifecycle=spot, the nodes do not have that label",
        "pod: set nodeSelector gpu-ci/pool: t4 instead of node.kubernetes.io/lifecycle",
    ),
    "several labels": (
        {},
        {"nodeSelector": {"a": "1", "b": "2", "gpu": "true"}},
        "its nodeSelector asks for a=1, the nodes do not have that label; "
        "its nodeSelector asks for b=2, the nodes do not have that label",
        "pod: set nodeSelector gpu-ci/pool: t4 instead of a and b",
    ),
    "a zone without nodes": (
        {},
        {"nodeSelector": {"topology.kubernetes.io/zone": "us-west-2d"}},
        "its nodeSelector asks for topology.kubernetes.io/zone=us-west-2d, the nodes have us-west-2a or us-west-2b",
        "pod: set nodeSelector gpu-ci/pool: t4 instead of topology.kubernetes.io/zone",
    ),
    "a type that may not be bought": (
        {"pools": {"t4": pool(instanceTypes=["g4dn.2xlarge", "g4dn.4xlarge"])}},
        {"nodeSelector": {"node.kubernetes.io/instance-type": "g4dn.4xlarge"}},
        "its nodeSelector asks for node.kubernetes.io/instance-type=g4dn.4xlarge, the nodes have g4dn.2xlarge or g4dn.4xlarge",
        "pod: set nodeSelector gpu-ci/pool: t4 instead of node.kubernetes.io/instance-type",
    ),
    "another way to buy": (
        {},
        {"nodeSelector": {"eks.amazonaws.com/capacityType": "SPOT"}},
        "its nodeSelector asks for eks.amazonaws.com/capacityType=SPOT, the nodes have ON_DEMAND",
        "pod: set nodeSelector eks.amazonaws.com/capacityType: ON_DEMAND",
    ),
    "a label that feature discovery sets": (
        {"enablement": "gpu-operator"},
        {"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"}},
        "its nodeSelector asks for nvidia.com/gpu.product=Tesla-T4: feature discovery sets that label only after a node has "
        "started, so the autoscaler starts none",
        "pod: set nodeSelector gpu-ci/pool: t4 instead of nvidia.com/gpu.product",
    ),
    "a node affinity": (
        {},
        {
            "affinity": affinity(
                [expression("accelerator", "In", "nvidia-tesla-v100", "nvidia-a10g"), expression("gpu", "Exists")]
            )
        },
        "its required node affinity does not match the nodes: accelerator In [nvidia-tesla-v100, nvidia-a10g] and gpu Exists",
        "pod: set the required node affinity to gpu-ci/pool: t4",
    ),
    "no toleration": (
        {},
        {"tolerations": []},
        "it does not tolerate the taint nvidia.com/gpu=true:NoSchedule",
        "pod: add toleration {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
    ),
    "a toleration of another value": (
        {},
        {"tolerations": [{"key": GPU, "operator": "Equal", "value": "present"}]},
        "it does not tolerate the taint nvidia.com/gpu=true:NoSchedule (its toleration has the value 'present')",
        "pod: set operator: Exists, without a value, in the toleration of nvidia.com/gpu",
    ),
    "a misspelled resource": (
        {},
        {"containers": [container({"nvidia.com/gpus": 1})]},
        "it asks for nvidia.com/gpus, the nodes offer nvidia.com/gpu",
        "pod: ask for nvidia.com/gpu instead of nvidia.com/gpus",
    ),
    "a resource of no node": (
        {},
        {"containers": [container({GPU: 1, "example.com/fpga": 1})]},
        "it asks for example.com/fpga, the nodes offer nvidia.com/gpu",
        "pod: remove example.com/fpga from limits and requests",
    ),
    "a whole GPU where GPUs are shared": (
        {"pools": {"t4": pool(sharing={"strategy": "time-slicing", "replicas": 4})}},
        {},
        "it asks for nvidia.com/gpu, the nodes offer nvidia.com/gpu.shared (1/4 GPU each)",
        "pod: ask for nvidia.com/gpu.shared instead of nvidia.com/gpu",
    ),
    "a whole GPU where GPUs are partitioned": (
        {"enablement": "gpu-operator", "pools": {"t4": pool(instanceTypes=["p4d.24xlarge"], sharing=MIG)}},
        {},
        "it asks for nvidia.com/gpu, the nodes offer nvidia.com/mig-1g.5gb (MIG 1g.5gb each)",
        "pod: ask for nvidia.com/mig-1g.5gb instead of nvidia.com/gpu",
    ),
    "several shares": (
        {"pools": {"t4": pool(sharing={"strategy": "time-slicing", "replicas": 4})}},
        {"containers": [container({"nvidia.com/gpu.shared": 2})]},
        "worker asks for 2 shares, and the device plugin gives a container 1 (UnexpectedAdmissionError)",
        "pod: ask for 1 nvidia.com/gpu.shared in worker",
    ),
    "too many GPUs": (
        {},
        {"containers": [container({GPU: 4})]},
        "it asks for 4 GPUs, g4dn.2xlarge has 1",
        "pod: lower the requests of worker to nvidia.com/gpu: 1",
    ),
    "too much memory and CPU": (
        {},
        {"containers": [container(requests={"cpu": 12, "memory": "40Gi"})]},
        f"it asks for 12 CPU and 40Gi, g4dn.2xlarge leaves pods {cpu_text(OFFER.cpu)} of 8 and {OFFER.memory}Mi of 32Gi",
        f"pod: lower the requests of worker to cpu: {cpu_text(OFFER.cpu)}, memory: {OFFER.memory}Mi",
    ),
    "too much disk": (
        {},
        {"containers": [container(requests={"ephemeral-storage": "300Gi"})]},
        "it asks for 300Gi of disk, g4dn.2xlarge leaves pods 183296Mi of 200Gi",
        "pod: lower the requests of worker to ephemeral-storage: 179Gi",
    ),
    "a GPU in requests alone": (
        {},
        {"containers": [container({}, {GPU: 1})]},
        "the API server refuses it: nvidia.com/gpu has no limit, and its request must equal its limit",
        "pod: set limits of worker: nvidia.com/gpu: 1",
    ),
    "half a GPU": (
        {},
        {"containers": [container({GPU: "500m"})]},
        "the API server refuses it: nvidia.com/gpu is a whole number",
        "pod: write nvidia.com/gpu: 1",
    ),
    "a request above its limit": (
        {},
        {"containers": [container({GPU: 1, "memory": "4Gi"}, {"memory": "8Gi"})]},
        "the API server refuses it: the memory request of worker is above its limit",
        "pod: set requests of worker: memory: 4Gi",
    ),
    "an unknown RuntimeClass": (
        {},
        {"runtimeClassName": "nvidia"},
        "the API server refuses it: cluster usw2 has no RuntimeClass nvidia",
        "pod: remove runtimeClassName: nvidia",
    ),
    "an unknown PriorityClass": (
        {},
        {"priorityClassName": "high-priority"},
        "the API server refuses it: cluster usw2 has no PriorityClass high-priority",
        "pod: remove priorityClassName: high-priority",
    ),
    "a scheduling gate": (
        {},
        {"schedulingGates": [{"name": "example.com/hold"}]},
        "the scheduler waits until something removes the scheduling gate example.com/hold",
        "pod: remove schedulingGates",
    ),
}


@cases("case", REASONS)
def test_a_reason_is_given_with_the_change_that_removes_it(case: str) -> None:
    changes, spec, reason, fix = REASONS[case]
    found = answer_of(fleet(**changes), pod(**spec))
    assert (reasons(found), fixes(found)) == ((reason,), [fix])


# -- clusters of other kinds ---------------------------------------------------------------------------------------------


def test_on_oke_a_toleration_of_the_real_taint_starts_no_first_node() -> None:
    of = load(config(clusters={"sjc": oke_cluster(pools={"a10": oke_pool()}, runners={"gpu": oke_runner()})}))
    found = answer_of(
        of, pod(tolerations=[{"key": GPU, "operator": "Equal", "value": "present", "effect": "NoSchedule"}]), "sjc/a10"
    )
    assert reasons(found) == (
        "it does not tolerate the taint nvidia.com/gpu=:NoSchedule that the autoscaler assumes for an empty pool, so no first "
        "node starts (its toleration has the value 'present')",
    )
    assert fixes(found) == ["pod: set operator: Exists, without a value, in the toleration of nvidia.com/gpu"]
    assert reasons(answer_of(of, pod(tolerations=[]), "sjc/a10")) == (
        "it does not tolerate the taint nvidia.com/gpu=present:NoSchedule",
    )


def test_the_nodes_of_an_existing_cluster_are_what_the_settings_describe() -> None:
    of = load(config(clusters={"lab": existing_context()}))
    found = answer_of(
        of, pod(tolerations=[], nodeSelector={"accelerator": "nvidia-tesla-t4"}, runtimeClassName="nvidia"), "lab/t4"
    )
    assert fixes(found) == [
        "pod: set nodeSelector nvidia.com/gpu.product: Tesla-T4 instead of accelerator",
        "pod: add toleration {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
    ]
    assert (
        "which RuntimeClasses and PriorityClasses cluster lab has, because the program did not create it"
        in explain(of, pod()).unknown
    )


# -- affinity ------------------------------------------------------------------------------------------------------------


@cases(("expressions", "runs"), [
    ([expression("gpu-ci/pool", "In", "t4", "a10g")], True),
    ([expression("gpu-ci/pool", "In", "a10g")], False),
    ([expression("gpu-ci/capacity", "NotIn", "spot")], True),
    ([expression("gpu-ci/capacity", "NotIn", "on-demand")], False),
    ([expression("example.com/none", "NotIn", "x")], True),
    ([expression("gpu", "Exists")], True),
    ([expression("example.com/none", "Exists")], False),
    ([expression("example.com/none", "DoesNotExist")], True),
    ([expression("gpu", "DoesNotExist")], False),
    ([expression("example.com/memory", "Gt", "15")], True),
    ([expression("example.com/memory", "Gt", "16")], False),
    ([expression("example.com/memory", "Lt", "17")], True),
    ([expression("example.com/memory", "Lt", "16")], False),
    ([expression("gpu", "Gt", "1")], False),
    ([expression("example.com/memory", "Gt", "many")], False),
    ([expression("example.com/memory", "Above", "1")], False),
    ([expression("topology.kubernetes.io/zone", "NotIn", "us-west-2a")], True),
    ([expression("topology.kubernetes.io/zone", "NotIn", "us-west-2a", "us-west-2b")], False),
    ([expression("kubernetes.io/hostname", "In", "ip-10-0-0-1")], True),
    ([], False),
])  # fmt: skip
def test_a_node_affinity_is_read_as_the_scheduler_does(expressions: list[dict[str, Any]], runs: bool) -> None:
    of = fleet(pools={"t4": pool(labels={"example.com/memory": "16"})})
    assert (not answer_of(of, pod(affinity=affinity(expressions))).reasons) is runs


def test_an_affinity_must_match_every_machine_type_of_the_pool() -> None:
    of = fleet(pools={"t4": pool(instanceTypes=["g4dn.2xlarge", "g4dn.4xlarge"])})
    key = "node.kubernetes.io/instance-type"
    assert answer_of(of, pod(affinity=affinity([expression(key, "In", "g4dn.4xlarge")]))).reasons
    assert not answer_of(of, pod(affinity=affinity([expression(key, "In", "g4dn.4xlarge", "g4dn.2xlarge")]))).reasons


def test_one_term_of_an_affinity_is_enough() -> None:
    never, always = [expression("gpu", "DoesNotExist")], [expression("gpu", "Exists")]
    assert not answer_of(fleet(), pod(affinity=affinity(never, always))).reasons


# -- namespaces, queues and claims ---------------------------------------------------------------------------------------


def test_a_container_above_the_limits_of_a_runner_namespace_is_refused() -> None:
    found = answer_of(fleet(), pod(namespace="runners-gpu-t4", containers=[container({GPU: 1, "memory": "24Gi"})]))
    assert reasons(found) == ("the LimitRange of namespace runners-gpu-t4 refuses memory 24Gi of worker: 16Gi at most",)
    assert fixes(found) == ["pod: set limits of worker: memory: 16Gi"]


def test_a_pod_above_the_quota_of_a_runner_namespace_is_refused() -> None:
    of = fleet(pools={"t4": pool(instanceTypes=["g4dn.metal"])}, runners={"gpu-t4": runner(scale={"max": 1})})
    found = answer_of(of, pod(namespace="runners-gpu-t4", containers=[container({GPU: 3})]))
    assert reasons(found) == ("the ResourceQuota of namespace runners-gpu-t4 admits 2 nvidia.com/gpu at most",)


def test_the_namespace_of_launchers_admits_no_gpu() -> None:
    (found,) = [
        each
        for each in explain(stack("prod"), pod(namespace="runners-oracle-vm-gpu-a10-1")).answers
        if each.nodes.name == "sjc/a10"
    ]
    assert reasons(found) == ("the ResourceQuota of namespace runners-oracle-vm-gpu-a10-1 admits 0 nvidia.com/gpu at most",)
    assert fixes(found) == [""], "no change of the pod or of the pool helps"


def test_a_container_without_requests_gets_those_of_its_namespace() -> None:
    small = pool(instanceTypes=["g4dn.xlarge"])
    of = fleet(pools={"t4": pool(), "small": small}, runners={"gpu-t4": runner()})
    assert not answer_of(of, pod(), "usw2/small").reasons
    (reason,) = reasons(answer_of(of, pod(namespace="runners-gpu-t4"), "usw2/small"))
    assert reason.startswith("it asks for 4 CPU and 16Gi, g4dn.xlarge leaves pods ")


def team(nominal: int = 1, **more: Any) -> dict[str, Any]:
    return {"teams": {"vision": {"namespaces": ["vision"], "quotas": [{"pool": "t4", "nominal": nominal}]}}} | more


def test_a_job_above_its_teams_quota_is_never_admitted() -> None:
    asked = pod("Job", namespace="vision", parallelism=2, containers=[container(requests={"cpu": 1, "memory": "1Gi"})])
    found = answer_of(fleet(queues=team()), asked)
    assert reasons(found) == (
        "its queue never admits it: team vision has 1 GPUs of it and no team to borrow from, the job asks for 2 GPUs",
    )
    assert fixes(found) == ["pod or stack: raise nominal, or ask for less"]
    assert not answer_of(fleet(queues=team(2)), asked).reasons


def test_a_queue_counts_the_memory_of_all_pods_of_a_job() -> None:
    asked = {"namespace": "vision", "containers": [container({"memory": "20Gi", "cpu": 1})]}
    assert not answer_of(fleet(queues=team()), pod("Job", **asked)).reasons
    (reason,) = reasons(answer_of(fleet(queues=team()), pod("Job", parallelism=2, **asked)))
    assert reason == (
        f"its queue never admits it: team vision has {OFFER.memory}Mi of it and no team to borrow from, the job asks for 40Gi"
    )


def test_a_job_in_a_pool_without_quota_is_never_admitted() -> None:
    of = fleet(pools={"t4": pool(), "other": pool()}, queues=team())
    found = answer_of(of, pod("Job", namespace="vision"), "usw2/other")
    assert reasons(found) == ("its queue never admits it: team vision has no quota of it",)
    assert fixes(found) == ["pod or stack: add one, or name another pool"]


def test_a_job_that_names_another_teams_queue_is_pointed_to_its_own() -> None:
    found = answer_of(fleet(queues=team()), pod("Job", namespace="vision", labels={"kueue.x-k8s.io/queue-name": "research"}))
    assert fixes(found) == ["pod: set label kueue.x-k8s.io/queue-name: vision"]


def test_a_suspended_job_without_a_queue_waits() -> None:
    held = body("Job")
    held["spec"]["suspend"] = True
    asked = pod_of("job.yaml:1", held)
    assert asked is not None
    found = answer_of(fleet(), asked)
    assert reasons(found) == ("the Job is suspended, and no queue starts it",)
    assert fixes(found) == ["pod: set suspend: false of the Job"]


def test_a_claim_of_another_namespace_is_missing() -> None:
    volume = {"name": "models", "persistentVolumeClaim": {"claimName": "models"}}
    of = fleet(caches={"models": {"storage": "efs", "size": "100Gi", "namespaces": ["vision"]}})
    found = answer_of(of, pod(namespace="ai", volumes=[volume]))
    assert reasons(found) == ("namespace ai has no claim models: the cache has namespaces vision",)
    assert fixes(found) == ["pod: set metadata.namespace: vision"]


def test_workloads_that_always_run_may_fill_a_pool() -> None:
    ollama = {"kind": "ollama", "pool": "t4", "storage": {"size": "50Gi", "storageClass": "gp3"}}
    of = fleet(pools={"t4": pool(nodes={"min": 1, "max": 1})}, workloads={"ollama": ollama})
    found = answer_of(of, pod(namespace="ml"))
    assert reasons(found) == ("ollama always takes 1 of the 1 GPUs of the full pool",)
    assert fixes(found) == ["stack: set clusters.usw2.pools.t4.nodes.max: 2"]
    own = pod_of("ollama", body(namespace="ai") | {"metadata": {"name": "ollama", "namespace": "ai"}})
    assert own is not None
    assert not answer_of(of, own).reasons, "it does not wait for itself"


# -- several reasons, and none -------------------------------------------------------------------------------------------


def test_each_of_several_reasons_has_its_fix() -> None:
    found = answer_of(fleet(), pod(tolerations=[], nodeSelector={"gpu": "yes"}, containers=[container({"nvidia.com/gpus": 1})]))
    assert fixes(found) == [
        "pod: set nodeSelector gpu: true",
        "pod: add toleration {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
        "pod: ask for nvidia.com/gpu instead of nvidia.com/gpus",
    ]


def test_a_pod_with_every_fix_made_runs() -> None:
    """The pod of the test above, as its fixes say."""
    assert not answer_of(fleet(), pod(nodeSelector={"gpu": "true"})).reasons


def test_the_pool_with_the_fewest_reasons_comes_first() -> None:
    of = fleet(pools={"other": pool(labels={"example.com/b": "1"}), "t4": pool()})
    found = explain(of, pod(nodeSelector={"example.com/b": "1"}, priorityClassName="none"))
    assert [(answer.nodes.name, len(answer.reasons)) for answer in found.answers] == [
        ("usw2/other", 1),
        ("usw2/t4", 2),
        ("usw2/system", 3),
    ]


def test_a_pool_whose_reasons_all_have_a_fix_comes_before_one_with_fewer_reasons() -> None:
    found = explain(fleet(), pod(tolerations=[], priorityClassName="none"))
    assert [answer.nodes.name for answer in found.answers] == ["usw2/t4", "usw2/system"]


def test_a_reason_that_no_change_removes_says_so() -> None:
    found = explain(fleet(pools={}, runners={}), pod())
    assert [answer.nodes.name for answer in found.answers] == ["usw2/system"]
    assert "    fix: none, in this pool" in list(found.lines())


def test_a_pod_that_is_too_large_for_its_containers_to_be_lowered_needs_a_larger_machine() -> None:
    half = container(requests={"memory": "20Gi"}), container({"memory": "25Gi"})
    found = answer_of(fleet(), pod(containers=[*half, container({"memory": "30Gi"}) | {"name": "third"}]))
    assert fixes(found) == ['stack: set clusters.usw2.pools.t4.instanceTypes: ["g4dn.8xlarge"]']


def test_the_largest_container_is_lowered() -> None:
    small, large = container({"memory": "1Gi"}), container({GPU: 1, "memory": "40Gi"}) | {"name": "large"}
    found = answer_of(fleet(), pod(containers=[small, large, container({"cpu": 1}) | {"name": "side"}]))
    assert fixes(found) == [f"pod: lower the requests of large to memory: {OFFER.memory - 1024}Mi"]


def test_requests_are_lowered_to_the_smallest_machine_type() -> None:
    of = fleet(pools={"t4": pool(instanceTypes=["g4dn.4xlarge", "g4dn.2xlarge"])})
    found = answer_of(of, pod(containers=[container({GPU: 1, "memory": "80Gi", "cpu": 20})]))
    lowered = f"cpu: {cpu_text(OFFER.cpu)}, memory: {OFFER.memory}Mi"
    assert fixes(found) == [f"pod: lower the requests of worker to {lowered}"]


def test_a_runtime_class_exists_where_something_creates_it() -> None:
    asked = pod(runtimeClassName="nvidia", priorityClassName="system-node-critical")
    assert not answer_of(fleet(enablement="gpu-operator"), asked).reasons
    talos = load(config(clusters={"home": talos_cluster(enablement="device-plugin", pools={"gpu": talos_pool()})}))
    assert not [reason for reason in explain(talos, asked).answers[0].reasons if "RuntimeClass" in reason.text]


def test_the_system_pool_has_the_daemonsets_of_all_nodes_only() -> None:
    fleet = stack("prod")
    rows = (row for name, settings in fleet.clusters_by_name() for row in cluster_nodes(name, settings, fleet.github))
    hosts = {nodes.name: nodes.host for nodes in rows}
    on_system, on_gpus = ({each.name for each in hosts[at].daemonsets} for at in ("use1/system", "use1/t4-spot"))
    assert "nfd-worker" in on_system
    assert "dcgm-exporter" in on_gpus - on_system
    assert "gpu-operator" not in on_system


def test_the_page_explains_the_lines_that_are_printed() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    section = page[page.index("## Why a pod waits") : page.index("## A job waits")]
    printed = "\n".join(explain(stack("staging"), pod(tolerations=[])).lines())
    for words in ("nearest pool", "because ", "fix: ", "pod: ", "other pools", "not known from the stack file"):
        assert words in printed
        assert f"`{words.strip()}" in section


# -- unknown facts, and wrong input --------------------------------------------------------------------------------------


def test_what_the_settings_do_not_show_is_said() -> None:
    spec: dict[str, Any] = {
        "nodeName": "ip-10-0-0-1", "nodeSelector": {"kubernetes.io/hostname": "ip-10-0-0-1"},
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }  # fmt: skip
    assert explain(fleet(), pod(**spec)).unknown == (
        "whether other pods use the room: usw2/t4 has at most 2 nodes",
        "whether node ip-10-0-0-1 exists: nodeName skips the scheduler",
        "the value of the node label kubernetes.io/hostname",
        "whether the claim data exists, and the zone of its volume",
        "whether the Secrets registry exist, with which the image is pulled",
    )


def test_a_volume_of_one_zone_is_a_remark() -> None:
    of = fleet(caches={"data": {"storage": "ebs", "size": "100Gi", "namespaces": ["ai"]}})
    found = explain(of, pod(namespace="ai", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]))
    assert "the zone of the volume of data: once it exists, the pod runs only there" in found.unknown


def test_a_cluster_that_the_stack_does_not_have_is_wrong_input() -> None:
    with pytest.raises(InputError, match="--cluster: the stack has no cluster 'use2'; name one of: usw2"):
        explain(fleet(), pod(), "use2")


@cases(("spec", "message"), [
    ({"containers": []}, "pod.yaml:1: spec.containers: a pod has at least one container; add one"),
    ({"containers": "worker"}, "pod.yaml:1: spec.containers: must be a list; got 'worker'; correct it"),
    ({"containers": [None]}, "pod.yaml:1: spec.containers[0]: must be an object; got ''"),
    ({"tolerations": ["gpu"]}, "pod.yaml:1: spec.tolerations[0]: must be an object; got 'gpu'; correct it"),
    ({"overhead": {"cpu": -1}}, "pod.yaml:1: spec.overhead.cpu: a quantity is a number with a unit"),
    ({"nodeSelector": {"gpu": True}}, "pod.yaml:1: spec.nodeSelector.gpu: the value of a label is a text; got True; put quotes"),
    ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": {}}}}},
     "pod.yaml:1: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: must be a list"),
    ({"containers": [container({"memory": "16 GB"})]}, "pod.yaml:1: spec.containers[0].resources.limits.memory: a quantity is"),
])  # fmt: skip
def test_a_pod_that_cannot_be_read_is_wrong_input(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        pod(**spec)
    assert str(error.value).startswith(message)


# -- reading pods --------------------------------------------------------------------------------------------------------


@cases("path", [
    ("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec"), ("spec", "ephemeralRunnerSpec", "spec"),
    ("template", "spec"), ("spec", "spec"), ("spec",),
])  # fmt: skip
def test_the_pod_of_any_object_is_found(path: tuple[str, ...]) -> None:
    made: dict[str, Any] = {"containers": [container()]}
    for key in reversed(path):
        made = {key: made}
    found = pod_of("x", {"kind": "Thing", "metadata": {"name": "a", "namespace": "b"}, **made})
    assert found is not None
    assert (found.label, found.containers) == ("Thing b/a", [container()])


def test_an_object_with_a_generated_name_is_called_by_its_prefix() -> None:
    found = pod_of("x", body() | {"metadata": {"generateName": "train-"}})
    assert found is not None
    assert found.label == "Pod train-"


def test_an_object_without_a_pod_has_none() -> None:
    assert pod_of("x", {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}}) is None


def test_init_containers_sidecars_and_overhead_count_as_in_kubernetes() -> None:
    def of(cpu: int, **more: Any) -> dict[str, Any]:
        return container({"cpu": cpu}, **more)

    init = [of(1, restartPolicy="Always"), of(5), of(2, restartPolicy="Always")]
    assert pod(initContainers=init, containers=[of(1)]).requests() == {"cpu": 6}, "the first sidecar, then the init container"
    assert pod(initContainers=init, containers=[of(4)]).requests() == {"cpu": 7}, "both sidecars and the container"
    assert pod(containers=[of(4)], overhead={"cpu": "500m"}).ask(GPU).cpu.request == 4500
    assert pod(containers=[of(4)], resources={"requests": {"cpu": 2}}).requests() == {"cpu": 2}, "requests of the whole pod"


# -- pods of the seeds ---------------------------------------------------------------------------------------------------


def seed(kind: str, resources: dict[str, Any], **spec: Any) -> Pod:
    """The pod of a workload that a seed has as an example."""
    pod_spec = {"containers": [{"name": "main", "resources": resources}]} | spec
    made = {"kind": kind, "metadata": {"name": "seed"}, "spec": {"template": {"spec": pod_spec}}}
    found = pod_of("seed", made)
    assert found is not None
    return found


EQUAL = {"key": GPU, "operator": "Equal", "value": "true", "effect": "NoSchedule"}


def test_the_v100_job_of_seed_001_needs_another_gpu_on_prod() -> None:
    found = explain(
        stack("prod"), seed("Job", {"limits": {GPU: 1}}, nodeSelector={"accelerator": "nvidia-tesla-v100"}, tolerations=[EQUAL])
    )
    assert not found.runs
    assert found.answers[0].nodes.name == "use1/t4-spot"
    assert fixes(found.answers[0]) == ["pod: set nodeSelector accelerator: nvidia-tesla-t4"]
    sjc = next(each for each in found.answers if each.nodes.name == "sjc/a10")
    assert len(sjc.reasons) == 2, "its taint has another value than the toleration"


def test_the_mnist_job_of_seed_003_needs_a_toleration_on_staging() -> None:
    sku = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
    found = explain(stack("staging"), seed("Job", {"limits": {GPU: 1}}, tolerations=[sku]))
    assert fixes(found.answers[0]) == ["pod: add toleration {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}"]


def test_the_comfyui_of_seed_004_needs_two_changes_in_the_homelab() -> None:
    found = explain(stack("homelab"), seed("Deployment", {"limits": {GPU: 2}}))
    assert fixes(found.answers[0]) == [
        "pod: add toleration {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
        "pod: ask for 1 nvidia.com/gpu.shared instead of nvidia.com/gpu",
    ]


def test_explanations_have_the_nearest_pool_first_and_a_line_for_each_other() -> None:
    found: Explanation = explain(stack("staging"), seed("Job", {"limits": {GPU: 1}}))
    assert list(found.lines()) == [
        "Job seed: would stay pending",
        "nearest pool: usw2/t4-spot (g4dn.2xlarge, g4dn.4xlarge; 1 x T4; spot)",
        "  because it does not tolerate the taint nvidia.com/gpu=true:NoSchedule",
        "    fix: pod: add toleration {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
        "other pools:",
        "  usw2/t4-ondemand (g4dn.2xlarge; 1 x T4): it does not tolerate the taint nvidia.com/gpu=true:NoSchedule",
        "  usw2/t4-release (g4dn.2xlarge; 1 x T4): it does not tolerate the taint nvidia.com/gpu=true:NoSchedule",
        "  usw2/system (m6i.large): it asks for nvidia.com/gpu, and the nodes of the system pool have no GPU",
        "not known from the stack file:",
        "  whether other pods use the room: usw2/t4-spot has at most 5 nodes",
    ]
