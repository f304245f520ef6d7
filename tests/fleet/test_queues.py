"""What Kueue gets: objects that it takes, of pools that are there, and never more of them than there is."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from fleet.facts.offer import for_runners
from fleet.facts.scheduling import (
    HIGH_PRIORITY,
    JOB_PRIORITIES,
    MEDIUM_PRIORITY,
    OKE_PROFILE,
    POOL_LABEL,
    RUNNER_PRIORITY,
    Effect,
    Taint,
    flavor_labels,
    is_gpu_resource,
)
from fleet.prove.placement import pool_host
from fleet.providers.registry import PROVIDERS
from fleet.render.queues import QueueObjects, queue_objects
from fleet.settings.cluster import Cluster
from fleet.settings.queues import units
from tests.builders import reference
from tests.cases import cases
from tests.examples import examples
from tests.fleet.kueue_admission import Job, Kueue
from tests.fleet.kueue_rules import dangling, quantity, refused
from tests.fleet.queue_configs import MOST, OKE_POOLS, POOLS, in_order, of, prod, queues
from tests.fleet.values import mebibytes, millicores, toleration

any_queues = settings(max_examples=examples(80), database=None)


def one(*quotas: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Queues of the one team research."""
    return {"teams": {"research": {"namespaces": ["research"], "quotas": list(quotas)}}} | changes


def objects(held: dict[str, Any], pools: dict[str, dict[str, Any]] | None = None) -> QueueObjects:
    return objects_of(of(held, pools).clusters["usw2"])


def objects_of(cluster: Cluster) -> QueueObjects:
    assert cluster.queues is not None
    return queue_objects("usw2", cluster, cluster.queues)


def cluster_queues(made: QueueObjects) -> list[dict[str, Any]]:
    return [queue.cluster_queue for queue in made.teams.values()]


def cells(cluster_queue: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(flavor, quota of a resource) of a ClusterQueue."""
    for group in cluster_queue["spec"]["resourceGroups"]:
        for flavor in group["flavors"]:
            yield from ((flavor["name"], quota) for quota in flavor["resources"])


def quotas(made: QueueObjects, team: str, pool: str) -> dict[str, Mapping[str, Any]]:
    """What a team's ClusterQueue has of a pool, by resource."""
    return {quota["name"]: quota for flavor, quota in cells(made.teams[team].cluster_queue) if flavor == pool}


# -- as Kueue takes them -----------------------------------------------------------------------------------------------


@pytest.mark.reference
@any_queues
@given(queues())
def test_any_queues_are_objects_that_the_crds_take(drawn: tuple[dict[str, Any], dict[str, dict[str, Any]]]) -> None:
    for manifest in in_order(objects(*drawn)):
        jsonschema.Draft202012Validator(schema(manifest["kind"])).validate(manifest)


@pytest.mark.reference
def test_the_schemas_find_the_field_of_the_older_version() -> None:
    manifest = objects(one({"pool": "t4", "nominal": 1}, cohort="gpu")).teams["research"].cluster_queue
    manifest["spec"]["cohort"] = manifest["spec"].pop("cohortName")
    with pytest.raises(jsonschema.ValidationError, match="cohort"):
        jsonschema.Draft202012Validator(schema("ClusterQueue")).validate(manifest)


def schema(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reference(f"schemas/kueue.x-k8s.io/{kind.lower()}_v1beta2.json").read_text("utf-8"))
    return found


@any_queues
@given(queues())
def test_any_queues_keep_the_rules_that_the_schemas_lack(drawn: tuple[dict[str, Any], dict[str, dict[str, Any]]]) -> None:
    made = objects(*drawn)
    assert [fault for manifest in in_order(made) for fault in refused(manifest)] == []
    assert dangling(in_order(made)) == []
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in in_order(made)]
    assert len(set(names)) == len(names), "two objects of one name"


def _broken(change: Any) -> list[str]:
    manifest = objects(one({"pool": "t4", "nominal": 2, "borrow": 1, "lend": 1}, cohort="gpu")).teams["research"].cluster_queue
    change(manifest["spec"])
    return refused(manifest)


