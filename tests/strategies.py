"""Hypothesis strategies: any valid config, and a config with one typing error."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st

from fleet.facts import hardware, versions
from fleet.providers.oke.nodes import OKE_OWNED
from fleet.settings.runner import GENERIC_LABELS, KINDS
from tests.builders import (
    ACCEPTED,
    NODE_CONFIG,
    SAN_JOSE,
    SEALED,
    build_caches,
    cluster,
    config,
    gitops,
    oke_cluster,
    oke_pool,
    oke_runner,
    own_machine,
    pool,
    runner,
    talos_cluster,
    talos_pool,
    vm,
    vm_per_job,
)

Path = tuple[str | int, ...]

_BESIDE: dict[str, Any] = {
    "name": "cache",
    "image": "registry.example.com/cache:1",
    "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
}
POD_FIELDS: dict[str, Any] = {
    "env": {"HF_HUB_OFFLINE": "1"},
    "secretEnv": {"WANDB_API_KEY": {"secret": "wandb", "key": "api-key"}},
    "pullSecrets": ["ghcr"],
    "serviceAccount": "jobs",
    "template": {
        "initContainers": [_BESIDE | {"name": "warm"}],
        "containers": [_BESIDE],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
        "hostAliases": [{"ip": "192.0.2.9", "hostnames": ["mirror"]}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": False,
    },
    "proxy": {"url": "http://proxy.example.com:3128", "secret": "proxy", "noProxy": ["example.net"]},
    "caBundle": {"configMap": "ca", "key": "all.crt"},
    "volumes": {
        "build": {"path": "/build", "size": "10Gi"},
        "fast": {"path": "/fast", "size": "1Gi", "inMemory": True},
        "models": {"path": "/models", "claim": "models", "readOnly": True},
        "conf": {"path": "/etc/conf", "configMap": "conf"},
        "keys": {"path": "/etc/keys", "secret": "keys"},
    },
}
"""What a class adds to its pods: every key."""
CONTAINER_FIELDS: dict[str, Any] = {
    "containers": "job",
    "services": {"most": 1, "cpu": "500m", "memory": "1Gi"},
    "podSecurity": "restricted",
}
"""What a class says about the containers of its jobs: every key but that of its runners' own pool."""

KEPT: dict[str, Any] = {"time": "15m", "group": "gpu-ci-debug"}
"""How a class keeps a failed job. No class with `containers: job` does."""

REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-central-1", "ap-southeast-2")
# Far faster than from_regex; the first letter keeps them clear of the names and labels that have a meaning.
NAMES = st.text("abcxyz0189-", max_size=12).map(lambda tail: f"nx{tail}".rstrip("-"))

# Availability domains by region of OCI: the oldest two regions leave something out of their names.
DOMAINS = {
    "us-sanjose-1": [SAN_JOSE],
    "us-ashburn-1": [f"abcd:US-ASHBURN-AD-{n}" for n in (1, 2, 3)],
    "us-phoenix-1": [f"abcd:PHX-AD-{n}" for n in (1, 2, 3)],
    "eu-frankfurt-1": [f"abcd:EU-FRANKFURT-1-AD-{n}" for n in (1, 2, 3)],
}
DRIVER = "580.159.03"
"""A driver version of the only branch that supports every GPU of the table."""


def _alike(cloud: str) -> list[list[hardware.Machine]]:
    """NVIDIA's machines of a cloud, grouped by GPU, its memory and count."""
    groups: dict[tuple[str, int, int], list[hardware.Machine]] = {}
    for machine in hardware.machines(cloud):
        if machine.gpu is not None and machine.gpu.vendor == "nvidia":
            groups.setdefault((machine.gpu.name, machine.gpu_memory_mib, machine.gpus), []).append(machine)
    return [groups[key] for key in sorted(groups)]


_CPU_TYPES = [machine.name for machine in hardware.machines("aws") if not machine.gpus]


@st.composite
def scales(draw: st.DrawFn) -> dict[str, int]:
    """A least and a greatest count."""
    most = draw(st.integers(1, 50))
    return {"max": most} | draw(st.fixed_dictionaries({}, optional={"min": st.integers(0, most)}))


@st.composite
def _bought(draw: st.DrawFn, types: Sequence[hardware.Machine], zones: Sequence[str]) -> dict[str, Any]:
    """How a pool of some types is bought, for which role, and its size. `configs` gives a reservation its id."""
    preemptible = [("burst", "spot")] if all(map(hardware.preemptible, types)) else []
    # A reservation is of one type.
    reserved = [("release", "reserved")] if len(types) == 1 else []
    block = [("release", "capacity-block")] if len(types) == 1 and types[0].capacity_block else []
    kinds = [("burst", "on-demand"), ("release", "on-demand"), *reserved, *block, *preemptible]
    role, capacity = draw(st.sampled_from(kinds))
    nodes = draw(scales())
    bought: dict[str, Any] = {"capacity": capacity, "role": role, "nodes": nodes}
    if capacity in hardware.PREPAID:
        count = nodes["max"] + draw(st.integers(0, 3))
        bought["reservation"] = {"id": "", "zone": draw(st.sampled_from(zones)), "count": count}
    return bought


_LABELS = st.dictionaries(NAMES.map("example.com/{}".format), st.text("ABCxyz019-_.", max_size=12).map("A{}0".format), max_size=3)
_DELAYS = st.one_of(st.integers(60, 86_400).map("{}s".format), st.integers(1, 1440).map("{}m".format), st.just("24h"))


# Any number of shares, and a /dev/shm of one's own: so that every runner class may be of the pool.
_TURNS = st.builds(
    lambda replicas, rename: {"strategy": "time-slicing", "replicas": replicas, "rename": rename, "allowSeveral": True},
    st.integers(2, 16),
    st.booleans(),
)


@st.composite
def pools(draw: st.DrawFn, zones: Sequence[str], cdi: st.SearchStrategy[bool]) -> dict[str, Any]:
    """A pool of one to three like EC2 types."""
    types = draw(st.sampled_from(_alike("aws")).flatmap(_few_of))
    optional = {
        "idleDelay": _DELAYS,
        "disk": st.integers(30, 2000).map("{}Gi".format),
        "labels": _LABELS,
        "cdi": cdi,
        "sharing": _TURNS,
        "image": st.just("al2023-nvidia"),
    }
    bought = draw(_bought(types, zones))
    if bought["capacity"] not in hardware.PREPAID:
        optional["zones"] = st.lists(st.sampled_from(zones), min_size=1, unique=True)
    return {"instanceTypes": [each.name for each in types]} | bought | draw(st.fixed_dictionaries({}, optional=optional))


