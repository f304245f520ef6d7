"""The sccache action: its server is started on a bucket, with the credentials of a role or read-only without any."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.builders import ROOT

SCRIPT = ROOT / ".github" / "actions" / "sccache" / "sccache.sh"
STUB = """#!/bin/bash
printf '%s key=%s anonymous=%s\\n' "$*" "${AWS_ACCESS_KEY_ID-none}" "${SCCACHE_S3_NO_CREDENTIALS-no}" >>"$LOG"
if [[ $1 == --show-stats ]]; then printf 'Cache hits  7\\n'; fi
exit "${STATUS-0}"
"""
BUCKET = {"BUCKET": "example-ccache", "REGION": "us-west-2"}
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "made-up", "AWS_SESSION_TOKEN": "a-made-up-token"}
SETTINGS = [
    "SCCACHE_BUCKET=example-ccache",
    "SCCACHE_REGION=us-west-2",
    "SCCACHE_S3_KEY_PREFIX=sccache",
    "SCCACHE_S3_USE_SSL=true",
    "SCCACHE_IDLE_TIMEOUT=0",
]


@pytest.fixture
def run(tmp_path: Path):
    """Runs the script; gives its status, what it said, sccache's calls, and the files env, output and summary."""

    def call(*, installed: bool = True, **given: str) -> tuple[int, str, list[str], list[str]]:
        stub = tmp_path / "sccache"
        if installed:
            stub.write_text(STUB)
            stub.chmod(0o755)
        paths = [tmp_path / name for name in ("log", "env", "output", "summary")]
        for path in paths:
            path.touch()
        names = ("LOG", "GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
        done = subprocess.run(
            ["/bin/bash", str(SCRIPT)],
            env={"PATH": str(tmp_path), "STATS": "false", **dict(zip(names, map(str, paths), strict=True)), **given},
            capture_output=True,
            text=True,
            check=False,
        )
        log, *files = (path.read_text() for path in paths)
        return done.returncode, done.stdout, log.splitlines(), files

    return call


def test_the_server_alone_has_the_credentials_of_a_role(run):
    status, _, calls, (env, output, _) = run(**BUCKET, **KEYS)
    assert status == 0
    assert calls == ["--start-server key=AKIDEXAMPLE anonymous=no", "--zero-stats key=AKIDEXAMPLE anonymous=no"]
    assert env.splitlines() == SETTINGS
    assert output == "cc=sccache gcc\ncxx=sccache g++\n"


@pytest.mark.parametrize("keys", [{}, dict.fromkeys(KEYS, "")])
def test_a_job_without_a_role_reads_without_credentials(run, keys):
    status, _, calls, (env, _, _) = run(**BUCKET, **keys)
    assert (status, calls[0]) == (0, "--start-server key=none anonymous=true")
    assert env.splitlines() == [*SETTINGS, "SCCACHE_S3_NO_CREDENTIALS=true"]


def test_after_a_build_the_statistics_are_in_the_log_and_in_the_summary(run):
    status, said, calls, (env, output, summary) = run(STATS="true")
    assert (status, said, env, output) == (0, "Cache hits  7\n", "", "")
    assert [call.partition(" ")[0] for call in calls] == ["--show-stats"]
    assert summary == "### sccache\n\n<pre>\nCache hits  7\n</pre>\n\n"


def test_a_runner_without_sccache_is_told(run):
    status, said, _, _ = run(installed=False, **BUCKET)
    assert status == 1
    assert said == "::error title=sccache::sccache not found; use a runner image that has it, or install it in a step before\n"


@pytest.mark.parametrize(
    "given", [{}, {"BUCKET": "b"}, {"BUCKET": "a/b", "REGION": "us-west-2"}, {"BUCKET": "b", "REGION": "a.b"}]
)
def test_a_name_that_is_none_is_refused(run, given):
    status, said, calls, _ = run(**given)
    assert (status, calls) == (1, [])
    assert "bucket and region are names, such as example-ccache and us-west-2" in said


def test_a_server_that_does_not_start_fails_the_step_without_outputs(run):
    status, _, calls, (env, output, _) = run(STATUS="2", **BUCKET)
    assert (status, len(calls), env, output) == (2, 1, "", "")
