"""The hardware table against what AWS' API says (moto, botocore), Karpenter and the price lists."""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import re
import subprocess
import sys
from functools import cache
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import Any

import moto.ec2
import pytest
from botocore.loaders import Loader

from fleet.facts import hardware
from fleet.facts.disks import ebs_mibps
from fleet.facts.hardware import Machine
from tests.builders import reference
from tests.cases import cases

ROOT = Path(hardware.__file__).parents[2]
EC2 = hardware.machines("aws")
EC2_GPU_FAMILIES = sorted({machine.name.split(".")[0] for machine in EC2 if machine.gpus})

# AWS' announcement of P3 (2017, as reprinted by InfoQ China on 2019-11-07): GPUs, vCPU, GiB, Gbps at most.
P3_OF_AWS = {"p3.2xlarge": (1, 8, 61, 10), "p3.8xlarge": (4, 32, 244, 10), "p3.16xlarge": (8, 64, 488, 25)}
# aws/amazon-vpc-cni-k8s misc/eni-max-pods.txt: p3, which moto lacks, and types with several cards or odd limits.
PODS_OF_AWS = {
    "p3.2xlarge": 58,
    "p3.8xlarge": 234,
    "p3.16xlarge": 234,
    "p3dn.24xlarge": 737,
    "g5.48xlarge": 345,
    "g6e.24xlarge": 492,
    "p4d.24xlarge": 737,
    "p5.48xlarge": 100,
    "p5en.48xlarge": 198,
    "t3.large": 35,
}


@cache
def api() -> dict[str, Any]:
    """EC2's DescribeInstanceTypes as moto recorded it."""
    table = Path(moto.ec2.__file__).parent / "resources" / "instance_types.json.gz"
    return dict(json.loads(gzip.decompress(table.read_bytes())))


def both() -> list[Machine]:
    return [machine for machine in EC2 if machine.name in api()]


def price_rows(path: str) -> list[dict[str, str]]:
    with reference(path).open(newline="") as table:
        return list(csv.DictReader(table))


UNITS = {
    "eks-control-plane": 0.10,
    "eks-control-plane-extended": 0.60,
    "nat-gateway": 0.045,
    "nat-gateway-gb": 0.045,
    "public-ipv4": 0.005,
    "log-gb": 0.5,
    "github-runner-minute": 0.0,
    "github-gpu-minute": 0.052,
    "kms-key": 1 / 730,
    "ecr-gb": 0.10 / 730,
    "gp3-gb": 0.08 / 730,
    "gp3-iops": 0.005 / 730,
    "gp3-mibps": 0.04 / 730,
    "ebs-snapshot-gb": 0.05 / 730,
    "efs-gb": 0.30 / 730,
    "s3-gb": 0.023 / 730,
    "oke-enhanced-cluster": 0.10,
    "oci-e5-ocpu": 0.03,
    "oci-e5-gb": 0.002,
    # Storage, and ten performance units: USD a GB-month.
    "oci-volume-gb": (0.025 + 10 * 0.0017) / 730,
    "oci-vpu-gb": 0.0017 / 730,
    "oci-fss-gb": 0.30 / 730,
}
"""What is paid by the hour beside machines, in USD."""
SOURCED = {
    "ebs-snapshot-gb": {"us-east-1"},
    "gp3-iops": {"us-east-1"},
    "gp3-mibps": {"us-east-1"},
    "efs-gb": {"us-east-1", "us-west-2"},
}
"""Regions in which a source names the price, where that is not all of our own."""


def own_rows(name: str) -> list[dict[str, str]]:
    with (ROOT / "fleet" / "facts" / "data" / name).open(newline="") as table:
        return list(csv.DictReader(table))


def default_card(name: str) -> dict[str, Any]:
    network = api()[name]["NetworkInfo"]
    index = network["DefaultNetworkCardIndex"]
    return next(dict(card) for card in network["NetworkCards"] if card["NetworkCardIndex"] == index)


