"""Manifests as JSON: the line of each key and item, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.facts.errors import InputError
from fleet.loading.documents import documents


def read(tmp_path: Path, text: str) -> tuple[object, dict[tuple[str | int, ...], int]]:
    """The value of the one document of a JSON file, and its lines."""
    file = tmp_path / "manifest.json"
    file.write_text(text, encoding="utf-8")
    (document,) = documents(file)
    return document.value, dict(document.lines)


def test_every_key_and_item_of_json_has_its_line(tmp_path: Path) -> None:
    text = '{"apiVersion": "v1",\n\t"items": [1,\n\t\t{"a":\n"b"}],\n"c":{}}'
    assert read(tmp_path, text) == (
        {"apiVersion": "v1", "items": [1, {"a": "b"}], "c": {}},
        {(): 1, ("apiVersion",): 1, ("items",): 2, ("items", 0): 2, ("items", 1): 3, ("items", 1, "a"): 3, ("c",): 5},
    )


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"\ud83d\ude00", "😀"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\ud83d\ude00", "\\😀"),
        ("\u2028\u0085é😀\x7f", "\u2028\u0085é😀\x7f"),
        (r"\u0001\/", "\x01/"),
        ("- &a *b # c: {", "- &a *b # c: {"),
    ],
)
def test_a_string_that_yaml_would_read_in_another_way_moves_no_line(tmp_path: Path, written: str, value: str) -> None:
    read_value, lines = read(tmp_path, f'{{"apiVersion": "v1", "{written}": "{written}",\n"last": 1}}')
    assert read_value == {"apiVersion": "v1", value: value, "last": 1}
    assert lines["last",] == 2


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"apiVersion": "v1",\n"é": 1,\n"é": 2}', ":3: a key may appear once, and line 2 has it too; got 'é'"),
        ('{"apiVersion": "v1", "a": ' + "[" * 100 + "]" * 100 + "}", ":1: values nest at most 100 levels deep; got level 101"),
        ('{"apiVersion": "v1",\n"' + "k" * 1100 + '": 1}', ":2: not valid YAML"),
    ],
)
def test_json_beyond_the_limits_is_refused_at_its_line(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    assert f"manifest.json{fault}" in str(refused.value)
