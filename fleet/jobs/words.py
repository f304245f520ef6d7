"""Finds words with one meaning in what people write, and says which ones it passed over and why.

A word begins and ends where its letters do ("receive" has no "cv"), may be in the plural, and may be joined by spaces, hyphens
or nothing ("deep-learning", "deeplearning4j"). It does not count where it is denied ("no GPU needed"), or where what stands
around it says that another thing is meant.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

_BEGIN, _END = r"(?<![^\W\d_])", r"(?![^\W\d_])"
"""No letter before, none after. Digits and underscores end a word: cuda12, cv_pipeline."""
_NEAR, _FAR = 160, 600
"""Characters on either side that a word's neighbours, and its sentence, have at most."""
_LAST_WORDS, _FIRST_WORDS = re.compile(r"(?:\S+\s+){0,3}\S*$"), re.compile(r"\S*(?:\s+\S+){0,3}")


@dataclass(frozen=True, slots=True)
class Found:
    """A word that counts: the keyword, the word as it stands there, and the text around it."""

    keyword: str
    word: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.keyword}: “{self.excerpt}”"


@dataclass(frozen=True, slots=True)
class Discounted(Found):
    """A word that does not count, and why."""

    why: str

    def __str__(self) -> str:
        return f"{self.keyword}: “{self.excerpt}” does not count, {self.why}"


@dataclass(frozen=True, slots=True)
class Sense:
    """Another thing that a word may mean.

    It does if what stands right before it matches `before` to its end, or what stands right after it `after` from its start, or
    if its sentence has something that matches `around`, or any sentence something that matches `about`; but not where its own
    sentence speaks of the field. `firm` neighbours decide whatever else is there.
    """

    meaning: str
    before: str = ""
    after: str = ""
    around: str = ""
    about: str = ""
    firm: bool = False