# --- EC2 as its API has it


@cases("machine", both())
def test_an_ec2_type_is_what_the_api_says(machine: Machine) -> None:
    truth = api()[machine.name]
    gpus = truth.get("GpuInfo", {}).get("Gpus", [])
    assert machine.gpus == sum(gpu["Count"] for gpu in gpus)
    assert machine.gpu_memory_mib == (gpus[0]["MemoryInfo"]["SizeInMiB"] if gpus else 0)
    assert machine.vcpus == truth["VCpuInfo"]["DefaultVCpus"]
    assert machine.memory_mib == truth["MemoryInfo"]["SizeInMiB"]
    assert machine.arch in truth["ProcessorInfo"]["SupportedArchitectures"]
    assert machine.nvme_gb == truth.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    assert machine.bare_metal == truth["BareMetal"]


@cases("machine", both())
def test_network_cards_efa_and_capacity_blocks_are_what_the_api_says(machine: Machine) -> None:
    truth = api()[machine.name]
    network = truth["NetworkInfo"]
    assert machine.network_cards == network["MaximumNetworkCards"]
    assert machine.efa_interfaces == network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    assert machine.efa_interfaces <= machine.network_cards, "the launch template has one EFA for each card"
    assert machine.capacity_block == ("capacity-block" in truth["SupportedUsageClasses"])


@cases("machine", both())
def test_the_traffic_with_ebs_volumes_is_what_the_api_says(machine: Machine) -> None:
    truth = api()[machine.name]["EbsInfo"]["EbsOptimizedInfo"]
    assert (machine.ebs_baseline_mbps, machine.ebs_mbps) == (truth["BaselineBandwidthInMbps"], truth["MaximumBandwidthInMbps"])
    assert ebs_mibps(machine) == int(truth["MaximumThroughputInMBps"] * 10**6 / 2**20)


def test_a_capacity_block_has_a_price_of_its_own_or_none() -> None:
    block = hardware.price("p5en.48xlarge", "us-east-2", hardware.CAPACITY_BLOCK)
    assert block is not None
    assert (block.usd_per_hour, block.at_most) == (41.61, False)
    assert hardware.price("p4d.24xlarge", "us-east-2", hardware.CAPACITY_BLOCK) is None, "the on-demand price does not bound it"


@cases("machine", both())
def test_pods_are_limited_by_the_addresses_of_the_default_network_card(machine: Machine) -> None:
    addresses = api()[machine.name]["NetworkInfo"]["Ipv4AddressesPerInterface"]
    assert machine.max_pods == default_card(machine.name)["MaximumNetworkInterfaces"] * (addresses - 1) + 2


@cases("machine", both())
def test_the_gpu_name_is_the_apis(machine: Machine) -> None:
    named = {gpu["Name"] for gpu in api()[machine.name].get("GpuInfo", {}).get("Gpus", [])}
    ours = set() if machine.gpu is None else {machine.gpu.name}
    assert ours == {name.replace("RTX PRO Server 6000", "RTX PRO 6000") for name in named}


def test_every_size_of_the_gpu_families_is_in_the_table() -> None:
    known = {machine.name for machine in EC2}
    listed = {name for name in api() if name.split(".")[0] in EC2_GPU_FAMILIES}
    assert len(listed) > 40, "moto's table has lost the GPU families: this test would see nothing"
    assert listed - known == set()
    assert len(EC2_GPU_FAMILIES) >= 14
    assert all(machine.gpus for machine in EC2 if machine.name.split(".")[0] in EC2_GPU_FAMILIES), "each size of them has GPUs"


@pytest.mark.parametrize(("name", "truth"), P3_OF_AWS.items())
def test_p3_is_what_aws_published(name: str, truth: tuple[int, int, int, int]) -> None:
    machine = hardware.machine(name)
    gpus, vcpus, gib, gbps = truth
    assert (machine.gpus, machine.vcpus, machine.memory_mib) == (gpus, vcpus, gib * 1024)
    assert machine.gpu_memory_mib == 16 * 1024
    assert 0 < machine.network_gbps <= gbps
    assert machine.nvme_gb == 0


