"""The hardware of a machine from what its own tools printed: `lscpu`, `nvidia-smi -q`, `lsblk`, `free`, `talosctl get`.

Field names: util-linux's lscpu and lsblk, procps' free, NVIDIA's nvidia-smi (text and `-x`), and siderolabs/talos v1.13.9,
pkg/machinery/resources/hardware and block. Nothing is guessed: a fact that no output has is an error.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.facts import hardware
from fleet.facts.errors import InputError, quoted
from fleet.facts.nested import at
from fleet.facts.tables import beside
from fleet.facts.yaml_text import kubernetes_documents

_UNITS = {"B": 2**-20, "K": 2**-10, "M": 1, "G": 2**10, "T": 2**20, "P": 2**30}
"""MiB by the letter of a unit."""
_GPU_BLOCK = re.compile(r"^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f:.]+[ \t]*$|^[ \t]*<gpu id=", re.MULTILINE)
_GPU_NAME = re.compile(
    r"^[ \t]*(?:Product Name[ \t]*:[ \t]*|<product_name>)([^<\n]{1,100}?)[ \t]*(?:</product_name>.*)?$", re.MULTILINE
)
_GPU_MEMORY = re.compile(r"(?:FB Memory Usage|<fb_memory_usage>)\s+(?:Total\s*:\s*|<total>)(\d+) MiB")
_GPU_COUNT = re.compile(r"(?:^Attached GPUs\s*:\s*|<attached_gpus>)(\d+)", re.MULTILINE)
_CPUS = re.compile(r'^CPU\(s\):\s+(\d+)|"field":\s*"CPU\(s\):?",\s*"data":\s*"(\d+)"', re.MULTILINE)
_ARCH = re.compile(r'^Architecture:\s+(\S+)|"field":\s*"Architecture:?",\s*"data":\s*"(\w+)"', re.MULTILINE)
_MEMORY = re.compile(r"^MemTotal:\s+(\d+) kB|^Mem:\s+([\d.]+)([KMGTP])i?\b|^Mem:\s+(\d{7,9})\s", re.MULTILINE)
_DISK = re.compile(r"^(\w+)\s+\d+:\d+\s+0\s+([\d.,]+)([BKMGTP])?\s+0\s+disk\b", re.MULTILINE)
_BRANDS = re.compile(r"^(?:NVIDIA |GeForce |Tesla )+")
_FORMS = re.compile(
    r" Generation$| Lite Hash Rate$| Blackwell(?: (?:Max-Q )?Workstation Edition| Server Edition)?$|"
    r"-(?:PCIE|SXM\d?)(?:-\d+GB)?$| (?:\d+GB )?(?:PCIe|SXM\d?)(?: \d+GB)?$| \d+GB HBM\d$| NVL$"
)
"""What a product's name has besides that of the table: the kind of board, or its memory."""
_SIZE = re.compile(r" \d+GB$")
_SPARE = 0.1
"""nvidia-smi shows less than the nominal memory of a card: 24564 of 24576 MiB, and with ECC 15360 of 16384 MiB."""
_ARCHES = {"x86_64": "x86_64", "aarch64": "arm64"}
_SAVE: Mapping[str, str] = beside(__file__, "probe.toml")


@dataclass(slots=True)
class Facts:
    """What the outputs show so far: GPUs as name and MiB (0: not shown), disks in MiB by name."""

    gpus: list[tuple[str, int]] = field(default_factory=list)
    disks: dict[str, int] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def put(self, key: str, value: Any) -> None:
        """Keep a value. Raises InputError if another output has a different one."""
        if self.values.setdefault(key, value) != value:
            raise InputError(f"{key}: {self.values[key]} and {value} in two outputs; give the outputs of one machine at a time")

    def put_disk(self, name: str, amount: str, unit: str) -> None:
        """Keep a disk. Swap in memory is none."""
        if not name.startswith("zram"):
            self.disks[name] = _rounded(amount, unit)


