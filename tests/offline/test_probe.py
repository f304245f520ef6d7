"""A machine from the output of its own tools: real formats, made-up machines."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from typer.testing import CliRunner

from fleet.facts import hardware
from fleet.facts.errors import InputError
from fleet.facts.yaml_text import yaml_text
from gpu_ci.cli import app
from gpu_ci.offline.probe import machine
from tests.examples import examples

# util-linux 2.39
LSCPU = """\
Architecture:                         x86_64
CPU op-mode(s):                       32-bit, 64-bit
CPU(s):                               16
On-line CPU(s) list:                  0-15
Model name:                           AMD Ryzen 7 7700 8-Core Processor
NUMA node0 CPU(s):                    0-15
"""
LSCPU_JSON = json.dumps(
    {"lscpu": [{"field": "Architecture:", "data": "x86_64", "children": [{"field": "CPU op-mode(s):", "data": "64-bit"}]}]}
    | {"lscpu ": [{"field": "CPU(s):", "data": "16", "children": [{"field": "On-line CPU(s) list:", "data": "0-15"}]}]},
    indent=3,
)
MEMINFO = "MemTotal:       65768232 kB\nMemFree:        60123456 kB\n"
# procps 4
FREE = """\
               total        used        free      shared  buff/cache   available
Mem:        {} 4231        12001         210       15000       26000
Swap:              0           0           0
"""
LSBLK = """\
NAME        MAJ:MIN RM   SIZE RO TYPE MOUNTPOINTS
sda           8:0    1  14.9G  0 disk
zram0       251:0    0  15.6G  0 disk [SWAP]
nvme0n1     259:0    0   1.8T  0 disk
├─nvme0n1p1 259:1    0   512M  0 part /boot/efi
└─nvme0n1p2 259:2    0   1.8T  0 part /
"""
DISK = {"name": "nvme0n1", "maj:min": "259:0", "rm": False, "size": 2000398934016, "ro": False, "type": "disk", "children": []}


def lsblk(*disks: dict[str, object]) -> str:
    return json.dumps({"blockdevices": [DISK | disk for disk in disks]}, indent=3)


def smi(*gpus: tuple[str, int]) -> str:
    """`nvidia-smi -q` of driver 580, shortened."""
    text = f"==============NVSMI LOG==============\n\nAttached GPUs                             : {len(gpus)}\n"
    for number, (name, mib) in enumerate(gpus, 1):
        text += f"GPU 00000000:0{number}:00.0\n    Product Name                          : {name}\n"
        text += "    Product Brand                         : GeForce\n    Display Mode                          : Enabled\n"
        text += f"    FB Memory Usage\n        Total                             : {mib} MiB\n"
        text += "        Reserved                          : 363 MiB\n    BAR1 Memory Usage\n"
        text += "        Total                             : 262144 MiB\n"
    return text


def smi_xml(*gpus: tuple[str, int]) -> str:
    """`nvidia-smi -q -x`, shortened."""
    parts = "".join(
        f'\t<gpu id="00000000:0{number}:00.0">\n\t\t<product_name>{name}</product_name>\n'
        f"\t\t<fb_memory_usage>\n\t\t\t<total>{mib} MiB</total>\n\t\t</fb_memory_usage>\n\t</gpu>\n"
        for number, (name, mib) in enumerate(gpus, 1)
    )
    head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
    return f"{head}\t<attached_gpus>{len(gpus)}</attached_gpus>\n{parts}</nvidia_smi_log>\n"


PART = "    MIG Device\n        Index      : 0\n        FB Memory Usage\n            Total      : 4864 MiB\n"
MIG = smi(("NVIDIA A100-SXM4-40GB", 40960)).replace("    FB Memory Usage\n", f"{PART}    FB Memory Usage\n", 1)


def talos(*resources: tuple[str, str, dict[str, object]]) -> list[dict[str, object]]:
    return [{"node": "192.0.2.20", "metadata": {"type": kind, "id": name}, "spec": spec} for kind, name, spec in resources]


def yaml(documents: list[dict[str, object]]) -> str:
    """As `talosctl get … -o yaml` prints it."""
    return "---\n".join(map(yaml_text, documents))


CARD: dict[str, object] = {"class": "Display controller", "class_id": "0x03", "vendor_id": "0x10de", "product_id": "0x2684"}
TALOS = talos(
    ("Processors.hardware.talos.dev", "CPU-0", {"socket": "AM5", "coreCount": 8, "coreEnabled": 8, "threadCount": 16}),
    ("MemoryModules.hardware.talos.dev", "DIMM-0", {"sizeMiB": 32768}),
    ("MemoryModules.hardware.talos.dev", "DIMM-1", {"sizeMiB": 32768}),
    ("MemoryModules.hardware.talos.dev", "DIMM-2", {}),
    ("Disks.block.talos.dev", "loop0", {"size": 4096, "readonly": True, "cdrom": False, "bus_path": "/virtual"}),
    ("Disks.block.talos.dev", "sda", {"size": 4000787030016, "readonly": False, "cdrom": False, "transport": "sata"}),
    ("Disks.block.talos.dev", "nvme0n1", {"size": 1000204886016, "readonly": False, "cdrom": False, "transport": "nvme"}),
    ("Disks.block.talos.dev", "sdb", {"size": 16000000000, "readonly": False, "cdrom": False, "transport": "usb"}),
    ("SystemDisks.block.talos.dev", "system-disk", {"diskID": "nvme0n1", "devPath": "/dev/nvme0n1"}),
    ("PCIDevices.hardware.talos.dev", "0000:01:00.0", CARD | {"product": "AD102 [GeForce RTX 4090]"}),
    ("PCIDevices.hardware.talos.dev", "0000:01:00.1", CARD | {"class_id": "0x04", "product": "AD102 High Definition Audio"}),
    ("PCIDevices.hardware.talos.dev", "0000:10:00.0", {"class_id": "0x03", "vendor_id": "0x1002", "product": "Raphael"}),
)
RTX4090, RTX3060 = ("NVIDIA GeForce RTX 4090", 24564), ("NVIDIA GeForce RTX 3060", 12288)
TOWER = {"gpu": "RTX 4090", "gpuMemory": "24564Mi", "cpus": 16, "memory": "64226Mi", "disk": "1863Gi"}


def of(*texts: str, **options: str) -> dict[str, object]:
    return machine({f"{number}.txt": text for number, text in enumerate(texts)}, **options)


@pytest.mark.parametrize(
    ("texts", "options", "expected"),
    [
        ((LSCPU, MEMINFO, smi(RTX4090), lsblk({})), {}, TOWER),
        # One file with everything, from Windows.
        (((LSCPU + MEMINFO + smi(RTX4090) + LSBLK).replace("\n", "\r\n"),), {}, TOWER | {"disk": "1792Gi"}),
        ((LSCPU_JSON, FREE.format("65768232"), smi_xml(RTX4090), lsblk({"size": "2000398934016", "rm": "0"})), {}, TOWER),
        # Rounded sizes count with the least that they may be: 61.5 GiB, 931.45 GiB.
        (
            (LSCPU, FREE.format("62Gi"), smi(RTX4090), lsblk({"size": "931.5G"})),
            {},
            TOWER | {"memory": "62976Mi", "disk": "931Gi"},
        ),
        # GPUs of one model count together, each with the least memory of them.
        ((LSCPU, MEMINFO, smi(RTX4090, RTX4090), LSBLK), {}, TOWER | {"gpus": 2, "disk": "1792Gi"}),
        # The model of several sizes by its memory; with ECC a card shows less.
        ((LSCPU, MEMINFO, smi(RTX3060), lsblk({})), {}, TOWER | {"gpu": "RTX 3060", "gpuMemory": "12288Mi"}),
        (
            (LSCPU, MEMINFO, smi(("NVIDIA GeForce RTX 3060", 8192)), lsblk({})),
            {},
            TOWER | {"gpu": "RTX 3060 8GB", "gpuMemory": "8192Mi"},
        ),
        ((LSCPU, MEMINFO, smi(("Tesla T4", 15360)), lsblk({})), {}, TOWER | {"gpu": "T4", "gpuMemory": "15360Mi"}),
        ((LSCPU, MEMINFO, MIG, lsblk({})), {}, TOWER | {"gpu": "A100", "gpuMemory": "40960Mi"}),
        # One of several disks, and an Arm machine.
        ((LSCPU, MEMINFO, smi(RTX4090), lsblk({}, {"name": "sda"})), {"disk": "/dev/sda"}, TOWER),
        (
            (LSCPU.replace("x86_64", "aarch64"), MEMINFO, smi(RTX4090), lsblk({})),
            {},
            TOWER | {"arch": "arm64"},
        ),
        # Talos shows the disk on which it is, and no memory of GPUs.
        (
            (yaml(TALOS),),
            {},
            {"gpu": "RTX 4090", "cpus": 16, "memory": "65536Mi", "disk": "931Gi"},
        ),
        (
            ("\n".join(json.dumps(document, indent=4) for document in TALOS).replace("RTX 4090", "RTX 3060 Lite Hash Rate"),),
            {"gpu": "RTX 3060"},
            {"gpu": "RTX 3060", "cpus": 16, "memory": "65536Mi", "disk": "931Gi"},
        ),
    ],
)
def test_a_machine_is_what_its_tools_printed(
    texts: tuple[str, ...], options: dict[str, str], expected: dict[str, object]
) -> None:
    assert of(*texts, **options) == expected


LAPTOP = ("NVIDIA GeForce RTX 4090 Laptop GPU", 16376)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((LSCPU, MEMINFO, lsblk({})), "gpu: none of the outputs shows it; add a file with the output of nvidia-smi -q"),
        ((MEMINFO, smi(RTX4090), lsblk({})), "cpus: none of the outputs shows it; add a file with the output of lscpu"),
        (
            (LSCPU, smi(RTX4090), lsblk({})),
            "memory: none of the outputs shows it; add a file with the output of cat /proc/meminfo",
        ),
        ((LSCPU, MEMINFO, smi(RTX4090)), "disk: none of the outputs shows it; add a file with the output of lsblk -J -b"),
        (("top - 20:11:02 up 3 days",), "0.txt: shows no hardware that probe reads; save there: nvidia-smi -q"),
        ((LSCPU, MEMINFO, smi(LAPTOP), LSBLK), "gpu: 'NVIDIA GeForce RTX 4090 Laptop GPU' of 16376 MiB is in no row of"),
        # A virtual GPU is a part of a card, and a size that no card of the model has is another part.
        ((LSCPU, MEMINFO, smi(("NVIDIA A10-8Q", 8192)), LSBLK), "gpu: 'NVIDIA A10-8Q' of 8192 MiB is in no row of"),
        (
            (LSCPU, MEMINFO, smi(("NVIDIA GeForce RTX 4090", 49140)), LSBLK),
            "gpu: 'NVIDIA GeForce RTX 4090' of 49140 MiB is in no row",
        ),
        (
            (LSCPU, MEMINFO, smi(RTX4090, RTX3060), LSBLK),
            "gpu: one machine has NVIDIA GeForce RTX 3060 and NVIDIA GeForce RTX 4090; a pool has GPUs of one model",
        ),
        (
            (LSCPU, MEMINFO, smi(RTX4090, RTX4090)[:400], LSBLK),
            "2.txt: nvidia-smi counts 2 GPUs and the text has 1; save its whole",
        ),
        (
            (yaml(TALOS).replace("RTX 4090", "RTX 3060"),),
            "gpu: 'GeForce RTX 3060' is sold with several sizes of memory, and the outputs do not show which; add the output of "
            "nvidia-smi -q, or --gpu with one of: RTX 3060 8GB, RTX 3060",
        ),
        ((LSCPU, LSCPU.replace("16", "8")), "cpus: 16 and 8 in two outputs; give the outputs of one machine at a time"),
        (
            (LSCPU, MEMINFO, smi(RTX4090), lsblk({}, {"name": "sda"})),
            "--disk: there are several; name the one on which Talos keeps containers, one of: nvme0n1 1863Gi, sda 1863Gi",
        ),
        ((LSCPU, MEMINFO, smi(RTX4090), lsblk({})[:60]), "3.txt: not the whole JSON of lsblk or talosctl; save its output again"),
        ((LSBLK.replace("part /\n", "part /mnt/wslg/distro\n"),), "0.txt: WSL shows a virtual disk of 1 TB"),
        ((LSCPU.replace("Architecture", "Architektur"),), "0.txt: lscpu shows no Architecture that GPU nodes have"),
        # An empty slot has zero MiB, and it counts as nothing.
        ((yaml(talos(("MemoryModules.hardware.talos.dev", "DIMM-0", {"sizeMiB": 0}))),), "0.txt: shows no hardware that probe"),
        # Bytes of free -b are not read as KiB.
        ((LSCPU, FREE.format("67346669568"), smi(RTX4090), LSBLK), "1.txt: shows no hardware that probe reads"),
    ],
)
def test_what_is_missing_or_unclear_is_one_error(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as error:
        of(*texts)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("gpu", [gpu for gpu in hardware.gpus().values() if gpu.vendor == "nvidia"], ids=lambda gpu: gpu.name)
def test_each_gpu_of_the_table_is_read_as_itself(gpu: hardware.Gpu) -> None:
    mib = gpu.memory_mib or 40960
    brand = "NVIDIA GeForce " if gpu.name.startswith(("RTX 2", "RTX 3", "RTX 4", "RTX 5", "GTX")) else "NVIDIA "
    name = gpu.name + " Generation" * gpu.name.endswith(" Ada") + " Blackwell" * gpu.name.startswith("RTX PRO")
    found = of(LSCPU, MEMINFO, smi((brand + name.removesuffix(f" {mib // 1024}GB"), mib)), lsblk({}))
    assert found["gpu"] == gpu.name


@given(
    st.lists(
        st.sampled_from(
            [*(LSCPU + MEMINFO + LSBLK).split(), "{", '"blockdevices":', ".talos.dev", "\n", "GPU 00000000:01:00.0\n"]
        )
    )
)
@settings(max_examples=examples(50), database=None)
def test_any_text_is_a_machine_or_one_error(words: list[str]) -> None:
    with suppress(InputError):
        assert of(" ".join(words))["cpus"] == 16


def test_the_command_prints_a_block_of_the_stack_file(tmp_path: Path) -> None:
    saved = tmp_path / "saved.txt"
    saved.write_bytes((LSCPU + MEMINFO + smi(RTX4090)).encode("utf-16"))
    (tmp_path / "disks.json").write_text(lsblk({}))
    done = CliRunner().invoke(app, ["probe", str(saved), str(tmp_path / "disks.json"), "--name", "tower"])
    assert done.exit_code == 0, done.output
    line = "{gpu: RTX 4090, gpuMemory: 24564Mi, cpus: 16, memory: 64226Mi, disk: 1863Gi}"
    assert done.stdout == f"machines:\n  tower: {line}\n"
    again = CliRunner().invoke(app, ["probe"], input=LSCPU + MEMINFO + smi(RTX4090) + LSBLK)
    assert again.stdout.startswith("machines:\n  machine: {gpu: RTX 4090, ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such-file"], "no-such-file: cannot be read (No such file or directory); name a file with saved output"),
        (["/dev/zero"], "/dev/zero: cannot be read (it is not a regular file); name a file with saved output"),
        (["--name", "g4dn.xlarge"], "--name: a name is a DNS label"),
    ],
)
def test_a_wrong_argument_is_one_error_line(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["probe", *words], input="")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("content", [b"\xff" * 10 + b"\xfe", b"x" * 5_000_001])
def test_no_text_and_no_end_is_one_error_line(content: bytes) -> None:
    done = CliRunner().invoke(app, ["probe"], input=content)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
