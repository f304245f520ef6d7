"""Reads from the description of a task whether it needs GPUs, and how many (seed 001).

A keyword is a whole word: "receive" does not contain "cv". It does not count where the text denies it ("no GPU needed") or
where its sentence shows another meaning (a CV that is a résumé).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from fleet.facts.record import Record
from fleet.facts.tables import beside

_NEAR = 100
"""How many characters on either side of a keyword are read, at most."""


@cache
def _data() -> dict[str, Any]:
    return beside(__file__, "keywords.toml")


@cache
def _filled(expression: str) -> str:
    """An expression of the table, with its parts in place of their names."""
    return re.sub("<([a-z-]+)>", lambda name: _filled(_data()["parts"][name[1]]), expression)


def _any(expressions: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(_filled, expressions)))


@cache
def _signs(kind: str) -> re.Pattern[str]:
    return _any(_data()["signs"][kind])


@cache
def _other_meanings() -> Mapping[str, tuple[str, re.Pattern[str]]]:
    """By keyword, another meaning and the signs of it in the sentence."""
    return {row["keyword"]: (row["meaning"], _any(row["signs"])) for row in _data()["meanings"]}


class Match(Record):
    """A keyword in a text, with up to three words on either side. `ignored` says why it does not count; empty if it counts."""

    keyword: str
    excerpt: str
    ignored: str

    def __str__(self) -> str:
        return f"{self.keyword}: “{self.excerpt}”" + (f" does not count: {self.ignored}" if self.ignored else "")


class MlWorkload(Record):
    """The keywords in a text. It is true if at least one counts."""

    matches: tuple[Match, ...]

    def __bool__(self) -> bool:
        return bool(self.keywords)

    @property
    def keywords(self) -> tuple[str, ...]:
        """The keywords that count, each once."""
        return tuple(dict.fromkeys(match.keyword for match in self.matches if not match.ignored))

    def __str__(self) -> str:
        head = f"machine learning ({', '.join(self.keywords)})" if self else "no machine learning"
        return "\n".join([head, *(f"  {match}" for match in self.matches)])


class GpuRequirements(Record):
    """What a task needs, as `arguments` of `create_gpu_job`.

    `branch` is "large model", "training" or "usual". `matches` are the keywords of the branches up to this one.
    """

    branch: str
    arguments: Mapping[str, Any]
    matches: tuple[Match, ...]

    def __str__(self) -> str:
        head = "{gpu_count} x {kind}, {memory}: ".format(kind=self.arguments["gpu_type"].upper(), **self.arguments)
        return "\n".join([head + self.branch, *(f"  {match}" for match in self.matches)])


def detect_ml_workload(requirements: str) -> MlWorkload:
    """Whether a description is about machine learning, and which of the seed's keywords show it."""
    return MlWorkload(tuple(_matches(requirements, _data()["keywords"])))


def calculate_gpu_requirements(requirements: str) -> GpuRequirements:
    """The GPUs and memory for a description: the seed's first branch with a keyword that counts, otherwise the usual one."""
    matches: tuple[Match, ...] = ()
    *branches, row = _data()["branches"]
    for branch in branches:
        matches += tuple(_matches(requirements, branch["keywords"]))
        if not all(match.ignored for match in matches):
            row = branch
            break
    return GpuRequirements(row["name"], row["arguments"], matches)


def _matches(text: str, keywords: Mapping[str, str]) -> Iterator[Match]:
    """Every keyword of a text, sentence by sentence. `keywords` are regular expressions by keyword.

    A digit or an underscore ends a word: cuda12, cv_pipeline.
    """
    for sentence in _signs("end").split(unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")):
        for keyword, pattern in keywords.items():
            for match in re.finditer(rf"(?<![^\W\d_])(?:{_filled(pattern)})(?![^\W\d_])", sentence):
                before = sentence[max(0, match.start() - _NEAR) : match.start()]
                after = sentence[match.end() : match.end() + _NEAR]
                yield Match(keyword, _excerpt(before, match[0], after), _ignored(keyword, f"{before}\0{after}"))


def _excerpt(before: str, word: str, after: str) -> str:
    first, last = re.search(r"(?:\S+\s+){0,3}\S*\Z", before), re.match(r"\S*(?:\s+\S+){0,3}", after)
    return " ".join(f"{first[0] if first else ''}{word}{last[0] if last else ''}".split())


def _ignored(keyword: str, context: str) -> str:
    """Why a keyword does not count in its context; empty if it counts."""
    if _signs("denied").search(context) and not _signs("wanted").search(context):
        return "it is denied"
    meaning, signs = _other_meanings().get(keyword, ("", None))
    return f"it means {meaning}" if signs and signs.search(context) else ""
