"""Ctrl-C: the Job continues or is deleted exactly once. A second Ctrl-C ends the command at once."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import threading

import pytest

from gpu_ci.submit import Outcome, follow, run, run_all
from gpu_ci.submit.follower import Follower
from gpu_ci.submit.objects import JOBS
from tests.submit.commands import Commands
from tests.submit.conftest import OPTIONS
from tests.submit.life import complete, ctrl_c, polled, ready, show, until
from tests.submit.objects import ended, job, running
from tests.submit.server import Log, Reply, status

CANCEL = dataclasses.replace(OPTIONS, cancel_on_interrupt=True)


def test_the_job_goes_on_and_the_reader_is_told_how_to_come_back(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        server.write("train-a", "one")
        show(server, made, "train-a", running())
        until(lambda: told.logs == ["one"])
        ctrl_c()

    meanwhile(life)
    result = run(job(), cluster, OPTIONS, told)
    assert (result.outcome, result.status, result.reason) == (Outcome.INTERRUPTED, 130, "the Job continues")
    assert (result.attempts, result.seconds > 0) == (1, True)
    assert not server.asked("delete", "jobs")
    assert told.lines[-1] == (
        f"train: continues; follow it: gpu-ci submit follow train -n ml {cluster.options}; "
        f"delete it: gpu-ci submit delete train -n ml {cluster.options}"
    )
    assert cluster.options.startswith("--kubeconfig /")


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_the_job_is_deleted_once_if_asked(server, cluster, told, meanwhile, propagation):
    def life():
        ready(server)
        ctrl_c()

    meanwhile(life)
    result = run(job(), cluster, dataclasses.replace(CANCEL, propagation=propagation), told)
    assert (result.status, result.reason) == (130, "deleted")
    (request,) = server.asked("delete", "jobs")
    assert request.body["propagationPolicy"] == propagation
    assert request.body["preconditions"]["uid"].startswith("uid-"), "exactly the Job that was sent, whatever has its name now"


def test_a_deletion_that_fails_is_told_with_the_way_out(server, cluster, told, meanwhile):
    server.reply("delete", "jobs", Reply(403, status(403, "Forbidden", 'User "a" cannot delete resource "jobs"')))

    def life():
        ready(server)
        ctrl_c()

    meanwhile(life)
    result = run(job(), cluster, CANCEL, told)
    assert result.status == 130
    assert result.reason.startswith("not deleted: delete jobs.batch train in namespace ml: 403 Forbidden")
    assert "; delete it: gpu-ci submit delete train -n ml" in told.lines[-1]
    assert len(server.asked("delete", "jobs")) == 1


def test_a_job_that_is_gone_already_is_deleted_enough(server, cluster, told, meanwhile):
    server.reply("delete", "jobs", Reply(404, status(404, "NotFound", "gone")))

    def life():
        ready(server)
        ctrl_c()

    meanwhile(life)
    assert run(job(), cluster, CANCEL, told).reason == "deleted"


def test_a_second_one_while_the_job_is_being_deleted_ends_at_once(server, cluster, told, meanwhile):
    hang = threading.Event()
    server.reply("delete", "jobs", Reply(hang=hang, cut=True))
    cluster.timeouts = (2, 999)

    def life():
        ready(server)
        ctrl_c()
        server.wait("delete", "jobs")
        ctrl_c()

    meanwhile(life)
    # Waiting for the server would take longer than a test may.
    with pytest.raises(KeyboardInterrupt):
        run(job(), cluster, CANCEL, told)
    hang.set()
    assert len(server.asked("delete", "jobs")) == 1


def test_a_job_that_has_ended_meanwhile_has_ended(server, cluster, told, meanwhile):
    """Ctrl-C during the wait for the rest of the log: the outcome is already known, so nothing is deleted."""

    def life():
        made = ready(server)
        server.logs["train-a", "worker"] = Log()
        show(server, made, "train-a", running())
        server.wait("get", "pods/log")
        complete(server)
        polled(server)
        ctrl_c()

    meanwhile(life)
    result = run(job(), cluster, CANCEL, told)
    assert (result.outcome, result.status) == (Outcome.COMPLETE, 0)
    assert not server.asked("delete", "jobs")


def test_while_it_is_being_sent(server, cluster, told, meanwhile):
    hang = threading.Event()
    server.reply("create", "jobs", Reply(hang=hang, cut=True))

    def life():
        server.wait("create", "jobs")
        ctrl_c()

    meanwhile(life)
    result = run(job(), cluster, CANCEL, told)
    hang.set()
    assert (result.status, result.reason) == (130, "while it was being sent")
    assert told.has("check whether it was created: gpu-ci submit follow train -n ml")


def test_following_is_interrupted_like_running(server, cluster, told, meanwhile):
    cluster.create(JOBS, job())

    def life():
        ready(server)
        ctrl_c()

    meanwhile(life)
    assert follow("train", cluster, OPTIONS, told).status == 130


def test_several_jobs_end_with_what_was_not_sent(server, cluster, told, meanwhile):
    def life():
        ready(server, "a", followers=2)
        ctrl_c()

    meanwhile(life)
    results = run_all([job("a"), job("b")], cluster, CANCEL, told)
    assert [result.outcome for result in results] == [Outcome.INTERRUPTED] * 2
    sent = [request.body["metadata"]["name"] for request in server.asked("create", "jobs")]
    assert sent == ["a", "b"]
    assert sorted(request.name for request in server.asked("delete", "jobs")) == sent, "each that was sent, once"
    assert results[1].reason == "deleted"


def test_while_the_first_of_several_is_being_sent(server, cluster, told, meanwhile):
    hang = threading.Event()
    server.reply("create", "jobs", Reply(hang=hang, cut=True))

    def life():
        server.wait("create", "jobs")
        ctrl_c()

    meanwhile(life)
    results = run_all([job("a"), job("b")], cluster, CANCEL, told)
    hang.set()
    assert [result.reason for result in results] == ["while it was being sent", "not sent"]
    assert {result.status for result in results} == {130}


def test_a_signal_that_wakes_nobody_is_heard_at_the_next_tick(server, cluster, told, meanwhile):
    """A signal just before a wait begins does not end the wait."""

    def life():
        ready(server, "a", followers=2)
        signal.raise_signal(signal.SIGINT)

    meanwhile(life)
    results = run_all([job("a"), job("b")], cluster, CANCEL, told)
    assert {result.status for result in results} == {130}


def test_a_job_that_ctrl_c_kept_from_being_followed_is_deleted_too(server, cluster, told, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Follower, "step", interrupted)
    (result,) = run_all([job()], cluster, CANCEL, told)
    assert (result.status, result.reason) == (130, "deleted")
    assert len(server.asked("delete", "jobs")) == 1


def test_a_second_one_does_not_wait_for_several_jobs(server, cluster, told, meanwhile):
    hang = threading.Event()
    server.reply("delete", "jobs", Reply(hang=hang, cut=True))

    def life():
        ready(server, "a", followers=2)
        ctrl_c()
        server.wait("delete", "jobs")
        ctrl_c()

    meanwhile(life)
    with pytest.raises(KeyboardInterrupt):
        run_all([job("a"), job("b")], cluster, CANCEL, told)
    hang.set()
    asked = [request.name for request in server.asked("delete", "jobs")]
    assert len(asked) == len(set(asked)), "each at most once"


# -- the command itself --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def commands():
    found = Commands()
    yield found
    found.close()


@pytest.fixture
def start(commands, config, tmp_path):
    """Start `gpu-ci submit run` for a Job, with more options."""

    def run_job(*options):
        (tmp_path / "job.yaml").write_text(json.dumps(job()))
        return commands.start(tmp_path, "run", "--manifest", str(tmp_path / "job.yaml"), *options, "--kubeconfig", str(config))

    return run_job


@pytest.mark.parametrize(
    ("options", "sign", "deleted"),
    [((), signal.SIGINT, 0), (("--cancel-on-interrupt",), signal.SIGINT, 1), (("--cancel-on-interrupt",), signal.SIGTERM, 1)],
)
def test_the_command_ends_with_130(server, start, options, sign, deleted):
    command = start(*options)
    made = ready(server)
    server.write("train-a", "one")
    show(server, made, "train-a", running())
    until(lambda: command.logs == "one\n")
    command.send_signal(sign)
    assert command.wait() == 130, command.progress
    assert len(server.asked("delete", "jobs")) == deleted
    assert "Traceback" not in command.progress
    assert ("train: interrupted, deleting it" in command.progress) is bool(deleted)


def test_the_command_ends_at_once_at_the_second(server, start):
    hang = threading.Event()
    server.reply("delete", "jobs", Reply(hang=hang, cut=True))
    command = start("--cancel-on-interrupt")
    ready(server)
    command.send_signal(signal.SIGINT)
    server.wait("delete", "jobs")
    command.send_signal(signal.SIGINT)
    assert command.wait() == 130, command.progress
    hang.set()
    assert "Traceback" not in command.progress
    assert len(server.asked("delete", "jobs")) == 1


def test_the_command_says_how_a_job_ended(server, start):
    command = start()
    made = ready(server)
    server.write("train-a", "one")
    show(server, made, "train-a", ended(0))
    complete(server)
    assert command.wait() == 0, command.progress
    assert command.logs == "one\n", "the logs alone"
    assert command.progress.splitlines()[-1].startswith("train: complete after ")


def test_the_command_ends_quietly_when_nobody_reads_it(server, start, tmp_path):
    os.mkfifo(tmp_path / "stdout")
    command = start("--cancel-on-interrupt")
    with (tmp_path / "stdout").open() as reader:
        made = ready(server)
        server.write("train-a", "one")
        show(server, made, "train-a", running())
        assert reader.readline() == "one\n"
    server.write("train-a", "two", "three")
    assert command.wait() == 141, command.progress
    assert "Traceback" not in command.progress
    assert "Exception ignored" not in command.progress
    assert not server.asked("delete", "jobs"), "that was no Ctrl-C"
