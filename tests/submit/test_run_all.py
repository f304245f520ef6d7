"""Running several Jobs at the same time: a result for each, and cleaning up."""

from __future__ import annotations

import dataclasses

from gpu_ci.submit import Outcome, Result, run_all, status_of
from tests.submit.conftest import OPTIONS
from tests.submit.life import fail, ready, show, work
from tests.submit.objects import ended, job
from tests.submit.server import Reply, status

CLEAN = dataclasses.replace(OPTIONS, clean_up=True)


def test_together(server, cluster, told, meanwhile):
    def life():
        server.wait("create", "jobs", 3)
        for name in "cab":
            work(server, f"I am {name}", name=name)

    meanwhile(life)
    results = run_all([job(name) for name in "abc"], cluster, CLEAN, told)
    assert [result.job for result in results] == ["a", "b", "c"], "in the order in which they were given"
    assert all(result.ok for result in results)
    assert sorted(told.logs) == ["I am a", "I am b", "I am c"]
    assert len(server.asked("delete", "jobs")) == 3


def test_one_that_is_refused_keeps_no_other_from_running(server, cluster, told, meanwhile):
    server.reply("create", "jobs", Reply(403, status(403, "Forbidden", "exceeded quota: jobs")))
    meanwhile(lambda: work(server, "hello", name="b"))
    results = run_all([job("a"), job("b"), {"kind": "Pod"}], cluster, OPTIONS, told)
    assert [result.outcome for result in results] == [Outcome.REFUSED, Outcome.COMPLETE, Outcome.REFUSED]
    assert results[0].reason == "create jobs.batch a in namespace ml: 403 Forbidden: exceeded quota: jobs"
    assert results[2].job == "a Job without a name"
    assert status_of(results) == 2


def test_one_that_fails_is_cleaned_up_too(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        server.write("train-a", "no GPU")
        show(server, made, "train-a", ended(3))
        fail(server)

    meanwhile(life)
    (result,) = run_all([job()], cluster, CLEAN, told)
    assert (result.outcome, result.exit_code) == (Outcome.FAILED, 3)
    assert len(server.asked("delete", "jobs")) == 1


def test_nothing_is_no_failure():
    assert status_of([]) == 0


def test_the_worst_status_counts():
    def ended_with(outcome):
        return Result("a", "ml", outcome, "")

    assert status_of([ended_with(Outcome.COMPLETE), ended_with(Outcome.FAILED)]) == 1
    assert status_of([ended_with(Outcome.INTERRUPTED), ended_with(Outcome.FAILED)]) == 130
    assert str(Result("a", "ml", Outcome.FAILED, "exit code 1")) == "a: failed: exit code 1"
