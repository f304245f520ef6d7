"""Builders of Talos clusters, and readers of their rendered files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import Phase, settings, strategies as st
from pydantic import TypeAdapter

from fleet.facts import versions
from fleet.providers.talos.boot.patch import talos_files
from fleet.providers.talos.cluster import TalosCluster
from tests.builders import own_machine
from tests.examples import examples
from tests.yaml12 import read_all

NAME = "home"
MINORS = tuple(versions.TALOS)
GPU_PATCH = "patches/pools/gpu.yaml"
# Shrinking what fails takes longer than a test may.
some = settings(max_examples=examples(40), database=None, phases=[Phase.explicit, Phase.generate])


def cluster(**changes: Any) -> TalosCluster:
    """One control-plane host that is also the system pool, and one GPU host; `changes` replace keys."""
    held = {
        "provider": "talos",
        "kubernetesVersion": "1.35",
        "endpoint": "https://192.0.2.10:6443",
        "controlPlane": {"hosts": {"control-0": {"address": "192.0.2.11", "installDisk": "/dev/sda"}}},
        "enablement": "device-plugin",
        "gitops": {"repository": "https://github.com/example/homelab", "path": "home"},
        "machines": {"rig": own_machine(gpus=2), "single": own_machine()},
        "pools": {"gpu": pool()},
        "runners": {},
    }
    return TypeAdapter(TalosCluster).validate_json(json.dumps(held | changes))


def pool(**changes: Any) -> dict[str, Any]:
    """A pool of one host with two RTX 3090; `changes` replace keys."""
    hosts = {"gpu-0": {"address": "192.0.2.20", "installDisk": "/dev/nvme0n1"}}
    return {"instanceTypes": ["rig"], "role": "burst", "nodes": {"hosts": hosts}} | changes


VOLUME = {"address": "192.0.2.20", "volume": {"ephemeral": "500Gi"}}
SYSTEM = {"hosts": {"system-0": {"address": "192.0.2.30", "installDisk": "/dev/vda"}}}


def read(made: TalosCluster, name: str = NAME) -> dict[str, list[Any]]:
    """The documents of every file, as YAML 1.2 reads them."""
    return {path: read_all(text) for path, text in talos_files(name, made).items()}


def kinds(documents: list[Any]) -> dict[str, list[Any]]:
    """Documents by kind; the v1alpha1 config has none, and is `machine config` here."""
    found: dict[str, list[Any]] = {}
    for document in documents:
        found.setdefault(document.get("kind", "machine config"), []).append(document)
    return found


def labels_and_taints(documents: list[Any]) -> tuple[Mapping[str, str], list[str]]:
    """The labels and taints of the Node that a machine with this patch registers; taints as `key=value:effect`."""
    labels: dict[str, str] = {}
    taints: list[str] = []
    for document in documents:
        machine = document.get("machine", {})
        labels |= machine.get("nodeLabels", {})
        registered = machine.get("kubelet", {}).get("extraConfig", {}).get("registerWithTaints", [])
        taints += [f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in registered]
        if document.get("kind") == "KubeNodeConfig":
            labels |= document.get("labels", {})
            taints += [f"{key}={value}" for key, value in document.get("taints", {}).items() if key != "$patch"]
    return labels, taints


_NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,14}[a-z0-9])?", fullmatch=True)
_LABELS = st.dictionaries(
    st.from_regex(r"(example\.com/)?[A-Za-z0-9]{1,6}", fullmatch=True).filter(lambda key: key not in ("role", "gpu")),
    st.sampled_from(["true", "no", "y", "1", "0x1f", "1e3", "2026-01-01", "null", "a.b_c-d", "1.30"]),
    max_size=3,
)
_REACHED = st.ip_addresses().filter(
    lambda each: not (each.is_loopback or each.is_unspecified or each.is_multicast or each.is_link_local)
)
_ADDRESSES = st.lists(_REACHED.map(str), min_size=8, max_size=8, unique=True)
_DISKS = st.sampled_from(["/dev/sda", "/dev/nvme0n1", "/dev/disk/by-id/nvme-eui.0025385"])
_VOLUMES = st.one_of(
    st.fixed_dictionaries({"installDisk": _DISKS}),
    st.fixed_dictionaries({"volume": st.fixed_dictionaries({"disk": _DISKS.filter(lambda disk: disk != "/dev/sda")})}),
    st.just({"volume": {"name": "models", "ephemeral": "500Gi"}}),
    st.just({"ephemeralDisk": "/dev/nvme3n1"}),
)
_MACHINES = ["rig", "single"]


@st.composite
def clusters(draw: st.DrawFn) -> TalosCluster:
    """Any Talos cluster: every release, hosts of its own for the system pool or not, one to three GPU pools."""
    minor = draw(st.sampled_from(MINORS))
    oldest, newest = versions.TALOS[minor].kubernetes
    fits = [each for each in versions.TALOS_KUBERNETES if _minor(oldest) <= _minor(each) <= _minor(newest)]
    names = iter(draw(st.lists(_NAMES, min_size=8, max_size=8, unique=True)))
    addresses = iter(draw(_ADDRESSES))

    def hosts(count: int) -> dict[str, Any]:
        return {
            name: {"address": address, "installDisk": "/dev/sda"} | draw(_VOLUMES)
            for name, address in itertools.islice(zip(names, addresses, strict=True), count)
        }

    pools = {
        name: {
            "instanceTypes": [draw(st.sampled_from(_MACHINES))],
            "role": draw(st.sampled_from(["burst", "release"])),
            "nodes": {"hosts": hosts(1)},
            "driver": {
                "kernelModules": draw(st.sampled_from(["proprietary", "open"])),
                "tier": draw(st.sampled_from(["production", "lts"])),
            },
            "labels": draw(_LABELS),
            "cdi": draw(st.booleans()),
            "kubelet": draw(st.sampled_from([None, {"podPidsLimit": 4096, "cpuManagerPolicy": "static"}])),
        }
        for name in draw(st.lists(_NAMES, min_size=1, max_size=3, unique=True))
    }
    return cluster(
        talosVersion=minor,
        kubernetesVersion=draw(st.sampled_from(fits)),
        cni=draw(st.sampled_from(["flannel", "none"])),
        controlPlane={"hosts": hosts(draw(st.sampled_from([1, 3])))},
        system={"hosts": hosts(draw(st.integers(0, 2)))},
        pools=pools,
    )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
