"""Sending a Job: the answers of the API server, and the errors that a user sees."""

from __future__ import annotations

import copy
import dataclasses
import socket
import threading

import pytest

from fleet.facts.scheduling import JOB_HASH
from gpu_ci.submit import InputError, Outcome, connect, run, send
from gpu_ci.submit.errors import ApiError, SubmitError, UnreachableError
from tests.submit.conftest import OPTIONS, kubeconfig
from tests.submit.life import complete, work
from tests.submit.objects import job
from tests.submit.server import Reply, status

FOLLOW, REPLACE = (dataclasses.replace(OPTIONS, existing=existing) for existing in ("follow", "replace"))


def test_a_job_is_sent_as_it_is(server, cluster, told):
    given = job()
    before = copy.deepcopy(given)
    sent = send(given, cluster, OPTIONS, told)
    (request,) = server.asked("create", "jobs")
    assert request.query == {"fieldManager": "gpu-ci", "fieldValidation": "Strict"}, "a misspelt field is an error, not lost"
    assert (request.namespace, sent.created) == ("ml", True)
    assert request.headers["user-agent"] == "gpu-ci-submit", "as an audit log will have it"
    annotations = request.body["metadata"].pop("annotations")
    assert request.body == before, "numbers as quantities and fields of newer versions are sent unchanged"
    assert list(annotations) == [JOB_HASH]
    assert given == before, "what the caller has stays"
    assert told.lines == ["train: created in namespace ml"]


def test_warnings_of_the_server_are_told(server, cluster, told):
    text = 'would violate PodSecurity \\"restricted:latest\\": runAsNonRoot != true'
    created = job() | {"metadata": {"name": "train", "uid": "u"}}
    server.reply("create", "jobs", Reply(201, created, {"Warning": f'299 - "{text}"'}))
    send(job(), cluster, OPTIONS, told)
    assert told.lines[0] == 'train: warning: would violate PodSecurity "restricted:latest": runAsNonRoot != true'


FORBIDDEN = 'jobs.batch is forbidden: User "alice" cannot create resource "jobs" in API group "batch" in the namespace "ml"'


@pytest.mark.parametrize(
    ("code", "reason", "message", "details", "lines"),
    [
        (
            403,
            "Forbidden",
            FORBIDDEN,
            {},
            [f"create jobs.batch train in namespace ml: 403 Forbidden: {FORBIDDEN}; ask for the Role in docs/submit.md"],
        ),
        (
            403,
            "Forbidden",
            'jobs.batch "train" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1',
            {},
            [
                'create jobs.batch train in namespace ml: 403 Forbidden: jobs.batch "train" is forbidden: exceeded quota: jobs, '
                "requested: count/jobs.batch=1"
            ],
        ),
        (
            401,
            "Unauthorized",
            "Unauthorized",
            {},
            [
                "create jobs.batch train in namespace ml: 401 Unauthorized: Unauthorized; the credentials of the kubeconfig are "
                "invalid or expired: log in again"
            ],
        ),
        (
            404,
            "NotFound",
            'namespaces "ml" not found',
            {},
            ['create jobs.batch train in namespace ml: 404 NotFound: namespaces "ml" not found'],
        ),
        (
            400,
            "BadRequest",
            'strict decoding error: unknown field "spec.backofLimit"',
            {},
            ['create jobs.batch train in namespace ml: 400 BadRequest: strict decoding error: unknown field "spec.backofLimit"'],
        ),
        (
            422,
            "Invalid",
            'Job.batch "train" is invalid',
            {
                "causes": [
                    {"field": "spec.template.spec.restartPolicy", "message": "Required value"},
                    {"field": "spec.backoffLimit", "message": "Invalid value: -1"},
                ]
            },
            [
                'create jobs.batch train in namespace ml: 422 Invalid: Job.batch "train" is invalid',
                "  spec.template.spec.restartPolicy: Required value",
                "  spec.backoffLimit: Invalid value: -1",
            ],
        ),
    ],
)
def test_a_refusal_is_told_in_the_servers_words(server, cluster, told, code, reason, message, details, lines):
    server.reply("create", "jobs", Reply(code, status(code, reason, message, **details)))
    with pytest.raises(ApiError) as caught:
        run(job(), cluster, OPTIONS, told)
    assert str(caught.value).splitlines() == lines
    assert len(server.asked("create", "jobs")) == 1, "no second try will do better"
    assert told.lines == []


def test_an_answer_without_words_is_told_by_its_status(server, cluster, told):
    server.reply("create", "jobs", Reply(403, b"<html>no</html>", {"Content-Type": "text/html"}))
    with pytest.raises(ApiError, match="403 Forbidden: the server gives no reason"):
        send(job(), cluster, OPTIONS, told)