@cases(("name", "pods"), PODS_OF_AWS.items())
def test_pods_are_those_of_awss_own_list(name: str, pods: int) -> None:
    assert hardware.machine(name).max_pods == pods


def test_ec2_knows_every_name() -> None:
    enum = set(Loader().load_service_model("ec2", "service-2")["shapes"]["InstanceType"]["enum"])
    assert {machine.name for machine in EC2} - enum == set()


def test_a_size_spans_both_sockets_exactly_when_it_has_more_than_half_of_the_host() -> None:
    for family in EC2_GPU_FAMILIES:
        sizes = [machine for machine in EC2 if machine.name.split(".")[0] == family]
        host = max(machine.vcpus for machine in sizes)
        assert {machine.name: machine.sockets for machine in sizes} == {
            machine.name: 2 if machine.vcpus * 2 > host else 1 for machine in sizes
        }


# --- the table holds together


@cases("machine", hardware.machines())
def test_every_machine_makes_sense(machine: Machine) -> None:
    assert machine.cloud in ("aws", "oci")
    assert machine.arch in ("x86_64", "arm64")
    assert machine.vcpus > 0
    assert machine.memory_mib >= 1024
    assert machine.sockets in (1, 2)
    assert machine.nvme_gb >= 0
    assert machine.network_gbps >= 0
    assert (machine.gpu is None) == (machine.gpus == 0) == (machine.gpu_memory_mib == 0)
    assert (machine.max_pods is None) == (machine.cloud != "aws")
    if machine.cloud == "oci":
        assert machine.bare_metal == machine.name.startswith("BM."), "OCI's prefix says what is bare metal"
        assert machine.name.endswith(f".{machine.gpus}"), "an OCI GPU shape ends with its GPU count"


def test_a_name_occurs_once_in_each_table() -> None:
    for table, key in (("instances.csv", ("name",)), ("gpus.csv", ("name",))):
        names = [tuple(row[part] for part in key) for row in own_rows(table)]
        assert len(names) == len(set(names)), f"{table}: a second row would silently win"
    keys = [(row["item"], row["region"], row["capacity"]) for row in own_rows("prices.csv")]
    assert len(keys) == len(set(keys)), "prices.csv: a second row would silently win"


def test_the_gpu_of_every_machine_has_a_row_with_its_memory() -> None:
    for machine in hardware.machines():
        if machine.gpus:
            assert machine.gpu is not None, machine.name
            assert machine.gpu.memory_mib in (0, machine.gpu_memory_mib), machine.name
    assert all(gpu.memory_mib or gpu.name in ("A100", "H100", "P100", "V100") for gpu in hardware.gpus().values())


def test_only_nvidia_has_a_compute_capability_and_mig() -> None:
    for gpu in hardware.gpus().values():
        assert bool(gpu.compute_capability) == (gpu.vendor == "nvidia")
        assert re.fullmatch(rf"{gpu.vendor}-[a-z0-9-]+", gpu.accelerator), "a label value"
        assert not (gpu.mig and gpu.vendor == "amd")


def test_volta_and_older_end_at_driver_580_and_blackwell_starts_at_570() -> None:
    for gpu in hardware.gpus().values():
        assert gpu.max_driver_branch == (580 if gpu.architecture in ("maxwell", "pascal", "volta") else None)
        assert (gpu.min_driver_branch is not None) == (gpu.architecture == "blackwell")
        assert gpu.min_driver_branch is None or gpu.min_driver_branch >= 570


def test_mig_is_for_the_gpus_of_nvidias_list() -> None:
    capable = {machine.gpu.name for machine in hardware.machines() if machine.gpu and machine.gpu.mig}
    assert capable == {"A100", "H100", "H200", "B200", "B300", "GB200", "GB300", "RTX PRO 6000"}


