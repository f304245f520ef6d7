"""Reads YAML files within the limits of `fleet.facts.limits`, for stack files and manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from fleet.facts.limits import LimitError, bounded, read_bytes
from submit.errors import InputError


def documents(path: Path, name: str) -> list[Any]:
    """The documents of a file. Raises InputError, which calls the file `name` and quotes nothing of it; OSError passes."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
        # ruamel's own loader has no limits, so the events are counted before it starts.
        for _ in bounded(YAML(typ="safe", pure=True).parse(text)):
            pass
        return list(YAML(typ="safe", pure=True).load_all(text))
    except UnicodeDecodeError:
        raise InputError(f"{name}: is no text; save it as UTF-8") from None
    except LimitError as error:
        raise InputError(f"{name}:{error.line}: {error}") from None
    except (YAMLError, ValueError) as error:  # ValueError: a tag says that a text is a number or a date
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        raise InputError(f"{name}:{mark.line + 1 if mark else 1}: is no YAML; correct it") from None
