"""`seeds_mutants` breaks what a row names, and nothing else of the file."""

from __future__ import annotations

import pytest

from tests.docs.markdown import ROOT
from tests.docs.seeds_mutants import broken, file_of
from tests.docs.test_seeds import PAGE, rows


def test_every_source_of_the_page_can_be_broken():
    sources = {source for row in rows(PAGE.read_text()) for source in row.sources}
    assert sources
    for source in sources:
        file = ROOT / file_of(source)
        assert broken(file, source.removeprefix(file_of(source))) != file.read_text(), source


CODE = "A = 1\nB = [A]\n\n\ndef each():\n    yield A\n\n\nclass C:\n    a: int\n\n    def get(self):\n        return self.a\n"


@pytest.mark.parametrize(
    ("file", "text", "name", "left"),
    [
        ("a.py", CODE, ":A", CODE.replace("A = 1", "A = 2")),
        ("a.py", CODE, ":B", CODE.replace("[A]", "()")),
        ("a.py", CODE, ":each", CODE.replace("yield A", "return\n    yield")),
        ("a.py", CODE, ":C.a", CODE.replace("    a: int", "    a_: int")),
        ("a.py", CODE, ":C.get", CODE.replace("return self.a", "return None")),
        ("a.py", CODE, ":C", CODE.replace("return self.a", "return None").replace("    a: int", "    a_: int")),
        ("a.yaml", "a:\n  b: 1\n  c:\n    d: 2\n\n  b: 3\n", ":c", "a:\n  b: 1\n  b: 3\n"),
        ("a.yml", "a:\n- b\n- c\nd: 1\n", ":a", "d: 1\n"),
        ("a.toml", "[a.b]\nc = 1\n[d]\nc = 2\n", ":b", "[d]\nc = 2\n"),
        ("a.toml", "[a.b]\nc = 1\n[d]\nc = 2\n", ":c", "[a.b]\n[d]\nc = 2\n"),
        ("a.csv", "a,b\n1,2\n12,3\n", ":1", "a,b\n12,3\n"),
        ("a.sh", "A=(b c)\nbegin a\nb\nc\n\nbegin d\n", ":A", "A=\nbegin a\nb\nc\n\nbegin d\n"),
        ("a.sh", "begin a\nb\na=c\n\nbegin d\n", ":a", "begin a\n\nbegin d\n"),
        ("Makefile", "a: b\n\tc\nb:\n\td\n", ":a", "b:\n\td\n"),
        ("a.md", "# A\n\n## B\n\nb\n\n### C\n\n```sh\n# c\n```\n\n## D\n\nd\n", "#b", "# A\n\n## B\n## D\n\nd\n"),
        ("a.json", "{}", "", ""),
    ],
)
def test_only_what_is_named_is_broken(tmp_path, file, text, name, left):
    (tmp_path / file).write_text(text)
    assert broken(tmp_path / file, name) == left