def machine(outputs: Mapping[str, str], gpu: str = "", disk: str = "") -> dict[str, Any]:
    """One machine as the settings describe it, from texts by the place where they are.

    Raises InputError if a fact is missing. `gpu` is a model of the table for a card whose output does not show its memory,
    `disk` the disk of containers, if there are several.
    """
    facts = Facts()
    for place, text in outputs.items():
        before = (len(facts.gpus), len(facts.disks), len(facts.values))
        if re.search(r"/mnt/wslg?\b", text):
            why = f"{place}: WSL shows a virtual disk of 1 TB whatever the real one"
            raise InputError(f"{why}; boot Linux or Talos, and save it there")
        _read(place, text.replace("\r\n", "\n"), facts)
        if before == (len(facts.gpus), len(facts.disks), len(facts.values)):
            raise InputError(f"{place}: shows no hardware that probe reads; save there: {'; '.join(_SAVE.values())}")
    model, mib = _card(facts.gpus, gpu)
    for key in ("cpus", "memory"):
        if key not in facts.values:
            raise _missing(key)
    arch = facts.values.get("arch", "x86_64")
    settings = {
        "gpu": model.name,
        "gpus": len(facts.gpus) if len(facts.gpus) > 1 else None,
        "gpuMemory": f"{mib}Mi" if mib else None,
        "cpus": facts.values["cpus"],
        "memory": f"{facts.values['memory']}Mi",
        "disk": f"{_chosen(facts, disk) // 1024}Gi",
        "arch": arch if arch != "x86_64" else None,
    }
    return {key: value for key, value in settings.items() if value is not None}


def in_braces(settings: Mapping[str, Any]) -> str:
    """The machine as YAML on one line. No value needs quotes."""
    return f"{{{', '.join(f'{key}: {value}' for key, value in settings.items())}}}"


def _missing(key: str) -> InputError:
    return InputError(f"{key}: none of the outputs shows it; add a file with the output of {_SAVE[key]}")


