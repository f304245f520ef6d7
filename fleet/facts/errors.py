"""Errors of input files. Every error names the place, the rule, the value and how to fix it, and masks credentials."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from fleet.facts.credentials import mask, masked
from fleet.facts.record import Record


class Problem(Record):
    """One violation. `path` leads from the config key to the value. `value` is that value as `shown` formats it, or empty.

    `rule` is the short name of the broken rule.
    """

    path: tuple[str, ...]
    message: str
    value: str
    rule: str = ""

    def __post_init__(self) -> None:
        """Mask credentials in the message, which may quote keys and values."""
        object.__setattr__(self, "message", mask(self.message))

    @property
    def where(self) -> str:
        """The path as one line of text: `gpu-ci:clusters.usw2.pools.t4.nodes.min`. Credentials in keys are masked."""
        return ".".join(part if part.isprintable() else shown(part) for part in map(mask, self.path))

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f" (got {self.value})" if self.value else "")


MOST_PROBLEMS = 100
"""The most problems that one error shows. It counts the others."""


class FleetError(Exception):
    """The settings of a stack are wrong. `problems` has the order of the config; `more` is the number of problems left out."""

    def __init__(self, problems: tuple[Problem, ...], more: int = 0) -> None:
        self.problems = problems[:MOST_PROBLEMS]
        if more := more + len(problems) - len(self.problems):
            namespace = problems[0].path[0].partition(":")[0]
            self.problems += (Problem((namespace,), f"{more} more problems; fix these first", ""),)
        super().__init__("\n".join(map(str, self.problems)))


_AT = re.compile(r"(?:(?P<file>[^:\n]+):(?P<line>\d+): )?(?:(?P<path>[^\s;]+): )?(?P<message>.*)", re.DOTALL)
"""The form of an error line: file and line if they are known, a key or an option, the message."""


class Fault(Record):
    """The parts of one error line. `file`, `path`, `rule` and `value` are empty and `line` is None if they are not known."""

    message: str
    file: str = ""
    line: int | None = None
    path: str = ""
    rule: str = ""
    value: str = ""

    @classmethod
    def of(cls, text: str) -> "Fault":
        """The parts of an error line that has them only as text. The message then has the value too."""
        if (at := _AT.fullmatch(text)) is None:
            return cls(text)
        return cls(at["message"], at["file"] or "", int(at["line"]) if at["line"] else None, at["path"] or "")

    def __str__(self) -> str:
        place = f"{self.file}:{self.line or 1}: " if self.file else ""
        return f"{place}{self.path}: {self.message}" + (f"; got {self.value}" if self.value else "")


class InputError(Exception):
    """A file that cannot be used: a stack file, project file, manifest or policy config.

    The text is complete: file and line if they are known, the key, the rule, the value, how to fix it. Credentials are masked. A
    command line program prints only this text and exits with status 2. `faults` has the parts of each line, for programs.
    """

    def __init__(self, text: str, faults: Iterable[Fault] = ()) -> None:
        super().__init__(mask(text))
        self.faults = tuple(faults) or tuple(map(Fault.of, str(self).splitlines()))


@contextmanager
def reachable(what: str, fix: str) -> Iterator[None]:
    """Raise an OSError of the block as an InputError. `what` says which file cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{what} ({error.strerror or error}); {fix}") from error


def instead(word: str, known: Iterable[str], otherwise: str, similar: float = 0.6) -> str:
    """How to fix an unknown word: the most similar known word, or `otherwise` if none is as similar (1.0 is equal)."""
    by_case = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), by_case, n=1, cutoff=similar)
    return f"did you mean {by_case[close[0]]}?" if close else otherwise


def quoted(value: object, limit: int = 80) -> str:
    """A value for an error line as Python writes it: credentials are masked, and a long text is cut."""
    return text if len(text := repr(masked(value))) <= limit else f"{text[: limit - 3]}..."


def shown(value: object, limit: int = 60) -> str:
    """A value as short JSON text for an error line: credentials are masked, invisible characters are escaped."""
    plain = masked(value)
    text = json.dumps(plain, default=str, ensure_ascii=False)
    text = text if text.isprintable() else json.dumps(plain, default=str)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
