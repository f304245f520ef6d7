"""The node pool carries what GPU nodes need: labels, tags by which they are known before they exist, metadata, a group."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.oci.managed_nodes import node_script
from fleet.facts import hardware
from fleet.facts.offer import allocatable
from fleet.facts.scheduling import OKE_NO_PLUGIN_LABEL, OKE_PROFILE, STORAGE_TAG, SYSTEM_POOL, pool_labels
from tests.builders import oke_pool
from tests.components.oke import DOMAINS, IN_DOMAINS, NODE_POOL, OPERATOR, PLUGIN, POLICY, RULE, TAGS, made, planned, the
from tests.components.recorded import before, named, of_type

RESERVATION = {"id": "ocid1.capacityreservation.oc1.iad.example", "zone": "abcd:US-ASHBURN-AD-2", "count": 2}
IAD: dict[str, Any] = {
    "region": "us-ashburn-1",
    "zones": ["abcd:US-ASHBURN-AD-1", "abcd:US-ASHBURN-AD-2"],
    "nodeImages": {kind: {"id": f"ocid1.image.oc1.iad.example{kind[-3:]}"} for kind in ("system", "oke-gpu")},
}
NODE_SCRIPT = node_script()
"""The script of a pool without settings of its nodes."""
SET_SCRIPT = node_script(("--pod-max-pids=4096", "--serialize-image-pulls=false"), array=True)
KUBELET = {"podPidsLimit": 4096, "serializeImagePulls": False}
POOLS: dict[str, Any] = {
    "a10": oke_pool(),
    "double": oke_pool(instanceTypes=["VM.GPU.A10.2"], labels={"example.com/team": "vision"}),
    "metal": oke_pool(instanceTypes=["BM.GPU.A10.4"], disk="600Gi"),
    "v100": oke_pool(instanceTypes=["VM.GPU3.1"], capacity="spot"),
    "a100": oke_pool(
        instanceTypes=["BM.GPU4.8"], nodes={"min": 2, "max": 3}, kubelet=KUBELET, localStorage={"strategy": "RAID0"}
    ),
}
EXTRA = "--kubelet-extra-args --pod-max-pids=4096 --serialize-image-pulls=false"


def pool(recording, name="a10"):
    return named(recording, f"sjc-{name}-nodes", NODE_POOL)


def labels(resource):
    return {pair["key"]: pair["value"] for pair in resource.inputs["initialNodeLabels"]}


@pytest.fixture(scope="module")
def preview():
    return planned(pools=POOLS)


@pytest.fixture(scope="module")
def reserved():
    held = oke_pool(instanceTypes=["BM.GPU4.8"], capacity="reserved", reservation=RESERVATION)
    return made(**IAD, pools={"a100": held, "a10": oke_pool()}, runners={})


def test_nodes_carry_the_contracts_labels_and_the_owners(preview):
    held = labels(pool(preview, "double"))
    assert held.pop(OKE_NO_PLUGIN_LABEL) == "false"
    assert held.pop("example.com/team") == "vision"
    assert held == pool_labels(
        cluster="sjc", pool="double", role="burst", capacity="on-demand", accelerator="nvidia-a10", profile=OKE_PROFILE
    )


@pytest.mark.parametrize(("changes", "off"), [({"pools": POOLS}, "false"), (PLUGIN, "true"), (OPERATOR, "true")])
def test_okes_plugin_is_said_on_or_off_on_every_gpu_node(changes, off):
    gpu_pools = [each for each in of_type(planned(**changes), NODE_POOL) if labels(each)["gpu-ci/pool"] != SYSTEM_POOL]
    assert [labels(each)[OKE_NO_PLUGIN_LABEL] for each in gpu_pools] == [off] * len(changes["pools"])


def test_a_cdi_pool_says_so_to_the_device_plugin():
    recording = planned(**PLUGIN)
    assert labels(pool(recording))["nvidia.com/device-plugin.config"] == "cdi"
    assert "nvidia.com/device-plugin.config" not in labels(pool(recording, "plain"))


def test_the_autoscaler_owns_the_size(preview):
    held = pool(preview)
    assert held.inputs["nodeConfigDetails"]["size"] == 0
    assert held.ignore_changes == ("nodeConfigDetails.size",)
    assert pool(preview, "a100").inputs["nodeConfigDetails"]["size"] == 2


def test_the_autoscaler_can_start_the_first_node(preview):
    inputs = pool(preview).inputs
    assert "nodeShapeConfig" not in inputs, "with it the autoscaler's template has no GPU"
    storage = allocatable(hardware.machine("VM.GPU.A10.1"), 400 * 1024).storage
    assert inputs["freeformTags"][STORAGE_TAG] == f"{storage}Mi", (
        "without it a pod that asks for ephemeral storage never starts the first node"
    )
    assert inputs["nodeConfigDetails"]["freeformTags"] == TAGS, "nodes have the fleet's tags, not the pool's"


@pytest.mark.parametrize(
    ("name", "shape", "encrypted"),
    [("a10", "VM.GPU.A10.1", True), ("double", "VM.GPU.A10.2", True), ("metal", "BM.GPU.A10.4", False)],
)
def test_boot_volumes_are_encrypted_on_the_wire_where_the_shape_can(preview, name, shape, encrypted):
    inputs = pool(preview, name).inputs
    assert inputs["nodeShape"] == shape
    assert inputs["nodeConfigDetails"]["isPvEncryptionInTransitEnabled"] is encrypted


def test_the_boot_volume_holds_cuda_images_and_its_size_is_text(preview):
    assert pool(preview).inputs["nodeSourceDetails"] == {
        "sourceType": "IMAGE",
        "imageId": "ocid1.image.oc1..examplegpu",
        "bootVolumeSizeInGbs": "400",
    }
    assert pool(preview, "metal").inputs["nodeSourceDetails"]["bootVolumeSizeInGbs"] == "600"


def test_the_image_is_the_one_of_the_pools_kind():
    assert pool(planned(**OPERATOR)).inputs["nodeSourceDetails"]["imageId"] == "ocid1.image.oc1..exampleubuntu"


def test_every_domain_has_nodes_and_all_stand_in_the_private_subnet(reserved):
    placements = pool(reserved).inputs["nodeConfigDetails"]["placementConfigs"]
    assert placements == [
        {"availabilityDomain": zone, "subnetId": "ocid1.subnet.oc1..sjc-network-nodes-id"}
        for zone in ("abcd:US-ASHBURN-AD-1", "abcd:US-ASHBURN-AD-2")
    ]


def test_nodes_and_pods_have_the_group_of_the_nodes(reserved):
    for each in of_type(reserved, NODE_POOL):
        details = each.inputs["nodeConfigDetails"]
        assert details["nsgIds"] == ["ocid1.networksecuritygroup.oc1..sjc-security-workers-id"]
        network = details["nodePoolPodNetworkOptionDetails"]
        assert network["cniType"] == "OCI_VCN_IP_NATIVE"
        assert network["podNsgIds"] == ["ocid1.networksecuritygroup.oc1..sjc-security-workers-id"]
        assert network["podSubnetIds"] == ["ocid1.subnet.oc1..sjc-network-nodes-id"]


def test_a_reserved_pool_stands_where_its_reservation_is(reserved):
    assert pool(reserved, "a100").inputs["nodeConfigDetails"]["placementConfigs"] == [
        {
            "availabilityDomain": RESERVATION["zone"],
            "capacityReservationId": RESERVATION["id"],
            "subnetId": "ocid1.subnet.oc1..sjc-network-nodes-id",
        }
    ]


def test_oke_may_use_the_reservation_before_its_pool_starts(reserved):
    rights = named(reserved, "sjc-a100-rights", POLICY)
    assert rights.urn in pool(reserved, "a100").dependencies
    assert rights.urn not in pool(reserved).dependencies
    assert rights.inputs["statements"] == [
        "Allow service oke to use compute-capacity-reservations in compartment id ocid1.compartment.oc1..example",
        "Allow any-user to use compute-capacity-reservations in compartment id ocid1.compartment.oc1..example "
        "where request.principal.type = 'nodepool'",
    ]


def test_spot_is_preemptible_capacity_and_leaves_no_volume_behind(preview):
    (placement,) = pool(preview, "v100").inputs["nodeConfigDetails"]["placementConfigs"]
    assert placement["preemptibleNodeConfig"] == {"preemptionAction": {"type": "TERMINATE", "isPreserveBootVolume": False}}
    (other,) = pool(preview).inputs["nodeConfigDetails"]["placementConfigs"]
    assert "preemptibleNodeConfig" not in other


def test_nodes_have_no_legacy_metadata_and_grow_their_disk_before_they_join(preview):
    for each in of_type(preview, NODE_POOL):
        metadata = each.inputs["nodeMetadata"]
        assert metadata["areLegacyImdsEndpointsDisabled"] == "true"
        assert base64.b64decode(metadata["user_data"]).decode() == (SET_SCRIPT if "a100" in each.name else NODE_SCRIPT)
    assert NODE_SCRIPT.index("oci-growfs") < NODE_SCRIPT.index("bash /var/run/oke-init.sh")
    assert "oke bootstrap" in NODE_SCRIPT
    assert NODE_SCRIPT.isascii(), "cloud-init drops a script that is not"


def test_a_pool_s_settings_of_kubelet_and_local_disks_are_in_its_script_alone(preview):
    def script(name):
        return base64.b64decode(pool(preview, name).inputs["nodeMetadata"]["user_data"]).decode()

    assert script("a100") == SET_SCRIPT
    assert script("a10") == script("system") == NODE_SCRIPT, "a changed script reaches new nodes of the pool alone"
    assert SET_SCRIPT.isascii(), "cloud-init drops a script that is not"


@pytest.mark.parametrize("script", [NODE_SCRIPT, SET_SCRIPT])
def test_the_boot_script_passes_shellcheck(script):
    checker = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([checker, "-"], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout


INIT_SCRIPT = "echo init >>$CALLS"
"""What replaces OKE's own script, which the metadata service gives."""
JOINS = {"oke": "exit 0", "curl": "exit 22"}
GIVES_SCRIPT = f"echo {base64.b64encode(INIT_SCRIPT.encode()).decode()}"