def _few_of(machines: Sequence[hardware.Machine]) -> st.SearchStrategy[list[hardware.Machine]]:
    return st.lists(st.sampled_from(machines), min_size=1, max_size=3, unique=True)


@st.composite
def oke_pools(draw: st.DrawFn, zones: Sequence[str], cdi: st.SearchStrategy[bool], image: str) -> dict[str, Any]:
    """A pool of one OCI shape, on nodes with one kind of image."""
    shape = draw(st.sampled_from([machine for group in _alike("oci") for machine in group]))
    optional = {"disk": st.integers(50, 2000).map("{}Gi".format), "labels": _LABELS, "cdi": cdi}
    bought = draw(_bought([shape], zones))
    if bought["capacity"] not in hardware.PREPAID:
        optional["zones"] = st.lists(st.sampled_from(zones), min_size=1, unique=True)
    return {"instanceTypes": [shape.name], "image": image} | bought | draw(st.fixed_dictionaries({}, optional=optional))


@st.composite
def runners(draw: st.DrawFn, pool: str, labels: list[str]) -> dict[str, Any]:
    """A runner class of a pool."""
    cpu, memory = draw(st.integers(1, 96)), draw(st.integers(3, 1024))
    optional = {
        "kind": st.just("pod"),
        "gpus": st.integers(1, 8),
        "shm": st.integers(1, memory * 1024 - 1).map("{}Mi".format),
        "scratch": st.integers(1, 500).map("{}Gi".format),
        "group": NAMES,
        "image": NAMES.map(f"registry.example.com/{{}}:1@sha256:{'0' * 64}".format),
        "keepFailed": st.integers(60, 1800).map(lambda seconds: {"time": f"{seconds}s", "group": "gpu-ci-debug"}),
        "fillNodes": st.booleans(),
    }
    return {
        "pool": pool,
        "cpu": {"request": draw(st.sampled_from([cpu, f"{cpu * 1000}m", cpu - 0.5, str(cpu)])), "limit": cpu},
        "memory": {"request": f"{memory * 512}Mi", "limit": f"{memory}Gi"},
        "labels": labels,
        "scale": draw(scales()),
    } | draw(st.fixed_dictionaries({}, optional=optional))


def _ocid(kind: str, region: str) -> str:
    """A placeholder for an OCID."""
    return f"ocid1.{kind}.oc1.{region}.example"


@st.composite
def _machine(draw: st.DrawFn, region: str, labels: list[str], shapes: Sequence[hardware.Machine], spot: bool) -> dict[str, Any]:
    """The settings that both kinds of machine runners have."""
    ways = [("burst", "spot")] if spot and all(map(hardware.preemptible, shapes)) else []
    role, capacity = draw(st.sampled_from([("burst", "on-demand"), ("release", "on-demand"), *ways]))
    tools: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        [{"toolkit": "1.19.1-1"}, {"nvkind": True}, {"nvkind": False, "toolkit": "1.20.0-1"}, {}]
    )
    optional = {
        "disk": st.integers(50, 2000).map("{}Gi".format),
        "group": NAMES,
        "launcherImage": NAMES.map("registry.example.com/{}:1".format),
    }
    return {
        "shapes": [shape.name for shape in shapes],
        "capacity": capacity,
        "role": role,
        "labels": labels,
        "image": {"id": _ocid("image", region), "driver": DRIVER},
        **draw(tools),
    } | draw(st.fixed_dictionaries({}, optional=optional))


_MACHINES = [group for group in ([each for each in alike if each.arch == "x86_64"] for alike in _alike("oci")) if group]


@st.composite
def vms(draw: st.DrawFn, region: str, zones: Sequence[str], labels: list[str]) -> dict[str, Any]:
    """Standing machines in a cluster of a region with these availability domains."""
    shape = draw(st.sampled_from([machine for group in _MACHINES for machine in group]))
    domains = draw(st.lists(st.sampled_from(zones), min_size=1, unique=True))
    machine = draw(_machine(region, labels, [shape], spot=False))
    return machine | {"kind": "vm", "count": draw(st.integers(1, 50)), "availabilityDomains": domains}


@st.composite
def vms_per_job(draw: st.DrawFn, region: str, labels: list[str]) -> dict[str, Any]:
    """Machines for one job each, in the region of the cluster or another."""
    shapes = draw(st.sampled_from(_MACHINES).flatmap(_few_of))
    machine = draw(_machine(region, labels, shapes, spot=True)) | {"kind": "vm-per-job", "scale": draw(scales())}
    regions = draw(st.lists(st.sampled_from(sorted(DOMAINS)), min_size=1, unique=True))
    places: list[dict[str, Any]] = [{"region": each, "availabilityDomains": draw(_domains(each))} for each in regions]
    if draw(st.booleans()):
        for place in places:
            place["subnet"] = _ocid("subnet", place["region"])
        kept = {key: value for key, value in machine.items() if key not in ("image", "toolkit", "nvkind")}
        return kept | {"launcher": "cncf", "places": places}
    for place in places:
        if place["region"] != region or draw(st.booleans()):
            own = {"subnet": "subnet", "securityGroup": "networksecuritygroup", "image": "image"}
            place |= {key: _ocid(kind, place["region"]) for key, kind in own.items()}
    lifetimes = st.fixed_dictionaries({}, optional={"lifetime": st.integers(10, 7200).map("{}m".format)})
    return machine | {"places": places} | draw(lifetimes)


def _domains(region: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(DOMAINS[region]), min_size=1, unique=True)


@st.composite
def networks(draw: st.DrawFn, zones: list[str]) -> dict[str, Any]:
    """A new VPC or a given one."""
    if draw(st.booleans()):
        return {"vpcId": "vpc-0123456789abcdef0", "privateSubnets": {zone: f"subnet-{n:017x}" for n, zone in enumerate(zones)}}
    optional = {
        "cidr": st.integers(16, 22).map("10.20.0.0/{}".format),
        "natGateways": st.sampled_from(["one", "per-zone"]),
    }
    return draw(st.fixed_dictionaries({}, optional=optional))


