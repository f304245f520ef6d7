"""runner-no-privileged: each right of the node's once, in every kind, and what is exempt from it by namespace and name."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.charts.arc import arc_controller
from fleet.charts.cluster_autoscaler import cluster_autoscaler
from fleet.charts.device_plugin import device_plugin, plugin_configs
from fleet.facts.scheduling import POOL_LABEL, node_choice
from policies.rules.kinds import APPLICATION, RELEASE
from policies.rules.runner_no_privileged import RULE
from tests.builders import pool_of
from tests.policies.applications import application
from tests.policies.cases import Case
from tests.policies.fixtures import GPU_POD, LAUNCHER_POD, POD, RUNNER_SET, pod, release, template
from tests.policies.harness import CLEAN, changed, config_of, judge, said
from tests.policies.suite import Suite, in_pods

DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
PRIVILEGED = "a privileged container is root on its node, with all GPUs, credentials and pods there"
ROOT = "a kernel vulnerability could then give root on the node; write the image's own user, above 0"
FOLDER = "a folder of the node, with files of the node and of other pods; use emptyDir, or a claim"
SOCKET = "a pod with that socket can start privileged containers; remove the volume"
ALLOWING = config_of(RULE.id, "capabilities")
UNCONFINED = (
    f"the pod may then make system calls that others may not; remove it, or list it in {config_of(RULE.id, 'unconfined')}"
)
PROFILE = {"type": "Unconfined"}


def capability(name: str) -> str:
    return f"a permission on the node that pods do not have by default; remove it, or list it in {ALLOWING}"


def own(what: str) -> str:
    return f"the pod then uses the node's {what}; remove it"


def secured(**context: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a", "securityContext": context}]}


def on_the_host(path: str) -> dict[str, Any]:
    return {"containers": [{"name": "a"}], "volumes": [{"name": "b", "emptyDir": {}}, {"name": "c", "hostPath": {"path": path}}]}


CASES = {
    "privileged": (secured(privileged=True), f"containers[0].securityContext.privileged is true: {PRIVILEGED}; remove it"),
    "root in the container": (secured(runAsUser=0), f"containers[0].securityContext.runAsUser is 0: {ROOT}"),
    "root in the pod": (
        {"containers": [{"name": "a"}], "securityContext": {"runAsUser": "0"}},
        f"securityContext.runAsUser is 0: {ROOT}",
    ),
    "a container without seccomp": (
        secured(seccompProfile=PROFILE),
        f'containers[0].securityContext.seccompProfile.type is "Unconfined": {UNCONFINED}',
    ),
    "a pod without AppArmor": (
        {"containers": [{"name": "a"}], "securityContext": {"appArmorProfile": PROFILE}},
        f'securityContext.appArmorProfile.type is "Unconfined": {UNCONFINED}',
    ),
    "a capability": (
        secured(capabilities={"add": ["SYS_ADMIN"]}),
        f'containers[0].securityContext.capabilities.add[0] is "SYS_ADMIN": {capability("SYS_ADMIN")}',
    ),
    "network": ({"containers": [], "hostNetwork": True}, f"hostNetwork is true: {own('network, metadata included')}"),
    "processes": ({"containers": [], "hostPID": True}, f"hostPID is true: {own('processes')}"),
    "memory": ({"containers": [], "hostIPC": True}, f"hostIPC is true: {own('shared memory')}"),
    "a folder": (on_the_host("/etc"), f'volumes[1].hostPath is "/etc": {FOLDER}'),
    "Docker's socket": (on_the_host("/var/run/docker.sock"), f'volumes[1].hostPath is "/var/run/docker.sock": {SOCKET}'),
    "containerd's socket": (
        on_the_host("/run/containerd/containerd.sock"),
        f'volumes[1].hostPath is "/run/containerd/containerd.sock": {SOCKET}',
    ),
}


@pytest.mark.parametrize(("spec", "fault"), CASES.values(), ids=CASES)
def test_each_right_of_the_node_is_told_once(spec: dict[str, Any], fault: str) -> None:
    assert judge(RULE, POD, pod(spec)) == said(f"spec.{fault}")


@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_every_container_is_looked_at(kind: str) -> None:
    spec = {"containers": [], kind: [{"name": "a"}, {"name": "b", "securityContext": {"privileged": True}}]}
    assert judge(RULE, POD, pod(spec)) == said(f"spec.{kind}[1].securityContext.privileged is true: {PRIVILEGED}; remove it")


@pytest.mark.parametrize(
    "spec",
    [
        secured(seccompProfile={"type": "RuntimeDefault"}, appArmorProfile={"type": "Localhost", "localhostProfile": "a"}),
        secured(privileged=False, runAsUser=1001, capabilities={"drop": ["ALL"]}),
        secured(runAsUser="1001", capabilities={"add": []}),
        # Controllers of ingress add the first, Volcano the second; level baseline allows both.
        secured(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "DAC_OVERRIDE"]}),
        secured(runAsUser=False),
        {"containers": [], "hostNetwork": False, "volumes": [{"name": "a", "hostPath": None}]},
        GPU_POD,
        LAUNCHER_POD,
    ],
)
def test_a_pod_of_its_own_passes(spec: dict[str, Any]) -> None:
    assert judge(RULE, POD, pod(spec)) == CLEAN


def test_a_capability_may_be_allowed() -> None:
    spec = secured(capabilities={"add": ["NET_ADMIN", "SYS_ADMIN"]})
    found = judge(RULE, POD, pod(spec), {"capabilities": ["NET_ADMIN"]})
    assert found == said(f'spec.containers[0].securityContext.capabilities.add[1] is "SYS_ADMIN": {capability("SYS_ADMIN")}')


# -- exemptions --------------------------------------------------------------------------------------------------------


def placed(namespace: str, name: str, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        **template(spec or secured(privileged=True)),
        "metadata": {"namespace": namespace, "name": name, "labels": {"a": "b"}},
    }


def test_what_serves_the_node_is_exempt_by_namespace_and_name() -> None:
    assert judge(RULE, DAEMON_SET, placed("gpu-operator", "gpu-operator-node-feature-discovery-worker")) == CLEAN
    for namespace, name in (("runners", "gpu-operator"), ("gpu-operator", "miner"), ("", "")):
        assert judge(RULE, DAEMON_SET, placed(namespace, name)).messages, "neither alone is enough"


def test_a_pod_without_profiles_is_listed_apart_and_only_for_that() -> None:
    listed = {"unconfined": ["builds/*"]}
    assert judge(RULE, DAEMON_SET, placed("builds", "a", secured(seccompProfile=PROFILE)), listed) == CLEAN
    assert judge(RULE, DAEMON_SET, placed("builds", "a", secured(seccompProfile=PROFILE)), {"exempt": ["builds/a"]}) == CLEAN
    assert judge(RULE, DAEMON_SET, placed("other", "a", secured(seccompProfile=PROFILE)), listed).messages
    (message,) = judge(RULE, DAEMON_SET, placed("builds", "a", secured(seccompProfile=PROFILE, privileged=True)), listed).messages
    assert "privileged is true" in message


def test_a_label_exempts_nobody() -> None:
    props = changed(placed("runners", "a"), "metadata", "labels", {"app.kubernetes.io/name": "gpu-operator"})
    assert judge(RULE, DAEMON_SET, props).messages


def test_an_exemption_may_be_a_pattern() -> None:
    props = placed("kube-system", "csi-node")
    assert judge(RULE, DAEMON_SET, props, {"exempt": ["kube-system/csi-*"]}) == CLEAN
    assert judge(RULE, DAEMON_SET, props, {"exempt": ["kube-system/*"]}) == CLEAN
    assert judge(RULE, DAEMON_SET, props, {"exempt": ["kube-system", "csi-node", ""]}).messages


def test_an_unknown_name_may_be_exempt_where_the_namespace_does_not_decide() -> None:
    exempt = placed("gpu-operator", "gpu-operator")
    assert judge(RULE, DAEMON_SET, exempt, unknown=("metadata", "name")).unknown == "metadata.name"
    assert judge(RULE, DAEMON_SET, exempt, unknown=("metadata",)).unknown == "metadata"
    other = placed("runners", "gpu-operator")
    assert judge(RULE, DAEMON_SET, other, unknown=("metadata", "name")).messages, "nothing of that namespace is exempt"
    clean = placed("gpu-operator", "gpu-operator", secured())
    assert judge(RULE, DAEMON_SET, clean, unknown=("metadata",)) == CLEAN, "there is nothing to exempt"


def test_each_item_of_a_list_has_its_own_name() -> None:
    good, bad = placed("gpu-operator", "gpu-operator"), placed("runners", "a")
    found = judge(RULE, "kubernetes:apps/v1:DaemonSetList", {"items": [good, bad]})
    fault = f"containers[0].securityContext.privileged is true: {PRIVILEGED}; remove it"
    assert found == said(f"items[1].spec.template.spec.{fault}")


# -- the scale-set chart -----------------------------------------------------------------------------------------------

DIND = changed(release(GPU_POD), "values", "containerMode", {"type": "dind"}) | {"namespace": "runners-gpu", "name": "gpu"}
MADE = (
    'values.template.spec.initContainers[dind].securityContext.privileged is true, made by containerMode.type "dind": '
    f"{PRIVILEGED}; leave that empty, or add the set to {config_of(RULE.id, 'exempt')} and give it its own nodes"
)
SHARED = (
    'values.containerMode.type is "dind": jobs are then root on their node, so they need their own tainted pool; '
    'set template.spec.nodeSelector["gpu-ci/pool"] and a toleration with a key'
)
EXEMPT = {"exempt": ["runners-gpu/gpu"]}


def test_docker_in_docker_is_a_privileged_container_that_no_value_names() -> None:
    assert judge(RULE, RELEASE, DIND) == said(MADE)
    for mode in ("", "kubernetes", "kubernetes-novolume"):
        assert judge(RULE, RELEASE, changed(DIND, "values", "containerMode", "type", mode)) == CLEAN


def test_an_exempt_set_with_docker_stays_on_nodes_of_its_own() -> None:
    assert judge(RULE, RELEASE, DIND, EXEMPT) == CLEAN
    spec = ("values", "template", "spec")
    for path, value in (
        (("nodeSelector",), {}),
        (("nodeSelector", "gpu-ci/pool"), "system"),
        (("tolerations",), []),
        (("tolerations",), [{"operator": "Exists"}]),
    ):
        assert judge(RULE, RELEASE, changed(DIND, *spec, *path, value), EXEMPT) == said(SHARED)


def test_an_unknown_mode_may_be_docker() -> None:
    assert judge(RULE, RELEASE, DIND, unknown=("values", "containerMode", "type")).unknown == "values.containerMode.type"
    assert (
        judge(RULE, RELEASE, DIND, EXEMPT, ("values", "template", "spec", "tolerations")).unknown
        == "values.template.spec.tolerations"
    )


def test_privileged_docker_may_have_several_pools_of_its_own() -> None:
    def over(*pools: str) -> Any:
        pod = {key: value for key, value in GPU_POD.items() if key != "nodeSelector"}
        return changed(DIND, "values", "template", "spec", pod | node_choice([{POOL_LABEL: pool} for pool in pools]))

    assert judge(RULE, RELEASE, over("t4-spot", "t4-ondemand"), EXEMPT) == CLEAN
    assert judge(RULE, RELEASE, over("t4-spot", "system"), EXEMPT) == said(SHARED)


def test_a_container_named_dind_of_the_values_is_left_out_in_that_mode() -> None:
    spec = changed(GPU_POD, "containers", 1, {"name": "dind", "securityContext": {"runAsUser": 0}})
    props = changed(DIND, "values", "template", "spec", spec)
    assert judge(RULE, RELEASE, props) == said(MADE)
    assert len(judge(RULE, RELEASE, changed(props, "values", "containerMode", {})).messages) == 1


@pytest.mark.parametrize(("token", "path"), [(RELEASE, "values"), (RUNNER_SET, "spec")])
def test_the_listener_is_held_to_it_too(token: str, path: str) -> None:
    base: dict[str, Any] = release(GPU_POD) if token == RELEASE else template(GPU_POD)
    props = changed(base, path, "listenerTemplate", {"spec": {"hostNetwork": True, "containers": []}})
    assert judge(RULE, token, props) == said(
        f"{path}.listenerTemplate.spec.hostNetwork is true: {own('network, metadata included')}"
    )


# -- other charts ------------------------------------------------------------------------------------------------------


FILES = "valueYamlFiles: files may ask for any right and are not read; move them to values"


def installed(chart: str, values: dict[str, Any], namespace: str = "a", name: str = "b") -> dict[str, Any]:
    return {"chart": chart, "values": values, "namespace": namespace, "name": name}


def test_a_chart_that_needs_the_node_is_exempt_where_this_project_puts_it() -> None:
    configs = plugin_configs([pool_of(cdi=True)], by_operator=False)
    for chart in (device_plugin(), device_plugin(configs=configs)):
        assert judge(RULE, RELEASE, installed(chart.chart, chart.values, chart.namespace, chart.name)) == CLEAN
    (message,) = judge(RULE, RELEASE, installed("nvidia-device-plugin", {})).messages
    assert message == (
        'chart is "nvidia-device-plugin": it mounts the kubelet\'s sockets, and runs a privileged container on each node that is '
        f"labelled for MPS; add its namespace and name to {config_of(RULE.id, 'exempt')}, or leave it out"
    )


def test_charts_that_need_no_node_pass() -> None:
    for chart in (arc_controller(), cluster_autoscaler("c", "us-west-2", "1.34")):
        assert judge(RULE, RELEASE, installed(chart.chart, chart.values)) == CLEAN


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"securityContext": {"privileged": True}}, f"values.securityContext.privileged is true: {PRIVILEGED}; remove it"),
        ({"pod": [{"runAsUser": 0}]}, f"values.pod[0].runAsUser is 0: {ROOT}"),
        ({"hostNetwork": True}, f"values.hostNetwork is true: {own('network, metadata included')}"),
        ({"extraVolumes": [{"hostPath": {"path": "/etc"}}]}, f'values.extraVolumes[0].hostPath is "/etc": {FOLDER}'),
        ({"hostPath": "/data"}, f'values.hostPath is "/data": {FOLDER}'),
        ({"a": {"capabilities": {"add": ["NET_RAW"]}}}, f'values.a.capabilities.add[0] is "NET_RAW": {capability("NET_RAW")}'),
    ],
)
def test_values_of_any_chart_that_take_of_the_node_are_told(values: dict[str, Any], fault: str) -> None:
    assert judge(RULE, RELEASE, installed("any", values)) == said(fault)
    assert judge(RULE, RELEASE, installed("any", values), {"exempt": ["a/b"]}) == CLEAN


def test_a_mode_of_another_chart_is_its_own() -> None:
    assert judge(RULE, RELEASE, installed("any", {"containerMode": {"type": "dind"}}), {"exempt": ["a/b"]}) == CLEAN


def test_value_files_are_refused_since_they_can_ask_for_any_right() -> None:
    props = installed("any", {}) | {"valueYamlFiles": ["text"]}
    assert judge(RULE, RELEASE, props) == said(FILES)
    assert judge(RULE, RELEASE, props, {"exempt": ["a/b"]}) == CLEAN
    assert judge(RULE, RELEASE, props, unknown=("valueYamlFiles",)).unknown == "valueYamlFiles"
    assert judge(RULE, RELEASE, props | {"valueYamlFiles": []}) == CLEAN


def test_the_login_of_a_charts_address_is_not_shown() -> None:
    (message,) = judge(RULE, RELEASE, installed("https://ci:hunter2@example.com/gpu-operator-v26.7.0.tgz", {})).messages
    assert message.startswith('chart is "https://***@example.com/gpu-operator-v26.7.0.tgz": ')


@pytest.mark.parametrize(
    "values", [{"hostNetwork": False}, {"hostPath": ""}, {"hostPath": {}}, {"runAsUser": 1}, {"privileged": "no"}]
)
def test_values_that_take_nothing_pass(values: dict[str, Any]) -> None:
    assert judge(RULE, RELEASE, installed("any", values)) == CLEAN


def test_an_application_is_exempt_by_where_and_as_what_it_installs() -> None:
    operator = {"chart": "gpu-operator", "name": "gpu-operator", "namespace": "gpu-operator", "values": {}}
    assert judge(RULE, APPLICATION, application(operator)) == CLEAN
    elsewhere = changed(application(operator), "spec", "destination", "namespace", "argocd")
    (message,) = judge(RULE, APPLICATION, elsewhere).messages
    assert message.startswith('spec.source.chart is "gpu-operator": it runs privileged containers')
    called = changed(application(operator), "metadata", {"name": "gpu-operator", "namespace": "gpu-operator"})
    other = changed(called, "spec", "source", "helm", "releaseName", "mine")
    assert judge(RULE, APPLICATION, other).messages, "what counts is the release, not the Application"


SPACE, VOLUME = "kubernetes:core/v1:Namespace", "kubernetes:core/v1:PersistentVolume"
LEVEL = "pod-security.kubernetes.io/enforce"


def test_a_namespace_keeps_pod_security_unless_a_pod_of_it_is_exempt() -> None:
    def of(name: str, level: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": {LEVEL: level}}}

    told = (
        f'metadata.labels["{LEVEL}"] is "privileged": any pod here may be root on its node; write restricted or baseline, or add '
        f"a pod of the namespace to {config_of(RULE.id, 'exempt')}"
    )
    assert judge(RULE, SPACE, of("team-a", "privileged")) == said(told)
    assert judge(RULE, SPACE, of("team-a", "baseline")) == CLEAN
    assert judge(RULE, SPACE, of("gpu-operator", "privileged")) == CLEAN
    assert judge(RULE, SPACE, of("team-a", "privileged"), {"exempt": ["team-a/agent"]}) == CLEAN
    assert judge(RULE, SPACE, of("team-a", "privileged"), {"unconfined": ["team-a/buildkit"]}) == CLEAN


@pytest.mark.parametrize("kind", ["hostPath", "local"])
def test_a_volume_of_the_cluster_is_no_folder_of_a_node(kind: str) -> None:
    fault = 'is "/": a folder of the node, with files of the node and of other pods; use emptyDir, or a claim'
    assert judge(RULE, VOLUME, {"spec": {kind: {"path": "/"}}}) == said(f"spec.{kind} {fault}")
    assert judge(RULE, VOLUME, {"spec": {"csi": {"driver": "efs.csi.aws.com"}}}) == CLEAN


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"shareProcessNamespace": True},
            "shareProcessNamespace is true: each container reads the memory of the others; remove it",
        ),
        (
            {"volumes": [{"name": "a", "csi": {"driver": "host.example.com"}}]},
            'volumes[0].csi.driver is "host.example.com": its volume may be any folder of the node; use a claim',
        ),
        (
            {"volumes": [{"name": "a", "nfs": {"server": "10.0.0.1", "path": "/"}}]},
            "volumes[0] is of a kind that may reach beyond the pod; mount a claim",
        ),
    ],
)
def test_what_reaches_beyond_the_pod_is_told(spec: dict[str, Any], told: str) -> None:
    assert judge(RULE, POD, pod(GPU_POD | spec)) == said(f"spec.{told}")


def test_a_pod_beside_runners_has_no_token_of_an_account() -> None:
    def of(**spec: Any) -> dict[str, Any]:
        return pod(GPU_POD | spec) | {"metadata": {"name": "a", "namespace": "runners-gpu"}}

    token = {"volumes": [{"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]}
    mounted = 'spec.automountServiceAccountToken is true beside runners, with account "arc"; remove it'
    projected = "spec.volumes[0].projected.sources[0].serviceAccountToken is a token beside runners; remove it"
    assert judge(RULE, POD, of(automountServiceAccountToken=True, serviceAccountName="arc")) == said(mounted)
    assert judge(RULE, POD, of(**token)) == said(projected)
    assert judge(RULE, POD, of(**token, serviceAccountName="launcher")) == CLEAN
    assert judge(RULE, POD, of(**token, serviceAccountName="other"), {"accounts": ["other"]}) == CLEAN
    assert judge(RULE, POD, pod(GPU_POD | token)) == CLEAN, "elsewhere it has the rights of its account"


def test_the_name_of_an_exempt_pod_is_nothing_without_its_image() -> None:
    def of(image: str) -> dict[str, Any]:
        spec = secured(privileged=True)
        return placed("nvidia-device-plugin", "nvidia-device-plugin", changed(spec, "containers", 0, "image", image))

    assert judge(RULE, DAEMON_SET, of("nvcr.io/nvidia/k8s-device-plugin:v0.20.0")) == CLEAN
    assert judge(RULE, DAEMON_SET, of("docker.io/evil/miner:1")).messages
    assert judge(RULE, DAEMON_SET, of("docker.io/evil/miner:1"), {"exempt": ["nvidia-device-plugin/*"]}) == CLEAN


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(GPU_POD),
        *in_pods(secured(capabilities={"add": ["NET_ADMIN"]}), tokens=[POD], config={"capabilities": ["NET_ADMIN"]}),
        Case(DAEMON_SET, placed("kube-system", "csi"), config={"exempt": ["kube-system/csi"]}),
        Case(DAEMON_SET, placed("builds", "a", secured(seccompProfile=PROFILE)), config={"unconfined": ["builds/a"]}),
        Case(POD, pod(GPU_POD) | {"metadata": {"namespace": "runners-gpu"}}, config={"accounts": ["other"]}),
        Case(RELEASE, DIND, config=EXEMPT),
        Case(RELEASE, installed("any", {"securityContext": {"runAsUser": 1001}})),
    ),
    violating=(
        *in_pods(CASES["privileged"][0], f"{{pod}}.{CASES['privileged'][1]}"),
        *(Case(POD, pod(spec), (f"spec.{fault}",)) for spec, fault in CASES.values()),
        Case(RELEASE, DIND, (MADE,)),
        Case(RELEASE, changed(DIND, "values", "template", "spec", "tolerations", []), (SHARED,), config=EXEMPT),
        Case(RELEASE, installed("any", {}) | {"valueYamlFiles": ["text"]}, (FILES,)),
        Case(
            RELEASE,
            installed("any", {"podSecurityContext": {"seccompProfile": PROFILE}}),
            (f'values.podSecurityContext.seccompProfile.type is "Unconfined": {UNCONFINED}',),
        ),
        Case(RELEASE, installed("any", {"hostPID": True}), (f"values.hostPID is true: {own('processes')}",)),
    ),
)
