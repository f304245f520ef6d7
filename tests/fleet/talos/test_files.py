"""The folder as a whole: its files name one another, hold every host once, are made the same twice, and hold no secret."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from fleet.providers.talos.boot.patch import talos_files
from fleet.providers.talos.cluster import TalosCluster
from tests.cases import hold
from tests.fleet.talos.made import MINORS, NAME, SYSTEM, cluster, clusters, pool, read, some
from tests.yaml12 import read_all

Texts = dict[str, str]
"""The text of every file by its path."""
Files = dict[str, list[Any]]
"""The documents of every file, as YAML 1.2 reads them."""
SECRET_KEYS = re.compile(
    r"^\s*-?\s*\"?(token|secret|ca|crt|key|bootstraptoken|certs|secretboxEncryptionSecret)\"?:", re.MULTILINE
)


def test_the_folder_of_a_small_cluster() -> None:
    assert sorted(talos_files(NAME, cluster())) == [
        "hosts/control-0.yaml",
        "hosts/gpu-0.yaml",
        "patches/control-plane.yaml",
        "patches/pools/gpu.yaml",
        "schematics/gpu-production-proprietary.yaml",
        "schematics/plain.yaml",
        "talconfig.yaml",
    ]


@pytest.mark.parametrize("minor", MINORS)
def test_the_talconfig_has_versions_hosts_and_images(minor: str) -> None:
    made = cluster(talosVersion=minor, system=SYSTEM, cni="none")
    (config,) = read(made)["talconfig.yaml"]
    nodes = config.pop("nodes")
    assert config == {
        "clusterName": "home",
        "talosVersion": made.release.release,
        "kubernetesVersion": "v1.35.8",
        "endpoint": "https://192.0.2.10:6443",
        "cniConfig": {"name": "none"},
    }
    extensions = ["siderolabs/nonfree-kmod-nvidia-production", "siderolabs/nvidia-container-toolkit-production"]
    assert nodes == [
        {"hostname": "control-0", "ipAddress": "192.0.2.11", "controlPlane": True, "installDisk": "/dev/sda"},
        {
            "hostname": "system-0",
            "ipAddress": "192.0.2.30",
            "controlPlane": False,
            "installDisk": "/dev/vda",
            "patches": ["@./patches/system.yaml"],
        },
        {
            "hostname": "gpu-0",
            "ipAddress": "192.0.2.20",
            "controlPlane": False,
            "installDisk": "/dev/nvme0n1",
            "schematic": {"customization": {"systemExtensions": {"officialExtensions": extensions}}},
            "patches": ["@./patches/pools/gpu.yaml"],
        },
    ]


def the_control_plane_takes_pods_exactly_where_it_is_the_system_pool(made: TalosCluster, texts: Texts, files: Files) -> None:
    (config,) = files["talconfig.yaml"]
    assert config.get("allowSchedulingOnControlPlanes", False) == (
        (made.system.hosts or made.control_plane.hosts) == made.control_plane.hosts
    )


def every_host_is_one_node_and_every_named_file_is_there(made: TalosCluster, texts: Texts, files: Files) -> None:
    (config,) = files["talconfig.yaml"]
    hosts = {name: host for _, name, host in made.hosts()}
    assert Counter(node["hostname"] for node in config["nodes"]) == Counter(hosts.keys())
    for node in config["nodes"]:
        host = hosts[node["hostname"]]
        assert (node["ipAddress"], node["installDisk"]) == (host.address, host.install_disk)
        assert node["controlPlane"] == (node["hostname"] in made.control_plane.hosts)
        assert f"hosts/{node['hostname']}.yaml" in texts
    named = {patch.removeprefix("@./") for node in config["nodes"] for patch in node.get("patches", [])}
    assert named == {path for path in texts if path.startswith("patches/")}, "none missing, none without a machine"


def kernel_modules_and_toolkit_are_of_one_tier(made: TalosCluster, texts: Texts, files: Files) -> None:
    (config,) = files["talconfig.yaml"]
    schematics = [documents[0] for path, documents in files.items() if path.startswith("schematics/")]
    by_host = {node["hostname"]: node.get("schematic", {"customization": {}}) for node in config["nodes"]}
    for each in made.pools.values():
        for hostname in each.nodes.hosts:
            assert by_host[hostname] in schematics, "talhelper and the Image Factory get the same"
            modules, toolkit = by_host[hostname]["customization"]["systemExtensions"]["officialExtensions"]
            assert toolkit == f"siderolabs/nvidia-container-toolkit-{each.driver.tier}"
            kind = {"open": "nvidia-open-gpu-kernel-modules", "proprietary": "nonfree-kmod-nvidia"}[each.driver.kernel_modules]
            assert modules == f"siderolabs/{kind}-{each.driver.tier}"
    for hostname in {**made.control_plane.hosts, **made.system.hosts}:
        assert by_host[hostname] == {"customization": {}}
    assert len(schematics) == len({str(schematic) for schematic in schematics}), "one file an image"


def files_are_made_the_same_twice_and_begin_with_what_they_are_for(made: TalosCluster, texts: Texts, files: Files) -> None:
    assert talos_files(NAME, made.model_copy()) == texts
    for path, text in texts.items():
        head, rest = text.split("\n", 1)
        assert head.startswith("# Generated by make render: "), path
        assert "#" not in rest, f"{path}: one line of comment"


def talhelper_reads_no_file_with_a_variable_or_a_template(made: TalosCluster, texts: Texts, files: Files) -> None:
    """It substitutes `$…` from the environment and `{{ }}` by Go's templates, in every file that it reads."""
    for path, text in texts.items():
        if path == "talconfig.yaml" or path.startswith("patches/"):
            assert "$" not in text, path
            assert "{{" not in text, path


