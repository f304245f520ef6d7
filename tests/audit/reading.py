"""What the tests of the readers share: a folder of small files, and what an audit reads in it."""

from pathlib import Path

from gpu_ci.audit.model import Seen
from gpu_ci.audit.reading import audit


def seen(folder: Path, **files: str) -> Seen:
    """What an audit reads in a folder of these files. A name is that of a YAML file; `__` is a slash, and `_json` ends JSON's."""
    for name, text in files.items():
        plain = name.replace("__", "/")
        path = folder / (plain.removesuffix("_json") + ".json" if plain.endswith("_json") else f"{plain}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return audit(folder)


def unread(found: Seen) -> list[str]:
    """The paths of the keys that no reader took."""
    return sorted(key for _, key in found.unread)