def _read(place: str, text: str, facts: Facts) -> None:
    blocks = _GPU_BLOCK.split(text)[1:]
    if (count := _GPU_COUNT.search(text)) and int(count[1]) != len(blocks):
        raise InputError(f"{place}: nvidia-smi counts {count[1]} GPUs and the text has {len(blocks)}; save its whole output")
    for block in blocks:
        name, sizes = _GPU_NAME.search(block), [int(size) for size in _GPU_MEMORY.findall(block)]
        if name is None or not sizes:
            raise InputError(f"{place}: a GPU without Product Name or FB Memory Usage; save the whole output of nvidia-smi -q")
        # With MIG, each part shows its own memory before that of the whole GPU.
        facts.gpus.append((name[1], max(sizes)))
    if match := _CPUS.search(text):
        facts.put("cpus", int(match[1] or match[2]))
        arch = _ARCH.search(text)
        if (name_of := (arch[1] or arch[2]) if arch else "") not in _ARCHES:
            raise InputError(f"{place}: lscpu shows no Architecture that GPU nodes have; save it with LC_ALL=C lscpu")
        facts.put("arch", _ARCHES[name_of])
    if match := _MEMORY.search(text):
        kib, amount, unit, plain = match.groups()
        # Without an option free counts KiB. More digits are the bytes of -b.
        facts.put("memory", _rounded(amount, unit) if unit else int(kib or plain) // 1024)
    for name, amount, unit in _DISK.findall(text):
        facts.put_disk(name, amount, unit)
    if "blockdevices" in text:
        _lsblk(place, text, facts)
    if ".talos.dev" in text:
        _talos(place, text, facts)


def _rounded(amount: str, unit: str) -> int:
    """MiB of a size whose last digit is rounded: the least that it may be."""
    number = float(amount.replace(",", "."))
    return int((number - (0.05 if number % 1 else 0.5) * bool(unit)) * _UNITS[unit or "B"])


def _lsblk(place: str, text: str, facts: Facts) -> None:
    for document in _json(place, text):
        for disk in document.get("blockdevices", ()) if isinstance(document, dict) else ():
            size, removable = str(disk.get("size")), str(disk.get("rm")) in ("True", "1")
            if disk.get("type") == "disk" and (match := re.fullmatch(r"([\d.,]+)([BKMGTP])?", size)) and not removable:
                facts.put_disk(str(disk.get("name")), match[1], match[2] or "")


def _json(place: str, text: str) -> Iterator[Any]:
    """The JSON documents of a text, one behind the other. Raises InputError."""
    start, decoder = text.find("{"), json.JSONDecoder()
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            raise InputError(f"{place}: not the whole JSON of lsblk or talosctl; save its output again") from None
        yield value
        start = text.find("{", end)


def _talos(place: str, text: str, facts: Facts) -> None:
    if text.lstrip().startswith("{"):
        documents: Iterable[Any] = _json(place, text)
    else:
        documents = (document.value for document in kubernetes_documents(place, text))
    sums = Counter[str]()
    for document in documents:
        metadata, spec = at(document, "metadata"), at(document, "spec")
        match str(at(metadata, "type")).partition(".")[0], spec:
            case "Processors", {"threadCount": int(threads)}:
                sums["cpus"] += threads
            case "MemoryModules", {"sizeMiB": int(size)}:
                sums["memory"] += size
            case "Disks", {"size": int(size)}:
                virtual = spec.get("bus_path") == "/virtual" or spec.get("readonly") or spec.get("cdrom")
                if not virtual and spec.get("transport") != "usb":
                    facts.disks[str(metadata.get("id"))] = size // 2**20
            case "SystemDisks", {}:
                facts.put("system disk", str(spec.get("diskID")))
            case "PCIDevices", {"vendor_id": "0x10de", "class_id": "0x03"}:
                name = re.search(r"\[(.+)\]", str(spec.get("product")))
                facts.gpus.append((name[1] if name else str(spec.get("product")), 0))
    for key, total in (+sums).items():  # without zeros
        facts.put(key, total)


def _card(gpus: list[tuple[str, int]], choice: str) -> tuple[hardware.Gpu, int]:
    """The one model of a machine's GPUs, and the least memory that one of them shows, in MiB. Raises InputError."""
    if not gpus:
        raise _missing("gpu")
    if len(names := sorted({name for name, _ in gpus})) > 1:
        why = f"one machine has {' and '.join(names)}; a pool has GPUs of one model, so that every job gets the same"
        raise InputError(f"gpu: {why}: put them into two machines, or take one kind out")
    (name,), mib = names, min(size for _, size in gpus)
    bare = _SIZE.sub("", _FORMS.sub("", _BRANDS.sub("", name)))
    named = [gpu for gpu in hardware.gpus().values() if _SIZE.sub("", gpu.name) == bare]
    fitting = [gpu for gpu in named if not (mib and gpu.memory_mib) or abs(gpu.memory_mib - mib) <= gpu.memory_mib * _SPARE]
    if choice:
        fitting = [gpu for gpu in fitting if gpu.name == choice]
    if not fitting:
        what = f"{quoted(name)}{f' of {mib} MiB' if mib else ''}{f' as {quoted(choice)}' if choice else ''}"
        why = "is in no row of fleet/facts/data/gpus.csv (GPUs of laptops and virtual GPUs are other parts)"
        raise InputError(f"gpu: {what} {why}; add a row with its source")
    if len(fitting) > 1 or not (mib or fitting[0].memory_mib):
        why = f"{quoted(name)} is sold with several sizes of memory, and the outputs do not show which"
        fix = f"add the output of nvidia-smi -q, or --gpu with one of: {', '.join(gpu.name for gpu in fitting)}"
        raise InputError(f"gpu: {why}; {fix}")
    return fitting[0], mib


def _chosen(facts: Facts, choice: str) -> int:
    """MiB of the disk that containers use. Raises InputError if it is not clear which one that is."""
    names = ", ".join(f"{name} {mib // 1024}Gi" for name, mib in sorted(facts.disks.items()))
    if not facts.disks:
        raise _missing("disk")
    only = next(iter(facts.disks)) if len(facts.disks) == 1 else ""
    if (name := choice.removeprefix("/dev/") or facts.values.get("system disk") or only) not in facts.disks:
        why = f"no disk is called {quoted(name)}" if name else "there are several"
        raise InputError(f"--disk: {why}; name the one on which Talos keeps containers, one of: {names}")
    return facts.disks[name]
