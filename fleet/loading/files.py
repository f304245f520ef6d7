"""Reads a configuration file of the Pulumi CLI, and creates errors with its name and lines."""

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fleet.facts.errors import Fault, InputError, instead, quoted, reachable
from fleet.facts.places import Keys
from fleet.facts.yaml_text import Document, read_yaml

_KEY = re.compile(r"(?:(?P<namespace>[^:]+):(?:config:)?)?(?P<name>[^:]+)")


class ConfigFile(NamedTuple):
    """A configuration file and its one document."""

    path: Path
    document: Document

    @classmethod
    def read(cls, path: Path, rule: str, fix: str) -> "ConfigFile":
        """Read a file. Raises InputError if it cannot be used; the text has `rule` and `fix` if the file does not exist."""
        with reachable(f"{from_here(path)} cannot be read", "check its permissions and size"):
            if path.is_file():
                return cls(path, read_yaml(from_here(path)))
            fault = "does not exist"
            if path.is_dir():
                fault = "is a folder" + (" (an empty name means the current one)" if path == Path() else "")
            elif path.is_symlink() and not path.exists():
                fault = f"is a link to {path.readlink()}, which does not exist"
            elif path.exists():
                fault = "is not a regular file"
        raise InputError(f"{rule}; {from_here(path)} {fault}; {fix}")

    def mapping(self, at: Keys, value: Any, field: str, fix: str) -> dict[str, Any]:
        """The value if it is a mapping; an empty mapping for None. Raises InputError for any other value."""
        self.refuse_if(value is not None and not isinstance(value, dict), at, field, "must be a mapping", value, fix)
        return value or {}

    def refuse_if(self, broken: object, at: Keys, field: str, rule: str, value: object, fix: str) -> None:
        """Raise the error `wrong` if the rule is broken."""
        if broken:
            raise self.wrong(at, field, rule, value, fix)

    def wrong(self, at: Keys, field: str, rule: str, value: object, fix: str) -> InputError:
        """The error for a broken rule, with the line of the path `at`."""
        field = field if field.isprintable() else repr(field)
        file, line, shown_value = str(from_here(self.path)), self.document.lines.get(at, 1), quoted(value)
        text = f"{file}:{line}: {field}: {rule}; got {shown_value}; {fix}"
        return InputError(text, [Fault(f"{rule}; {fix}", file, line, field, value=shown_value)])

    def full_key(self, at: Keys, project: str, key: str) -> str:
        """The key with its namespace. The default is the project. `<namespace>:config:<name>` is an old spelling."""
        if (match := _KEY.fullmatch(key)) is None:
            raise self.wrong(at, "config", "a key is <namespace>:<name>", key, "correct the key")
        return f"{match['namespace'] or project}:{match['name']}"


def listed(names: Iterable[str]) -> str:
    """Names as text for an error line."""
    return ", ".join(names) or "(there are none)"


def meant(word: str, known: Collection[str]) -> str:
    """How to fix an unknown key: the most similar known key, if there is one."""
    return instead(word, known, "remove it or move it below `config:`")


def from_here(path: Path) -> Path:
    """A path for people: relative to the current folder if it is below it, else as it was given."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
