"""`was`: a stack file that renames things gives the fleet that it gave before, whatever in it names them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fleet.jobs import gpu_job, place_job, pool_options
from fleet.loading import renames
from fleet.loading.config import load
from fleet.loading.renames import first_names, renamed
from gpu_ci.submit import smoke
from tests.builders import ROOT, pool, stack_in
from tests.fleet.broken_stacks import stack
from tests.strategies import FULL

FILES = sorted([*ROOT.glob("Pulumi.*.yaml"), *(ROOT / "examples").glob("Pulumi.*.yaml")])
KINDS = ("pools", "runners", "caches")
NOT_NAMES = {"gpuType", "flavor", "labels"}
"""Keys whose values may be the same word as a name."""


def _with(value: Any, names: dict[str, str], key: str = "") -> Any:
    """A copy in which every text that is one of the names is another one, and every key of an objective."""
    if isinstance(value, dict):
        keys = names if key == "objectives" else {}
        return {keys.get(inner, inner): _with(item, names, inner) for inner, item in value.items()}
    if isinstance(value, list):
        return [_with(item, names, key) for item in value]
    return names.get(value, value) if isinstance(value, str) and key not in NOT_NAMES else value


def _renamed(config: dict[str, Any]) -> dict[str, Any]:
    """The config with another name for every cluster, pool, runner class and cache, and `was` in each of them."""
    clusters = config["clusters"]
    sets = {f"{cluster}/{name}": f"{cluster}-n/{name}-n" for cluster, found in clusters.items() for name in found["runners"]}
    runners = {name: f"{name}-n" for found in clusters.values() for name in found["runners"]}
    new = {}
    for cluster, found in clusters.items():
        changed = dict(found)
        for kind in KINDS:
            names = {name: f"{name}-n" for name in found.get(kind, {})}
            # Only a part that names it may have the name: a pool and a queue's flavor can be called the same.
            classes = {f"cache-{name}": f"cache-{name}-n" for name in names} if kind == "caches" else {}
            changed = _with(changed, names | classes | (runners | sets if kind == "runners" else {}))
            if kind in changed:
                changed[kind] = {names[name]: {**entry, "was": name} for name, entry in changed[kind].items()}
        new[f"{cluster}-n"] = {**changed, "was": cluster}
    return {**config, "clusters": new}


def _paths(clusters: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for cluster, found in clusters.items():
        yield (f"{cluster}-n",)
        yield from ((f"{cluster}-n", kind, f"{name}-n") for kind in KINDS for name in found.get(kind, {}))


CONFIGS = {file.stem: stack_in(file.read_text(encoding="utf-8")) for file in FILES}
CONFIGS |= {f"full-{number}": {**full, "clusters": first_names(full["clusters"])} for number, full in enumerate(FULL)}
CONFIGS["buildkit"] = stack("valid")
CONFIGS["buildkit"]["clusters"]["usw2"]["pools"]["builder"] = pool(instanceTypes=["m6i.2xlarge"])
CONFIGS["buildkit"]["clusters"]["usw2"]["workloads"] = {
    "images": {"kind": "buildkit", "pool": "builder", "runners": ["gpu-t4"], "cpu": {"request": 2, "limit": 4}}
}
"""Every stack file, configs that use every key between them, and one with builds."""


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_a_file_with_other_names_gives_the_same_fleet(config: dict[str, Any]) -> None:
    other = _renamed(config)
    fleet = load(other)
    assert fleet.model_dump() == load(config).model_dump()
    assert {*fleet.renames} == {*_paths(config["clusters"])}
    assert first_names(other["clusters"]) == config["clusters"]
    assert not dict(renamed(config["clusters"]))


REFERENCES = [path for paths in renames._REFERENCES.values() for path in paths]


@pytest.mark.parametrize("path", REFERENCES)
def test_some_of_these_files_have_every_reference(path: str) -> None:
    seen: list[Any] = []
    for config in CONFIGS.values():
        for settings in config["clusters"].values():
            renames._at(settings, path.split("."), seen.append)
    assert any(seen)


def test_a_rerun_may_be_on_a_renamed_set_of_another_cluster() -> None:
    clusters = {
        "one": {"runners": {"spot": {"rerunOn": "safe-n", "rerunFirstOn": "spot"}}},
        "two": {"runners": {"safe-n": {"was": "safe"}}},
    }
    assert first_names(clusters)["one"]["runners"]["spot"] == {"rerunOn": "safe", "rerunFirstOn": "spot"}


def test_people_may_use_both_names() -> None:
    fleet = load(_renamed(stack("valid-two-clusters")))
    for cluster in fleet.clusters:
        assert fleet.first_name("clusters", f"{cluster}-n") == fleet.first_name("clusters", cluster) == cluster
        assert [name for name, _ in fleet.clusters_by_name(f"{cluster}-n")] == [cluster]
    assert fleet.first_name("pools", "t4-n") == fleet.first_name("pools", "t4") == "t4"
    assert fleet.first_name("pools", "other") == "other"
    job = gpu_job("task", "example/app:1", gpu_type="t4")
    placed = place_job(fleet, job, cluster="use1-n", pool="t4-n")
    assert (placed.chosen.cluster, placed.chosen.pool) == ("use1", "t4")
    assert pool_options(fleet, "use1-n", "t4-n") == pool_options(fleet, "use1", "t4") != {}
    assert [one.cluster for one in smoke.chosen(fleet, "use1-n", ["t4-n"])] == ["use1"]


def test_a_rename_of_a_set_reaches_reruns_and_equals_in_other_clusters() -> None:
    """The file of two clusters has a set in each; the second equals the first."""
    config = stack("valid-two-clusters")
    config["clusters"]["usw2"]["monitoring"] = {"prometheus": "install", "alerts": {"objectives": {"gpu-t4": "5m"}}}
    assert load(_renamed(config)).model_dump() == load(config).model_dump()
