"""`docs/homelab.md` names what the homelab has: objects of its cluster, files of its tree, machines, shares."""

from __future__ import annotations

import re
import shlex

import pytest

from fleet.settings.gitops import ExternalSecrets
from fleet.settings.sharing import TimeSlicing
from tests.docs.homelab import HOME, shell, talos_calls, talos_faults
from tests.docs.inside import insides
from tests.docs.kubectl import calls, commands
from tests.docs.markdown import ROOT, anchors, links
from tests.docs.test_commands import wrong_in

PAGE = ROOT / "docs" / "homelab.md"
TEXT = PAGE.read_text()
SHELL = shell("homelab.md")
TREE = ROOT / "homelab" / "gpu-ci-homelab-home"
(CLUSTER,) = (inside for inside in insides() if inside.cluster == HOME)
POOL = HOME.pools["gpu"]
SEED = (
    "GPU not detected",
    "Allocation",
    "Container runtime",
    "Drift",
)
"""Kinds of trouble that seed 004 distinguishes, as the page heads them."""


def section(heading: str) -> str:
    """The text below a heading, as far as the next one of its level or above."""
    depth = len(heading) - len(heading.lstrip("#"))
    (text,) = re.findall(rf"^{re.escape(heading)}\n(.*?)(?=^#{{2,{depth}}} |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    return str(text)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["homelab.md", "gitops.md"])
def test_kubectl_names_what_this_cluster_has(page: str) -> None:
    found = list(calls(shell(page), page))
    assert found
    assert [(call.words, fault) for call in found for fault in wrong_in(CLUSTER, call)] == []


def test_what_another_cluster_has_is_found() -> None:
    (call,) = calls("kubectl -n nvidia-device-plugin get daemonset/nvidia-device-plugin", "here")
    assert list(wrong_in(CLUSTER, call)) == ["namespace nvidia-device-plugin"]


def test_talos_commands_name_machines_and_releases_of_the_homelab() -> None:
    assert len(talos_calls(SHELL)) > 15, "the page's commands were read"
    assert list(talos_faults(SHELL)) == []
    inline = "\n".join(re.findall(r"`(talosctl --nodes [^`]+)`", TEXT))
    assert list(talos_faults(inline)) == []


def test_the_operands_are_those_that_run() -> None:
    (row,) = re.findall(r"^\| GPU operator \|(.*)\|$", TEXT, re.MULTILINE)
    named = set(re.findall(r"`([\w-]+)`", row)) - {"gpu-operator"}
    assert named == set(CLUSTER.operands)
    assert not {"nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset"} & set(CLUSTER.operands), "Talos includes both"


def test_the_applications_are_those_of_the_tree() -> None:
    (row,) = re.findall(r"^\| Applications \|(.*)\|$", section("## Validate"), re.MULTILINE)
    named = set(re.findall(r"`([\w-]+)`", row))
    assert named == set(CLUSTER.objects[("argocd", "applications.argoproj.io")])
    assert f"all {['no', 'one', 'two', 'three', 'four', 'five', 'six'][len(named)]} are" in row


def test_argocd_is_installed_as_its_values_say() -> None:
    text = (TREE / "bootstrap" / "argo-cd.yaml").read_text()
    told = " ".join(line.removeprefix("#").strip(" \\") for line in text.splitlines()[1:3])
    (called,) = commands(SHELL, "helm")
    assert shlex.split(told)[1:-1] == list(called[:-1])
    assert called[-1] == "$B/argo-cd.yaml"


def test_files_that_commands_name_are_in_the_tree() -> None:
    folders = re.findall(r"^\w=(\S+)$", SHELL, re.MULTILINE)
    applied = [call.option("-f") for call in calls(SHELL, "here") if "apply" in call.words]
    assert applied == ["homelab/gpu-ci-homelab-home/bootstrap/applicationset.yaml"], "one object by hand"
    assert [path for path in (*folders, *applied) if path is None or not (ROOT / path).exists()] == []


def test_what_the_tree_does_not_contain_is_what_the_settings_name() -> None:
    wants = section("## Start it")
    secrets = HOME.secrets_by
    assert isinstance(secrets, ExternalSecrets)
    assert f"ClusterSecretStore `{secrets.store}`" in wants
    assert f"at `{secrets.key}` of your store" in wants
    claims = [held for held in CLUSTER.committed if held["kind"] == "PersistentVolumeClaim"]
    classes = {held["spec"]["storageClassName"] for held in claims}
    assert [f"StorageClass `{name}`" in wants for name in classes] == [True]


# -- facts -------------------------------------------------------------------------------------------------------------


def test_shares_and_labels_to_see_are_those_of_the_pool() -> None:
    told = section("## Validate")
    (machine,) = POOL.machines
    assert isinstance(POOL.sharing, TimeSlicing)
    assert f"| shares | {machine.gpus * POOL.sharing.replicas}. " in told
    (config,) = CLUSTER.node_labels["nvidia.com/device-plugin.config"]
    assert f"config `{config}`" in told
    assert f"replicas {POOL.sharing.replicas}," in told
    assert f"resource `{POOL.resource}`" in TEXT


def test_the_hardware_is_the_seeds() -> None:
    (machine,) = POOL.machines
    assert machine.gpu is not None
    assert (machine.gpus, machine.gpu.name) == (2, "RTX 3090")
    assert machine.gpu_memory_mib == 24 * 1024
    assert (machine.vcpus, machine.memory_mib) == (48, 128 * 1024), "a Threadripper's"
    told = TEXT.split("## Start it")[0]
    for fact in ("two RTX 3090 of 24 GB", "Google Coral", "Threadripper, 64 PCIe lanes", "water cooling"):
        assert fact in told


@pytest.mark.parametrize("trouble", SEED)
def test_each_kind_of_trouble_of_the_seed_has_commands_and_mends(trouble: str) -> None:
    text = section(f"### {trouble}")
    assert "```bash\n" in text
    assert "| symptom |" in text or "| event |" in text or "[troubleshooting](" in text


@pytest.mark.parametrize(
    ("usual", "here"),
    [
        ("`nvidia-smi` on the node", "exec daemonset/nvidia-device-plugin-daemonset -c nvidia-device-plugin -- nvidia-smi"),
        ("ConfigMap `nvidia-container-toolkit-config`", "talosctl --nodes 192.0.2.20 read /etc/cri/conf.d/20-customization.part"),
        ("pods `nvidia-container-toolkit-daemonset`", "talosctl --nodes 192.0.2.20 get extensions"),
        ("`describe node`, for `nvidia.com/gpu`", "kubectl describe node talos-cluster-gpu-worker-00 | grep nvidia.com/gpu"),
    ],
)
def test_each_command_of_the_seed_that_finds_nothing_on_talos_has_one_that_does(usual: str, here: str) -> None:
    assert f"| {usual} |" in section("## Troubleshoot")
    assert here in SHELL


def test_the_runtimes_files_are_those_that_the_machine_is_given() -> None:
    patch = (TREE / "talos" / "patches" / "pools" / "gpu.yaml").read_text()
    for fact in ("/etc/cri/conf.d/20-customization.part", 'default_runtime_name = "nvidia"'):
        assert fact in patch
        assert fact in section("### Container runtime")


def test_recovery_restarts_the_plugin_then_looks_at_shares_and_node() -> None:
    told = [" ".join(call.words) for call in calls(section("### Restart the plugin").split("```")[1], "here")]
    assert told[0] == "-n gpu-operator rollout restart daemonset/nvidia-device-plugin-daemonset"
    assert any("allocatable" in call for call in told)
    assert told[-1].startswith("describe node")


def test_the_hardware_is_reset_only_where_kexec_does_not_do() -> None:
    assert "reboot --mode powercycle" in section("### A GPU has fallen off the bus")
    assert "kexec" in section("### A GPU has fallen off the bus")


def test_nobody_changes_the_cluster_by_hand() -> None:
    """Commands change only the first object, restart things, remove pods, or change a node."""
    verbs = {"apply", "annotate", "create", "edit", "label", "patch", "replace", "scale", "set", "taint"}
    changing = [call.words for call in calls(SHELL, "here") if verbs & set(call.words[:3])]
    assert [words[0] for words in changing] == ["apply"]


def test_pages_that_rest_on_it_are_linked() -> None:
    targets = {target.partition("#")[0] for target in links(PAGE)}
    assert targets >= {"gitops.md", "talos.md", "inventory-homelab.md", "troubleshooting.md", "sharing.md", "operate.md"}
    troubleshooting = ROOT / "docs" / "troubleshooting.md"
    assert "an-application-is-not-synced-or-not-healthy" in anchors(troubleshooting)
    assert any(target.startswith("homelab.md#") for target in links(troubleshooting))
