"""Charts as plain data: keys that the charts know, pods that the API server takes, versions that go together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from fleet import charts, versions
from fleet.charts import Chart, arc_controller, cluster_autoscaler, device_plugin, runner_namespace, runner_set
from fleet.placement import place
from fleet.pool import Pool
from fleet.runner import MAX_SET_NAME, PodRunner
from fleet.scheduling import EKS_PROFILE, GPU_RESOURCE, Toleration, pool_labels, system_labels
from fleet.versions import DAEMONSETS, RUNNER_IMAGE
from tests.builders import reference, runner_of, staging

KUBERNETES = "1.34"
URL = "https://github.com/example"

RUNNERS: dict[str, PodRunner] = {name: runner for _, name, runner in staging().runner_sets()}
RUNNERS |= {
    "gpu-whole": runner_of(8, 90, "300Gi", shm="64Gi", labels=["whole"], image="registry.example.com/runner:1"),
    "n" * MAX_SET_NAME: runner_of(1, "500m", "4Gi", scale={"min": 1, "max": 1}),
}
SETS = [runner_set(name, runner, URL, "gpu") for name, runner in RUNNERS.items()]
BASE = [device_plugin(), cluster_autoscaler("usw2", "us-west-2", KUBERNETES), arc_controller()]
ALL = [*BASE, *SETS]

each_set = pytest.mark.parametrize(("name", "runner"), RUNNERS.items())


def _set(name: str) -> Chart:
    return next(chart for chart in SETS if chart.name == name)


def _pod(name: str) -> dict[str, Any]:
    """The runner pod of a set, completed as the chart's template does."""
    template = _set(name).values["template"]
    spec = {"restartPolicy": "Never", "serviceAccountName": f"{name}-gha-rs-no-permission"} | template["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runner"} | template["metadata"], "spec": spec}


def _container(name: str) -> dict[str, Any]:
    containers: list[dict[str, Any]] = _pod(name)["spec"]["containers"]
    return next(each for each in containers if each["name"] == "runner")


def _leaves(value: object, at: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, at)
    else:
        yield at, value


# -- against the charts' own values ------------------------------------------------------------------------------------

# Maps that a chart hands on whole, to a pod or a command line; a map that is empty in its values.yaml is one too.
FREE = {"affinity", "extraArgs", "template.spec", "listenerTemplate.spec"}
# Read by gha-runner-scale-set's templates/autoscalingrunnerset.yaml, though its values.yaml names only template.spec.
IN_TEMPLATES = {"template.metadata"}


def _folder(chart: Chart) -> Path:
    return reference(f"{chart.chart}/{chart.version}")


def _unknown(values: dict[str, Any], defaults: object, text: str, at: str = "") -> Iterator[str]:
    """Key paths that neither the chart's values nor the comments in them have."""
    for key, value in values.items():
        path = f"{at}{key}"
        known = isinstance(defaults, dict) and key in defaults
        if not known and path not in IN_TEMPLATES and not re.search(rf"^\s*#\s*{key}:", text, re.MULTILINE):
            yield path
        elif isinstance(value, dict) and path not in FREE | IN_TEMPLATES:
            inner = defaults[key] if isinstance(defaults, dict) and key in defaults else None
            if inner != {}:
                yield from _unknown(value, inner, text, f"{path}.")


@pytest.mark.reference
@pytest.mark.parametrize("chart", ALL, ids=lambda chart: chart.name)
def test_every_value_is_one_that_the_chart_knows(chart: Chart) -> None:
    text = (_folder(chart) / "values.yaml").read_text(encoding="utf-8")
    defaults = YAML(typ="safe", pure=True).load(text)
    assert list(_unknown(chart.values, defaults, text)) == [], "a chart ignores keys that it does not know"


@pytest.mark.reference
def test_the_search_for_unknown_keys_finds_the_keys_of_older_guides() -> None:
    chart = _set("gpu-t4")
    text = (_folder(chart) / "values.yaml").read_text(encoding="utf-8")
    defaults = YAML(typ="safe", pure=True).load(text)
    old = {"runnerLabels": ["gpu"], "runnerResources": {}, "flags": {"logLevel": "info"}, "template": {"specs": {}}}
    assert list(_unknown(old, defaults, text)) == ["runnerLabels", "runnerResources", "flags", "template.specs"]