_PRIVATE = st.lists(st.sampled_from(["10.0.0.0/8", "10.20.0.0/16", "172.16.1.0/24", "192.168.7.9/32"]), unique=True)
_NETWORKS = st.sampled_from(["203.0.113.0/24", "198.51.100.7/32", "52.94.76.0/22"])
_ENDPOINTS = st.one_of(
    st.builds(lambda cidrs: {"publicCidrs": cidrs}, st.lists(_NETWORKS, min_size=1, unique=True)),
    st.sampled_from([{"private": True, "reachableFrom": reach} for reach in ("vpc-agent", "vpn")]),
)


TEAMS = st.sampled_from(["research", "speech", "vision"])


@st.composite
def caches(draw: st.DrawFn, storages: Sequence[str]) -> dict[str, Any]:
    """A cache of one of some storages, its performance among what its size allows."""
    storage = draw(st.sampled_from(list(storages)))
    gib = draw(st.integers(50, 32_768))
    own: dict[str, Any] = {}
    if storage == "ebs" and draw(st.booleans()):
        own["iops"] = draw(st.integers(3000, min(500 * gib, 80_000)))
        own["throughput"] = draw(st.integers(125, min(own["iops"] // 4, 2000)))
    if storage == "block":
        own["vpus"] = draw(st.sampled_from([10, 20]))
    if storage == "fss":
        own["encryptInTransit"] = draw(st.booleans())
    namespaces = draw(st.lists(TEAMS, min_size=1, max_size=3, unique=True))
    return {"storage": storage, "size": f"{gib}Gi", "namespaces": namespaces, "retain": draw(st.booleans())} | own


_EXTERNAL = st.fixed_dictionaries(
    {"by": st.just("external-secrets")},
    optional={"store": NAMES, "key": st.sampled_from(["github-app", "gpu-ci/github_app.pem"]), "property": st.just("key")},
)
_SEALED = st.just({"by": "sealed-secrets", "privateKey": SEALED})
_SOPS = st.just({"by": "sops", "file": "secrets/github-app.enc.yaml"})
_BY_PROGRAM = st.just({"by": "program"})


def _repositories(*ways: st.SearchStrategy[dict[str, str]]) -> st.SearchStrategy[dict[str, Any]]:
    """The repository that ArgoCD reads, with one of some ways to get the GitHub App's key."""
    urls = ["https://github.com/example/homelab", "git@github.com:example/homelab.git", "ssh://git@git.example.com:2222/ci/fleet"]
    optional = {
        "revision": st.sampled_from(["main", "v1.2.0", "release/2026-11"]),
        "namespace": NAMES,
        "project": NAMES,
        "secrets": st.one_of(*ways),
    }
    needed = {"repository": st.sampled_from(urls), "path": st.lists(NAMES, min_size=1, max_size=3).map("/".join)}
    return st.fixed_dictionaries(needed, optional=optional)


_DELIVERIES = st.one_of(
    st.sampled_from([{}, {"delivery": "helm"}]),
    _repositories(_EXTERNAL, _SEALED, _BY_PROGRAM).map(lambda git: {"delivery": "argocd", "gitops": git}),
)
"""How charts are installed in a cluster that `pulumi up` creates."""


@st.composite
def clusters(draw: st.DrawFn, sets: dict[str, list[str]]) -> dict[str, Any]:
    """An EKS cluster with the runner sets named, each with its labels."""
    region = draw(st.sampled_from(REGIONS))
    zones = [f"{region}{letter}" for letter in draw(st.lists(st.sampled_from("abcdef"), min_size=2, max_size=4, unique=True))]
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    system = {
        "instanceTypes": st.lists(st.sampled_from(_CPU_TYPES), min_size=1, max_size=2, unique=True),
        "nodes": scales().filter(lambda nodes: nodes.get("min", 0) > 0),
    }
    # The operator has one CDI setting per cluster, the device plugin has one per pool.
    by_operator = {"enablement": "gpu-operator", "operator": {"serviceMonitor": draw(st.booleans())}}
    ways: list[tuple[dict[str, Any], st.SearchStrategy[bool]]] = [
        ({"enablement": "device-plugin"}, st.booleans()),
        ({}, st.booleans()),
        (by_operator, st.just(value=False)),
    ]
    enablement, cdi = draw(st.sampled_from(ways))
    optional = {
        "network": networks(zones),
        "controlPlaneZones": st.just(zones[:2]),
        "system": st.fixed_dictionaries({}, optional=system),
        "admins": st.just(["arn:aws:iam::123456789012:role/ops"]),
        "viewers": st.just(["arn:aws:iam::123456789012:role/sees"]),
        "upgradePolicy": st.sampled_from(["STANDARD", "EXTENDED"]),
        "logRetentionDays": st.sampled_from([1, 90, 3653]),
        "logTypes": st.lists(st.sampled_from(["api", "audit", "scheduler"]), unique=True),
        "protect": st.booleans(),
        "privateEgress": _PRIVATE,
        "caches": st.dictionaries(NAMES, caches(("ebs", "efs")), max_size=2),
    }
    return {
        "provider": "eks",
        "region": region,
        "zones": zones,
        "kubernetesVersion": "1.34",
        "endpoint": draw(_ENDPOINTS),
        "pools": {name: draw(pools(zones, cdi)) for name in names},
        "runners": {name: draw(runners(draw(st.sampled_from(names)), labels)) for name, labels in sets.items()},
        **draw(_DELIVERIES),
        **enablement,
    } | draw(st.fixed_dictionaries({}, optional=optional))


@st.composite
def oke_clusters(draw: st.DrawFn, sets: dict[str, list[str]]) -> dict[str, Any]:
    """An OKE cluster with the runner sets named, of all kinds, each with its labels."""
    region = draw(st.sampled_from(sorted(DOMAINS)))
    zones = draw(_domains(region))
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    operator = {"driver": {"version": DRIVER}, "containerd": {"defaultRuntime": draw(st.booleans())}}
    ways: list[tuple[dict[str, Any], st.SearchStrategy[bool], str]] = [
        ({}, st.just(value=False), "oke-gpu"),
        ({"enablement": "gpu-plugin-addon", "gpuPluginAddon": True}, st.just(value=False), "oke-gpu"),
        ({"enablement": "device-plugin", "gpuPluginAddon": False}, st.booleans(), "oke-gpu"),
        ({"enablement": "gpu-operator", "operator": {"serviceMonitor": False}}, st.just(value=False), "oke-gpu"),
        ({"enablement": "gpu-operator", "operator": operator}, st.just(value=False), "ubuntu"),
    ]
    enablement, cdi, image = draw(st.sampled_from(ways))
    driver = {"driver": DRIVER} if image == "oke-gpu" else {}
    # Smaller ones have no room for the pools at their least.
    network = st.sampled_from([{}, {"cidr": "10.20.0.0/16"}, _GIVEN_VCN])
    system = {
        "ocpus": st.integers(2, 16),
        "memory": st.integers(16, 128).map("{}Gi".format),
        "nodes": st.integers(1, 9),
        "disk": st.integers(50, 500).map("{}Gi".format),
    }
    held = {name: draw(oke_pools(zones, cdi, image)) for name in names}
    metal = {name.startswith("BM.") for each in held.values() for name in each["instanceTypes"]}
    optional = {
        # One way to attach block volumes for all pools.
        "caches": st.dictionaries(NAMES, caches(("block", "fss") if len(metal) == 1 else ("fss",)), max_size=2),
        "network": network,
        "system": st.fixed_dictionaries({}, optional=system),
        "idleDelay": _DELAYS,
        "machineCompartment": st.just("ocid1.compartment.oc1..examplevms"),
        "homeRegion": st.sampled_from(sorted(DOMAINS)),
        "privateEgress": _PRIVATE,
    }
    kinds = {name: draw(st.sampled_from(KINDS)) for name in sets}
    of_kind = {
        "pod": lambda labels: runners(draw(st.sampled_from(names)), labels).map(lambda held: held | ACCEPTED),
        "vm": lambda labels: vms(region, zones, labels),
        "vm-per-job": lambda labels: vms_per_job(region, labels),
    }
    return {
        "provider": "oke",
        "region": region,
        "zones": zones,
        "compartment": "ocid1.compartment.oc1..example",
        "kubernetesVersion": "1.34",
        "endpoint": draw(_ENDPOINTS),
        "nodeImages": {"system": {"id": _ocid("image", region)}, image: {"id": _ocid("image", region)} | driver},
        "pools": held,
        "runners": {name: draw(of_kind[kinds[name]](labels)) for name, labels in sets.items()},
        **draw(_DELIVERIES),
        **enablement,
    } | draw(st.fixed_dictionaries({}, optional=optional))


@st.composite
def _hosts(draw: st.DrawFn, numbers: Iterator[int], count: int) -> dict[str, Any]:
    """Your own machines, each with its own name and address."""
    volumes = st.sampled_from([{"disk": "/dev/sdb"}, {"name": "models", "ephemeral": "2000Gi"}])
    disks = {"installDisk": st.sampled_from(["/dev/sda", "/dev/disk/by-id/nvme-eui.0025385b71b0"]), "volume": volumes}
    prefix, network = draw(NAMES), draw(st.sampled_from(["192.0.2.", "2001:db8::"]))
    found = itertools.islice(numbers, count)
    return {f"{prefix}-{n}": {"address": f"{network}{n}"} | draw(st.fixed_dictionaries({}, optional=disks)) for n in found}


def _own_machines(gpus: int) -> st.SearchStrategy[dict[str, Any]]:
    """A machine of one's own whose GPU every driver and kind of kernel module supports, with or without a price."""
    models = st.sampled_from(["RTX 3090", "RTX 4090", "RTX 3060 8GB", "T4", "RTX A2000"])
    size = {"gpus": st.just(gpus), "cpus": st.just(48), "memory": st.just("128Gi"), "disk": st.just("2100Gi")}
    optional = {
        "usdPerHour": st.sampled_from([0, 0.24, 2.5]),
        "gpuMemory": st.sampled_from(["8Gi", "24564Mi"]),
        "arch": st.sampled_from(["x86_64", "arm64"]),
    }
    return st.fixed_dictionaries({"gpu": models, **size}, optional=optional)


@st.composite
def talos_pools(draw: st.DrawFn, numbers: Iterator[int], cdi: st.SearchStrategy[bool]) -> dict[str, Any]:
    """A pool of one to three like machines of one's own."""
    driver = {"kernelModules": st.sampled_from(["proprietary", "open"]), "tier": st.sampled_from(["production", "lts"])}
    optional = {
        "capacity": st.just("on-demand"),
        "disk": st.integers(30, 2000).map("{}Gi".format),
        "labels": _LABELS,
        "cdi": cdi,
        "sharing": _TURNS,
        "image": st.just("talos"),
        "driver": st.fixed_dictionaries({}, optional=driver),
    }
    return {
        "instanceTypes": [draw(st.sampled_from(["rig", "single"]))],
        "role": draw(st.sampled_from(["burst", "release"])),
        "nodes": {"hosts": draw(_hosts(numbers, draw(st.integers(1, 3))))},
    } | draw(st.fixed_dictionaries({}, optional=optional))


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@st.composite
def talos_clusters(draw: st.DrawFn, sets: dict[str, list[str]], numbers: Iterator[int]) -> dict[str, Any]:
    """A Talos cluster with the runner sets named, each with its labels; `numbers` are of its machines, and of no other's."""
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    talos = draw(st.sampled_from(sorted(versions.TALOS)))
    oldest, newest = map(_minor, versions.TALOS[talos].kubernetes)
    kubernetes = [each for each in versions.TALOS_KUBERNETES if oldest <= _minor(each) <= newest]
    ways: list[tuple[dict[str, Any], st.SearchStrategy[bool]]] = [({"enablement": "device-plugin"}, st.booleans())]
    if _minor(talos) >= (1, 13):
        ways += [({}, st.just(value=False)), ({"operator": {"serviceMonitor": True}}, st.just(value=False))]
    enablement, cdi = draw(st.sampled_from(ways))
    optional = {
        "region": NAMES,
        "system": st.integers(1, 2).flatmap(lambda count: _hosts(numbers, count)).map(lambda hosts: {"hosts": hosts}),
        "cni": st.sampled_from(["flannel", "none"]),
        "delivery": st.just("argocd"),
        "privateEgress": _PRIVATE,
    }
    return {
        "provider": "talos",
        "talosVersion": talos,
        "kubernetesVersion": draw(st.sampled_from(kubernetes)),
        "endpoint": draw(
            st.sampled_from(["https://198.51.100.{}:6443", "https://home-{}.example.com:443", "https://[2001:db8:1::{}]:6443"])
        ).format(next(numbers)),
        "controlPlane": {"hosts": draw(_hosts(numbers, draw(st.sampled_from([1, 3]))))},
        "gitops": draw(_repositories(_EXTERNAL, _SEALED, _SOPS)),
        "machines": {"rig": draw(_own_machines(2)), "single": draw(_own_machines(1))},
        "pools": {name: draw(talos_pools(numbers, cdi)) for name in names},
        "runners": {name: draw(runners(draw(st.sampled_from(names)), labels)) for name, labels in sets.items()},
        **enablement,
    } | draw(st.fixed_dictionaries({}, optional=optional))


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Any valid config of two clusters, rented or one's own. One set at most carries generic labels; names and own labels are all
    different.
    """
    words = draw(st.lists(NAMES, min_size=2, max_size=8, unique=True))
    generic = draw(st.lists(st.sampled_from(GENERIC_LABELS), unique=True))
    sets = {name: [label.upper()] for name, label in zip(words[::2], words[1::2], strict=False)}
    sets[words[0]] = sets[words[0]] + generic
    cut = draw(st.integers(0, len(sets)))
    parts = [dict(list(sets.items())[:cut]), dict(list(sets.items())[cut:])]
    names = draw(st.lists(NAMES, min_size=2, max_size=2, unique=True))
    github: dict[str, Any] = {"url": "https://github.com/example/repository", "appId": "1", "installationId": "2"}
    # Pulumi deploys all clusters of a stack, or none. Two of three fleets are in a cloud.
    ones_own = partial(talos_clusters, numbers=itertools.count(11))
    rented: tuple[Any, ...] = (clusters, oke_clusters)
    kinds = draw(st.sampled_from([rented, rented, (ones_own,)]))
    held = {name: draw(st.one_of([kind(part) for kind in kinds])) for name, part in zip(names, parts, strict=True)}
    _number_reservations(held)
    _number_folders(held)
    if draw(st.booleans()):
        second = github | {"url": "https://github.com/example/research", "installationId": "3"}
        github["scopes"] = {"research": second}
        name = draw(st.sampled_from(list(held)))
        held[name] = _of_scope(held[name])
    return {
        "github": github | draw(st.fixed_dictionaries({}, optional={"group": NAMES})),
        "clusters": held,
    } | draw(st.fixed_dictionaries({}, optional={"tags": st.dictionaries(NAMES, NAMES, max_size=6)}))


def _of_scope(held: dict[str, Any], **of_classes: Any) -> dict[str, Any]:
    """The cluster with the scope research for its classes, whose secret in Git comes as that of the first scope."""
    classes = {name: each | of_classes for name, each in held["runners"].items()}
    secrets = held.get("gitops", {}).get("secrets", {"by": "external-secrets" if held["provider"] == "talos" else "program"})
    more = {"scopeSecrets": {"research": secrets}} if "gitops" in held and secrets["by"] != "program" else {}
    return held | {"github": "research", "runners": classes} | ({"gitops": held["gitops"] | more} if more else {})


def _number_folders(held: dict[str, Any]) -> None:
    """Give each cluster its own folder in Git."""
    for number, each in enumerate(held.values()):
        if "gitops" in each:
            each["gitops"]["path"] += f"/{number}"


def _number_reservations(held: dict[str, Any]) -> None:
    """Give each reservation its own id."""
    forms = {"eks": "cr-{:017x}", "oke": "ocid1.capacityreservation.oc1..example{}"}
    reserved = [
        (each["provider"], pool["reservation"])
        for each in held.values()
        for pool in each["pools"].values()
        if "reservation" in pool
    ]
    for number, (provider, reservation) in enumerate(reserved):
        reservation["id"] = forms[provider].format(number)


_ODD = [
    "",
    "0",
    "9" * 400,
    "9" * 5000 + "m",
    "1e9",
    "٣Gi",
    "²",
    "0.0.0.0/0",
    "[key]",
    "system",
    "eks",
    "oke",
    "talos",
    "argocd",
    "sops",
    "pod",
    "vm",
    "vm-per-job",
    "1.34",
    "g5.xlarge",
    "VM.GPU.A10.2",
    "BM.GPU.MI300X.8",
    "rig",
    "192.0.2.11",
    "ubuntu",
    "gpu-operator",
    "ocid1.image.oc1.iad.example",
    "abcd:PHX-AD-1",
    "595.91.07",
    -1,
    0,
]
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8), st.sampled_from(_ODD)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=5,
)


def places(value: object, at: Path = ()) -> list[Path]:
    """Every path in a document, containers included, the root left out."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [place for key, inner in items for place in ((*at, key), *places(inner, (*at, key)))]


def parent_of(document: Any, path: Sequence[str | int]) -> Any:
    """The container that holds the last step of a path. Raises LookupError if there is none."""
    for step in path[:-1]:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


_GIVEN_VCN = {"vcn": "ocid1.vcn.oc1..example", "endpointSubnet": _ocid("subnet", ""), "nodeSubnet": _ocid("subnet", "")}
_GIVEN = {"vpcId": "vpc-01234567", "privateSubnets": {"us-west-2a": "subnet-01234567", "us-west-2b": "subnet-89abcdef"}}
_NODES = {"min": 1, "max": 3}
_GITHUB = {"url": "https://github.com/example", "appId": "1", "installationId": "2", "group": "gpu"}
_SCOPES = _GITHUB | {"scopes": {"research": _GITHUB | {"url": "https://github.com/example/research", "appId": "3"}}}
_PREEMPTION = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any", "borrowWithinCohort": "Never"}


def _schedules(**size: int) -> dict[str, Any]:
    """Schedules with every key, of a pool (`nodes`) or of a runner class (`runners`)."""
    window = {"days": ["mon", "fri"], "start": "09:00", "end": "18:00"} | size
    return {"timeZone": "Europe/Berlin", "holidays": ["2026-12-25"], "windows": {"work": window}}


def _jobs(pool: str) -> dict[str, Any]:
    """Two jobs in the namespace of the team of `_queues`, with every key between them."""
    by_name = {
        "namespace": "research",
        "image": "docker.io/library/python:3.13",
        "command": ["python"],
        "args": ["train.py"],
        "env": {"EPOCHS": "3"},
        "secretEnv": {"HF_TOKEN": ["hugging-face", "token"]},
        "pool": pool,
        "gpus": 1,
        "cpu": 2,
        "memory": "8Gi",
        "scratch": "10Gi",
        "shm": "1Gi",
        "cache": "models",
        "cachePath": "/cache",
        "cacheReadOnly": True,
        "workspace": "work",
        "workspacePath": "/work",
        "queue": "research",
        "priority": "high-priority",
        "deadline": "1h",
        "backoffLimit": 1,
        "labels": {"example.com/team": "ml"},
    }
    by_gpu = {"namespace": "research", "image": "example:1", "gpuType": "t4", "spot": True, "shared": False}
    return {"train": by_name, "try": by_gpu}


def _caches(**storages: dict[str, Any]) -> dict[str, Any]:
    """Caches of that team by name."""
    return {name: {"size": "500Gi", "namespaces": ["research"], "retain": True} | held for name, held in storages.items()}


def _queues(pool: str) -> dict[str, Any]:
    """Queues of one team over one pool, with every key."""
    quota = {"pool": pool, "nominal": 1, "borrow": 1, "lend": 1}
    team = {"namespaces": ["research"], "quotas": [quota], "strategy": "StrictFIFO", "weight": 2, "preemption": _PREEMPTION}
    return {"cohort": "gpu", "fairSharing": True, "teams": {"research": team}}


def _workloads(pool: str) -> dict[str, Any]:
    """A workload of each kind, with every key between them."""
    sizes = {"cpu": {"request": 1, "limit": 2}, "memory": {"request": "4Gi", "limit": "8Gi"}, "scratch": "4Gi", "shm": "1Gi"}
    common = {"namespace": "ai", "pool": pool, "image": "example:1", **sizes}
    storage = {"storage": {"size": "20Gi", "storageClass": "cache-models"}}
    port = {"nodePort": {"port": 30001, "cidrs": ["203.0.113.0/24"]}}
    coral = {key: value for key, value in common.items() if key != "shm"} | {"namespace": "coral"}
    return {
        "check": {"kind": "pytorch", **common},
        "mnist": {"kind": "tf-mnist", "maxSteps": 100, **common},
        "notebook": {"kind": "tf-notebook", "gpus": 1, "tokenSecret": "token", **port, **storage, **common},
        "ollama": {"kind": "ollama", "gpus": 1, **storage, **common},
        "comfyui": {"kind": "comfyui", **storage, **common},
        "coral": {"kind": "coral", "node": {"example.com/coral": "true"}, "command": ["run"], **coral},
    }


_SLICED = {"strategy": "time-slicing", "replicas": 2, "rename": False, "allowSeveral": True}
_SIDE_BY_SIDE = {"strategy": "mps", "replicas": 2, "rename": True, "allowSeveral": False}
_CUT = {"strategy": "mig", "profile": "1g.5gb", "naming": "mixed"}


def _installed(runner_set: str) -> dict[str, Any]:
    """Monitoring with every key of an installed Prometheus. `runner_set` is a set of its cluster."""
    return {
        "prometheus": "install",
        "namespace": "metrics",
        "storage": "100Gi",
        "storageClass": "fast",
        "retention": "720h",
        "repositories": ["example/app"],
        "alerts": {
            "queueObjective": "10m",
            "objectives": {runner_set: "5m"},
            "pendingFor": "20m",
            "idleBelow": 0.1,
            "idleFor": "30m",
            "memoryFloor": "1Gi",
            "temperature": 85,
            "rejectedPods": 3,
            "runnerLifetime": "24h",
            "reservationNotice": "72h",
        },
    }


_HEALTH: dict[str, Any] = {
    "rejectedPods": 3,
    "startWithin": "8m",
    "liftAfter": "10m",
    "maxShare": 0.2,
    "repairWait": "5m",
}
_OF_THE_OWNER = {
    "prometheus": "existing",
    "operatorInstalled": True,
    "labels": {"release": "prometheus"},
    "remoteWriteUrl": "http://prometheus.metrics.svc:9090/api/v1/write",
}
_REGISTRY: dict[str, Any] = {
    "prefix": "ci",
    "runnerImage": {"version": f"sha256:{'a' * 64}", "sizeGb": 12},
    "copies": ["nvcr.io/nvidia/k8s-device-plugin:v0.20.0"],
    "useCopies": True,
}
_HUB = "arn:aws:secretsmanager:us-west-2:111122223333:secret:ecr-pullthroughcache/hub-AbCdEf"
_ECR = _REGISTRY | {
    "account": "111122223333",
    "pushRole": "arn:aws:iam::111122223333:role/images",
    "pullThrough": {"docker.io": {"secret": _HUB}},
}
_BUDGET = {"monthlyUsd": 500, "emails": ["ci-alerts@example.com"]}
_AMI: dict[str, Any] = {
    "release": "1.34.9-20260714",
    "driverBranch": 580,
    "toolkit": "1.19.1-1",
    "prePull": [f"docker.io/library/busybox:1.37@sha256:{'a' * 64}"],
    "buildType": "g4dn.xlarge",
    "disk": "60Gi",
    "regions": ["us-east-1"],
    "keep": 2,
    "schedule": "cron(0 4 1 * ? *)",
    "built": {"id": "ami-0123456789abcdef0", "release": "1.34.8-20260610"},
}
_EKS = tuple(
    cluster(
        amis={"gpu": _AMI},
        endpoint=endpoint,
        network=network,
        controlPlaneZones=["us-west-2a", "us-west-2b"],
        admins=["arn:aws:iam::123456789012:role/ops"],
        viewers=["arn:aws:iam::123456789012:role/sees"],
        upgradePolicy="EXTENDED",
        replaceNodes="evict",
        logTypes=["api"],
        logRetentionDays=30,
        privateEgress=["10.20.0.0/16"],
        budget=_BUDGET,
        poolBudgets={"ml": _BUDGET | {"pools": ["t4"]}},
        protect=True,
        admission=True,
        queues=_queues("t4"),
        caches=_caches(models={"storage": "efs"}, work={"storage": "ebs", "iops": 4000, "throughput": 250}),
        jobs=_jobs("t4"),
        workloads=_workloads("t4"),
        declareQuotas=True,
        monitoring=_installed("gpu-t4") | {"cloudwatch": True},
        health=_HEALTH | {"startupGate": True},
        buildCaches=build_caches(writeRefs=["refs/heads/main"], days=7) | {"owners": ["example-tools"]},
        registry=_ECR,
        accountQuotas={"L-DB2E81BA": 64},
        system={"instanceTypes": ["m6i.large"], "nodes": _NODES, "disk": "60Gi"},
        pools={
            "t4": pool(
                idleDelay="5m",
                disk="100Gi",
                labels={"example.com/team": "ml"},
                cdi=True,
                image="al2023-nvidia",
                zones=["us-west-2b"],
                placeholders=1,
                warm={"min": 0, "maxPrepared": 2, "state": "running", "reuseOnScaleIn": True},
            ),
            "v100": pool(
                capacity="reserved",
                nodes=_NODES,
                cdi=True,
                reservation={
                    "id": "cr-01234567",
                    "zone": "us-west-2a",
                    "count": 3,
                    "startDate": "2027-06-01",
                    "endDate": "2027-06-30",
                    "owner": "210987654321",
                },
            ),
            "near": pool(
                instanceTypes=["g4dn.8xlarge"],
                role="release",
                zones=["us-west-2a"],
                efaInterfaces=1,
                placementGroup={"name": "near"},
                nodeConfig=NODE_CONFIG,
                ami="gpu",
                cdi=True,
                schedules=_schedules(nodes=1),
            ),
            "apart": pool(
                acceptSharedNodes="both groups have the same repositories",
                placementGroup={"strategy": "partition", "partitions": 2},
                diskPerformance={"throughput": 400, "iops": 4000},
                cdi=True,
            ),
            "shared": pool(cdi=True, sharing=sharing, instanceTypes=types),
            "spot": pool(cdi=True, capacity="spot"),
            "own": pool(instanceTypes=["m6i.large"]),
        },
        runners={
            "gpu-spot": runner(pool="spot", rerunFirstOn="gpu-spot", rerunOn="gpu-t4"),
            "gpu-t4": runner(
                kind="pod",
                gpus=1,
                shm="2Gi",
                **POD_FIELDS,
                **CONTAINER_FIELDS,
                runnerPool="own",
                role="arn:aws:iam::111122223333:role/jobs",
                scratch="20Gi",
                labels=["gpu", "t4"],
                image="example:1",
                imageSize="25Gi",
                schedules=_schedules(runners=2),
                maxLifetime="7h",
                cuda="12.8",
            ),
            "gpu-v100": runner(pool="v100", group="big", labels=["v100"], scale=_NODES),
            "gpu-any": runner(pools=["t4", "apart"], keepFailed=KEPT, fillNodes=True),
            "gpu-apart": runner(pools=["apart", "near"]),
        },
        runnerQuotas={"ml": {"gpus": 999, "runners": ["gpu-t4"]}},
        **enablement,
        **delivery,
    )
    for endpoint, network, enablement, delivery, sharing, types in (
        (
            {"publicCidrs": ["203.0.113.0/24"]},
            {"cidr": "10.1.0.0/16", "natGateways": "one"},
            {"enablement": "device-plugin"},
            {"delivery": "helm"},
            _SLICED,
            ["g5.2xlarge"],
        ),
        (
            {"private": True, "reachableFrom": "vpn", "privateCidrs": ["10.2.0.0/16"]},
            _GIVEN,
            {"enablement": "gpu-operator", "operator": {"serviceMonitor": True}},
            {"delivery": "argocd", "gitops": gitops(secrets={"by": "sealed-secrets", "privateKey": SEALED})},
            _CUT,
            ["p4d.24xlarge"],
        ),
    )
)
_MACHINE: dict[str, Any] = {"cuda": "12.8", "disk": "300Gi", "toolkit": "1.19.1-1", "nvkind": True, "group": "vms"}
_OKE = (
    oke_cluster(
        network=_GIVEN_VCN | {"compartment": "ocid1.compartment.oc1..examplenetwork"},
        delivery="argocd",
        gitops=gitops(revision="v1", namespace="git", project="gpu", secrets={"by": "program"}),
        privateEgress=["10.20.0.0/16"],
        budget=_BUDGET | {"compartment": "ocid1.compartment.oc1..exampleci"},
        queues=_queues("a10"),
        caches=_caches(models={"storage": "fss", "encryptInTransit": False}, work={"storage": "block", "vpus": 20}),
        jobs=_jobs("a10"),
        workloads=_workloads("a10"),
        protect=True,
        admission=True,
        monitoring=_OF_THE_OWNER,
        health=_HEALTH,
        registry=_REGISTRY | {"namespace": "axexample"},
        declareQuotas=True,
        tenancy="ocid1.tenancy.oc1..example",
        compartmentPath="ci:clusters",
        machineCompartmentPath="ci:machines",
        addonVersions={"ClusterAutoscaler": "v1.34.2", "NvidiaGpuPlugin": "v0.17.1"},
        enablement="gpu-plugin-addon",
        gpuPluginAddon=True,
        idleDelay="5m",
        machineCompartment="ocid1.compartment.oc1..examplevms",
        homeRegion="us-ashburn-1",
        replaceNodes="wait",
        system={"ocpus": 4, "memory": "32Gi", "nodes": 3, "disk": "100Gi"},
        pools={
            "a10": oke_pool(
                disk="300Gi", labels={"example.com/team": "ml"}, cdi=False, image="oke-gpu", zones=[SAN_JOSE], placeholders=1
            ),
            "spot": oke_pool(capacity="spot", instanceTypes=["VM.GPU3.1"]),
            "v100": oke_pool(instanceTypes=["VM.GPU3.1"]),
        },
        runnerQuotas={"ml": {"gpus": 999, "runners": ["oci-spot"]}},
        runners={
            "oci-spot": oke_runner(pool="spot", rerunFirstOn="oci-spot", rerunOn="oci-v100"),
            "oci-v100": oke_runner(pool="v100", keepFailed=KEPT, fillNodes=True),
            "oci-a10": oke_runner(
                kind="pod",
                gpus=1,
                shm="2Gi",
                **POD_FIELDS,
                **CONTAINER_FIELDS,
                scratch="20Gi",
                labels=["a10"],
                group="GPUs",
                image="example.com/runner:1",
                schedules=_schedules(runners=2),
                imageSize="25Gi",
                maxLifetime="7h",
                cuda="12.8",
            ),
            "standing": vm(labels=["standing"], launcherImage="example:1", **_MACHINE),
            "per-job": vm_per_job(
                labels=["per-job"],
                launcher="gpu-ci",
                lifetime="2h",
                launcherImage="example:1",
                places=[
                    {"region": "us-sanjose-1", "availabilityDomains": [SAN_JOSE]},
                    {
                        "region": "us-ashburn-1",
                        "availabilityDomains": DOMAINS["us-ashburn-1"],
                        "subnet": "ocid1.subnet.oc1.iad.example",
                        "securityGroup": "ocid1.networksecuritygroup.oc1.iad.example",
                        "image": "ocid1.image.oc1.iad.example",
                    },
                ],
                **_MACHINE,
            ),
        },
    ),
    oke_cluster(
        network={"cidr": "10.1.0.0/16"},
        delivery="argocd",
        gitops=gitops(secrets={"by": "external-secrets", "store": "vault", "key": "ci/github-app", "property": "key"}),
        enablement="gpu-operator",
        operator={
            "driver": {
                "version": DRIVER,
                "repository": "registry.example.com/nvidia",
                "pullSecrets": ["registry"],
                "licenseSecret": "vgpu",
            },
            "containerd": {"config": "/etc/containerd/config.toml", "socket": "/run/c.sock", "defaultRuntime": True},
            "serviceMonitor": False,
        },
        pools={
            "a100": oke_pool(
                instanceTypes=["BM.GPU4.8"],
                capacity="reserved",
                image="ubuntu",
                reservation={"id": "ocid1.capacityreservation.oc1..example", "zone": SAN_JOSE, "count": 2},
                nodes={"min": 1, "max": 2},
                sharing=_SIDE_BY_SIDE,
                kubelet={key: value for key, value in NODE_CONFIG["kubelet"]["config"].items() if key not in OKE_OWNED},
                localStorage={"strategy": "RAID0"},
            )
        },
        runners={
            "oci-a100": oke_runner(pools=["a100"]),
            "cncf": {key: value for key, value in vm_per_job(launcher="cncf").items() if key != "image"}
            | {"places": [{"region": "us-sanjose-1", "availabilityDomains": [SAN_JOSE], "subnet": "ocid1.subnet.oc1..example"}]},
        },
    ),
)
_HOST = {
    "address": "192.0.2.20",
    "installDisk": "/dev/nvme0n1",
    "ephemeralDisk": "/dev/nvme2n1",
    "volume": {"name": "models", "disk": "/dev/nvme1n1"},
}
_TALOS = (
    talos_cluster(
        region="home",
        talosVersion="1.13",
        system={"hosts": {"system-0": {"address": "192.0.2.14", "volume": {"ephemeral": "100Gi"}}}},
        cni="flannel",
        monitoring=_installed("gpu-3090"),
        health=_HEALTH,
        enablement="gpu-operator",
        operator={"serviceMonitor": False},
        delivery="argocd",
        gitops=gitops(secrets={"by": "sops", "file": "github-app.enc.yaml"}),
        privateEgress=["10.20.0.0/16"],
        queues=_queues("gpu"),
        workloads={
            name: workload | ({"storage": {"size": "20Gi", "storageClass": "local-path"}} if "storage" in workload else {})
            for name, workload in _workloads("gpu").items()
        },
        pools={
            "gpu": talos_pool(
                capacity="on-demand",
                nodes={"hosts": {"gpu-0": _HOST}},
                disk="1000Gi",
                labels={"example.com/coral": "true"},
                cdi=False,
                sharing=_SLICED,
                image="talos",
                driver={"kernelModules": "open", "tier": "lts"},
                kubelet=NODE_CONFIG["kubelet"]["config"],
            )
        },
        runnerQuotas={"ml": {"gpus": 999, "runners": ["gpu-3090"]}},
        runners={
            "gpu-3090": runner(
                pool="gpu",
                kind="pod",
                gpus=1,
                shm="2Gi",
                scratch="20Gi",
                labels=["rtx"],
                group="GPUs",
                image="example:1",
                imageSize="25Gi",
                maxLifetime="7h",
                cuda="12.8",
                **POD_FIELDS,
                **CONTAINER_FIELDS,
            ),
            "gpu-kept": runner(pool="gpu", keepFailed=KEPT, fillNodes=True),
        },
    ),
    talos_cluster(
        talosVersion="1.12",
        machines={"rig": own_machine(gpus=2, gpuMemory="24Gi", arch="x86_64")},
        controlPlane={"hosts": {f"control-{n}": {"address": f"2001:db8::{n}"} for n in range(3)}},
        cni="none",
        enablement="device-plugin",
    ),
)

_ORDERED = {
    "one": cluster(
        pools={"spot": pool(capacity="spot"), "t4": pool()},
        runners={"gpu-one": runner(pools=["spot", "t4"], labels=["t4"])},
    ),
    "two": cluster(
        pools={"t4": pool(capacity="spot")},
        runners={"gpu-two": runner(labels=["t4"], sameAs="one/gpu-one", sameAsOrder=2)},
    ),
    "here": oke_cluster(runners={"a10-here": oke_runner(labels=["a10"])}),
    "there": oke_cluster(
        pools={"a10": oke_pool(), "more": oke_pool()},
        runners={"a10-there": oke_runner(pools=["a10", "more"], labels=["a10"], sameAs="here/a10-here", sameAsOrder=2)},
        queues={
            "flavors": {"both": {"pools": ["a10", "more"]}},
            "teams": {"ml": {"namespaces": ["ml"], "quotas": [{"flavor": "both", "nominal": 1}]}},
        },
        jobs={"train": {"namespace": "ml", "image": "registry.example.com/train:1", "pools": ["a10", "more"]}},
    ),
}
"""Runner classes, queue flavors and jobs of several pools, and classes of several clusters."""


def _with_first_names(clusters: dict[str, Any]) -> dict[str, Any]:
    """The clusters, renamed with all that they can rename."""
    renamed = {}
    for name, settings in clusters.items():
        kinds = {kind: settings[kind] for kind in ("pools", "runners", "caches") if settings.get(kind)}
        inside = {kind: {key: {**entry, "was": f"f-{key}"} for key, entry in found.items()} for kind, found in kinds.items()}
        # The path in Git ends with the first name of the cluster.
        renamed[name] = {**settings, **inside} | ({} if "gitops" in settings else {"was": f"f-{name}"})
    return renamed


FULL = (
    *(
        config(github=_SCOPES, tags={"owner": "ci"}, clusters=_with_first_names({"one": _of_scope(held, github="research")}))
        for held in (*_EKS, *_OKE, *_TALOS)
    ),
    config(clusters=_with_first_names(_ORDERED), permissionsBoundary="arn:aws:iam::aws:policy/PowerUserAccess"),
)
"""Valid configs that use every key between them."""


@st.composite
def slips(draw: st.DrawFn) -> dict[str, Any]:
    """A valid config of which one place was overwritten, removed, renamed or doubled."""
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(FULL)))
    path = draw(st.sampled_from(places(document)))
    holder, key = parent_of(document, path), path[-1]
    slip = draw(st.sampled_from(["overwrite", "remove", "add", "rename"]))
    if slip == "overwrite" or isinstance(holder, list):
        holder[key] = draw(_JSON)
        return document
    value = holder[key] if slip == "add" else holder.pop(key)
    if slip != "remove":
        holder[draw(st.one_of(st.text(max_size=8), st.just("[key]"), st.just(f"{key}s")))] = value
    return document