@dataclass(frozen=True, slots=True)
class Keyword:
    """A word or a phrase as a regular expression of lower-case letters, and what else it may mean.

    `field` matches words that show that the sentence means it as a keyword. `astray` says for one place (before, after, sentence)
    why the word does not count there, or nothing.
    """

    name: str
    pattern: str
    field: str = ""
    senses: tuple[Sense, ...] = ()
    astray: Callable[[str, str, str], str] | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """All the words that were met, in the order of the text."""

    found: tuple[Found, ...]
    discounted: tuple[Discounted, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """A word in its text: `start` and `end` of it and of its sentence."""

    keyword: Keyword
    text: str
    start: int
    end: int
    sentence_start: int
    sentence_end: int

    @property
    def word(self) -> str:
        """It, on one line."""
        return " ".join(self.text[self.start : self.end].split())

    @property
    def before(self) -> str:
        """What stands before it in its sentence."""
        return self.text[self.sentence_start : self.start]

    @property
    def after(self) -> str:
        """What stands after it in its sentence."""
        return self.text[self.end : self.sentence_end]

    @property
    def sentence(self) -> str:
        return self.text[self.sentence_start : self.sentence_end]

    @property
    def excerpt(self) -> str:
        """It and up to three words on either side."""
        first, last = _LAST_WORDS.search(self.before[-_NEAR:]), _FIRST_WORDS.match(self.after[:_NEAR])
        return " ".join(f"{first[0] if first else ''}{self.word}{last[0] if last else ''}".split())


def read(text: str, keywords: Iterable[Keyword]) -> Reading:
    """Every place of every keyword in a text."""
    plain = _plain(text)
    told = _Told(plain)
    found: list[Found] = []
    discounted: list[Discounted] = []
    denied: _Place | None = None
    for place in sorted(_places(plain, keywords), key=lambda each: (each.start, -each.end)):
        why = ""
        if _is_denied(place) or (denied is not None and _joins(denied, place)):
            denied, why = place, "it is denied"
        elif other := _other_meaning(place, told):
            why = other
        if why:
            discounted.append(Discounted(place.keyword.name, place.word, place.excerpt, why))
        else:
            found.append(Found(place.keyword.name, place.word, place.excerpt))
    return Reading(tuple(found), tuple(discounted))


_SIGNS = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-")
    | dict.fromkeys("\u2018\u2019\u02bc\u0060\u00b4", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"')
    # Soft hyphens, joiners and other signs of no width.
    | dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", "")
)


def _plain(text: str) -> str:
    """Lower case, one kind of hyphen and of quotation mark, nothing invisible."""
    return unicodedata.normalize("NFKC", text.translate(_SIGNS)).casefold().translate(_SIGNS)


_SENTENCE_END = re.compile(r"[.!?;]+(?=\s|$)|\n\s*(?:\n|[-*•]\s|\d+[.)]\s)")


def _places(text: str, keywords: Iterable[Keyword]) -> Iterator[_Place]:
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    for keyword in keywords:
        for match in re.finditer(f"{_BEGIN}(?:{keyword.pattern}){_END}", text):
            begins = ends[bisect.bisect_right(ends, match.start()) - 1]
            stops = ends[bisect.bisect_left(ends, match.end())]
            begins, stops = max(begins, match.start() - _FAR), min(stops, match.end() + _FAR)
            yield _Place(keyword, text, match.start(), match.end(), begins, stops)


# -- denied ------------------------------------------------------------------------------------------------------------

_FILL = (
    r"(?:(?:an?|any|the|of|for|its?|our|your|their|own|need|needs|use|using|dedicated|discrete|special|nvidia|single|real|actual|"
    r"additional|extra|more|further|such|kind|sort|form|type|advanced|heavy|complex|fancy|custom|local|expensive|"
    r"requirement|dependency|support|ai|ml)[\s-]+)*"
)
_WANT = (
    r"(?:needs?|needing|requires?|requiring|uses?|using|involves?|involving|includes?|including|wants?|depends? (?:up)?on|"
    r"rel(?:y|ies) on|calls? for|based on|about|related to|do with|doing|an?|any)"
)
_NOT = r"(?:not|never|neither|cannot|[a-z]+n't)"
_NEVER_DENIES = re.compile(r"\bno (?:doubt|question|matter|less|more|fewer)\b[^,]*$|\bnot (?:only|just|merely|simply)\b[^,]*$")
_DENIED_BEFORE = re.compile(
    rf"(?:(?:^|[^\w'])(?:no|without|zero|non|sans|minus)[\s-]+{_FILL}"
    rf"|(?:^|[^\w']){_NOT}\s+(?:[a-z]+\s+){{0,2}}?{_WANT}\s+{_FILL}"
    rf"|(?:^|[^\w'])(?:instead of|rather than|in place of|as opposed to|free of|neither|nor)\s+{_FILL})$"
)
_DENIED_AFTER = re.compile(
    r"^s?(?:-free\b|-less\b|\s*[:=]\s*(?:no|none|false|0|off|n/a)\b|(?:[\s-]+(?:support|acceleration|access|hardware))?\s+"
    r"(?:(?:is|are|was|were|will|would|should|be|being|has|have)\s+)*(?:not|never|[a-z]+n't)\s+(?:be\s+)?"
    r"(?:needed|required|necessary|used|involved|wanted|planned|allowed)\b"
    r"|\s+(?:isn't|aren't|is|are)\s+(?:unnecessary|not needed|out of scope|overkill)\b|\s+unnecessary\b)"
)
_TROUBLE = re.compile(
    r"[\s-]+(?:memory|latenc\w+|leaks?|downtime|errors?|failures?|faults?|crash\w*|delays?|timeouts?|oom|bottlenecks?|idle|waste\w*)\b"
)
"""What is denied is the trouble with it: "no GPU memory leaks"."""
_NOT_WITHOUT = re.compile(
    r"\b(?:impossible|infeasible|hopeless|cannot|[a-z]+n't|not (?:work|possible|finish|run|feasible)|too slow|fails?|for ever)\b"
)
"""Where one cannot do without: "without deep learning this is impossible"."""
_LACKED = re.compile(
    r"\b(?:have|has|had|got|with|lacks?|there (?:is|are)|do not have|does not have|don't have|doesn't have)\s+(?:no|any|an?)?\s*$"
)
_HARDWARE = ("gpu", "cuda")


def _is_denied(place: _Place) -> bool:
    before = re.split(r"[,:()]|\bbut\b", place.before[-_NEAR:])[-1]
    if _DENIED_AFTER.search(place.after[:_NEAR]):
        return True
    if _NEVER_DENIES.search(before) or not _DENIED_BEFORE.search(before):
        return False
    if _TROUBLE.match(place.after[:_NEAR]) or _NOT_WITHOUT.search(place.after[:_NEAR]):
        return False
    # Who lacks a GPU may well want one; and two denials are none.
    if place.keyword.name in _HARDWARE and _LACKED.search(before):
        return False
    cues = re.findall(rf"(?:^|[^\w'])(?:no|without|{_NOT}|unable|fails?|impossible)(?![\w'])", before)
    return len(cues) % 2 == 1 or not cues


def _joins(denied: _Place, place: _Place) -> bool:
    """Whether a word goes with one before it that is denied: "no GPU or CUDA"."""
    if place.sentence_start != denied.sentence_start:
        return False
    between = place.text[denied.end : place.start]
    return re.fullmatch(rf"s?(?:,?\s+(?:or|nor)\s+|\s*/\s*){_FILL}", between) is not None


# -- another meaning ---------------------------------------------------------------------------------------------------


class _Told(dict[str, bool]):
    """Whether a whole text has something that matches, by the expression; asked once each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def __missing__(self, about: str) -> bool:
        self[about] = _has(self._text, about, whole=False)
        return self[about]


def _other_meaning(place: _Place, told: _Told) -> str:
    """What else the word means where it stands, or nothing."""
    keyword = place.keyword
    if keyword.astray is not None and (why := keyword.astray(place.before, place.after, place.sentence)):
        return why
    rest = f"{place.before} {place.after}"
    for sense in keyword.senses:
        near = _beside(sense, place)
        if near and sense.firm:
            return f"it means {sense.meaning}"
        other = near or (sense.about and told[sense.about]) or (sense.around and _has(rest, sense.around, whole=False))
        # A sentence that speaks of the field means it so; firm neighbours of the senses to come are asked all the same.
        if other and not (keyword.field and _has(rest, keyword.field)):
            return f"it means {sense.meaning}"
    return ""


def _has(text: str, words: str, *, whole: bool = True) -> bool:
    """Whether a text has one of some words, or of words that begin so."""
    return re.search(f"{_BEGIN}(?:{words}){_END if whole else ''}", text) is not None


def _beside(sense: Sense, place: _Place) -> bool:
    before = sense.before and re.search(rf"(?:{sense.before})$", place.before[-_NEAR:])
    after = sense.after and re.match(sense.after, place.after[:_NEAR])
    return bool(before or after)
