"""A Job as a file and as text: what is read, what is refused, and that kubectl reads what is written."""

from __future__ import annotations

import json
import string

import pytest
import yaml
from hypothesis import given, strategies as st
from ruamel.yaml import YAML

from fleet.facts.scheduling import JOB_HASH
from gpu_ci.submit import InputError, read_job, yaml_text
from gpu_ci.submit.sending import hash_of, hashed
from tests.submit.objects import job

ODD = [
    "yes",
    "No",
    "on",
    "y",
    "~",
    "null",
    "1.30",
    "1e3",
    "0x1f",
    "0o7",
    "012",
    "1_000",
    "12:30",
    "2026-01-01",
    ".inf",
    "<<",
    "=",
    "",
]
"""Texts that YAML 1.1 or 1.2 reads as something else where they are not quoted."""
texts = st.sampled_from(ODD) | st.text(alphabet=string.printable + "è🙂\x00\x1b\u2028", max_size=12)
things = st.recursive(
    texts | st.booleans() | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(texts, things, max_size=4))
def test_what_is_written_is_read_the_same_by_readers_of_both_yamls(thing):
    text = yaml_text(thing)
    assert yaml.safe_load(text) == thing, "YAML 1.1"
    assert YAML(typ="safe", pure=True).load(text) == thing, "YAML 1.2"


@pytest.mark.parametrize("word", ODD)
def test_a_text_that_looks_like_something_else_is_quoted(word):
    assert f'value: "{word}"' in yaml_text({"value": word})


def test_keys_stand_in_the_order_that_they_have():
    assert [line.partition(":")[0] for line in yaml_text(job()).splitlines() if not line.startswith((" ", "-"))] == [
        "apiVersion",
        "kind",
        "metadata",
        "spec",
    ]


@pytest.mark.parametrize("form", ["yaml", "json", "with a beginning and an end"])
def test_a_file_is_read(tmp_path, form):
    path = tmp_path / "job.yaml"
    text = yaml_text(job())
    path.write_text({"yaml": text, "json": __import__("json").dumps(job())}.get(form, f"---\n{text}---\n"))
    assert read_job(path) == job()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read (No such file or directory); name another"),
        ("", "must hold one Job; it holds 0 documents"),
        ("a: [", ":1: not valid YAML: expected the node content, but found '<stream end>'; fix the syntax of this line"),
        ("- a", "must hold one Job; it holds 1 documents"),
        (
            f"{yaml_text(job())}---\n{yaml_text(job())}",
            "must hold one Job; it holds 2 documents; put each Job into its own file",
        ),
        ("kind: Pod\napiVersion: v1", "must be a batch/v1 Job; it is v1 Pod; use kubectl apply for other kinds"),
        ("kind: Job\napiVersion: batch/v1", "metadata.name must be set"),
        (
            "kind: Job\napiVersion: batch/v1\nmetadata: {name: a}",
            "spec.template.spec.containers must name a container; otherwise nothing would run",
        ),
        (b"\xff\xfe\xff", "a YAML file must be UTF-8 text; byte 0 is not; save it as UTF-8"),
    ],
)
def test_a_file_that_is_no_job_is_told_in_a_line(tmp_path, text, words):
    path = tmp_path / "job.yaml"
    if isinstance(text, bytes):
        path.write_bytes(text)
    elif text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_job(path)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_is_read_as_kubectl_reads_it(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml_text(job()) + "extra: {on: yes, day: 2026-11-22, 8080: 1_000}\n")
    assert read_job(path)["extra"] == {"true": True, "day": "2026-11-22", "8080": 1000}


def test_a_job_of_another_program_may_be_json_with_any_character(tmp_path):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job() | {"extra": "😀"}))
    assert read_job(path)["extra"] == "😀"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: Job\nkind: Job", 2),
        ("apiVersion: batch/v1\nkind: !secret hush\nmetadata: {name: a}", 2),
    ],
)
def test_a_file_that_kubectl_refuses_is_told_with_its_line_and_no_value(tmp_path, text, line):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"job\.yaml:{line}: ") as caught:
        read_job(path)
    assert "hush" not in str(caught.value)


@given(things)
def test_the_hash_is_of_what_is_sent(extra):
    first = hashed(job() | {"spec": {"extra": extra}})
    assert hash_of(first) == hash_of(hashed(first)), "and of nothing that sending adds"
    assert hash_of(first) == hash_of(hashed(first | {"status": {"active": 1}}))
    assert hash_of(first) != hash_of(hashed(job() | {"spec": {"extra": [extra]}}))


def test_the_order_of_keys_is_not_hashed_and_other_annotations_are():
    turned = dict(reversed(job().items()))
    assert hash_of(hashed(turned)) == hash_of(hashed(job()))
    noted = job() | {"metadata": {"name": "train", "annotations": {"a": "b"}}}
    assert hashed(noted)["metadata"]["annotations"].keys() == {"a", JOB_HASH}
    assert hash_of(hashed(noted)) != hash_of(hashed(job()))
