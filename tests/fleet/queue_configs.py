"""Settings of queues for tests: one that is like production's, and any valid ones."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, strategies as st

from fleet.facts.manifest import Manifest
from fleet.loading.config import load
from fleet.providers.fleet import Fleet
from fleet.render.queues import QueueObjects
from tests.builders import ROOT, cluster, config, oke_cluster, oke_pool, pool, read_stack

POOLS: dict[str, dict[str, Any]] = {
    "t4": pool(nodes={"max": 6}, capacity="spot"),
    "t4-release": pool(nodes={"max": 2}, role="release"),
    "mixed": pool(instanceTypes=["g5.4xlarge", "g5.2xlarge"], nodes={"max": 5}, capacity="spot"),
    "a100": pool(instanceTypes=["p4d.24xlarge"], nodes={"max": 2}, role="release", labels={"example.com/team": "ml"}),
    "sliced": pool(nodes={"max": 3}, sharing={"strategy": "time-slicing", "replicas": 4}),
    "unrenamed": pool(
        instanceTypes=["g5.4xlarge"], nodes={"max": 2}, sharing={"strategy": "time-slicing", "replicas": 2, "rename": False}
    ),
    "parts": pool(instanceTypes=["p4d.24xlarge"], nodes={"max": 1}, sharing={"strategy": "mig", "profile": "1g.5gb"}),
}
"""Of EKS with the operator: whole GPUs, shares with a name of their own and without, parts."""
OKE_POOLS: dict[str, dict[str, Any]] = {
    "a10": oke_pool(nodes={"max": 4}),
    "v100-spot": oke_pool(instanceTypes=["VM.GPU3.2"], nodes={"max": 3}, capacity="spot"),
}
MOST = {"t4": 6, "t4-release": 2, "mixed": 5, "a100": 16, "sliced": 12, "unrenamed": 4, "parts": 56, "a10": 4, "v100-spot": 6}
"""Units of each pool with all its nodes, by hand."""

PROD: dict[str, Any] = {
    "cohort": "gpu",
    "fairSharing": True,
    "teams": {
        "research": {
            "namespaces": ["research"],
            "weight": 2,
            "quotas": [{"pool": "t4-release", "nominal": 4}, {"pool": "a10g-spot", "nominal": 4, "borrow": 2}],
        },
        "vision": {
            "namespaces": ["vision", "vision-nightly"],
            "quotas": [
                {"pool": "t4-spot", "nominal": 4},
                {"pool": "a10g-spot", "nominal": 4, "lend": 2},
                {"pool": "t4-release", "nominal": 0, "borrow": 2},
            ],
            "preemption": {"reclaimWithinCohort": "LowerPriority"},
        },
    },
}
"""Two teams over pools of production's first cluster."""


def in_order(made: QueueObjects) -> list[Manifest]:
    """All objects. Each refers only to objects before it."""
    local_queues = (entry for queue in made.teams.values() for group in queue.local_queues.values() for entry in group)
    return [*made.priorities, *made.flavors, *(queue.cluster_queue for queue in made.teams.values()), *local_queues]


def of(queues: dict[str, Any], pools: dict[str, dict[str, Any]] | None = None) -> Fleet:
    """A fleet of the one cluster usw2 with such queues and no runners."""
    held = pools or POOLS
    made = oke_cluster if set(held) <= set(OKE_POOLS) else cluster
    changes = {"pools": held, "runners": {}, "queues": queues}
    return load(config(clusters={"usw2": made(**changes, **({"enablement": "gpu-operator"} if made is cluster else {}))}))


def prod() -> Fleet:
    """The production stack with queues for two teams."""
    document = read_stack(ROOT / "Pulumi.prod.yaml")
    document["clusters"]["use1"]["queues"] = PROD
    return load(document)


@st.composite
def queues(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Any valid queues, and the pools that they are of."""
    pools = draw(st.sampled_from([POOLS, OKE_POOLS]))
    cohort, fair = draw(st.sampled_from([("gpu", True), ("gpu", False), (None, False)]))
    left = dict(MOST)
    names = draw(st.lists(st.sampled_from(["research", "vision", "audio", "default"]), min_size=1, max_size=4, unique=True))
    teams = {}
    for number, name in enumerate(names):
        quotas = []
        for pool_name in draw(st.lists(st.sampled_from(sorted(pools)), min_size=1, max_size=4, unique=True)):
            nominal = draw(st.integers(0, left[pool_name]))
            left[pool_name] -= nominal
            quota: dict[str, Any] = {"pool": pool_name, "nominal": nominal}
            if cohort:
                limits = {"borrow": st.integers(0, 20), "lend": st.integers(0, nominal)}
                quota |= draw(st.fixed_dictionaries({}, optional=limits))
            quotas.append(quota)
        team: dict[str, Any] = {"namespaces": [f"{name}-{number}", f"{name}-more"][: draw(st.integers(1, 2))], "quotas": quotas}
        if cohort is None and not any(quota["nominal"] for quota in quotas):
            continue
        optional: dict[str, st.SearchStrategy[Any]] = {"strategy": st.sampled_from(["StrictFIFO", "BestEffortFIFO"])}
        if fair:
            optional["weight"] = st.integers(0, 5)
        teams[name] = team | draw(st.fixed_dictionaries({}, optional=optional)) | {"preemption": draw(_preemption(cohort, fair))}
    assume(teams)
    held: dict[str, Any] = {"teams": teams} | ({"cohort": cohort} if cohort else {}) | ({"fairSharing": True} if fair else {})
    return held, pools


def _preemption(cohort: str | None, fair: bool) -> st.SearchStrategy[dict[str, str]]:
    within = st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
    reclaim = st.sampled_from(["Never", "LowerPriority", "Any"] if cohort else ["Never"])
    both = st.fixed_dictionaries({}, optional={"withinClusterQueue": within, "reclaimWithinCohort": reclaim})
    if cohort is None or fair:
        return both
    return both.map(lambda found: found | ({"borrowWithinCohort": "LowerPriority"} if _reclaims(found) else {}))


def _reclaims(preemption: dict[str, str]) -> bool:
    return preemption.get("reclaimWithinCohort", "Never") != "Never"
