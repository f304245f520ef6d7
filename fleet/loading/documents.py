"""Manifests of Kubernetes: the documents of a YAML or JSON file with the line of each key, as kubectl reads them.

No error repeats a value, because it may be a secret.
"""

import json
import re
from pathlib import Path
from typing import NoReturn

from fleet.facts.errors import InputError
from fleet.facts.places import Lines
from fleet.facts.remark import said
from fleet.facts.yaml_text import Document, kubernetes_documents, text_of

_FIRST_LINE = Lines(1)
"""For a document whose other lines are not needed."""
_LINE = re.compile(r":(?P<line>[0-9]+): ")
_ESCAPE = re.compile(r"\\(?:u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})|.)")
_MOST_DIGITS = 20


def documents(path: Path) -> tuple[Document, ...]:
    """The documents of a file. Raises InputError with file and line if it is not valid, and OSError as `text_of` does."""
    is_json = path.suffix.lower() == ".json"
    text = text_of(path, "JSON" if is_json else "YAML")
    return _json(path, text) if is_json else _yaml(path, text)


def _yaml(path: Path, text: str) -> tuple[Document, ...]:
    try:
        return kubernetes_documents(str(path), text)
    except InputError as error:
        # A workflow has expressions of GitHub (${{ … }}).
        if "{{" not in text.replace("${{", ""):
            raise
        at = _LINE.search(str(error), len(str(path)))
        raise InputError(said("unrendered", where=f"{path}:{at['line']}" if at else str(path))) from None


def _json(path: Path, text: str) -> tuple[Document, ...]:
    try:
        value = json.loads(text, parse_int=_integer, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        if not text.lstrip().startswith(("{", "[")):
            return _by_its_looks(path, text)
        if '"apiVersion"' not in text:
            # A settings file of another program, which may contain comments.
            return (Document(text.strip()[:1] or None, _FIRST_LINE),)
        raise InputError(f"{path}:{error.lineno}: not valid JSON: {error.msg} in column {error.colno}; fix the syntax") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}:1: not JSON that kubectl can read ({error}); write another value, or fewer levels") from None
    # Most JSON files are not manifests, and their lines are not needed.
    return (Document(value, _lines(path, text) if isinstance(value, dict) and "apiVersion" in value else _FIRST_LINE),)


def _by_its_looks(path: Path, text: str) -> tuple[Document, ...]:
    """Documents of a file that is JSON by its name only. kubectl too checks whether the text begins with a brace."""
    try:
        parsed = _yaml(path, text)
    except InputError:
        if "apiVersion" in text:
            raise
        return (Document(text.strip()[:1] or None, _FIRST_LINE),)
    if '"apiVersion"' in text and not any(isinstance(document.value, dict | list) for document in parsed):
        raise InputError(f"{path}:1: neither JSON nor YAML with an object in it, though it has an apiVersion; remove comments")
    return parsed


def _lines(path: Path, text: str) -> Lines:
    """The line of every key and item of a valid JSON text, by the reader of YAML.

    Raises InputError for a duplicate key, for values that nest deeper than the limit for YAML, and for a key of more than 1,024
    characters.
    """
    # YAML has no escape of half a character, and takes some characters in a string for line breaks.
    plain = _ESCAPE.sub(lambda escape: " " if escape["half"] else escape[0], text).replace("\x7f", "\\x7f")
    (document,) = kubernetes_documents(str(path), plain.encode("ascii", "backslashreplace").decode())
    return document.lines


def _integer(digits: str) -> int | float:
    # Python does not convert thousands of digits. Integers of Kubernetes have far fewer.
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")