@cases(
    ("change", "found"),
    [
        (lambda spec: spec.pop("cohortName"), "borrowingLimit without a cohort"),
        (lambda spec: spec["resourceGroups"][0]["coveredResources"].reverse(), "not the covered ones in their order"),
        (lambda spec: spec["resourceGroups"][0]["flavors"][0]["resources"].pop(), "not the covered ones in their order"),
        (lambda spec: spec["resourceGroups"].append(spec["resourceGroups"][0]), "resource in two places"),
        (lambda spec: spec["resourceGroups"][0]["flavors"][0]["resources"][2].update(lendingLimit="3"), "above nominalQuota"),
        (lambda spec: spec["preemption"].update(borrowWithinCohort={"policy": "LowerPriority"}), "beside reclaimWithinCohort"),
        (lambda spec: spec.pop("namespaceSelector"), "no namespace is admitted"),
    ],
)
def test_the_rules_find_what_kueue_refuses(change: Any, found: str) -> None:
    assert any(found in fault for fault in _broken(change))


def test_a_missing_flavor_is_found_dangling() -> None:
    made = objects(one({"pool": "t4", "nominal": 1}))
    local = made.teams["research"].local_queues["research"]
    assert dangling(local) == ["research → ClusterQueue research", "default → ClusterQueue research"]
    assert dangling(cluster_queues(made)) == ["research → ResourceFlavor t4"]


# -- flavors -----------------------------------------------------------------------------------------------------------


@any_queues
@given(queues())
def test_a_flavor_is_what_the_nodes_of_its_pool_are(drawn: tuple[dict[str, Any], dict[str, dict[str, Any]]]) -> None:
    cluster = of(*drawn).clusters["usw2"]
    profile = PROVIDERS[cluster.provider].profile
    for flavor in objects_of(cluster).flavors:
        name, spec = flavor["metadata"]["name"], flavor["spec"]
        pool = cluster.pools[name]
        assert spec["nodeLabels"].items() <= pool.node_labels("usw2", name, profile).items(), "no node has it"
        assert spec["nodeLabels"][POOL_LABEL] == name
        assert len(spec["nodeLabels"]) <= 8, "the CRD takes no more"
        real = [profile.gpu_taint] + ([profile.spot_taint] if pool.capacity == "spot" and profile.spot_taint else [])
        taints = [Taint(each["key"], each["value"], Effect(each["effect"])) for each in spec["nodeTaints"]]
        assert taints == real, "the taints that the provider sets, by their real values"
        for taint in taints:
            assert any(toleration(each).covers(taint) for each in spec["tolerations"]), f"{taint}: no Job would ever run there"


def test_oke_marks_its_gpu_nodes_in_words_of_its_own_and_spot_nodes_twice() -> None:
    made = objects(one({"pool": "a10", "nominal": 1}, {"pool": "v100-spot", "nominal": 1}), OKE_POOLS)
    taints = {each["metadata"]["name"]: [taint["value"] for taint in each["spec"]["nodeTaints"]] for each in made.flavors}
    assert taints == {"a10": ["present"], "v100-spot": ["present", "present"]}
    (eks,) = objects(one({"pool": "t4", "nominal": 1})).flavors
    assert [taint["value"] for taint in eks["spec"]["nodeTaints"]] == ["true"], "EKS has no taint of spot nodes"


def test_only_pools_of_some_quota_have_a_flavor() -> None:
    made = objects(one({"pool": "t4", "nominal": 1}))
    assert [each["metadata"]["name"] for each in made.flavors] == ["t4"]


@pytest.mark.parametrize("pools", [POOLS, OKE_POOLS], ids=["eks", "oke"])
def test_a_queue_sees_every_label_that_tells_pools_apart(pools: dict[str, dict[str, Any]]) -> None:
    """A Job that selects on a label which no flavor has is admitted to any pool, and then waits for a node that never comes."""
    cluster = of(one({"pool": next(iter(pools)), "nominal": 1}), pools).clusters["usw2"]
    profile = PROVIDERS[cluster.provider].profile
    nodes = {name: pool.node_labels("usw2", name, profile) for name, pool in cluster.pools.items()}
    telling = {key for key in set().union(*nodes.values()) if len({labels.get(key) for labels in nodes.values()}) > 1}
    # The labels for the device plugin and the MIG manager are for them, and a label of an owner's own is one of too many.
    told = {key for key in telling if not key.startswith(("nvidia.com/", "example.com/"))}
    seen = {key for labels in nodes.values() for key in flavor_labels(labels, profile)}
    assert told <= seen
    assert {"accelerator", POOL_LABEL} <= told


