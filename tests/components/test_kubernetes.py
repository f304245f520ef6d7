"""Charts, namespaces and secrets inside the cluster."""

from __future__ import annotations

import pytest

from fleet.charts.arc import NAMESPACE as CONTROLLER_NAMESPACE
from fleet.facts.scheduling import GPU_RESOURCE
from fleet.settings.namespaces import runner_namespace
from gpu_ci.offline.recording import Recording, Resource
from tests.components.recorded import in_every_stack, named, of_type
from tests.doctor.fleets import shipped

RELEASE = "kubernetes:helm.sh/v3:Release"
NAMESPACE = "kubernetes:core/v1:Namespace"
LEVEL = "pod-security.kubernetes.io/enforce"


def runner_sets(recording: Recording) -> list[Resource]:
    return [each for each in of_type(recording, RELEASE) if str(each.inputs["chart"]).endswith("/gha-runner-scale-set")]


@in_every_stack
def test_every_release_is_named_pinned_and_rolls_back(recording):
    for release in of_type(recording, RELEASE):
        inputs = release.inputs
        assert inputs["name"], "an invented name changes with every replacement"
        assert inputs["version"]
        # The pods of the device plugin may wait for another advertiser, which Pulumi deletes later. Helm awaits atomic releases.
        waits = inputs["chart"] != "nvidia-device-plugin"
        assert (inputs["atomic"], inputs["skipAwait"]) == (waits, not waits)
        assert inputs["cleanupOnFail"] is True
        assert inputs["timeout"] == 600
        assert release.delete_before_replace is True, "two releases of one name cannot exist together"


def test_oci_and_https_charts_are_addressed_each_in_its_way(staging):
    plugin = named(staging, "usw2-device-plugin-chart", RELEASE).inputs
    assert plugin["chart"] == "nvidia-device-plugin"
    assert plugin["repositoryOpts"] == {"repo": "https://nvidia.github.io/k8s-device-plugin"}
    controller = named(staging, "usw2-arc-chart", RELEASE).inputs
    assert controller["chart"] == "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set-controller"
    assert "repositoryOpts" not in controller


def test_other_labels_replace_the_set_and_another_order_does_not(staging):
    release = named(staging, "usw2-gpu-t4-chart", RELEASE)
    labels = ["cuda", "gpu", "linux", "self-hosted", "x64"]
    assert release.replacement_trigger == labels, "GitHub never hears of a label that is changed in place"
    assert "values.scaleSetLabels" in release.ignore_changes, "the engine would update the set for another order"
    assert release.inputs["values"]["scaleSetLabels"] == ["self-hosted", "linux", "x64", "gpu", "cuda"]


def test_another_version_or_scope_replaces_the_set(staging):
    release = named(staging, "usw2-gpu-t4-chart", RELEASE)
    assert {"version", "values.githubConfigUrl"} <= set(release.replace_on_changes), (
        "a new controller deletes the sets of another minor under an upgrade that Helm calls deployed"
    )


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("usw2-device-plugin-namespace", "privileged"),
        ("usw2-arc-namespace", "restricted"),
        ("usw2-gpu-t4-namespace", "restricted"),
    ],
)
def test_namespaces_hold_their_pods_to_a_standard(staging, name, level):
    assert named(staging, name, NAMESPACE).inputs["metadata"]["labels"] == {LEVEL: level}


@in_every_stack
def test_every_set_has_a_namespace_of_its_own_apart_from_the_controllers(recording):
    names = [(space.provider_urn, space.inputs["metadata"]["name"]) for space in of_type(recording, NAMESPACE)]
    assert len(set(names)) == len(names), "two components of one cluster would fight for a namespace"
    for release in runner_sets(recording):
        assert release.inputs["namespace"] == f"runners-{release.inputs['name']}"
        assert release.inputs["namespace"] != CONTROLLER_NAMESPACE


def test_the_app_secret_is_passed_by_name_and_has_each_id_under_its_key(staging):
    release = named(staging, "usw2-gpu-t4-chart", RELEASE).inputs
    secret = named(staging, "usw2-gpu-t4-github-app", "kubernetes:core/v1:Secret").inputs
    assert release["values"]["githubConfigSecret"] == secret["metadata"]["name"]
    assert release["namespace"] == secret["metadata"]["namespace"]
    app = shipped("staging").github
    assert app.app_id != app.installation_id
    keys = ("github_app_id", "github_app_installation_id")
    data = secret["stringData"].reveal()
    assert [data[key] for key in keys] == [app.app_id, app.installation_id]


@in_every_stack
def test_jobs_run_unprivileged_and_have_no_account_token(recording):
    for release in runner_sets(recording):
        values = release.inputs["values"]
        assert "containerMode" not in values, "dind adds a privileged container that no value shows"
        pod = values["template"]["spec"]
        (runner,) = pod["containers"]
        assert "privileged" not in str(pod)
        if GPU_RESOURCE not in runner["resources"]["requests"]:
            continue
        assert pod["automountServiceAccountToken"] is False
        assert "serviceAccountName" not in pod, "the chart's own account has no rights"
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert runner["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_a_set_of_machines_is_a_set_of_launchers_on_the_system_pool(machines):
    found = {release.inputs["name"]: release.inputs["values"]["template"]["spec"] for release in runner_sets(machines)}
    assert {name for name, pod in found.items() if pod["nodeSelector"] == {"gpu-ci/pool": "system"}} == {
        "a10-standing",
        "oracle-vm-gpu-a10-1",
    }


@pytest.mark.parametrize(("runner_set", "level"), [("a10-standing", "restricted"), ("oracle-vm-gpu-a10-1", "baseline")])
def test_the_namespace_of_a_launcher_is_as_tight_as_its_image_allows(machines, runner_set, level):
    (space,) = [each for each in of_type(machines, NAMESPACE) if each.inputs["metadata"]["name"] == runner_namespace(runner_set)]
    assert space.inputs["metadata"]["labels"] == {LEVEL: level}


def test_a_runner_tolerates_what_its_own_pool_carries(machines, staging):
    keys = {
        release.inputs["name"]: {each["key"] for each in release.inputs["values"]["template"]["spec"].get("tolerations", [])}
        for recording in (machines, staging)
        for release in runner_sets(recording)
    }
    assert keys["gpu-v100"] == {"nvidia.com/gpu", "oci.oraclecloud.com/oke-is-preemptible"}, "OKE taints preemptible nodes"
    assert keys["gpu-a100"] == {"nvidia.com/gpu"}, "this pool is reserved"
    assert keys["gpu-t4"] == {"nvidia.com/gpu"}, "EKS puts no taint on spot nodes"
