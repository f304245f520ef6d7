"""Hypothesis strategies: any valid config, and one that a slip of the pen has changed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from fleet import hardware
from fleet.runner import GENERIC_LABELS
from tests.builders import cluster, config, pool, runner

Path = tuple[str | int, ...]

REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-central-1", "ap-southeast-2")
# Far faster than from_regex; the first letter keeps them clear of the names and labels that have a meaning.
NAMES = st.text("abcxyz0189-", max_size=12).map(lambda tail: f"nx{tail}".rstrip("-"))

_LIKE_TYPES: dict[tuple[str, int, int], list[str]] = {}
for _machine in hardware.machines("aws"):
    if _machine.gpu is not None:
        _LIKE_TYPES.setdefault((_machine.gpu.name, _machine.gpu_memory_mib, _machine.gpus), []).append(_machine.name)
_CPU_TYPES = [machine.name for machine in hardware.machines("aws") if not machine.gpus]


@st.composite
def scales(draw: st.DrawFn) -> dict[str, int]:
    """A least and a greatest count."""
    most = draw(st.integers(1, 50))
    return {"max": most} | draw(st.fixed_dictionaries({}, optional={"min": st.integers(0, most)}))


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    """A pool of one to three like types."""
    types = draw(st.sampled_from(sorted(_LIKE_TYPES.values())))
    role, capacity = draw(st.sampled_from([("burst", "spot"), ("burst", "on-demand"), ("release", "on-demand")]))
    delays = st.one_of(st.integers(60, 86_400).map("{}s".format), st.integers(1, 1440).map("{}m".format), st.just("24h"))
    keys = NAMES.map("example.com/{}".format)
    optional = {
        "idleDelay": delays,
        "disk": st.integers(30, 2000).map("{}Gi".format),
        "labels": st.dictionaries(keys, st.text("ABCxyz019-_.", max_size=12).map("A{}0".format), max_size=3),
    }
    return {
        "instanceTypes": draw(st.lists(st.sampled_from(types), min_size=1, max_size=3, unique=True)),
        "capacity": capacity,
        "role": role,
        "nodes": draw(scales()),
    } | draw(st.fixed_dictionaries({}, optional=optional))


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
        "image": NAMES.map("registry.example.com/{}:1".format),
    }
    return {
        "pool": pool,
        "cpu": {"request": draw(st.sampled_from([cpu, f"{cpu * 1000}m", cpu - 0.5, str(cpu)])), "limit": cpu},
        "memory": {"request": f"{memory * 512}Mi", "limit": f"{memory}Gi"},
        "labels": labels,
        "scale": draw(scales()),
    } | draw(st.fixed_dictionaries({}, optional=optional))


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


@st.composite
def clusters(draw: st.DrawFn, sets: dict[str, list[str]]) -> dict[str, Any]:
    """An EKS cluster with the runner sets named, each with its labels."""
    region = draw(st.sampled_from(REGIONS))
    zones = [f"{region}{letter}" for letter in draw(st.lists(st.sampled_from("abcdef"), min_size=2, max_size=4, unique=True))]
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    networks_of = st.sampled_from(["203.0.113.0/24", "198.51.100.7/32", "52.94.76.0/22"])
    endpoint = st.one_of(
        st.builds(lambda cidrs: {"publicCidrs": cidrs}, st.lists(networks_of, min_size=1, unique=True)),
        st.sampled_from([{"private": True, "reachableFrom": reach} for reach in ("vpc-agent", "vpn")]),
    )
    system = {
        "instanceTypes": st.lists(st.sampled_from(_CPU_TYPES), min_size=1, max_size=2, unique=True),
        "nodes": scales().filter(lambda nodes: nodes.get("min", 0) > 0),
    }
    optional = {
        "network": networks(zones),
        "system": st.fixed_dictionaries({}, optional=system),
        "admins": st.just(["arn:aws:iam::123456789012:role/ops"]),
        "logTypes": st.lists(st.sampled_from(["api", "audit", "scheduler"]), unique=True),
        "enablement": st.just("device-plugin"),
        "delivery": st.just("helm"),
    }
    return {
        "provider": "eks",
        "region": region,
        "zones": zones,
        "kubernetesVersion": "1.34",
        "endpoint": draw(endpoint),
        "pools": {name: draw(pools()) for name in names},
        "runners": {name: draw(runners(draw(st.sampled_from(names)), labels)) for name, labels in sets.items()},
    } | draw(st.fixed_dictionaries({}, optional=optional))


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Any valid config of one or two clusters. One set at most carries generic labels; names and own labels are all different."""
    words = draw(st.lists(NAMES, min_size=2, max_size=8, unique=True))
    generic = draw(st.lists(st.sampled_from(GENERIC_LABELS), unique=True))
    sets = {name: [label.upper()] for name, label in zip(words[::2], words[1::2], strict=False)}
    sets[words[0]] = sets[words[0]] + generic
    cut = draw(st.integers(0, len(sets)))
    parts = [dict(list(sets.items())[:cut]), dict(list(sets.items())[cut:])]
    names = draw(st.lists(NAMES, min_size=2, max_size=2, unique=True))
    github: dict[str, Any] = {"url": "https://github.com/example/repository", "appId": "1", "installationId": "2"}
    return {
        "github": github | draw(st.fixed_dictionaries({}, optional={"group": NAMES})),
        "clusters": {name: draw(clusters(part)) for name, part in zip(names, parts, strict=True)},
    } | draw(st.fixed_dictionaries({}, optional={"tags": st.dictionaries(NAMES, NAMES)}))


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
    "1.34",
    "g5.xlarge",
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
    """The container that holds the last step of a path. Raises LookupError where there is none."""
    for step in path[:-1]:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


_GIVEN = {"vpcId": "vpc-01234567", "privateSubnets": {"us-west-2a": "subnet-01234567", "us-west-2b": "subnet-89abcdef"}}
_NODES = {"min": 1, "max": 3}
FULL = tuple(
    config(
        github={"url": "https://github.com/example", "appId": "1", "installationId": "2", "group": "gpu"},
        tags={"owner": "ci"},
        clusters={
            "usw2": cluster(
                endpoint=endpoint,
                network=network,
                admins=["arn:aws:iam::123456789012:role/ops"],
                logTypes=["api"],
                enablement="device-plugin",
                delivery="helm",
                system={"instanceTypes": ["m6i.large"], "nodes": _NODES, "disk": "60Gi"},
                pools={"t4": pool(idleDelay="5m", disk="100Gi", labels={"example.com/team": "ml"}), "v100": pool(nodes=_NODES)},
                runners={
                    "gpu-t4": runner(kind="pod", gpus=1, shm="2Gi", scratch="20Gi", labels=["gpu", "t4"], image="example:1"),
                    "gpu-v100": runner(pool="v100", group="big", labels=["v100"], scale=_NODES),
                },
            )
        },
    )
    for endpoint, network in (
        ({"publicCidrs": ["203.0.113.0/24"]}, {"cidr": "10.1.0.0/16", "natGateways": "one"}),
        ({"private": True, "reachableFrom": "vpn", "privateCidrs": ["10.2.0.0/16"]}, _GIVEN),
    )
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