# -- quotas ------------------------------------------------------------------------------------------------------------


@any_queues
@given(queues())
def test_quotas_name_what_the_plugin_advertises_and_add_up_to_no_more_than_the_pools(
    drawn: tuple[dict[str, Any], dict[str, dict[str, Any]]],
) -> None:
    cluster = of(*drawn).clusters["usw2"]
    made = objects_of(cluster)
    for cluster_queue in cluster_queues(made):
        (group,) = cluster_queue["spec"]["resourceGroups"]
        gpus = [name for name in group["coveredResources"] if is_gpu_resource(name)]
        assert group["coveredResources"] == ["cpu", "memory", *gpus]
        assert set(gpus) == {cluster.pools[flavor["name"]].resource for flavor in group["flavors"]}
    handed: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for flavor, quota in (each for cluster_queue in cluster_queues(made) for each in cells(cluster_queue)):
        handed[flavor, quota["name"]] += quantity(quota["nominalQuota"])
    for (flavor, resource), total in handed.items():
        assert total <= there(cluster, flavor, resource), f"{flavor}: more {resource} than its nodes have"


def there(cluster: Cluster, name: str, resource: str) -> Fraction:
    """What all nodes of a pool have for pods, of its worst type."""
    host = pool_host(cluster, name)
    offers = [for_runners(machine, host.disk, host.daemonsets) for machine in host.machines]
    if resource == "cpu":
        return Fraction(host.count * min(offer.cpu for offer in offers), 1000)
    if resource == "memory":
        return Fraction(host.count * min(offer.memory for offer in offers) * 2**20)
    return Fraction(MOST[name] if resource == cluster.pools[name].resource else 0)


def test_cpu_and_memory_go_with_the_gpus() -> None:
    made = objects(one({"pool": "a100", "nominal": 16, "borrow": 4, "lend": 8}, cohort="gpu"))
    found = quotas(made, "research", "a100")
    host = pool_host(of(one({"pool": "a100", "nominal": 1})).clusters["usw2"], "a100")
    (offer,) = [for_runners(machine, host.disk, host.daemonsets) for machine in host.machines]
    assert millicores(found["cpu"]["nominalQuota"]) == offer.cpu // 8 * 16, "two nodes of eight GPUs"
    assert mebibytes(found["memory"]["nominalQuota"]) == offer.memory // 8 * 16
    for limit, part in (("borrowingLimit", 4), ("lendingLimit", 2)):
        for resource in ("cpu", "memory"):
            assert quantity(found[resource][limit]) * part == quantity(found[resource]["nominalQuota"]), "4 of 16, 8 of 16"


def test_a_job_that_fills_a_node_fits_the_quota_of_its_gpus() -> None:
    """Whatever a runner or Job of one GPU may ask of a node, one GPU of quota holds; else GPUs would stay idle."""
    made = objects(one({"pool": "mixed", "nominal": 1}))
    host = pool_host(of(one({"pool": "mixed", "nominal": 1})).clusters["usw2"], "mixed")
    least = min(for_runners(machine, host.disk, host.daemonsets).cpu for machine in host.machines)
    job = Job({"cpu": Fraction(least, 1000), "memory": Fraction(2**30), "nvidia.com/gpu": Fraction(1)})
    assert Kueue(cluster_queues(made)).submit("research", job) == "mixed"


def test_a_flavor_has_nothing_of_what_its_pool_does_not_advertise() -> None:
    made = objects(one({"pool": "t4", "nominal": 2}, {"pool": "sliced", "nominal": 8}, {"pool": "parts", "nominal": 7}))
    found = {pool: {name: quota["nominalQuota"] for name, quota in quotas(made, "research", pool).items()} for pool in POOLS}
    gpus = {pool: {name: amount for name, amount in held.items() if "/" in name} for pool, held in found.items() if held}
    assert gpus == {
        "t4": {"nvidia.com/gpu": "2", "nvidia.com/gpu.shared": "0", "nvidia.com/mig-1g.5gb": "0"},
        "sliced": {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "8", "nvidia.com/mig-1g.5gb": "0"},
        "parts": {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "0", "nvidia.com/mig-1g.5gb": "7"},
    }