@pytest.mark.reference
@pytest.mark.parametrize("chart", ALL, ids=lambda chart: chart.name)
def test_the_pinned_version_is_one_that_was_read(chart: Chart) -> None:
    published = YAML(typ="safe", pure=True).load((_folder(chart) / "Chart.yaml").read_text(encoding="utf-8"))
    assert (published["name"], published["version"]) == (chart.chart, chart.version)


@pytest.mark.reference
@each_set
def test_the_scale_set_of_a_runner_class_is_one_that_the_crd_takes(name: str, runner: PodRunner) -> None:
    chart = _set(name)
    path = reference("schemas/actions.github.com/autoscalingrunnerset_v1alpha1.json")
    schema = json.loads(path.read_text(encoding="utf-8"))
    values = chart.values
    copied = ("githubConfigUrl", "githubConfigSecret", "runnerGroup", "runnerScaleSetName", "minRunners", "maxRunners")
    spec = {key: values[key] for key in (*copied, "listenerTemplate")}
    spec |= {"runnerScaleSetLabels": values["scaleSetLabels"], "template": {"spec": _pod(name)["spec"]}}
    kind = {"apiVersion": "actions.github.com/v1alpha1", "kind": "AutoscalingRunnerSet"}
    jsonschema.Draft202012Validator(schema).validate(kind | {"metadata": {"name": name}, "spec": spec})
    assert spec["maxRunners"] == runner.scale.max


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
    assert listener["nodeSelector"].items() <= system_labels("usw2").items(), f"{runner.pool}: a listener needs no GPU node"


def test_the_validation_of_pods_finds_a_misspelt_key() -> None:
    broken = _pod("gpu-t4")
    broken["spec"]["tolerationz"] = broken["spec"].pop("tolerations")
    with pytest.raises(kubernetes_validate.ValidationError, match="tolerationz"):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


@each_set
def test_a_runner_asks_what_its_class_says(name: str, runner: PodRunner) -> None:
    resources = _container(name)["resources"]
    assert resources["requests"][GPU_RESOURCE] == resources["limits"][GPU_RESOURCE] == runner.gpus, "GPUs cannot be overcommitted"
    for kind, span, unit in (("cpu", runner.cpu, _millicores), ("memory", runner.memory, _mebibytes)):
        assert unit(resources["requests"][kind]) == span.request
        assert unit(resources["limits"][kind]) == span.limit
    assert _mebibytes(resources["requests"]["ephemeral-storage"]) == runner.scratch
    (shm,) = [volume for volume in _pod(name)["spec"]["volumes"] if volume["name"] == "shm"]
    assert shm["emptyDir"]["medium"] == "Memory"
    assert _mebibytes(shm["emptyDir"]["sizeLimit"]) == runner.shm
    assert {"name": "shm", "mountPath": "/dev/shm"} in _container(name)["volumeMounts"]  # noqa: S108 - a mount point


