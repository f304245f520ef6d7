"""Which jobs a queue never admits to a pool, by Kueue's own arithmetic over the manifests that it is given."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings, strategies as st

from fleet.facts.scheduling import QUEUE_LABEL
from fleet.jobs import JobError, JobPlacement, JobRefusedError, gpu_job, place_job
from fleet.loading.config import load
from fleet.prove.placement import pool_host
from fleet.prove.quota import barred
from fleet.providers.fleet import Fleet
from fleet.render.queues import queue_objects
from tests.builders import oke_pool, pool, prod_with_pods, reserved, stack_in
from tests.cases import cases
from tests.examples import examples
from tests.fleet import queue_configs
from tests.fleet.kueue_admission import Job, Kueue

IMAGE = "registry.example.com/agent_bus:1.4.2"
PROD = load(stack_in(prod_with_pods()))
POOLS = {
    "a100": pool(instanceTypes=["p4d.24xlarge"], nodes={"max": 2}),
    "a10g": pool(instanceTypes=["g5.12xlarge"], nodes={"max": 2}),
    "t4": pool(nodes={"max": 4}),
}


def placed(fleet: Fleet, **given: Any) -> JobPlacement:
    where = {name: given.pop(name) for name in ("cluster", "pool") if name in given}
    return place_job(fleet, gpu_job("task", IMAGE, **given), **where)


def refused(fleet: Fleet, at: str, **given: Any) -> str:
    """The reason of one pool, by its cluster and name."""
    with pytest.raises(JobRefusedError) as error:
        placed(fleet, **given)
    (reason,) = (each.message for each in error.value.problems if each.field == at)
    return reason


def teams(cohort: str | None = None, **quotas: list[dict[str, Any]]) -> Fleet:
    """Teams by name with their quotas; each has a namespace of its name and `-jobs`."""
    held: dict[str, Any] = {name: {"namespaces": [f"{name}-jobs"], "quotas": each} for name, each in quotas.items()}
    return queue_configs.of({"teams": held} | ({"cohort": cohort} if cohort else {}), POOLS)


def has(of: str, nominal: int, **more: int) -> dict[str, Any]:
    return {"pool": of, "nominal": nominal} | more


# -- whose queue ---------------------------------------------------------------------------------------------------------


def test_a_cluster_without_queues_lets_no_queued_job_go() -> None:
    assert refused(PROD, "sjc/a10", gpu_type="a10", queue="research") == (
        "the cluster has no queues, so none can admit a job of research; name another cluster, or remove queue"
    )
    assert placed(PROD, gpu_type="a10").chosen.name == "sjc/a10"


def test_a_team_has_jobs_in_pools_of_which_it_has_a_quota() -> None:
    assert refused(PROD, "use1/t4-spot", gpu_type="t4", spot=True, queue="research") == (
        "team research has no quota of it; add one, or name another pool"
    )
    assert placed(PROD, gpu_type="t4", spot=True, queue="vision").chosen.name == "use1/t4-spot"


def test_a_queue_that_nobody_has_is_refused() -> None:
    told = refused(PROD, "use1/t4-release", gpu_type="t4", queue="nosuch")
    assert told == "has no queue nosuch; name one of: research, vision"


@cases(
    ("where", "told"),
    [
        ({"queue": "default"}, "the namespace decides which team's queue default is; name the namespace, or the team's queue"),
        ({"queue": "default", "namespace": "apps"}, "namespace apps has no queue; name a team's namespace, or remove queue"),
        ({"queue": "ml", "namespace": "apps"}, "namespace apps has no queue; name a team's namespace, or remove queue"),
        ({"queue": "ml", "namespace": "audio-jobs"}, "namespace audio-jobs has the queue of team audio, not ml; name that one"),
    ],
)
def test_a_queue_is_of_the_namespace_that_it_is_in(where: dict[str, str], told: str) -> None:
    fleet = teams(ml=[has("t4", 1)], audio=[has("t4", 1)])
    assert refused(fleet, "usw2/t4", gpu_type="t4", **where) == told


@pytest.mark.parametrize("queue", ["ml", "default"])
def test_both_queues_of_a_namespace_are_its_teams(queue: str) -> None:
    fleet = teams(ml=[has("t4", 1)])
    found = placed(fleet, gpu_type="t4", queue=queue, namespace="ml-jobs").manifest()
    assert found["metadata"]["labels"][QUEUE_LABEL] == queue
    told = refused(fleet, "usw2/a100", gpu_type="a100", queue=queue, namespace="ml-jobs")
    assert told == "team ml has no quota of it; add one, or name another pool"


def test_a_job_in_a_teams_namespace_waits_in_its_queue_though_it_names_none() -> None:
    fleet = teams(ml=[has("t4", 1)])
    made = placed(fleet, gpu_type="t4", namespace="ml-jobs").manifest()
    assert made == placed(fleet, gpu_type="t4", namespace="ml-jobs", queue="ml").manifest()
    assert made["spec"]["suspend"] is True
    assert made["spec"]["template"]["spec"]["priorityClassName"] == "medium-priority"
    assert "team ml has no quota" in refused(fleet, "usw2/a100", gpu_type="a100", namespace="ml-jobs")
    free = placed(fleet, gpu_type="a100", namespace="apps").manifest()
    assert "suspend" not in free["spec"]
    assert QUEUE_LABEL not in free["metadata"]["labels"]


def test_of_two_pools_it_is_in_the_one_of_which_its_team_has_enough() -> None:
    document = {"teams": {"ml": {"namespaces": ["ml"], "quotas": [has("large", 1)]}}}
    fleet = queue_configs.of(document, {"small": pool(), "large": pool(instanceTypes=["g4dn.4xlarge"])})
    assert placed(fleet, gpu_type="t4").chosen.pool == "small", "cheaper"
    assert placed(fleet, gpu_type="t4", queue="ml").chosen.pool == "large"


# -- how much ------------------------------------------------------------------------------------------------------------


def test_a_cohort_lends_no_more_than_it_has() -> None:
    assert refused(reserved(), "use1/a100-reserved", gpu_type="a100", gpu_count=8, cpu=16, queue="research") == (
        "team research has 4 GPUs of it with all that others lend, the job asks for 8 GPUs; raise nominal, or what they "
        "lend, or ask for less"
    )


SMALL = {"gpu_type": "a100", "gpu_count": 8, "cpu": 8, "memory": "32Gi", "queue": "ml"}


@cases(
    ("cohort", "own", "others", "most", "mend"),
    [
        (None, has("a100", 4), has("a100", 8), "4 GPUs of it and no team to borrow from", "raise nominal,"),
        ("gpu", has("a100", 4, borrow=2), has("a100", 8), "6 GPUs of it with what it may borrow", "raise borrow,"),
        ("gpu", has("a100", 4), has("a100", 8, lend=3), "7 GPUs of it with all that others lend", "raise nominal, or what they"),
        (
            "gpu",
            has("a100", 4, borrow=8),
            has("a100", 3),
            "7 GPUs of it with all that others lend",
            "raise nominal, or what they",
        ),
        ("gpu", has("a100", 4), has("t4", 4), "4 GPUs of it with all that others lend", "raise nominal, or what they"),
        ("gpu", has("a100", 4, lend=0), has("a100", 4), None, ""),
        ("gpu", has("a100", 0), has("a100", 8), None, ""),
        ("gpu", has("a100", 4, borrow=4), has("a100", 8, lend=4), None, ""),
        (None, has("a100", 8), has("a100", 8), None, ""),
    ],
)
def test_the_most_of_a_team_is_its_own_and_what_it_may_borrow_of_what_others_lend(
    cohort: str | None, own: dict[str, Any], others: dict[str, Any], most: str | None, mend: str
) -> None:
    fleet = teams(cohort, ml=[own], audio=[others])
    if most is None:
        assert placed(fleet, **SMALL).chosen.pool == "a100"
        return
    told = refused(fleet, "usw2/a100", **SMALL)
    assert told.startswith(f"team ml has {most}, the job asks for 8 GPUs; {mend}"), told


def test_cpu_and_memory_go_with_the_gpus_of_a_quota() -> None:
    one = {"gpu_type": "a10g", "queue": "ml"}
    fleet = teams(ml=[has("a10g", 1)])
    (held,) = (
        queue_objects("usw2", fleet.clusters["usw2"], fleet.clusters["usw2"].queues)
        .teams["ml"]
        .cluster_queue["spec"]["resourceGroups"]
    )
    cpu, memory = (each["nominalQuota"] for each in held["flavors"][0]["resources"][:2])
    assert refused(fleet, "usw2/a10g", **one, cpu_request="30", cpu="30") == (
        f"team ml has {cpu} CPU of it and no team to borrow from, the job asks for 30 CPU; raise nominal, or ask for less"
    )
    assert refused(fleet, "usw2/a10g", **one, memory="120Gi", memory_request="100Gi") == (
        f"team ml has {memory} of it and no team to borrow from, the job asks for 100Gi; raise nominal, or ask for less"
    )
    assert placed(fleet, **one, cpu="30", cpu_request=cpu, memory="120Gi", memory_request=memory), "requests count, not limits"
    assert placed(teams(ml=[has("a10g", 3)]), **one, cpu_request="30", cpu="30"), "with the room of three"


# -- Kueue ---------------------------------------------------------------------------------------------------------------


@st.composite
def waiting(draw: st.DrawFn) -> tuple[Fleet, str, str, Any]:
    """Queues of all kinds, a team, a pool, and what a job asks of it."""
    held, pools = draw(queue_configs.queues())
    fleet = queue_configs.of(held, pools)
    team, of = draw(st.sampled_from(sorted(held["teams"]))), draw(st.sampled_from(sorted(pools)))
    at = fleet.clusters["usw2"].pools[of]
    asked: dict[str, Any] = {"gpu_type": at.machines[0].gpu.name, "shared": at.sharing is not None}
    asked |= {"gpu_count": draw(st.sampled_from([1, 2, 4, 8])), "cpu": draw(st.integers(1, 90))}
    asked["memory"] = f"{asked['gpu_count'] * draw(st.integers(4, 160))}Gi"
    return fleet, team, of, gpu_job("task", IMAGE, **asked, queue=team)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(waiting())
def test_a_job_is_barred_if_and_only_if_an_idle_kueue_keeps_it_out(drawn: tuple[Fleet, str, str, Any]) -> None:
    fleet, team, of, job = drawn
    cluster = fleet.clusters["usw2"]
    kueue = Kueue([each.cluster_queue for each in queue_objects("usw2", cluster, cluster.queues).teams.values()])
    asks = {
        "cpu": Fraction(job.ask.cpu.request, 1000),
        "memory": Fraction(job.ask.memory.request * 2**20),
        cluster.pools[of].resource: Fraction(job.ask.gpus),
    }
    let_in = kueue.submit(team, Job(asks, of)) is not None
    event(f"let in: {let_in}")
    namespace = cluster.queues.teams[team].namespaces[0]
    told = barred(job.ask, team, namespace, cluster, pool_host(cluster, of))
    assert (told == "") is let_in, told


def test_queues_of_both_clouds_are_asked() -> None:
    held = {"teams": {"ml": {"namespaces": ["ml"], "quotas": [has("a10", 1)]}}}
    fleet = queue_configs.of(held, {"a10": oke_pool(nodes={"max": 4})} | {"v100-spot": queue_configs.OKE_POOLS["v100-spot"]})
    assert placed(fleet, gpu_type="a10", queue="ml").chosen.pool == "a10"
    with pytest.raises(JobError, match="team ml has no quota of it"):
        placed(fleet, gpu_type="v100", spot=True, queue="ml")