def test_limits_that_are_not_given_are_none_and_given_ones_are_kept() -> None:
    made = objects(one({"pool": "t4", "nominal": 2}, {"pool": "mixed", "nominal": 2, "borrow": 0, "lend": 0}, cohort="gpu"))
    assert {key for quota in quotas(made, "research", "t4").values() for key in quota} == {"name", "nominalQuota"}
    gpus = quotas(made, "research", "mixed")["nvidia.com/gpu"]
    assert (gpus["borrowingLimit"], gpus["lendingLimit"]) == ("0", "0")


@cases("name", [*POOLS, *OKE_POOLS])
def test_a_pool_has_its_nodes_times_the_units_of_one(name: str) -> None:
    pools = POOLS if name in POOLS else OKE_POOLS
    assert units(of(one({"pool": name, "nominal": 1}), pools).clusters["usw2"].pools[name]) == MOST[name]


# -- queues ------------------------------------------------------------------------------------------------------------


def test_a_queue_says_what_its_team_says() -> None:
    made = objects_of(prod().clusters["use1"])
    research, vision = cluster_queues(made)
    assert (research["metadata"]["name"], vision["metadata"]["name"]) == ("research", "vision")
    assert {each["spec"]["cohortName"] for each in (research, vision)} == {"gpu"}
    assert [each["spec"]["fairSharing"] for each in (research, vision)] == [{"weight": "2"}, {"weight": "1"}]
    assert research["spec"]["preemption"] == {
        "withinClusterQueue": "Never",
        "reclaimWithinCohort": "Never",
        "borrowWithinCohort": {"policy": "Never"},
    }, "no Job is ended unless the team says so"
    assert vision["spec"]["preemption"]["reclaimWithinCohort"] == "LowerPriority"
    assert made.teams["vision"].flavors == ["t4-spot", "a10g-spot", "t4-release"], "in the order in which pools are tried"


def test_a_team_without_a_cohort_and_fair_sharing_has_none() -> None:
    spec = objects(one({"pool": "t4", "nominal": 1})).teams["research"].cluster_queue["spec"]
    assert not {"cohortName", "fairSharing"} & set(spec)


def test_each_namespace_has_a_queue_of_its_teams_name_and_one_for_jobs_that_name_none() -> None:
    made = objects_of(prod().clusters["use1"])
    found = {
        (namespace, each["metadata"]["name"]): each["spec"]["clusterQueue"]
        for queue in made.teams.values()
        for namespace, held in queue.local_queues.items()
        for each in held
    }
    assert found == {
        ("research", "research"): "research",
        ("research", "default"): "research",
        ("vision", "vision"): "vision",
        ("vision", "default"): "vision",
        ("vision-nightly", "vision"): "vision",
        ("vision-nightly", "default"): "vision",
    }
    assert all(
        each["metadata"]["namespace"] == namespace
        for queue in made.teams.values()
        for namespace, held in queue.local_queues.items()
        for each in held
    )
    selectors = [each["spec"]["namespaceSelector"]["matchExpressions"] for each in cluster_queues(made)]
    assert [(one["key"], one["operator"], one["values"]) for (one,) in selectors] == [
        ("kubernetes.io/metadata.name", "In", ["research"]),
        ("kubernetes.io/metadata.name", "In", ["vision", "vision-nightly"]),
    ]


def test_a_team_called_default_has_one_queue_a_namespace() -> None:
    made = objects({"teams": {"default": {"namespaces": ["jobs"], "quotas": [{"pool": "t4", "nominal": 1}]}}})
    assert [each["metadata"]["name"] for each in made.teams["default"].local_queues["jobs"]] == ["default"]


def test_what_is_made_does_not_depend_on_the_order_in_which_the_settings_name_teams() -> None:
    """Pulumi sorts the keys of a stack's config; pools are a list for that reason."""
    teams = {
        name: {"namespaces": [name], "quotas": [{"pool": "t4", "nominal": 1}, {"pool": "a100", "nominal": 2}]}
        for name in ("vision", "audio")
    }
    one_way = {each["metadata"]["name"]: each for each in cluster_queues(objects({"teams": teams}))}
    other = {each["metadata"]["name"]: each for each in cluster_queues(objects({"teams": dict(reversed(teams.items()))}))}
    assert one_way == other


# -- priorities --------------------------------------------------------------------------------------------------------