def _millicores(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def _mebibytes(text: str) -> int:
    return int(text[:-2]) * {"Mi": 1, "Gi": 1024}[text[-2:]]


@each_set
def test_a_runner_lands_on_its_pool_and_nowhere_else(name: str, runner: PodRunner) -> None:
    spec = _pod(name)["spec"]
    labels = pool_labels(
        cluster="usw2", pool=runner.pool, role="burst", capacity="spot", accelerator="nvidia-tesla-t4", profile=EKS_PROFILE
    )
    assert spec["nodeSelector"].items() <= labels.items()
    assert not spec["nodeSelector"].items() <= (labels | {"gpu-ci/pool": "other"}).items()
    assert any(_toleration(each).covers(EKS_PROFILE.gpu_taint) for each in spec["tolerations"])


def _toleration(manifest: dict[str, str]) -> Toleration:
    return Toleration(
        manifest.get("key", ""), manifest.get("operator", "Equal"), manifest.get("value", ""), manifest.get("effect", "")
    )


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
    assert spec["automountServiceAccountToken"] is False, f"a job of {runner.pool} has no business with the API server"


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
        assert type(values[key]) is int, f"{key}: the chart drops what is no number, and no limit is left"
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


def test_every_release_that_is_needed_exists() -> None:
    names = {chart.name for chart in ALL}
    assert {need for chart in ALL for need in chart.needs} == {charts.CONTROLLER}
    assert names >= {charts.CONTROLLER}
    assert all(chart.needs == (charts.CONTROLLER,) for chart in SETS), "a set waits for its controller"


def test_two_calls_give_equal_charts_that_share_nothing() -> None:
    one, other = (runner_set("gpu-t4", RUNNERS["gpu-t4"], URL, "gpu") for _ in range(2))
    assert one == other
    one.values["template"]["spec"]["containers"].clear()
    assert other.values["template"]["spec"]["containers"]


# -- every chart -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: chart.name)
def test_values_are_plain_json(chart: Chart) -> None:
    assert json.loads(json.dumps(chart.values)) == chart.values
    assert [path for path, value in _leaves(chart.values) if value is None] == [], "null removes a chart's default"


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: chart.name)
def test_no_value_holds_a_secret(chart: Chart) -> None:
    secret = re.compile(r"token|password|private.?key|accessKey|credential", re.IGNORECASE)
    switches = {"template.spec.automountServiceAccountToken"}
    leaves = [(path, value) for path, value in _leaves(chart.values) if path not in switches]
    assert [path for path, value in leaves if secret.search(path) or secret.search(str(value))] == []
    if "githubConfigSecret" in chart.values:
        assert chart.values["githubConfigSecret"] == charts.APP_SECRET, "the name of a secret, not a secret"


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: chart.name)
def test_charts_come_from_a_registry_at_a_full_version(chart: Chart) -> None:
    assert re.match(r"(https|oci)://", chart.repository)
    assert re.fullmatch(r"\d+\.\d+\.\d+", chart.version), "no range, no v"
    assert not chart.repository.endswith((f"/{chart.chart}", "/"))


def test_the_runner_image_is_pinned_by_version_and_digest() -> None:
    assert re.fullmatch(r"ghcr\.io/actions/actions-runner:\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", RUNNER_IMAGE)


def test_the_device_plugin_runs_on_gpu_nodes_and_requests_what_placement_reckons_with() -> None:
    values = device_plugin().values
    (terms,) = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = terms["matchExpressions"]
    gpu = pool_labels(cluster="c", pool="p", role="burst", capacity="spot", accelerator="nvidia-tesla-t4", profile=EKS_PROFILE)
    assert gpu[expression["key"]] in expression["values"], "it finds its nodes"
    assert expression["key"] not in system_labels("c"), "and no other"
    assert any(_toleration(each).covers(EKS_PROFILE.gpu_taint) for each in values["tolerations"])
    requests = values["resources"]["requests"]
    ours = DAEMONSETS["nvidia-device-plugin"]
    assert (_millicores(requests["cpu"]), _mebibytes(requests["memory"])) == (ours.cpu, ours.memory)


def test_the_autoscaler_is_of_the_clusters_minor_and_has_what_its_chart_needs_to_render() -> None:
    values = cluster_autoscaler("usw2", "us-west-2", KUBERNETES).values
    assert values["image"] == {"tag": versions.KUBERNETES[KUBERNETES].cluster_autoscaler}
    assert values["autoDiscovery"] == {"clusterName": "usw2"}
    assert values["awsRegion"] == "us-west-2"
    assert values["nodeSelector"].items() <= system_labels("usw2").items()
    assert {type(value) for value in values["extraArgs"].values()} <= {str, bool}


def test_controllers_stay_on_the_system_pool() -> None:
    for chart in (arc_controller(), cluster_autoscaler("usw2", "us-west-2", KUBERNETES)):
        assert chart.values["nodeSelector"].items() <= system_labels("usw2").items(), chart.name


def test_the_pods_of_staging_fit_where_they_are_placed() -> None:
    for found in place(staging()):
        held: Pool = found.pool
        requests = _container(found.runner_set)["resources"]["requests"]
        assert requests[GPU_RESOURCE] <= held.gpus_per_node
        assert _millicores(requests["cpu"]) <= found.worst.offer.cpu
        assert _mebibytes(requests["memory"]) <= found.worst.offer.memory
