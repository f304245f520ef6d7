"""The ccache action: figures cleared and size set before a build, figures shown after it, objects kept in a bucket."""

from __future__ import annotations

import http.client
import importlib.util
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.builders import ROOT

ACTION = ROOT / ".github" / "actions" / "ccache"
SCRIPT, STORAGE = ACTION / "ccache.sh", ACTION / "s3_storage.py"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "made-up", "AWS_SESSION_TOKEN": "a-made-up-token"}
STUB = """#!/bin/bash
printf '%s\\n' "$*" >>"$LOG"
case "$1" in --get-config=cache_dir) printf '/home/runner/.cache/ccache\\n' ;; esac
exit "${STATUS-0}"
"""


@pytest.fixture
def run(tmp_path: Path):
    """Runs the script; gives its status, what it said, ccache's calls and the outputs."""

    def call(*, installed: bool = True, **given: str) -> tuple[int, str, list[str], str]:
        stub = tmp_path / "ccache"
        if installed:
            stub.write_text(STUB)
            stub.chmod(0o755)
        log, output = tmp_path / "log", tmp_path / "output"
        for path in (log, output):
            path.touch()
        done = subprocess.run(
            ["/bin/bash", str(SCRIPT)],
            env={"PATH": str(tmp_path), "LOG": str(log), "GITHUB_OUTPUT": str(output), "GITHUB_ACTION_PATH": str(ACTION)}
            | {"GITHUB_ENV": str(tmp_path / "env")}
            | {"STATS": "false", "MAX_SIZE": "10G"}
            | given,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, log.read_text().splitlines(), output.read_text()

    return call


def test_before_a_build_figures_are_cleared_and_the_size_is_set_as_in_the_guide(run):
    status, _, calls, output = run()
    assert status == 0
    assert calls == ["-z", "--max-size=10G", "--get-config=cache_dir"]
    assert output == "cc=ccache gcc\ncxx=ccache g++\nfolder=/home/runner/.cache/ccache\n"


def test_after_it_figures_are_shown_and_nothing_else(run):
    assert run(STATS="true")[2:] == (["-s"], "")


def test_a_runner_without_ccache_is_told(run):
    status, said, _, output = run(installed=False)
    assert (status, output) == (1, "")
    assert said == "::error title=ccache::ccache not found; use a runner image that has it, or install it in a step before\n"


@pytest.mark.parametrize("size", ["10", "ten", "10G; rm -rf /", "-1G", "10 G"])
def test_what_is_no_size_is_refused(run, size):
    status, said, calls, output = run(MAX_SIZE=size)
    assert (status, calls, output) == (1, [], "")
    assert said == "::error title=ccache::max-size is a number with k, M, G or T, such as 10G\n"


@pytest.mark.parametrize("size", ["10G", "500M", "1.5T", "2Gi"])
def test_sizes_are_as_ccache_takes_them(run, size):
    assert run(MAX_SIZE=size)[2][1] == f"--max-size={size}"


def test_a_ccache_that_fails_fails_the_step_without_outputs(run):
    status, _, calls, output = run(STATUS="3")
    assert (status, calls, output) == (3, ["-z"], "")


# -- a build cache in S3 -----------------------------------------------------------------------------------------------


BUCKET = {"BUCKET": "example-ccache", "REGION": "us-west-2"}


def stub_python(tmp_path: Path) -> None:
    stub = tmp_path / "python3"
    stub.write_text('#!/bin/bash\nprintf "%s\\n" "python3 $*" >>"$LOG"\nprintf "40123\\n"\n')
    stub.chmod(0o755)


@pytest.mark.parametrize(
    ("keys", "storage"),
    [
        ({}, "http://127.0.0.1:40123|read-only"),
        ({"AWS_ACCESS_KEY_ID": ""}, "http://127.0.0.1:40123|read-only"),
        (KEYS, "http://127.0.0.1:40123"),
    ],
)
def test_a_job_without_credentials_is_connected_read_only(run, tmp_path, keys, storage):
    stub_python(tmp_path)
    status, _, calls, output = run(**BUCKET, **keys)
    assert (status, calls[-1]) == (0, f"python3 {STORAGE}")
    assert (tmp_path / "env").read_text() == f"CCACHE_REMOTE_STORAGE={storage}\nCCACHE_SECONDARY_STORAGE={storage}\n"
    assert output.startswith("cc=ccache gcc\n")


def test_without_a_bucket_nothing_is_started(run, tmp_path):
    stub_python(tmp_path)
    run(BUCKET="")
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize(
    "given", [{"BUCKET": "a/b", "REGION": "us-west-2"}, {"BUCKET": "b"}, {"BUCKET": "b", "REGION": "evil.example.com/"}]
)
def test_names_that_would_lead_elsewhere_are_refused(run, tmp_path, given):
    stub_python(tmp_path)
    status, said, _, output = run(**given)
    assert (status, output) == (1, "")
    assert "bucket and region are names, such as example-ccache and us-west-2" in said


def test_a_bucket_needs_python(run):
    status, said, _, _ = run(**BUCKET)
    assert (status, said) == (1, "::error title=ccache::python3 not found; a cache in S3 needs it\n")


class S3(BaseHTTPRequestHandler):
    """A bucket that only signed requests write to, and what was asked of it."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    asked: list[tuple[str, str, bool]]

    def do_GET(self) -> None:
        signed = (self.headers["authorization"] or "").startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.asked.append((self.command, self.path, signed))
        if self.command == "PUT" and signed:
            self.objects[self.path] = body
        found = self.objects.get(self.path)
        self.send_response(200 if found is not None else 403 if self.command == "PUT" else 404)
        shown = b"" if self.command == "PUT" or found is None else found
        self.send_header("content-length", str(len(shown)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(shown)

    do_HEAD = do_PUT = do_DELETE = do_GET  # noqa: N815 - the names of the base class

    def log_message(self, *args: object) -> None:
        """Logs nothing."""


@contextmanager
def storage(**env: str) -> Iterator[tuple[http.client.HTTPConnection, type[S3]]]:
    """The program as the action starts it, and the bucket behind it."""
    bucket = type("Bucket", (S3,), {"objects": {}, "asked": []})
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), bucket)
    threading.Thread(target=upstream.serve_forever, args=(0.01,), daemon=True).start()
    started = subprocess.Popen(
        ["/usr/bin/env", "python3", str(STORAGE)],
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "ENDPOINT": f"http://127.0.0.1:{upstream.server_port}", **BUCKET, **env},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout is not None
    with started.stdout as printed:
        connection = http.client.HTTPConnection("127.0.0.1", int(printed.readline()), timeout=10)
    assert started.wait() == 0, "the step ends while the server goes on"
    try:
        yield connection, bucket
    finally:
        connection.close()
        os.killpg(started.pid, signal.SIGTERM)
        upstream.shutdown()
        upstream.server_close()


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection.request(method, path, body)
    found = connection.getresponse()
    return found.status, found.read()


OBJECT = "/70/814jbpi7k3g47lid7v06ktm2s1f8csk"


def test_a_reader_gets_what_a_writer_put_and_can_put_nothing():
    with storage(**KEYS) as (connection, bucket):
        assert ask(connection, "GET", OBJECT)[0] == 404, "a miss"
        assert ask(connection, "PUT", OBJECT, b"object")[0] == 200
        assert ask(connection, "GET", OBJECT) == (200, b"object")
        assert ask(connection, "HEAD", OBJECT) == (200, b"")
        assert bucket.objects == {f"/ccache{OBJECT}": b"object"}
        assert all(signed for _, _, signed in bucket.asked)
    with storage() as (connection, bucket):
        bucket.objects[f"/ccache{OBJECT}"] = b"object"
        assert ask(connection, "GET", OBJECT) == (200, b"object")
        assert ask(connection, "PUT", OBJECT, b"poison")[0] == 403
        assert bucket.asked == [("GET", f"/ccache{OBJECT}", False)], "S3 is not even asked"


@pytest.mark.parametrize("path", ["/../sccache/0", "/a?acl", "/", "//example.com/a", "/a/b/c/d", "/%2e%2e/a"])
def test_only_keys_of_ccache_are_passed_on(path):
    with storage(**KEYS) as (connection, bucket):
        assert ask(connection, "GET", path)[0] == 403
        assert bucket.asked == []


def test_nothing_is_deleted():
    with storage(**KEYS) as (connection, bucket):
        assert ask(connection, "DELETE", OBJECT)[0] == 501
        assert bucket.asked == []


def test_a_bucket_that_does_not_answer_is_an_error_of_the_cache_and_no_hang():
    with storage(ENDPOINT="http://127.0.0.1:9") as (connection, _):
        assert ask(connection, "GET", OBJECT)[0] == 502
        assert ask(connection, "GET", OBJECT)[0] == 502


@pytest.mark.parametrize(("method", "body"), [("GET", b""), ("PUT", b"object")])
def test_requests_are_signed_as_amazons_library_does(method, body):
    spec = importlib.util.spec_from_file_location("s3_storage", STORAGE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    now, host, path = datetime(2026, 11, 23, 4, 5, 6, tzinfo=UTC), "example-ccache.s3.us-west-2.amazonaws.com", f"/ccache{OBJECT}"
    ours = module.signed(method, host, path, body, "us-west-2", KEYS, now)
    theirs = AWSRequest(method, f"https://{host}{path}", data=body)
    with mock.patch("botocore.auth.get_current_datetime", return_value=now.replace(tzinfo=None)):
        S3SigV4Auth(Credentials(*KEYS.values()), "s3", "us-west-2").add_auth(theirs)
    assert ours["authorization"] == theirs.headers["Authorization"]
    assert ours["x-amz-date"] == theirs.headers["X-Amz-Date"]
