"""Arguments that make no job are reported by argument, rule, value and how to fix them, all at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.jobs import JobError, create_gpu_job, gpu_job
from tests.cases import cases

IMAGE = "registry.example.com/agent_bus:1.4.2"
BESIDE: dict[str, Any] = {"task_id": "a", "image": IMAGE}


def told(**given: Any) -> list[str]:
    with pytest.raises(JobError) as error:
        create_gpu_job(**BESIDE | given)
    return str(error.value).split("\n")


_LINES = (Path(__file__).parent / "wrong_arguments.txt").read_text(encoding="utf-8").splitlines()[1:]
WRONG = [pytest.param(json.loads(given), line, id=given) for given, line in zip(_LINES[::2], _LINES[1::2], strict=True)]


@pytest.mark.parametrize(("given", "line"), WRONG)
def test_a_wrong_argument_is_told_by_name_rule_value_and_how_to_mend_it(given: dict[str, Any], line: str) -> None:
    assert [each.partition(" (got ")[0] for each in told(**given)] == [line.partition(" (got ")[0]]
    assert told(**given)[0].startswith(line), "with the value, unless it may be a secret"


def test_every_problem_is_told_at_once_in_the_order_of_the_arguments() -> None:
    wrong = {"gpu_count": 3, "gpu_type": "k80", "memory": "16GB", "shm": "64Gi", "visible_devices": "9"}
    with pytest.raises(JobError) as error:
        gpu_job("", "a:latest", **wrong, env={"A B": "1"}, cach="x")
    assert [(each.field, each.rule) for each in error.value.problems] == [
        ("gpu_count", "gpu_count"),
        ("gpu_type", "gpu_type"),
        ("memory", "memory"),
        ("task_id", "task_id"),
        ("image", "image"),
        ("env.A B", "variable"),
        ("cach", "unknown"),
    ], "a rule that reads a wrong argument is not asked: the memory that shm counts against is unknown"
    assert isinstance(error.value, ValueError)


def test_a_rule_over_good_arguments_is_asked_although_others_are_wrong() -> None:
    assert [line.partition(":")[0] for line in told(image="a", shm="32Gi", cache_path="/m")] == ["shm", "image", "cache_path"]


@cases(
    ("name", "value"),
    [
        ("HF_TOKEN", "hf_" + "a1B2" * 6),
        ("ANYTHING", "hf_" + "a1B2" * 6),
        ("GITHUB_TOKEN", "0123456789abcdef"),
        ("DB_PASSWORD", "x"),
        ("password", "x"),
        ("WANDB_API_KEY", "0"),
        ("AWS_SECRET_ACCESS_KEY", "0"),
        ("AWS_ACCESS_KEY_ID", "AKIA" + "A1" * 8),
        ("DATABASE_URL", "postgres://user:hunter2@db.example.com/x"),
        ("KEY", "-----BEGIN RSA PRIVATE KEY-----\nMIIE"),
    ],
)
def test_a_variable_that_looks_like_a_secret_is_refused_and_never_shown(name: str, value: str) -> None:
    (line,) = told(env={name: value})
    assert line == (
        f"env.{name}: looks like a secret, and everyone who can read the Job could read it; "
        'write secret_env={"NAME": ("secret", "key")}'
    )
    assert value not in line or len(value) == 1


@cases(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "4096000000000000"),
        ("PAD_TOKEN", "<|endoftext|>"),
        ("EOS_TOKEN", "</s>"),
        ("HF_TOKEN", ""),
        ("SECRETARY", "bird"),
        ("KEYBOARD_LAYOUT", "de"),
        ("TASK_ID", "ml_task_123"),
        ("URL", "https://example.com:8443/a@b"),
        ("CHUNK", "ask-me-anything-about-it"),
    ],
)
def test_a_variable_that_is_no_secret_is_taken(name: str, value: str) -> None:
    assert gpu_job(**BESIDE, env={name: value}).env[name] == value


KNOWN = ["hf_" + "a1B2" * 6, "ghp_" + "a1B2" * 6, "AKIA" + "A1" * 8, "postgres://user:hunter2@db.example.com/x"]


@cases("field", ["command", "args"])
@cases("value", KNOWN)
@cases("written", ["{}", "--token={}", "export TOKEN='{}' && train"])
def test_a_word_that_is_a_known_secret_is_refused_and_never_shown(field: str, value: str, written: str) -> None:
    (line,) = told(**{field: ["train", written.format(value)]})
    assert line == (
        f"{field}.1: looks like a secret, and everyone who can read the Job could read it; "
        'write secret_env={"NAME": ("secret", "key")}, and have the program read that variable'
    )


def test_words_that_are_no_secrets_are_taken() -> None:
    words = ("--token", "$(HF_TOKEN)", "--password-file=/run/secrets/a", "hf_transfer", "https://example.com:8443/a@b")
    assert gpu_job(**BESIDE, command=words, args=words).given.args == words


@cases("field", ["env", "secret_env", "command", "args", "annotations"])
def test_no_error_repeats_a_value_that_may_be_a_secret(field: str) -> None:
    given: Any = (
        ["sesame\0"] if field in ("command", "args") else {"example.com/a" if field == "annotations" else "A": "sesame\0"}
    )
    lines = told(**{field: given})
    assert lines
    assert "sesame" not in "\n".join(lines)


@cases(
    "image",
    [
        "agent_bus:1",
        "registry.example.com:5000/team/agent_bus:2.0-cuda12",
        f"ghcr.io/a/b@sha256:{'0' * 64}",
        f"ghcr.io/a/b:latest@sha256:{'0' * 64}",
        "localhost/a:v1",
        "a__b/c--d:1",
    ],
)
def test_an_image_by_version_or_digest_is_taken(image: str) -> None:
    assert gpu_job("a", image).given.image == image


@cases(
    "image",
    [
        *(
            "a",
            "a:latest",
            "a:latest-1",
            "a:1-LATEST",
            "a:stable",
            "A:1",
            "a//b:1",
            "a/:1",
            "-a:1",
            "a:1 ",
            "a:1\n",
            "a@sha256:0",
        ),
        *("", "a:" + "1" * 129),
    ],
)
def test_an_image_that_may_change_or_is_none_is_refused(image: str) -> None:
    assert told(image=image)[0].startswith("image: ")


def test_cpu_is_written_as_kubernetes_writes_it() -> None:
    for given, written in (("8000m", "8"), (8, "8"), ("0.5", "500m"), (2.5, "2500m"), ("250m", "250m")):
        job = create_gpu_job(**BESIDE, cpu=given)
        assert job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] == written


def test_a_name_of_a_gpu_is_read_in_any_case() -> None:
    assert gpu_job(**BESIDE, gpu_type="A100") == gpu_job(**BESIDE, gpu_type="a100")
    assert gpu_job(**BESIDE, gpu_type="RTX PRO 6000") == gpu_job(**BESIDE, gpu_type="rtx-pro-6000")
