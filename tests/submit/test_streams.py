"""Following survives broken watches and logs: 410, dropped connections, a server restart, streams cut anywhere."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from functools import partial

import pytest

from gpu_ci.submit import Outcome, run
from gpu_ci.submit.objects import condition
from gpu_ci.submit.reader import Backoff
from tests.submit.conftest import OPTIONS, TIMING
from tests.submit.life import complete, ready, show, until, work
from tests.submit.objects import container, ended, job, running, terminated, true, unscheduled
from tests.submit.server import Log, Reply, stamp, status


@pytest.mark.parametrize("by_event", [True, False], ids=["410 as an event", "410 as a status"])
def test_a_version_that_is_too_old_is_listed_anew(server, cluster, told, meanwhile, by_event):
    server.gone_by_event = by_event

    def life():
        made = ready(server)
        show(server, made, "train-a", unscheduled("0/1 nodes"), node="")
        until(lambda: told.has("0/1 nodes"))
        for _ in range(3):
            server.compact()
            listed = len(server.asked("list", "pods"))
            server.wait("list", "pods", listed + 1)
        server.write("train-a", "hello", end=True)
        show(server, made, "train-a", ended(0))
        server.compact()
        complete(server)
        server.compact()

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).ok
    assert told.logs == ["hello"]
    assert len([line for line in told.lines if "0/1 nodes" in line]) == 1, "a listed event is not shown again"


def test_what_was_deleted_while_nobody_watched_is_noticed(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        show(server, made, "train-a", unscheduled("0/1 nodes"), node="")
        until(lambda: told.has("0/1 nodes"))
        server.remove("pods", "train-a")
        server.compact()
        until(lambda: told.has("train-a: deleted"))
        complete(server)

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).ok


def test_a_job_that_was_deleted_while_nobody_watched_is_noticed(server, cluster, told, meanwhile):
    def life():
        ready(server)
        server.remove("jobs", "train")
        server.compact()

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).outcome is Outcome.DELETED


def test_a_job_that_ended_and_was_deleted_at_once_is_complete(server, cluster, told, meanwhile):
    """With ttlSecondsAfterFinished: 0, the event of the deletion contains the final status."""

    def life():
        ready(server)
        complete(server)
        server.remove("jobs", "train")

    meanwhile(life)
    assert run(job(ttlSecondsAfterFinished=0), cluster, OPTIONS, told).ok


def test_connections_that_break_are_made_again(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        server.write("train-a", "one")
        show(server, made, "train-a", running())
        for index, word in enumerate(("two", "three", "four"), start=1):
            until(partial(told.logged, index))
            server.drop()
            server.write("train-a", word)
        until(lambda: len(told.logs) == 4)
        server.write("train-a", end=True)
        show(server, made, "train-a", ended(0))
        server.drop()
        complete(server)
        server.drop()

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).ok
    assert told.logs == ["one", "two", "three", "four"]
    assert not told.has("trying again"), "that is not news: it was made again at once"


def test_a_server_that_restarts_is_waited_for(server, cluster, told, meanwhile):
    def life():
        ready(server)
        for resource in ("jobs", "pods"):
            server.reply("watch", resource, Reply(503, status(503, "ServiceUnavailable", "apiserver not ready")), times=3)
        server.drop()
        until(lambda: told.has("apiserver not ready; trying again"))
        until(lambda: told.has("the cluster responds again"))
        work(server, "hello")

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).ok
    assert len([line for line in told.lines if "trying again" in line]) == 1, "not once for each try"


@pytest.fixture
def pauses(monkeypatch):
    """The pauses of each reader, in order."""
    wait = Backoff.wait
    by_reader: dict[int, list[float]] = {}

    def noted(self, error=None):
        by_reader.setdefault(id(self), []).append(self.pause(error))
        wait(self, error)

    monkeypatch.setattr(Backoff, "wait", noted)
    return by_reader


def test_tries_are_spaced_ever_wider_up_to_a_bound(server, cluster, told, meanwhile, pauses):
    def life():
        ready(server)
        server.reply("watch", "jobs", Reply(503, status(503, "ServiceUnavailable", "down")), times=999)
        server.drop()

    meanwhile(life)
    timing = dataclasses.replace(TIMING, first_pause=0.02, longest_pause=0.1, patience=0.6)
    result = run(job(), cluster, dataclasses.replace(OPTIONS, timing=timing), told)
    assert (result.outcome, result.status) == (Outcome.LOST, 3)
    assert result.reason.endswith("503 ServiceUnavailable: down; the Job may continue")
    refused = max(pauses.values(), key=len)
    assert refused == [0.02, 0.04, 0.08, *[0.1] * len(refused)][: len(refused)]
    assert len(server.asked("watch", "jobs")) <= len(refused) + 2, "each try but the first follows a pause"


def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_loop(server, cluster, told, meanwhile, pauses):
    server.end_watches = True

    def life():
        made = ready(server)
        server.wait("watch", "jobs", 5)
        asked = len(server.asked("watch", "jobs"))
        assert asked <= max(map(len, pauses.values())) + 1, "each watch but the first follows a pause"
        server.write("train-a", "hello", end=True)
        show(server, made, "train-a", ended(0))
        complete(server)

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).ok
    assert told.logs == ["hello"]


def test_a_watch_goes_on_from_where_it_was(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        for index in range(5):
            show(server, made, "train-a", unscheduled(f"0/{index} nodes"), node="")
            until(partial(told.has, f"0/{index} nodes"))
        server.drop()
        server.wait("watch", "pods", 2)
        complete(server)

    meanwhile(life)
    run(job(), cluster, OPTIONS, told)
    first, second = (int(request.query["resourceVersion"]) for request in server.asked("watch", "pods")[:2])
    assert second > first
    assert len(server.asked("list", "pods")) == 2, "at the beginning, and for the last word on the pods"


def test_a_right_that_is_missing_is_told_and_done_without(server, cluster, told, meanwhile):
    for resource in ("events", "pods"):
        server.reply(
            "list", resource, Reply(403, status(403, "Forbidden", f'User "a" cannot list resource "{resource}"')), times=9
        )

    def life():
        server.wait("watch", "jobs")
        until(lambda: told.has("events are not shown") and told.has("pods and logs"))
        complete(server)

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).ok
    assert "train: pods and logs are not shown: the kubeconfig has no permission to read them" in told.lines


def test_a_right_to_jobs_that_is_missing_ends_following(server, cluster, told):
    server.reply("list", "jobs", Reply(403, status(403, "Forbidden", 'User "a" cannot list resource "jobs"')))
    result = run(job(), cluster, OPTIONS, told)
    assert result.outcome is Outcome.LOST
    assert "403 Forbidden" in result.reason


def test_a_watch_that_is_no_json_is_broken_off(server, cluster, told, meanwhile):
    server.reply("watch", "jobs", Reply(200, b"<html>please log in</html>\n"))
    meanwhile(lambda: work(server, "hello"))
    assert run(job(), cluster, OPTIONS, told).ok


# -- logs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(0, 130, 13))
def test_a_log_that_breaks_at_any_byte_goes_on_where_it_was(server, cluster, told, meanwhile, cut):
    lines = ["one", "", "zwei è", "three"]

    def life():
        made = ready(server)
        server.write("train-a", *lines, end=True)
        server.logs["train-a", "worker"].cuts = [cut, cut // 2, 3 * cut]
        show(server, made, "train-a", running())
        server.wait("get", "pods/log", 4)
        show(server, made, "train-a", ended(0))
        complete(server)

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).ok
    assert told.logs == lines


def test_a_last_line_without_an_end_is_a_line(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        server.logs["train-a", "worker"] = Log(ended=True, tail="no newline")
        show(server, made, "train-a", ended(0))
        complete(server)

    meanwhile(life)
    run(job(), cluster, OPTIONS, told)
    assert told.logs == ["no newline"]


def test_a_log_goes_on_from_a_whole_second_a_little_before(server, cluster, told, meanwhile):
    moment = datetime(2026, 1, 1, 12, 0, 5, 999_000, tzinfo=UTC)

    def life():
        made = ready(server)
        server.write("train-a", "one", at=moment)
        show(server, made, "train-a", running())
        until(lambda: told.logs == ["one"])
        server.drop()
        server.wait("get", "pods/log", 2)
        server.write("train-a", "two", at=moment, end=True)
        show(server, made, "train-a", ended(0))
        complete(server)

    meanwhile(life)
    run(job(), cluster, OPTIONS, told)
    since = [request.query.get("sinceTime") for request in server.asked("get", "pods/log")]
    assert since[:2] == [None, "2026-01-01T12:00:04Z"]
    assert told.logs == ["one", "two"], "of the same time as the one before, and still not lost"
    assert stamp(moment) == "2026-01-01T12:00:05.999000000Z"


def test_the_rest_of_a_container_that_started_again_is_shown(server, cluster, told, meanwhile):
    again = job()
    again["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"

    def life():
        made = ready(server)
        server.write("train-a", "one")
        show(server, made, "train-a", running())
        until(lambda: told.logs == ["one"])
        server.reply("get", "pods/log", Reply(500, status(500, "InternalError", "dial tcp: connection refused")), times=3)
        server.drop()
        server.wait("get", "pods/log", 2)
        server.write("train-a", "last words")
        log = server.logs["train-a", "worker"]
        log.runs.append([])
        server.write("train-a", "again")
        show(server, made, "train-a", running(1, terminated(1, run=0)))
        until(lambda: "again" in told.logs)
        server.write("train-a", end=True)
        show(server, made, "train-a", {"phase": "Succeeded", "containerStatuses": [container(terminated(0, run=1), 1)]})
        complete(server)

    meanwhile(life)
    assert run(again, cluster, OPTIONS, told).attempts == 2
    (late,) = [line for line in told.lines if "is not available yet" in line]
    assert late.startswith(
        "train: the log of worker is not available yet: get pods/log train-a in namespace ml: 500 InternalError"
    )
    assert told.logs == ["one", "last words", "again"]


def test_a_log_that_may_not_be_read_is_told_once(server, cluster, told, meanwhile):
    forbidden = status(403, "Forbidden", 'User "a" cannot get resource "pods/log"')
    server.reply("get", "pods/log", Reply(403, forbidden), times=9)
    meanwhile(lambda: work(server, "hello"))
    assert run(job(), cluster, OPTIONS, told).ok
    (line,) = [line for line in told.lines if "breaks off" in line]
    assert line.startswith("train: the log of worker breaks off: get pods/log train-a in namespace ml: 403 Forbidden")


def test_a_log_that_never_ends_does_not_hold_the_result(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        server.write("train-a", "hello")
        status = running()
        status["containerStatuses"].append(container({"running": {}}, name="sidecar"))
        server.logs["train-a", "sidecar"] = Log()
        show(server, made, "train-a", status)
        until(lambda: len(told.logs) == 1)
        complete(server)

    meanwhile(life)
    timing = dataclasses.replace(TIMING, drain=0.2)
    assert run(job(), cluster, dataclasses.replace(OPTIONS, timing=timing), told).ok
    assert told.has("the rest of its log does not arrive; read it with kubectl logs")


def test_more_logs_than_are_followed_at_once_come_all_the_same(monkeypatch, server, cluster, told, meanwhile):
    monkeypatch.setattr("gpu_ci.submit.follower._READERS", 2)
    names = [f"train-{letter}" for letter in "abcdef"]

    def life():
        made = ready(server)
        for name in names:
            server.write(name, f"I am {name}", end=True)
            show(server, made, name, ended(0))
        complete(server)

    meanwhile(life)
    assert run(job(parallelism=6, completions=6), cluster, OPTIONS, told).ok
    assert sorted(told.logs) == [f"[{name}/worker] I am {name}" for name in names]


def test_news_that_is_long_in_coming_is_told_again(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        show(server, made, "train-a", unscheduled("0/1 nodes"), node="")
        until(lambda: told.has("still, after 0s: pending: no node for it yet: 0/1 nodes"))
        complete(server)

    meanwhile(life)
    run(job(), cluster, dataclasses.replace(OPTIONS, timing=dataclasses.replace(TIMING, remind=0.1)), told)


def test_a_condition_that_does_not_hold_is_no_end(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        false = true("Complete") | {"status": "False"}
        server.put("jobs", made | {"status": {"conditions": [false]}})
        work(server, "hello")

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).ok
    assert condition(server.get("jobs", "train"), "Complete") is not None