def test_the_accelerator_label_is_what_cluster_autoscaler_knows() -> None:
    labels = {m.gpu.name: m.gpu.accelerator for m in hardware.machines() if m.gpu}
    known = {
        "P100": "nvidia-tesla-p100",
        "V100": "nvidia-tesla-v100",
        "T4": "nvidia-tesla-t4",
        "A100": "nvidia-tesla-a100",
        "A10G": "nvidia-a10g",
        "L4": "nvidia-l4",
        "L40S": "nvidia-l40s",
    }
    assert {name: labels[name] for name in known} == known


# --- finding machines


def test_machines_of_a_cloud_are_a_part_in_table_order() -> None:
    everything = hardware.machines()
    parts = [machine for cloud in ("aws", "oci") for machine in hardware.machines(cloud)]
    assert parts == list(everything)
    assert [machine.name for machine in everything] == [row["name"] for row in own_rows("instances.csv")]


def test_a_wrong_name_is_answered_with_close_ones() -> None:
    with pytest.raises(hardware.UnknownMachine) as caught:
        hardware.machine("g4dn.2xlrage")
    assert "'g4dn.2xlrage'" in str(caught.value)
    assert "g4dn.2xlarge" in str(caught.value)
    assert str(caught.value).count("g4dn.") <= 4, "three proposals at most, beside the name itself"
    assert isinstance(caught.value, KeyError)


def test_a_name_like_no_other_says_where_the_names_are() -> None:
    with pytest.raises(hardware.UnknownMachine, match=r"instances\.csv"):
        hardware.machine("???")


# --- prices


@cases("row", own_rows("prices.csv"))
def test_a_price_row_is_positive_dated_sourced_and_of_something_known(row: dict[str, str]) -> None:
    assert float(row["usd_per_hour"]) > 0 or row["item"] == "github-runner-minute", "GitHub has postponed its charge"
    assert datetime.date.fromisoformat(row["date"]) <= datetime.datetime.now(datetime.UTC).date()
    assert row["source"].strip()
    if row["capacity"] == "unit":
        assert row["item"] in UNITS
        everywhere = row["item"].startswith(("oke-", "oci-", "github-")) or row["item"] == "public-ipv4"
        assert (row["region"] == "*") == everywhere or row["item"] == "log-gb", "OCI has one price list for all regions"
    else:
        sold = ("on-demand", "spot", *["capacity-block"] * hardware.machine(row["item"]).capacity_block)
        assert row["capacity"] in sold
        cloud = hardware.machine(row["item"]).cloud
        assert (row["region"] == "*") == (cloud != "aws"), "EC2 prices are a region's; the others hold everywhere"


def test_every_source_is_explained() -> None:
    text = (ROOT / "fleet" / "facts" / "data" / "README.md").read_text()
    assert {row["source"] for row in own_rows("prices.csv") if f"| {row['source']} |" not in text} == set()


def test_on_demand_is_exact() -> None:
    price = hardware.price("g4dn.2xlarge", "us-east-1", "on-demand")
    assert price is not None
    assert (price.usd_per_hour, price.at_most, price.date) == (0.752, False, "2026-07-20")
    assert "Karpenter" in price.source


def ec2_prices() -> dict[str, dict[str, float]]:
    """The on-demand price of each EC2 type by region."""
    found: dict[str, dict[str, float]] = {}
    for row in own_rows("prices.csv"):
        if row["capacity"] == "on-demand" and row["region"] != "*":
            found.setdefault(row["item"], {})[row["region"]] = float(row["usd_per_hour"])
    return found