def test_what_is_no_api_server_is_told_so(server, cluster, told):
    server.reply("create", "jobs", Reply(200, b"<html>hello</html>"))
    server.reply("get", "jobs", Reply(200, b"<html>hello</html>"), times=9)
    with pytest.raises(UnreachableError, match="the server is not a Kubernetes API server"):
        send(job(), cluster, OPTIONS, told)


def test_an_answer_nested_too_deeply_is_no_answer_of_an_api_server(server, cluster, told):
    for verb in ("create", "get"):
        server.reply(verb, "jobs", Reply(200, b"[" * 100_000 + b"]" * 100_000), times=9)
    with pytest.raises(UnreachableError, match="the server is not a Kubernetes API server"):
        send(job(), cluster, OPTIONS, told)


def test_an_answer_without_end_is_read_up_to_a_limit(monkeypatch, server, cluster, told):
    monkeypatch.setattr("gpu_ci.submit.cluster.MOST_BYTES", 2_000_000)
    for verb in ("create", "get"):
        server.reply(verb, "jobs", Reply(200, b" " * 3_000_000), times=9)
    with pytest.raises(UnreachableError, match="the response has more than 2 MB"):
        send(job(), cluster, OPTIONS, told)


def test_an_answer_that_trickles_is_read_for_a_time(server, cluster, told):
    """Each read is soon over, so the time limit of a read never ends it."""
    cluster.timeouts = (2, 0.2)
    for verb in ("create", "get"):
        server.reply(verb, "jobs", Reply(200, b" " * 100, trickle=0.05), times=9)
    with pytest.raises(UnreachableError, match=r"the response takes more than 0\.2 seconds"):
        send(job(), cluster, OPTIONS, told)


def test_a_long_refusal_is_cut(server, cluster, told):
    server.reply("create", "jobs", Reply(400, status(400, "BadRequest", "x" * 1_000_000)))
    with pytest.raises(ApiError) as caught:
        send(job(), cluster, OPTIONS, told)
    assert str(caught.value) == f"create jobs.batch train in namespace ml: 400 BadRequest: {'x' * 1000}…"


# -- a Job of that name --------------------------------------------------------------------------------------------------


def test_a_job_of_the_same_name_is_refused_with_the_ways_out(server, cluster, told):
    send(job(), cluster, OPTIONS, told)
    with pytest.raises(InputError) as same:
        send(job(), cluster, OPTIONS, told)
    assert str(same.value) == (
        "Job train is in namespace ml already, with the same contents (not ended); --existing follow follows it, --existing "
        "replace deletes it and sends this one, another --task-id gives another name"
    )
    complete(server)
    with pytest.raises(InputError, match=r"already, with other contents \(complete\); --existing replace deletes it"):
        send(job(backoffLimit=0), cluster, OPTIONS, told)
    assert not server.asked("delete", "jobs")


def test_the_same_job_sent_twice_is_one_job(server, cluster, told, meanwhile):
    first = send(job(), cluster, OPTIONS, told)
    meanwhile(lambda: work(server, "once"))
    result = run(job(), cluster, FOLLOW, told)
    assert result.ok
    assert told.logs == ["once"]
    assert told.lines[1] == "train: already exists with the same contents in namespace ml"
    assert server.get("jobs", "train")["metadata"]["uid"] == first.job["metadata"]["uid"]


def test_another_job_of_that_name_is_not_followed_for_it(server, cluster, told):
    send(job(), cluster, OPTIONS, told)
    with pytest.raises(InputError, match="with other contents"):
        send(job(backoffLimit=0), cluster, FOLLOW, told)


def test_a_job_is_replaced_by_the_very_one_that_was_found(server, cluster, told):
    first = send(job(), cluster, OPTIONS, told)
    second = send(job(backoffLimit=0), cluster, REPLACE, told)
    (deleted,) = server.asked("delete", "jobs")
    assert deleted.body["preconditions"] == {"uid": first.job["metadata"]["uid"]}
    assert second.created
    assert server.get("jobs", "train")["spec"]["backoffLimit"] == 0