@dataclass(frozen=True)
class Boot:
    """How a node's first boot went: its exit status, and the commands that it ran after it closed its metadata."""

    status: int
    calls: list[str]


def boot(root: Path, stubs: Mapping[str, str], growfs: str | None = None, script: str = NODE_SCRIPT) -> Boot:
    """Run the script with stand-ins for all commands but the shell and base64; `growfs` is the body of Oracle's, if any."""
    calls, commands, run, units = root / "calls", root / "bin", root / "run", root / "units"
    for folder in (commands, run, units):
        folder.mkdir()
    calls.touch()
    paths = {"/usr/libexec/oci-growfs": root / "oci-growfs", "/var/run/": f"{run}/", "/etc/systemd/system/": f"{units}/"}
    for path, instead in paths.items():
        assert path in script
        script = script.replace(path, str(instead))
    for name in ("bash", "base64", "cat"):
        (commands / name).symlink_to(str(shutil.which(name)))
    programs = {commands / name: body for name, body in {"sleep": "exit 0", "systemctl": "exit 0", **stubs}.items()}
    if growfs is not None:
        programs[root / "oci-growfs"] = growfs
    for program, body in programs.items():
        program.write_text(f'#!{commands}/bash\necho "{program.name} $*" >>$CALLS\n{body}\n')
        program.chmod(0o755)
    done = subprocess.run(
        [commands / "bash", "-c", script],
        env={"PATH": str(commands), "CALLS": str(calls)},
        capture_output=True,
        check=False,
    )
    first, *rest = calls.read_text().splitlines()
    assert first == "systemctl enable --now gpu-ci-metadata.service", "before a pod can start"
    assert "Before=crio.service kubelet.service" in (units / "gpu-ci-metadata.service").read_text()
    return Boot(done.returncode, rest)