def test_every_size_of_a_family_has_the_same_factor_in_a_region() -> None:
    """In a region AWS sells all sizes of a family at one factor of their price in us-east-1, to a thousandth."""
    factors: dict[tuple[str, str], dict[str, float]] = {}
    for name, prices in ec2_prices().items():
        for region, usd in prices.items():
            factors.setdefault((name.partition(".")[0], region), {})[name] = usd / prices["us-east-1"]
    assert len(factors) > 100
    for (family, region), of_family in factors.items():
        middle = median(of_family.values())
        assert {name: usd for name, usd in of_family.items() if abs(usd / middle - 1) > 0.001} == {}, (family, region)
        assert 0.8 < middle < 1.6, f"{family} in {region} costs {middle} times what it costs in us-east-1"


def test_a_larger_machine_of_a_family_costs_more_in_every_region() -> None:
    prices = ec2_prices()
    for small, large in permutations(map(hardware.machine, prices), 2):
        same = small.name.partition(".")[0] == large.name.partition(".")[0]
        if same and small.vcpus < large.vcpus and small.gpus <= large.gpus:
            for region in prices[small.name].keys() & prices[large.name].keys():
                assert prices[small.name][region] < prices[large.name][region], (small.name, large.name, region)


def test_what_a_cluster_needs_besides_machines_costs_about_the_same_everywhere() -> None:
    units: dict[str, list[float]] = {}
    for row in own_rows("prices.csv"):
        if row["capacity"] == "unit":
            units.setdefault(row["item"], []).append(float(row["usd_per_hour"]))
    for item, prices in units.items():
        assert max(prices) <= 1.6 * median(prices), item
        assert min(prices) >= median(prices) / 1.6, item


def test_spot_without_a_price_of_its_own_is_bounded_by_on_demand() -> None:
    spot, on_demand = (hardware.price("g4dn.2xlarge", "us-west-2", capacity) for capacity in ("spot", "on-demand"))
    assert spot is not None
    assert on_demand is not None
    assert spot.at_most
    assert not on_demand.at_most
    assert (spot.usd_per_hour, spot.source, spot.date) == (on_demand.usd_per_hour, on_demand.source, on_demand.date)


def test_a_sourced_spot_price_is_exact_and_no_dearer_than_on_demand() -> None:
    exact = [row["item"] for row in own_rows("prices.csv") if row["capacity"] == "spot"]
    assert exact, "no spot row left: this test would see nothing"
    for name in exact:
        spot, on_demand = (hardware.price(name, "eu-frankfurt-1", capacity) for capacity in ("spot", "on-demand"))
        assert spot is not None
        assert on_demand is not None
        assert not spot.at_most
        assert spot.usd_per_hour <= on_demand.usd_per_hour


@cases("capacity", ["on-demand", "spot", "reserved"])
@cases(
    ("name", "region"),
    [("p5e.48xlarge", "us-east-2"), ("g4dn.xlarge", "af-south-1"), ("BM.GPU.B4.8", "us-ashburn-1"), ("none.such", "*")],
)
def test_an_unknown_price_is_none(name: str, region: str, capacity: str) -> None:
    assert hardware.price(name, region, capacity) is None


def test_a_capacity_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="on-demand, spot, reserved or capacity-block"):
        hardware.price("g4dn.xlarge", "us-east-1", "unit")


def test_reserved_capacity_costs_what_it_does_on_demand_and_on_oci_at_most_that() -> None:
    for name, region, bound in (("p4d.24xlarge", "us-east-1", False), ("BM.GPU4.8", "us-sanjose-1", True)):
        reserved, on_demand = (hardware.price(name, region, capacity) for capacity in ("reserved", "on-demand"))
        assert reserved is not None
        assert on_demand is not None
        assert (reserved.usd_per_hour, reserved.at_most) == (on_demand.usd_per_hour, bound)
        assert (reserved.source, reserved.date) == (on_demand.source, on_demand.date)
    assert hardware.price("p5e.48xlarge", "us-east-1", "reserved") is None, "without a price there is not a bound"
    held = hardware.price("VM.GPU3.1", "us-sanjose-1", "reserved")
    assert held is not None
    assert (held.usd_per_hour, held.at_most) == (2.95, True), "of on-demand, not of the preemptible price"


