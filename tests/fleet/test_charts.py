"""Charts as plain data: keys that the charts know, pods that the API server takes, versions that go together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema
import kubernetes_validate
import pytest
from pydantic import TypeAdapter

from fleet.charts import gpu_operator
from fleet.charts.arc import CONTROLLER, LAUNCHER_POD, NAMESPACE, QUICKSTART_ACCOUNT, arc_controller
from fleet.charts.argo_cd import argo_cd
from fleet.charts.chart import Chart
from fleet.charts.cluster_autoscaler import cluster_autoscaler
from fleet.charts.dcgm_exporter import dcgm_exporter
from fleet.charts.device_plugin import device_plugin, plugin_configs
from fleet.charts.kube_prometheus import kube_prometheus
from fleet.charts.kueue import kueue
from fleet.facts import versions
from fleet.facts.scheduling import (
    EKS_PROFILE,
    GPU_RESOURCE,
    OKE_PROFILE,
    PLUGIN_CONFIG_CDI,
    PLUGIN_CONFIG_LABEL,
    RUNNER_PRIORITY,
    pool_labels,
    system_labels,
)
from fleet.facts.versions import RUNNER_IMAGE
from fleet.loading.config import load
from fleet.prove.placement import place
from fleet.providers.installed import plain_charts
from fleet.providers.oke.vm_runner import MachineRunner, VmPerJobRunner, VmRunner
from fleet.settings.github import APP_SECRET
from fleet.settings.namespaces import runner_namespace
from fleet.settings.runner import MAX_SET_NAME, PodRunner, Runner
from tests import yaml12
from tests.builders import cluster, config, pool_of, reference, runner_of, staging, talos_cluster, vm, vm_per_job
from tests.cases import cases
from tests.charts import launcher_set, runner_set
from tests.fleet.values import (
    asks,
    autoscaling_runner_set,
    folder,
    leaves,
    mebibytes,
    millicores,
    pod_of,
    runner_of_pod,
    toleration,
    unknown_keys,
)
from tests.policies.rendered import published, render

KUBERNETES = "1.34"
URL = "https://github.com/example"

RUNNERS = {name: runner for _, name, runner in staging().runner_sets() if isinstance(runner, PodRunner)} | {
    "gpu-whole": runner_of(8, 90, "300Gi", shm="64Gi", labels=["whole"], image="registry.example.com/runner:1"),
    "n" * MAX_SET_NAME: runner_of(1, "500m", "4Gi", scale={"min": 1, "max": 1}),
}
SETS = [runner_set(name, runner, URL, "gpu") for name, runner in RUNNERS.items()]
BASE = [device_plugin(), cluster_autoscaler("usw2", "us-west-2", KUBERNETES), arc_controller()]
MACHINES: dict[str, MachineRunner] = {
    "standing": TypeAdapter(VmRunner).validate_json(json.dumps(vm(count=2))),
    "per-job": TypeAdapter(VmPerJobRunner).validate_json(json.dumps(vm_per_job(labels=["a10"]))),
}
LAUNCHERS = [
    launcher_set(name, runner, URL, "gpu", region="us-sanjose-1", compartment="ocid1.compartment.oc1..example")
    for name, runner in MACHINES.items()
]
CLASSES: dict[str, Runner] = {**RUNNERS, **MACHINES}
ALL = [*BASE, *SETS, *LAUNCHERS]
CONFIGS = plugin_configs([pool_of(cdi=True), pool_of(sharing={"strategy": "mps", "replicas": 4})], by_operator=False)
MONITORED = load(config(clusters={"usw2": cluster(monitoring={"prometheus": "install"})})).clusters["usw2"]
PROMETHEUS = kube_prometheus(MONITORED, MONITORED.monitoring, "gpu-ci-staging-usw2")
VARIANTS = [
    pytest.param(device_plugin(OKE_PROFILE.tolerations, CONFIGS), id="device plugin with configs of its own"),
    pytest.param(
        runner_set("gpu-t4", RUNNERS["gpu-t4"], URL, "gpu", OKE_PROFILE.tolerations, "nvidia"), id="runner set of a spot pool"
    ),
    pytest.param(kueue(["research"]), id="kueue"),
    pytest.param(kueue(["research"], metrics=True), id="kueue with metrics"),
    pytest.param(arc_controller(metrics=True), id="arc with metrics"),
    pytest.param(dcgm_exporter(OKE_PROFILE.tolerations, engine_on_nodes=True), id="dcgm-exporter"),
    pytest.param(PROMETHEUS, id="kube-prometheus-stack"),
    pytest.param(argo_cd("argocd"), id="argo-cd"),
    pytest.param(kueue(["vision", "research"], fair_sharing=True), id="kueue with fair sharing"),
]
"""The same charts with other settings; those of the operator are in test_gpu_operator.py."""
HOME = load(config(clusters={"home": talos_cluster()})).clusters["home"]
PLAIN = list(plain_charts(HOME))
"""Charts that a cluster gets of its settings alone, by a cluster whose provider has add-ons for none of them."""

each_chart = pytest.mark.parametrize("chart", [*(pytest.param(chart, id=chart.name) for chart in (*ALL, *PLAIN)), *VARIANTS])

each_set = cases(("name", "runner"), RUNNERS.items())


def _set(name: str) -> Chart:
    return next(chart for chart in SETS if chart.name == name)


def _pod(name: str) -> dict[str, Any]:
    return pod_of(_set(name))


def _container(name: str) -> dict[str, Any]:
    return runner_of_pod(_pod(name))


# -- images ------------------------------------------------------------------------------------------------------------


def test_every_chart_names_its_pinned_images_by_digest() -> None:
    assert device_plugin().values["image"] == {
        "repository": "nvcr.io/nvidia/k8s-device-plugin",
        "tag": versions.CHART_IMAGES["nvidia-device-plugin"]["image"].reference.removeprefix("nvcr.io/nvidia/k8s-device-plugin:"),
    }
    prometheus = PROMETHEUS.values["prometheus"]["prometheusSpec"]
    assert prometheus["image"].keys() == {"registry", "repository", "tag", "sha"}
    assert "retention" in prometheus, "the other settings of the same part stay"


@cases(
    ("form", "suffix", "spelled"),
    [
        ("tag", "", {"repository": "quay.io/a/b", "tag": "v1-slim@sha256:0a"}),
        ("version", "", {"repository": "quay.io/a", "image": "b", "version": "sha256:0a"}),
        ("sha", "", {"registry": "quay.io", "repository": "a/b", "tag": "v1-slim", "sha": "0a"}),
        ("sha256", "", {"registry": "quay.io", "repository": "a/b", "tag": "v1-slim", "sha": "sha256:0a"}),
        ("digest", "", {"registry": "quay.io", "repository": "a/b", "tag": "v1-slim", "digest": "sha256:0a"}),
        ("digest", "-slim", {"registry": "quay.io", "repository": "a/b", "tag": "v1", "digest": "sha256:0a"}),
    ],
)
def test_values_spell_an_image_as_their_chart_does(form: versions.Form, suffix: str, spelled: dict[str, str]) -> None:
    assert versions.ChartImage("quay.io/a/b:v1-slim@sha256:0a", form, suffix).values == spelled


def test_the_charts_inside_prometheuss_chart_get_their_digests_as_they_read_them() -> None:
    exporter, state = (PROMETHEUS.values[part]["image"] for part in ("prometheus-node-exporter", "kube-state-metrics"))
    assert exporter.keys() == {"registry", "repository", "tag", "digest"}, "its chart refuses sha"
    assert not exporter["tag"].endswith("-distroless"), "its chart adds that"
    for digest in (exporter["digest"], state["sha"]):
        assert re.fullmatch("sha256:[0-9a-f]{64}", digest), "both charts write it as it is"
    assert {image.form for images in versions.CHART_IMAGES.values() for image in images.values()} <= set(get_args(versions.Form))


def test_a_part_that_the_values_turn_off_has_no_image() -> None:
    chart = Chart("gpu-operator", "x", "x", {"devicePlugin": {"enabled": False}, "toolkit": {"enabled": True}}, (), "x")
    assert chart.values["devicePlugin"] == {"enabled": False}
    assert chart.values["toolkit"]["version"].startswith("sha256:")


# -- against the charts' own values ------------------------------------------------------------------------------------


@pytest.mark.reference
@each_chart
def test_every_value_is_one_that_the_chart_knows(chart: Chart) -> None:
    assert unknown_keys(chart, chart.values) == [], "a chart ignores keys that it does not know"


@pytest.mark.reference
def test_the_search_for_unknown_keys_finds_the_keys_of_older_guides() -> None:
    old = {"runnerLabels": ["gpu"], "runnerResources": {}, "flags": {"logLevel": "info"}, "template": {"specs": {}}}
    assert unknown_keys(_set("gpu-t4"), old) == ["runnerLabels", "runnerResources", "flags", "template.specs"]
    inside = {"prometheus-node-exporter": {"priorityClass": "high", "image": {"sha": "", "tag": ""}}}
    assert unknown_keys(PROMETHEUS, inside) == [f"prometheus-node-exporter.{key}" for key in ("priorityClass", "image.sha")]


@pytest.mark.reference
@each_chart
def test_the_pinned_version_is_one_that_was_read(chart: Chart) -> None:
    published = yaml12.read((folder(chart) / "Chart.yaml").read_text(encoding="utf-8"))
    assert (published["name"], published["version"]) == (chart.chart, chart.version)


@pytest.mark.reference
@cases("chart", [*SETS, *LAUNCHERS])
def test_the_scale_set_of_a_runner_class_is_one_that_the_crd_takes(chart: Chart) -> None:
    path = reference("schemas/actions.github.com/autoscalingrunnerset_v1alpha1.json")
    schema = json.loads(path.read_text(encoding="utf-8"))
    found = autoscaling_runner_set(chart)
    jsonschema.Draft202012Validator(schema).validate(found)
    assert found["spec"]["maxRunners"] == CLASSES[chart.name].span.max


# -- the runner pod ----------------------------------------------------------------------------------------------------


@each_set
def test_the_runner_pod_is_valid(name: str, runner: PodRunner) -> None:
    kubernetes_validate.validate(_pod(name), KUBERNETES, strict=True)
    assert _container(name)["image"] == (runner.image or RUNNER_IMAGE)


@each_set
def test_the_listener_and_the_device_plugin_are_valid_pods(name: str, runner: PodRunner) -> None:
    listener = _set(name).values["listenerTemplate"]["spec"]
    plugin = {key: device_plugin().values[key] for key in ("affinity", "tolerations")}
    container = {"name": "plugin", "resources": device_plugin().values["resources"]}
    for spec in (listener, plugin | {"containers": [container]}):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}, KUBERNETES, strict=True
        )
    assert listener["nodeSelector"].items() <= system_labels("usw2").items(), f"{runner.ordered[0]}: a listener needs no GPU node"


def test_the_validation_of_pods_finds_a_misspelt_key() -> None:
    broken = _pod("gpu-t4")
    broken["spec"]["tolerationz"] = broken["spec"].pop("tolerations")
    with pytest.raises(kubernetes_validate.ValidationError, match="tolerationz"):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


def test_a_runner_ends_within_the_notice_of_a_spot_node() -> None:
    """EC2 gives two minutes (EC2 user guide, Spot Instance interruption notices), and docs/runner-lifetimes.md says 90 s."""
    assert {_pod(name)["spec"]["terminationGracePeriodSeconds"] for name in RUNNERS} == {90}


@each_set
def test_a_runner_asks_what_its_class_says(name: str, runner: PodRunner) -> None:
    resources = _container(name)["resources"]
    assert resources["requests"][GPU_RESOURCE] == resources["limits"][GPU_RESOURCE] == runner.gpus, "GPUs cannot be overcommitted"
    for kind, span, unit in (("cpu", runner.cpu, millicores), ("memory", runner.memory, mebibytes)):
        assert unit(resources["requests"][kind]) == span.request
        assert unit(resources["limits"][kind]) == span.limit
    assert mebibytes(resources["requests"]["ephemeral-storage"]) == runner.scratch
    (shm,) = [volume for volume in _pod(name)["spec"]["volumes"] if volume["name"] == "shm"]
    assert shm["emptyDir"]["medium"] == "Memory"
    assert mebibytes(shm["emptyDir"]["sizeLimit"]) == runner.shm
    assert {"name": "shm", "mountPath": "/dev/shm"} in _container(name)["volumeMounts"]  # noqa: S108 - a mount point


@each_set
def test_a_runner_lands_on_its_pool_and_nowhere_else(name: str, runner: PodRunner) -> None:
    spec = _pod(name)["spec"]
    if len(runner.ordered) == 1:
        assert spec["nodeSelector"] == {"gpu-ci/pool": runner.ordered[0]}
    else:
        assert "nodeSelector" not in spec
        (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "gpu-ci/pool", "operator": "In", "values": list(runner.ordered)}]
    assert any(toleration(each).covers(EKS_PROFILE.gpu_taint) for each in spec["tolerations"])


def test_a_runner_of_a_spot_pool_tolerates_what_its_provider_puts_there() -> None:
    assert OKE_PROFILE.spot_taint is not None
    runner = RUNNERS["gpu-t4"]
    for capacity, tolerated in (("spot", True), ("on-demand", False)):
        chart = runner_set("gpu-t4", runner, URL, "gpu", OKE_PROFILE.pod_tolerations(capacity))
        tolerations = [toleration(each) for each in pod_of(chart)["spec"]["tolerations"]]
        assert any(each.covers(OKE_PROFILE.gpu_taint) for each in tolerations)
        assert any(each.covers(OKE_PROFILE.spot_taint) for each in tolerations) is tolerated, f"a runner of an {capacity} pool"


def test_a_runner_names_a_runtime_class_only_where_it_has_to() -> None:
    assert "runtimeClassName" not in _pod("gpu-t4")["spec"]
    named = runner_set("gpu-t4", RUNNERS["gpu-t4"], URL, "gpu", runtime_class="nvidia")
    assert pod_of(named)["spec"] == _pod("gpu-t4")["spec"] | {"runtimeClassName": "nvidia"}


@each_set
def test_a_runner_is_unprivileged_as_the_restricted_profile_demands(name: str, runner: PodRunner) -> None:
    """kubernetes.io, Pod Security Standards, "Restricted"."""
    spec, container = _pod(name)["spec"], _container(name)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {kind for volume in spec["volumes"] for kind in volume} == {"name", "emptyDir"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert spec["automountServiceAccountToken"] is False, f"a job of {runner.ordered[0]} has no business with the API server"


@each_set
def test_a_runner_names_the_class_that_keeps_it_from_preemption(name: str, runner: PodRunner) -> None:
    assert _pod(name)["spec"]["priorityClassName"] == RUNNER_PRIORITY.name, (
        f"a job of {runner.ordered[0]} is not ended for another"
    )
    assert "priorityClassName" not in _set(name).values["listenerTemplate"]["spec"]


@pytest.mark.parametrize(
    "image", ["registry.example.com:5000/ci/runner:1.2", f"runner@sha256:{'0a' * 32}", f"r/x:1@sha256:{'0a' * 32}"]
)
def test_an_image_by_version_digest_or_both_is_taken_as_it_is_written(image: str) -> None:
    runner = runner_of(image=image)
    assert runner_of_pod(pod_of(runner_set("gpu", runner, URL, "gpu")))["image"] == image
    machine = TypeAdapter(VmPerJobRunner).validate_json(json.dumps(vm_per_job(launcherImage=image)))
    assert machine.launcher_image == image


def test_a_node_with_a_job_is_not_scaled_away() -> None:
    assert _pod("gpu-t4")["metadata"]["annotations"] == {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


# -- the scale set -----------------------------------------------------------------------------------------------------


@each_set
def test_a_scale_set_has_the_name_the_labels_and_the_scale_of_its_class(name: str, runner: PodRunner) -> None:
    chart = _set(name)
    values = chart.values
    assert chart.name == values["runnerScaleSetName"] == name
    assert len(name) <= 45, "the chart refuses a longer name"
    assert values["scaleSetLabels"] == list(runner.labels)
    assert (values["githubConfigUrl"], values["runnerGroup"]) == (URL, "gpu")
    for key, count in (("minRunners", runner.scale.min), ("maxRunners", runner.scale.max)):
        assert type(values[key]) is int, f"{key}: the chart drops other types than numbers, and no limit is left"
        assert values[key] == count


def test_sets_have_a_namespace_each_that_kubernetes_takes() -> None:
    names = [chart.namespace for chart in SETS]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)] == []
    assert runner_namespace("gpu-t4") == "runners-gpu-t4"


def test_helm_takes_every_release_name() -> None:
    assert [chart.name for chart in ALL if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?", chart.name)] == []
    assert len({(chart.namespace, chart.name) for chart in ALL}) == len(ALL)


def test_controller_and_sets_have_one_version() -> None:
    """A mismatch makes the controller delete every scale set."""
    assert {chart.version for chart in SETS} == {arc_controller().version}


def test_sets_and_controller_agree_on_the_service_account() -> None:
    controller = arc_controller()
    account = {"namespace": controller.namespace, "name": controller.values["serviceAccount"]["name"]}
    assert [chart.values["controllerServiceAccount"] for chart in SETS] == [account] * len(SETS)


@pytest.mark.reference
def test_the_default_account_is_that_of_githubs_quickstart(tmp_path: Path) -> None:
    rendered = render(published("gha-runner-scale-set-controller"), {}, tmp_path, name="arc", namespace=NAMESPACE)
    (account,) = [each["metadata"] for each in rendered if each["kind"] == "ServiceAccount"]
    assert (account["namespace"], account["name"]) == (NAMESPACE, QUICKSTART_ACCOUNT)


def test_every_release_that_is_needed_exists() -> None:
    names = {chart.name for chart in ALL}
    assert {need for chart in ALL for need in chart.needs} == {CONTROLLER}
    assert names >= {CONTROLLER}
    assert all(chart.needs == (CONTROLLER,) for chart in SETS), "a set waits for its controller"


def test_two_calls_give_equal_charts_that_share_nothing() -> None:
    one, other = (runner_set("gpu-t4", RUNNERS["gpu-t4"], URL, "gpu") for _ in range(2))
    assert one == other
    one.values["template"]["spec"]["containers"].clear()
    assert other.values["template"]["spec"]["containers"]


# -- every chart -------------------------------------------------------------------------------------------------------


@each_chart
def test_values_are_plain_json(chart: Chart) -> None:
    assert json.loads(json.dumps(chart.values)) == chart.values
    assert [path for path, value in leaves(chart.values) if value is None] == [], "null removes a chart's default"


@each_chart
def test_no_value_holds_a_secret(chart: Chart) -> None:
    secret = re.compile(r"token|password|private.?key|accessKey|credential", re.IGNORECASE)
    switches = {"template.spec.automountServiceAccountToken"}
    found = [(path, value) for path, value in leaves(chart.values) if path not in switches]
    assert [path for path, value in found if secret.search(path) or secret.search(str(value))] == []
    if "githubConfigSecret" in chart.values:
        assert chart.values["githubConfigSecret"] == APP_SECRET, "the name of a secret, not a secret"


@each_chart
def test_charts_come_from_a_registry_at_a_full_version(chart: Chart) -> None:
    assert re.match(r"(https|oci)://", chart.repository)
    assert re.fullmatch(r"\d+\.\d+\.\d+", chart.version), "no range, no v"
    assert not chart.repository.endswith("/")
    assert not (chart.repository.startswith("oci://") and chart.repository.endswith(f"/{chart.chart}")), "Helm adds the name"


def test_the_runner_image_is_pinned_by_version_and_digest() -> None:
    assert re.fullmatch(r"ghcr\.io/actions/actions-runner:\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", RUNNER_IMAGE)


def test_the_device_plugin_runs_on_gpu_nodes_and_requests_what_placement_reckons_with() -> None:
    values = device_plugin().values
    (terms,) = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = terms["matchExpressions"]
    gpu = pool_labels(cluster="c", pool="p", role="burst", capacity="spot", accelerator="nvidia-tesla-t4", profile=EKS_PROFILE)
    assert gpu[expression["key"]] in expression["values"], "it finds its nodes"
    assert expression["key"] not in system_labels("c"), "and no other"
    assert any(toleration(each).covers(EKS_PROFILE.gpu_taint) for each in values["tolerations"])
    for pod in device_plugin().pods:
        assert (asks(values["resources"]), pod.on) == ((pod.cpu, pod.memory), "GPU nodes"), pod.name


def test_the_device_plugin_refuses_a_node_with_the_operators_plugin_or_oracles() -> None:
    (operator, addon) = device_plugin().values["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert operator["namespaces"] == [gpu_operator.NAMESPACE]
    assert addon["namespaces"] == ["kube-system"]
    assert {term["topologyKey"] for term in (operator, addon)} == {"kubernetes.io/hostname"}


def test_the_autoscaler_is_of_the_clusters_minor_and_has_what_its_chart_needs_to_render() -> None:
    values = cluster_autoscaler("usw2", "us-west-2", KUBERNETES).values
    assert values["image"] == {"tag": versions.KUBERNETES[KUBERNETES].cluster_autoscaler}
    balancing = {key: value for key, value in values["extraArgs"].items() if key.startswith("balanc")}
    # `balancing-ignore-label` cannot be combined with it (cluster-autoscaler 1.34.5, 1.35.2 and 1.36.1, config/flags/flags.go).
    assert balancing == {"balance-similar-node-groups": True, "balancing-label": "gpu-ci/pool"}, "the groups of one pool"
    assert values["autoDiscovery"] == {"clusterName": "usw2"}
    assert values["awsRegion"] == "us-west-2"
    assert values["nodeSelector"].items() <= system_labels("usw2").items()
    assert {type(value) for value in values["extraArgs"].values()} <= {str, bool}


def test_controllers_stay_on_the_system_pool() -> None:
    for chart in (arc_controller(), cluster_autoscaler("usw2", "us-west-2", KUBERNETES)):
        assert chart.values["nodeSelector"].items() <= system_labels("usw2").items(), chart.name


def test_the_pods_of_staging_fit_where_they_are_placed() -> None:
    for found in place(staging()):
        requests = _container(found.runner_set)["resources"]["requests"]
        assert requests[GPU_RESOURCE] <= found.worst.offer.gpus
        assert millicores(requests["cpu"]) <= found.worst.offer.cpu
        assert mebibytes(requests["memory"]) <= found.worst.offer.memory


# -- what placement and the system pool reckon with --------------------------------------------------------------------


def _requests(values: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """What each container requests that the values of a chart set `resources` of, listeners among them."""
    for key, value in values.items():
        if key == "resources":
            yield asks(value)
        elif key == "containers":
            yield from (asks(container["resources"]) for container in value)
        elif isinstance(value, dict) and key not in ("template", "redisSecretInit"):
            yield from _requests(value)


@pytest.mark.parametrize(
    "chart",
    [
        pytest.param(chart, id=chart.name)
        for chart in (arc_controller(), argo_cd("argocd"), kueue(["x"]), SETS[0], *LAUNCHERS, *BASE[1:2], *PLAIN)
    ],
)
def test_a_chart_says_of_its_pods_what_its_values_request(chart: Chart) -> None:
    counted = [(pod.cpu, pod.memory) for pod in chart.pods]
    assert sorted(counted) == sorted(_requests(chart.values))
    everywhere = chart in PLAIN and "nodeSelector" not in chart.values
    assert {pod.on for pod in chart.pods} == {"all nodes" if everywhere else "system pool"}


@pytest.mark.parametrize("chart", LAUNCHERS, ids=lambda chart: chart.name)
def test_a_launcher_requests_what_the_system_pools_room_is_reckoned_with(chart: Chart) -> None:
    launcher = LAUNCHER_POD
    assert asks(runner_of_pod(pod_of(chart))["resources"]) == (launcher.cpu, launcher.memory)


# -- the device plugin -------------------------------------------------------------------------------------------------


def test_the_device_plugin_tolerates_what_its_provider_puts_on_gpu_nodes() -> None:
    assert OKE_PROFILE.spot_taint is not None
    for profile in (EKS_PROFILE, OKE_PROFILE):
        tolerations = [toleration(each) for each in device_plugin(profile.tolerations).values["tolerations"]]
        for taint in filter(None, (profile.gpu_taint, profile.spot_taint)):
            assert any(each.covers(taint) for each in tolerations), f"{taint}: its GPUs would never be advertised"
    assert not any(toleration(each).covers(OKE_PROFILE.spot_taint) for each in device_plugin().values["tolerations"])


def test_without_cdi_the_device_plugin_has_no_config() -> None:
    assert set(device_plugin().values) == {"image", "affinity", "tolerations", "resources", "gfd"}


def test_a_pool_chooses_cdi_by_its_label_and_every_other_pool_keeps_the_environment() -> None:
    told = plugin_configs([pool_of(), pool_of(cdi=True)], by_operator=False)
    assert told is not None
    configs = {name: _plugin_config(text) for name, text in told.files.items()}
    default = device_plugin(configs=told).values["config"]["default"]
    assert set(configs) == {default, PLUGIN_CONFIG_CDI}
    assert configs[default] == _handed_over_by("envvar"), "what the plugin does without a config"
    assert configs[PLUGIN_CONFIG_CDI] == _handed_over_by("cdi-cri")
    assert pool_of(cdi=True).node_labels("c", "p", EKS_PROFILE)[PLUGIN_CONFIG_LABEL] == PLUGIN_CONFIG_CDI
    assert PLUGIN_CONFIG_LABEL not in pool_of().node_labels("c", "p", EKS_PROFILE)


def _plugin_config(text: str) -> object:
    """A config as the plugin reads it (NVIDIA/k8s-device-plugin v0.20.0 api/config/v1)."""
    return yaml12.read(text)


def _handed_over_by(strategy: str) -> dict[str, object]:
    return {"version": "v1", "flags": {"migStrategy": "none", "plugin": {"deviceListStrategy": strategy}}}


def test_no_variable_of_the_plugin_beats_its_configs_and_the_drivers_files_are_mounted() -> None:
    """An environment variable wins over a config, and the chart makes one of the value deviceListStrategy."""
    values = device_plugin(configs=CONFIGS).values
    assert "deviceListStrategy" not in values
    assert values["nvidiaDriverRoot"] == "/", "below it the plugin finds the libraries that a CDI specification lists"
    assert values["migStrategy"] == "none"
    assert values["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}, (
        "with configs the chart adds SYS_ADMIN unless a value says otherwise"
    )


def test_cdi_on_some_pool_changes_nothing_else_of_the_plugin() -> None:
    with_cdi = device_plugin(configs=plugin_configs([pool_of(cdi=True)], by_operator=False)).values
    assert {key: with_cdi[key] for key in device_plugin().values} == device_plugin().values