def test_a_job_that_is_being_deleted_is_waited_for(server, cluster, told, meanwhile):
    old = dict(send(job(), cluster, OPTIONS, told).job)
    server.put("jobs", old | {"metadata": old["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}})

    def life():
        server.wait("create", "jobs", 2)
        server.remove("jobs", "train")

    meanwhile(life)
    assert send(job(), cluster, OPTIONS, told).created


def test_a_job_that_never_goes_is_given_up(server, cluster, told):
    old = dict(send(job(), cluster, OPTIONS, told).job)
    server.put("jobs", old | {"metadata": old["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    with pytest.raises(InputError, match="the old one is still being deleted; try again later"):
        send(job(), cluster, OPTIONS, told)


# -- a server that fails -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_that_is_busy_is_asked_again(server, cluster, told, code):
    server.reply("create", "jobs", Reply(code, status(code, "Busy", "try later"), {"Retry-After": "0"}), times=2)
    assert send(job(), cluster, OPTIONS, told).created
    assert len(server.asked("create", "jobs")) == 3
    waits = [line for line in told.lines if "trying again in" in line]
    assert len(waits) == 2
    assert waits[0].startswith(f"train: create jobs.batch train in namespace ml: {code} Busy: try later; trying again in ")


def test_a_server_that_stays_busy_is_given_up(server, cluster, told):
    server.reply("create", "jobs", Reply(503, status(503, "ServiceUnavailable", "etcd is down")), times=99)
    with pytest.raises(ApiError, match="503 ServiceUnavailable: etcd is down"):
        send(job(), cluster, OPTIONS, told)
    assert len(server.asked("create", "jobs")) == 8


@pytest.mark.parametrize("late", [True, False])
def test_an_answer_that_breaks_off_makes_no_second_job(server, cluster, told, late):
    """Whether or not the Job was created before the connection broke, one Job exists in the end."""
    server.reply("create", "jobs", Reply(cut=True, late=late))
    sent = send(job(), cluster, OPTIONS, told)
    assert sent.job["metadata"]["uid"] == server.get("jobs", "train")["metadata"]["uid"]
    assert sent.created is not late


def test_nobody_listens(tmp_path, told):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cluster = connect(kubeconfig(tmp_path / "config", f"http://127.0.0.1:{port}"))
    with pytest.raises(UnreachableError) as caught:
        run(job(), cluster, OPTIONS, told)
    assert str(caught.value) == "create jobs.batch train in namespace ml: no connection to the server: Connection refused"


def test_a_name_that_nobody_knows(monkeypatch, tmp_path, told):
    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    cluster = connect(kubeconfig(tmp_path / "config", "http://cluster.invalid"))
    with pytest.raises(UnreachableError, match="no connection to the server: Name or service not known"):
        run(job(), cluster, OPTIONS, told)


def test_what_speaks_no_tls(server, tmp_path, told):
    cluster = connect(kubeconfig(tmp_path / "config", server.url.replace("http:", "https:")))
    with pytest.raises(UnreachableError, match="no connection to the server: the TLS handshake failed; check the kubeconfig"):
        run(job(), cluster, OPTIONS, told)


def test_a_server_that_does_not_answer_is_given_up(server, cluster, told):
    cluster.timeouts = (2, 0.1)
    hang = threading.Event()
    for verb in ("create", "get"):
        server.reply(verb, "jobs", Reply(hang=hang, cut=True), times=9)
    with pytest.raises(UnreachableError, match="the server does not answer in time"):
        send(job(), cluster, OPTIONS, told)
    hang.set()
    assert len(server.asked("create", "jobs")) == 1, "one that does not answer at all is not asked again"


def test_a_token_that_ran_out_is_told(server, cluster, told, meanwhile):
    """The token may be renewed while a Job is followed, so 401 is retried until the patience ends."""
    patient = dataclasses.replace(OPTIONS, timing=dataclasses.replace(OPTIONS.timing, patience=0.2))

    def life():
        server.wait("list", "pods")
        server.reply("get", "jobs", Reply(401, status(401, "Unauthorized", "Unauthorized")), times=999)

    meanwhile(life)
    result = run(job(), cluster, patient, told)
    assert (result.outcome, result.status) == (Outcome.LOST, 3)
    assert "log in again; the Job may continue" in result.reason
    assert told.has("; trying again")


# -- not a Job -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, "must be a batch/v1 Job; it is v1 Pod; use kubectl apply for other kinds"),
        (job() | {"metadata": {"generateName": "a-"}}, "metadata.name must be set"),
        (
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}},
            "spec.template.spec.containers must name a container",
        ),
        (job() | {"metadata": {"name": "a", "namespace": "other"}}, "the Job is for namespace other, not ml; pass -n other"),
    ],
)
def test_what_is_no_job_is_not_sent(server, cluster, told, thing, words):
    with pytest.raises(InputError, match=words):
        send(thing, cluster, OPTIONS, told)
    assert server.requests == []


def test_every_error_is_one_that_the_command_line_knows():
    assert all(issubclass(error, SubmitError) for error in (InputError, ApiError, UnreachableError))