PREEMPTIBLE = ("VM.GPU2.", "VM.GPU3.")
"""Series of Oracle's list (docs.oracle.com, preemptible instances, 2025-02-11) that have a GPU."""


@cases("machine", hardware.machines())
def test_spot_is_what_the_cloud_sells_so(machine: Machine) -> None:
    sold = {"aws": True, "oci": machine.name.startswith(PREEMPTIBLE)}
    assert hardware.preemptible(machine) is sold[machine.cloud]


def test_a_preemptible_shape_costs_half() -> None:
    for name in ("VM.GPU2.1", "VM.GPU3.1", "VM.GPU3.2", "VM.GPU3.4"):
        spot, on_demand = (hardware.price(name, "us-ashburn-1", capacity) for capacity in ("spot", "on-demand"))
        assert spot is not None
        assert on_demand is not None
        assert spot.usd_per_hour == pytest.approx(on_demand.usd_per_hour / 2), name


def test_a_flexible_shape_is_a_machine_of_any_size_without_gpu() -> None:
    found = hardware.flexible("VM.Standard.E5.Flex", 3, 24 * 1024)
    assert found.max_pods == 2 * 31, "one card is the node's own"
    assert hardware.flexible("VM.Standard.E5.Flex", 1, 8 * 1024).max_pods == 31, "two cards at least"
    assert (found.cloud, found.vcpus, found.memory_mib, found.arch) == ("oci", 6, 24 * 1024, "x86_64"), "two threads a core"
    assert (found.gpus, found.gpu, found.gpu_memory_mib, found.bare_metal) == (0, None, 0, False)
    with pytest.raises(hardware.UnknownMachine):
        hardware.machine("VM.Standard.E5.Flex")


def test_oci_prices_hold_in_every_region() -> None:
    prices = {hardware.price("VM.GPU.A10.1", region, "on-demand") for region in ("us-ashburn-1", "home", "*")}
    assert len(prices) == 1
    assert None not in prices


@cases(("item", "usd"), UNITS.items())
def test_what_a_cluster_needs_besides_machines_is_priced(item: str, usd: float) -> None:
    regions = ("us-sanjose-1", "us-ashburn-1") if item.startswith("o") else ("us-east-1", "us-east-2", "us-west-2")
    for region in regions:
        price = hardware.unit_price(item, region)
        if region not in SOURCED.get(item, regions):
            assert price is None, "add the region to SOURCED"
            continue
        assert price is not None, region
        assert not price.at_most
        assert price.usd_per_hour == pytest.approx(usd, rel=1e-5)


def test_every_unit_is_explained_beside_the_table() -> None:
    text = (ROOT / "fleet" / "facts" / "data" / "README.md").read_text()
    assert {row["item"] for row in own_rows("prices.csv") if row["capacity"] == "unit"} == set(UNITS)
    assert [item for item in UNITS if f"`{item}`" not in text] == []


def test_an_unknown_item_has_no_unit_price_and_a_machine_is_no_item() -> None:
    assert hardware.unit_price("load-balancer", "us-east-1") is None
    assert hardware.unit_price("g4dn.xlarge", "us-east-1") is None


def test_loading_needs_the_standard_library_alone() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from fleet.facts import hardware; "
        "hardware.machines(); hardware.price('g5.xlarge', 'us-east-1', 'spot'); "
        "own = {'__main__', 'fleet', 'fleet.facts', *(f'fleet.facts.{name}' for name in ('hardware', 'record', 'tables'))}; "
        "print(*sorted(m for m in sys.modules if m.split('.')[0] not in sys.stdlib_module_names and m not in own))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# --- against the source data (GPU_CI_REFERENCE)


