"""Versions: each has a source and a date, and those that belong together agree."""

from __future__ import annotations

import ast
import datetime
import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.facts import hardware, versions
from fleet.facts.eks_images import BAD_BUILDS
from fleet.facts.support import EKS_SUPPORT
from fleet.facts.tables import rows as table_rows
from fleet.facts.versions import (
    CHARTS,
    DAEMONSETS,
    DOWNLOADS,
    KUBERNETES,
    NVKIND,
    OKE_KUBERNETES,
    RUNNER_IMAGE,
    TALOS,
    TALOS_KUBERNETES,
    daemonsets,
)
from fleet.providers.registry import PROVIDERS
from fleet.providers.talos.nodes import TalosDriver
from fleet.settings.compatibility import driver_version
from tests.builders import read_stack
from tests.cases import cases
from tests.sources import parsed
from tests.workflows import kubeflow

ROOT = Path(versions.__file__).parents[2]
DATA: dict[str, Any] = tomllib.loads((ROOT / "fleet" / "facts" / "data" / "versions.toml").read_text(encoding="utf-8"))
IMAGES = {name: image.reference for name, image in versions.IMAGES.items()}
UNPINNED = {"cuda-device-query", "tensorflow-mnist", "tensorflow-notebook"}
"""Images of workloads for which no source gives a digest."""