def test_priorities_are_those_of_the_seed_for_pods_and_queues_alike() -> None:
    assert [(each.name, each.value) for each in JOB_PRIORITIES] == [("high-priority", 1_000_000), ("medium-priority", 100_000)]
    made = objects(one({"pool": "t4", "nominal": 1})).priorities
    assert [(each["metadata"]["name"], each["value"]) for each in made] == [(each.name, each.value) for each in JOB_PRIORITIES]


def test_no_class_of_ours_ends_a_runner_in_mid_job() -> None:
    """kube-scheduler ends pods for one that preempts and has a greater value (kubernetes.io, pod priority and preemption)."""
    for each in (HIGH_PRIORITY, MEDIUM_PRIORITY, RUNNER_PRIORITY):
        assert each.value <= RUNNER_PRIORITY.value, f"{each.name} is above runners"
        assert not each.preempts, f"{each.name} ends pods behind the back of the queue that let them in"


# -- admission ---------------------------------------------------------------------------------------------------------


@st.composite
def submissions(draw: st.DrawFn) -> tuple[QueueObjects, Cluster, list[tuple[str, Job]]]:
    """Queues and Jobs of any teams that ask for GPUs of some pool, or of whichever."""
    held, pools = draw(queues())
    cluster = of(held, pools).clusters["usw2"]
    made = objects_of(cluster)
    jobs = []
    for _ in range(draw(st.integers(1, 12))):
        team = draw(st.sampled_from(sorted(made.teams)))
        pool = draw(st.sampled_from(made.teams[team].flavors))
        asks = {
            "cpu": Fraction(draw(st.integers(0, 8000)), 1000),
            "memory": Fraction(draw(st.integers(0, 32)) * 2**30),
            cluster.pools[pool].resource: Fraction(draw(st.integers(1, 12))),
        }
        jobs.append((team, Job(asks, draw(st.sampled_from([pool, None])))))
    return made, cluster, jobs


@any_queues
@given(submissions())
def test_however_teams_borrow_no_pool_gives_more_than_it_has(drawn: tuple[QueueObjects, Cluster, list[tuple[str, Job]]]) -> None:
    made, cluster, jobs = drawn
    kueue = Kueue(cluster_queues(made))
    for team, job in jobs:
        kueue.submit(team, job)
    for cell in {cell for queue in kueue.queues.values() for cell in queue.limits}:
        used = sum((queue.uses(cell) for queue in kueue.queues.values()), Fraction(0))
        assert used <= there(cluster, *cell)
    for queue in kueue.queues.values():
        for cell, limits in queue.limits.items():
            if limits.borrow is not None:
                assert queue.uses(cell) <= limits.nominal + limits.borrow


@any_queues
@given(submissions(), st.integers(0, 20))
def test_what_a_team_does_not_lend_is_there_whatever_the_others_do(
    drawn: tuple[QueueObjects, Cluster, list[tuple[str, Job]]], index: int
) -> None:
    made, cluster, jobs = drawn
    team = sorted(made.teams)[index % len(made.teams)]
    kueue = Kueue(cluster_queues(made))
    for other, job in jobs:
        if other != team:
            kueue.submit(other, job)
    queue = kueue.queues[team]
    for pool in queue.flavors:
        resource = cluster.pools[pool].resource
        limits = queue.limits[pool, resource]
        kept = limits.nominal if queue.cohort is None else limits.local
        if kept:
            assert kueue.submit(team, Job({resource: kept}, pool)) == pool
            return


def test_the_simulation_keeps_a_job_out_that_does_not_fit() -> None:
    kueue = Kueue(cluster_queues(objects(one({"pool": "t4", "nominal": 2}))))
    gpu = Job({"nvidia.com/gpu": Fraction(1)})
    assert [kueue.submit("research", gpu) for _ in range(3)] == ["t4", "t4", None]
    assert kueue.submit("research", Job({"nvidia.com/gpu.shared": Fraction(1)})) is None, "no queue covers it"


def test_a_spot_toleration_is_in_the_flavor_of_a_spot_pool_alone() -> None:
    assert OKE_PROFILE.spot_taint is not None
    made = objects(one({"pool": "a10", "nominal": 1}, {"pool": "v100-spot", "nominal": 1}), OKE_POOLS)
    covered = {
        each["metadata"]["name"]: any(toleration(held).covers(OKE_PROFILE.spot_taint) for held in each["spec"]["tolerations"])
        for each in made.flavors
    }
    assert covered == {"a10": False, "v100-spot": True}
