"""Manifests of every kind of workload on every kind of pool: what the API takes, and what the pools' nodes ask of a pod."""

from __future__ import annotations

import json
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from fleet.facts import versions
from fleet.facts.scheduling import JOB_PRIORITIES, POD_SECURITY_LABEL, POOL_LABEL, RUNNER_PRIORITY, Toleration, is_gpu_resource
from fleet.providers.registry import PROVIDERS
from fleet.render.isolation import homes
from fleet.render.workloads.catalogue import MAKERS as CATALOGUE, workload_objects
from fleet.render.workloads.parts import HOME
from fleet.settings.workloads import KINDS, WORKLOAD_IMAGES
from tests.builders import cluster, runner_of
from tests.cases import cases
from tests.charts import objects, runner_set
from tests.examples import examples
from tests.fleet.test_isolation import METADATA, MINORS, reaches
from tests.fleet.test_pod_security import forbidden, violations
from tests.fleet.workloads.world import CLUSTERS, GPU_KINDS, OF_POOLS, SLICED, with_workloads, workload
from tests.strategies import pools

ALL = {kind: workload(kind) for kind in GPU_KINDS}
KEPT = workload(
    "tf-notebook", storage={"size": "20Gi", "storageClass": "gp3"}, nodePort={"port": 30001, "cidrs": ["203.0.113.0/24"]}
)

SHM = "/dev/shm"  # noqa: S108 - a mount point

every_kind = cases("kind", GPU_KINDS)
of_pools = cases("kind", OF_POOLS)
every_cluster = cases("held", CLUSTERS)