ASKS_METADATA = (
    "curl --fail --retry 10 --retry-delay 3 --header Authorization: Bearer Oracle --location "
    "http://169.254.169.254/opc/v2/instance/metadata/oke_init_script"
)


@pytest.mark.parametrize("growfs", ["exit 0", "exit 1"])
def test_a_node_of_oracle_linux_joins_whether_its_disk_could_be_grown_or_not(tmp_path, growfs):
    done = boot(tmp_path, {"curl": GIVES_SCRIPT}, growfs)
    assert done == Boot(0, ["oci-growfs -y", ASKS_METADATA, "init"])


def test_a_node_whose_image_has_okes_package_tries_to_join_until_it_has(tmp_path):
    third = "mapfile -t calls <$CALLS; test ${#calls[@]} -eq 6"
    done = boot(tmp_path, JOINS | {"oke": third})
    assert done == Boot(0, ["oke bootstrap", "sleep 20", "oke bootstrap", "sleep 20", "oke bootstrap"]), (
        "no script of OKE's besides"
    )


def test_a_node_without_growfs_joins_all_the_same(tmp_path):
    assert boot(tmp_path, JOINS) == Boot(0, ["oke bootstrap"])


def test_oracle_linux_with_okes_package_grows_its_disk_first(tmp_path):
    assert boot(tmp_path, JOINS, "exit 1") == Boot(0, ["oci-growfs -y", "oke bootstrap"])


def test_a_node_that_cannot_close_its_metadata_never_joins(tmp_path):
    assert boot(tmp_path, JOINS | {"systemctl": "exit 5"}) == Boot(5, [])


def test_a_node_that_cannot_join_says_so_in_the_end(tmp_path):
    done = boot(tmp_path, {"oke": "exit 1", "curl": "exit 22"})
    assert done.status == 1
    assert done.calls.count("oke bootstrap") == 6
    assert set(done.calls) == {"oke bootstrap", "sleep 20"}


