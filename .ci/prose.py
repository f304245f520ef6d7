"""Checks the prose of pages, comments, docstrings and messages with proselint: `python .ci/prose.py PATH...`.

prose.toml has the project's own rules and selects those of proselint. Each finding is one line: `file:line: words; write: …`.
The exit status is 1 if there is a finding. In a folder it reads every *.md and *.py file and the tables of
messages. It replaces code, names and the targets of links by blanks, line by line, so that a finding has its line.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from proselint.checks import __register__
from proselint.config import Config
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckFlags, CheckResult
from proselint.tools import LintFile

SETTINGS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("prose.toml").read_text(encoding="utf-8"))
_OF_WORDS = ("classes", "forbidden", "ignored", "messages", "options", "pydantic", "refusals", "remarks", "sentences", "steps")
WORDS = {f"{name}.toml" for name in _OF_WORDS}
NOT_PROSE = re.compile(
    r"^ *(?P<fence>```+|~~~+).*?^ *(?P=fence) *$|\A---\n.*?^---$|<!--.*?-->|<[^>\n]+>|https?://[^\s)>|]+|(?<=\])\([^)\n]*\)",
    re.DOTALL | re.MULTILINE,
)
CODE_SPAN = re.compile(r"(?P<ticks>`+)(?:(?!\n\s*\n).)+?(?P=ticks)", re.DOTALL)
QUOTES = re.compile(r"""\A\w*(?:\"{3}|'{3}|["'])|(?:\"{3}|'{3}|["'])\Z|["']\s*\n\s*\w*["']|\\[nt]""")
SEVERAL_WORDS = re.compile(r"[A-Za-z,;:]\s+[a-z]+\s+[a-z]")
"""A string that matches is prose. A key, a path or a command of two words is not."""
TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)|(?P<prefix>\b[A-Za-z]{1,2}|)"""
    r"""(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|{ONE}(?:\s*[A-Za-z]{0,2}(?!\"{3}|'{3}){ONE})*)""".replace(
        "{ONE}", r"""(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    ),
    re.DOTALL,
)
"""A comment, or a string with those that Python joins to it."""
SENTENCE = re.compile(r"(?:(?![.!?:;][\s\"')*]|\n\s*\n|\n\s*(?:[-*#>]|\d+\.)\s|[|\0]).)+", re.DOTALL)


def _rule(find: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w/-])(?:{find})(?![\w/-])".replace(" ", r"(?: ?\n ?| )"), re.IGNORECASE)


RULES = {_rule(rule["find"]): rule["write"] for rule in SETTINGS["rule"]}
ANY_RULE = _rule("|".join(rule["find"] for rule in SETTINGS["rule"]))
"""A text without a finding, as most are, is read once for all rules."""


def _blanks(text: str) -> str:
    return "\n".join(" " * len(line) for line in text.split("\n"))


def _blank(match: re.Match[str]) -> str:
    return _blanks(match[0])


def _a_word(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "_", match[0])


def of_markdown(text: str) -> str:
    """The prose of a page: a span of code is one word of underscores, the rest of the code is blank."""
    return CODE_SPAN.sub(_a_word, NOT_PROSE.sub(_blank, text))


def of_python(source: str) -> str:
    """The comments, docstrings and strings of several words, each at its place in the source, between NUL characters."""
    parts = []
    end = 0
    for token in TOKEN.finditer(source):
        parts += [_blanks(source[end : token.start()]), (_comment if token["comment"] else _string)(token)]
        end = token.end()
    return "".join((*parts, _blanks(source[end:])))


def _comment(token: re.Match[str]) -> str:
    before, _, line = token.string[: token.start()].rpartition("\n")
    continues = not line.strip() and before[before.rfind("\n") + 1 :].lstrip().startswith("#")
    text = re.sub(r"!.*|noqa.*|type: ignore.*", _blank, token[0][1:].rstrip())
    return (" " if continues else "\0") + CODE_SPAN.sub(_a_word, text).ljust(len(token[0]) - 1)


def _string(token: re.Match[str]) -> str:
    text = token[0]
    if "b" in token["prefix"].lower() or not SEVERAL_WORDS.search(text):
        return _blanks(text)
    text = re.sub(r"\{[^{}]*\}", _a_word, QUOTES.sub(_blank, text))
    return CODE_SPAN.sub(_a_word, f"\0{text[1:-1]}\0")


def _long_sentences(text: str, check: Check) -> Iterator[CheckResult]:
    for match in SENTENCE.finditer(text):
        if (count := len(re.findall(r"[^\s\W]\S*", match[0]))) > SETTINGS["words-in-a-sentence"]:
            start = match.start() + len(match[0]) - len(match[0].lstrip())
            yield CheckResult(check.path, f"a sentence of {count} words; write several", (start, match.end()), None)


def _words(text: str, check: Check) -> Iterator[CheckResult]:
    for rule, write in RULES.items() if ANY_RULE.search(text) else ():
        yield from (CheckResult(check.path, f"{match[0].strip()}; {write}", match.span(), None) for match in rule.finditer(text))


def findings(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The findings in texts by name. All are one text for proselint, because each of its checks is slow to start."""
    places = [("", 0)]
    joined = []
    for name, text in texts:
        joined.append(re.sub(r"[ ]+", " ", text).rstrip("\n") + "\n\0\n")
        places += [(name, line) for line in range(1, joined[-1].count("\n") + 1)]
    config = Config(max_errors=1_000_000, checks=dict.fromkeys(SETTINGS["off"], False) | dict.fromkeys(SETTINGS["checks"], True))
    for result, (line, _) in LintFile("", "".join(joined)).lint(config):
        name, number = places[line]
        yield f"{name}:{number}: {' '.join(result.message.split())}"


def register() -> None:
    """Add the project's rules to proselint's registry, beside its own."""
    flags = CheckFlags(allow_quotes=True)
    CheckRegistry().register_many(__register__)
    CheckRegistry().register(Check(_long_sentences, path="fleet.sentences", flags=flags))
    CheckRegistry().register(Check(_words, path="fleet.words", flags=flags))


register()

if __name__ == "__main__":
    paths = [file for name in sys.argv[1:] for file in ([Path(name)] if Path(name).is_file() else sorted(Path(name).rglob("*")))]
    texts = (
        (path, path.read_text(encoding="utf-8"))
        for path in paths
        if (path.suffix in {".md", ".py"} or path.name in WORDS) and str(path) not in SETTINGS["not"]
    )
    found = list(findings((str(path), (of_markdown if path.suffix == ".md" else of_python)(text)) for path, text in texts))
    print(*found, sep="\n", end="\n" if found else "")  # noqa: T201
    sys.exit(bool(found))