@pytest.mark.reference
def test_ec2_agrees_with_karpenters_instance_types() -> None:
    published = json.loads(reference("instances/karpenter-instance-types-gpu.json").read_text())
    compared = 0
    for machine in EC2:
        if machine.name not in published:
            continue
        compared += 1
        labels = {key.rsplit("/", 1)[1]: value for key, value in published[machine.name]["labels"].items()}
        assert {
            "gpus": machine.gpus,
            "memory of a GPU": machine.gpu_memory_mib,
            "vCPU": machine.vcpus,
            "memory": machine.memory_mib,
            "NVMe": machine.nvme_gb,
            "Mbps": round(machine.network_gbps * 1000),
            "Mbps to EBS": machine.ebs_mbps,
            "pods": machine.max_pods,
        } == {
            "gpus": int(labels["instance-gpu-count"]),
            "memory of a GPU": int(labels["instance-gpu-memory"]),
            "vCPU": int(labels["instance-cpu"]),
            "memory": int(labels["instance-memory"]),
            "NVMe": int(labels.get("instance-local-nvme", 0)),
            "Mbps": int(labels["instance-network-bandwidth"]),
            "Mbps to EBS": int(labels["instance-ebs-bandwidth"]),
            "pods": int(published[machine.name]["resources"]["pods"]),
        }, machine.name
    assert compared == 46, "all EC2 GPU types but the three p3 sizes that Karpenter does not list"


@pytest.mark.reference
def test_oci_agrees_with_oracles_shape_index() -> None:
    index = json.loads(reference("instances/oci-gpu-shapes-index.json").read_text())["shapes"]
    left_out = {"VM.GPU3.8"}  # its OCPU count contradicts its sisters'
    spelled = {"BM.GPU.A100-V2.8": "BM.GPU.A100-v2.8"}
    docs_say = {"BM.GPU.GB200.4": 960}  # Oracle's shape page; the index has 1024
    for name, shape in index.items():
        if name in left_out:
            continue
        machine = hardware.machine(spelled.get(name, name))
        threads = 1 if machine.arch == "arm64" else 2
        assert machine.gpus == shape["gpu_count"], name
        assert machine.vcpus == shape["cpu_count"] * threads, name
        assert machine.memory_mib == docs_say.get(name, shape["cpu_memory_in_gbs"]) * 1024, name
        total = shape["gpu_memory_in_gbs"]
        assert machine.gpu_memory_mib * machine.gpus / 1024 == pytest.approx(total, rel=0.07), name
        assert machine.gpu is not None
        assert machine.gpu.name == shape["gpu_type"], name


@pytest.mark.reference
def test_on_demand_in_us_east_1_is_karpenters_table() -> None:
    listed = {
        row["instance_type"]: float(row["on_demand_usd_per_hour"])
        for row in price_rows("prices/aws-on-demand-us-east-1.csv")
        if row["instance_type"].split(".")[0] in EC2_GPU_FAMILIES
    }
    assert len(listed) > 40
    ours = {name: hardware.price(name, "us-east-1", "on-demand") for name in listed}
    assert {name: price and price.usd_per_hour for name, price in ours.items()} == listed


@pytest.mark.reference
def test_on_demand_in_the_three_regions_is_the_catalogues() -> None:
    for row in price_rows("prices/aws-gpu.csv"):
        price = hardware.price(row["instance_type"], row["region"], "on-demand")
        listed = float(row["on_demand_usd_per_hour"]) if row["on_demand_usd_per_hour"] else None
        assert (price and price.usd_per_hour) == listed, row


@pytest.mark.reference
def test_oci_prices_are_the_list_prices() -> None:
    for row in price_rows("prices/oci-gpu.csv"):
        price = hardware.price(row["shape"], "us-ashburn-1", "on-demand")
        assert price is not None, row
        assert price.usd_per_hour == float(row["usd_per_hour"]), row
        assert hardware.machine(row["shape"]).gpus == int(row["gpus"]), row
        spot = hardware.price(row["shape"], "us-ashburn-1", "spot")
        assert spot is not None
        assert spot.at_most == (not row["preemptible_usd_per_hour"]), row
        assert spot.usd_per_hour == float(row["preemptible_usd_per_hour"] or row["usd_per_hour"]), row