DISKS = {"mdadm": "exit 0", "mkfs.ext4": "exit 0", "blkid": "echo 1234", "mkdir": "exit 0", "mount": "exit 0"}
FOLDERS = ["/var/lib/containers", "/var/lib/kubelet", "/var/log/pods"]


def boot_with_disks(root: Path, stubs: dict[str, str]) -> tuple[Boot, list[str]]:
    """The boot of a machine with two local disks, and the lines of its fstab."""
    for name in ("nvme0n1", "nvme1n1"):
        (root / name).touch()
    script = SET_SCRIPT.replace("/dev/nvme*n1", f"{root}/nvme*n1").replace("/etc/fstab", f"{root}/fstab")
    done = boot(root, DISKS | stubs, script=script)
    return done, (root / "fstab").read_text().splitlines() if (root / "fstab").exists() else []


def test_a_node_has_its_array_before_it_joins_and_after_a_restart(tmp_path):
    done, fstab = boot_with_disks(tmp_path, JOINS)
    made_of = f"{tmp_path}/nvme0n1 {tmp_path}/nvme1n1"
    assert done.calls[0] == f"mdadm --create /dev/md/local --run --force --level=0 --raid-devices=2 {made_of}"
    assert done.calls[1] == "mkfs.ext4 -q -F -m 1 /dev/md/local"
    assert [call for call in done.calls if call.startswith("mount")] == [f"mount {each}" for each in ["/mnt/local", *FOLDERS]]
    assert done.calls[-1] == f"oke bootstrap {EXTRA}"
    assert fstab[0].startswith("UUID=1234 /mnt/local ext4 noatime,nofail,")
    assert [line.split()[:2] for line in fstab[1:]] == [[f"/mnt/local{each}", each] for each in FOLDERS]
    assert all("x-systemd.before=crio.service,x-systemd.before=kubelet.service" in line for line in fstab)


@pytest.mark.parametrize("command", sorted(DISKS.keys() - {"blkid"}))
def test_a_node_joins_without_its_array(tmp_path, command):
    done, _ = boot_with_disks(tmp_path, JOINS | {command: "exit 1"})
    assert done.status == 0
    assert done.calls[-1] == f"oke bootstrap {EXTRA}", "its boot volume is as large as the plan counts with"
    assert done.calls.count(done.calls[-2]) == 1, "nothing follows the command that failed"


def test_okes_own_script_gets_the_flags_of_kubelet(tmp_path):
    done, _ = boot_with_disks(tmp_path, {"curl": f"echo {base64.b64encode(b'echo init $* >>$CALLS').decode()}"})
    assert done.calls[-1] == f"init {EXTRA}"


def test_a_node_that_gets_no_script_runs_none(tmp_path):
    done = boot(tmp_path, {"curl": f"{GIVES_SCRIPT}; exit 22"})
    assert done == Boot(22, [ASKS_METADATA]), "half a script is none"


def test_running_jobs_are_not_evicted_by_an_update_and_system_nodes_are_replaced_one_by_one(preview):
    assert pool(preview).inputs["nodePoolCyclingDetails"] == {"isNodeCyclingEnabled": False}
    assert pool(preview, "system").inputs["nodePoolCyclingDetails"] == {
        "isNodeCyclingEnabled": True,
        "maximumSurge": "1",
        "maximumUnavailable": "0",
    }
    for each in of_type(preview, NODE_POOL):
        assert each.inputs["nodeEvictionNodePoolSettings"] == {
            "evictionGraceDuration": "PT60M",
            "isForceDeleteAfterGraceDuration": True,
        }


def test_another_shape_is_another_pool(preview):
    assert pool(preview).replace_on_changes == ("nodeShape",), "OKE would give it to new nodes alone, under the old labels"


def test_pools_wait_for_routes_rules_and_control_plane(preview):
    rules = [rule.urn for rule in of_type(preview, RULE)]
    assert len(rules) > 10
    needed = {the(preview, "oci:ContainerEngine/cluster:Cluster").urn, *rules} | {
        each.urn
        for each in preview.resources
        if each.type in ("oci:Core/natGateway:NatGateway", "oci:Core/serviceGateway:ServiceGateway")
    }
    for each in of_type(preview, NODE_POOL):
        assert needed <= before(preview, each), f"{each.name} may start and never join"


def test_a_pool_may_stand_in_some_of_the_clusters_domains_alone():
    recording = planned(**IN_DOMAINS)
    places = named(recording, "sjc-a10-nodes", NODE_POOL).inputs["nodeConfigDetails"]["placementConfigs"]
    assert [place["availabilityDomain"] for place in places] == DOMAINS[1:2], "a domain without the shape holds the pool up"
    system = named(recording, "sjc-system-nodes", NODE_POOL).inputs["nodeConfigDetails"]["placementConfigs"]
    assert [place["availabilityDomain"] for place in system] == DOMAINS
