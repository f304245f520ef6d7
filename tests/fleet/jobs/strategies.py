"""Jobs and fleets of all kinds, for hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from fleet.facts import hardware
from fleet.jobs.place import options_of
from fleet.jobs.profiles import COUNTS, PROFILES
from fleet.loading.config import load
from fleet.providers.fleet import Fleet
from fleet.settings.sharing import profiles
from tests.builders import cluster, config, oke_cluster, oke_pool, pool

GPU_TYPES = sorted(PROFILES)
_GPUS = {profile.gpu for profile in PROFILES.values()}
MACHINES = {
    cloud: [each.name for each in hardware.machines(cloud) if each.gpu and each.gpu.name in _GPUS and each.arch == "x86_64"]
    for cloud in ("aws", "oci")
}

_MEMORY = st.one_of(st.integers(1, 2200).map("{}Gi".format), st.integers(1, 300_000).map("{}Mi".format))
_CPU = st.one_of(st.integers(1, 200_000).map("{}m".format), st.integers(1, 200), st.sampled_from([0.5, "1.5", "8000m"]))
_NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
_VARIABLES = st.from_regex(r"[A-Z][A-Z_]{0,12}X", fullmatch=True)

_ASKS: dict[str, st.SearchStrategy[Any]] = {
    "gpu_count": st.sampled_from(COUNTS),
    "gpu_type": st.sampled_from([*GPU_TYPES, *map(str.upper, GPU_TYPES)]),
    "memory": _MEMORY,
    "cpu": _CPU,
    "memory_request": _MEMORY,
    "cpu_request": _CPU,
    "scratch": _MEMORY,
    "shm": st.one_of(_MEMORY, st.sampled_from(["0", 0])),
    "spot": st.booleans(),
    "shared": st.booleans(),
    "resource": st.sampled_from(["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.40gb"]),
    "prefer": st.dictionaries(st.sampled_from(GPU_TYPES), st.integers(1, 100), max_size=3),
    "instance_type": st.one_of(
        st.sampled_from([name for names in MACHINES.values() for name in names]),
        st.lists(st.sampled_from([name for names in MACHINES.values() for name in names]), max_size=4),
    ),
}
_REST: dict[str, st.SearchStrategy[Any]] = {
    "command": st.lists(st.text(max_size=12), max_size=4),
    "args": st.lists(st.text(max_size=12), max_size=2),
    "env": st.dictionaries(_VARIABLES, st.text(max_size=20), max_size=3),
    "secret_env": st.dictionaries(_VARIABLES, st.tuples(_NAMES, _NAMES), max_size=2),
    "visible_devices": st.sampled_from(["0", "0,1", [0, 1, 2, 3], True, False, None]),
    "namespace": _NAMES,
    "workspace": _NAMES,
    "workspace_path": st.sampled_from(["/workspace", "/work", "/data/work"]),
    "cache": _NAMES,
    "cache_path": st.sampled_from(["/models", "/data/models", "/work/models"]),
    "cache_read_only": st.booleans(),
    "queue": _NAMES,
    "priority_class": st.sampled_from(["high-priority", "medium-priority", "gpu-ci-runner"]),
    "deadline": st.one_of(st.integers(1, 7200), st.sampled_from(["1h", "90m", "7200s"])),
    "backoff_limit": st.integers(0, 3),
    "ttl": st.one_of(st.integers(0, 3600), st.just("1h")),
    "restart_policy": st.sampled_from(["OnFailure", "Never", None]),
    "user": st.integers(1, 2**31 - 1),
    "group": st.integers(1, 2**31 - 1),
    "pull_secrets": st.lists(_NAMES, max_size=2),
    "labels": st.dictionaries(_NAMES.map("example.com/{}".format), _NAMES, max_size=2),
    "annotations": st.dictionaries(_NAMES.map("example.com/{}".format), st.text(max_size=20), max_size=2),
}
_TASKS = st.one_of(_NAMES, st.sampled_from(["ml_task_123", "A100 sweep", "Übung 7", "x" * 90]), st.text(min_size=1, max_size=70))
_IMAGES = st.sampled_from(
    ["registry.example.com/agent_bus:1.4.2", "r.example.com:5000/a/b:v2", f"registry.example.com/a@sha256:{'0a' * 32}"]
)

_JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.one_of(st.integers(), st.text(max_size=4)), max_size=3),
    st.dictionaries(st.text(max_size=6), st.one_of(st.integers(), st.text(max_size=6)), max_size=2),
    st.sampled_from(["latest", "9" * 400, "-1Gi", "1e9", "a:latest", "/", "/proc/1", "0,0", "\ud800", "a\0b", "NaN", b"0", {1}]),
)


def arguments() -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of the right kinds, which seldom go together."""
    return st.fixed_dictionaries({"task_id": _TASKS, "image": _IMAGES}, optional=_ASKS | _REST)


