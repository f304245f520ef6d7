"""Reads a Secret that SOPS encrypted. `make render` copies it into the Git folder only if every value in it is encrypted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from fleet.charts.arc import APP_SECRET
from fleet.facts.errors import InputError
from fleet.facts.limits import read_bytes
from fleet.facts.yaml_text import kubernetes_documents

_ENCRYPTED = re.compile(r"ENC\[AES256_GCM,data:[A-Za-z0-9+/=]*,iv:[A-Za-z0-9+/=]+,tag:[A-Za-z0-9+/=]+,type:[a-z]+\]")
_KEYS = ("github_app_id", "github_app_installation_id", "github_app_private_key")
_PARTS = ("data", "stringData")
_HOW = "encrypt it with: sops encrypt --in-place --encrypted-regex '^(data|stringData)$' <file>"


def encrypted_secret(path: Path, name: str) -> str:
    """The file's text. Raises InputError if it is missing, is not the GitHub App's Secret, or has a value in clear.

    No error repeats a value of the file.
    """
    where = f"gitops.secrets.file: {name}"
    try:
        text = read_bytes(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{where} cannot be read; put the encrypted Secret there, beside the stack file") from error
    try:
        (document,) = kubernetes_documents(name, text)
        if document.fault:
            raise document.fault
    except (InputError, ValueError):  # ValueError: no document, or several
        raise InputError(f"{where} is not YAML with one document; {_HOW}") from None
    secret = document.value
    metadata = secret.get("metadata") if isinstance(secret, Mapping) else None
    if not isinstance(secret, Mapping) or secret.get("kind") != "Secret" or not isinstance(metadata, Mapping):
        raise InputError(f"{where} is not a Secret; write one with the keys {', '.join(_KEYS)}, and {_HOW}")
    if metadata.get("name") != APP_SECRET:
        raise InputError(f"{where} must be a Secret named {APP_SECRET}, because runner sets use that name; rename it")
    parts = (part for part in map(secret.get, _PARTS) if isinstance(part, Mapping))
    values = [(str(key), value) for part in parts for key, value in part.items()]
    clear = sorted({key for key, value in values if not _ENCRYPTED.fullmatch(str(value))})
    if clear or not _sealed(secret.get("sops")):
        raise InputError(f"{where} has values in clear text ({', '.join(clear) or 'no sops block'}); {_HOW}")
    # SOPS encrypts the data alone. kubectl, for example, keeps a copy of the whole Secret in an annotation.
    clear_top = {*map(str, secret)} - {"apiVersion", "kind", "metadata", "type", "sops", *_PARTS}
    clear_metadata = {f"metadata.{key}" for key in metadata if key not in ("name", "namespace", "labels")}
    if astray := sorted(clear_top | clear_metadata):
        raise InputError(f"{where} has {', '.join(astray)}, which SOPS leaves in clear text; remove it, and {_HOW}")
    if "PRIVATE KEY" in text or any(line.lstrip().startswith("#") for line in text.splitlines()):
        raise InputError(f"{where} has a comment or a key in clear text; remove it, and {_HOW}")
    if missing := [key for key in _KEYS if key not in dict(values)]:
        raise InputError(f"{where} lacks {', '.join(missing)}; add them, and {_HOW}")
    return text


def _sealed(block: object) -> bool:
    """Whether SOPS wrote the block: its MAC proves that no encrypted value was changed or removed."""
    return isinstance(block, Mapping) and _ENCRYPTED.fullmatch(str(block.get("mac"))) is not None and bool(block.get("version"))
