"""The linter of prose: each rule finds its bad sentence, and what is not prose is not read."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location("prose", ROOT / ".ci/prose.py")
assert _spec is not None
assert _spec.loader is not None
prose = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(prose)


def found(text: str) -> list[str]:
    return list(prose.findings([("page", text)]))


@pytest.mark.parametrize("rule", prose.SETTINGS["rule"], ids=lambda rule: rule["find"])
def test_each_rule_finds_its_bad_sentence_and_not_its_good_one(rule):
    assert any(line.endswith(rule["write"]) for line in found(rule["bad"])), "the rule does not find its bad sentence"
    assert not found(rule["good"]), "the good sentence is the one to copy"


def test_a_finding_has_file_line_words_and_what_to_write():
    assert found("One line.\n\nThe other says\nhow to mend it.\n") == ["page:4: mend; write: fix"]


def test_a_sentence_has_a_limit_and_a_long_paragraph_of_short_ones_passes():
    words = prose.SETTINGS["words-in-a-sentence"]
    assert found("more words " * (words // 2) + "again and again") == [
        f"page:1: a sentence of {words // 2 * 2 + 3} words; write several"
    ]
    assert not found(("more words " * (words // 2) + ". ") * 3)


def test_checks_of_proselint_run_too():
    assert any("cliché" in line.lower() for line in found("At the end of the day it waits."))


@pytest.mark.parametrize(
    "page",
    [
        "Run it:\n\n```sh\nmend it\n```\n",
        "The key `mend` and ``a `mend` b`` are names.",
        "Read [this](docs/mend.md) and <https://example.com/mend>.",
        "<!-- mend -->\n",
        "A list\n\n- item\n\n  ```yaml\n  mend: 1\n  ```\n",
    ],
)
def test_code_and_the_targets_of_links_are_not_prose(page):
    assert not found(prose.of_markdown(page))


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""Says how\n\nto mend it."""\n', 3),
        ("a = 1\nb = 2  # how to mend it\n", 2),
        ('problem(\n    f"key {key} has no value: "\n    f"mend it in {file}",\n)\n', 3),
        ('title = "Grüße: how to mend it"\n', 1),
    ],
)
def test_comments_docstrings_and_messages_of_python_are_prose(source, line):
    assert found(prose.of_python(source)) == [f"page:{line}: mend; write: fix"]


@pytest.mark.parametrize(
    "source", ["mend = 1\n", 'kind = "mend"\n', 'x = f"{mend} of the pools are ready"\n', 'say("how `mend` is read here")\n']
)
def test_names_and_keys_of_python_are_not_prose(source):
    assert not found(prose.of_python(source))


def test_it_fails_for_a_page_with_a_finding_and_passes_one_without(tmp_path):
    (tmp_path / "a.md").write_text("How to mend it.\n")
    ran = subprocess.run(
        [sys.executable, ROOT / ".ci/prose.py", tmp_path], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (1, f"{tmp_path}/a.md:1: mend; write: fix\n")
    (tmp_path / "a.md").write_text("How to fix it.\n")
    ran = subprocess.run(
        [sys.executable, ROOT / ".ci/prose.py", tmp_path], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, "")
