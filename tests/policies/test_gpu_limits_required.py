"""gpu-limits-required: each clause broken once, each kind, and the pods that it leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from fleet.facts.scheduling import EKS_PROFILE, OKE_PROFILE, SchedulingProfile, pool_selector
from fleet.providers.oke.runners import AnyRunner
from fleet.providers.oke.vm_runner import MachineRunner
from policies.rules.gpu_limits_required import RULE
from policies.rules.kinds import CLUSTER_POLICY
from tests.builders import HERE, place, runner_of, vm, vm_per_job
from tests.charts import launcher_set, runner_set
from tests.policies.cases import Case
from tests.policies.fixtures import (
    CPU_POD,
    CRON_JOB,
    DEVICE_PLUGIN,
    GPU,
    GPU_POD,
    JOB,
    LAUNCHER_POD,
    POD,
    POD_TEMPLATE,
    RELEASE,
    RUNNER_SET,
    UNLIMITED,
    pod,
    release,
    template,
)
from tests.policies.harness import CLEAN, REMOVE, changed, judge, said, secret, spelled
from tests.policies.suite import Suite, in_pods

MEND = f'set resources.limits["{GPU}"] on the container that uses the GPU'


def unlimited(path: str, sign: str) -> str:
    return f"{path}: meant for GPU nodes ({sign}), but no container has a GPU limit; {MEND}"


def judged(spec: dict[str, Any], **config: Any) -> Any:
    return judge(RULE, POD, pod(spec), config)


def with_limit(amount: Any, resource: str = GPU) -> dict[str, Any]:
    return dict(changed(GPU_POD, "containers", 0, "resources", {"limits": {resource: amount}}))


SELECTOR = 'nodeSelector["gpu-ci/pool"] is "t4-spot"'
TOLERATION = f"tolerations[0] covers {GPU}=true:NoSchedule"


@pytest.mark.parametrize(
    ("token", "props", "path"),
    [
        (POD, pod(UNLIMITED), "spec"),
        ("kubernetes:core/v1:PodPatch", pod(UNLIMITED), "spec"),
        (JOB, template(UNLIMITED), "spec.template.spec"),
        ("kubernetes:apps/v1:StatefulSetPatch", template(UNLIMITED), "spec.template.spec"),
        ("kubernetes:apps/v1beta1:Deployment", template(UNLIMITED), "spec.template.spec"),
        (POD_TEMPLATE, {"template": {"spec": UNLIMITED}}, "template.spec"),
        (CRON_JOB, {"spec": {"jobTemplate": template(UNLIMITED)}}, "spec.jobTemplate.spec.template.spec"),
        ("kubernetes:core/v1:PodList", {"items": [pod(GPU_POD), pod(UNLIMITED)]}, "items[1].spec"),
        (RUNNER_SET, template(UNLIMITED), "spec.template.spec"),
        (f"{RUNNER_SET}Patch", template(UNLIMITED), "spec.template.spec"),
        (RELEASE, release(UNLIMITED), "values.template.spec"),
    ],
)
def test_a_pod_without_a_limit_is_found_in_every_kind(token: str, props: dict[str, Any], path: str) -> None:
    assert judge(RULE, token, props) == said(unlimited(path, TOLERATION))


@pytest.mark.parametrize(
    ("marks", "sign"),
    [
        ({"tolerations": [{"key": GPU, "operator": "Exists"}]}, TOLERATION),
        ({"tolerations": [{"key": GPU, "value": "true", "effect": "NoSchedule"}]}, TOLERATION),
        (
            {"tolerations": [{"key": GPU, "operator": "Equal", "value": "present"}]},
            f"tolerations[0] covers {GPU}=present:NoSchedule",
        ),
        (
            {"tolerations": [{"key": "spot", "operator": "Exists"}, {"operator": "Exists"}]},
            f"tolerations[1] covers {GPU}=true:NoSchedule",
        ),
        (
            {"tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoExecute"}]},
            f"tolerations[0] covers {GPU}=true:NoExecute",
        ),
        ({"nodeSelector": {"gpu-ci/pool": "t4-spot"}}, SELECTOR),
        ({"nodeSelector": {"gpu-ci/role": "burst"}}, 'nodeSelector["gpu-ci/role"] is "burst"'),
        ({"nodeSelector": {"gpu-ci/capacity": "spot"}}, 'nodeSelector["gpu-ci/capacity"] is "spot"'),
        ({"nodeSelector": {"gpu": True}}, 'nodeSelector["gpu"] is true'),
        ({"nodeSelector": {"node-type": "gpu-worker"}}, 'nodeSelector["node-type"] is "gpu-worker"'),
        ({"nodeSelector": {"accelerator": "nvidia-t4"}}, 'nodeSelector["accelerator"] is "nvidia-t4"'),
        ({"nodeSelector": {"nvidia.com/mig.capable": "false"}}, 'nodeSelector["nvidia.com/mig.capable"] is "false"'),
        ({"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"}}, 'nodeSelector["nvidia.com/gpu.product"] is "Tesla-T4"'),
        (
            {"nodeSelector": {"node.kubernetes.io/instance-type": "g5.xlarge"}},
            'nodeSelector["node.kubernetes.io/instance-type"] is "g5.xlarge"',
        ),
        (
            {"nodeSelector": {"node.kubernetes.io/instance-type": "VM.GPU.A10.1"}},
            'nodeSelector["node.kubernetes.io/instance-type"] is "VM.GPU.A10.1"',
        ),
        ({"runtimeClassName": "nvidia"}, 'runtimeClassName is "nvidia"'),
    ],
)
def test_each_mark_of_a_gpu_pod_asks_for_a_limit(marks: dict[str, Any], sign: str) -> None:
    assert judged(CPU_POD | {"nodeSelector": {}} | marks) == said(unlimited("spec", sign))


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {"nodeSelector": {"gpu-ci/pool": "system"}},
        {"nodeSelector": {"gpu-ci/role": "system"}},
        {"nodeSelector": {"gpu-ci/cluster": "usw2"}},
        {"nodeSelector": {"role": "web", "node-type": "worker", "gpu": "false", "nvidia.com/gpu.present": "false"}},
        {"nodeSelector": {"node.kubernetes.io/instance-type": "m6i.large"}},
        {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        {"tolerations": [{"key": GPU, "operator": "Exists", "effect": "PreferNoSchedule"}]},
        {"tolerations": [{"key": GPU, "value": "false"}]},
        {"tolerations": [{"key": "oci.oraclecloud.com/oke-is-preemptible", "operator": "Exists"}]},
        {"nodeSelector": {"node.kubernetes.io/instance-type": "VM.Standard.E5.Flex"}},
        {"runtimeClassName": "gvisor"},
    ],
)
def test_a_cpu_pod_needs_no_limit(marks: dict[str, Any]) -> None:
    assert judged(CPU_POD | {"nodeSelector": {}} | marks) == CLEAN


def affinity(*terms: list[dict[str, Any]], kind: str = "requiredDuringSchedulingIgnoredDuringExecution") -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {kind: {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}}}}


@pytest.mark.parametrize(
    ("expression", "sign"),
    [
        ({"key": "gpu-ci/pool", "operator": "In", "values": ["system", "t4"]}, '"gpu-ci/pool" in "t4"'),
        ({"key": "nvidia.com/gpu.present", "operator": "Exists"}, '"nvidia.com/gpu.present" exists'),
        ({"key": "accelerator", "operator": "Exists"}, '"accelerator" exists'),
    ],
)
def test_a_required_affinity_to_gpu_nodes_asks_for_a_limit(expression: dict[str, Any], sign: str) -> None:
    other = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    found = judged({"containers": [{"name": "a"}]} | affinity([other], [other, expression]))
    assert found == said(unlimited("spec", f"affinity, nodeSelectorTerms[1].matchExpressions[1]: {sign}"))


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "gpu-ci/pool", "operator": "In", "values": ["system"]},
        {"key": "gpu-ci/pool", "operator": "Exists"},
        {"key": "role", "operator": "Exists"},
        {"key": "nvidia.com/gpu.present", "operator": "DoesNotExist"},
        {"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]},
    ],
)
def test_an_affinity_that_does_not_ask_for_gpu_nodes_needs_no_limit(expression: dict[str, Any]) -> None:
    assert judged({"containers": [{"name": "a"}]} | affinity([expression])) == CLEAN


@pytest.mark.parametrize("value", ["all", "0", "GPU-1234", "NONE"])
def test_visible_devices_ask_for_a_limit(value: str) -> None:
    spec = changed(CPU_POD, "containers", 0, "env", [{"name": "A"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": value}])
    assert judged(spec) == said(unlimited("spec", "containers[0].env[1] sets NVIDIA_VISIBLE_DEVICES"))


def test_visible_devices_from_elsewhere_ask_for_a_limit() -> None:
    source = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
    spec = changed(CPU_POD, "containers", 0, "env", [source])
    assert judged(spec) == said(unlimited("spec", "containers[0].env[0] sets NVIDIA_VISIBLE_DEVICES"))


def test_other_variables_say_nothing_of_gpus() -> None:
    assert judged(changed(CPU_POD, "containers", 0, "env", [{"name": "DEVICES", "value": "all"}])) == CLEAN


@pytest.mark.parametrize("value", ["void", "none", "", None])
def test_visible_devices_that_rule_gpus_out_need_no_limit(value: str | None) -> None:
    spec = changed(CPU_POD, "containers", 0, "env", [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}])
    assert judged(spec) == CLEAN


@pytest.mark.parametrize("amount", [1, 1.0, "1", "1.0", "1k", "1000m", "1e0", 8, secret(1), secret("1")])
def test_a_whole_limit_passes_however_it_is_written(amount: Any) -> None:
    assert judged(with_limit(amount)) == CLEAN


@pytest.mark.parametrize("resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "amd.com/gpu"])
def test_every_gpu_resource_is_a_gpu_limit(resource: str) -> None:
    assert judged(with_limit(1, resource)) == CLEAN


def test_a_limit_of_memory_alone_is_no_gpu_limit() -> None:
    assert judged(with_limit("1", "nvidia.com/memory")) == said(unlimited("spec", TOLERATION))


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "0"),
        ("0", '"0"'),
        (0.5, "0.5"),
        ("500m", '"500m"'),
        (-1, "-1"),
        ("one", '"one"'),
        ("", '""'),
        (True, "true"),
        ([1], "a list"),
        ({"a": 1}, "an object"),
        ("1e999999999", '"1e999999999"'),
    ],
)
def test_a_limit_is_a_whole_number_of_at_least_one(amount: Any, shown: str) -> None:
    message = (
        f'spec.containers[0].resources.limits["{GPU}"] is {shown}: a GPU limit is a whole number of at least 1; write 1 or more'
    )
    assert judged(with_limit(amount)) == said(message)


def test_a_null_limit_is_none() -> None:
    assert judged(with_limit(None)) == said(unlimited("spec", TOLERATION))


@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_a_resource_name_that_yaml_nested_is_said_to_be_one_key(kind: str) -> None:
    spec = {"containers": [], kind: [{"name": "a", "resources": {"limits": {"memory": "1Gi", "nvidia": {"com/gpu": 1}}}}]}
    message = f'spec.{kind}[0].resources.limits["nvidia"] is an object: a resource name is one key; write "{GPU}" in quotes'
    assert judged(spec) == said(message)


@pytest.mark.parametrize("limits", [{"nvidia": {"com/other": 1}}, {"nvidia": 1}, {"intel": {"com/gpu": 1}}])
def test_what_yields_no_gpu_resource_is_not_this_rules(limits: dict[str, Any]) -> None:
    assert judged({"containers": [{"name": "a", "resources": {"limits": limits}}]}) == CLEAN


def test_a_request_without_a_limit_is_told_so_and_nothing_else() -> None:
    spec = changed(GPU_POD, "containers", 0, "resources", "limits", GPU, REMOVE)
    message = (
        f'spec.containers[0].resources.requests["{GPU}"] is 1 without a limit: a GPU request equals its limit; '
        "set the limit to the same number"
    )
    assert judged(spec) == said(message), "one mistake, one message"


@pytest.mark.parametrize(("request_", "limit"), [(2, "1"), ("1", "2"), (0, "1"), ("x", "1")])
def test_a_request_equals_its_limit(request_: Any, limit: Any) -> None:
    resources = {"requests": {GPU: request_}, "limits": {GPU: limit}}
    shown = request_ if isinstance(request_, int) else f'"{request_}"'
    message = (
        f'spec.containers[0].resources.requests["{GPU}"] is {shown}, the limit "{limit}": a GPU request equals its limit; '
        "write one number for both"
    )
    assert judged(changed(GPU_POD, "containers", 0, "resources", resources)) == said(message)


@pytest.mark.parametrize(("request_", "limit"), [(1, "1"), ("1k", 1000), (2.0, "2000m")])
def test_a_request_may_be_written_otherwise_than_its_limit(request_: Any, limit: Any) -> None:
    resources = {"requests": {GPU: request_}, "limits": {GPU: limit}}
    assert judged(changed(GPU_POD, "containers", 0, "resources", resources)) == CLEAN


@pytest.mark.parametrize("restart", [{}, {"restartPolicy": "Always"}])
def test_a_limit_on_an_init_or_sidecar_container_is_enough(restart: dict[str, str]) -> None:
    spec = changed(UNLIMITED, "initContainers", 0, "resources", {"limits": {GPU: 1}})
    assert judged(changed(spec, "initContainers", 0, spec["initContainers"][0] | restart)) == CLEAN


def test_every_container_is_judged_in_order() -> None:
    spec = changed(with_limit(0), "initContainers", 0, "resources", {"requests": {GPU: 1}})
    spec = changed(spec, "containers", 1, {"name": "dind", "resources": {"limits": {GPU: 0.5}}})
    fields = [message.partition(" is ")[0].partition(".resources.")[0] for message in judged(spec).messages]
    assert fields == ["spec.initContainers[0]", "spec.containers[0]", "spec.containers[1]"]


def test_a_launcher_takes_no_gpu_of_the_cluster_and_needs_no_limit() -> None:
    assert judge(RULE, RELEASE, release(LAUNCHER_POD)) == CLEAN
    assert judge(RULE, RUNNER_SET, template(LAUNCHER_POD)) == CLEAN
    anywhere = changed(LAUNCHER_POD, "nodeSelector", REMOVE)
    assert judge(RULE, RELEASE, release(anywhere)) == CLEAN, "the taint keeps it off GPU nodes"


@pytest.mark.parametrize(
    ("stray", "sign"),
    [
        ({"nodeSelector": {"gpu-ci/pool": "a10"}}, 'nodeSelector["gpu-ci/pool"] is "a10"'),
        ({"tolerations": [{"operator": "Exists"}]}, TOLERATION),
        ({"runtimeClassName": "nvidia"}, 'runtimeClassName is "nvidia"'),
    ],
)
def test_a_launcher_that_strays_onto_gpu_nodes_is_told_so(stray: dict[str, Any], sign: str) -> None:
    assert judge(RULE, RELEASE, release(LAUNCHER_POD | stray)) == said(unlimited("values.template.spec", sign))


def test_a_launcher_that_asks_for_a_gpu_is_held_to_its_limit_like_any_pod() -> None:
    asking = changed(LAUNCHER_POD, "containers", 0, "resources", "requests", GPU, 1)
    (message,) = judge(RULE, RELEASE, release(asking)).messages
    assert message.startswith(f'values.template.spec.containers[0].resources.requests["{GPU}"] is 1 without a limit')


LAUNCHERS = {
    "standing machines": vm(),
    "a machine per job": vm_per_job(),
    "CNCF's launcher": {
        key: value
        for key, value in vm_per_job(launcher="cncf", places=[place() | {"subnet": "ocid1.subnet.oc1.sjc.example"}]).items()
        if key != "image"
    },
}


@pytest.mark.parametrize("settings", LAUNCHERS.values(), ids=LAUNCHERS)
def test_the_launchers_of_our_own_sets_need_no_limit_where_they_stand_and_one_on_gpu_nodes(settings: dict[str, Any]) -> None:
    runner = TypeAdapter(AnyRunner).validate_json(json.dumps(settings))
    assert isinstance(runner, MachineRunner)
    chart = launcher_set(
        "boots", runner, "https://github.com/example", "GPUs", region=HERE, compartment="ocid1.compartment.oc1..example"
    )
    props = {"chart": f"{chart.repository}/{chart.chart}", "values": chart.values}
    assert judge(RULE, RELEASE, props) == CLEAN
    path = ("values", "template", "spec")
    stray = changed(props, *path, "tolerations", [each.manifest() for each in OKE_PROFILE.tolerations])
    assert judge(RULE, RELEASE, stray) == said(unlimited(".".join(path), TOLERATION))
    stray = changed(props, *path, "nodeSelector", pool_selector("a10"))
    assert judge(RULE, RELEASE, stray) == said(unlimited(".".join(path), 'nodeSelector["gpu-ci/pool"] is "a10"'))


@pytest.mark.parametrize("profile", [EKS_PROFILE, OKE_PROFILE])
@pytest.mark.parametrize("capacity", ["on-demand", "spot", "reserved"])
@pytest.mark.parametrize("runtime_class", ["", "nvidia"])
def test_the_runners_of_our_own_pools_have_their_limit_and_are_told_without_it(
    profile: SchedulingProfile, capacity: str, runtime_class: str
) -> None:
    chart = runner_set("gpu", runner_of(), "https://github.com/example", "GPUs", profile.pod_tolerations(capacity), runtime_class)
    props = {"chart": f"{chart.repository}/{chart.chart}", "values": chart.values}
    assert judge(RULE, RELEASE, props) == CLEAN
    resources = ("values", "template", "spec", "containers", 0, "resources")
    bare = changed(changed(props, *resources, "limits", GPU, REMOVE), *resources, "requests", GPU, REMOVE)
    assert judge(RULE, RELEASE, bare) == said(unlimited("values.template.spec", TOLERATION))


def test_oci_kinds_add_no_pod_to_judge() -> None:
    assert not [token for token in RULE.types if token.startswith("oci:")]


def test_a_gpu_pod_without_containers_gets_them_from_the_chart_and_they_have_no_limit() -> None:
    spec = {"nodeSelector": {"gpu-ci/pool": "t4-spot"}}
    assert judge(RULE, RELEASE, release(spec)) == said(unlimited("values.template.spec", SELECTOR))


@pytest.mark.parametrize("name", ["nvidia-device-plugin-ctr", "exporter", "gpu-feature-discovery-ctr", "node-exporter"])
def test_a_pod_that_serves_the_node_needs_no_limit(name: str) -> None:
    spec = UNLIMITED | {"initContainers": [], "containers": [{"name": name}]}
    assert judge(RULE, "kubernetes:apps/v1:DaemonSet", template(spec)) == CLEAN


def test_one_other_container_ends_the_exemption() -> None:
    spec = UNLIMITED | {"initContainers": [], "containers": [{"name": "exporter"}, {"name": "miner"}]}
    assert judged(spec) == said(unlimited("spec", TOLERATION))


def test_an_exempt_container_still_has_to_state_a_request_right() -> None:
    spec = UNLIMITED | {"initContainers": [], "containers": [{"name": "exporter", "resources": {"limits": {GPU: 0}}}]}
    assert len(judged(spec).messages) == 1


def test_an_unknown_name_may_be_exempt_unless_another_is_not() -> None:
    path = ("spec", "containers", 0, "name")
    assert judge(RULE, POD, pod(DEVICE_PLUGIN), unknown=path) == said(unknown="spec.containers[0].name")
    mixed = changed(DEVICE_PLUGIN, "containers", 1, {"name": "miner"})
    assert judge(RULE, POD, pod(mixed), unknown=path) == said(unlimited("spec", TOLERATION))
    idle = changed(DEVICE_PLUGIN, "tolerations", [])
    idle = changed(idle, "containers", 0, "env", [])
    assert judge(RULE, POD, pod(idle), unknown=path) == CLEAN, "no sign of a GPU: the name does not matter"


@pytest.mark.parametrize(
    ("image", "namespace", "exempt"),
    [
        ("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "kube-system", True),
        ("mirror.example.com/nvidia/k8s-device-plugin@sha256:0", "nvidia-device-plugin", True),
        ("example.com/miner:1", "kube-system", False),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "team-a", False),
    ],
)
def test_a_known_name_is_exempt_with_its_image_in_its_namespace_alone(image: str, namespace: str, exempt: bool) -> None:
    spec = changed(DEVICE_PLUGIN, "containers", 0, "image", image)
    props = pod(spec) | {"metadata": {"name": "plugin", "namespace": namespace}}
    assert judge(RULE, POD, props) == (CLEAN if exempt else said(unlimited("spec", TOLERATION)))


@pytest.mark.parametrize(
    ("spec", "annotations", "sign"),
    [
        ({"nodeName": "gpu-1"}, {}, 'nodeName is "gpu-1", and the scheduler counts nothing there'),
        ({}, {"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}, 'annotation "cdi.k8s.io/gpu"'),
        (
            {"containers": [{"name": "a", "volumeMounts": [{"mountPath": "/var/run/nvidia-container-devices/all"}]}]},
            {},
            "containers[0].volumeMounts[0] is in /var/run/nvidia-container-devices",
        ),
        (
            {"containers": [{"name": "a", "resources": {"limits": {"smarter-devices/nvidia0": 1}}}]},
            {},
            'containers[0].resources.limits["smarter-devices/nvidia0"]',
        ),
    ],
)
def test_a_way_past_the_scheduler_is_a_sign(spec: dict[str, Any], annotations: dict[str, str], sign: str) -> None:
    props = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "a"}]} | spec}
    assert judge(RULE, POD, props) == said(unlimited("spec", sign))


@pytest.mark.parametrize(("value", "told"), [("all", True), ("0", True), ("void", False), ("", False)])
def test_a_config_map_gives_no_pod_visible_devices(value: str, told: bool) -> None:
    fix = "a pod that takes its variables from here sees GPUs without a limit; remove it"
    expected = said(f'data.NVIDIA_VISIBLE_DEVICES is "{value}": {fix}') if told else CLEAN
    assert judge(RULE, "kubernetes:core/v1:ConfigMap", {"data": {"NVIDIA_VISIBLE_DEVICES": value}}) == expected


def test_a_runtime_class_of_nvidia_has_the_name_that_policies_know() -> None:
    token = "kubernetes:node.k8s.io/v1:RuntimeClass"  # noqa: S105 - of a resource
    told = 'handler is "nvidia": its pods see GPUs, and no policy knows the class; name it "nvidia"'
    assert judge(RULE, token, {"metadata": {"name": "plain"}, "handler": "nvidia"}) == said(told)
    assert judge(RULE, token, {"metadata": {"name": "nvidia"}, "handler": "nvidia"}) == CLEAN
    assert judge(RULE, token, {"metadata": {"name": "plain"}, "handler": "runsc"}) == CLEAN


def test_the_exempt_names_are_configurable() -> None:
    spec = UNLIMITED | {"initContainers": [], "containers": [{"name": "probe"}]}
    assert judged(spec, allowNoLimitNames=["probe"]) == CLEAN
    assert judged(spec, allowNoLimitNames=[]) == said(unlimited("spec", TOLERATION))


@pytest.mark.parametrize(
    "chart",
    [
        "gha-runner-scale-set",
        "./charts/gha-runner-scale-set/",
        "charts/gha-runner-scale-set-0.14.2.tgz",
        "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set",
        "oci://ghcr.io/x/gha-runner-scale-set:0.14.2",
    ],
)
def test_the_scale_set_chart_is_known_by_name_path_and_reference(chart: str) -> None:
    assert judge(RULE, RELEASE, release(UNLIMITED) | {"chart": chart}).messages


@pytest.mark.parametrize("chart", ["gha-runner-scale-set-controller", "gha-runner-scale-set-experimental", "gpu-operator", None])
def test_the_values_of_other_charts_are_not_a_runner_pod(chart: str | None) -> None:
    assert judge(RULE, RELEASE, release(UNLIMITED) | {"chart": chart}) == CLEAN


def test_value_files_are_refused_since_they_can_change_the_pod() -> None:
    message = "valueYamlFiles: files may change the runner pod and are not read; move them to values"
    assert judge(RULE, RELEASE, release(GPU_POD) | {"valueYamlFiles": ["text"]}) == said(message)
    assert judge(RULE, RELEASE, release(GPU_POD) | {"valueYamlFiles": []}) == CLEAN
    assert judge(RULE, RELEASE, {"chart": "gpu-operator", "valueYamlFiles": ["text"]}) == CLEAN


def test_a_known_fault_is_reported_before_an_unknown_stops_the_rule() -> None:
    spec = changed(with_limit(0), "containers", 1, {"name": "b", "resources": {"limits": {GPU: 1}}})
    verdict = judge(RULE, POD, pod(spec), unknown=("spec", "containers", 1, "resources", "limits", GPU))
    assert len(verdict.messages) == 1
    assert verdict.unknown == f"spec.containers[1].resources.limits.{GPU}"


def test_an_unknown_that_could_hold_the_limit_is_not_taken_for_its_absence() -> None:
    path = ("spec", "containers", 0, "resources", "limits")
    assert judge(RULE, POD, pod(UNLIMITED), unknown=path) == said(unknown=spelled(path))


def test_unknown_labels_and_cpu_amounts_do_not_matter() -> None:
    props = pod(changed(GPU_POD, "nodeSelector", "topology.kubernetes.io/zone", "a"))
    assert judge(RULE, POD, props, unknown=("spec", "nodeSelector", "topology.kubernetes.io/zone")) == CLEAN
    assert judge(RULE, POD, props, unknown=("spec", "containers", 0, "resources", "limits", "memory")) == CLEAN
    assert judge(RULE, POD, props, unknown=("metadata",)) == CLEAN


def test_a_toleration_is_not_read_once_a_limit_is_known() -> None:
    assert judge(RULE, POD, pod(GPU_POD), unknown=("spec", "tolerations")) == CLEAN, "known good whatever it tolerates"


def test_an_unknown_toleration_of_a_pod_without_limits_is_undeterminable() -> None:
    spec = CPU_POD | {"tolerations": [{"key": GPU, "operator": "Exists"}]}
    assert judge(RULE, POD, pod(spec), unknown=("spec", "tolerations")) == said(unknown="spec.tolerations")


def test_secret_values_are_judged_and_never_shown() -> None:
    spec = changed(CPU_POD, "containers", 0, "env", [{"name": "NVIDIA_VISIBLE_DEVICES", "value": secret("GPU-hidden")}])
    (message,) = judged(spec).messages
    assert "hidden" not in message


def toolkit(value: str) -> dict[str, Any]:
    return {"toolkit": {"env": [{"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": value}]}}


def obeys(at: str) -> str:
    return (
        f"{at}.toolkit.env[0] lets every pod with NVIDIA_VISIBLE_DEVICES see GPUs, without a limit and without rights; write the "
        'value "false"'
    )


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(GPU_POD),
        *in_pods(CPU_POD, tokens=[POD, RELEASE]),
        Case(
            POD,
            pod(UNLIMITED | {"initContainers": [], "containers": [{"name": "probe"}]}),
            config={"allowNoLimitNames": ["probe"]},
        ),
        *(Case(token, {"spec": toolkit("false")}) for token in sorted(CLUSTER_POLICY)),
        Case(RELEASE, {"chart": "gpu-operator", "values": toolkit("false")}),
    ),
    violating=(
        *(Case(token, {"spec": toolkit("true")}, (obeys("spec"),)) for token in sorted(CLUSTER_POLICY)),
        Case(RELEASE, {"chart": "gpu-operator", "values": toolkit("true")}, (obeys("values"),)),
        *in_pods(UNLIMITED, unlimited("{pod}", TOLERATION)),
        Case(POD, pod(DEVICE_PLUGIN), (unlimited("spec", TOLERATION),), {"allowNoLimitNames": ["probe"]}),
        Case(
            RELEASE,
            release(GPU_POD) | {"valueYamlFiles": ["text"]},
            ("valueYamlFiles: files may change the runner pod and are not read; move them to values",),
        ),
    ),
)