def no_file_holds_a_secret(made: TalosCluster, texts: Texts, files: Files) -> None:
    for path, text in texts.items():
        found = [match[1] for match in SECRET_KEYS.finditer(text)]
        # Of a taint.
        assert [key for key in found if key != "key"] == [], path


PROPERTIES = (
    the_control_plane_takes_pods_exactly_where_it_is_the_system_pool,
    every_host_is_one_node_and_every_named_file_is_there,
    kernel_modules_and_toolkit_are_of_one_tier,
    files_are_made_the_same_twice_and_begin_with_what_they_are_for,
    talhelper_reads_no_file_with_a_variable_or_a_template,
    no_file_holds_a_secret,
)


@some
@given(made=clusters())
def test_the_folder_of_any_cluster_has_every_property(made: TalosCluster) -> None:
    texts = talos_files(NAME, made)
    files = {path: read_all(text) for path, text in texts.items()}
    hold(PROPERTIES, made, texts, files)


def test_pools_with_one_driver_share_an_image_and_others_have_their_own() -> None:
    def gpu(name: str, address: str, **driver: str) -> dict[str, object]:
        return pool(nodes={"hosts": {name: {"address": address}}}, driver=driver)

    pools = {
        "a": gpu("a-0", "192.0.2.20"),
        "b": gpu("b-0", "192.0.2.21"),
        "c": gpu("c-0", "192.0.2.22", tier="lts", kernelModules="open"),
    }
    files = talos_files(NAME, cluster(pools=pools))
    assert sorted(path for path in files if path.startswith("schematics/")) == [
        "schematics/gpu-lts-open.yaml",
        "schematics/gpu-production-proprietary.yaml",
        "schematics/plain.yaml",
    ]


@pytest.mark.parametrize("line", ["  token: abc", "- ca:", "secretboxEncryptionSecret: x"])
def test_a_secret_would_be_found(line: str) -> None:
    assert SECRET_KEYS.search(f"machine:\n{line}\n")


# -- room for volumes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volume", "documents"),
    [
        ({"disk": "/dev/nvme1n1"}, [("local-path-provisioner", "disk.dev_path == '/dev/nvme1n1'", None)]),
        ({"disk": "/dev/disk/by-id/x", "name": "models"}, [("models", "'/dev/disk/by-id/x' in disk.symlinks", None)]),
        ({"ephemeral": "500Gi"}, [("EPHEMERAL", None, "500GiB"), ("local-path-provisioner", "system_disk", None)]),
    ],
)
def test_a_volume_is_on_its_disk_or_beside_what_containers_keep(volume: dict[str, str], documents: list[object]) -> None:
    hosts = {"gpu-0": {"address": "192.0.2.20", "installDisk": "/dev/nvme0n1", "volume": volume}}
    found = read(cluster(pools={"gpu": pool(nodes={"hosts": hosts})}))
    (config,) = found["talconfig.yaml"]
    assert config["nodes"][1]["patches"] == ["@./patches/pools/gpu.yaml", "@./patches/volumes/gpu-0.yaml"]
    held = [(each["name"], each["provisioning"]) for each in found["patches/volumes/gpu-0.yaml"]]
    assert [(name, spec.get("diskSelector", {}).get("match"), spec.get("maxSize")) for name, spec in held] == documents
    assert all(spec["grow"] for _, spec in held if "diskSelector" in spec)


@pytest.mark.parametrize("disk", ["/dev/nvme1n1", "/dev/disk/by-id/x"])
def test_containers_and_images_are_on_a_disk_of_their_own(disk: str) -> None:
    hosts = {"gpu-0": {"address": "192.0.2.20", "installDisk": "/dev/sda", "ephemeralDisk": disk, "volume": {"disk": "/dev/sdb"}}}
    found = read(cluster(pools={"gpu": pool(nodes={"hosts": hosts})}))
    ephemeral, volume = found["patches/volumes/gpu-0.yaml"]
    match = "'/dev/disk/by-id/x' in disk.symlinks" if "by-id" in disk else "disk.dev_path == '/dev/nvme1n1'"
    assert (ephemeral["kind"], ephemeral["name"]) == ("VolumeConfig", "EPHEMERAL")
    assert ephemeral["provisioning"] == {"diskSelector": {"match": match}, "minSize": "1GiB", "grow": True}
    assert volume["kind"] == "UserVolumeConfig"


@pytest.mark.parametrize(
    ("endpoint", "remarked"),
    [("https://192.0.2.11:6443", False), ("https://192.0.2.10:6443", True), ("https://api.example.com:6443", False)],
)
def test_an_address_that_no_control_plane_host_has_is_remarked(endpoint: str, remarked: bool) -> None:
    assert any("is not a control-plane host's address" in remark for remark in cluster(endpoint=endpoint).remarks) == remarked