@st.composite
def anything(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of the right kinds, of which a few are anything at all."""
    found = draw(good())
    for name in draw(st.lists(st.sampled_from(["task_id", "image", *_ASKS, *_REST]), min_size=1, max_size=3)):
        found[name] = draw(_JUNK)
    return found


@st.composite
def good(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments that nearly always go together, with much in them."""
    found = draw(st.fixed_dictionaries({"task_id": _TASKS, "image": _IMAGES, "gpu_type": _ASKS["gpu_type"]}, optional=_REST))
    found["gpu_count"] = count = draw(_ASKS["gpu_count"])
    if draw(st.booleans()):
        found["memory"] = f"{count * draw(st.integers(8, 64))}Gi"
    if draw(st.booleans()):
        found |= {"cpu": count * draw(st.integers(2, 16)), "cpu_request": f"{draw(st.integers(1, 2000))}m"}
    for name in ("spot", "scratch"):
        if draw(st.booleans()):
            found[name] = draw(_ASKS[name])
    if draw(st.booleans()):
        found["shm"] = draw(st.sampled_from(["0", "512Mi", "4Gi"]))
    if draw(st.booleans()):
        others = draw(st.dictionaries(st.sampled_from(GPU_TYPES), st.integers(1, 100), max_size=2))
        found["prefer"] = {found["gpu_type"]: draw(st.integers(1, 100))} | others
    for claim, also in (("workspace", ("workspace_path",)), ("cache", ("cache_path", "cache_read_only"))):
        if claim not in found:
            found = {name: value for name, value in found.items() if name not in also}
    if count < 4:
        found.pop("visible_devices", None)
    return found


@st.composite
def aimed(draw: st.DrawFn, fleet: Fleet) -> dict[str, Any]:
    """Arguments of a job that some pool of the fleet holds, or nearly: at one pool's GPU, with a thing or two beside the mark."""
    pools = [each for _, held in fleet.clusters_by_name() for each in held.pools.values()]
    at = draw(st.sampled_from(pools))
    machine = at.machines[0]
    found: dict[str, Any] = {
        "task_id": "job",
        "image": draw(_IMAGES),
        "gpu_count": draw(st.sampled_from([count for count in COUNTS if count <= machine.gpus])) if at.several else 1,
        **options_of(at),
    }
    found["spot"] = found["spot"] or draw(st.booleans())
    size = {
        "cpu": st.integers(1, 40),
        "memory": st.integers(4, 130).map("{}Gi".format),
        "scratch": st.integers(1, 300).map("{}Gi".format),
        "shm": st.sampled_from(["0", "1Gi", "3Gi"]),
        "resource": st.just(at.resource),
        "instance_type": st.just(list(at.instance_types)),
        "prefer": st.just({found["gpu_type"]: 50, draw(st.sampled_from(GPU_TYPES)): 70}),
    }
    for name in draw(st.lists(st.sampled_from(sorted(size)), max_size=2, unique=True)):
        found[name] = draw(size[name])
    for name in draw(
        st.sampled_from([[], [], ["gpu_count"], ["spot"], ["shared"], ["instance_type"], ["resource"], ["gpu_type"]])
    ):
        found[name] = draw(_ASKS[name])
    return found


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Clusters of both clouds with pools of whole and of shared GPUs, and no runners."""
    held: dict[str, Any] = {}
    if draw(st.booleans()):
        by = draw(st.sampled_from(["device-plugin", "gpu-operator"]))
        names = draw(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, unique=True))
        pools = {name: draw(_pools("aws", pool, mig=by == "gpu-operator")) for name in names}
        # Parts with names of their own bar MPS under the operator.
        strategies = {held["sharing"]["strategy"] for held in pools.values() if held.get("sharing")}
        if {"mig", "mps"} <= strategies:
            pools = {name: held for name, held in pools.items() if (held.get("sharing") or {}).get("strategy") != "mps"}
        held["east"] = cluster(enablement=by, pools=pools, runners={})
    if not held or draw(st.booleans()):
        by = draw(st.sampled_from(["gpu-plugin-addon", "device-plugin"]))
        names = draw(st.lists(st.sampled_from(["a", "e", "f"]), min_size=1, unique=True))
        pools = {name: draw(_pools("oci", oke_pool, shares=by == "device-plugin")) for name in names}
        held["west"] = oke_cluster(enablement=by, pools=pools, runners={})
    return load(config(clusters=held))


@st.composite
def _pools(
    draw: st.DrawFn, cloud: str, make: Callable[..., dict[str, Any]], *, mig: bool = False, shares: bool = True
) -> dict[str, Any]:
    name = draw(st.sampled_from(MACHINES[cloud]))
    machine = hardware.machine(name)
    like = [
        each.name
        for each in hardware.machines(cloud)
        if (each.gpu, each.gpus, each.gpu_memory_mib) == (machine.gpu, machine.gpus, machine.gpu_memory_mib)
    ]
    more = draw(st.lists(st.sampled_from(like), max_size=2)) if cloud == "aws" else []
    types = list(dict.fromkeys([name, *more]))
    spots = all(hardware.preemptible(hardware.machine(each)) for each in types)
    found: dict[str, Any] = {
        "instanceTypes": types,
        "capacity": draw(st.sampled_from(["on-demand", *["spot"] * spots])),
        "disk": f"{draw(st.sampled_from([50, 100, 200, 400]))}Gi",
        "nodes": {"min": 1, "max": draw(st.integers(1, 3))},
        "role": "burst",
    }
    if found["capacity"] == "on-demand":
        found["role"] = draw(st.sampled_from(["burst", "release"]))
    ways: list[Any] = [None, None]
    if shares:
        several = {"rename": draw(st.booleans()), "allowSeveral": draw(st.booleans())}
        ways += [{"strategy": way, "replicas": draw(st.integers(2, 8))} | several for way in ("time-slicing", "mps")]
    if mig and (known := sorted(profiles(machine))):
        ways.append({"strategy": "mig", "profile": draw(st.sampled_from(known))})
    if (way := draw(st.sampled_from(ways))) is not None:
        found["sharing"] = way
    return make(**found)
