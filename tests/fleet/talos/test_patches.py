"""What machines get, release by release, and that all releases get the same."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given

from fleet.facts.scheduling import TALOS_PROFILE, Effect, Taint, system_labels
from fleet.providers.talos.boot.patch import KERNEL_MODULES, Patch, talos_files
from fleet.providers.talos.cluster import TalosCluster
from fleet.settings.model import YAML_WORDS
from tests.cases import hold
from tests.fleet.talos.made import GPU_PATCH, MINORS, NAME, SYSTEM, cluster, clusters, kinds, labels_and_taints, pool, read, some

Files = dict[str, list[Any]]
"""The documents of every file."""
each_minor = pytest.mark.parametrize("minor", MINORS)
CONTROL = "patches/control-plane.yaml"
TOML = (
    "[plugins]\n"
    '  [plugins."io.containerd.cri.v1.runtime"]\n'
    '    [plugins."io.containerd.cri.v1.runtime".containerd]\n'
    '      default_runtime_name = "nvidia"\n'
)


def fields(path: str, minor: str, **changes: Any) -> Any:
    """The one v1alpha1 config that a file of an older release is."""
    (document,) = read(cluster(talosVersion=minor, **changes))[path]
    assert set(document) <= {"machine", "cluster"}, "a document without kind has these parts alone"
    return document


# -- GPU hosts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("minor", ["1.12", "1.13"])
def test_a_gpu_host_up_to_1_13_is_told_by_fields(minor: str) -> None:
    machine = fields(GPU_PATCH, minor)["machine"]
    assert [each["name"] for each in machine["kernel"]["modules"]] == ["nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"]
    assert machine["files"] == [{"path": "/etc/cri/conf.d/20-customization.part", "op": "create", "content": TOML}]


@pytest.mark.parametrize("minor", ["1.12", "1.13"])
def test_the_taint_comes_with_registration_since_node_restriction_refuses_it_later(minor: str) -> None:
    machine = fields(GPU_PATCH, minor)["machine"]
    taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
    assert machine["kubelet"] == {"extraConfig": {"registerWithTaints": [taint]}}
    assert "nodeTaints" not in machine, "the API server would refuse it, and the labels with it"


@each_minor
def test_settings_of_kubelet_stand_beside_the_taint(minor: str) -> None:
    made = cluster(
        talosVersion=minor,
        pools={"gpu": pool(kubelet={"podPidsLimit": 4096, "registryPullQPS": 20, "shutdownGracePeriod": "2m"})},
    )
    documents = read(made)[GPU_PATCH]
    settings = {"podPidsLimit": 4096, "registryPullQPS": 20, "shutdownGracePeriod": "2m0s"}
    assert labels_and_taints(documents)[1] == [str(TALOS_PROFILE.gpu_taint)]
    if minor == "1.14":
        (kubelet,) = kinds(documents)["KubeletConfig"]
        image = f"ghcr.io/siderolabs/kubelet:{made.kubernetes}"
        assert image.endswith(":v1.35.8")
        assert kubelet == {"apiVersion": "v1alpha1", "kind": "KubeletConfig", "image": image, "config": settings}
        return
    (document,) = documents
    found = dict(document["machine"]["kubelet"]["extraConfig"])
    assert found.pop("registerWithTaints")
    assert found == settings


def test_only_the_release_whose_toolkit_loads_bpf_programs_is_told_to_let_it() -> None:
    told = {minor: "bpf_jit_harden" in str(read(cluster(talosVersion=minor))[GPU_PATCH]) for minor in MINORS}
    assert told == {"1.12": True, "1.13": False, "1.14": False}
    assert fields(GPU_PATCH, "1.12")["machine"]["sysctls"] == {"net.core.bpf_jit_harden": "1"}, (
        "a text: the schema takes no number"
    )


def test_a_gpu_host_from_1_14_on_is_told_by_documents() -> None:
    made = kinds(read(cluster(talosVersion="1.14"))[GPU_PATCH])
    assert set(made) == {"KernelModuleConfig", "CRICustomizationConfig", "KubeNodeConfig"}, "older fields conflict with these"
    assert [each["name"] for each in made["KernelModuleConfig"]] == list(KERNEL_MODULES)
    (runtime,), (node,) = made["CRICustomizationConfig"], made["KubeNodeConfig"]
    assert runtime["content"] == TOML
    assert runtime["name"] != "customization", "Talos keeps that name for the file of older releases"
    assert node["taints"] == {"nvidia.com/gpu": "true:NoSchedule"}


# -- conformance -------------------------------------------------------------------------------------------------------


def labels_and_taint_are_those_of_the_scheduling_contract(made: TalosCluster, files: Files) -> None:
    for name, each in made.pools.items():
        labels, taints = labels_and_taints(files[f"patches/pools/{name}.yaml"])
        assert labels == each.node_labels(NAME, name, TALOS_PROFILE)
        assert taints == [str(TALOS_PROFILE.gpu_taint)]


def the_system_pool_has_its_labels_and_no_taint(made: TalosCluster, files: Files) -> None:
    for hosts, path in ((made.system.hosts, "patches/system.yaml"), (made.control_plane.hosts, CONTROL)):
        labels, taints = labels_and_taints(files.get(path, []))
        assert labels == (system_labels(NAME) if hosts == (made.system.hosts or made.control_plane.hosts) else {})
        assert taints == []


def no_label_is_one_that_a_kubelet_may_not_set(made: TalosCluster, files: Files) -> None:
    for path, documents in files.items():
        labels, _ = labels_and_taints(documents)
        assert [key for key in labels if TALOS_PROFILE.reserves(key)] == [], path


def a_worker_has_its_name_alone(made: TalosCluster, files: Files) -> None:
    """What removes the control plane's taint would remove a GPU host's."""
    for _, name, _ in made.hosts():
        if name not in made.control_plane.hosts:
            assert [document["kind"] for document in files[f"hosts/{name}.yaml"]] == ["HostnameConfig"]


PROPERTIES = (
    labels_and_taint_are_those_of_the_scheduling_contract,
    the_system_pool_has_its_labels_and_no_taint,
    no_label_is_one_that_a_kubelet_may_not_set,
    a_worker_has_its_name_alone,
)


@some
@given(made=clusters())
def test_the_patches_of_any_cluster_have_every_property(made: TalosCluster) -> None:
    hold(PROPERTIES, made, read(made))


def test_labels_and_taints_are_read_from_both_wordings() -> None:
    patch = Patch(labels={"a": "b"}, taint=Taint("k", "v", Effect.NO_EXECUTE))
    found = {minor: labels_and_taints(list(patch.documents(minor))) for minor in MINORS}
    assert list(found.values()) == [({"a": "b"}, ["k=v:NoExecute"])] * len(MINORS), "else the tests above see nothing"


@each_minor
def test_a_label_stays_a_text(minor: str) -> None:
    words = sorted({*YAML_WORDS, "1", "1.30", "0x1f", "1e3", "2026-01-01"})
    asked = {f"example.com/x{index}": word for index, word in enumerate(words)}
    made = cluster(talosVersion=minor, pools={"gpu": pool(labels=asked)})
    as_1_1 = list(yaml.safe_load_all(talos_files(NAME, made)[GPU_PATCH]))
    for documents in (read(made)[GPU_PATCH], as_1_1):
        labels, _ = labels_and_taints(documents)
        assert {key: labels[key] for key in asked} == asked, "in YAML 1.2 and in 1.1"


# -- control plane -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("minor", "enforces"), [("1.12", False), ("1.13", True), ("1.14", True)])
def test_flannel_enforces_network_policies_where_the_walls_say_so(minor: str, enforces: bool) -> None:
    made = cluster(talosVersion=minor)
    assert made.enforces_policies == enforces
    assert ("kubeNetworkPoliciesEnabled" in str(read(made)[CONTROL])) == enforces


def test_flannel_is_told_in_the_words_of_each_release() -> None:
    cni = {"name": "flannel", "flannel": {"kubeNetworkPoliciesEnabled": True}}
    assert fields(CONTROL, "1.13")["cluster"] == {"network": {"cni": cni}}
    (flannel,) = kinds(read(cluster(talosVersion="1.14"))[CONTROL])["KubeFlannelCNIConfig"]
    assert flannel == {"apiVersion": "v1alpha1", "kind": "KubeFlannelCNIConfig", "kubeNetworkPoliciesEnabled": True}


@each_minor
def test_nothing_of_flannel_is_said_where_another_network_comes(minor: str) -> None:
    assert "lannel" not in str(read(cluster(talosVersion=minor, cni="none"))[CONTROL])


@each_minor
def test_a_control_plane_that_has_nothing_to_be_told_has_no_patch(minor: str) -> None:
    files = read(cluster(talosVersion=minor, cni="none", system=SYSTEM))
    assert CONTROL not in files
    (config,) = files["talconfig.yaml"]
    assert "patches" not in config["nodes"][0], "talhelper fails at a file that is not there"


# -- what talosctl gets without talhelper -------------------------------------------------------------------------------


@each_minor
def test_a_host_has_its_name_and_no_made_up_one(minor: str) -> None:
    files = read(cluster(talosVersion=minor, system=SYSTEM))
    named = {path: kinds(files[path])["HostnameConfig"] for path in files if path.startswith("hosts/")}
    assert sorted(named) == ["hosts/control-0.yaml", "hosts/gpu-0.yaml", "hosts/system-0.yaml"]
    for path, (document,) in named.items():
        assert f"hosts/{document['hostname']}.yaml" == path
        assert document["auto"] == "off", "a text; the name that the generator asks for conflicts with a fixed one"


def test_the_control_plane_takes_pods_exactly_where_it_is_the_system_pool() -> None:
    for minor in ("1.12", "1.13"):
        _, shared = read(cluster(talosVersion=minor))["hosts/control-0.yaml"]
        assert shared == {"cluster": {"allowSchedulingOnControlPlanes": True}}
    _, shared = read(cluster(talosVersion="1.14"))["hosts/control-0.yaml"]
    assert shared == {"apiVersion": "v1alpha1", "kind": "KubeNodeConfig", "taints": {"$patch": "delete"}}
    for minor in MINORS:
        assert len(read(cluster(talosVersion=minor, system=SYSTEM))["hosts/control-0.yaml"]) == 1, "its name, and no more"


def test_no_network_is_said_in_the_words_of_each_release() -> None:
    for minor in ("1.12", "1.13"):
        _, none = read(cluster(talosVersion=minor, cni="none", system=SYSTEM))["hosts/control-0.yaml"]
        assert none == {"cluster": {"network": {"cni": {"name": "none"}}}}
    _, none = read(cluster(talosVersion="1.14", cni="none", system=SYSTEM))["hosts/control-0.yaml"]
    assert none == {"apiVersion": "v1alpha1", "kind": "KubeFlannelCNIConfig", "$patch": "delete"}


# -- words that no cluster uses yet ------------------------------------------------------------------------------------


def test_a_sysctl_is_said_in_the_words_of_each_release() -> None:
    patch = Patch(sysctls={"a.b": "1"})
    assert patch.documents("1.13") == ({"machine": {"sysctls": {"a.b": "1"}}},)
    assert patch.documents("1.14") == ({"apiVersion": "v1alpha1", "kind": "SysctlConfig", "params": {"a.b": "1"}},)


@each_minor
def test_nothing_is_said_where_there_is_nothing_to_say(minor: str) -> None:
    assert Patch().documents(minor) == ()