def rows(table: dict[str, Any], at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row below a table: a row has values of its own, a table of tables none."""
    for name, held in table.items():
        place = f"{at}.{name}".removeprefix(".")
        if all(isinstance(value, dict) for value in held.values()):
            yield from rows(held, place)
        else:
            yield place, held


ROWS = list(rows(DATA))

GPUS = {machine.gpu for machine in hardware.machines() if machine.gpu}

each_minor = pytest.mark.parametrize(("minor", "row"), KUBERNETES.items())


@cases(("name", "row"), ROWS)
def test_every_version_has_a_source_and_an_iso_date(name: str, row: dict[str, Any]) -> None:
    assert row["source"].strip(), name
    assert datetime.date.fromisoformat(row["date"]).isoformat() == row["date"], f"{name}: write the date as 2026-11-21"


UNVERSIONED = {"chart-images.cluster-autoscaler.image", "kubeflow.driver", *(f"daemonsets.{name}" for name in DATA["daemonsets"])}
"""Rows that pin no version: the minor has the tag, the branch is a minimum, and a pinned row installs each DaemonSet."""
UNKNOWN_RELEASE = {
    "images.buildkit-builder",
    "images.buildkit-syft-scanner",
    "images.cncf-cloudrunner",
    "images.comfyui",
    "images.cuda-device-query",
    "images.ollama",
    "images.tensorflow-mnist",
    "oke.1.35",
}
"""Rows for which no source gives the day of release."""


def test_every_version_has_the_day_of_its_release_and_what_ends_it() -> None:
    assert {name for name, row in ROWS if "released" not in row} == UNVERSIONED
    assert {name for name, row in ROWS if row.get("released") == "unknown"} == UNKNOWN_RELEASE
    for name, row in ROWS:
        if "released" in row:
            assert list(row).index("released") == list(row).index("date") + 1, f"{name}: Renovate's patterns end at the date"
            assert row["released"] == "unknown" or _is_day(row["released"]), name
            assert row["ends"] == "none published" or (_is_day(row["ends"]) and row["ends-source"].strip()), name


def _is_day(text: str) -> bool:
    return datetime.date.fromisoformat(text).isoformat() == text


def test_a_version_ends_on_the_day_that_the_table_of_its_minor_or_branch_has() -> None:
    minors = {row["minor"]: row["ends"] for row in table_rows("kubernetes_support.csv")}
    branches = {row["branch"]: row["ends"] for row in table_rows("driver_branches.csv")}
    vm, kubeflow = DATA["vm"], DATA["kubeflow"]
    kind_node = kubeflow["node"]["reference"].partition("@")[0].rpartition(":v")[2]
    by_version = {row["version"].removeprefix("v"): row["ends"] for row in DATA["talos-kubernetes"].values()}
    by_version |= {vm["downloads"]["kubectl"]["version"]: vm["downloads"]["kubectl"]["ends"], kind_node: kubeflow["node"]["ends"]}
    assert by_version == {version: minors[version.rpartition(".")[0]] for version in by_version}
    operator = DATA["driver"]["gpu-operator"]
    assert operator["ends"] == branches[operator["version"].partition(".")[0]]


@pytest.mark.parametrize("name", ["kubernetes_support.csv", "driver_branches.csv"])
def test_a_table_of_ends_has_each_minor_or_branch_once_in_order_with_a_source(name: str) -> None:
    table = table_rows(name)
    keys = [tuple(map(int, next(iter(row.values())).split("."))) for row in table]
    assert keys == sorted(set(keys)), "the oldest first"
    for row in table:
        days = [row["released"], row["ends"]]
        assert all(_is_day(day) for day in days if day != "none published"), row
        assert days == sorted(days), row
        assert row["source"].strip(), row
        assert _is_day(row["date"]), row


def test_every_driver_that_a_row_names_has_its_branch_in_the_table() -> None:
    branches = {row["branch"] for row in table_rows("driver_branches.csv")}
    drivers = [row.driver for row in KUBERNETES.values()] + [driver for row in TALOS.values() for driver in row.drivers.values()]
    named = {driver.partition(".")[0] for driver in (*drivers, versions.OPERATOR_DRIVER) if driver}
    assert named | {str(kubeflow.DRIVER_BRANCH)} <= branches


@each_minor
def test_a_node_image_is_released_on_the_day_in_its_name(minor: str, row: versions.KubernetesVersion) -> None:
    assert DATA["kubernetes"][minor]["released"].replace("-", "") == row.ami_release.rpartition("-")[2]


def test_every_row_is_read() -> None:
    own = {"talos", "talos-kubernetes", "runner-gpu"}
    assert (
        set(DATA)
        == {"charts", "chart-images", "images", "kubernetes", "oke", "vm", "ami", "kubeflow", "driver", "daemonsets"} | own
    )
    assert set(TALOS) == set(DATA["talos"])
    assert set(TALOS_KUBERNETES) == set(DATA["talos-kubernetes"])
    assert set(CHARTS) == set(DATA["charts"])
    assert set(versions.CHART_IMAGES) == set(DATA["chart-images"]) <= set(CHARTS)
    assert set(KUBERNETES) == set(DATA["kubernetes"])
    assert set(OKE_KUBERNETES) == set(DATA["oke"])
    assert set(DAEMONSETS) == set(DATA["daemonsets"])
    assert set(versions.RUNNER_GPU) == set(DATA["runner-gpu"])
    assert {name: row["reference"] for name, row in DATA["images"].items()} == IMAGES
    others = [IMAGES[name] for name in ("actions-runner", "oci-cli", "cncf-cloudrunner")]
    assert others == [RUNNER_IMAGE, versions.LAUNCHER_IMAGE, versions.CNCF_LAUNCHER_IMAGE]
    assert {name: row["version"] for name, row in DATA["driver"].items()} == {
        "gpu-operator": versions.OPERATOR_DRIVER,
    }
    assert set(DATA["vm"]) == {"toolkit", "nvkind", "downloads"}
    assert DATA["vm"]["toolkit"]["version"] == versions.VM_TOOLKIT
    assert {name: row["version"] for name, row in DATA["ami"].items()} == {"toolkit": versions.AMI_TOOLKIT}
    assert DATA["vm"]["nvkind"]["version"] == NVKIND.version
    assert set(DOWNLOADS) == set(DATA["vm"]["downloads"])
    assert set(DATA["kubeflow"]) == {"node", "node-toolkit", "driver", "trainer"}


@cases("name", IMAGES)
def test_an_image_is_pinned_by_digest_where_a_source_gives_one(name: str) -> None:
    match = re.fullmatch(r"[a-z0-9.]+(/[a-z0-9-]+)+(:(?!latest)[\w.-]+)?(@sha256:[0-9a-f]{64})?", IMAGES[name])
    assert match, "registry, repository, a tag that is not latest"
    assert match[3] or name in UNPINNED, "a tag can change"
    assert match[2] or match[3]


@cases(("name", "image"), versions.IMAGES.items())
def test_an_image_says_what_it_runs_on_in_the_words_of_the_hardware_table(name: str, image: versions.Image) -> None:
    assert set(image.architectures) <= {machine.arch for machine in hardware.machines()}, name
    assert image.least_capability in ("", "5.0", *(gpu.compute_capability for gpu in GPUS)), name


def test_kind_nodes_are_pinned_by_digest_and_of_the_minor_of_the_machines_kubectl() -> None:
    found = re.fullmatch(r"docker\.io/kindest/node:v(\d+\.\d+)\.\d+@sha256:[0-9a-f]{64}", kubeflow.NODE_IMAGE)
    assert found, "a tag can change"
    assert DOWNLOADS["kubectl"].version.startswith(f"{found[1]}."), "kubectl may differ by one minor; there is no need to"


def test_kind_nodes_get_a_toolkit_that_nvkind_can_configure() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+-\d+", kubeflow.NODE_TOOLKIT), "a package's version"
    assert any(kubeflow.NODE_TOOLKIT.startswith(f"{minor}.") for minor in NVKIND.toolkits)
    assert re.fullmatch(r"[0-9a-f]{40}", kubeflow.TRAINER_COMMIT), "a tag can move"


@pytest.mark.parametrize("name", DOWNLOADS)
def test_a_download_is_a_publishers_https_address_of_its_version_with_a_checksum(name: str) -> None:
    found = DOWNLOADS[name]
    assert found.url.startswith("https://")
    assert f"v{found.version}" in found.url
    assert "{" not in found.url
    assert re.fullmatch(r"[0-9a-f]{64}", found.sha256)
    assert re.fullmatch(r"\d+\.\d+\.\d+", found.version)


def test_the_toolkit_of_machines_is_one_that_nvkind_can_use() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+-\d+", versions.VM_TOOLKIT), "a package's version"
    assert any(versions.VM_TOOLKIT.startswith(f"{minor}.") for minor in NVKIND.toolkits)
    assert re.fullmatch(r"[0-9a-f]{40}", NVKIND.version), "nvkind has no tags: a commit"
    assert re.fullmatch(r"\d+\.\d+\.\d+", NVKIND.go)
    assert "1.18" not in NVKIND.toolkits, "neither of its two ways works there (NVIDIA/nvkind#61)"


def test_drivers_are_named_as_nvidia_names_them() -> None:
    assert driver_version(versions.OPERATOR_DRIVER) == versions.OPERATOR_DRIVER


@pytest.mark.parametrize(("minor", "row"), OKE_KUBERNETES.items())
def test_oke_spells_a_patch_of_its_minor(minor: str, row: versions.OkeVersion) -> None:
    patch = rf"v{re.escape(minor)}\.\d+"
    assert re.fullmatch(patch, row.version)
    assert row.autoscaler is None or re.fullmatch(r"v1\.\d+\.\d+", row.autoscaler)
    assert row.gpu_image is None or row.gpu_image.endswith(f"-OKE-{row.version[1:]}"), "of that very version"


@pytest.mark.parametrize(("minor", "row"), TALOS.items())
def test_a_talos_release_is_of_its_minor_and_has_a_driver_of_each_tier(minor: str, row: versions.TalosVersion) -> None:
    assert re.fullmatch(rf"v{re.escape(minor)}\.\d+(-rc\.\d+)?", row.release)
    assert set(row.drivers) == set(TalosDriver.model_fields["tier"].annotation.__args__)  # type: ignore[union-attr]
    assert [driver_version(version) for version in row.drivers.values()] == list(row.drivers.values())
    assert re.fullmatch(r"\d+\.\d+\.\d+", row.toolkit)


@pytest.mark.parametrize(("minor", "row"), TALOS.items())
def test_a_talos_release_takes_a_kubernetes_that_is_pinned(minor: str, row: versions.TalosVersion) -> None:
    oldest, newest = (tuple(map(int, each.split("."))) for each in row.kubernetes)
    assert oldest <= newest
    assert any(oldest <= tuple(map(int, each.split("."))) <= newest for each in TALOS_KUBERNETES), minor


def test_newer_talos_releases_bring_no_older_driver_toolkit_or_kubernetes() -> None:
    numbers = [
        [tuple(map(int, text.split("."))) for text in (minor, *row.drivers.values(), row.toolkit, *row.kubernetes)]
        for minor, row in TALOS.items()
    ]
    for older, newer in itertools.pairwise(numbers):
        assert all(old <= new for old, new in zip(older, newer, strict=True))


@pytest.mark.parametrize(("minor", "version"), TALOS_KUBERNETES.items())
def test_the_kubernetes_of_talos_is_a_patch_of_its_minor(minor: str, version: str) -> None:
    assert re.fullmatch(rf"v{re.escape(minor)}\.\d+", version)


def test_both_clouds_have_the_minors_of_each_other() -> None:
    """A fleet over both has one Kubernetes minor, so that one set of manifests is right for all of it."""
    assert set(OKE_KUBERNETES) == set(KUBERNETES)


@each_minor
def test_a_node_image_is_a_patch_of_its_minor_with_a_build_date(minor: str, row: versions.KubernetesVersion) -> None:
    match = re.fullmatch(r"(\d+\.\d+)\.\d+-(\d{8})", row.ami_release)
    assert match, row.ami_release
    assert match[1] == minor == row.minor
    assert datetime.datetime.strptime(match[2], "%Y%m%d").replace(tzinfo=datetime.UTC), "the build's day exists"


@each_minor
def test_the_autoscaler_is_of_the_clusters_minor(minor: str, row: versions.KubernetesVersion) -> None:
    """Cluster Autoscaler simulates the scheduler of its own minor."""
    assert re.fullmatch(rf"v{re.escape(minor)}\.\d+(@sha256:[0-9a-f]{{64}})?", row.cluster_autoscaler)


@each_minor
def test_add_ons_have_the_form_of_eks(minor: str, row: versions.KubernetesVersion) -> None:
    assert set(row.addons) == {
        "vpc-cni",
        "kube-proxy",
        "coredns",
        "eks-pod-identity-agent",
        "eks-node-monitoring-agent",
        "metrics-server",
    }, "what a node needs to join, name resolution, rights, repair, and what kubectl top asks"
    assert {name: version for name, version in row.addons.items() if not _is_eks_build(version)} == {}
    assert row.addons["kube-proxy"].startswith(f"v{minor}."), "kube-proxy follows the control plane"


def _is_eks_build(version: str) -> bool:
    return re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", version) is not None


@cases("version", ["1.34.6-eksbuild.17", "v1.34-eksbuild.1", "v1.34.6", "v1.34.6-eksbuild", "latest"])
def test_what_is_no_add_on_version_is_told_apart(version: str) -> None:
    assert not _is_eks_build(version)


def test_controller_and_scale_set_chart_have_one_version() -> None:
    """A mismatch makes the controller delete every scale set."""
    assert CHARTS["gha-runner-scale-set"].version == CHARTS["gha-runner-scale-set-controller"].version
    assert CHARTS["gha-runner-scale-set"].repository == CHARTS["gha-runner-scale-set-controller"].repository


@cases("name", CHARTS)
def test_a_chart_version_is_exact_and_spelled_as_its_publisher_does(name: str) -> None:
    sign = "v" if name == "gpu-operator" else ""
    assert re.fullmatch(rf"{sign}\d+\.\d+\.\d+", CHARTS[name].version)


@cases("name", CHARTS)
def test_a_chart_has_the_digest_of_its_archive_or_manifest(name: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", CHARTS[name].sha256), "`gpu-ci charts` prints it"
    assert "sha256: " in DATA["charts"][name]["source"], "the source of the digest"


@cases("name", DAEMONSETS)
def test_a_daemonset_requests_whole_units_that_are_not_negative(name: str) -> None:
    row = DAEMONSETS[name]
    assert (type(row.cpu), type(row.memory)) == (int, int)
    assert row.cpu >= 0
    assert row.memory >= 0


OF_EKS = {"kube-proxy", "eks-pod-identity-agent", "eks-node-monitoring-agent", "aws-node"}
"""VPC CNI's DaemonSet is aws-node."""
OF_OKE = {"kube-proxy", "proxymux-client", "csi-oci-node", "vcn-native-ip-cni"}
"""What runs on each node of an OKE cluster with VCN-native pod networking."""


OF_TALOS = {"kube-flannel"}
"""kube-proxy runs there too, and requests nothing."""


def _names(provider: str, *features: str) -> set[str]:
    return {row.name for row in daemonsets(provider, features)}


def test_daemonsets_of_eks_are_the_add_ons_that_run_on_each_node() -> None:
    addons = {addon for row in KUBERNETES.values() for addon in row.addons}
    # CoreDNS and metrics-server are Deployments.
    assert (addons - {"coredns", "metrics-server", "vpc-cni"}) | {"aws-node"} == OF_EKS
    assert {name for name, row in DAEMONSETS.items() if "eks" in row.providers} == OF_EKS


def test_drivers_run_on_each_node_of_a_cluster_that_needs_them_and_of_no_other() -> None:
    assert not {"ebs-csi-node", "efs-csi-node"} & _names("eks")
    for driver, ours in (("aws-ebs-csi-driver", "ebs-csi-node"), ("aws-efs-csi-driver", "efs-csi-node")):
        assert _names("eks", driver) == _names("eks") | {ours}
    for row in KUBERNETES.values():
        assert set(row.drivers) == {"aws-ebs-csi-driver", "aws-efs-csi-driver"}, "caches of any cluster have their drivers"
        for version in row.drivers.values():
            assert re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", version)


def test_daemonsets_of_oke_are_its_own() -> None:
    assert {name for name, row in DAEMONSETS.items() if "oke" in row.providers} <= OF_OKE


def test_a_daemonset_belongs_to_providers_or_to_a_feature() -> None:
    drivers = {name for row in KUBERNETES.values() for name in row.drivers}
    for name, row in DAEMONSETS.items():
        assert bool(row.providers) is not bool(row.feature), name
        assert row.feature in ("", "network-policies", *drivers), name
        assert set(row.providers) <= set(PROVIDERS), name
        assert row.replaces in ("", *DAEMONSETS), name


def test_flannel_has_one_pod_per_node_whether_it_enforces_policies_or_not() -> None:
    assert _names("talos") == OF_TALOS
    assert _names("talos", "network-policies") == {"kube-flannel-with-policies"}
    (usual,), (enforces,) = daemonsets("talos"), daemonsets("talos", ["network-policies"])
    assert (enforces.cpu, enforces.memory) == (usual.cpu * 2, usual.memory * 2), "a second container with the same requests"


@each_minor
def test_a_minor_has_its_end_of_support_and_no_image_or_add_on_with_a_known_fault(
    minor: str, row: versions.KubernetesVersion
) -> None:
    assert EKS_SUPPORT[minor].standard_until < EKS_SUPPORT[minor].extended_until
    assert row.ami_release.rpartition("-")[2] not in BAD_BUILDS
    cni = tuple(map(int, row.addons["vpc-cni"].removeprefix("v").partition("-")[0].split(".")))
    assert cni >= (1, 22, 4), "CVE-2026-86831"


def test_the_stacks_have_the_newest_minor_whose_row_is_complete() -> None:
    complete = [minor for minor, row in KUBERNETES.items() if row.driver]
    on_oke = [minor for minor, row in OKE_KUBERNETES.items() if row.gpu_image and row.autoscaler]
    newest = {"eks": complete[-1], "oke": on_oke[-1]}
    for path in (*ROOT.glob("Pulumi.*.yaml"), *ROOT.glob("examples/Pulumi.*.yaml")):
        for name, held in read_stack(path)["clusters"].items():
            if held["provider"] == "kubernetes":
                assert "kubernetesVersion" not in held, "the program installs no node there"
                continue
            of_talos = TALOS[held["talosVersion"]].kubernetes[1] if held["provider"] == "talos" else ""
            assert held["kubernetesVersion"] == newest.get(held["provider"], of_talos), f"{path.name}: {name}"


def test_no_other_module_spells_a_version() -> None:
    """A version outside versions.toml is one that an update forgets."""
    pinned = [text for chart in CHARTS.values() for text in (chart.version, chart.sha256)] + [
        *IMAGES.values(),
        *(row.version for row in OKE_KUBERNETES.values()),
    ]
    pinned += [text for row in TALOS.values() for text in (row.release, *row.drivers.values(), row.toolkit)]
    pinned += TALOS_KUBERNETES.values()
    pinned += [versions.OPERATOR_DRIVER, versions.VM_TOOLKIT, NVKIND.version, NVKIND.go]
    pinned += [text for row in DOWNLOADS.values() for text in (row.version, row.url, row.sha256)]
    pinned += [kubeflow.NODE_IMAGE, kubeflow.NODE_TOOLKIT, kubeflow.TRAINER, kubeflow.TRAINER_COMMIT]
    pinned += [value for row in KUBERNETES.values() for value in (row.ami_release, row.cluster_autoscaler, *row.addons.values())]
    pinned += [value for row in KUBERNETES.values() for value in row.drivers.values()]
    exact = set(pinned)
    ends = tuple(f"{sign}{version}" for version in pinned for sign in (":", "@", "-"))
    found = [f"{place}: {text}" for place, text in _texts() if text in exact or text.endswith(ends)]
    assert found == []


def _texts() -> Iterator[tuple[str, str]]:
    """(place, text) of every string in the program; prose that names a version ends in other words."""
    for folder in ("fleet", "components"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def test_rows_are_frozen() -> None:
    with pytest.raises(AttributeError):
        CHARTS["gha-runner-scale-set"].version = "0.0.1"  # type: ignore[misc]