def pod_of(manifests: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """The spec of the workload's one pod."""
    (found,) = [each["spec"]["template"]["spec"] for each in manifests if each["kind"] in ("Deployment", "Job")]
    assert isinstance(found, dict)
    return found


def made(kind: str, held: str = "t4", **changes: Any) -> dict[str, dict[str, Any]]:
    """The manifests of a workload by their kinds."""
    manifests = workload_objects(with_workloads(held, one=workload(kind, **changes)), "one")
    return {each["kind"]: each for each in manifests}


def container(kind: str, held: str = "t4", **changes: Any) -> dict[str, Any]:
    """The one container of a workload."""
    (found,) = pod_of(tuple(made(kind, held, **changes).values()))["containers"]
    assert isinstance(found, dict)
    return found


# -- all kinds ---------------------------------------------------------------------------------------------------------


def test_every_kind_of_the_settings_has_manifests_and_no_other():
    assert tuple(CATALOGUE) == KINDS


@cases("minor", MINORS)
@every_cluster
def test_every_manifest_is_what_the_api_takes(held, minor):
    found = list(objects(with_workloads(held, **ALL, kept=KEPT)))
    assert {each["kind"] for each in found} == {
        "Namespace", "NetworkPolicy", "PersistentVolumeClaim", "Service", "Deployment", "Job"
    }  # fmt: skip
    for each in found:
        assert {"apiVersion", "kind", "metadata"} <= set(each)
        kubernetes_validate.validate(each, minor, strict=True)


def test_a_misspelt_key_is_not_what_the_api_takes():
    manifest = made("ollama")["Deployment"]
    manifest["spec"]["template"]["spec"]["containers"][0]["startupProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, "1.34", strict=True)


@every_cluster
def test_the_same_settings_give_the_same_bytes_and_plain_data(held):
    once, again = (json.dumps(list(objects(with_workloads(held, **ALL)))) for _ in range(2))
    assert once == again
    assert json.loads(once) == list(objects(with_workloads(held, **ALL))), "a value that JSON cannot hold is not a manifest"


@every_cluster
@of_pools
def test_a_workload_asks_one_unit_of_what_the_pools_nodes_advertise(held, kind):
    found = with_workloads(held, one=workload(kind))
    (asking,) = pod_of(workload_objects(found, "one"))["containers"]
    amounts = {
        field: {name: amount for name, amount in asking["resources"][field].items() if is_gpu_resource(name)}
        for field in ("requests", "limits")
    }
    assert amounts["requests"] == amounts["limits"] == {found.pools["t4"].resource: 1}


@every_cluster
@of_pools
def test_a_workload_may_stand_on_its_pools_nodes_and_nowhere_else(held, kind):
    found = with_workloads(held, one=workload(kind))
    profile, pool = PROVIDERS[found.provider].profile, found.pools["t4"]
    pod = pod_of(workload_objects(found, "one"))
    held_up = [profile.gpu_taint, *([profile.spot_taint] if pool.capacity == "spot" and profile.spot_taint else [])]
    assert all(any(Toleration(**each).covers(taint) for each in pod["tolerations"]) for taint in held_up)
    assert len(pod["tolerations"]) == len(held_up)
    labels = pool.node_labels("usw2", "t4", profile)
    assert pod["nodeSelector"].items() <= labels.items()
    assert POOL_LABEL in pod["nodeSelector"]


@every_kind
def test_cpu_memory_and_disk_are_asked_for_and_bounded(kind):
    resources = container(kind)["resources"]
    assert {"cpu", "memory", "ephemeral-storage"} <= set(resources["requests"])
    assert {"cpu", "memory"} <= set(resources["limits"])


@every_cluster
@of_pools
def test_every_pod_of_a_pool_passes_the_standard_restricted(held, kind):
    assert violations(pod_of(workload_objects(with_workloads(held, one=workload(kind)), "one"))) == []


def test_the_corals_namespace_is_privileged_and_the_others_are_not():
    found = with_workloads("t4", **ALL)
    assert {name: home.namespace["metadata"]["labels"][POD_SECURITY_LABEL] for name, home in homes(found).items()} == {
        "ai": "restricted",
        "coral": "privileged",
    }
    assert set(forbidden(pod_of(workload_objects(found, "coral")))) == {"volume hostPath", "privileged"}


@every_kind
def test_an_image_is_the_pinned_one_or_ones_own(kind):
    assert container(kind)["image"] in {image.reference for image in versions.IMAGES.values()}
    assert container(kind)["image"] == WORKLOAD_IMAGES[kind].reference
    own: dict[str, Any] = {"image": "registry.example.com/mine:2"} | ({"command": ["serve"]} if kind == "coral" else {})
    assert container(kind, "t4", **own)["image"] == "registry.example.com/mine:2"


@every_kind
def test_no_pod_has_a_token_of_the_cluster(kind):
    assert pod_of(tuple(made(kind).values()))["automountServiceAccountToken"] is False


@of_pools
def test_every_gpu_pod_has_a_priority_of_ours(kind):
    named = pod_of(tuple(made(kind).values()))["priorityClassName"]
    assert named in {each.name for each in (RUNNER_PRIORITY, *JOB_PRIORITIES)}


@every_kind
def test_what_serves_is_probed_and_what_ends_is_a_job_that_does(kind):
    manifests = made(kind)
    if "Job" in manifests:
        spec = manifests["Job"]["spec"]
        assert 0 < spec["activeDeadlineSeconds"] <= 7200
        assert 0 <= spec["backoffLimit"] <= 3
        assert 0 <= spec["ttlSecondsAfterFinished"] <= 3600
    elif "Service" in manifests:
        held = container(kind)
        (port,) = held["ports"]
        assert {held[probe]["httpGet"]["port"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")} == {port["name"]}
        assert [each["targetPort"] for each in manifests["Service"]["spec"]["ports"]] == [port["name"]]


@every_kind
def test_a_service_and_a_deployment_choose_the_workloads_own_pods(kind):
    manifests = made(kind)
    for each in manifests.values():
        spec = each["spec"]
        chosen = spec["selector"] if each["kind"] == "Service" else spec.get("selector", {}).get("matchLabels")
        if chosen is not None:
            assert chosen == manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
            assert "one" in chosen.values(), "two workloads of a kind are distinguished"


@every_kind
def test_every_volume_is_mounted_and_every_mount_has_a_volume(kind):
    manifests = made(kind)
    pod = pod_of(tuple(manifests.values()))
    mounts = [each["name"] for each in container(kind).get("volumeMounts", [])]
    assert mounts == [each["name"] for each in pod.get("volumes", [])]
    claims = [each["persistentVolumeClaim"]["claimName"] for each in pod.get("volumes", []) if "persistentVolumeClaim" in each]
    assert claims == ([manifests["PersistentVolumeClaim"]["metadata"]["name"]] if "PersistentVolumeClaim" in manifests else [])


@of_pools
def test_a_pod_mounts_its_own_shared_memory_unless_the_plugin_does(kind):
    def mounted(held: str) -> bool:
        return any(each["mountPath"] == SHM for each in container(kind, held).get("volumeMounts", []))

    assert not mounted("mps"), "MPS: the device plugin mounts its own there"
    if kind not in ("nvidia-smi", "device-query"):
        assert mounted("t4")


@of_pools
def test_pods_have_the_user_of_the_pools_runners(kind):
    chart = runner_set("gpu", runner_of(), "https://github.com/example", "gpu")
    runner = chart.values["template"]["spec"]["securityContext"]["runAsUser"]
    assert pod_of(tuple(made(kind, "mps").values()))["securityContext"]["runAsUser"] == runner, "an MPS server works for one user"


def test_the_operators_runtime_class_is_named_where_it_is_not_the_default():
    assert pod_of(tuple(made("ollama", "operator").values()))["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in pod_of(tuple(made("ollama", "t4").values()))


@hypothesis_settings(max_examples=examples(30))
@given(held=pools(["us-west-2a"], st.just(False)), kind=st.sampled_from(OF_POOLS), sharing=st.sampled_from([None, SLICED]))
def test_on_any_pool_the_request_is_the_limit_and_the_manifest_is_valid(held, kind, sharing):
    if "reservation" in held:
        held["reservation"]["id"] = "cr-0123456789abcdef0"
    given_pool = held | ({"sharing": sharing} if sharing else {})
    found = with_workloads(cluster(enablement="device-plugin", pools={"t4": given_pool}, runners={}), one=workload(kind))
    manifests = workload_objects(found, "one")
    for each in manifests:
        kubernetes_validate.validate(each, "1.34", strict=True)
    (asking,) = pod_of(manifests)["containers"]
    resource = found.pools["t4"].resource
    assert asking["resources"]["requests"][resource] == asking["resources"]["limits"][resource] == 1


# -- walls -------------------------------------------------------------------------------------------------------------


@every_cluster
def test_workloads_reach_the_internet_and_each_other_and_not_the_node(held):
    found = with_workloads(held, **ALL)
    for home in homes(found).values():
        spec = home.wall["spec"]
        for address in METADATA:
            assert not reaches(spec, address, 80)
        assert reaches(spec, "140.82.112.5", 443), "models come from the internet"
        assert not reaches(spec, "10.20.1.1", 443)
        each_other: dict[str, Any] = {"podSelector": {}}
        assert spec["ingress"] == [{"from": [each_other]}], "no other comes in"
        assert {"to": [each_other]} in spec["egress"]


def test_private_networks_are_opened_to_workloads_too():
    found = with_workloads(cluster(privateEgress=["10.20.0.0/16"]), one=workload("ollama"))
    assert reaches(homes(found)["ai"].wall["spec"], "10.20.1.1")


# -- one by one --------------------------------------------------------------------------------------------------------


def test_ollama_is_the_seeds_but_for_root():
    found = made("ollama")
    resources = container("ollama")["resources"]
    assert (resources["requests"]["memory"], resources["limits"]["memory"]) == ("16Gi", "32Gi")
    assert found["Deployment"]["metadata"]["namespace"] == "ai"
    env = {each["name"]: each["value"] for each in container("ollama")["env"]}
    (mount,) = [each for each in container("ollama")["volumeMounts"] if each["name"] == "models"]
    assert env["OLLAMA_MODELS"].startswith(f"{mount['mountPath']}/"), "models are on the volume"
    assert not mount["mountPath"].startswith("/root")
    assert pod_of(tuple(found.values()))["securityContext"]["runAsUser"] > 0


def test_several_whole_gpus_are_for_those_who_can_use_them():
    twelve = cluster(pools={"t4": {**cluster()["pools"]["t4"], "instanceTypes": ["g4dn.12xlarge"]}})
    found = with_workloads(twelve, one=workload("ollama", gpus=4))
    (asking,) = pod_of(workload_objects(found, "one"))["containers"]
    assert asking["resources"]["limits"]["nvidia.com/gpu"] == 4


def test_comfyui_asks_one_slice_of_a_shared_gpu():
    limits = container("comfyui", "sliced")["resources"]["limits"]
    assert limits["nvidia.com/gpu.shared"] == 1, "the seed asks for two, which are not a larger share"


def test_comfyui_keeps_all_that_it_writes_on_its_volume():
    held = container("comfyui")
    (mount,) = [each for each in held["volumeMounts"] if each["name"] == "data"]
    folder = mount["mountPath"]
    env = {each["name"]: each["value"] for each in held["env"]}
    assert env["HOME"] == folder
    assert {f"--base-directory={folder}", f"--database-url=sqlite:///{folder}/comfyui.db"} <= set(held["command"])
    assert f"mkdir -p {folder}/custom_nodes" in held["command"][2]


def test_the_mnist_job_is_the_seeds_with_a_scratch_folder_of_its_own():
    job = made("tf-mnist")["Job"]
    held = container("tf-mnist")
    assert held["args"] == ["--max_steps", "500"]
    assert container("tf-mnist", maxSteps=50)["args"] == ["--max_steps", "50"]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    (volume,) = [each for each in job["spec"]["template"]["spec"]["volumes"] if each["name"] == "scratch"]
    assert "emptyDir" in volume
    assert {"name": "scratch", "mountPath": HOME} in held["volumeMounts"]
    assert {"name": "HOME", "value": HOME} in held["env"]


def test_the_notebook_is_inside_the_cluster_unless_told():
    service = made("tf-notebook")["Service"]["spec"]
    assert service["type"] == "ClusterIP"
    assert [(port["port"], container("tf-notebook")["ports"][0]["containerPort"]) for port in service["ports"]] == [(80, 8888)]
    assert "NetworkPolicy" not in made("tf-notebook")


def test_a_port_of_the_nodes_is_open_to_the_networks_that_are_named():
    found = made("tf-notebook", nodePort={"port": 30001, "cidrs": ["203.0.113.0/24", "198.51.100.7/32"]})
    service, policy = found["Service"]["spec"], found["NetworkPolicy"]["spec"]
    assert (service["type"], service["ports"][0]["nodePort"]) == ("NodePort", 30001)
    assert service["externalTrafficPolicy"] == "Local", "else the policy sees a node's address"
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"ipBlock": {"cidr": "198.51.100.7/32"}}, {"ipBlock": {"cidr": "203.0.113.0/24"}}], "in one order"
    assert rule["ports"] == [{"protocol": "TCP", "port": 8888}], "policies judge the pod's port"
    assert policy["podSelector"]["matchLabels"] == found["Deployment"]["spec"]["template"]["metadata"]["labels"]


def test_the_notebooks_token_comes_from_a_secret():
    (token,) = [each for each in container("tf-notebook", tokenSecret="mine")["env"] if each["name"] == "JUPYTER_TOKEN"]
    assert token["valueFrom"] == {"secretKeyRef": {"name": "mine", "key": "token"}}
    assert not any("token" in word.lower() for word in container("tf-notebook")["command"])


def test_notebooks_are_kept_where_a_volume_is_asked_for():
    assert "PersistentVolumeClaim" not in made("tf-notebook")
    claim = made("tf-notebook", storage={"size": "20Gi", "storageClass": "gp3"})["PersistentVolumeClaim"]["spec"]
    assert claim["storageClassName"] == "gp3"
    assert claim["resources"]["requests"]["storage"] == "20Gi"
    assert made("ollama")["PersistentVolumeClaim"]["spec"]["storageClassName"] == "fast"
    plain = made("tf-notebook", "a10", storage={"size": "20Gi"})["PersistentVolumeClaim"]["spec"]
    assert "storageClassName" not in plain, "OKE has a default"


def test_the_coral_has_the_folder_of_usb_devices_on_the_node_that_has_the_stick():
    pod = pod_of(tuple(made("coral", node={"example.com/coral": "usb"}).values()))
    assert pod["nodeSelector"] == {"example.com/coral": "usb"}
    assert pod["volumes"] == [{"name": "usb", "hostPath": {"path": "/dev/bus/usb", "type": "Directory"}}]
    assert pod["tolerations"] == []
    assert not any(map(is_gpu_resource, container("coral")["resources"]["limits"])), "it takes no GPU"
    assert pod_of(tuple(made("coral", pool="t4").values()))["tolerations"], "a stick at a GPU node is behind its taint"
