"""The emulator of GitHub answers as actions/scaleset v0.4.0 and ARC 0.14.2 expect it, and fails as GitHub does."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from gpu_ci.world.github import GitHub
from gpu_ci.world.scale_sets import EndedError, Fault, Job
from tests.world.github_client import Client, Session, StatusError


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def github(clock: Clock) -> Iterator[GitHub]:
    github = GitHub(poll=0.05, clock=clock)
    github.start()
    yield github
    github.stop()


@pytest.fixture
def client(github: GitHub) -> Client:
    return Client(github.url)


def pass_time(github: GitHub, clock: Clock, seconds: float) -> None:
    clock.now += seconds
    github.tick()


def run(github: GitHub, client: Client, of: int, name: str, result: str = "succeeded") -> Job:
    """A runner that starts, takes a job and ends it."""
    runner = github.register(client.jit(of, name)["encodedJITConfig"])
    job = github.next_job(runner)
    assert job is not None
    github.finish(job, result)
    return job


def state(job: Job) -> str:
    """What GitHub shows of the job now."""
    return job.state


def names(messages: list[tuple[str, str]]) -> list[str]:
    return [kind for kind, _ in messages]


def test_a_client_logs_in_step_by_step(github: GitHub, client: Client) -> None:
    with pytest.raises(StatusError, match="401"):
        client.ask("GET", "/tenant/_apis/runtime/runnerscalesets?runnerGroupId=1&name=t4", 200, auth="Bearer other")
    with pytest.raises(StatusError, match="401"):
        client.ask("POST", "/api/v3/orgs/example1/actions/runners/registration-token", 201, auth="Bearer a.b.c")
    client.log_in()
    assert client.service == "/tenant/"
    assert github.counts["POST", "access_tokens", 201] == github.counts["POST", "runner-registration", 200] == 1


def test_a_job_goes_from_the_queue_to_a_runner_and_every_step_is_told(github: GitHub, client: Client) -> None:
    of = client.create("t4", "gpu")
    session = client.session(of)
    assert session.hear() == []
    job = github.queue(["t4"], name="tests")
    assert session.hear() == [("JobAssigned", "tests")]
    runner = github.register(client.jit(of, "r1")["encodedJITConfig"])
    assert github.next_job(runner) is job
    assert github.next_job(runner) is None, "an ephemeral runner has one job"
    assert session.hear() == [("JobStarted", "tests")]
    github.finish(job)
    github.finish(job, "failed")
    assert (job.state, job.result) == ("completed", "succeeded"), "a job ends once"
    assert session.hear() == [("JobCompleted", "tests")]
    assert session.hear() == []
    assert client.named("r1") == 0, "an ephemeral runner is gone after its job"


def test_the_statistics_of_a_message_are_those_of_now(github: GitHub, client: Client) -> None:
    of = client.create("t4")
    session = client.session(of)
    session.capacity = 2
    session.poll()
    for _ in range(5):
        github.queue(["t4"])
    github.register(client.jit(of, "r1")["encodedJITConfig"])
    client.jit(of, "r2")
    runner = github.runners[next(iter(github.runners))]
    assert github.next_job(runner)
    assert session.poll()["statistics"] == {
        "totalAvailableJobs": 3,
        "totalAcquiredJobs": 0,
        "totalAssignedJobs": 2,
        "totalRunningJobs": 1,
        "totalRegisteredRunners": 2,
        "totalBusyRunners": 1,
        "totalIdleRunners": 0,
    }


def test_github_assigns_no_more_jobs_than_the_listener_has_room_for(github: GitHub, client: Client) -> None:
    of = client.create("t4")
    session = client.session(of)
    session.capacity = 2
    jobs = [github.queue(["t4"]) for _ in range(3)]
    assert session.hear() == [("JobAssigned", jobs[0].name), ("JobAssigned", jobs[1].name)]
    run(github, client, of, "r1")
    assert session.hear()[-1] == ("JobAssigned", jobs[2].name)


def test_a_message_has_at_most_fifty_jobs(github: GitHub, client: Client) -> None:
    session = client.session(client.create("t4"))
    session.capacity = 100
    session.poll()
    for _ in range(60):
        github.queue(["t4"])
    assert [len(session.hear()), len(session.hear())] == [50, 10]


def test_a_message_that_nobody_acknowledged_comes_again_to_a_new_listener(github: GitHub, client: Client) -> None:
    of = client.create("t4")
    session = client.session(of)
    github.queue(["t4"], name="tests")
    assert session.poll()["messageId"] == 1
    assert session.poll() is None, "a listener does not get the message again that it says was the last"
    session.close()
    again = client.session(of)
    assert again.hear() == [("JobAssigned", "tests")]
    again.close()
    assert client.session(of).hear() == [], "it was acknowledged"


@pytest.mark.parametrize(
    ("runs_on", "by_labels", "by_name"),
    [
        (["t4"], True, True),
        (["T4"], True, True),
        (["gpu"], True, False),
        (["gpu", "linux"], True, False),
        (["gpu", "arm"], False, False),
    ],
)
def test_a_set_takes_jobs_by_its_name_and_its_labels(
    github: GitHub, client: Client, runs_on: list[str], by_labels: bool, by_name: bool
) -> None:
    session = client.session(client.create("t4", "gpu", "linux"))
    session.poll()
    for custom, expected in ((True, by_labels), (False, by_name)):
        github.custom_labels = custom
        assert (github.queue(runs_on).state == "assigned") == expected


def test_a_listener_of_enterprise_server_has_to_acquire_its_jobs(github: GitHub, client: Client) -> None:
    github.acquire = True
    of = client.create("t4")
    session = client.session(of)
    job = github.queue(["t4"], name="tests")
    assert state(job) == "queued"
    assert session.hear() == [("JobAvailable", "tests")]
    assert state(job) == "assigned"
    assert session.hear() == [("JobAssigned", "tests")]


def test_a_set_is_registered_once_and_found_by_name_and_group(github: GitHub, client: Client) -> None:
    first = client.create("t4")
    assert client.create("t4") == first
    group = client.act("GET", "runtime/runnergroups/?groupName=gpu")["value"][0]["id"]
    assert client.create("t4", group=group) != first
    with pytest.raises(StatusError, match="RunnerScaleSetExistsException"):
        client.act("POST", "runtime/runnerscalesets", 200, {"name": "t4", "runnerGroupId": 1, "labels": []})
    renamed = client.act("PATCH", f"runtime/runnerscalesets/{first}", 200, {"name": "t4-new", "RunnerSetting": {}})
    assert (renamed["name"], renamed["labels"]) == ("t4-new", [{"type": "System", "name": "t4-new"}])
    assert client.act("GET", f"runtime/runnerscalesets/{first}")["runnerGroupName"] == "default"


def test_the_jobs_of_a_set_that_is_deleted_wait_for_the_next_one(github: GitHub, client: Client) -> None:
    of = client.create("t4")
    session = client.session(of)
    session.poll()
    job = github.queue(["t4"])
    assert state(job) == "assigned"
    client.act("DELETE", f"runtime/runnerscalesets/{of}", 204)
    assert state(job) == "queued"
    with pytest.raises(StatusError, match=r"404.*RunnerScaleSetNotFoundException"):
        client.session(of)
    client.session(client.create("t4")).poll()
    assert state(job) == "assigned"


def test_two_runners_of_one_name_conflict(client: Client) -> None:
    of = client.create("t4")
    client.jit(of, "r1")
    with pytest.raises(StatusError, match=r"409.*AgentExistsException"):
        client.jit(of, "r1")


def test_only_a_runner_with_a_job_cannot_be_removed(github: GitHub, client: Client) -> None:
    of = client.create("t4")
    jit = client.jit(of, "r1")
    number = jit["runner"]["id"]
    runner = github.register(jit["encodedJITConfig"])
    job = github.queue(["t4"])
    github.next_job(runner)
    with pytest.raises(StatusError, match="JobStillRunningException"):
        client.remove(number)
    github.finish(job)
    client.remove(number)
    client.remove(number)
    with pytest.raises(EndedError) as end:
        github.next_job(runner)
    assert end.value.code == 0


def test_an_idle_runner_that_is_removed_ends_and_its_configuration_is_worth_nothing(github: GitHub, client: Client) -> None:
    jit = client.jit(client.create("t4"), "r1")
    client.remove(jit["runner"]["id"])
    with pytest.raises(EndedError) as end:
        github.register(jit["encodedJITConfig"])
    assert end.value.code == 0


def test_a_runner_that_is_too_old_ends_with_seven(github: GitHub, client: Client) -> None:
    jit = client.jit(client.create("t4"), "r1")["encodedJITConfig"]
    github.outdated = 1
    with pytest.raises(EndedError) as end:
        github.register(jit)
    assert end.value.code == 7
    assert github.register(jit).online


# -- sessions -----------------------------------------------------------------------------------------------------------


def test_a_killed_listener_keeps_its_session_until_it_expires(github: GitHub, client: Client, clock: Clock) -> None:
    of = client.create("t4")
    killed = client.session(of)
    killed.poll()
    pass_time(github, clock, github.session_expires)
    with pytest.raises(StatusError, match=r"409.*RunnerScaleSetSessionConflictException"):
        client.session(of)
    pass_time(github, clock, 1)
    client.session(of)
    with pytest.raises(StatusError) as error:
        killed.poll()
    assert error.value.status == 404, "a refresh of a session that is gone"
    with pytest.raises(StatusError, match=r"400.*RunnerScaleSetSessionExpiredException"):
        killed.close()


def test_a_listener_that_ends_politely_makes_room_at_once(client: Client) -> None:
    of = client.create("t4")
    client.session(of).close()
    client.session(of)


def test_a_listener_that_polls_keeps_its_session(github: GitHub, client: Client, clock: Clock) -> None:
    session = client.session(client.create("t4"))
    for _ in range(3):
        pass_time(github, clock, github.session_expires)
        session.poll()
    assert github.queue(["t4"]).state == "assigned"


# -- what goes wrong ----------------------------------------------------------------------------------------------------


def listening(client: Client) -> Session:
    session = client.session(client.create("t4"))
    session.poll()
    return session


def test_a_lost_message_is_not_told_and_the_demand_shows_with_the_next_one(github: GitHub, client: Client) -> None:
    session = listening(client)
    github.faults.append(Fault("JobAssigned", "lose"))
    github.queue(["t4"])
    assert session.hear() == []
    github.queue(["t4"], name="next")
    message = session.poll()
    assert (message["statistics"]["totalAssignedJobs"], "next" in message["body"]) == (2, True)


def test_a_lost_offer_of_enterprise_server_is_never_taken(github: GitHub, client: Client, clock: Clock) -> None:
    github.acquire = True
    session = listening(client)
    github.faults.append(Fault("JobAvailable", "lose"))
    job = github.queue(["t4"])
    github.queue(["t4"], name="next")
    assert session.hear() == [("JobAvailable", "next")]
    pass_time(github, clock, 1000)
    assert state(job) == "queued"


def test_a_repeated_message_comes_twice(github: GitHub, client: Client, clock: Clock) -> None:
    session = listening(client)
    github.faults.append(Fault("JobAssigned", "repeat", seconds=5))
    job = github.queue(["t4"])
    assert session.hear() == [("JobAssigned", job.name)]
    assert session.hear() == []
    pass_time(github, clock, 5)
    assert session.hear() == [("JobAssigned", job.name)]
    github.queue(["t4"])
    assert names(session.hear()) == ["JobAssigned"], "one message alone"


def test_a_late_message_comes_late(github: GitHub, client: Client, clock: Clock) -> None:
    session = listening(client)
    github.faults.append(Fault("JobAssigned", "delay", seconds=30))
    github.queue(["t4"])
    pass_time(github, clock, 29)
    assert session.hear() == []
    pass_time(github, clock, 1)
    assert names(session.hear()) == ["JobAssigned"]


@pytest.mark.parametrize("status", [429, 500])
def test_a_client_gets_over_a_few_refusals(github: GitHub, client: Client, status: int) -> None:
    session = listening(client)
    github.queue(["t4"])
    github.faults.append(Fault("GET messages", status, times=2, seconds=7))
    assert names(session.hear()) == ["JobAssigned"]
    assert client.waits == [7, 7]
    assert github.counts["GET", "messages", status] == 2


def test_a_token_that_ended_makes_the_client_refresh_its_session(github: GitHub, client: Client) -> None:
    session = listening(client)
    github.queue(["t4"])
    old = session.state["messageQueueAccessToken"]
    github.faults.append(Fault("GET messages", 401))
    assert names(session.hear()) == ["JobAssigned"]
    assert session.state["messageQueueAccessToken"] != old


@pytest.mark.parametrize("status", [401, 403, 429, 500])
def test_a_refusal_for_a_time_ends_with_it(github: GitHub, client: Client, clock: Clock, status: int) -> None:
    client.log_in()
    github.faults.append(Fault("", status, times=math.inf, until=clock.now + 60))
    for _ in range(3):
        with pytest.raises(StatusError, match=str(status)):
            client.create("t4")
    pass_time(github, clock, 60)
    assert client.create("t4")


def test_the_job_of_a_lost_runner_fails_when_its_lease_ends(github: GitHub, client: Client, clock: Clock) -> None:
    of = client.create("t4")
    jit = client.jit(of, "r1")
    runner = github.register(jit["encodedJITConfig"])
    job = github.queue(["t4"])
    github.next_job(runner)
    github.lost(runner)
    pass_time(github, clock, github.lost_after - 1)
    assert state(job) == "running"
    with pytest.raises(StatusError, match="JobStillRunningException"):
        client.remove(runner.id)
    pass_time(github, clock, 1)
    assert (job.state, job.result) == ("completed", "failed")
    client.remove(runner.id)


def test_an_idle_runner_that_is_lost_goes_unless_it_comes_back(github: GitHub, client: Client, clock: Clock) -> None:
    of = client.create("t4")
    jits = [client.jit(of, name)["encodedJITConfig"] for name in ("r1", "r2")]
    for runner in [github.register(jit) for jit in jits]:
        github.lost(runner)
    back = github.register(jits[1])
    pass_time(github, clock, github.lost_after)
    assert list(github.runners.values()) == [back]


def test_github_takes_a_job_back_twice_that_no_runner_begins(github: GitHub, client: Client, clock: Clock) -> None:
    session = listening(client)
    github.session_expires = math.inf
    job = github.queue(["t4"])
    heard = session.hear()
    for _ in range(4):
        pass_time(github, clock, github.assignment_lapses)
        heard += session.hear()
    assert names(heard) == ["JobAssigned", *["JobCompleted", "JobAssigned"] * 2]
    assert state(job) == "assigned"


def test_a_job_that_runs_is_not_taken_back(github: GitHub, client: Client, clock: Clock) -> None:
    session = listening(client)
    job = github.queue(["t4"])
    github.next_job(github.register(client.jit(session.of, "r1")["encodedJITConfig"]))
    pass_time(github, clock, 10 * github.assignment_lapses)
    assert (job.state, job.assignments) == ("running", 1)


def test_an_idle_set_does_not_hear_of_a_rerun_until_it_has_other_traffic(github: GitHub, client: Client) -> None:
    session = listening(client)
    first = github.queue(["t4"], name="tests")
    run(github, client, session.of, "r1")
    github.loses_reruns = True
    again = github.rerun(first)
    session.hear()
    assert (again.state, again.attempt, session.hear()) == ("queued", 2, [])
    other = github.queue(["t4"])
    assert run(github, client, session.of, "r2") is again, "a runner takes the oldest job that its set may take"
    assert run(github, client, session.of, "r3") is other


def test_a_busy_set_hears_of_a_rerun(github: GitHub, client: Client) -> None:
    session = listening(client)
    first = github.queue(["t4"])
    run(github, client, session.of, "r1")
    github.loses_reruns = True
    github.queue(["t4"])
    assert github.rerun(first).state == "assigned"
