"""Reads from the description of a task whether it needs GPUs, and how many (seed 001).

A keyword is a whole word: "receive" does not contain "cv". It does not count where the text denies it ("no GPU needed") or
where its sentence shows another meaning (a CV that is a résumé).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_JOIN = r"[\s_-]*"
_TRAINING = r"(?<!post[- ])(?:re-?|pre-?)?training|fine-?tun(?:e|es|ed|ing)"
_TRAIN = rf"(?:{_TRAINING}|(?:re-?|pre-?)?train(?:s|ed)?)"
_MODEL_TRAINING = rf"models?{_JOIN}(?:{_TRAINING})|{_TRAIN}\s+(?:[\w.-]+\s+){{0,5}}?(?:models?|llms?|networks?)"
"""In either order: "model training", "fine-tune a 7B model"."""
_BILLIONS = r"billions?|(?<![\d.])(?:\d{1,3}x)?[1-9]\d{0,4}(?:\.\d{1,3})?b"
"""The seed's word, and its short form in model names: 7B, 8x7B. 0.5B is less than a billion."""
KEYWORDS = {
    "machine learning": rf"machine{_JOIN}learning",
    "deep learning": rf"deep{_JOIN}learning",
    "neural network": rf"neural{_JOIN}net(?:work)?s?",
    "pytorch": "pytorch",
    "tensorflow": "tensorflow",
    "computer vision": rf"computer{_JOIN}vision",
    "cv": r"(?:open-?)?cv2?",
    "object detection": rf"object{_JOIN}detections?",
    "image classification": rf"image{_JOIN}classifications?",
    "nlp": "nlp",
    "model training": _MODEL_TRAINING,
    "inference": "inferenc(?:es?|ing)",
    "gpu": "gpus?",
    "cuda": "cuda",
    "billion": _BILLIONS,
}
"""Regular expressions by keyword. Each keyword shows that a task needs a GPU."""
_LARGE = {
    "large model": r"large[\s_-]+(?:(?:language|vision|multi-?modal|foundation|diffusion|speech)[\s_-]+)?models?",
    "billion": _BILLIONS,
}
_BRANCHES: tuple[tuple[str, Mapping[str, str], Mapping[str, Any]], ...] = (
    ("large model", _LARGE, {"gpu_count": 4, "gpu_type": "a100", "memory": "64Gi"}),
    ("training", {"training": f"{_TRAINING}|{_MODEL_TRAINING}"}, {"gpu_count": 1, "gpu_type": "a100", "memory": "32Gi"}),
)
"""Name, keywords and arguments of the seed's branches, in its order."""
_USUAL = {"gpu_count": 1, "gpu_type": "v100", "memory": "16Gi"}

# In the expressions below, a NUL stands for the keyword in its sentence.
_DENIED = re.compile(
    r"\b(?:no|non|not|never|without|neither|nor|cannot|\w+n't|instead\s+of|rather\s+than)[\s-]+"
    r"(?:(?:an?|any|the|on|needs?|requires?|uses?|using|depends?)\s+|[\w-]+(?:\s+n?or\s+|\s*/\s*)){0,4}"
    r"\0(?!\s+(?:memory|errors?|leaks?))"
    r"|\0(?:-free\b|\s*[:=]\s*(?:no|none|not|false|0)\b"
    r"|(?:\s+\w+)?\s+(?:(?:is|are)\s+not|isn't|aren't|not)\s+(?:needed|required|necessary|used)\b)"
)
_WANTED = re.compile(r"\bha(?:ve|s) no \0|(?:\bnot|\bnever|\bcannot|n't|\bimpossible)\b[^,;:]*\bwithout\b[^,;:]*\0")
"""A task that has no GPU, or cannot run without one, needs a GPU."""
_OTHER_MEANINGS = {
    "cv": (
        "a résumé",
        r"r[ée]sum[ée]|curriculum|cover letter|applicant|candidate|recruit|hiring|\0\.(?:pdf|docx?)\b|\0\s+(?:is\s+)?attached"
        r"|\b(?:my|your|his|her|(?:attach|upload|submit|send)\w*(?:\s+(?:an?|the|your))?)\s+\0",
    ),
    "inference": ("a conclusion", r"\b(?:adverse|legal|causal|statistical|type|schema)\s+\0|\0\s+of\s+(?:law|fact)\b"),
    "training": (
        "training of people",
        r"(?:staff|employee|teacher|safety|security|onboarding|compliance)'?s?[\s-]+\0"
        r"|\0\s+(?:(?:of|for|the|our|new|all)\s+)*(?:staff|employees|teachers|people|courses?|sessions?|workshops?|manuals?)\b",
    ),
    "billion": (
        "no number of parameters",
        r"(?:[$€£]|\busd|\beur)\s*[\d.,]*\s*\0"
        r"|\0[\s-]+(?:of\s+)?(?:tokens?|rows?|images?|people|users?|records?|documents?|dollars|euros)\b"
        r"|\A(?!(?s:.*)(?:model|llm|param|weights|transformer|network|checkpoint|train|fine-?tun|inference))",
    ),
}
"""By keyword, another meaning and the signs of it in the sentence."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n\s*\n|\n\s*[-*•]\s")
_NEAR = 100
"""How many characters on either side of a keyword are read, at most."""


@dataclass(frozen=True, slots=True)
class Match:
    """A keyword in a text, with up to three words on either side. `ignored` says why it does not count; empty if it counts."""

    keyword: str
    excerpt: str
    ignored: str

    def __str__(self) -> str:
        return f"{self.keyword}: “{self.excerpt}”" + (f" does not count: {self.ignored}" if self.ignored else "")


@dataclass(frozen=True, slots=True)
class MlWorkload:
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


@dataclass(frozen=True, slots=True)
class GpuRequirements:
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
    return MlWorkload(tuple(_matches(requirements, KEYWORDS)))


def calculate_gpu_requirements(requirements: str) -> GpuRequirements:
    """The GPUs and memory for a description: the seed's first branch with a keyword that counts, otherwise the usual one."""
    matches: tuple[Match, ...] = ()
    for branch, keywords, arguments in _BRANCHES:
        matches += tuple(_matches(requirements, keywords))
        if not all(match.ignored for match in matches):
            return GpuRequirements(branch, arguments, matches)
    return GpuRequirements("usual", _USUAL, matches)


def _matches(text: str, keywords: Mapping[str, str]) -> Iterator[Match]:
    """Every keyword of a text, sentence by sentence. A digit or an underscore ends a word: cuda12, cv_pipeline."""
    for sentence in _SENTENCE_END.split(unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")):
        for keyword, pattern in keywords.items():
            for match in re.finditer(rf"(?<![^\W\d_])(?:{pattern})(?![^\W\d_])", sentence):
                before = sentence[max(0, match.start() - _NEAR) : match.start()]
                after = sentence[match.end() : match.end() + _NEAR]
                yield Match(keyword, _excerpt(before, match[0], after), _ignored(keyword, f"{before}\0{after}"))


def _excerpt(before: str, word: str, after: str) -> str:
    first, last = re.search(r"(?:\S+\s+){0,3}\S*\Z", before), re.match(r"\S*(?:\s+\S+){0,3}", after)
    return " ".join(f"{first[0] if first else ''}{word}{last[0] if last else ''}".split())


def _ignored(keyword: str, context: str) -> str:
    """Why a keyword does not count in its context; empty if it counts."""
    if _DENIED.search(context) and not _WANTED.search(context):
        return "it is denied"
    meaning, signs = _OTHER_MEANINGS.get(keyword, ("", ""))
    return f"it means {meaning}" if signs and re.search(signs, context) else ""
